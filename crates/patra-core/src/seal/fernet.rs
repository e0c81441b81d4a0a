//! Reads Fernet tokens, to import cookies from their previous store (CRAWL-147). Nothing is written in this form.

use aes_gcm_siv::aes::Aes128;
use aes_gcm_siv::aes::cipher::{Block, BlockCipherDecrypt as _, KeyInit as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::Error;
use crate::secret::Secret;

/// Version, time and IV come first; the signature is at the end.
const HEAD: usize = 1 + 8 + 16;
const TAG: usize = 32;
const BLOCK: usize = 16;

/// Opens a token with its key, 32 bytes in base64: the first half signs, the second decrypts.
pub fn open(key: &Secret, token: &str) -> Result<Secret, Error> {
    let key = Zeroizing::new(URL_SAFE.decode(key.expose().trim()).map_err(|_| Error::BadKey)?);
    if key.len() != 32 {
        return Err(Error::BadKey);
    }
    let token = URL_SAFE.decode(token.trim()).map_err(|_| Error::Damaged)?;
    if token.len() < HEAD + BLOCK + TAG || token[0] != 0x80 || !(token.len() - HEAD - TAG).is_multiple_of(BLOCK) {
        return Err(Error::Damaged);
    }
    let (signed, tag) = token.split_at(token.len() - TAG);
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&key[..16]).map_err(|_| Error::BadKey)?;
    mac.update(signed);
    mac.verify_slice(tag).map_err(|_| Error::Forged)?;
    let cipher = Aes128::new_from_slice(&key[16..]).map_err(|_| Error::BadKey)?;
    let mut before: [u8; BLOCK] = signed[9..HEAD].try_into().map_err(|_| Error::Damaged)?;
    let mut text = Zeroizing::new(Vec::with_capacity(signed.len() - HEAD));
    for sealed in signed[HEAD..].chunks_exact(BLOCK) {
        let sealed: [u8; BLOCK] = sealed.try_into().map_err(|_| Error::Damaged)?;
        let mut block: Block<Aes128> = sealed.into();
        cipher.decrypt_block(&mut block);
        text.extend(block.iter().zip(before).map(|(byte, mask)| byte ^ mask));
        before = sealed;
    }
    let padding = usize::from(*text.last().ok_or(Error::Damaged)?);
    if padding == 0 || padding > BLOCK || text[text.len() - padding..].iter().any(|byte| usize::from(*byte) != padding)
    {
        return Err(Error::Damaged);
    }
    std::str::from_utf8(&text[..text.len() - padding]).map(Secret::new).map_err(|_| Error::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the specification of Fernet.
    const KEY: &str = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=";
    const TOKEN: &str =
        "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA==";

    // covers: CRAWL-147
    #[test]
    fn a_token_opens_with_its_key_and_no_changed_one_does() {
        let key = Secret::new(KEY);
        assert_eq!(open(&key, TOKEN).unwrap().expose(), "hello");
        assert_eq!(open(&Secret::new(KEY.replace('x', "y")), TOKEN).err(), Some(Error::Forged));
        for at in (0..TOKEN.len() - 2).step_by(7) {
            let mut text = TOKEN.to_owned().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            assert!(open(&key, std::str::from_utf8(&text).unwrap()).is_err(), "character {at}");
        }
        for damaged in ["", "gAAA", "not base64!", &TOKEN[..60]] {
            assert!(open(&key, damaged).is_err(), "{damaged}");
        }
    }
}

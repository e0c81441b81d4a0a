//! Sealing of secrets at rest: AES-256 in GCM-SIV mode, with a key derived from the master key by HKDF-SHA256. The
//! ids of the key and of the record are bound to the text, so that a sealed text opens only in the row it was made
//! for.
//!
//! The text form is `v1.KEY.NONCE.CIPHERTEXT`: the id of the master key in hex, the rest in base64url. Randomness
//! comes from outside; a repeated nonce reveals only that two secrets are equal.

pub mod fernet;
mod sign;

use std::fmt;

use aes_gcm_siv::aead::{Aead as _, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit as _, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::secret::Secret;

pub const KEY_BYTES: usize = 32;
pub const NONCE_BYTES: usize = 12;
/// Largest text that is sealed. Cookies and private keys are much smaller.
pub const MAX_SECRET: usize = 64 << 10;

/// Shortest text that a key is derived from.
pub const MIN_TEXT: usize = 32;

const VERSION: &str = "v1";

/// Why sealing or opening failed. Shows nothing of the secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error("a master key is {KEY_BYTES} bytes, in base64 or hex")]
    BadKey,
    #[error("a master key of {MIN_TEXT} characters or more is needed: `openssl rand -base64 32` makes one")]
    ShortKey,
    #[error("no master key is given")]
    NoKey,
    #[error("the secret was sealed with the master key {0}, which is not given")]
    UnknownKey(String),
    #[error("the secret does not open: its row was changed, or it is not the one that it was sealed for")]
    Forged,
    #[error("the sealed text is damaged")]
    Damaged,
    #[error("a secret has at most {MAX_SECRET} bytes")]
    TooLong,
    #[error("there is no randomness to seal with: {0}")]
    NoRandomness(String),
}

/// The 32 bytes from which all keys are derived.
#[derive(Clone)]
pub struct MasterKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    id: String,
}

impl MasterKey {
    pub fn new(bytes: [u8; KEY_BYTES]) -> MasterKey {
        let bytes = Zeroizing::new(bytes);
        // Derived separately from the sealing key, so that the id reveals nothing.
        let mut id = [0; 4];
        expand(&bytes, b"patra key id v1", &mut id);
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        MasterKey { bytes, id }
    }

    /// Derives a key from a passphrase of at least [`MIN_TEXT`] characters; `salt` belongs to the installation, so
    /// that one passphrase gives different keys in different installations (CRAWL-143).
    pub fn derive(text: &str, salt: &str) -> Result<MasterKey, Error> {
        let text = text.trim();
        if text.chars().count() < MIN_TEXT {
            return Err(Error::ShortKey);
        }
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        // Fails only for outputs of more than 8160 bytes.
        let expanded =
            Hkdf::<Sha256>::new(Some(salt.as_bytes()), text.as_bytes()).expand(b"patra master key v1", &mut *bytes);
        debug_assert!(expanded.is_ok());
        Ok(MasterKey::new(*bytes))
    }

    /// Reads hex, base64 or base64url, with or without padding.
    pub fn parse(text: &str) -> Result<MasterKey, Error> {
        let text = text.trim();
        let decoded = Zeroizing::new(if text.len() == 2 * KEY_BYTES {
            unhex(text).ok_or(Error::BadKey)?
        } else {
            let any = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text));
            any.or_else(|_| URL_SAFE_NO_PAD.decode(text.trim_end_matches('='))).map_err(|_| Error::BadKey)?
        });
        <[u8; KEY_BYTES]>::try_from(decoded.as_slice()).map(MasterKey::new).map_err(|_| Error::BadKey)
    }

    /// The form that `parse` reads, for the file that keeps it.
    pub fn to_text(&self) -> Secret {
        Secret::new(STANDARD.encode(*self.bytes))
    }

    /// Public: it is part of every sealed text.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn cipher(&self) -> Aes256GcmSiv {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        expand(&self.bytes, b"patra seal v1", &mut *key);
        Aes256GcmSiv::new((&*key).into())
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The master keys of a process: the first seals, each opens what it sealed. To rotate, put a new key before the old
/// one.
#[derive(Clone, Debug)]
pub struct Keyring {
    keys: Vec<MasterKey>,
}

impl Keyring {
    pub fn new(first: MasterKey) -> Keyring {
        Keyring { keys: vec![first] }
    }

    /// Parses keys separated by commas, or by lines.
    pub fn parse(text: &str) -> Result<Keyring, Error> {
        let keys = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty()).map(MasterKey::parse);
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(Error::NoKey) } else { Ok(Keyring { keys }) }
    }

    /// Adds a key that opens, after the existing ones.
    pub fn push(&mut self, key: MasterKey) {
        if self.keys.iter().all(|known| known.id != key.id) {
            self.keys.push(key);
        }
    }

    /// Adds the keys of another ring, after the existing ones.
    pub fn extend(&mut self, others: Keyring) {
        others.keys.into_iter().for_each(|key| self.push(key));
    }

    /// The id of the key that seals.
    pub fn key_id(&self) -> &str {
        self.keys.first().map_or("", MasterKey::id)
    }

    /// Seals `secret` for the row that `record` names. The nonce must be random.
    pub fn seal(&self, record: &str, nonce: [u8; NONCE_BYTES], secret: &Secret) -> Result<String, Error> {
        let key = self.keys.first().ok_or(Error::NoKey)?;
        if secret.expose().len() > MAX_SECRET {
            return Err(Error::TooLong);
        }
        let aad = bound(key.id(), record);
        let payload = Payload { msg: secret.expose().as_bytes(), aad: &aad };
        let sealed = key.cipher().encrypt(&Nonce::from(nonce), payload).map_err(|_| Error::TooLong)?;
        Ok(format!("{VERSION}.{}.{}.{}", key.id(), URL_SAFE_NO_PAD.encode(nonce), URL_SAFE_NO_PAD.encode(sealed)))
    }

    /// Opens a text that was sealed for exactly this record.
    pub fn open(&self, record: &str, sealed: &str) -> Result<Secret, Error> {
        let parts: Vec<_> = sealed.split('.').collect();
        let [VERSION, id, nonce, text] = parts[..] else { return Err(Error::Damaged) };
        let key = self.keys.iter().find(|key| key.id() == id).ok_or_else(|| Error::UnknownKey(shown(id)))?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Error::Damaged);
        let nonce = <[u8; NONCE_BYTES]>::try_from(decode(nonce)?).map_err(|_| Error::Damaged)?;
        let (text, aad) = (decode(text)?, bound(id, record));
        let opened = key.cipher().decrypt(&Nonce::from(nonce), Payload { msg: &text, aad: &aad });
        let opened = Zeroizing::new(opened.map_err(|_| Error::Forged)?);
        std::str::from_utf8(&opened).map(Secret::new).map_err(|_| Error::Damaged)
    }
}

/// The data that a sealed text is bound to. Lengths keep the parts apart.
fn bound(key_id: &str, record: &str) -> Vec<u8> {
    let mut aad = Vec::with_capacity(32 + key_id.len() + record.len());
    for part in ["patra seal", VERSION, key_id, record] {
        aad.extend((part.len() as u64).to_be_bytes());
        aad.extend(part.as_bytes());
    }
    aad
}

fn expand(master: &[u8; KEY_BYTES], info: &[u8], out: &mut [u8]) {
    // Fails only for outputs of more than 8160 bytes; ours have 4 and 32.
    let expanded = Hkdf::<Sha256>::new(None, master).expand(info, out);
    debug_assert!(expanded.is_ok());
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// A key id from a row that may be corrupt.
fn shown(id: &str) -> String {
    id.chars().filter(char::is_ascii_alphanumeric).take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(byte: u8) -> Keyring {
        Keyring::new(MasterKey::new([byte; KEY_BYTES]))
    }

    // covers: ING-3.8-01, MAP-C-03
    #[test]
    fn a_secret_opens_only_with_its_key_for_its_record() {
        let (ring, secret) = (ring(7), Secret::new("canary ü"));
        let sealed = ring.seal("credential:1", [1; NONCE_BYTES], &secret).unwrap();
        assert!(!sealed.contains("canary"));
        assert_eq!(ring.open("credential:1", &sealed), Ok(secret));
        assert_eq!(ring.open("credential:2", &sealed), Err(Error::Forged), "moved to another row");
        let other = Keyring::new(MasterKey::new([8; KEY_BYTES]));
        assert_eq!(other.open("credential:1", &sealed), Err(Error::UnknownKey(ring.key_id().to_owned())));
        // Another key under the same id does not open it either: the id is only a name.
        let renamed = sealed.replace(ring.key_id(), other.key_id());
        assert_eq!(other.open("credential:1", &renamed), Err(Error::Forged));
    }

    // covers: CRAWL-143, CRAWL-189
    #[test]
    fn a_text_gives_another_key_in_every_installation() {
        let text = "correct horse battery staple, twice";
        let derive = |text, salt| MasterKey::derive(text, salt).map(|key| key.id().to_owned());
        assert_eq!(derive(text, "a"), derive(text, "a"));
        assert_ne!(derive(text, "a"), derive(text, "b"));
        assert_eq!(derive(&text[..31], "a"), Err(Error::ShortKey));
        assert!(derive(&text[..32], "a").is_ok());
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let ring = ring(7);
        let sealed = ring.seal("r", [1; NONCE_BYTES], &Secret::new("canary")).unwrap();
        for at in 0..sealed.len() {
            let mut text: Vec<u8> = sealed.clone().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            let opened = ring.open("r", std::str::from_utf8(&text).unwrap());
            // Unused bits at the end of base64 are refused by the decoder.
            assert!(opened.is_err(), "character {at}");
        }
        for damaged in ["", "v1", "v2.a.b.c", "v1.a.b.c.d", &sealed[..sealed.len() - 8]] {
            assert!(ring.open("r", damaged).is_err(), "{damaged}");
        }
    }

    // covers: CRAWL-148
    #[test]
    fn no_text_opens_that_was_moved_changed_or_sealed_with_another_key() {
        const ROUNDS: u32 = 10_000;
        let (mut rng, right, wrong) = (crate::rng::Rng::new(11), ring(7), ring(8));
        for round in 0..ROUNDS {
            let mut nonce = [0; NONCE_BYTES];
            nonce[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
            let record = format!("r{round}");
            let sealed = right.seal(&record, nonce, &Secret::new(format!("canary {round}"))).unwrap();
            assert!(right.open(&format!("r{}", round + 1), &sealed).is_err(), "moved");
            assert!(wrong.open(&record, &sealed.replace(right.key_id(), wrong.key_id())).is_err(), "another key");
            let mut text: Vec<&str> = sealed.split('.').collect();
            let part = 2 + rng.below(2) as usize;
            let mut bytes = URL_SAFE_NO_PAD.decode(text[part]).unwrap();
            let at = rng.below(bytes.len() as u64 * 8) as usize;
            bytes[at / 8] ^= 1 << (at % 8);
            let flipped = URL_SAFE_NO_PAD.encode(bytes);
            text[part] = &flipped;
            assert!(right.open(&record, &text.join(".")).is_err(), "a bit flipped");
        }
    }

    #[test]
    fn the_form_is_stable() {
        // A text written by an earlier version.
        let sealed = ring(7).seal("r", [1; NONCE_BYTES], &Secret::new("canary")).unwrap();
        assert_eq!(sealed, "v1.cbffb4a0.AQEBAQEBAQEBAQEB.PsJVaclZZ-2ceEC7IhrK5P5voTjg3Q");
    }

    #[test]
    fn new_master_key_goes_before_the_old_one() {
        let old = ring(7).seal("r", [1; NONCE_BYTES], &Secret::new("canary")).unwrap();
        let text = format!("{},{}", "08".repeat(KEY_BYTES), MasterKey::new([7; KEY_BYTES]).to_text().expose());
        let both = Keyring::parse(&text).unwrap();
        assert_eq!(both.open("r", &old).unwrap().expose(), "canary");
        let new = both.seal("r", [1; NONCE_BYTES], &Secret::new("canary")).unwrap();
        assert!(ring(8).open("r", &new).is_ok() && ring(7).open("r", &new).is_err());
    }

    #[test]
    fn keys_are_read_from_hex_and_base64_and_nothing_else() {
        let key = MasterKey::new([0xfb; KEY_BYTES]);
        let padded = key.to_text();
        let (padded, hex) = (padded.expose(), "FB".repeat(KEY_BYTES));
        let url = padded.replace('+', "-").replace('/', "_");
        for text in [padded, padded.trim_end_matches('='), &url, &hex, &format!(" {padded}\n")] {
            assert_eq!(MasterKey::parse(text).unwrap().id(), key.id(), "{text}");
        }
        for text in ["", "canary", &"ff".repeat(31), &"f".repeat(65), &"zz".repeat(32), &format!("{hex}00")] {
            assert_eq!(MasterKey::parse(text).err(), Some(Error::BadKey), "{text}");
        }
        assert!(matches!(Keyring::parse(" , "), Err(Error::NoKey)));
    }

    #[test]
    fn nothing_shows_a_key_or_a_secret() {
        let ring = ring(7);
        let long = ring.seal("r", [0; NONCE_BYTES], &Secret::new("c".repeat(MAX_SECRET + 1)));
        assert_eq!(long, Err(Error::TooLong));
        let shown = format!("{ring:?} {:?}", ring.open("r", "v1.<script>.x.y"));
        assert!(!shown.contains("7, 7") && !shown.contains('<'), "{shown}");
    }
}

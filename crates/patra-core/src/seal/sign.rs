//! Signatures of exported files: HMAC-SHA256 with a separate key derived from the master key. The holder of the
//! master key can verify that a text is unchanged; nobody else can sign one.
//!
//! The text form is `v1.KEY.MAC`: the id of the master key in hex, the rest in base64url.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{Error, KEY_BYTES, Keyring, MasterKey, VERSION, expand, shown};

impl Keyring {
    /// Signs `text` with the newest key.
    pub fn sign(&self, text: &[u8]) -> Result<String, Error> {
        let key = self.keys.first().ok_or(Error::NoKey)?;
        let mac = key.mac(text)?.finalize().into_bytes();
        Ok(format!("{VERSION}.{}.{}", key.id(), URL_SAFE_NO_PAD.encode(mac)))
    }

    /// Verifies that `signature` was made over exactly this text, with any of the keys.
    pub fn verify(&self, text: &[u8], signature: &str) -> Result<(), Error> {
        let parts: Vec<_> = signature.split('.').collect();
        let [VERSION, id, mac] = parts[..] else { return Err(Error::Damaged) };
        let key = self.keys.iter().find(|key| key.id() == id).ok_or_else(|| Error::UnknownKey(shown(id)))?;
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| Error::Damaged)?;
        // Constant-time comparison.
        key.mac(text)?.verify_slice(&mac).map_err(|_| Error::Forged)
    }
}

impl MasterKey {
    fn mac(&self, text: &[u8]) -> Result<Hmac<Sha256>, Error> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        expand(&self.bytes, b"patra sign v1", &mut *key);
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&*key).map_err(|_| Error::BadKey)?;
        mac.update(text);
        Ok(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(byte: u8) -> Keyring {
        Keyring::new(MasterKey::new([byte; KEY_BYTES]))
    }

    // covers: G-14
    #[test]
    fn signature_verifies_only_its_text_and_key() {
        let signature = ring(7).sign(b"a text").unwrap();
        assert_eq!(ring(7).verify(b"a text", &signature), Ok(()));
        assert_eq!(ring(7).verify(b"a texT", &signature), Err(Error::Forged));
        let unknown = ring(8).verify(b"a text", &signature);
        assert_eq!(unknown, Err(Error::UnknownKey(ring(7).key_id().to_owned())));
        let renamed = signature.replace(ring(7).key_id(), ring(8).key_id());
        assert_eq!(ring(8).verify(b"a text", &renamed), Err(Error::Forged));
        let both = Keyring { keys: vec![MasterKey::new([8; KEY_BYTES]), MasterKey::new([7; KEY_BYTES])] };
        assert_eq!(both.verify(b"a text", &signature), Ok(()), "an older key still verifies");
    }

    #[test]
    fn malformed_signature_is_refused() {
        for text in ["", "v1", "v1.a", "v2.a.b", "v1.a.b.c", "v1.<b>.x"] {
            assert!(ring(7).verify(b"a text", text).is_err(), "{text}");
        }
        let signature = ring(7).sign(b"a text").unwrap();
        assert!(ring(7).verify(b"a text", &signature[..signature.len() - 4]).is_err());
        // A text written by an earlier version.
        assert!(signature.starts_with("v1.cbffb4a0."), "{signature}");
    }
}

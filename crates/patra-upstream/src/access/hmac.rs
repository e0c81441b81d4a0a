//! SHA-256 and HMAC (RFC 2104) over it, as lower-case hex.

use sha2::{Digest, Sha256};

/// Block size of SHA-256, in bytes.
const BLOCK: usize = 64;

pub(crate) fn sha256_hex(message: &[u8]) -> String {
    hex(&Sha256::digest(message))
}

pub(crate) fn hmac_sha256_hex(key: &[u8], message: &[u8]) -> String {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    hex(&Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From RFC 4231: cases 2 and 6, a short key and one longer than a block.
    #[test]
    fn hmac_matches_rfc_4231() {
        let short = hmac_sha256_hex(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(short, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac_sha256_hex(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(long, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
        assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}

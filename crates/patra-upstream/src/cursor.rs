//! Cursor tokens: opaque, with a checksum, and always containing `+`, `/` and `=`, so that a client that does not
//! escape them is detected.

use crate::base64::{decode, encode};
use crate::rng::mix;

/// The position of a listing: a boundary between records, not a rank, so that a late record neither shifts nor repeats
/// the pages after the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CursorToken {
    pub(crate) boundary: u64,
    /// Page number from 1; only used by scripts that repeat tokens.
    pub(crate) page: u32,
}

/// Encodes to `+/`, which a client must escape.
const PREFIX: [u8; 2] = [0xFB, 0xF0];

impl CursorToken {
    pub(crate) fn to_token(self) -> String {
        encode(&self.to_bytes())
    }

    pub(crate) fn from_token(token: &str) -> Option<Self> {
        let bytes: [u8; 16] = decode(token)?.try_into().ok()?;
        let page = u32::from_be_bytes(bytes[2..6].try_into().ok()?);
        let mut boundary = [0; 8];
        boundary[2..].copy_from_slice(&bytes[6..12]);
        let cursor = Self { boundary: u64::from_be_bytes(boundary), page };
        // Comparing the whole token also rejects a wrong checksum and stray bits of base64.
        (cursor.to_token() == token).then_some(cursor)
    }

    fn to_bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..2].copy_from_slice(&PREFIX);
        out[2..6].copy_from_slice(&self.page.to_be_bytes());
        out[6..12].copy_from_slice(&self.boundary.to_be_bytes()[2..]);
        let check = mix(self.boundary ^ (u64::from(self.page) << 32)).to_be_bytes();
        out[12..].copy_from_slice(&check[..4]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_needs_escaping_and_comes_back() {
        for boundary in [0, 1, 99, 1_000_000, (1 << 48) - 1] {
            let cursor = CursorToken { boundary, page: 7 };
            let token = cursor.to_token();
            assert!(token.starts_with("+/") && token.ends_with("=="), "{token}");
            assert_eq!(CursorToken::from_token(&token), Some(cursor));
        }
    }

    #[test]
    fn invalid_tokens_are_rejected() {
        let token = CursorToken { boundary: 5, page: 1 }.to_token();
        let unescaped = token.replace('+', " ");
        let touched = token.replacen('A', "B", 1);
        for bad in ["", "*", "abc", "+/==", &unescaped, &touched, token.trim_end_matches('=')] {
            assert_eq!(CursorToken::from_token(bad), None, "{bad}");
        }
    }
}

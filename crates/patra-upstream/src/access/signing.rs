//! Signed requests. What is signed is five lines, joined by line feeds:
//!
//! ```text
//! GET                                  the method
//! /offset                              the path
//! limit=10&from=2024-01-01             the query as sent, without the parameters of the signature
//! e3b0c44298fc1c14…                    SHA-256 of the body, in hex; that of nothing for none
//! 1704067200                           the time of signing, in seconds since 1970
//! ```
//!
//! The signature is HMAC-SHA256 of that text, in hex. It travels with the id of the key and the time, either as the
//! headers `X-Key-Id`, `X-Timestamp`, `X-Signature` or as the parameters `key_id`, `timestamp`, `signature`.

use super::hmac::{hmac_sha256_hex, sha256_hex};
use crate::script::Signing;

/// The parameters that carry a signature in a query, and are not part of what is signed.
pub(crate) const PARAMETERS: [&str; 3] = ["key_id", "timestamp", "signature"];
/// The headers that carry it otherwise.
pub(crate) const HEADERS: [&str; 3] = ["X-Key-Id", "X-Timestamp", "X-Signature"];

/// What a signature is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToSign<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Without the question mark; parameters of an earlier signature are left out of account.
    pub query: &'a str,
    /// See [`body_sha256`].
    pub body_sha256: &'a str,
    /// In seconds since 1970.
    pub timestamp: i64,
}

/// The signature that the far side expects, for tests that sign by themselves.
pub fn sign(secret: &str, request: &ToSign<'_>) -> String {
    let ToSign { method, path, query, body_sha256, timestamp } = request;
    let unsigned: Vec<&str> = query.split('&').filter(|pair| !is_ours(pair)).collect();
    let text = format!("{method}\n{path}\n{}\n{body_sha256}\n{timestamp}", unsigned.join("&"));
    hmac_sha256_hex(secret.as_bytes(), text.as_bytes())
}

/// SHA-256 in hex, as it goes into a signature.
pub fn body_sha256(body: &[u8]) -> String {
    sha256_hex(body)
}

/// Key id, time and signature as a request shows them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) key_id: &'a str,
    pub(crate) timestamp: &'a str,
    pub(crate) signature: &'a str,
}

/// Whether the signature is right and fresh; `now` in seconds since 1970.
pub(crate) fn is_valid(signing: &Signing, shown: Shown<'_>, request: &ToSign<'_>, now: i64) -> bool {
    let Ok(timestamp) = shown.timestamp.parse::<i64>() else { return false };
    let fresh = now.abs_diff(timestamp) <= signing.tolerance_secs;
    let expected = sign(&signing.secret, &ToSign { timestamp, ..*request });
    shown.key_id == signing.key_id && fresh && shown.signature == expected
}

fn is_ours(pair: &str) -> bool {
    PARAMETERS.contains(&pair.split('=').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: ToSign<'_> =
        ToSign { method: "GET", path: "/offset", query: "limit=10", body_sha256: "", timestamp: 1_704_067_200 };

    #[test]
    fn each_part_counts() {
        let signing = Signing::default();
        let body = body_sha256(b"");
        let request = ToSign { body_sha256: &body, ..REQUEST };
        let signature = sign(&signing.secret, &request);
        let valid = |request: &ToSign<'_>, key_id: &str, timestamp: &str, now: i64| {
            is_valid(&signing, Shown { key_id, timestamp, signature: &signature }, request, now)
        };
        let (key_id, time, now) = (signing.key_id.as_str(), "1704067200", REQUEST.timestamp);
        assert!(valid(&request, key_id, time, now));
        assert!(valid(&request, key_id, time, now + 300));
        assert!(!valid(&request, key_id, time, now + 301));
        assert!(!valid(&request, key_id, time, now - 301));
        assert!(!valid(&request, key_id, "1704067201", now));
        assert!(!valid(&request, "another", time, now));
        assert!(!valid(&ToSign { method: "POST", ..request }, key_id, time, now));
        assert!(!valid(&ToSign { path: "/page", ..request }, key_id, time, now));
        assert!(!valid(&ToSign { query: "limit=11", ..request }, key_id, time, now));
        assert!(!valid(&ToSign { body_sha256: &body_sha256(b"x"), ..request }, key_id, time, now));
    }

    #[test]
    fn a_signature_does_not_sign_itself() {
        let query = "key_id=k&limit=10&signature=abc&timestamp=1";
        assert_eq!(sign("s", &ToSign { query, ..REQUEST }), sign("s", &REQUEST));
    }
}

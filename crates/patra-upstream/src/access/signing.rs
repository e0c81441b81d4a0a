//! Signed requests. The signed text is five lines, joined by line feeds:
//!
//! ```text
//! GET                                  the method
//! /offset                              the path
//! limit=10&from=2024-01-01             the query as sent, without the parameters of the signature
//! e3b0c44298fc1c14…                    SHA-256 of the body, in hex; that of nothing for none
//! 1704067200                           the time of signing, in seconds since 1970
//! ```
//!
//! The signature is HMAC-SHA256 of that text, in hex. It is sent with the key id and the time, either as the headers
//! `X-Key-Id`, `X-Timestamp`, `X-Signature` or as the parameters `key_id`, `timestamp`, `signature`.

use super::hmac::{hmac_sha256_hex, sha256_hex};
use crate::script::RequestSigning;

/// The query parameters that carry a signature; they are not part of the signed text.
pub(crate) const PARAMETERS: [&str; 3] = ["key_id", "timestamp", "signature"];
/// The headers that carry a signature.
pub(crate) const HEADERS: [&str; 3] = ["X-Key-Id", "X-Timestamp", "X-Signature"];

/// The parts of a request that are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SigningInput<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Query without the question mark; the parameters of a signature are ignored.
    pub query: &'a str,
    /// Hash of the body, see [`body_sha256`].
    pub body_sha256: &'a str,
    /// Time of signing, in seconds since 1970.
    pub timestamp: i64,
}

/// The signature that the mock API expects, for tests that sign themselves.
pub fn sign(secret: &str, request: &SigningInput<'_>) -> String {
    let SigningInput { method, path, query, body_sha256, timestamp } = request;
    let unsigned: Vec<&str> = query.split('&').filter(|pair| !is_signature_parameter(pair)).collect();
    let text = format!("{method}\n{path}\n{}\n{body_sha256}\n{timestamp}", unsigned.join("&"));
    hmac_sha256_hex(secret.as_bytes(), text.as_bytes())
}

/// SHA-256 of a body in hex, as used in a signature.
pub fn body_sha256(body: &[u8]) -> String {
    sha256_hex(body)
}

/// Key id, time and signature of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PresentedSignature<'a> {
    pub(crate) key_id: &'a str,
    pub(crate) timestamp: &'a str,
    pub(crate) signature: &'a str,
}

/// Whether the signature is correct and recent; `now` is in seconds since 1970.
pub(crate) fn is_valid(
    signing: &RequestSigning,
    presented: PresentedSignature<'_>,
    request: &SigningInput<'_>,
    now: i64,
) -> bool {
    let Ok(timestamp) = presented.timestamp.parse::<i64>() else { return false };
    let fresh = now.abs_diff(timestamp) <= signing.tolerance_secs;
    let expected = sign(&signing.secret, &SigningInput { timestamp, ..*request });
    presented.key_id == signing.key_id && fresh && presented.signature == expected
}

fn is_signature_parameter(pair: &str) -> bool {
    PARAMETERS.contains(&pair.split('=').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: SigningInput<'_> =
        SigningInput { method: "GET", path: "/offset", query: "limit=10", body_sha256: "", timestamp: 1_704_067_200 };

    #[test]
    fn every_part_changes_the_signature() {
        let signing = RequestSigning::default();
        let body = body_sha256(b"");
        let request = SigningInput { body_sha256: &body, ..REQUEST };
        let signature = sign(&signing.secret, &request);
        let valid = |request: &SigningInput<'_>, key_id: &str, timestamp: &str, now: i64| {
            is_valid(&signing, PresentedSignature { key_id, timestamp, signature: &signature }, request, now)
        };
        let (key_id, time, now) = (signing.key_id.as_str(), "1704067200", REQUEST.timestamp);
        assert!(valid(&request, key_id, time, now));
        assert!(valid(&request, key_id, time, now + 300));
        assert!(!valid(&request, key_id, time, now + 301));
        assert!(!valid(&request, key_id, time, now - 301));
        assert!(!valid(&request, key_id, "1704067201", now));
        assert!(!valid(&request, "another", time, now));
        assert!(!valid(&SigningInput { method: "POST", ..request }, key_id, time, now));
        assert!(!valid(&SigningInput { path: "/page", ..request }, key_id, time, now));
        assert!(!valid(&SigningInput { query: "limit=11", ..request }, key_id, time, now));
        assert!(!valid(&SigningInput { body_sha256: &body_sha256(b"x"), ..request }, key_id, time, now));
    }

    #[test]
    fn signature_does_not_sign_itself() {
        let query = "key_id=k&limit=10&signature=abc&timestamp=1";
        assert_eq!(sign("s", &SigningInput { query, ..REQUEST }), sign("s", &REQUEST));
    }
}

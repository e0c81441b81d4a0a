//! Content addresses: SHA-256 over canonical JSON, lower-case hex, with a version prefix so that the rule can change
//! (G-20).

use std::fmt::Write;

use hmac::{Hmac, Mac as _};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// `v1:` and the SHA-256 of the parts. Each part is preceded by its length, so that no two lists of parts collide.
pub fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut text = String::with_capacity(67);
    text.push_str("v1:");
    push_hex(&mut text, &hasher.finalize());
    text
}

/// The bare SHA-256 of some bytes in hex, for samples, keys and names.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    push_hex(&mut text, bytes);
    text
}

/// HMAC-SHA256 in hex, for receivers to verify the sender.
pub fn hmac_sha256_hex(key: &[u8], text: &[u8]) -> String {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key) else { return String::new() };
    mac.update(text);
    hex(&mac.finalize().into_bytes())
}

/// XXH3: distinguishes two payloads of one record, and a page from the one before. Every collected byte goes through
/// it; a cryptographic hash would take a tenth of all time, and nobody gains from a collision of two contents of his
/// own record.
pub fn content_hash(bytes: &[u8]) -> [u8; 16] {
    twox_hash::XxHash3_128::oneshot(bytes).to_be_bytes()
}

/// 128 bits of BLAKE3, for ids and tokens: an item with the hash of another is taken for it, and skipped.
pub fn id_hash(bytes: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    short
}

/// Algorithm name and BLAKE3 of some bytes in hex, for bodies and results.
pub fn body_hash(bytes: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(bytes).to_hex())
}

/// JSON with sorted keys and no insignificant space.
pub fn canonical(value: &Value) -> String {
    let mut out = String::with_capacity(256);
    write_canonical(value, &mut out);
    out
}

/// A text as a canonical JSON string, with quotes and escapes.
pub fn canonical_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_string(text, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(value, out);
            }
            out.push(']');
        }
        Value::String(text) => write_string(text, out),
        scalar => push(scalar, out),
    }
}

/// A text as JSON. Most need no escape and are copied as they are.
fn write_string(text: &str, out: &mut String) {
    let plain = |byte| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        push(&Value::from(text), out);
    }
}

fn push(value: &Value, out: &mut String) {
    write!(out, "{value}").expect("writing to a String does not fail");
}

fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_ignores_key_order_and_space() {
        let a: Value = serde_json::from_str(r#"{ "b": [1, {"y":null,"x":"ü"}], "a": 1.5 }"#).unwrap();
        assert_eq!(canonical(&a), r#"{"a":1.5,"b":[1,{"x":"ü","y":null}]}"#);
    }

    #[test]
    fn canonical_text_is_escaped_as_json_is() {
        for text in ["", "plain ü \u{7f}/", "a\"b", "a\\b", "line\nbreak", "\u{0}\u{1f}"] {
            let value = Value::from(text);
            assert_eq!(canonical_text(text), value.to_string());
            let object = Value::from_iter([(text, value.clone())]);
            assert_eq!(canonical(&object), format!("{{{value}:{value}}}"));
        }
    }

    #[test]
    fn digests_are_versioned_and_keep_parts_apart() {
        assert!(digest(&["a"]).starts_with("v1:"));
        assert_eq!(digest(&["a"]).len(), 67);
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}

//! API keys: `patra_<8 hex digits>_<48 hex digits>`. The middle part is public and identifies the row; the database
//! stores a SHA-256 of the whole key, so a copy of the database gives no access.

use subtle::ConstantTimeEq as _;

use patra_core::hash::sha256_hex;
use patra_core::tx::{CreateKey, KeyScope};

/// Most bytes of a key's name.
const MAX_NAME_BYTES: usize = 128;

/// The trimmed name of a key, if it is valid.
pub fn checked_name(name: &str) -> Result<&str, String> {
    let name = name.trim();
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(char::is_control) {
        return Err(format!("a key needs a name of 1 to {MAX_NAME_BYTES} bytes, without control characters"));
    }
    Ok(name)
}

/// Generates a key: the text for its owner, and the row to store.
pub fn generate(
    name: &str,
    scope: KeyScope,
    projects: Vec<String>,
    shared: bool,
    only_first: bool,
) -> Result<(String, CreateKey), getrandom::Error> {
    let (prefix, secret) = (random_hex::<4>()?, random_hex::<24>()?);
    let text = format!("patra_{prefix}_{secret}");
    let create = CreateKey {
        prefix,
        hash: sha256_hex(text.as_bytes()),
        name: name.to_owned(),
        scope,
        projects,
        shared,
        only_first,
    };
    Ok((text, create))
}

/// The public part of a key, if the text has the format of one.
pub(crate) fn prefix(text: &str) -> Option<&str> {
    let (prefix, secret) = text.strip_prefix("patra_")?.split_once('_')?;
    let hex = |part: &str, len| part.len() == len && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hex(prefix, 8) && hex(secret, 48)).then_some(prefix)
}

/// Compares a key with a stored hash in constant time.
pub(crate) fn matches(text: &str, hash: &str) -> bool {
    sha256_hex(text.as_bytes()).as_bytes().ct_eq(hash.as_bytes()).into()
}

/// Fills the buffer with random bytes of the operating system.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    getrandom::fill(bytes)
}

/// `N` random bytes as hex digits.
pub fn random_hex<const N: usize>() -> Result<String, getrandom::Error> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A random UUID (version 4).
pub fn random_uuid() -> Result<String, getrandom::Error> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_a_public_part_and_matches_its_hash() {
        let (text, create) = generate("first", KeyScope::Admin, Vec::new(), false, true).unwrap();
        assert_eq!(prefix(&text), Some(create.prefix.as_str()));
        assert!(matches(&text, &create.hash));
        assert!(!matches(&format!("{text}0"), &create.hash));
        assert!(!create.hash.contains(&text[15..]));
    }

    #[test]
    fn malformed_key_has_no_prefix() {
        for text in ["", "patra_", "patra_12345678_short", "other_12345678_0", "patra_1234567é_0"] {
            assert_eq!(prefix(text), None, "{text}");
        }
    }
}

//! API keys. Only the hash is stored; the key itself is returned once, when it is created.

use serde::{Deserialize, Serialize};

/// What a key may do. Each includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyScope {
    Read,
    Write,
    Admin,
}

impl KeyScope {
    pub fn as_str(self) -> &'static str {
        match self {
            KeyScope::Read => "read",
            KeyScope::Write => "write",
            KeyScope::Admin => "admin",
        }
    }
}

impl std::str::FromStr for KeyScope {
    type Err = crate::state::UnknownValue;
    fn from_str(text: &str) -> Result<KeyScope, Self::Err> {
        [KeyScope::Read, KeyScope::Write, KeyScope::Admin]
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| crate::state::UnknownValue { kind: "scope", value: text.to_owned() })
    }
}

/// Stores a key by its hash. With `only_first`, only when no key was ever created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateKey {
    /// The public part of the key, by which it is found and shown.
    pub prefix: String,
    /// SHA-256 of the whole key, hex.
    pub hash: String,
    pub name: String,
    pub scope: KeyScope,
    /// The projects that the key may act for; empty for all.
    pub projects: Vec<String>,
    /// The key may write what all projects see.
    pub shared: bool,
    pub only_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyCreated {
    pub created: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevokeKey {
    pub prefix: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRevoked {
    pub revoked: bool,
}

//! API keys. Only the hash is stored; the key itself exists once, in the answer to its maker.

use serde::{Deserialize, Serialize};

/// What a key may do. Each includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Read,
    Write,
    Admin,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = crate::state::UnknownWord;
    fn from_str(text: &str) -> Result<Scope, Self::Err> {
        [Scope::Read, Scope::Write, Scope::Admin]
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| crate::state::UnknownWord { kind: "scope", word: text.to_owned() })
    }
}

/// Stores a key by its hash. With `only_first`, only when no key has ever been made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateKey {
    /// The public part, by which it is found and named.
    pub prefix: String,
    /// SHA-256 of the whole key, hex.
    pub hash: String,
    pub name: String,
    pub scope: Scope,
    /// The only projects that it may act for; empty for all.
    pub projects: Vec<String>,
    /// It may write what all projects see.
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

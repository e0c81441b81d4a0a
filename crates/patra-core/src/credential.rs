//! Credentials: bindings, the order in which they are tried, and tokens. Secrets stay sealed here; [`crate::seal`]
//! opens them.

use serde::Deserialize;
use zeroize::Zeroizing;

use crate::hash::canonical_text;
use crate::id::CredentialId;
use crate::registry::WHOLE;
use crate::secret::{Secret, Secrets};
use crate::state::{AuthType, CredentialStatus, TokenStatus};
use crate::time::Ts;

/// Longest alias.
pub const MAX_ALIAS: usize = 64;
/// Maximum names in one credential.
pub const MAX_NAMES: usize = 32;
/// Smaller is tried first.
pub const DEFAULT_PRIORITY: i32 = 100;

/// Alias of a credential, and the source and endpoint that it is for. Versions of one binding follow each other
/// (C-59).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Binding {
    pub alias: String,
    /// A source, or [`WHOLE`]: any source whose manifest names the alias.
    pub provenance_code: String,
    /// An endpoint of it, or [`WHOLE`].
    pub endpoint_name: String,
}

impl Binding {
    /// The record that the sealed text of a version is bound to.
    pub fn record(&self, version: i64) -> String {
        serde_json::json!(["credential", self.alias, self.provenance_code, self.endpoint_name, version]).to_string()
    }

    fn fits(&self, provenance_code: &str, endpoint_name: &str) -> bool {
        let fits = |bound: &str, name: &str| bound == WHOLE || bound == name;
        fits(&self.provenance_code, provenance_code) && fits(&self.endpoint_name, endpoint_name)
    }
}

/// The record that the sealed token of a credential is bound to.
pub fn token_record(credential: CredentialId) -> String {
    format!("token:{credential}")
}

/// One version of a credential with its runtime half.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    pub id: CredentialId,
    pub binding: Binding,
    pub version: i64,
    pub auth_type: AuthType,
    pub priority: i32,
    /// Empty once the credential is revoked.
    pub sealed: String,
    pub status: CredentialStatus,
    pub state: CredentialRuntime,
}

/// State that changes while a credential is used. A credential that was never used has the default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CredentialRuntime {
    /// Rises with every stored token.
    pub version: i64,
    /// The newest token.
    pub sealed: Option<String>,
    pub expires_at: Option<Ts>,
    pub status: TokenStatus,
    pub fail_count: u32,
    pub last_error: Option<String>,
    pub updated_at: Option<Ts>,
}

impl Default for CredentialRuntime {
    fn default() -> CredentialRuntime {
        CredentialRuntime {
            version: 0,
            sealed: None,
            expires_at: None,
            status: TokenStatus::Active,
            fail_count: 0,
            last_error: None,
            updated_at: None,
        }
    }
}

/// Selects the credentials for a request.
#[derive(Clone, Copy, Debug)]
pub struct CredentialQuery<'a> {
    pub provenance_code: &'a str,
    pub endpoint_name: &'a str,
    /// The alias that the manifest names.
    pub alias: &'a str,
    pub auth_type: AuthType,
    /// The version that the task was planned with.
    pub pinned: Option<CredentialId>,
}

/// Usable credentials, in the order in which they are tried (G-15): the alias that the manifest names before others
/// of the source, one bound to the endpoint before one bound to the source, then by priority, then by id. The newest
/// version of each binding counts, and the pinned one comes before it. Rejected ones are tried last.
///
/// A credential that is bound to no source serves only where a manifest names it: a key must not leak to other
/// upstreams.
pub fn choose(credentials: Vec<Credential>, query: &CredentialQuery<'_>) -> Vec<Credential> {
    let usable = |one: &Credential| {
        let Binding { alias, provenance_code, .. } = &one.binding;
        one.status == CredentialStatus::Active
            && one.auth_type == query.auth_type
            && one.binding.fits(query.provenance_code, query.endpoint_name)
            && (alias == query.alias || provenance_code != WHOLE)
    };
    let mut chosen: Vec<_> = credentials.into_iter().filter(usable).collect();
    let newest = |one: &Credential| !chosen.iter().any(|two| two.binding == one.binding && two.version > one.version);
    let keep: Vec<_> = chosen.iter().map(|one| query.pinned == Some(one.id) || newest(one)).collect();
    let mut keep = keep.into_iter();
    chosen.retain(|_| keep.next().unwrap_or(false));
    // The pinned one is for the alias that was chosen then; an endpoint that names another has its own.
    let named = chosen.iter().any(|one| one.binding.alias == query.alias);
    let is_pinned = |one: &Credential| query.pinned == Some(one.id) && (one.binding.alias == query.alias || !named);
    chosen.sort_by_key(|one| {
        let Binding { alias, provenance_code, endpoint_name } = &one.binding;
        (
            one.state.status == TokenStatus::Rejected,
            !is_pinned(one),
            alias != query.alias,
            (provenance_code == WHOLE, endpoint_name == WHOLE),
            one.priority,
            one.id,
        )
    });
    chosen
}

/// An access token, and the refresh token to get the next one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AccessToken {
    pub access: Secret,
    /// The newest refresh token: upstreams that rotate it accept each only once.
    #[serde(default)]
    pub refresh: Option<Secret>,
}

impl AccessToken {
    /// The text to seal.
    pub fn to_text(&self) -> Secret {
        let mut named = Secrets::from([("access".to_owned(), self.access.clone())]);
        named.extend(self.refresh.clone().map(|refresh| ("refresh".to_owned(), refresh)));
        to_text(&named)
    }

    pub fn from_text(text: &Secret) -> Option<AccessToken> {
        serde_json::from_str(text.expose()).ok()
    }
}

/// The values of a credential as the text to seal: a JSON object.
pub fn to_text(secrets: &Secrets) -> Secret {
    let mut text = Zeroizing::new(String::from("{"));
    for (name, secret) in secrets {
        if text.len() > 1 {
            text.push(',');
        }
        let value = Zeroizing::new(canonical_text(secret.expose()));
        text.push_str(&canonical_text(name));
        text.push(':');
        text.push_str(&value);
    }
    text.push('}');
    Secret::new(text.as_str())
}

pub fn from_text(text: &Secret) -> Option<Secrets> {
    serde_json::from_str(text.expose()).ok()
}

/// A name that a template can use: letters, digits and `_`.
pub fn is_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.len() <= MAX_ALIAS && name.chars().all(word) && !name.starts_with(|c: char| c.is_numeric())
}

/// Lower case, as in manifests: `crossref`, `pubmed-2`.
pub fn is_alias(alias: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.');
    !alias.is_empty() && alias.len() <= MAX_ALIAS && alias.chars().all(word)
}

#[cfg(test)]
#[path = "credential_tests.rs"]
mod tests;

//! The only access to sealed data (G-02). Separate from the other queries: an interface that lists and shows cannot
//! reach it.

use std::fmt;

use super::BoxFuture;
use crate::credential::Credential;
use crate::id::CredentialId;
use crate::tx::TxError;

/// Maximum rows of one result.
pub const MAX_CREDENTIALS: u32 = 1_000;

/// Reads credentials with their runtime half, still sealed. Read-only.
pub trait CredentialQueries: fmt::Debug + Send + Sync {
    /// By id, at most [`MAX_CREDENTIALS`].
    fn credentials(&self, filter: CredentialFilter) -> BoxFuture<'_, Result<Vec<Credential>, TxError>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CredentialFilter {
    /// ACTIVE ones that are bound to this endpoint, to its source, or to none.
    Bound { provenance_code: String, endpoint_name: String },
    /// One version, whatever its status.
    Id(CredentialId),
    /// Every version of every binding, whatever its status.
    Alias(String),
    /// ACTIVE ones whose secret or token was sealed with another key than this one, with an id above `after`.
    SealedWithoutKey { key_id: String, after: CredentialId },
}

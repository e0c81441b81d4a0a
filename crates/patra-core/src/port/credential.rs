//! The one way to what is sealed (G-02). Apart from the other queries: a door that lists and shows cannot reach it.

use std::fmt;

use super::Boxed;
use crate::credential::Credential;
use crate::id::CredentialId;
use crate::tx::TxError;

/// Rows that one question answers at most.
pub const MAX_CREDENTIALS: u32 = 1_000;

/// Reads credentials with their runtime half, still sealed. Read-only.
pub trait Credentials: fmt::Debug + Send + Sync {
    /// By id, at most [`MAX_CREDENTIALS`].
    fn credentials(&self, ask: Ask) -> Boxed<'_, Result<Vec<Credential>, TxError>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// The ACTIVE ones that are bound to this endpoint, to its source, or to none.
    Bound { provenance_code: String, endpoint_name: String },
    /// One version, whatever its status.
    Id(CredentialId),
    /// Every version of every binding, whatever its status.
    Alias(String),
    /// ACTIVE ones of which the secret or the token was sealed with another key than this one, with an id above `after`.
    SealedWithoutKey { key_id: String, after: CredentialId },
}

//! Signing by somebody else: what a far side wants signed is no business of this program (ING-4.2-04). A hook gets the
//! request as it will leave and answers with what to add to it.

use std::fmt;

use super::Boxed;
use super::transport::Request;

/// Headers and query parameters that a signature consists of.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Signature {
    pub headers: Vec<(String, String)>,
    pub query: Vec<(String, String)>,
}

/// Names only: the values are signatures.
impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        f.debug_struct("Signature").field("headers", &names(&self.headers)).field("query", &names(&self.query)).finish()
    }
}

/// Why there is no signature. Shows neither the request nor what the signer said of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Error {
    pub reason: String,
    /// Asking again may help.
    pub transient: bool,
}

pub trait Signer: fmt::Debug + Send + Sync {
    fn sign(&self, request: &Request) -> Boxed<'_, Result<Signature, Error>>;
}

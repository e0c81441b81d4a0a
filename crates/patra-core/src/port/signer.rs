//! Signing by an external program: an upstream's signing scheme is not part of this program (ING-4.2-04). A hook gets
//! the request as it will be sent and returns headers and parameters to add.

use std::fmt;

use super::BoxFuture;
use super::transport::HttpRequest;

/// Headers and query parameters that a signature consists of.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Signature {
    pub headers: Vec<(String, String)>,
    pub query: Vec<(String, String)>,
}

/// Shows names only: the values are signatures.
impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        f.debug_struct("Signature").field("headers", &names(&self.headers)).field("query", &names(&self.query)).finish()
    }
}

/// Why there is no signature. Shows neither the request nor the signer's message about it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Error {
    pub reason: String,
    /// A retry may help.
    pub transient: bool,
}

pub trait Signer: fmt::Debug + Send + Sync {
    fn sign(&self, request: &HttpRequest) -> BoxFuture<'_, Result<Signature, Error>>;
}

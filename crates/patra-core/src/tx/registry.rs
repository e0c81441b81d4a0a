//! Writing the registry.

use std::time::Duration;

/// Replaces a provenance and its endpoints by what the manifest says. Endpoints that the manifest no longer has are
/// removed. Plans that exist are untouched: they hold their own snapshots.
#[derive(Clone, PartialEq, Debug)]
pub struct ApplyProvenance {
    pub provenance_code: String,
    pub name: String,
    /// The whole manifest as canonical JSON.
    pub document: String,
    /// Digest of the document: equal digest, nothing to do.
    pub document_hash: String,
    pub endpoints: Vec<EndpointRow>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointRow {
    pub endpoint_name: String,
    /// `SEARCH`, `DETAIL` or `METRICS`.
    pub role: String,
    pub schedule: Option<Schedule>,
}

/// Fire a HARVEST of this endpoint at this interval. A changed interval counts from now; an unchanged one keeps its
/// next due time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub every: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    Created,
    Changed,
    /// The stored document has the same digest.
    Unchanged,
}

//! Reading in two phases: ids first, then the records that they name (ING-4.6). UPDATE is the second phase alone.

use serde::{Deserialize, Serialize};

use patra_core::state::Operation;

use super::Endpoint;
use crate::iso::Iso;
use crate::words::Missing;

/// How much is asked for at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Batching {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_batch_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_records_per_request: Option<u32>,
    /// Ids that wait for others to come, up to so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combine_threshold: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TwoPhase {
    /// The endpoint that is asked for the records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// In an item of the search: what tells that a record has not changed, so that it is not asked for again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_path: Option<String>,
    /// What an id is for which no record comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
}

/// How records that are stored are fetched again (ING-6.3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Update {
    /// The endpoint that is asked for them; that of `two_phase` unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How old a record may become before it is looked at again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Iso>,
    /// How many of them make one slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_size: Option<u32>,
}

impl Endpoint {
    /// The endpoint that an operation asks for details.
    pub(crate) fn detail_for(&self, operation: Operation) -> Option<&str> {
        let of_update = || self.update.as_ref().filter(|_| operation == Operation::Update)?.detail.as_deref();
        of_update().or_else(|| self.two_phase.as_ref()?.detail.as_deref())
    }

    /// All endpoints that are asked for details, by whatever operation.
    pub(crate) fn details(&self) -> impl Iterator<Item = &str> {
        let of_update = self.update.as_ref().and_then(|update| update.detail.as_deref());
        self.two_phase.as_ref().and_then(|two_phase| two_phase.detail.as_deref()).into_iter().chain(of_update)
    }
}

//! Reading in two phases: first ids, then the records with these ids (ING-4.6). UPDATE is the second phase alone.

use serde::{Deserialize, Serialize};

use patra_core::state::Operation;

use super::EndpointConfig;
use crate::iso_duration::IsoDuration;
use crate::keywords::MissingDetail;

/// The `batching` section: how many ids or records one request fetches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_batch_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_records_per_request: Option<u32>,
    /// Not used yet: ids of different pages are not combined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combine_threshold: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TwoPhaseConfig {
    /// The endpoint that returns the records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Version of a record within a search item; an unchanged version means that the record is not fetched again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_path: Option<String>,
    /// How an id without a record is treated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingDetail>,
}

/// The `update` section: how stored records are fetched again (ING-6.3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpdateConfig {
    /// The endpoint that returns the records; defaults to that of `two_phase`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Age at which a record is fetched again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<IsoDuration>,
    /// Records per slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_size: Option<u32>,
}

impl EndpointConfig {
    /// The detail endpoint of an operation.
    pub(crate) fn detail_for(&self, operation: Operation) -> Option<&str> {
        let of_update = || self.update.as_ref().filter(|_| operation == Operation::Update)?.detail.as_deref();
        of_update().or_else(|| self.two_phase.as_ref()?.detail.as_deref())
    }

    /// All detail endpoints, of any operation.
    pub(crate) fn details(&self) -> impl Iterator<Item = &str> {
        let of_update = self.update.as_ref().and_then(|update| update.detail.as_deref());
        self.two_phase.as_ref().and_then(|two_phase| two_phase.detail.as_deref()).into_iter().chain(of_update)
    }
}

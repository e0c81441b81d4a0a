//! Two-phase reading in a snapshot. The detail endpoint is embedded, so that nothing else is needed.

use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::iso_duration::IsoDuration;
use crate::keywords::MissingDetail;

pub const DEFAULT_ID_BATCH_SIZE: u32 = 200;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchingSpec {
    /// Ids per request; 1 if the detail endpoint takes one id.
    pub id_batch_size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_records_per_request: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combine_threshold: Option<u32>,
}

impl Default for BatchingSpec {
    fn default() -> BatchingSpec {
        BatchingSpec { id_batch_size: DEFAULT_ID_BATCH_SIZE, max_records_per_request: None, combine_threshold: None }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TwoPhaseSpec {
    pub enabled: bool,
    pub linked_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_path: Option<String>,
    #[serde(default)]
    pub missing: MissingDetail,
    /// The detail endpoint, compiled for the same operation.
    pub detail: Box<Snapshot>,
}

/// Settings of UPDATE. Records are fetched with [`Snapshot::two_phase`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateSpec {
    /// Age at which a record is fetched again.
    pub stale_after: IsoDuration,
    /// Records per slice (ING-8.2-03). Even with one record per request they fit into one run.
    pub segment_size: u32,
}

impl Default for UpdateSpec {
    fn default() -> UpdateSpec {
        UpdateSpec { stale_after: IsoDuration::secs(30 * 86_400), segment_size: 500 }
    }
}

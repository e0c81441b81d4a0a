//! Reading in two phases, as frozen: the detail endpoint comes along complete, so that nothing else is needed.

use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::iso::Iso;
use crate::words::Missing;

pub const DEFAULT_ID_BATCH_SIZE: u32 = 200;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Batching {
    /// 1 when the detail endpoint takes one id.
    pub id_batch_size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_records_per_request: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combine_threshold: Option<u32>,
}

impl Default for Batching {
    fn default() -> Batching {
        Batching { id_batch_size: DEFAULT_ID_BATCH_SIZE, max_records_per_request: None, combine_threshold: None }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TwoPhase {
    pub enabled: bool,
    pub linked_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_path: Option<String>,
    #[serde(default)]
    pub missing: Missing,
    /// The detail endpoint, compiled for the same operation.
    pub detail: Box<Snapshot>,
}

/// How UPDATE goes about its records. What they are fetched with is [`Snapshot::two_phase`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Update {
    /// How old a record may become before it is looked at again.
    pub stale_after: Iso,
    /// How many of them make one slice (ING-8.2-03). Even one by one they fit into the requests of a run.
    pub segment_size: u32,
}

impl Default for Update {
    fn default() -> Update {
        Update { stale_after: Iso::secs(30 * 86_400), segment_size: 500 }
    }
}

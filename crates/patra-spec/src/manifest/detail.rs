//! Reading in two phases: ids first, then the records that they name (ING-4.6).

use serde::{Deserialize, Serialize};

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

//! UPDATE: which stored records are fetched again, and what becomes of signals (ING-6.3).

use serde::{Deserialize, Serialize, Serializer};

use crate::record::RecordStream;
use crate::time::Ts;

/// Failed tries after which a signal is abandoned.
pub const MAX_SIGNAL_TRIES: u32 = 5;

/// Maximum keys of one [`SignalRecords`].
pub const MAX_SIGNAL_KEYS: usize = 1_000;

/// Maximum segments of one [`ReadSegments`].
pub const MAX_SEGMENTS: u32 = 1_000;

/// Selects the records of a stream to fetch again. Frozen into the plan's tasks, so the set can only shrink while
/// they run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefreshCriteria {
    /// Last checked before this time.
    Stale {
        #[serde(serialize_with = "as_hashed")]
        before: Ts,
    },
    /// Mapped by another generation than this.
    MappedOtherThan { generation: String },
    /// Named by an OPEN signal, stored or not.
    Signalled,
}

/// Serialises times in the form that enters hashes: they are part of a slice's identity.
fn as_hashed<S: Serializer>(at: &Ts, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_micros_text())
}

/// Keys behind `after` up to and including `through`, in byte order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IdRange {
    pub after: Option<String>,
    pub through: String,
}

impl IdRange {
    pub fn contains(&self, key: &str) -> bool {
        self.after.as_deref().is_none_or(|after| key > after) && key <= self.through.as_str()
    }
}

/// Cuts the records to refresh, starting behind `after`, into ranges of `size` in the order of their keys; the last
/// may be shorter. At most `limit` ranges, and at most [`MAX_SEGMENTS`]. Each begins where the one before it ends,
/// the first behind `after`. A stream's records are those of its project, provenance, scope and endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadSegments {
    pub stream: RecordStream,
    pub criteria: RefreshCriteria,
    pub after: Option<String>,
    pub size: u32,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segments {
    pub ranges: Vec<IdRange>,
    /// More records to refresh follow behind the last range.
    pub more: bool,
    pub now: Ts,
}

/// Marks records to be fetched again. Keys that have an OPEN signal do not change. `Refused` with more than
/// [`MAX_SIGNAL_KEYS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignalRecords {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    /// Without duplicates, at most [`MAX_SIGNAL_KEYS`].
    pub keys: Vec<String>,
    pub reason: String,
    pub by: String,
}

impl SignalRecords {
    /// `created_by` of the signals that rejected records get.
    pub const BY_QUARANTINE: &str = "quarantine";
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordsSignalled {
    pub added: u32,
    pub existing: u32,
}

/// Outcome of a record that an UPDATE checked.
///
/// Its `refresh_checked_at` becomes now, if it is stored and `looked_at`, `failed` or not. An OPEN signal for it,
/// whoever made it, is RESOLVED, and so are its SIGNALLED quarantine rows; with `failed` the signal counts one more
/// try and keeps the reason as `last_error`, and at [`MAX_SIGNAL_TRIES`] signal and rows are ABANDONED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckedRecord {
    pub key: String,
    /// Why the content could not be fetched or used.
    pub failed: Option<String>,
    /// The upstream's response covered this record. Otherwise it refused too many records at once, and this one keeps
    /// its age.
    pub looked_at: bool,
}

/// Abandons a quarantine row, and the OPEN signal for its key with it. Changes nothing when it is RESOLVED or
/// ABANDONED already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AbandonRecord {
    pub quarantine: i64,
    pub by: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordAbandoned {
    pub found: bool,
    pub abandoned: bool,
}

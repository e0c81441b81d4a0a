//! UPDATE: which stored records are fetched again, and what becomes of signals (ING-6.3).

use serde::{Deserialize, Serialize, Serializer};

use crate::record::Stream;
use crate::time::Ts;

/// Failed tries after which a signal is given up.
pub const MAX_SIGNAL_TRIES: u32 = 5;

/// Most keys of one [`Signal`].
pub const MAX_SIGNAL_KEYS: usize = 1_000;

/// Most segments that one [`ReadSegments`] gives.
pub const MAX_SEGMENTS: u32 = 1_000;

/// Which records of a stream are wanted again. Frozen into the plan's tasks, so the set can only shrink while they run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wanted {
    /// Last looked at before this.
    Stale {
        #[serde(serialize_with = "as_hashed")]
        before: Ts,
    },
    /// Mapped by other rules than these.
    MappedOtherThan { generation: String },
    /// Named by an OPEN signal, stored or not.
    Signalled,
}

/// In the form that enters hashes: it is a part of what a slice is.
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

/// Cuts the wanted records of a stream, from the one behind `after` on, into ranges of `size` in the order of their keys;
/// the last may be shorter. At most `limit` ranges, and at most [`MAX_SEGMENTS`]. Each begins where the one before it ends,
/// the first behind `after`. A stream's records are those of its project, provenance, scope and endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadSegments {
    pub stream: Stream,
    pub wanted: Wanted,
    pub after: Option<String>,
    pub size: u32,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segments {
    pub ranges: Vec<IdRange>,
    /// There are wanted records behind the last of them.
    pub more: bool,
    pub now: Ts,
}

/// Says of records that they must be fetched again. Keys for which an OPEN signal is there already change nothing. `Refused`
/// with more than [`MAX_SIGNAL_KEYS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signal {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    /// One each, at most [`MAX_SIGNAL_KEYS`].
    pub keys: Vec<String>,
    pub reason: String,
    pub by: String,
}

impl Signal {
    /// `created_by` of the signals that rejected records get.
    pub const BY_QUARANTINE: &str = "quarantine";
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signalled {
    pub added: u32,
    pub existing: u32,
}

/// What became of a record that an UPDATE looked at.
///
/// Its `refresh_checked_at` becomes now, if it is stored and `looked_at`, `failed` or not. An OPEN signal for it, whoever made it, is
/// RESOLVED, and so are its SIGNALLED quarantine rows; with `failed` the signal has one more try and keeps the reason as
/// `last_error`, and at [`MAX_SIGNAL_TRIES`] signal and rows are ABANDONED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    pub key: String,
    /// Why its content could not be had, or could not be used.
    pub failed: Option<String>,
    /// The far side had a word on this record. Otherwise it refused too much for that, and the record stays as old as it was.
    pub looked_at: bool,
}

/// Gives a quarantine row up: ABANDONED, and the OPEN signal for its key with it. Changes nothing when it is RESOLVED or
/// ABANDONED already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abandon {
    pub quarantine: i64,
    pub by: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abandoned {
    pub found: bool,
    pub abandoned: bool,
}

//! Records of a page: an identity, a version, and the bytes as received.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;

use crate::error::Code;
use crate::time::Ts;

/// Longest identity that is stored. Longer ones are quarantined: an index entry must fit a database page.
pub const MAX_KEY_BYTES: usize = 1_024;

/// Most bytes of one record, its mapped fields and what was received together. Larger ones are quarantined: a store copies
/// a row several times while it writes it.
pub const MAX_RECORD_BYTES: usize = 4 << 20;

/// The kind of tweets: polls of tweet sources are counted ([`crate::tweet::FetchStats`]).
pub const TWEET: &str = "tweet";

/// One record, ready to be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// `provider_item_id`, unique within the stream.
    pub key: String,
    pub version: RecordVersion,
    /// Mapped fields as a JSON object, or empty when the endpoint maps none.
    pub fields: String,
    /// The record exactly as the upstream sent it: JSON, a slice of the page's body.
    pub payload: ByteString,
    pub content_hash: [u8; 16],
}

/// Decides whether a record replaces the stored one: newer `updated_at`, then the source's own version (C-35).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RecordVersion {
    pub updated_at: Ts,
    pub source_version: i64,
}

/// A record that cannot be stored (L3 data), with the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectedRecord {
    /// Index in the page, from 0.
    pub index: u32,
    pub key: Option<String>,
    pub code: Code,
    pub reason: String,
    /// The start of the record as received, at most [`RejectedRecord::MAX_SAMPLE`] bytes.
    pub sample: String,
}

impl RejectedRecord {
    pub const MAX_SAMPLE: usize = 1_024;
    /// Most rejected records of one page; a page with more is refused as a whole.
    pub const MAX_PER_PAGE: usize = 1_000;
}

/// A share of a memory budget that is returned when its last holder is dropped. It is no part of the data: all are
/// equal.
#[derive(Clone, Default)]
pub struct HeldMemory(Option<Arc<dyn Any + Send + Sync>>);

impl HeldMemory {
    /// Holds the share, which returns its memory when it is dropped.
    pub fn new(share: impl Any + Send + Sync) -> HeldMemory {
        HeldMemory(Some(Arc::new(share)))
    }
}

impl fmt::Debug for HeldMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "held" } else { "none" })
    }
}

impl PartialEq for HeldMemory {
    fn eq(&self, _: &HeldMemory) -> bool {
        true
    }
}

/// An id on a page of a two-phase endpoint; its details are fetched separately (MAP-C-08).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DetailCandidate {
    pub id: String,
    /// Changes when the content does: the upstream's version or update time, or else the window that named the id.
    /// Details are fetched once per version (ING-15-06).
    pub version: String,
}

/// Outcome of a candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CandidateMark {
    pub candidate: DetailCandidate,
    /// Why its details are not available; `None` when they were fetched.
    pub bad: Option<String>,
}

/// How long a bad id is skipped after this many failures: an hour, doubling, at most a week.
pub fn bad_id_pause(tries: u32) -> std::time::Duration {
    const HOUR: u64 = 3_600;
    std::time::Duration::from_secs((HOUR << tries.saturating_sub(1).min(10)).min(7 * 24 * HOUR))
}

/// The stream that a page's records belong to; with the key, the identity of an item (MAP-C-10).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RecordStream {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub dedup_scope: String,
    pub kind: String,
}

/// Keeps one record per key, the newest, sorted by key: one statement must not write a key twice, and a fixed order
/// rules out deadlocks between single pages. Returns the number of dropped records.
pub fn deduplicate(records: &mut Vec<Record>) -> usize {
    let before = records.len();
    // Stable, newest first within a key; the first one of equals stays.
    records.sort_by(|a, b| a.key.cmp(&b.key).then(b.version.cmp(&a.version)));
    records.dedup_by(|later, kept| later.key == kept.key);
    before - records.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, at: i64, payload: &'static str) -> Record {
        Record {
            key: key.into(),
            version: RecordVersion { updated_at: Ts::from_secs(at), source_version: 0 },
            fields: String::new(),
            payload: ByteString::from_static(payload),
            content_hash: [0; 16],
        }
    }

    // covers: ING-11.1-02, ING-11.1-03
    #[test]
    fn the_newest_of_a_key_stays_and_the_first_of_equals() {
        let mut records = vec![record("b", 1, "1"), record("a", 1, "2"), record("b", 2, "3"), record("b", 2, "4")];
        assert_eq!(deduplicate(&mut records), 2);
        assert_eq!(records, [record("a", 1, "2"), record("b", 2, "3")]);
    }
}

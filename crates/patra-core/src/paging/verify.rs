//! How a walk shows that it has missed no record although the result set may move while it is read.
//!
//! *Seams*: each request overlaps the page before by one record. If the first record of a page is one that was read
//! before, and the list keeps its order, everything that has not been read comes after it. *Total*: the server reports
//! the number of records; it must not change during the reading, and as many distinct records must arrive. *Twice*: the
//! list is read until two passes find the same records.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Serialize};

use super::circle::Landmark;

/// How a walk checks its completeness.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verify {
    /// No checks: the slice ends unverified.
    None,
    /// Offset paging only.
    Seams,
    #[default]
    Total,
    Twice,
}

/// What the end of a slice is known by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verification {
    /// One response held the whole slice.
    Single,
    /// Every page began with a record of the page before.
    Seams,
    /// Two passes found the same records.
    Twice,
    /// The server keeps the place by its token.
    Token,
    /// Nothing shows that no record moved past the reader; a total may agree.
    Unverified,
}

impl Verification {
    pub fn is_complete(self) -> bool {
        self != Verification::Unverified
    }
}

/// What a later run needs to continue the checks of a walk. Stored with each batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WalkProgress {
    /// Distinct records of this pass.
    #[serde(skip_serializing_if = "is_zero")]
    pub distinct: u64,
    /// Records of this pass, each as often as it came.
    #[serde(skip_serializing_if = "is_zero")]
    pub read: u64,
    /// Sum of the hashes of all records that were read.
    #[serde(skip_serializing_if = "is_zero")]
    pub digest: u64,
    /// Hash of the record that the next page must begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seam: Option<u64>,
    /// How often the slice was read again from its first page.
    #[serde(skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// The records of the pass before, as [`ReadIds::pass`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pass: Option<u64>,
    /// Consecutive requests that brought no new record.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle: u32,
    /// Set with the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// What shows that the upstream leads in a circle.
    #[serde(skip_serializing_if = "Landmark::is_unset")]
    pub landmark: Landmark,
    /// A page could not be checked against the one before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unchecked: bool,
    /// An item of this pass had no usable id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unidentified: bool,
    /// Something was seen in this pass that the checks do not explain.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub doubted: bool,
    /// Hash of the ids of the last page; 0: it had none.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_ids: u32,
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// Ids of the records that a walk has read. Of very many it remembers the newest.
#[derive(Debug, Default)]
pub(super) struct ReadIds {
    newest: IdSet,
    older: IdSet,
    distinct: u64,
    pub(super) read: u64,
    pub(super) digest: u64,
}

type IdSet = HashSet<u64, BuildHasherDefault<HashedAlready>>;

impl ReadIds {
    /// Between this many and twice as many ids are remembered.
    pub(super) const REMEMBERED: usize = 131_072;

    pub(super) fn resumed(progress: &WalkProgress) -> ReadIds {
        let newest = progress.seam.into_iter().collect();
        ReadIds {
            newest,
            older: IdSet::default(),
            distinct: progress.distinct,
            read: progress.read,
            digest: progress.digest,
        }
    }

    /// Adds the ids of a page; true when any of them is new.
    pub(super) fn add_all(&mut self, ids: &[[u8; 16]]) -> bool {
        let before = self.distinct;
        ids.iter().for_each(|id| self.add(key(id)));
        self.distinct > before
    }

    fn add(&mut self, id: u64) {
        self.read += 1;
        self.digest = self.digest.wrapping_add(id);
        if self.newest.contains(&id) || self.older.contains(&id) {
            return;
        }
        if self.newest.len() == ReadIds::REMEMBERED {
            self.older = std::mem::take(&mut self.newest);
        }
        self.newest.insert(id);
        self.distinct += 1;
    }

    pub(super) fn has(&self, id: &[u8; 16]) -> bool {
        let id = key(id);
        self.newest.contains(&id) || self.older.contains(&id)
    }

    pub(super) fn distinct(&self) -> u64 {
        self.distinct
    }

    /// Digest of all records that were read, each as often as it came. It is equal for two passes that found the same records in any order. A record that moved over another one came twice, so that two passes which miss
    /// the same record are not taken for equal.
    pub(super) fn pass(&self) -> u64 {
        self.digest.rotate_left(32) ^ self.read.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// Half of a hash is enough to distinguish the records of one slice.
pub(super) fn key(id: &[u8; 16]) -> u64 {
    let (half, _) = id.split_at(8);
    half.iter().fold(0, |key, byte| key << 8 | u64::from(*byte))
}

/// Ids are hashes already.
#[derive(Default)]
struct HashedAlready(u64);

impl Hasher for HashedAlready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&crate::hash::content_hash(&number.to_be_bytes())[..8]);
        id
    }

    #[test]
    fn ids_are_counted_once_and_the_newest_are_remembered() {
        let mut ids = ReadIds::default();
        assert!(ids.add_all(&[id(1), id(2), id(1)]));
        assert!(!ids.add_all(&[id(2)]));
        assert_eq!((ids.distinct(), ids.has(&id(1)), ids.has(&id(3))), (2, true, false));
        for number in 0..3 * ReadIds::REMEMBERED as u64 {
            ids.add_all(&[id(number)]);
        }
        assert!(ids.newest.len() + ids.older.len() <= 2 * ReadIds::REMEMBERED);
        assert!(ids.has(&id(3 * ReadIds::REMEMBERED as u64 - 1)) && !ids.has(&id(5)));
    }

    #[test]
    fn passes_over_the_same_records_are_equal_in_any_order() {
        let pass = |numbers: &[u64]| {
            let mut ids = ReadIds::default();
            ids.add_all(&numbers.iter().map(|number| id(*number)).collect::<Vec<_>>());
            ids.pass()
        };
        assert_eq!(pass(&[1, 2, 3]), pass(&[3, 1, 2]));
        assert_ne!(pass(&[1, 2, 3]), pass(&[1, 2, 4]));
        // One record moved over another in each pass: both miss a record, and the one that moved came twice.
        assert_ne!(pass(&[1, 2, 4, 1]), pass(&[1, 2, 4, 2]));
    }

    #[test]
    fn progress_of_an_ordinary_page_is_short() {
        let progress = WalkProgress { distinct: 30, ..WalkProgress::default() };
        assert_eq!(serde_json::to_string(&progress).unwrap(), r#"{"distinct":30}"#);
    }
}

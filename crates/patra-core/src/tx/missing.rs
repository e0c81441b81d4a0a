//! Records that a list no longer has. Each pass over a list notes which of its records it has seen; after a complete
//! pass, those that it has not seen are marked.
//!
//! A pass is a slice: tasks that continue it, after a crash or a deferral, add to what it has seen. Slices of a list
//! are numbered in the order in which they were planned, and a record keeps the number of the latest that has seen it.
//! So a pass that is late never marks what a newer one has seen.

use std::sync::Arc;

use super::run::CommitBatch;
use super::task::{LeaseRef, TaskLineage};
use crate::record::RecordStream;

/// A page of a pass over a whole list (`window.mode: snapshot`).
///
/// With `list`, every stored record whose key is among [`CommitBatch::listed`] counts as seen by the slice, which is
/// the greatest of its slices so far, and loses its mark: in this list, and in `item.missing_since`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PassPage {
    /// Records have no update time of their own: one replaces the stored one only if its version is not older and the
    /// generation or the content differs.
    pub undated: bool,
    /// The list within its endpoint; `None` where missing records are not marked.
    pub list: Option<Arc<str>>,
    /// Keys of items that are in the list and are not stored.
    pub excluded: Vec<String>,
}

impl CommitBatch {
    /// Keys of all items of the page, sorted, each once; empty where missing records are not marked.
    pub fn listed(&self) -> Vec<&str> {
        let Some(pass) = self.pass.as_ref().filter(|pass| pass.list.is_some()) else { return Vec::new() };
        let records = self.records.iter().map(|record| &record.key);
        let rejected = self.rejected.iter().filter_map(|rejected| rejected.key.as_ref());
        let mut keys: Vec<_> = records.chain(rejected).chain(&pass.excluded).map(String::as_str).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The page has keys of items that it does not store.
    pub fn lists_others(&self) -> bool {
        let lists = self.pass.as_ref().filter(|pass| pass.list.is_some());
        lists.is_some_and(|pass| {
            !pass.excluded.is_empty() || self.rejected.iter().any(|rejected| rejected.key.is_some())
        })
    }
}

/// Marks records that the list no longer has, a part of them at a time, or only counts them.
///
/// `Fenced` unless the task is EXECUTING under this fence. Looks at the first `limit` records of the list whose id is
/// greater than `after`. A record is gone if it is not marked in the list and the last slice that has seen it there is
/// an older one than `slice` of `lineage`. Unless `only_count`, it is marked in the list, with this slice and now; and
/// `item.missing_since` becomes now, if it is not set, where no list has the record any more.
///
/// The counts are the same when the operation is repeated: records that this slice has marked are counted too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkMissing {
    pub lease: LeaseRef,
    pub lineage: TaskLineage,
    pub stream: Arc<RecordStream>,
    pub list: Arc<str>,
    pub after: Option<i64>,
    pub limit: u32,
    pub only_count: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MissingMarked {
    /// Records of this part that the list had before the pass ended.
    pub known: u32,
    /// Those of them that are gone.
    pub gone: u32,
    /// Those of them that no list has any more: `item.missing_since` is set.
    pub missing: u32,
    /// `after` of the next part; `None` when this was the last.
    pub next: Option<i64>,
}

impl MarkMissing {
    /// Records of one transaction.
    pub const LIMIT: u32 = 1_000;
}

//! Retention: what is kept, and for how long (ING-13.5, C-55). Lineage survives: rows that leave the ledger are found
//! in `ing_archive`.

use crate::time::Ts;

/// Moves up to `limit` rows of each kind that are older than `before` (strictly) out of the ledger, oldest first and
/// of equals the one with the smaller id, in one short transaction:
///
/// - batches of tasks that have ended go to `ing_archive` (kind BATCH), the whole row as JSON, with schedule, plan,
///   slice, task, run and batch number in columns of their own;
/// - cursor events go there too (kind EVENT), except the newest of each cursor, which its value is aligned to;
/// - expired raw bodies are deleted, whatever `before` says, and so are pauses that ended and signals that were
///   settled (`updated_at`) before `before`;
/// - counts per minute are merged into quarters of an hour when they are
///   [`MINUTES_KEPT`](crate::port::board::MINUTES_KEPT) old, into hours when they are
///   [`QUARTERS_KEPT`](crate::port::board::QUARTERS_KEPT) old, and deleted when they are
///   [`HOURS_KEPT`](crate::port::board::HOURS_KEPT) old, whatever `before` says.
///
/// Batches and events count by `created_at`. Nothing else deletes a cursor event (ING-7.8-05).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArchiveLedger {
    pub before: Ts,
    pub limit: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LedgerArchived {
    pub batches: u32,
    pub events: u32,
    pub raw: u32,
    /// Pauses and signals, of each up to the limit.
    pub settled: u32,
}

impl LedgerArchived {
    /// The largest count: while it reaches the limit there are more rows.
    pub fn most(&self) -> u32 {
        self.batches.max(self.events).max(self.raw).max(self.settled)
    }
}

/// Records that a diagnostic bundle was exported (G-14).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordExport {
    pub run: i64,
    pub batch_no: u32,
    pub by: String,
    pub reason: String,
    /// Digest of the package.
    pub package_hash: String,
    pub expires_at: Ts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportRecorded {
    pub export: i64,
}

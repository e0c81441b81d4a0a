//! Options and policy of a run.

use std::sync::Arc;
use std::time::Duration;

use super::{DetailOptions, RecordOrder, SliceLimits, SplitRule};
use crate::record::RecordStream;
use crate::tx::MarkMissing;
use crate::{paging, retry};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Longest wait that keeps the worker; a longer one returns the task to the queue (ING-15-04).
    pub inline_wait: Duration,
    /// Uncommitted pages that may exist when another is requested, as long as they are small.
    pub lookahead: usize,
    /// How long a page may wait to be committed together with others, while more are being read: writing an index
    /// once for many pages is cheaper.
    pub linger: Duration,
    /// Failed attempts without progress after which the task fails.
    pub max_attempts: u32,
    /// Consecutive 429 responses that one batch waits out before the task is returned.
    pub max_throttles: u32,
    /// Most records of one transaction. A page with more is committed in parts.
    pub max_batch_records: usize,
    /// Emit an event for new tweets.
    pub emit_tweets: bool,
    /// Records of a list that one transaction checks for marks.
    pub mark_limit: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            inline_wait: Duration::from_secs(15),
            lookahead: 64,
            linger: Duration::from_millis(50),
            max_attempts: 5,
            max_throttles: 20,
            max_batch_records: 10_000,
            emit_tweets: false,
            mark_limit: MarkMissing::LIMIT,
        }
    }
}

/// The parts of the spec that the run needs.
#[derive(Clone, Debug)]
pub struct RunPolicy {
    pub paging: paging::PagingRule,
    pub retry: retry::RetryPolicy,
    pub stream: Arc<RecordStream>,
    /// Pages name ids only; their details are fetched separately.
    pub details: Option<DetailOptions>,
    /// How a window that holds too much is split; `None` when it cannot be.
    pub split: Option<SplitRule>,
    pub limits: SliceLimits,
    /// The order by update time that the upstream declares.
    pub order: Option<RecordOrder>,
    /// Mapping generation of the records.
    pub generation: Arc<str>,
    /// Emit events for stored records.
    pub emit: bool,
    /// Set where every slice reads the whole list (`window.mode: snapshot`).
    pub pass: Option<PassRule>,
}

/// How a slice that reads a whole list is stored, and what it means for records that it does not find.
#[derive(Clone, PartialEq, Debug)]
pub struct PassRule {
    /// Records have no update time of their own.
    pub undated: bool,
    /// Missing records are marked, see [`MissingRule`].
    pub missing: Option<MissingRule>,
}

/// How records that a list no longer has are marked.
#[derive(Clone, PartialEq, Debug)]
pub struct MissingRule {
    /// The list within its endpoint: empty, or a hash of the params that select it.
    pub list: Arc<str>,
    /// Largest share of a list that one pass marks.
    pub ratio: f64,
}

/// No further page is read while the uncommitted responses have this many bytes.
pub(super) const MAX_WAITING_BYTES: u64 = 6 << 20;

/// A page waits only where the next one comes this quickly: after a crash uncommitted pages are read again, which is
/// one page of a slow upstream (ING-DOD-08), and a few of a fast one.
pub(super) const QUICK_MS: u32 = 10;

/// Pages with this many bytes, or this many pages, do not wait for others.
pub(super) const FULL_BYTES: u64 = MAX_WAITING_BYTES / 2;
pub(super) const FULL_PAGES: usize = 30;

/// Maximum retries to move a cursor when the store fails.
pub(super) const MAX_ADVANCE_RETRIES: u32 = 3;

/// Retries when the store fails.
pub(super) const STORE_RETRY: retry::RetryPolicy = retry::RetryPolicy {
    max_attempts: u32::MAX,
    min_delay_ms: 50,
    max_delay_ms: 5_000,
    multiplier_percent: 200,
    jitter_percent: 20,
};

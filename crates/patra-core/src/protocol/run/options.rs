//! How a run goes about it.

use std::sync::Arc;
use std::time::Duration;

use super::{Details, Limits, Order, Split};
use crate::record::Stream;
use crate::{paging, retry};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Longest wait that keeps the worker; a longer one gives the task back to the queue (ING-15-04).
    pub inline_wait: Duration,
    /// Pages that may be uncommitted when another is asked for, as long as they are small.
    pub lookahead: usize,
    /// How long a page may wait for others to be committed with, while more of them come: an index that is written to once
    /// for many pages is written to less often.
    pub linger: Duration,
    /// Failed attempts without progress after which the task fails.
    pub max_attempts: u32,
    /// Refusals for pacing (429) in a row that one batch sits out before the task is given back.
    pub max_throttles: u32,
    /// New tweets are told to the world outside.
    pub tell: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            inline_wait: Duration::from_secs(15),
            lookahead: 64,
            linger: Duration::from_millis(50),
            max_attempts: 5,
            max_throttles: 20,
            tell: false,
        }
    }
}

/// What the run must know of its spec.
#[derive(Clone, Debug)]
pub struct Policy {
    pub paging: paging::Rule,
    pub retry: retry::Policy,
    pub stream: Arc<Stream>,
    /// Pages name ids only; their content is fetched apart.
    pub details: Option<Details>,
    /// How a window that is too much is cut; `None` when it cannot be.
    pub split: Option<Split>,
    pub limits: Limits,
    /// The order by update time that the far side declares.
    pub order: Option<Order>,
    /// Which mapping makes the records.
    pub generation: Arc<str>,
    /// What is stored is told to the world outside.
    pub emit: bool,
}

/// When the answers that wait for their commit have so many bytes, no further page is read.
pub(super) const MAX_WAITING_BYTES: u64 = 6 << 20;

/// A page waits only where the next is so quick to come: after a crash what was not committed is read again, which is one page of
/// a far side that takes its time (ING-DOD-08), and a few of one that is at hand.
pub(super) const QUICK_MS: u32 = 10;

/// Pages with so many bytes, or so many of them, wait for no others to be committed with.
pub(super) const FULL_BYTES: u64 = MAX_WAITING_BYTES / 2;
pub(super) const FULL_PAGES: usize = 30;

/// How often a store that fails is asked again to move a cursor.
pub(super) const MAX_ADVANCE_RETRIES: u32 = 3;

/// How a store that does not answer is asked again.
pub(super) const STORE_RETRY: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    min_delay_ms: 50,
    max_delay_ms: 5_000,
    multiplier_percent: 200,
    jitter_percent: 20,
};

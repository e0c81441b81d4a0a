//! The latest data requests, for tests that want to know what was asked and when.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use super::state::lock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Of the data request, from 1.
    pub number: u64,
    /// Path and query as sent.
    pub target: String,
    /// When it came, since the server's start.
    pub at: Duration,
    /// Of the answer; 0 for a reset.
    pub status: u16,
    /// What was posted, if it is text; cut after 4 KiB.
    pub body: String,
    /// What the collector's own records and ours can be joined by.
    pub traceparent: Option<String>,
    pub correlation: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Log(Mutex<VecDeque<LogEntry>>);

impl Log {
    /// Forgets the oldest beyond `limit`.
    pub(super) fn push(&self, entry: LogEntry, limit: usize) {
        let mut entries = lock(&self.0);
        entries.push_back(entry);
        while entries.len() > limit {
            entries.pop_front();
        }
    }

    /// Sorted, because requests are written down when answered and come in another order.
    pub(super) fn entries(&self) -> Vec<LogEntry> {
        let mut entries: Vec<LogEntry> = lock(&self.0).iter().cloned().collect();
        entries.sort_by_key(|entry| entry.number);
        entries
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

//! Log of the latest data requests, for tests.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use super::state::lock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Number of the data request, from 1.
    pub number: u64,
    /// Path and query as sent.
    pub target: String,
    /// Arrival time, since the server's start.
    pub at: Duration,
    /// Status of the response; 0 for a reset.
    pub status: u16,
    /// Request body as text; truncated at 4 KiB.
    pub body: String,
    /// Trace header, to match the log with the collector's records.
    pub traceparent: Option<String>,
    pub correlation: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct RequestLog(Mutex<VecDeque<LogEntry>>);

impl RequestLog {
    /// Adds an entry and drops the oldest beyond `limit`.
    pub(super) fn push(&self, entry: LogEntry, limit: usize) {
        let mut entries = lock(&self.0);
        entries.push_back(entry);
        while entries.len() > limit {
            entries.pop_front();
        }
    }

    /// All entries, sorted by number, because they are logged in the order of their responses.
    pub(super) fn entries(&self) -> Vec<LogEntry> {
        let mut entries: Vec<LogEntry> = lock(&self.0).iter().cloned().collect();
        entries.sort_by_key(|entry| entry.number);
        entries
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

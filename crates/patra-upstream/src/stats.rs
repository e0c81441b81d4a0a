//! What happened since the start or the last reset. Each data request is counted under exactly one of its outcomes,
//! so the outcomes add up to `data_requests` once all are answered.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Of any kind, also `/stats`, unknown paths and unreadable ones.
    pub requests: u64,
    /// To the listings: those that faults are counted over.
    pub data_requests: u64,
    /// Outcome: 200 with a whole page of ordinary size.
    pub ok: u64,
    /// In the pages counted under `ok`.
    pub records: u64,
    /// Of bodies answered to data requests, whatever the outcome.
    pub bytes: u64,
    /// Outcome: no credential, or a wrong one.
    pub r401: u64,
    /// Outcome: the same, said with 403.
    pub r403: u64,
    /// Outcome: told to come back later.
    pub r429: u64,
    /// Outcome: failed on purpose.
    pub r500: u64,
    /// Outcome: half a page.
    pub truncated: u64,
    /// Outcome: connection reset.
    pub resets: u64,
    /// Outcome: a page padded beyond measure.
    pub oversized: u64,
    /// Outcome: 400 or another refusal of what was asked for, a parameter or cursor that makes no sense.
    pub bad: u64,
    /// Accepted.
    pub connections: u64,
    /// Data requests being answered at the same moment, at most; never more than the client had open.
    pub max_concurrent: u64,
    /// Data requests that came before the time last told by a `Retry-After`. The far side cannot tell its clients
    /// apart: one that was on its way while another was told to wait counts too.
    pub too_early: u64,
    pub access: AccessStats,
}

/// What happened at `/oauth/token`, `/login` and `/sign`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessStats {
    /// Access tokens.
    pub tokens_issued: u64,
    /// Requests for one that were refused, for whatever reason.
    pub tokens_refused: u64,
    /// Of those issued: for a refresh token.
    pub refreshes: u64,
    /// Refresh tokens that came a second time; each ended its family.
    pub refresh_reuses: u64,
    pub logins: u64,
    pub logins_refused: u64,
    pub signatures: u64,
}

/// How a data request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    R401,
    R429,
    R500,
    Truncated,
    Reset,
    Oversized,
    Bad,
    R403,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) data_requests: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) too_early: AtomicU64,
    outcomes: [AtomicU64; 9],
    concurrent: AtomicU64,
    max_concurrent: AtomicU64,
}

impl Counters {
    pub(crate) fn ended(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].fetch_add(1, Relaxed);
    }

    /// Counts one data request as in progress until the guard is dropped.
    pub(crate) fn enter(&self) -> InProgress<'_> {
        let concurrent = self.concurrent.fetch_add(1, Relaxed) + 1;
        self.max_concurrent.fetch_max(concurrent, Relaxed);
        InProgress(self)
    }

    /// Without what happened at the doors, which is not counted here.
    pub(crate) fn snapshot(&self) -> Stats {
        let ended = |outcome: Outcome| self.outcomes[outcome as usize].load(Relaxed);
        Stats {
            requests: self.requests.load(Relaxed),
            data_requests: self.data_requests.load(Relaxed),
            ok: ended(Outcome::Ok),
            records: self.records.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            r401: ended(Outcome::R401),
            r403: ended(Outcome::R403),
            r429: ended(Outcome::R429),
            r500: ended(Outcome::R500),
            truncated: ended(Outcome::Truncated),
            resets: ended(Outcome::Reset),
            oversized: ended(Outcome::Oversized),
            bad: ended(Outcome::Bad),
            connections: self.connections.load(Relaxed),
            max_concurrent: self.max_concurrent.load(Relaxed),
            too_early: self.too_early.load(Relaxed),
            access: AccessStats::default(),
        }
    }

    /// All but what is in progress, which will still be left.
    pub(crate) fn reset(&self) {
        let counts = [&self.requests, &self.data_requests, &self.records, &self.bytes, &self.connections];
        let rest = [&self.too_early, &self.max_concurrent];
        for count in counts.into_iter().chain(rest).chain(&self.outcomes) {
            count.store(0, Relaxed);
        }
    }
}

pub(crate) struct InProgress<'a>(&'a Counters);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.concurrent.fetch_sub(1, Relaxed);
    }
}

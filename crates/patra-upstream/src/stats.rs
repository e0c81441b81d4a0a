//! Counters since the start or the last reset. Each data request is counted under exactly one outcome, so the outcomes
//! add up to `data_requests` once all are done.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MockApiStats {
    /// All requests, including `/stats`, unknown paths and malformed requests.
    pub requests: u64,
    /// Data requests; faults are counted over these.
    pub data_requests: u64,
    /// Outcome: 200 with a whole page of ordinary size.
    pub ok: u64,
    /// Records in the pages counted under `ok`.
    pub records: u64,
    /// Body bytes of data responses, whatever the outcome.
    pub bytes: u64,
    /// Outcome: no credential, or a wrong one.
    pub r401: u64,
    /// Outcome: the same with status 403.
    pub r403: u64,
    /// Outcome: throttled with 429.
    pub r429: u64,
    /// Outcome: failed on purpose.
    pub r500: u64,
    /// Outcome: half a page.
    pub truncated: u64,
    /// Outcome: connection reset.
    pub resets: u64,
    /// Outcome: an oversized page.
    pub oversized: u64,
    /// Outcome: 400 or another client error, such as an invalid parameter or cursor.
    pub bad: u64,
    /// Accepted connections.
    pub connections: u64,
    /// Most data requests in progress at the same time; never more than the client had open.
    pub max_concurrent: u64,
    /// Data requests that came before the time of the last `Retry-After`. Clients are not distinguished: a request that
    /// was in flight while another client was throttled counts too.
    pub too_early: u64,
    pub access: AccessStats,
}

/// Counters of `/oauth/token`, `/login` and `/sign`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessStats {
    /// Issued access tokens.
    pub tokens_issued: u64,
    /// Rejected token requests.
    pub tokens_refused: u64,
    /// Access tokens issued for a refresh token.
    pub refreshes: u64,
    /// Reused refresh tokens; each revoked its family.
    pub refresh_reuses: u64,
    pub logins: u64,
    pub logins_refused: u64,
    pub signatures: u64,
}

/// How a data request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataOutcome {
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
pub(crate) struct RequestCounters {
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

impl RequestCounters {
    pub(crate) fn record(&self, outcome: DataOutcome) {
        self.outcomes[outcome as usize].fetch_add(1, Relaxed);
    }

    /// Counts one data request as in progress until the guard is dropped.
    pub(crate) fn enter(&self) -> InProgress<'_> {
        let concurrent = self.concurrent.fetch_add(1, Relaxed) + 1;
        self.max_concurrent.fetch_max(concurrent, Relaxed);
        InProgress(self)
    }

    /// The counters without those of the auth routes, which are kept elsewhere.
    pub(crate) fn snapshot(&self) -> MockApiStats {
        let ended = |outcome: DataOutcome| self.outcomes[outcome as usize].load(Relaxed);
        MockApiStats {
            requests: self.requests.load(Relaxed),
            data_requests: self.data_requests.load(Relaxed),
            ok: ended(DataOutcome::Ok),
            records: self.records.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            r401: ended(DataOutcome::R401),
            r403: ended(DataOutcome::R403),
            r429: ended(DataOutcome::R429),
            r500: ended(DataOutcome::R500),
            truncated: ended(DataOutcome::Truncated),
            resets: ended(DataOutcome::Reset),
            oversized: ended(DataOutcome::Oversized),
            bad: ended(DataOutcome::Bad),
            connections: self.connections.load(Relaxed),
            max_concurrent: self.max_concurrent.load(Relaxed),
            too_early: self.too_early.load(Relaxed),
            access: AccessStats::default(),
        }
    }

    /// Resets all counters except the number of requests in progress.
    pub(crate) fn reset(&self) {
        let counts = [&self.requests, &self.data_requests, &self.records, &self.bytes, &self.connections];
        let rest = [&self.too_early, &self.max_concurrent];
        for count in counts.into_iter().chain(rest).chain(&self.outcomes) {
            count.store(0, Relaxed);
        }
    }
}

pub(crate) struct InProgress<'a>(&'a RequestCounters);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.concurrent.fetch_sub(1, Relaxed);
    }
}

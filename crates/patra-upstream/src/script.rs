//! The behaviour of the mock API: faults, limits and content. Plain data; the server reads it for every request, so a
//! test may change it while serving. Faults are counted in data requests since the start or the last reset, never
//! random.

mod access;
mod content;
mod knobs;
mod tweets;

use serde::{Deserialize, Serialize};

pub use self::access::{LoginEndpoint, MockAuth, RequestSigning, SessionLocation, SignatureLocation, TokenEndpoint};
pub use self::content::{CeilingMode, DetailEndpoints, FailingItem, UnknownIdPolicy};
pub use self::tweets::{TweetEnvelope, TweetFault, TweetFaultKind, TweetProvider};

/// If several faults apply to one request, the first of this list wins: 401 or 403, reset, 429, 500, 400, truncated,
/// oversized. Latency and slowness combine with all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Delay before each response to a data request.
    pub latency_ms: u64,
    /// 429 with [`Script::retry_after`].
    pub e429: FaultSchedule,
    pub retry_after: RetryAfter,
    pub e500: FaultSchedule,
    /// Resets the connection instead of a response.
    pub reset: FaultSchedule,
    pub truncate: FaultSchedule,
    pub truncate_mode: TruncateMode,
    /// The body is padded with spaces after the JSON, to `oversize_mib`.
    pub oversize: FaultSchedule,
    pub oversize_mib: u32,
    /// The body is sent in chunks of `slow_chunk_bytes`, each after `slow_pause_ms`.
    pub slow: FaultSchedule,
    pub slow_chunk_bytes: usize,
    pub slow_pause_ms: u64,
    /// `/cursor` and `/link`: every page after this one names itself as the next, an endless loop.
    pub repeat_token_after: Option<u32>,
    /// Added to every reported total. `pages` follows the total, `has_more` stays correct.
    pub total_delta: i64,
    /// Adds the number of the data request to the total, so that each page reports another one.
    pub total_drift: bool,
    /// Records that appear late, after a collector has passed their position.
    pub late: Vec<LateRecord>,
    /// Number of records that exist; all if unset.
    pub visible: Option<usize>,
    /// 429 above this many data requests per second; 0 for no limit.
    pub rate_per_sec: u64,
    /// Name and value; a request without it gets 401.
    pub require_header: Option<(String, String)>,
    /// Name and value; a request without it gets 401.
    pub require_query: Option<(String, String)>,
    /// Page size if the request has none.
    pub page_size: usize,
    /// Largest page size; the response reports the size used.
    pub page_size_max: usize,
    /// Number of data requests kept in the log; 0 for none.
    pub log_limit: usize,
    /// Authentication of data requests.
    pub auth: MockAuth,
    /// Status for failed authentication: 401 or 403.
    pub auth_status: u16,
    pub oauth: TokenEndpoint,
    pub login: LoginEndpoint,
    pub signing: RequestSigning,
    /// 500 on these requests to `/oauth/token`, `/login` and `/sign`, which have their own count.
    pub auth_e500: FaultSchedule,
    /// Delay before each response of those three.
    pub auth_latency_ms: u64,
    pub detail: DetailEndpoints,
    /// Most records that a query of the listings serves; it still reports its true total.
    pub ceiling: Option<usize>,
    pub ceiling_mode: CeilingMode,
    /// Number of users. The records are their posts: record `n` belongs to user `n % users`.
    pub users: usize,
    /// Users whose posts and comments return an error.
    pub users_closed: Vec<FailingItem>,
    /// `/graphql`: errors in a 200 instead of data.
    pub graphql_error: FaultSchedule,
    /// Code of the GraphQL errors.
    pub graphql_code: String,
    /// The API key of `/export`, in the query as `api_key` or in the header `X-Api-Key`.
    pub export_key: String,
    /// Number of notes that each keyword finds on the notes platform.
    pub notes: usize,
    /// Notes, by number, that are deleted.
    pub notes_gone: Vec<usize>,
    /// Notes whose details fail.
    pub notes_broken: Vec<usize>,
    /// Notes whose details take `notes_slow_ms`.
    pub notes_slow: Vec<usize>,
    pub notes_slow_ms: u64,
    /// The tweet provider.
    pub tweets: TweetProvider,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            latency_ms: 0,
            e429: FaultSchedule::never(),
            retry_after: RetryAfter::Seconds(1),
            e500: FaultSchedule::never(),
            reset: FaultSchedule::never(),
            truncate: FaultSchedule::never(),
            truncate_mode: TruncateMode::Close,
            oversize: FaultSchedule::never(),
            oversize_mib: 16,
            slow: FaultSchedule::never(),
            slow_chunk_bytes: 64,
            slow_pause_ms: 10,
            repeat_token_after: None,
            total_delta: 0,
            total_drift: false,
            late: Vec::new(),
            visible: None,
            rate_per_sec: 0,
            require_header: None,
            require_query: None,
            page_size: 100,
            page_size_max: 1000,
            log_limit: 10_000,
            auth: MockAuth::Open,
            auth_status: 401,
            oauth: TokenEndpoint::default(),
            login: LoginEndpoint::default(),
            signing: RequestSigning::default(),
            auth_e500: FaultSchedule::never(),
            auth_latency_ms: 0,
            detail: DetailEndpoints::default(),
            ceiling: None,
            ceiling_mode: CeilingMode::Refuse,
            users: 10,
            users_closed: Vec::new(),
            graphql_error: FaultSchedule::never(),
            graphql_code: "RATE_LIMITED".to_owned(),
            export_key: "export-key".to_owned(),
            notes: 45,
            notes_gone: Vec::new(),
            notes_broken: Vec::new(),
            notes_slow: Vec::new(),
            notes_slow_ms: 1_000,
            tweets: TweetProvider::default(),
        }
    }
}

/// Which data requests a fault applies to; the first is number 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultSchedule {
    /// Every n-th request; 0 for none.
    pub every: u64,
    /// Additional request numbers.
    pub at: Vec<u64>,
}

impl FaultSchedule {
    pub fn never() -> Self {
        Self::default()
    }

    pub fn every(every: u64) -> Self {
        Self { every, at: Vec::new() }
    }

    pub fn at(numbers: impl IntoIterator<Item = u64>) -> Self {
        Self { every: 0, at: numbers.into_iter().collect() }
    }

    pub fn applies_to(&self, number: u64) -> bool {
        (self.every > 0 && number.is_multiple_of(self.every)) || self.at.contains(&number)
    }
}

/// The `Retry-After` of a 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    Absent,
    Seconds(u64),
    /// An HTTP date this many seconds ahead, rounded up to a whole second.
    HttpDate(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TruncateMode {
    /// The full length is announced, and the connection closes halfway.
    Close,
    /// The length is correct, but the JSON is truncated.
    Cut,
}

/// A record that is hidden up to and including the `after`-th data request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateRecord {
    pub index: usize,
    pub after: u64,
}

impl Script {
    /// The records that are hidden from data request `number`: sorted, without duplicates.
    pub(crate) fn hidden_from(&self, number: u64) -> Vec<usize> {
        let mut hidden: Vec<usize> = self.late.iter().filter(|l| number <= l.after).map(|l| l.index).collect();
        hidden.sort_unstable();
        hidden.dedup();
        hidden
    }

    /// The total to report, possibly falsified.
    pub(crate) fn total(&self, real: usize, number: u64) -> i64 {
        let drift = if self.total_drift { number as i64 } else { 0 };
        (real as i64).saturating_add(self.total_delta).saturating_add(drift).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_schedule_selects_requests() {
        let hits = |when: &FaultSchedule| (1..=10).filter(|n| when.applies_to(*n)).collect::<Vec<_>>();
        assert!(hits(&FaultSchedule::never()).is_empty());
        assert_eq!(hits(&FaultSchedule::every(4)), [4, 8]);
        assert_eq!(hits(&FaultSchedule::at([2, 3])), [2, 3]);
        assert_eq!(hits(&FaultSchedule { every: 5, at: vec![1] }), [1, 5, 10]);
    }

    #[test]
    fn late_records_stay_hidden_up_to_their_request() {
        let late = vec![
            LateRecord { index: 9, after: 2 },
            LateRecord { index: 3, after: 1 },
            LateRecord { index: 9, after: 1 },
        ];
        let script = Script { late, ..Script::default() };
        assert_eq!(script.hidden_from(1), [3, 9]);
        assert_eq!(script.hidden_from(2), [9]);
        assert!(script.hidden_from(3).is_empty());
    }

    #[test]
    fn falsified_totals_are_never_negative() {
        let script = |total_delta, total_drift| Script { total_delta, total_drift, ..Script::default() };
        assert_eq!(script(0, false).total(10, 7), 10);
        assert_eq!(script(5, true).total(10, 7), 22);
        assert_eq!(script(-50, false).total(10, 7), 0);
    }
}

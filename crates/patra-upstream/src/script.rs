//! How the far side behaves: faults, limits and what exists. Plain data; the server reads it anew for every request,
//! so a test may change it while serving. Everything is counted in data requests since the start or the last reset,
//! never rolled by dice.

mod access;
mod content;
mod knobs;
mod tweets;

use serde::{Deserialize, Serialize};

pub use self::access::{Auth, Login, LoginAnswer, OAuth, SignaturePlace, Signing};
pub use self::content::{CeilingMode, Detail, Failing, Unknown};
pub use self::tweets::{TweetAnswer, TweetEnvelope, TweetFault, Tweets};

/// Where several faults fall on one request, the first of this list wins: 401 or 403, reset, 429, 500, 400, truncated,
/// oversized; latency and slowness go with any of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Waited before each answer to a data request.
    pub latency_ms: u64,
    /// 429 with [`Script::retry_after`].
    pub e429: When,
    pub retry_after: RetryAfter,
    pub e500: When,
    /// The connection is reset instead of an answer.
    pub reset: When,
    pub truncate: When,
    pub truncate_mode: TruncateMode,
    /// The body is padded with blanks behind the JSON, to `oversize_mib`.
    pub oversize: When,
    pub oversize_mib: u32,
    /// The body comes in pieces of `slow_chunk_bytes`, each after `slow_pause_ms`.
    pub slow: When,
    pub slow_chunk_bytes: usize,
    pub slow_pause_ms: u64,
    /// `/cursor` and `/link`: every page after this one names itself as the next, an endless loop.
    pub repeat_token_after: Option<u32>,
    /// Added to every total reported; what follows from a total (`pages`) lies along, `has_more` does not.
    pub total_delta: i64,
    /// Adds the number of the data request to the total, so that each page reports another.
    pub total_drift: bool,
    /// Records that appear late, behind the back of a collector that has already passed their place.
    pub late: Vec<Late>,
    /// Only so many records exist; all without it.
    pub visible: Option<usize>,
    /// 429 above so many data requests in a second; 0 for no limit.
    pub rate_per_sec: u64,
    /// Name and value; 401 without it.
    pub require_header: Option<(String, String)>,
    /// Name and value; 401 without it.
    pub require_query: Option<(String, String)>,
    /// When the request names none.
    pub page_size: usize,
    /// A larger one is lowered to this, and the answer says so.
    pub page_size_max: usize,
    /// How many of the latest data requests the server remembers; 0 for none.
    pub log_limit: usize,
    /// What else a data request must show.
    pub auth: Auth,
    /// Answered where it does not: 401 or 403.
    pub auth_status: u16,
    pub oauth: OAuth,
    pub login: Login,
    pub signing: Signing,
    /// 500 on these requests to `/oauth/token`, `/login` and `/sign`, which are counted by themselves.
    pub door_e500: When,
    /// Waited before each answer of those three.
    pub door_latency_ms: u64,
    pub detail: Detail,
    /// A query of the listings serves its first so many records and no more, and still reports its true total.
    pub ceiling: Option<usize>,
    pub ceiling_mode: CeilingMode,
    /// How many users there are. The records are their posts: record `n` is one of user `n % users`.
    pub users: usize,
    /// Users whose posts and comments cannot be read.
    pub users_closed: Vec<Failing>,
    /// `/graphql`: errors in a 200 instead of data.
    pub graphql_error: When,
    /// The code of those errors.
    pub graphql_code: String,
    /// The API key of `/export`, in the query as `api_key` or in the header `X-Api-Key`.
    pub export_key: String,
    /// How many notes each keyword finds on the platform of notes.
    pub notes: usize,
    /// Notes, by number, that are gone.
    pub notes_gone: Vec<usize>,
    /// Notes whose details fail.
    pub notes_broken: Vec<usize>,
    /// Notes whose details take `notes_slow_ms`.
    pub notes_slow: Vec<usize>,
    pub notes_slow_ms: u64,
    /// The provider of tweets.
    pub tweets: Tweets,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            latency_ms: 0,
            e429: When::never(),
            retry_after: RetryAfter::Seconds(1),
            e500: When::never(),
            reset: When::never(),
            truncate: When::never(),
            truncate_mode: TruncateMode::Close,
            oversize: When::never(),
            oversize_mib: 16,
            slow: When::never(),
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
            auth: Auth::Open,
            auth_status: 401,
            oauth: OAuth::default(),
            login: Login::default(),
            signing: Signing::default(),
            door_e500: When::never(),
            door_latency_ms: 0,
            detail: Detail::default(),
            ceiling: None,
            ceiling_mode: CeilingMode::Refuse,
            users: 10,
            users_closed: Vec::new(),
            graphql_error: When::never(),
            graphql_code: "RATE_LIMITED".to_owned(),
            export_key: "export-key".to_owned(),
            notes: 45,
            notes_gone: Vec::new(),
            notes_broken: Vec::new(),
            notes_slow: Vec::new(),
            notes_slow_ms: 1_000,
            tweets: Tweets::default(),
        }
    }
}

/// Which data requests a fault falls on; the first is number 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// Every so many-th; 0 for none.
    pub every: u64,
    /// And exactly these.
    pub at: Vec<u64>,
}

impl When {
    pub fn never() -> Self {
        Self::default()
    }

    pub fn every(every: u64) -> Self {
        Self { every, at: Vec::new() }
    }

    pub fn at(numbers: impl IntoIterator<Item = u64>) -> Self {
        Self { every: 0, at: numbers.into_iter().collect() }
    }

    pub fn falls_on(&self, number: u64) -> bool {
        (self.every > 0 && number.is_multiple_of(self.every)) || self.at.contains(&number)
    }
}

/// What a 429 says about when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    Absent,
    Seconds(u64),
    /// The same as an HTTP date so many seconds ahead, rounded up to a whole second.
    HttpDate(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TruncateMode {
    /// The whole length is promised, and the connection closes half way.
    Close,
    /// The length fits, but the JSON is cut.
    Cut,
}

/// A record that is hidden up to and including the `after`-th data request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    pub index: usize,
    pub after: u64,
}

impl Script {
    /// The records that exist but may not be seen by data request `number`: sorted, without repetition.
    pub(crate) fn hidden_from(&self, number: u64) -> Vec<usize> {
        let mut hidden: Vec<usize> = self.late.iter().filter(|l| number <= l.after).map(|l| l.index).collect();
        hidden.sort_unstable();
        hidden.dedup();
        hidden
    }

    /// The total to report instead of the real one.
    pub(crate) fn total(&self, real: usize, number: u64) -> i64 {
        let drift = if self.total_drift { number as i64 } else { 0 };
        (real as i64).saturating_add(self.total_delta).saturating_add(drift).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_fall_where_they_are_told() {
        let hits = |when: &When| (1..=10).filter(|n| when.falls_on(*n)).collect::<Vec<_>>();
        assert!(hits(&When::never()).is_empty());
        assert_eq!(hits(&When::every(4)), [4, 8]);
        assert_eq!(hits(&When::at([2, 3])), [2, 3]);
        assert_eq!(hits(&When { every: 5, at: vec![1] }), [1, 5, 10]);
    }

    #[test]
    fn late_records_stay_hidden_up_to_their_request() {
        let late = vec![Late { index: 9, after: 2 }, Late { index: 3, after: 1 }, Late { index: 9, after: 1 }];
        let script = Script { late, ..Script::default() };
        assert_eq!(script.hidden_from(1), [3, 9]);
        assert_eq!(script.hidden_from(2), [9]);
        assert!(script.hidden_from(3).is_empty());
    }

    #[test]
    fn totals_lie_but_never_below_zero() {
        let script = |total_delta, total_drift| Script { total_delta, total_drift, ..Script::default() };
        assert_eq!(script(0, false).total(10, 7), 10);
        assert_eq!(script(5, true).total(10, 7), 22);
        assert_eq!(script(-50, false).total(10, 7), 0);
    }
}

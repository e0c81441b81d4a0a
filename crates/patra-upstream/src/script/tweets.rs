//! The tweet provider: its users, their tweets, and faults per user.

use serde::{Deserialize, Serialize};

/// User names are compared without case. Every user exists unless it is `unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TweetProvider {
    /// Required value of the header `X-API-Key`.
    pub key: String,
    /// Status for a wrong key: 403 as in practice, or 401 as documented.
    pub key_status: u16,
    /// Number of tweets of each user.
    pub per_user: usize,
    /// Users with another number of tweets.
    pub counts: Vec<(String, usize)>,
    /// Users who do not exist: their timeline is an empty success, and only `user/info` reports it.
    pub unknown: Vec<String>,
    /// Members of a list, by list id.
    pub lists: Vec<(String, Vec<String>)>,
    pub page_size: usize,
    pub envelope: TweetEnvelope,
    /// The oldest tweet of a user is pinned: it is on every page, if the envelope supports it.
    pub pinned: bool,
    /// `has_next_page` stays true, with new cursors that lead to empty pages.
    pub always_more: bool,
    /// `has_next_page` stays true, and the last page names itself as the next.
    pub repeat_cursor: bool,
    pub faults: Vec<TweetFault>,
}

impl Default for TweetProvider {
    fn default() -> Self {
        Self {
            key: "tweets-key".to_owned(),
            key_status: 403,
            per_user: 45,
            counts: Vec::new(),
            unknown: Vec::new(),
            lists: Vec::new(),
            page_size: 20,
            envelope: TweetEnvelope::Wire,
            pinned: false,
            always_more: false,
            repeat_cursor: false,
            faults: Vec::new(),
        }
    }
}

impl TweetProvider {
    /// Number of tweets of a user.
    pub(crate) fn count(&self, user: &str) -> usize {
        if self.unknown.iter().any(|name| name.eq_ignore_ascii_case(user)) {
            return 0;
        }
        let own = self.counts.iter().find(|(name, _)| name.eq_ignore_ascii_case(user));
        own.map_or(self.per_user, |(_, count)| *count)
    }

    /// The fault of the `nth` request for this user, from 1.
    pub(crate) fn fault(&self, user: &str, nth: u64) -> Option<TweetFaultKind> {
        let falls =
            |fault: &&TweetFault| fault.user.eq_ignore_ascii_case(user) && (fault.times == 0 || nth <= fault.times);
        self.faults.iter().find(falls).map(|fault| fault.kind)
    }
}

/// Envelope of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TweetEnvelope {
    /// `{status, data: {pin_tweet, tweets}, has_next_page, next_cursor}`
    Wire,
    /// `{tweets, has_next_page, next_cursor, status}`
    Documented,
}

/// A fault for the requests for one user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TweetFault {
    pub user: String,
    pub kind: TweetFaultKind,
    /// Number of first requests that fail; 0 for all.
    pub times: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TweetFaultKind {
    /// 429 comes with the script's `Retry-After`.
    Status(u16),
    /// 200 with `"status": "error"`.
    Error,
    /// 200 and success, without any list of tweets.
    NoList,
    /// The correct response, after this many milliseconds or when the fault is removed from the script.
    Late(u64),
}

impl TweetFault {
    pub fn new(user: &str, kind: TweetFaultKind, times: u64) -> Self {
        Self { user: user.to_owned(), kind, times }
    }
}

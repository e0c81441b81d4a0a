//! The provider of tweets: who there is, how much they write, and whose requests go wrong.

use serde::{Deserialize, Serialize};

/// Names of users are compared without case. Every user exists that is not `unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tweets {
    /// What requests must show in the header `X-API-Key`.
    pub key: String,
    /// Answered where they do not: 403, as the provider does, or 401, as it says.
    pub key_status: u16,
    /// How many tweets each user has written.
    pub per_user: usize,
    /// Users who have written another number.
    pub counts: Vec<(String, usize)>,
    /// Users who do not exist: their tweets are a success without any, and only `user/info` knows.
    pub unknown: Vec<String>,
    /// The users whose tweets a list has, by its id.
    pub lists: Vec<(String, Vec<String>)>,
    pub page_size: usize,
    pub envelope: TweetEnvelope,
    /// The oldest tweet of a user is pinned: it stands on every page, where the envelope has a place for it.
    pub pinned: bool,
    /// `has_next_page` stays true, with new cursors that lead to empty pages.
    pub always_more: bool,
    /// `has_next_page` stays true, and the last page names itself as the next.
    pub repeat_cursor: bool,
    pub faults: Vec<TweetFault>,
}

impl Default for Tweets {
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

impl Tweets {
    /// How many tweets a user has written.
    pub(crate) fn count(&self, user: &str) -> usize {
        if self.unknown.iter().any(|name| name.eq_ignore_ascii_case(user)) {
            return 0;
        }
        let own = self.counts.iter().find(|(name, _)| name.eq_ignore_ascii_case(user));
        own.map_or(self.per_user, |(_, count)| *count)
    }

    /// What goes wrong with the `nth` request for this user, from 1.
    pub(crate) fn fault(&self, user: &str, nth: u64) -> Option<TweetAnswer> {
        let falls =
            |fault: &&TweetFault| fault.user.eq_ignore_ascii_case(user) && (fault.times == 0 || nth <= fault.times);
        self.faults.iter().find(falls).map(|fault| fault.answer)
    }
}

/// How a page is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TweetEnvelope {
    /// `{status, data: {pin_tweet, tweets}, has_next_page, next_cursor}`
    Wire,
    /// `{tweets, has_next_page, next_cursor, status}`
    Documented,
}

/// What becomes of the requests for a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TweetFault {
    pub user: String,
    pub answer: TweetAnswer,
    /// Of his first so many requests; 0 for all.
    pub times: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TweetAnswer {
    /// 429 comes with the script's `Retry-After`.
    Status(u16),
    /// 200 with `"status": "error"`.
    Error,
    /// 200 and success, without any list of tweets.
    NoList,
    /// The right answer, after so many milliseconds, or when the fault is taken out of the script.
    Late(u64),
}

impl TweetFault {
    pub fn new(user: &str, answer: TweetAnswer, times: u64) -> Self {
        Self { user: user.to_owned(), answer, times }
    }
}

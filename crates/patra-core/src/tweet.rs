//! Tweets: the stored form, cleaning of raw ones, user names, and how many to request. Pure; the upstreams' formats
//! belong to the connectors.

mod clean;
mod id;
mod name;
mod stats;

use serde::{Deserialize, Serialize, Serializer};

use crate::time::Ts;

pub use clean::{InvalidTweet, TweetDraft, clean, instant, is_probably_cut};
pub use id::compare as compare_ids;
pub use name::{MAX_NAME, NameError, username, usernames, usernames_of};
pub use stats::{
    DEFAULT_LIMIT, EMA_ALPHA, FetchStats, MAX_LIMIT, MAX_REQUESTED, MIN_LIMIT, NewestTweet, QUIET_AFTER, SAFETY_MARGIN,
};

/// Longest text of a tweet, in code points: that of X Premium (TWEET-51).
pub const MAX_TEXT_LENGTH: usize = 25_000;
/// Longest id or name, in characters (TWEET-120).
pub const MAX_COLUMN: usize = 255;

/// Fields of every stored tweet: the columns, and the counts of shares, likes and so on.
pub const COLUMNS: &[&str] = &[
    "tweet_id",
    "text",
    "created_at",
    "author_username",
    "author_display_name",
    "referenced_tweet_id",
    "reference_type",
    "media",
    "referenced_tweet_text",
    "referenced_tweet_media",
    "referenced_tweet_author_username",
    "retweet_count",
    "reply_count",
    "like_count",
    "quote_count",
    "bookmark_count",
    "view_count",
];

/// A tweet as it is stored: the names are those of the columns (TWEET-120..130).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tweet {
    pub tweet_id: String,
    /// Cleaned; the record keeps the original.
    pub text: String,
    #[serde(serialize_with = "short")]
    pub created_at: Ts,
    pub author_username: String,
    pub author_display_name: Option<String>,
    pub referenced_tweet_id: Option<String>,
    pub reference_type: Option<ReferenceType>,
    pub media: Option<Vec<Media>>,
    pub referenced_tweet_text: Option<String>,
    pub referenced_tweet_media: Option<Vec<Media>>,
    pub referenced_tweet_author_username: Option<String>,
}

/// Counts of shares, likes and so on. A count that the upstream does not send is unknown, not zero (TWEET-169).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TweetCounts {
    pub retweet_count: Option<u64>,
    pub reply_count: Option<u64>,
    pub like_count: Option<u64>,
    pub quote_count: Option<u64>,
    pub bookmark_count: Option<u64>,
    pub view_count: Option<u64>,
}

/// A picture or video (TWEET-132).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Media {
    pub media_key: String,
    pub r#type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
}

/// Another tweet that a tweet refers to. It is mostly not stored here, so nothing points at a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    pub id: String,
    pub r#type: ReferenceType,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceType {
    Retweeted,
    Quoted,
    RepliedTo,
}

/// ISO 8601 without a fraction where there is none (TWEET-139).
fn short<S: Serializer>(at: &Ts, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_short_text())
}

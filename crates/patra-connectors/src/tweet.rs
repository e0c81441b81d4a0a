//! Bytes of a page of tweets to values: TwitterAPI.io in both of its envelopes, and X's own API v2. Every form is
//! brought to one normalised object first, in the manner of API v2, so that there is one parser behind. Pure functions;
//! one bad tweet never costs the others.

mod digits;
mod envelope;
mod media;
mod normalise;
mod parse;
mod surrogates;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::value::RawValue;

use patra_core::tweet::{InvalidTweet, Tweet, TweetCounts, TweetDraft};

use crate::json_size::{self, TooManyValues};

pub use normalise::{NormalisedTweets, normalise};
pub use parse::parse;

/// Most tweets of one page.
pub const MAX_TWEETS: usize = 10_000;

/// Why a response is no page of tweets (TWEET-47).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TweetPageError {
    #[error("the response is no JSON object: {0}")]
    NoObject(String),
    #[error("the response has neither `tweets` nor `data`: the upstream seems to have changed")]
    NoData,
    #[error("`{0}` is no list of tweets: the upstream seems to have changed")]
    NoList(&'static str),
    #[error(transparent)]
    Size(#[from] TooManyValues),
    #[error("it has {0} tweets, at most {MAX_TWEETS} are read: ask for smaller pages")]
    TooMany(usize),
}

/// A tweet of a page.
#[derive(Debug)]
pub struct FoundTweet<'a> {
    /// The original bytes of the tweet.
    pub raw: &'a RawValue,
    /// Whether the tweet is pinned, and so not in the order by time.
    pub pinned: bool,
    /// The id, also of an invalid tweet, if it has one.
    pub id: Option<String>,
    pub read: Result<MappedTweet, InvalidTweet>,
}

/// The columns of a tweet's record.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MappedTweet {
    #[serde(flatten)]
    pub tweet: Tweet,
    #[serde(flatten)]
    pub counts: TweetCounts,
}

/// The tweets of a response, in its order. A pinned tweet that is in the list as well is returned once.
pub fn read(text: &str) -> Result<Vec<FoundTweet<'_>>, TweetPageError> {
    json_size::check(text)?;
    let envelope = envelope::open(text)?;
    if envelope.items.len() > MAX_TWEETS {
        return Err(TweetPageError::TooMany(envelope.items.len()));
    }
    let drafts = parse(&envelope.normalised());
    let found = envelope.items.into_iter().zip(drafts).map(|(item, (draft, counts))| {
        let TweetDraft { tweet_id: id, .. } = &draft;
        let (raw, pinned, id) = (item.raw, item.pinned, id.clone());
        FoundTweet { raw, pinned, id, read: draft.validate().map(|tweet| MappedTweet { tweet, counts }) }
    });
    let mut found: Vec<_> = found.collect();
    let listed: BTreeSet<_> = found.iter().filter(|one| !one.pinned).filter_map(|one| one.id.clone()).collect();
    found.retain(|one| !one.pinned || one.id.as_ref().is_none_or(|id| !listed.contains(id)));
    // A tweet that the list itself marks as pinned is out of order there too.
    for one in &mut found {
        one.pinned |= envelope::is_pinned(one.raw);
    }
    Ok(found)
}

#[cfg(test)]
#[path = "tweet/tests/pages.rs"]
mod tests;

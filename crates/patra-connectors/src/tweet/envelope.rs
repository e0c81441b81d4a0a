//! Finds the tweets in a response.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::TweetPageError;
use super::digits::exact;
use super::normalise::{NormalisedTweets, normalise};
use super::surrogates::whole_characters;

/// The tweets of a response, not parsed yet.
#[derive(Debug)]
pub(super) struct TweetEnvelope<'a> {
    pub(super) items: Vec<TweetItem<'a>>,
    form: EnvelopeForm<'a>,
}

#[derive(Debug)]
pub(super) struct TweetItem<'a> {
    pub(super) raw: &'a RawValue,
    pub(super) pinned: bool,
}

#[derive(Debug)]
enum EnvelopeForm<'a> {
    /// TwitterAPI.io: each tweet is whole.
    Provider,
    /// X's own API v2: users, media and referenced tweets are separate.
    Api { includes: Option<&'a RawValue> },
}

#[derive(Deserialize)]
struct Root<'a> {
    #[serde(borrow, default)]
    tweets: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    includes: Option<&'a RawValue>,
    #[serde(default)]
    meta: Option<Value>,
}

#[derive(Deserialize)]
struct EnvelopeData<'a> {
    #[serde(borrow, default)]
    tweets: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pin_tweet: Option<&'a RawValue>,
}

/// Both envelopes of the provider, `tweets` and `data.tweets` (TWEET-25, TWEET-167), and the `data` list of API v2
/// (TWEET-41).
pub(super) fn open(text: &str) -> Result<TweetEnvelope<'_>, TweetPageError> {
    // Serde would read a list as the members in their order.
    if !text.trim_start().starts_with('{') {
        return Err(TweetPageError::NoObject("it begins otherwise".to_owned()));
    }
    let root: Root<'_> = serde_json::from_str(text).map_err(|error| TweetPageError::NoObject(error.to_string()))?;
    if let Some(tweets) = root.tweets {
        return Ok(TweetEnvelope { items: list(tweets, "tweets")?, form: EnvelopeForm::Provider });
    }
    let Some(data) = root.data else {
        // API v2 leaves `data` out of an empty page.
        let empty = root.meta.is_some_and(|meta| meta["result_count"] == 0);
        let form = EnvelopeForm::Api { includes: None };
        return if empty { Ok(TweetEnvelope { items: Vec::new(), form }) } else { Err(TweetPageError::NoData) };
    };
    if data.get().starts_with('[') {
        return Ok(TweetEnvelope { items: list(data, "data")?, form: EnvelopeForm::Api { includes: root.includes } });
    }
    let data: EnvelopeData<'_> = serde_json::from_str(data.get()).map_err(|_| TweetPageError::NoList("data"))?;
    let mut items = list(data.tweets.ok_or(TweetPageError::NoList("data"))?, "data.tweets")?;
    if let Some(raw) = data.pin_tweet {
        items.insert(0, TweetItem { raw, pinned: true });
    }
    Ok(TweetEnvelope { items, form: EnvelopeForm::Provider })
}

fn list<'a>(raw: &'a RawValue, name: &'static str) -> Result<Vec<TweetItem<'a>>, TweetPageError> {
    let list: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| TweetPageError::NoList(name))?;
    Ok(list.into_iter().map(|raw| TweetItem { raw, pinned: false }).collect())
}

/// Newer responses mark the tweet itself as pinned.
pub(super) fn is_pinned(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Mark {
        #[serde(rename = "isPinned", default)]
        pinned: Value,
    }
    serde_json::from_str::<Mark>(raw.get()).is_ok_and(|mark| mark.pinned == true)
}

impl TweetEnvelope<'_> {
    /// One entry for each item, in their order.
    pub(super) fn normalised(&self) -> NormalisedTweets {
        let value = |raw: &RawValue| {
            let text = exact(raw.get());
            // Only half a character in a text can be wrong: the list of raw values was JSON.
            let read = serde_json::from_str(&text).or_else(|_| serde_json::from_str(&whole_characters(&text)));
            read.unwrap_or(Value::Null)
        };
        let items = self.items.iter().map(|item| value(item.raw));
        match self.form {
            EnvelopeForm::Provider => normalise(&items.collect::<Vec<_>>()),
            EnvelopeForm::Api { includes } => {
                NormalisedTweets { data: items.collect(), includes: includes.map(value).unwrap_or_default() }
            }
        }
    }
}

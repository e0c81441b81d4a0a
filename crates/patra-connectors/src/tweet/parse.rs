//! Parses entries in the form of API v2 to drafts of tweets, with users and media from the includes (TWEET-41..46).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use patra_core::tweet::{Media, Reference, ReferenceType, TweetCounts, TweetDraft};

use super::media;
use super::normalise::NormalisedTweets;

/// One draft for each entry, in their order; values that an entry lacks are missing in its draft.
pub fn parse(page: &NormalisedTweets) -> Vec<(TweetDraft, TweetCounts)> {
    let included = Included {
        users: by(&page.includes["users"], "id"),
        media: by(&page.includes["media"], "media_key"),
        tweets: by(&page.includes["tweets"], "id"),
    };
    page.data.iter().map(|entry| (included.draft(entry), counts(&entry["public_metrics"]))).collect()
}

/// Included objects that entries refer to.
struct Included<'a> {
    users: BTreeMap<String, &'a Value>,
    media: BTreeMap<String, &'a Value>,
    tweets: BTreeMap<String, &'a Value>,
}

impl Included<'_> {
    fn draft(&self, entry: &Value) -> TweetDraft {
        let author = self.author(entry);
        let reference = reference(&entry["referenced_tweets"]);
        // A value that the client has prepared counts; else the include of API v2.
        let other = reference.as_ref().and_then(|reference| self.tweets.get(&reference.id).copied());
        let prepared = media::list(&entry["referenced_tweet_media"]);
        TweetDraft {
            tweet_id: text(entry, "id"),
            text: full_text(entry),
            created_at: text(entry, "created_at"),
            author_username: author.and_then(|user| text(user, "username")),
            author_display_name: author.and_then(|user| text(user, "name")),
            media: self.media(entry),
            referenced_tweet_text: text(entry, "referenced_tweet_text").or_else(|| full_text(other?)),
            referenced_tweet_media: match other {
                Some(other) if prepared.is_empty() => self.media(other),
                _ => prepared,
            },
            referenced_tweet_author_username: text(entry, "referenced_tweet_author_username")
                .or_else(|| text(self.author(other?)?, "username")),
            reference,
        }
    }

    fn author(&self, entry: &Value) -> Option<&Value> {
        self.users.get(&text(entry, "author_id")?).copied()
    }

    fn media(&self, entry: &Value) -> Vec<Media> {
        let keys = entry["attachments"]["media_keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
        keys.filter_map(|key| media::one(self.media.get(key)?, None)).collect()
    }
}

/// The main reference (TWEET-37, TWEET-43).
fn reference(list: &Value) -> Option<Reference> {
    let all = list.as_array().into_iter().flatten();
    let known = all.filter_map(|one| Some(Reference { id: text(one, "id")?, r#type: kind(&one["type"])? }));
    known.min_by_key(|reference| reference.r#type.rank())
}

fn kind(word: &Value) -> Option<ReferenceType> {
    ReferenceType::deserialize(word).ok()
}

fn counts(metrics: &Value) -> TweetCounts {
    let count = |name: &str| match &metrics[name] {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    TweetCounts {
        retweet_count: count("retweet_count"),
        reply_count: count("reply_count"),
        like_count: count("like_count"),
        quote_count: count("quote_count"),
        bookmark_count: count("bookmark_count"),
        view_count: count("impression_count"),
    }
}

/// Entries by a key; the first one of equal keys counts.
fn by<'a>(list: &'a Value, key: &str) -> BTreeMap<String, &'a Value> {
    let all = list.as_array().into_iter().flatten().rev();
    all.filter_map(|one| Some((text(one, key)?, one))).collect()
}

/// The longest of the texts that a tweet may have; the shorter ones are cut (TWEET-36).
pub(super) fn full_text(tweet: &Value) -> Option<String> {
    let texts = [&tweet["text"], &tweet["full_text"], &tweet["note_tweet"]["text"]];
    let texts = texts.into_iter().rev().filter_map(Value::as_str);
    texts.max_by_key(|text| text.chars().count()).map(str::to_owned)
}

/// A text or a number that is not empty.
pub(super) fn text(value: &Value, name: &str) -> Option<String> {
    match &value[name] {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

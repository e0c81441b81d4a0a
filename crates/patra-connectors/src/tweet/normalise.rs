//! Converts tweets of TwitterAPI.io to the form of API v2: users and media separate, references by type and id, and
//! nested tweets taken out (TWEET-34..38).

use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use patra_core::Ts;
use patra_core::tweet::{self, Media};

use super::media;
use super::parse::{full_text, text};

/// Input of the parser, the same for every upstream.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct NormalisedTweets {
    pub data: Vec<Value>,
    pub includes: Value,
}

/// Counts of the provider, and their names in API v2.
const COUNTS: [(&str, &str); 6] = [
    ("retweetCount", "retweet_count"),
    ("replyCount", "reply_count"),
    ("likeCount", "like_count"),
    ("quoteCount", "quote_count"),
    ("bookmarkCount", "bookmark_count"),
    ("viewCount", "impression_count"),
];

/// Converts tweets of the provider, in their order. An entry that is no tweet stays unchanged, and the parser rejects
/// it.
pub fn normalise(tweets: &[Value]) -> NormalisedTweets {
    let mut includes = Includes::default();
    let data = tweets.iter().map(|tweet| entry(tweet, &mut includes)).collect();
    NormalisedTweets { data, includes: json!({ "users": includes.users, "media": includes.media }) }
}

#[derive(Default)]
struct Includes {
    users: Vec<Value>,
    /// The users as texts, to find those that are known.
    known: HashSet<String>,
    media: Vec<Media>,
}

fn entry(tweet: &Value, includes: &mut Includes) -> Value {
    if !tweet.is_object() {
        return tweet.clone();
    }
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() && value != json!([]) {
            entry.insert(name.to_owned(), value);
        }
    };
    put("id", json!(text(tweet, "id")));
    put("text", json!(full_text(tweet)));
    put("created_at", json!(text(tweet, "createdAt").map(|date| readable(&date))));
    put("author_id", json!(author(&tweet["author"], includes)));
    put("referenced_tweets", references(tweet));
    if let Some(nested) =
        ["retweeted_tweet", "quoted_tweet"].iter().map(|name| &tweet[*name]).find(|one| one.is_object())
    {
        put("referenced_tweet_text", json!(full_text(nested)));
        put("referenced_tweet_media", json!(media::of_tweet(nested)));
        put("referenced_tweet_author_username", json!(text(&nested["author"], "userName")));
    } else if is_reply(tweet) {
        put("referenced_tweet_author_username", json!(text(tweet, "inReplyToUsername")));
    }
    let shown = media::of_tweet(tweet);
    if !shown.is_empty() {
        let keys: Vec<_> = shown.iter().map(|media| media.media_key.clone()).collect();
        put("attachments", json!({ "media_keys": keys }));
        includes.media.extend(shown);
    }
    let known = |(theirs, ours): (&str, &str)| {
        Some((ours.to_owned(), tweet.get(theirs).filter(|count| !count.is_null())?.clone()))
    };
    let counts: Map<_, _> = COUNTS.into_iter().filter_map(known).collect();
    if !counts.is_empty() {
        put("public_metrics", counts.into());
    }
    entry.into()
}

/// The date in the usual form. An unreadable date stays as it is, which makes the tweet invalid.
fn readable(date: &str) -> String {
    tweet::instant(date).map_or_else(|| date.to_owned(), Ts::to_short_text)
}

/// The author's id; the name where there is no id.
fn author(author: &Value, includes: &mut Includes) -> Option<String> {
    let username = text(author, "userName")?;
    let id = text(author, "id").unwrap_or_else(|| username.clone());
    let user = json!({ "id": id, "username": username, "name": text(author, "name") });
    if includes.known.insert(user.to_string()) {
        includes.users.push(user);
    }
    Some(id)
}

/// All references, the main one first (TWEET-37).
fn references(tweet: &Value) -> Value {
    let reply = is_reply(tweet).then(|| text(tweet, "inReplyToId")).flatten();
    let all = [
        ("retweeted", text(&tweet["retweeted_tweet"], "id")),
        ("quoted", text(&tweet["quoted_tweet"], "id")),
        ("replied_to", reply),
    ];
    all.into_iter().filter_map(|(kind, id)| Some(json!({ "type": kind, "id": id? }))).collect()
}

/// A reply without the id of its parent does not count as one.
fn is_reply(tweet: &Value) -> bool {
    tweet["isReply"] == true && text(tweet, "inReplyToId").is_some()
}

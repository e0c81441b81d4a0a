//! The tweets of a user. Tweet 0 is the oldest; a tweet never changes, however many come later.

use serde_json::{Value, json};

use crate::rng::mix;
use crate::time::http_date;

/// Time of the first tweet of every user: 2026-01-01, in seconds.
const BEGINNING: u64 = 1_767_225_600;
/// Time between two tweets of a user.
const GAP_SECS: u64 = 60;
/// Epoch of the ids, in milliseconds.
const EPOCH_MS: u64 = 1_288_834_974_657;

/// Number of a user; the case of the name is ignored.
fn number_of(user: &str) -> u64 {
    let sum =
        user.bytes().fold(11_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte.to_ascii_lowercase())));
    mix(sum)
}

/// Tweet id: rises with time and is unique across users.
pub(super) fn id(user: &str, n: usize) -> u64 {
    let number = number_of(user);
    let millis = (BEGINNING + n as u64 * GAP_SECS) * 1_000 + number % 1_000;
    ((millis - EPOCH_MS) << 22) | (number >> 42)
}

/// The tweet as the provider returns it. One in ten each is a retweet, a quote, a photo, a video, and a reply.
pub(super) fn tweet(user: &str, n: usize) -> Value {
    let mut tweet = plain(user, n);
    match n % 10 {
        3 => {
            let original = plain("someone_else", n);
            tweet["text"] = format!(
                "RT @someone_else: {}…",
                original["text"].as_str().unwrap_or_default().get(..20).unwrap_or_default()
            )
            .into();
            tweet["retweeted_tweet"] = original;
        }
        5 => tweet["quoted_tweet"] = plain("third_party", n),
        7 => tweet["extendedEntities"] = json!({ "media": [media(user, n, "photo")] }),
        8 => tweet["extendedEntities"] = json!({ "media": [media(user, n, "video")] }),
        9 => {
            tweet["isReply"] = true.into();
            tweet["inReplyToId"] = id("third_party", n).to_string().into();
            tweet["inReplyToUsername"] = "third_party".into();
        }
        _ => {}
    }
    // Some tweets have no view count.
    if n % 4 == 1
        && let Some(members) = tweet.as_object_mut()
    {
        members.remove("viewCount");
    }
    tweet
}

fn plain(user: &str, n: usize) -> Value {
    let id = id(user, n).to_string();
    json!({
        "type": "tweet", "id": id,
        "url": format!("https://x.com/{user}/status/{id}"), "twitterUrl": format!("https://twitter.com/{user}/status/{id}"),
        "text": format!("Number {n} of {user},\nin two lines. 你好"), "source": "Twitter for iPhone",
        "retweetCount": n % 7, "replyCount": n % 5, "likeCount": n, "quoteCount": 0, "bookmarkCount": 0, "viewCount": n * 100,
        "createdAt": tweet_time((BEGINNING + n as u64 * GAP_SECS) as i64), "lang": "en",
        "isReply": false, "inReplyToId": null, "inReplyToUserId": null, "inReplyToUsername": null, "conversationId": id,
        "displayTextRange": [0, 30], "author": author(user, &tweet_time(BEGINNING as i64)),
        "entities": {}, "extendedEntities": {}, "card": null, "place": {}, "article": null,
        "quoted_tweet": null, "retweeted_tweet": null, "isLimitedReply": false,
    })
}

/// The author of a tweet; `user/info` uses another time format than tweets.
pub(super) fn author(user: &str, created_at: &str) -> Value {
    json!({
        "type": "user", "userName": user, "id": (number_of(user) >> 4).to_string(), "name": format!("The real {user}"),
        "url": format!("https://x.com/{user}"), "isVerified": false, "isBlueVerified": false, "description": "", "location": "",
        "followers": 1, "following": 1, "statusesCount": 1, "createdAt": created_at,
    })
}

fn media(user: &str, n: usize, kind: &str) -> Value {
    let id = id(user, n).to_string();
    let mut media = json!({
        "id_str": id, "media_key": format!("{}_{id}", if kind == "photo" { 3 } else { 13 }), "type": kind,
        "media_url_https": format!("https://pbs.example/{id}.jpg"), "url": "https://t.co/x",
        "original_info": { "width": 1200, "height": 800 }, "sizes": { "large": { "w": 600, "h": 400 } },
    });
    if kind == "video" {
        media["video_info"] = json!({ "variants": [
            { "content_type": "application/x-mpegURL", "url": format!("https://video.example/{id}.m3u8") },
            { "content_type": "video/mp4", "bitrate": 256_000, "url": format!("https://video.example/{id}-low.mp4") },
            { "content_type": "video/mp4", "bitrate": 2_176_000, "url": format!("https://video.example/{id}-high.mp4") },
        ] });
    }
    media
}

/// `Thu Jan 01 00:00:00 +0000 2026`
fn tweet_time(secs: i64) -> String {
    let date = http_date(secs);
    let parts: Vec<_> = date.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [weekday, day, month, year, clock, _] => format!("{weekday} {month} {day} {clock} +0000 {year}"),
        _ => date,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tweet_ids_rise_with_time_and_are_unique() {
        let ids: Vec<_> = (0..100).map(|n| id("alice", n)).collect();
        assert!(ids.is_sorted() && ids[0].to_string().len() == 19);
        let users = (0..2_000).map(|user| format!("user_{user}"));
        let all: BTreeSet<_> = users.flat_map(|user| [id(&user, 0), id(&user, 1)]).collect();
        assert_eq!(all.len(), 4_000);
        assert_eq!(id("Alice", 7), id("alice", 7));
    }

    #[test]
    fn dates_are_written_as_tweets_have_them() {
        assert_eq!(tweet_time(1_770_370_308), "Fri Feb 06 09:31:48 +0000 2026");
    }
}

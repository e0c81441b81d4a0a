use serde_json::{Value, json};

use patra_core::tweet::{Media, ReferenceType};

use super::*;

const WIRE: &str = include_str!("../../../../../sources/fixtures/twitterapi_io/last_tweets_wire.json");
const DOCUMENTED: &str =
    include_str!("../../../../../sources/fixtures/twitterapi_io/last_tweets_documented_envelope.json");
const EMPTY: &str =
    include_str!("../../../../../sources/fixtures/twitterapi_io/last_tweets_empty_or_unknown_user.json");

/// The example response in the requirements.
fn provided() -> Value {
    json!({
        "tweets": [{
            "id": "1890000000000000001", "text": "RT @bob: long…", "createdAt": "Fri Feb 06 09:31:48 +0000 2026",
            "isReply": false, "inReplyToId": null,
            "author": {"id": "42", "userName": "alice", "name": "Alice"},
            "retweeted_tweet": {
                "id": "1889999999999999999", "text": "long text in full", "author": {"userName": "bob"},
                "extendedEntities": {"media": [{"id_str": "m1", "type": "photo", "media_url_https": "https://img.example/m1.jpg", "sizes": {"large": {"w": 1200, "h": 800}}}]}
            },
            "quoted_tweet": null
        }],
        "has_next_page": true, "next_cursor": "CURSOR2", "status": "success", "message": ""
    })
}

fn page(tweets: Vec<Value>) -> Vec<Result<MappedTweet, InvalidTweet>> {
    let mut body = json!({});
    body["tweets"] = tweets.into();
    read(&body.to_string()).unwrap().into_iter().map(|found| found.read).collect()
}

fn one(tweet: Value) -> MappedTweet {
    page(vec![tweet]).remove(0).unwrap()
}

fn tweet() -> Value {
    json!({ "id": "7", "text": "t", "createdAt": "2026-02-06T09:31:48Z", "author": {"userName": "alice"} })
}

/// The tweet with some members set.
fn with(mut more: Value) -> Value {
    let mut tweet = tweet();
    tweet.as_object_mut().unwrap().append(more.as_object_mut().unwrap());
    tweet
}

// covers: TWEET-34, TWEET-35, TWEET-38
#[test]
fn the_provider_s_answer_is_normalised_as_the_requirements_write_it() {
    let normalised = normalise(provided()["tweets"].as_array().unwrap());
    let expected = json!({
        "data": [{
            "id": "1890000000000000001", "text": "RT @bob: long…", "created_at": "2026-02-06T09:31:48Z", "author_id": "42",
            "referenced_tweets": [{"type": "retweeted", "id": "1889999999999999999"}],
            "referenced_tweet_text": "long text in full",
            "referenced_tweet_media": [{"media_key": "m1", "type": "photo", "url": "https://img.example/m1.jpg", "width": 1200, "height": 800}],
            "referenced_tweet_author_username": "bob"
        }],
        "includes": {"users": [{"id": "42", "username": "alice", "name": "Alice"}], "media": []}
    });
    assert_eq!(serde_json::to_value(&normalised).unwrap(), expected);
}

// covers: TWEET-43, TWEET-44, TWEET-46, TWEET-TEST-2
#[test]
fn the_normalised_object_becomes_a_tweet() {
    let body = provided().to_string();
    let found = read(&body).unwrap().remove(0);
    assert_eq!(found.raw.get(), provided()["tweets"][0].to_string(), "exactly as received");
    let stored = serde_json::to_value(found.read.unwrap()).unwrap();
    assert_eq!(
        stored,
        json!({
            "tweet_id": "1890000000000000001", "text": "RT @bob: long…", "created_at": "2026-02-06T09:31:48Z",
            "author_username": "alice", "author_display_name": "Alice",
            "referenced_tweet_id": "1889999999999999999", "reference_type": "retweeted", "media": null,
            "referenced_tweet_text": "long text in full",
            "referenced_tweet_media": [{"media_key": "m1", "type": "photo", "url": "https://img.example/m1.jpg", "width": 1200, "height": 800}],
            "referenced_tweet_author_username": "bob",
            "retweet_count": null, "reply_count": null, "like_count": null, "quote_count": null, "bookmark_count": null, "view_count": null,
        })
    );
    let names: Vec<_> = stored.as_object().unwrap().keys().map(String::as_str).collect();
    let mut columns = patra_core::tweet::COLUMNS.to_vec();
    columns.sort_unstable();
    assert_eq!(names, columns, "the list of columns is the list of what is stored");
}

// covers: TWEET-13
#[test]
fn tweets_read_before_change_nothing() {
    let tweets = |text| -> Vec<_> { read(text).unwrap().into_iter().map(|found| found.read).collect() };
    let (wire, documented) = (tweets(WIRE), tweets(DOCUMENTED));
    let again = std::thread::spawn(move || tweets(WIRE));
    assert_eq!((tweets(DOCUMENTED), tweets(WIRE)), (documented, wire.clone()));
    assert_eq!(again.join().unwrap(), wire, "nor does who else reads");
}

// covers: TWEET-25, TWEET-167
#[test]
fn both_envelopes_are_read() {
    let wire = read(WIRE).unwrap();
    assert_eq!(wire.len(), 7);
    assert!(wire.iter().all(|found| found.read.is_ok() && !found.pinned));
    let documented = read(DOCUMENTED).unwrap();
    assert_eq!(documented[0].id, wire[0].id);
    assert_eq!(documented[0].read, wire[0].read);
    assert_eq!(read(EMPTY).unwrap().len(), 0);
}

// covers: TWEET-167
#[test]
fn a_pinned_tweet_is_one_of_the_page_and_there_once() {
    let page = |pinned: Value, tweets: Value| json!({ "data": { "pin_tweet": pinned, "tweets": tweets } }).to_string();
    let apart = page(with(json!({ "id": "3" })), json!([tweet()]));
    let seen = |body: &str| -> Vec<_> {
        read(body).unwrap().into_iter().map(|found| (found.id.unwrap(), found.pinned)).collect()
    };
    assert_eq!(seen(&apart), [("3".to_owned(), true), ("7".to_owned(), false)]);
    let listed = page(tweet(), json!([with(json!({ "id": "9" })), tweet()]));
    assert_eq!(seen(&listed), [("9".to_owned(), false), ("7".to_owned(), false)]);
    let marked =
        page(Value::Null, json!([with(json!({ "isPinned": true })), with(json!({ "id": "8", "isPinned": false }))]));
    assert_eq!(seen(&marked), [("7".to_owned(), true), ("8".to_owned(), false)]);
}

// covers: TWEET-47
#[test]
fn an_answer_without_a_list_of_tweets_is_an_error_and_not_empty() {
    for (body, error) in [
        ("{}", TweetPageError::NoData),
        (r#"{"data":null,"status":"success"}"#, TweetPageError::NoData),
        (r#"{"data":7}"#, TweetPageError::NoList("data")),
        (r#"{"data":{}}"#, TweetPageError::NoList("data")),
        (r#"{"data":{"tweets":{"a":1}}}"#, TweetPageError::NoList("data.tweets")),
        (r#"{"tweets":"none"}"#, TweetPageError::NoList("tweets")),
        (r#"{"meta":{"result_count":3}}"#, TweetPageError::NoData),
    ] {
        assert_eq!(read(body).unwrap_err(), error, "{body}");
    }
    assert!(matches!(read("[]"), Err(TweetPageError::NoObject(_))));
    // API v2 has no list where it says that it is empty.
    assert_eq!(read(r#"{"meta":{"result_count":0}}"#).unwrap().len(), 0);
}

// covers: TWEET-34, TWEET-35, TWEET-37, TWEET-169, TWEET-REQ-2, TWEET-TEST-2
#[test]
fn the_tweets_of_a_page_are_taken_apart() {
    let tweets: Vec<MappedTweet> = read(WIRE).unwrap().into_iter().map(|found| found.read.unwrap()).collect();
    let [plain, retweet, photo, video, quote, reply, old] = &tweets[..] else { panic!("{tweets:?}") };
    assert_eq!((plain.tweet.reference_type, plain.counts.view_count), (None, Some(100)));
    assert_eq!(plain.tweet.author_display_name.as_deref(), Some("Patra_Demo"));

    assert_eq!(retweet.tweet.reference_type, Some(ReferenceType::Retweeted));
    assert_eq!(retweet.tweet.referenced_tweet_id.as_deref(), Some("1999999999999999990"));
    assert_eq!(retweet.tweet.referenced_tweet_author_username.as_deref(), Some("someone_else"));
    assert!(retweet.tweet.text.ends_with('…') && retweet.tweet.referenced_tweet_text.as_ref().unwrap().len() == 235);
    assert_eq!(retweet.counts.view_count, Some(0), "zero is a count, and differs from a missing count");

    let shown = |mapped: &MappedTweet| mapped.tweet.media.clone().unwrap().remove(0);
    let media = |key: &str, kind: &str, url: &str, width, height| Media {
        media_key: key.into(),
        r#type: kind.into(),
        url: Some(url.into()),
        width: Some(width),
        height: Some(height),
    };
    let still = "https://pbs.twimg.com/media/AAAA.jpg";
    assert_eq!(shown(photo), media("3_2000000000000000103", "photo", still, 1289, 927));
    let film = "https://video.twimg.com/amplify_video/x/vid/avc1/1280x720/x.mp4?tag=29";
    assert_eq!(shown(video), media("13_2000000000000000104", "video", film, 3840, 2160), "the best mp4");

    assert_eq!(quote.tweet.reference_type, Some(ReferenceType::Quoted));
    assert_eq!(quote.tweet.referenced_tweet_text.as_deref(), Some("A quoted post."));
    assert_eq!(reply.tweet.reference_type, None, "it does not say to what it replies");
    assert_eq!((old.counts.view_count, old.counts.like_count), (None, Some(3)));
}

// covers: TWEET-37
#[test]
fn several_references_give_one_main_reference() {
    let nested = |id: &str, name: &str| json!({ "id": id, "text": name, "author": { "userName": name } });
    let all = json!({
        "retweeted_tweet": nested("1", "a"), "quoted_tweet": nested("2", "b"),
        "isReply": true, "inReplyToId": "3", "inReplyToUsername": "c",
    });
    let shown = |tweet: Value| {
        let MappedTweet { tweet, .. } = one(tweet);
        (
            tweet.reference_type.unwrap(),
            tweet.referenced_tweet_id.unwrap(),
            tweet.referenced_tweet_author_username.unwrap(),
        )
    };
    let (mut quote, mut reply) = (all.clone(), all.clone());
    quote["retweeted_tweet"] = Value::Null;
    reply["retweeted_tweet"] = Value::Null;
    reply["quoted_tweet"] = json!("<unknown>");
    assert_eq!(shown(with(all)), (ReferenceType::Retweeted, "1".into(), "a".into()));
    assert_eq!(shown(with(quote)), (ReferenceType::Quoted, "2".into(), "b".into()));
    assert_eq!(shown(with(reply)), (ReferenceType::RepliedTo, "3".into(), "c".into()));
    let nowhere = one(with(json!({ "isReply": false, "inReplyToId": "3" })));
    assert_eq!(nowhere.tweet.reference_type, None);
}

// covers: TWEET-36
#[test]
fn the_longest_text_is_the_full_one() {
    let long = with(json!({ "full_text": "t and more", "note_tweet": { "text": "t and more and all of it" } }));
    assert_eq!(one(long).tweet.text, "t and more and all of it");
    assert_eq!(one(with(json!({ "full_text": "", "note_tweet": null }))).tweet.text, "t");
    let nested = json!({ "id": "1", "text": "cut…", "full_text": "cut no more" });
    assert_eq!(one(with(json!({ "quoted_tweet": nested }))).tweet.referenced_tweet_text.unwrap(), "cut no more");
}

// covers: TWEET-35, TWEET-132
#[test]
fn media_are_read_from_wherever_they_stand() {
    let photo = |key: &str| json!({ "media_key": key, "type": "photo", "url": format!("https://x/{key}.jpg") });
    let keys = |tweet: Value| -> Vec<String> {
        let media = one(tweet).tweet.media.unwrap_or_default();
        media.into_iter().map(|media| format!("{} {}", media.r#type, media.media_key)).collect()
    };
    let extended = json!({ "media": [photo("e")] });
    assert_eq!(
        keys(with(json!({ "media": [photo("a"), photo("b")], "extendedEntities": extended }))),
        ["photo a", "photo b"]
    );
    let lists = json!({ "photos": [photo("a")], "videos": [{ "id": 5 }], "n": 2 });
    assert_eq!(keys(with(json!({ "media": lists, "extendedEntities": extended }))), ["photo a", "video 5"]);
    for nothing in [Value::Null, json!([]), json!({}), json!("x")] {
        assert_eq!(keys(with(json!({ "media": nothing, "extendedEntities": extended }))), ["photo e"]);
    }
    let without = json!([{ "type": "photo" }, { "media_key": "k" }, 7, null]);
    assert_eq!(keys(with(json!({ "media": without }))), Vec::<String>::new(), "a key and a type there must be");
    let stream = json!([{ "media_key": "v", "type": "video", "media_url_https": "https://x/still.jpg",
        "video_info": { "variants": [{ "content_type": "application/x-mpegURL", "url": "https://x/v.m3u8" }] } }]);
    assert_eq!(one(with(json!({ "media": stream }))).tweet.media.unwrap()[0].url.as_deref(), Some("https://x/v.m3u8"));
}

// covers: TWEET-41, TWEET-42, TWEET-43, TWEET-169
#[test]
fn x_s_own_api_is_read_as_well() {
    let body = json!({
        "data": [
            {
                "id": "11", "text": "see https://t.co/a", "created_at": "2026-02-06T09:31:48.000Z", "author_id": "42",
                "attachments": { "media_keys": ["3_1", "7_2", "gone"] },
                "referenced_tweets": [{ "type": "replied_to", "id": "8" }, { "type": "quoted", "id": "9" }, { "type": "new", "id": "1" }],
                "public_metrics": { "retweet_count": 1, "reply_count": 2, "like_count": 3, "quote_count": 4, "bookmark_count": 5, "impression_count": 6 }
            },
            { "id": "12", "text": "by nobody", "created_at": "2026-02-06T09:31:48.000Z", "author_id": "43" }
        ],
        "includes": {
            "users": [{ "id": "42", "username": "alice", "name": "Alice" }, { "id": "44", "username": "bob" }],
            "media": [
                { "media_key": "3_1", "type": "photo", "url": "https://x/1.jpg", "width": 4, "height": 3 },
                { "media_key": "7_2", "type": "video", "preview_image_url": "https://x/2.jpg",
                  "variants": [{ "bit_rate": 1, "content_type": "video/mp4", "url": "https://x/low.mp4" }, { "bit_rate": 2, "content_type": "video/mp4", "url": "https://x/high.mp4" }] }
            ],
            "tweets": [{ "id": "9", "text": "what is quoted", "author_id": "44", "attachments": { "media_keys": ["3_1"] } }]
        },
        "meta": { "result_count": 2, "next_token": "n" }
    });
    let text = body.to_string();
    let mut found = read(&text).unwrap();
    assert_eq!(found[1].read.as_ref().unwrap_err().to_string(), "missing: author_username");
    let MappedTweet { tweet, counts } = found.remove(0).read.unwrap();
    assert_eq!((tweet.author_username.as_str(), tweet.author_display_name.as_deref()), ("alice", Some("Alice")));
    let urls: Vec<_> = tweet.media.unwrap().into_iter().map(|media| media.url.unwrap()).collect();
    assert_eq!(urls, ["https://x/1.jpg", "https://x/high.mp4"]);
    assert_eq!((tweet.reference_type, tweet.referenced_tweet_id.as_deref()), (Some(ReferenceType::Quoted), Some("9")));
    assert_eq!(tweet.referenced_tweet_text.as_deref(), Some("what is quoted"));
    assert_eq!(tweet.referenced_tweet_author_username.as_deref(), Some("bob"));
    assert_eq!(tweet.referenced_tweet_media.unwrap().len(), 1);
    assert_eq!((counts.retweet_count, counts.bookmark_count, counts.view_count), (Some(1), Some(5), Some(6)));
}

// covers: TWEET-45, TWEET-49, TWEET-54, TWEET-TEST-2
#[test]
fn one_bad_tweet_costs_no_other() {
    let all = page(vec![
        Value::Null,
        json!("text"),
        with(json!({ "createdAt": "soon" })),
        with(json!({ "author": {} })),
        with(json!({ "text": null })),
        with(json!({ "id": 1_890_000_000_000_000_001_u64, "viewCount": "12", "likeCount": -1, "replyCount": {} })),
    ]);
    let errors: Vec<_> = all[..5].iter().map(|read| read.as_ref().unwrap_err().to_string()).collect();
    assert_eq!(
        errors,
        [
            "missing: tweet_id, author_username, text, created_at",
            "missing: tweet_id, author_username, text, created_at",
            "created_at is not a date: \"soon\"",
            "missing: author_username",
            "missing: text",
        ]
    );
    let MappedTweet { tweet, counts } = all[5].as_ref().unwrap();
    assert_eq!(tweet.tweet_id, "1890000000000000001", "an id that is a number stays whole");
    assert_eq!((counts.view_count, counts.like_count, counts.reply_count), (Some(12), None, None));
}

// covers: TWEET-26
#[test]
fn ids_that_come_as_numbers_keep_all_their_digits() {
    let text = r#"{"tweets":[{"id":123456789012345678901234567890,"text":"a","createdAt":"2026-02-06T09:31:48Z",
        "author":{"id":98765432109876543210987,"userName":"alice"},"isReply":true,"inReplyToId":100000000000000000000001}]}"#;
    let found = read(text).unwrap();
    assert_eq!(found[0].id.as_deref(), Some("123456789012345678901234567890"));
    let fields = serde_json::to_value(found[0].read.as_ref().unwrap()).unwrap();
    assert_eq!(
        (&fields["tweet_id"], &fields["referenced_tweet_id"], &fields["author_username"]),
        (&json!("123456789012345678901234567890"), &json!("100000000000000000000001"), &json!("alice"))
    );
}

// covers: TWEET-45
#[test]
fn tweet_that_was_cut_inside_a_character_is_kept() {
    let body = json!({ "tweets": [tweet()] }).to_string();
    let text = tweet()["text"].as_str().unwrap().to_owned();
    let cut = body.replacen(&serde_json::to_string(&text).unwrap(), r#""half \ud83d""#, 1);
    assert_ne!(cut, body);
    let found = read(&cut).unwrap();
    assert_eq!(found[0].read.as_ref().unwrap().tweet.text, "half \u{fffd}");
}

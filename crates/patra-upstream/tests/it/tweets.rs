//! The tweet provider.

use patra_upstream::{RetryAfter, Script, TweetEnvelope, TweetFault, TweetFaultKind, TweetProvider};
use serde_json::Value;

use super::client::{TestClient, TestResponse};
use super::start;

const KEY: &str = "x-api-key: tweets-key\r\n";

fn script(tweets: TweetProvider) -> Script {
    Script { tweets, ..Script::default() }
}

async fn get_json(client: &mut TestClient, target: &str) -> Value {
    let response = client.get_with(target, KEY).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

async fn last_tweets(client: &mut TestClient, user: &str, cursor: &str) -> TestResponse {
    client.get_with(&format!("/twitter/user/last_tweets?userName={user}&cursor={cursor}"), KEY).await
}

fn ids(tweets: &Value) -> Vec<u64> {
    tweets.as_array().unwrap().iter().map(|tweet| tweet["id"].as_str().unwrap().parse().unwrap()).collect()
}

/// The ids of all pages, and the number of pages.
async fn walk(client: &mut TestClient, user: &str) -> (Vec<u64>, usize) {
    let (mut all, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = last_tweets(client, user, &cursor).await.json();
        pages += 1;
        all.extend(ids(&page["data"]["tweets"]));
        cursor = page["next_cursor"].as_str().unwrap().to_owned();
        if page["has_next_page"] == false {
            return (all, pages);
        }
    }
}

#[tokio::test]
async fn timeline_pages_are_stable_when_tweets_are_added() {
    let (server, mut client) = start(script(TweetProvider::default())).await;
    let (all, pages) = walk(&mut client, "alice").await;
    assert_eq!((all.len(), pages), (45, 3));
    assert!(all.is_sorted_by(|one, other| one > other));
    let first = last_tweets(&mut client, "Alice", "").await.json();
    server.script().update(|script| script.tweets.counts = vec![("alice".into(), 50)]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = last_tweets(&mut client, "alice", cursor).await.json();
    assert_eq!(ids(&second["data"]["tweets"]), all[20..40]);
    assert_eq!(walk(&mut client, "alice").await.0[5..], all);
    assert_eq!(walk(&mut client, "bob").await.0.len(), 45, "any name will do");
    assert_eq!(server.requests_by_user()["alice"], 3 + 1 + 1 + 3);
    server.reset();
    assert!(server.requests_by_user().is_empty());
}

#[tokio::test]
async fn tweets_are_of_all_kinds_and_both_envelopes() {
    let tweets = TweetProvider { per_user: 10, pinned: true, ..TweetProvider::default() };
    let (server, mut client) = start(script(tweets)).await;
    let wire = get_json(&mut client, "/twitter/user/last_tweets?userName=alice").await;
    let by = |n: usize| &wire["data"]["tweets"][9 - n];
    assert!(by(3)["retweeted_tweet"].is_object() && by(3)["text"].as_str().unwrap().starts_with("RT @someone_else: "));
    assert_eq!(by(5)["quoted_tweet"]["author"]["userName"], "third_party");
    assert_eq!(by(7)["extendedEntities"]["media"][0]["type"], "photo");
    assert_eq!(by(8)["extendedEntities"]["media"][0]["video_info"]["variants"].as_array().unwrap().len(), 3);
    assert_eq!((&by(9)["isReply"], by(9)["inReplyToId"].is_string()), (&Value::Bool(true), true));
    assert!(by(1).get("viewCount").is_none() && by(2)["viewCount"] == 200);
    assert_eq!(wire["data"]["pin_tweet"]["id"], by(0)["id"]);
    server.script().update(|script| script.tweets.envelope = TweetEnvelope::Documented);
    let documented = get_json(&mut client, "/twitter/user/last_tweets?userName=alice").await;
    assert_eq!(documented["tweets"], wire["data"]["tweets"]);
}

#[tokio::test]
async fn unknown_user_is_reported_by_user_info_only() {
    let tweets =
        TweetProvider { unknown: vec!["nobody".into()], counts: vec![("quiet".into(), 0)], ..TweetProvider::default() };
    let (_server, mut client) = start(script(tweets)).await;
    for user in ["NoBody", "quiet"] {
        let page = last_tweets(&mut client, user, "").await.json();
        assert_eq!(
            (&page["status"], page["data"]["tweets"].as_array().unwrap().len()),
            (&"success".into(), 0),
            "{user}"
        );
    }
    assert_eq!(get_json(&mut client, "/twitter/user/info?userName=nobody").await["status"], "error");
    let quiet = get_json(&mut client, "/twitter/user/info?userName=quiet").await;
    assert_eq!(
        (&quiet["data"]["userName"], &quiet["data"]["createdAt"]),
        (&"quiet".into(), &"2010-08-27T20:13:59.000000Z".into())
    );
}

#[tokio::test]
async fn requests_without_the_key_are_rejected() {
    let (server, mut client) = start(script(TweetProvider::default())).await;
    let bare = client.get("/twitter/user/last_tweets?userName=alice").await;
    assert_eq!((bare.status, bare.text()), (403, r#"{"error":"Forbidden"}"#));
    server.script().update(|script| script.tweets.key_status = 401);
    assert_eq!(client.get_with("/twitter/user/info?userName=alice", "X-API-Key: other\r\n").await.status, 401);
    assert_eq!((server.stats().r403, server.stats().r401), (1, 1));
}

#[tokio::test]
async fn faults_apply_to_the_named_users() {
    let fault = |user: &str, kind, times| TweetFault::new(user, kind, times);
    let faults = vec![
        fault("a", TweetFaultKind::Status(402), 0),
        fault("b", TweetFaultKind::Status(429), 1),
        fault("c", TweetFaultKind::Status(503), 2),
        fault("d", TweetFaultKind::Error, 0),
        fault("e", TweetFaultKind::NoList, 0),
        fault("f", TweetFaultKind::Late(30), 0),
    ];
    let tweets = TweetProvider { faults, ..TweetProvider::default() };
    let (server, mut client) = start(Script { retry_after: RetryAfter::Seconds(7), ..script(tweets) }).await;
    assert_eq!(last_tweets(&mut client, "a", "").await.status, 402);
    let limited = last_tweets(&mut client, "B", "").await;
    assert_eq!((limited.status, limited.header("retry-after")), (429, Some("7")));
    assert_eq!(last_tweets(&mut client, "b", "").await.status, 200);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(last_tweets(&mut client, "c", "").await.status);
    }
    assert_eq!(statuses, [503, 503, 200]);
    assert_eq!(last_tweets(&mut client, "d", "").await.json()["status"], "error");
    let odd = last_tweets(&mut client, "e", "").await.json();
    assert_eq!((&odd["status"], odd.get("data")), (&"success".into(), None));
    assert_eq!(last_tweets(&mut client, "f", "").await.status, 200);
    assert_eq!(last_tweets(&mut client, "g", "").await.status, 200, "the others are well");
    assert_eq!(server.requests_by_user()["c"], 3);
    assert_eq!(
        (last_tweets(&mut client, "g", "x").await.status, last_tweets(&mut client, "", "").await.status),
        (400, 400)
    );
}

#[tokio::test]
async fn end_of_a_timeline_may_be_hidden() {
    let (server, mut client) =
        start(script(TweetProvider { per_user: 30, always_more: true, ..TweetProvider::default() })).await;
    let mut cursors = vec![String::new()];
    for tweets in [20, 10, 0, 0] {
        let page = last_tweets(&mut client, "alice", cursors.last().unwrap()).await.json();
        assert_eq!((page["data"]["tweets"].as_array().unwrap().len(), &page["has_next_page"]), (tweets, &true.into()));
        let next = page["next_cursor"].as_str().unwrap().to_owned();
        assert!(!cursors.contains(&next), "a new cursor every time");
        cursors.push(next);
    }
    server.script().update(|script| (script.tweets.always_more, script.tweets.repeat_cursor) = (false, true));
    let last = last_tweets(&mut client, "alice", &cursors[1]).await.json();
    assert_eq!(last["next_cursor"], cursors[1].as_str());
    assert_eq!(last_tweets(&mut client, "alice", &cursors[1]).await.json(), last);
}

#[tokio::test]
async fn lists_and_bookmarks_have_their_own_routes() {
    let lists = vec![("7".to_owned(), vec!["alice".to_owned(), "bob".to_owned()])];
    let (server, mut client) = start(script(TweetProvider { per_user: 12, lists, ..TweetProvider::default() })).await;
    let first = get_json(&mut client, "/twitter/list/tweets?listId=7").await;
    let rest = get_json(
        &mut client,
        &format!("/twitter/list/tweets?listId=7&cursor={}", first["next_cursor"].as_str().unwrap()),
    )
    .await;
    let all = [ids(&first["tweets"]), ids(&rest["tweets"])].concat();
    assert_eq!((all.len(), &rest["has_next_page"]), (24, &false.into()));
    assert!(all.is_sorted_by(|one, other| one > other));
    assert_eq!(get_json(&mut client, "/twitter/list/tweets?listId=8").await["tweets"], Value::Array(Vec::new()));
    let request = r#"{"login_cookies":"x","proxy":"http://p"}"#;
    let bookmarks = client.post_with("/twitter/bookmarks_v2", KEY, request).await;
    assert_eq!((bookmarks.status, bookmarks.json()["tweets"].as_array().unwrap().len()), (200, 12));
    assert_eq!(client.post_with("/twitter/bookmarks_v2", KEY, r#"{"proxy":"p"}"#).await.status, 400);
    assert_eq!(server.requests_by_user()["list:7"], 2);
    assert_eq!(server.requests_by_user()["bookmarks"], 2);
}

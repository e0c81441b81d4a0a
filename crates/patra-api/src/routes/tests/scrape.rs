//! Scrapes of tweets: request, status, and stored tweets.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};

use patra_core::port::CommandsExt as _;
use patra_core::record::{Record, RecordStream, TWEET};
use patra_core::tx::{ClaimPolls, CommitBatch, EndRun, KeyScope, LeaseRef, PollEnd, RunEnd, RunStarted, StartRun};
use patra_testkit::contract::make;

use super::TestServer;

struct Site {
    server: TestServer,
    key: String,
}

impl Site {
    /// A server with an API key of the provider.
    async fn new() -> Site {
        let server = TestServer::new();
        let key = server.key(KeyScope::Admin).await;
        let site = Site { server, key };
        let credential =
            json!({ "alias": "twitterapi_io", "provenance": "twitterapi_io", "type": "api_key", "secret": "k" });
        let (status, body) = site.call(Some(&site.key), "POST", "/api/v1/credentials", &credential).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        site
    }

    async fn call(&self, key: Option<&str>, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = self.server.send(method, path, key, body).await;
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn start(&self, body: &Value) -> (StatusCode, Value) {
        self.call(Some(&self.key), "POST", "/api/admin/scrape", body).await
    }

    async fn show(&self, task: &str) -> (StatusCode, Value) {
        self.call(Some(&self.key), "GET", &format!("/api/admin/scrape/{task}"), &Value::Null).await
    }

    /// Completes the scrape of the next user with tweets of these ids.
    async fn poll(&self, tweets: &[String]) {
        let store = &self.server.api.store;
        let claim = ClaimPolls { owner: "collector".into(), limit: 1, lease: make::LONG, per_host: 9 };
        let lease = store.run(claim).await.unwrap().leases.remove(0);
        let RunStarted::Go { run, .. } = store.run(StartRun { lease: LeaseRef::from(&lease) }).await.unwrap() else {
            panic!("the poll was cancelled")
        };
        let stream = Arc::new(RecordStream { kind: TWEET.into(), ..make::stream() });
        let tweet = |(no, id): (usize, &String)| {
            let fields = json!({ "tweet_id": id, "text": "hi", "author_username": "alice" }).to_string();
            Record { fields, ..make::record(id, no as i64) }
        };
        let records = tweets.iter().enumerate().map(tweet).collect();
        store.run(Arc::new(CommitBatch { stream, ..make::page(&lease, run, 1, records, false) })).await.unwrap();
        let poll = PollEnd {
            source: lease.source.unwrap(),
            validators: None,
            moved_to: None,
            offline: false,
            gone: false,
            flaw: None,
            counted: true,
            emit: false,
            newest: None,
        };
        let end = EndRun { poll: Some(poll), ..make::end(&lease, run, RunEnd::Succeeded) };
        store.run(Arc::new(end)).await.unwrap();
    }
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|no| format!("{:04}", 1_000 + no)).collect()
}

/// Whether the id has the format of a UUID: `8-4-4-4-12` hex digits.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12] && parts.concat().chars().all(|c| c.is_ascii_hexdigit())
}

// covers: TWEET-18, TWEET-94, TWEET-96, TWEET-100, TWEET-101, TWEET-108
#[tokio::test]
async fn scrape_is_accepted_and_its_status_can_be_read() {
    let site = Site::new().await;
    let body = json!({ "usernames": "alice,bob", "limit": 20 });
    let (status, begun) = site.start(&body).await;
    assert_eq!((status, &begun["status"]), (StatusCode::ACCEPTED, &json!("pending")), "{begun}");
    let task = begun["task_id"].as_str().unwrap().to_owned();
    assert!(is_uuid(&task), "{task}");
    let (status, waiting) = site.show(&task).await;
    assert_eq!(status, StatusCode::OK);
    let members: BTreeSet<&str> = waiting.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["task_id", "status", "result", "created_at", "updated_at", "progress", "error"];
    assert_eq!(members, expected.into());
    assert_eq!((&waiting["task_id"], &waiting["status"]), (&json!(task), &json!("pending")));
    assert_eq!((&waiting["result"], &waiting["error"]), (&Value::Null, &Value::Null));
    assert!(waiting["created_at"].is_string() && waiting["updated_at"].is_string());

    site.poll(&ids(2)).await;
    let (_, running) = site.show(&task).await;
    assert_eq!((&running["status"], &running["progress"]["current"]), (&json!("running"), &json!(1)));
    site.poll(&ids(3)).await;
    let (_, done) = site.show(&task).await;
    assert_eq!((&done["status"], &done["result"]["total_users"]), (&json!("completed"), &json!(2)), "{done}");

    let (status, unknown) = site.show("00000000-0000-0000-0000-000000000000").await;
    assert_eq!((status, &unknown["error"]["code"]), (StatusCode::NOT_FOUND, &json!("NOT_FOUND")));
    let writer = site.server.key(KeyScope::Write).await;
    for (method, path, body) in
        [("POST", "/api/admin/scrape".to_owned(), body), ("GET", format!("/api/admin/scrape/{task}"), Value::Null)]
    {
        assert_eq!(site.call(None, method, &path, &body).await.0, StatusCode::UNAUTHORIZED, "{method}");
        assert_eq!(site.call(Some(&writer), method, &path, &body).await.0, StatusCode::FORBIDDEN, "{method}");
    }
}

// covers: TWEET-66, TWEET-70
#[tokio::test]
async fn scrape_counts_new_and_known_tweets() {
    let site = Site::new().await;
    for (new, skipped) in [(3, 0), (0, 3)] {
        let (_, begun) = site.start(&json!({ "usernames": "alice" })).await;
        site.poll(&ids(3)).await;
        let result = site.show(begun["task_id"].as_str().unwrap()).await.1["result"].clone();
        let expected = json!({
            "total_users": 1, "successful_users": 1, "failed_users": 0, "total_tweets": 3, "new_tweets": new,
            "skipped_tweets": skipped, "total_errors": 0,
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&result[name], value, "{name}: {result}");
        }
    }
}

// covers: TWEET-106
#[tokio::test]
async fn scrape_limit_is_1_to_1000_or_absent() {
    let site = Site::new().await;
    for (limit, status) in [(json!(0), 400), (json!(1_001), 400), (json!("20"), 400), (json!(1.5), 400)] {
        let (given, body) = site.start(&json!({ "usernames": "alice", "limit": limit })).await;
        assert_eq!(given.as_u16(), status, "{limit}: {body}");
        assert_eq!(body["error"]["details"]["fields"][0]["field"], "limit", "{body}");
    }
    for (user, limit) in [("a", json!(1)), ("b", json!(1_000)), ("c", Value::Null)] {
        let (given, body) = site.start(&json!({ "usernames": user, "limit": limit })).await;
        assert_eq!(given, StatusCode::ACCEPTED, "{limit}: {body}");
    }
}

// covers: TWEET-60, TWEET-103
#[tokio::test]
async fn tweets_of_an_author_are_newest_first_and_limited() {
    let site = Site::new().await;
    site.start(&json!({ "usernames": "alice" })).await;
    site.poll(&ids(120)).await;
    let read = async |query: &str| {
        let (status, body) = site.call(Some(&site.key), "GET", &format!("/api/v1/tweets{query}"), &Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body["data"]["items"].as_array().unwrap().clone()
    };
    let usual = read("?author=@Alice").await;
    assert_eq!((usual.len(), read("?limit=1000").await.len()), (100, 120));
    assert_eq!((&usual[0]["tweet_id"], &usual[99]["tweet_id"]), (&json!("1119"), &json!("1020")), "newest first");
    assert_eq!(read("?author=bob").await, Vec::<Value>::new());
}

//! Routes of the collector: sources, their items, and its state.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use patra_core::port::CommandsExt as _;
use patra_core::port::source::SourceFilter;
use patra_core::record::{Record, RecordStream};
use patra_core::source::Interval;
use patra_core::state::{IntervalFrom, TriggerType};
use patra_core::tx::{
    ClaimPolls, CommitBatch, EndRun, Heartbeat, KeyScope, LeaseRef, NewPoll, PollEnd, QueuePolls, RunEnd, RunStarted,
    SourceTypeRow, StartRun, SyncTypes,
};
use patra_core::{Fault, Ts};
use patra_testkit::contract::make;

use super::TestServer;

/// A server with two source types, and a key that may write.
struct Site {
    server: TestServer,
    key: String,
}

impl Site {
    async fn new() -> Site {
        let server = TestServer::new();
        let key = server.key(KeyScope::Write).await;
        let site = Site { server, key };
        site.types(240).await;
        site
    }

    /// Sets the interval of feeds; bookmarks are unsupported.
    async fn types(&self, minutes: u32) {
        let row = |name: &str, unsupported: Option<&str>| SourceTypeRow {
            r#type: name.into(),
            interval: Interval { minutes, from: IntervalFrom::Default },
            unsupported: unsupported.map(str::to_owned),
        };
        let types = vec![row("rss", None), row("twitter_bookmarks", Some("no key"))];
        self.server.api.store.run(SyncTypes { types }).await.unwrap();
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        self.call_as(Some(&self.key), method, path, body).await
    }

    async fn call_as(&self, key: Option<&str>, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = self.server.send(method, path, key, body).await;
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, &Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    async fn create(&self, source: Value) -> i64 {
        let (status, body) = self.call("POST", "/api/sources", &source).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        body["id"].as_i64().unwrap()
    }

    async fn feed(&self, name: &str) -> i64 {
        self.create(json!({ "type": "rss", "name": name, "config": { "url": format!("https://{name}.example/") } }))
            .await
    }

    /// Polls a source from start to end.
    async fn poll(&self, id: i64, end: RunEnd, records: Vec<Record>) {
        let store = &self.server.api.store;
        let filter = SourceFilter { ids: Some(vec![id]), ..SourceFilter::default() };
        let source = store.sources(filter).await.unwrap().remove(0);
        let poll = NewPoll {
            source: source.id,
            poll_count: source.poll_count,
            trigger_type: TriggerType::Schedule,
            provenance_code: make::PROVENANCE.into(),
            endpoint_name: make::ENDPOINT.into(),
            host: source.name,
            snapshot_hash: "spec".into(),
            credential: None,
            params: "{}".into(),
            expr_hash: "expr".into(),
            at: Ts::from_secs(0),
            priority: 100,
        };
        let snapshots = vec![("spec".to_owned(), "{}".to_owned())];
        store.run(Arc::new(QueuePolls { polls: vec![poll], unfit: Vec::new(), snapshots, job: None })).await.unwrap();
        let claim = ClaimPolls { owner: "collector".into(), limit: 1, lease: make::LONG, per_host: 9 };
        let lease = store.run(claim).await.unwrap().leases.remove(0);
        let RunStarted::Go { run, .. } = store.run(StartRun { lease: LeaseRef::from(&lease) }).await.unwrap() else {
            panic!("the poll was cancelled")
        };
        if !records.is_empty() {
            let stream = Arc::new(RecordStream { kind: "article".into(), ..make::stream() });
            store.run(Arc::new(CommitBatch { stream, ..make::page(&lease, run, 1, records, false) })).await.unwrap();
        }
        let poll = PollEnd {
            source: source.id,
            validators: None,
            moved_to: None,
            offline: false,
            gone: false,
            flaw: None,
            counted: false,
            emit: false,
            newest: None,
        };
        let end = EndRun { poll: Some(poll), max_attempts: 1, ..make::end(&lease, run, end) };
        store.run(Arc::new(end)).await.unwrap();
    }

    async fn fetch(&self, id: i64, records: Vec<Record>) {
        self.poll(id, RunEnd::Succeeded, records).await;
    }

    async fn fail(&self, id: i64, message: &str) {
        let error: Fault = make::fault(message);
        self.poll(id, RunEnd::Failed { error }, Vec::new()).await;
    }

    async fn pause(&self, id: i64) {
        let (status, body) = self.call("POST", &format!("/api/sources/{id}/pause"), &json!({})).await;
        assert_eq!((status, &body["is_active"]), (StatusCode::OK, &json!(false)), "{body}");
    }
}

fn records(name: &str, count: usize) -> Vec<Record> {
    (0..count).map(|no| make::record(&format!("{name}-{no:04}"), 1)).collect()
}

fn members(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn column<'a>(rows: &'a Value, name: &str) -> Vec<&'a Value> {
    rows.as_array().unwrap().iter().map(|row| &row[name]).collect()
}

fn time(value: &Value) -> Ts {
    value.as_str().unwrap_or_else(|| panic!("{value} is no time")).parse().unwrap()
}

// covers: COLL-64, COLL-72, COLL-74, COLL-75, COLL-76, COLL-AC-13, COLL-AC-14, COLL-US-3
#[tokio::test]
async fn status_lists_every_source_with_its_state() {
    let site = Site::new().await;
    let (status, refused) = site.call_as(None, "GET", "/api/collector/status", &Value::Null).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::UNAUTHORIZED, &json!("UNAUTHORIZED")));
    let mut ids = Vec::new();
    for name in ["new", "fine", "shaky", "broken", "resting", "deleted"] {
        ids.push(site.feed(name).await);
    }
    ids.push(site.create(json!({ "type": "twitter_bookmarks", "name": "bookmarks", "config": {} })).await);
    site.fetch(ids[1], records("fine", 2)).await;
    site.fail(ids[2], "no answer").await;
    for _ in 0..5 {
        site.fail(ids[3], "gone wrong").await;
    }
    site.pause(ids[4]).await;
    let (status, _) = site.call("DELETE", &format!("/api/sources/{}", ids[5]), &Value::Null).await;
    assert_eq!(status, StatusCode::OK);

    let shown = site.get("/api/collector/status").await;
    assert_eq!(members(&shown), ["collector", "sources", "stats"].into(), "no envelope");
    let sources = &shown["sources"];
    let expected = [0, 1, 2, 3, 4, 6].map(|at| json!(ids[at]));
    assert_eq!(column(sources, "id"), expected.iter().collect::<Vec<_>>(), "all but the deleted one, by id");
    let words = ["pending", "ok", "error", "paused", "paused", "unsupported"];
    assert_eq!(column(sources, "status"), words.map(Value::from).iter().collect::<Vec<_>>());
    for source in sources.as_array().unwrap() {
        for name in [
            "id",
            "name",
            "type",
            "interval_minutes",
            "interval_from",
            "last_fetched_at",
            "next_fetch_at",
            "next_attempt_at",
            "fetch_count",
            "fetch_error_count",
            "last_error",
            "last_error_at",
            "status",
        ] {
            assert!(source.get(name).is_some(), "{name}: {source}");
        }
        assert_eq!((&source["interval_minutes"], &source["interval_from"]), (&json!(240), &json!("default")));
    }
    let (fine, shaky) = (&sources[1], &sources[2]);
    assert_eq!((&fine["last_error"], &fine["last_error_at"]), (&Value::Null, &Value::Null));
    assert_eq!((&fine["fetch_count"], &fine["name"], &fine["type"]), (&json!(1), &json!("fine"), &json!("rss")));
    assert_eq!((&shaky["last_error"], &shaky["fetch_error_count"]), (&json!("no answer"), &json!(1)));
    assert!(time(&shaky["next_attempt_at"]) > time(&shaky["last_error_at"]));
}

// covers: COLL-77, COLL-78, COLL-89, COLL-FR-4
#[tokio::test]
async fn status_counts_sources_fetches_errors_and_items() {
    let site = Site::new().await;
    let ids = [site.feed("fine").await, site.feed("broken").await, site.feed("resting").await];
    let stats = site.get("/api/collector/status").await["stats"].clone();
    assert_eq!((&stats["fetches_24h"], &stats["success_rate_24h"]), (&json!(0), &Value::Null), "no fetch, no rate");
    site.fetch(ids[0], records("a", 2)).await;
    site.fetch(ids[0], records("b", 1)).await;
    site.fetch(ids[0], Vec::new()).await;
    for _ in 0..5 {
        site.fail(ids[1], "gone wrong").await;
    }
    site.pause(ids[2]).await;
    let shown = site.get("/api/collector/status").await;
    let expected = json!({
        "total_sources": 3, "active_sources": 1, "paused_sources": 2, "paused_by_error": 1,
        "fetches_24h": 8, "errors_24h": 5, "success_rate_24h": 0.375, "failure_rate_24h": 0.625,
        "raw_items_24h": 3, "items_24h": 3,
    });
    assert_eq!(shown["stats"], expected);
    assert_eq!(column(&shown["sources"], "fetch_count"), [&json!(3), &json!(0), &json!(0)], "successes only");
    assert!(time(&shown["sources"][0]["next_fetch_at"]) > time(&shown["sources"][0]["last_fetched_at"]));
    // A day later they no longer count.
    site.server.clock.advance(Duration::from_secs(90_000));
    let stats = site.get("/api/collector/status").await["stats"].clone();
    assert_eq!((&stats["fetches_24h"], &stats["items_24h"]), (&json!(0), &json!(0)));
}

// covers: COLL-73, COLL-AC-15
#[tokio::test]
async fn next_fetch_is_last_fetch_plus_interval() {
    let site = Site::new().await;
    let own = json!({ "url": "https://own.example/", "fetch_interval_minutes": 7 });
    let own = site.create(json!({ "type": "rss", "name": "own", "config": own })).await;
    let ids = [site.feed("fine").await, own, site.feed("resting").await];
    for id in ids {
        site.fetch(id, Vec::new()).await;
    }
    site.pause(ids[2]).await;
    let never = site.feed("never").await;
    let at = "1970-01-01T00:10:00Z";
    let bookmarks = json!({ "type": "twitter_bookmarks", "name": "b", "config": {}, "last_fetched_at": at });
    let bookmarks = site.create(bookmarks).await;
    for path in ["/api/collector/status", "/api/sources"] {
        let body = site.get(path).await;
        let sources = body.get("sources").unwrap_or(&body).as_array().unwrap().clone();
        let of = |id: i64| sources.iter().find(|source| source["id"] == id).unwrap();
        for (id, minutes) in [(ids[0], 240), (own, 7)] {
            let source = of(id);
            let wait = time(&source["next_fetch_at"]).since(time(&source["last_fetched_at"]));
            assert_eq!(wait, Duration::from_secs(minutes * 60), "{path}: {source}");
        }
        for (id, why) in [(ids[2], "paused"), (never, "never fetched"), (bookmarks, "without a fetcher")] {
            assert_eq!(of(id)["next_fetch_at"], Value::Null, "{path}: {why}");
        }
    }
}

// covers: COLL-79
#[tokio::test]
async fn collector_is_alive_while_any_process_ticks() {
    let site = Site::new().await;
    let collector = async || site.get("/api/collector/status").await["collector"].clone();
    let before = collector().await;
    assert_eq!((&before["alive"], &before["last_tick_at"]), (&json!(false), &Value::Null));
    let beat =
        |leaving| Heartbeat { owner: "elsewhere".into(), tick: Duration::from_secs(60), concurrency: 5, leaving };
    site.server.api.store.run(beat(false)).await.unwrap();
    let alive = collector().await;
    assert_eq!((&alive["alive"], time(&alive["last_tick_at"])), (&json!(true), Ts::from_secs(1_000)));
    assert_eq!(time(&alive["next_tick_at"]), Ts::from_secs(1_060));
    site.server.clock.advance(Duration::from_secs(200));
    let late = collector().await;
    assert_eq!((&late["alive"], &late["next_tick_at"]), (&json!(false), &Value::Null));
    assert_eq!(time(&late["last_tick_at"]), Ts::from_secs(1_000), "when it was there last");
    site.server.api.store.run(beat(false)).await.unwrap();
    site.server.api.store.run(beat(true)).await.unwrap();
    assert_eq!(collector().await["alive"], false, "it has left");
}

// covers: COLL-65, COLL-80, COLL-81
#[tokio::test]
async fn source_list_adds_computed_fields_for_authenticated_callers() {
    let mut site = Site::new().await;
    let open =
        json!({ "type": "rss", "name": "open", "config": { "url": "https://open.example/" }, "is_public": true });
    let ids = [site.create(open).await, site.feed("closed").await];
    for id in ids {
        site.fetch(id, Vec::new()).await;
    }
    let listed = site.get("/api/sources").await;
    assert_eq!(column(&listed, "id"), [&json!(ids[0]), &json!(ids[1])]);
    let wait = |source: &Value| time(&source["next_fetch_at"]).since(time(&source["last_fetched_at"])).as_secs() / 60;
    assert_eq!((&listed[0]["fetch_interval_minutes"], wait(&listed[0])), (&json!(240), 240));
    // They are computed from the current interval and not stored.
    site.types(60).await;
    let listed = site.get("/api/sources").await;
    assert_eq!((&listed[0]["fetch_interval_minutes"], wait(&listed[0])), (&json!(60), 60));

    let (status, _) = site.call_as(None, "GET", "/api/sources", &Value::Null).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "nobody reads without a key unless it is allowed");
    site.server.api.public_read = true;
    let (status, listed) = site.call_as(None, "GET", "/api/sources", &Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(column(&listed, "name"), [&json!("open")]);
    let shown = members(&listed[0]);
    assert!(!shown.contains("fetch_interval_minutes") && !shown.contains("next_fetch_at"), "{shown:?}");
}

// covers: COLL-69
#[tokio::test]
async fn source_changes_need_a_write_key() {
    let site = Site::new().await;
    let reader = site.server.key(KeyScope::Read).await;
    let source = json!({ "type": "rss", "name": "blog", "config": { "url": "https://blog.example/" } });
    let one = format!("/api/sources/{}", site.create(source.clone()).await);
    for (method, path, body) in [
        ("POST", "/api/sources", source),
        ("PUT", one.as_str(), json!({ "name": "other" })),
        ("DELETE", one.as_str(), Value::Null),
    ] {
        let (status, body) = site.call_as(Some(&reader), method, path, &body).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{method}: {body}");
    }
    let (status, shown) = site.call_as(Some(&reader), "GET", &one, &Value::Null).await;
    assert_eq!((status, &shown["name"]), (StatusCode::OK, &json!("blog")));
    let (status, shown) = site.call("PUT", &one, &json!({ "name": "other" })).await;
    assert_eq!((status, &shown["name"]), (StatusCode::OK, &json!("other")));
    let (status, shown) = site.call("DELETE", &one, &Value::Null).await;
    assert_eq!((status, &shown["is_deleted"]), (StatusCode::OK, &json!(true)));
    assert_eq!(site.call("GET", &one, &Value::Null).await.0, StatusCode::NOT_FOUND);
    assert_eq!(site.get("/api/sources").await, json!([]));
}

// covers: COLL-66, COLL-82
#[tokio::test]
async fn raw_items_are_newest_first_and_limited() {
    let site = Site::new().await;
    let ids = [site.feed("a").await, site.feed("b").await];
    site.fetch(ids[0], records("old", 520)).await;
    site.server.clock.advance(Duration::from_secs(10));
    let mut article = make::record("new", 1);
    article.fields =
        json!({ "title": "Post", "url": "https://x.example/", "author": "A", "content": "C", "score": 7 }).to_string();
    site.fetch(ids[1], vec![article]).await;
    let items = async |query: &str| site.get(&format!("/api/raw-items{query}")).await.as_array().unwrap().clone();
    let usual = items("").await;
    assert_eq!((usual.len(), items("?limit=9999").await.len()), (100, 500));
    let newest = &usual[0];
    for (name, value) in [
        ("source_id", json!(ids[1])),
        ("source_name", json!("b")),
        ("source_type", json!("rss")),
        ("title", json!("Post")),
        ("url", json!("https://x.example/")),
        ("author", json!("A")),
        ("content", json!("C")),
        ("published_at", Value::Null),
        ("fetched_at", json!("1970-01-01T00:16:50.000Z")),
        ("dedup_key", json!(format!("{}:new", ids[1]))),
        ("metadata", json!({ "score": 7 })),
    ] {
        assert_eq!(newest[name], value, "{name}");
    }
    assert!(newest["id"].is_i64());
    assert_eq!(items("?limit=1&offset=1").await[0]["source_id"], ids[0], "older ones follow");
    assert_eq!(items("?since=1970-01-01T00:16:45Z").await.len(), 1);
    assert_eq!(items(&format!("?source_id={}", ids[1])).await.len(), 1);
}

// covers: COLL-68, COLL-84
#[tokio::test]
async fn digest_items_are_filtered_by_source_and_limited() {
    let site = Site::new().await;
    let ids = [site.feed("a").await, site.feed("b").await, site.feed("c").await];
    site.fetch(ids[0], records("old", 1_020)).await;
    site.server.clock.advance(Duration::from_secs(10));
    site.fetch(ids[1], records("b", 1)).await;
    site.server.clock.advance(Duration::from_secs(10));
    site.fetch(ids[2], records("c", 1)).await;
    let items =
        async |query: &str| site.get(&format!("/api/raw-items/for-digest{query}")).await.as_array().unwrap().clone();
    let usual = items("").await;
    assert_eq!((usual.len(), items("?limit=5000").await.len()), (500, 1_000));
    assert_eq!((&usual[0]["source_id"], &usual[1]["source_id"]), (&json!(ids[2]), &json!(ids[1])), "newest first");
    let named = items(&format!("?source_ids={},{}", ids[1], ids[2])).await;
    assert_eq!(named.len(), 2);
    assert_eq!(items(&format!("?source_ids={}&since=1970-01-01T01:00:00Z", ids[0])).await.len(), 0);
}

// covers: COLL-67, COLL-83
#[tokio::test]
async fn raw_item_stats_are_per_active_source() {
    let site = Site::new().await;
    let ids = [site.feed("a").await, site.feed("b").await, site.feed("resting").await];
    site.fetch(ids[0], records("a", 3)).await;
    site.pause(ids[2]).await;
    let expected = json!([
        { "source_id": ids[0], "name": "a", "type": "rss", "total_items": 3, "items_24h": 3, "last_item_at": "1970-01-01T00:16:40.000Z" },
        { "source_id": ids[1], "name": "b", "type": "rss", "total_items": 0, "items_24h": 0, "last_item_at": null },
    ]);
    assert_eq!(site.get("/api/raw-items/stats").await, expected);
    site.server.clock.advance(Duration::from_secs(90_000));
    let later = site.get("/api/raw-items/stats").await;
    assert_eq!((&later[0]["total_items"], &later[0]["items_24h"]), (&json!(3), &json!(0)));
}

//! The URL pool: capturing tasks, and searching finished ones.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use patra_core::Ts;
use patra_core::record::Record;
use patra_core::state::Operation;
use patra_core::tx::{KeyScope, RequestJob, RunEnd};
use patra_testkit::contract::{Fixture, Subject, make};

use super::TestServer;

const ENABLE: &str = "/api/v1/resource_pool/capture/enable";
const LOOK_BACK: &str = "/api/v1/resource_pool/capture/from-tasks";

struct Site {
    server: TestServer,
    fx: Fixture,
    key: String,
}

impl Site {
    async fn new() -> Site {
        let server = TestServer::new();
        server.project("other").await;
        let key = server.key(KeyScope::Admin).await;
        let fx = Fixture::new(Subject { store: Arc::clone(&server.api.store), time: server.clock.clone() });
        Site { server, fx, key }
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = self.server.send(method, path, Some(&self.key), body).await;
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn data(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, body) = self.call(method, path, body).await;
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("ok")), "{path}: {body}");
        body["data"].clone()
    }

    /// Runs a job of a type; its only record contains a URL.
    async fn job(&self, id: &str, project: &str, job_type: &str, window: i64) {
        let fire = RequestJob {
            project_key: project.into(),
            provenance_code: job_type.into(),
            params: json!({ "start": format!("https://params.example/{id}") }).to_string(),
            ..make::fire(id, Operation::Harvest)
        };
        self.fx.plan_with(fire, &make::windows(window, 1), |plan| plan.cursor.namespace_key = id.into()).await;
        let lease = self.fx.next().await;
        let run = self.fx.start(&lease).await;
        let payload = json!({ "link": format!("https://items.example/{id}") }).to_string();
        let record = Record { payload: payload.into(), ..make::record(id, 1) };
        self.fx.commit(&lease, run, 1, vec![record], false).await;
        self.fx.end(&lease, run, RunEnd::Succeeded).await;
    }

    async fn look(&self, body: Value) -> Value {
        self.data("POST", LOOK_BACK, &body).await["result"].clone()
    }

    async fn urls(&self, scope: &str) -> Vec<String> {
        let path = format!("/api/v1/resource_pool/urls?project_key=default&page_size=100&scope={scope}");
        let items = self.data("GET", &path, &Value::Null).await["items"].as_array().unwrap().clone();
        let mut urls: Vec<_> = items.iter().map(|item| item["url"].as_str().unwrap().to_owned()).collect();
        urls.sort();
        urls
    }
}

// covers: POOL-61, POOL-62, POOL-63, POOL-64, POOL-65, POOL-68, POOL-69
#[tokio::test]
async fn capture_config_is_per_project_and_job_type() {
    let site = Site::new().await;
    let body = json!({ "project_key": "default", "job_types": ["tweet_scrape", "market_info", "market_info"] });
    let data = site.data("POST", ENABLE, &body).await;
    let row = |of: &str, scope: &str, enabled: bool| json!({ "job_type": of, "scope": scope, "enabled": enabled });
    let shown = |data: &Value| -> Vec<Value> {
        let items = data["items"].as_array().unwrap().clone();
        let strip = |mut item: Value| {
            let updated = item.as_object_mut().unwrap().remove("updated_at").unwrap();
            assert_eq!(updated.as_str().unwrap().parse::<Ts>().unwrap(), Ts::from_secs(1_000));
            item
        };
        items.into_iter().map(strip).collect()
    };
    assert_eq!(shown(&data), [row("market_info", "project", true), row("tweet_scrape", "project", true)], "by default");
    assert_eq!((&data["project_key"], &data["unknown_job_types"]), (&json!("default"), &json!(["market_info"])));
    let off = json!({ "project_key": "default", "scope": "shared", "job_types": ["market_info"], "enabled": false });
    let data = site.data("POST", ENABLE, &off).await;
    assert_eq!(shown(&data), [row("market_info", "shared", false), row("tweet_scrape", "project", true)]);
    let config = site.data("GET", "/api/v1/resource_pool/capture/config?project_key=default", &Value::Null).await;
    assert_eq!(config, data);
    for (wrong, status, field) in [
        (json!({ "project_key": "default", "job_types": [] }), 400, "job_types"),
        (json!({ "project_key": "default" }), 400, ""),
        (json!({ "job_types": ["x"] }), 400, "project_key"),
        (json!({ "project_key": "default", "job_types": ["x"], "scope": "effective" }), 400, "scope"),
        (json!({ "project_key": "nobody", "job_types": ["x"] }), 404, ""),
    ] {
        let (given, body) = site.call("POST", ENABLE, &wrong).await;
        assert_eq!(given.as_u16(), status, "{wrong}: {body}");
        if !field.is_empty() {
            assert_eq!(body["error"]["details"]["field"], field, "{body}");
        }
    }
    assert_eq!(site.data("GET", "/api/v1/jobs", &Value::Null).await["items"], json!([]), "nothing was started");
    assert_eq!(site.urls("project").await, Vec::<String>::new());
}

// covers: POOL-71, POOL-72, POOL-78, POOL-82, POOL-83
#[tokio::test]
async fn look_back_searches_params_and_items() {
    let site = Site::new().await;
    site.job("one", "default", "demo", 0).await;
    site.job("two", "default", "demo", 10).await;
    let data = site.data("POST", LOOK_BACK, &json!({ "project_key": "default" })).await;
    let result = json!({
        "tasks_scanned": 2, "urls_extracted": 4, "urls_new": 4, "urls_duplicate": 0, "scope": "project",
    });
    assert_eq!(data, json!({ "task_id": null, "async": false, "status": "finished", "result": result }));
    let found = ["items", "params"].map(|from| ["one", "two"].map(|id| format!("https://{from}.example/{id}")));
    assert_eq!(site.urls("project").await, found.concat(), "capture is enabled for nothing");
    let again = site.look(json!({ "project_key": "default" })).await;
    assert_eq!((&again["urls_new"], &again["urls_duplicate"]), (&json!(0), &json!(4)));
    let shared = site.look(json!({ "project_key": "default", "scope": "shared", "task_ids": ["two"] })).await;
    assert_eq!((&shared["scope"], &shared["urls_new"]), (&json!("shared"), &json!(2)));
    assert_eq!(site.urls("shared").await, ["https://items.example/two", "https://params.example/two"]);
    let (status, body) = site.call("POST", LOOK_BACK, &json!({})).await;
    assert_eq!((status.as_u16(), &body["error"]["details"]["field"]), (400, &json!("project_key")));
}

// covers: POOL-76, POOL-80, POOL-81
#[tokio::test]
async fn look_back_applies_all_filters() {
    let site = Site::new().await;
    site.job("old", "default", "demo", 0).await;
    site.server.clock.advance(Duration::from_secs(100));
    site.job("new", "default", "demo", 10).await;
    site.job("else", "default", "another", 20).await;
    site.job("foreign", "other", "demo", 30).await;
    let scanned = async |mut body: Value| {
        body["project_key"] = "default".into();
        site.look(body).await["tasks_scanned"].as_u64().unwrap()
    };
    assert_eq!(scanned(json!({})).await, 3, "all of the project");
    assert_eq!(scanned(json!({ "job_type": "demo" })).await, 2);
    assert_eq!(scanned(json!({ "job_type": "demo", "since": "1970-01-01T00:18:00Z" })).await, 1);
    assert_eq!(scanned(json!({ "job_type": "demo", "task_ids": ["else"] })).await, 0, "all have to match");
    assert_eq!(scanned(json!({ "limit": 2 })).await, 2);
    for limit in [0, 501] {
        let (status, body) = site.call("POST", LOOK_BACK, &json!({ "project_key": "default", "limit": limit })).await;
        assert_eq!((status.as_u16(), &body["error"]["details"]["field"]), (400, &json!("limit")), "{limit}");
    }
    let before = site.urls("shared").await;
    for missing in ["never", "foreign"] {
        let body = json!({ "project_key": "default", "scope": "shared", "task_ids": ["old", missing] });
        let (status, body) = site.call("POST", LOOK_BACK, &body).await;
        assert_eq!((status, &body["error"]["code"]), (StatusCode::NOT_FOUND, &json!("NOT_FOUND")), "{body}");
        assert_eq!(body["error"]["details"]["missing_ids"], json!([missing]));
    }
    assert_eq!(site.urls("shared").await, before, "and nothing is written");
}

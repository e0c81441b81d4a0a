//! Manifests, specs, dictionary and schema by HTTP.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt as _;

use patra_core::tx::KeyScope;

use super::TestServer;
use crate::router;

const MANIFEST: &str = r#"
provenance: far
name: Upstream
defaults: { rate_limit: { refill_rate_per_sec: 5 } }
endpoints:
  works:
    http: { base_url: "https://far.example", path: /works }
    query: { offset: "${ page.offset }", from: "${ window.from | iso }", to: "${ window.to | iso }" }
    pagination: { type: offset, page_size: 100 }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
"#;

impl TestServer {
    /// Sends a request with these headers and an administrator's key; returns status, media type and body.
    async fn call(&self, line: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> (StatusCode, String, String) {
        let key = self.key(KeyScope::Admin).await;
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {key}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = router(self.api.clone()).oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let status = response.status();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, kind, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn post(&self, path: &str, body: &str) -> (StatusCode, Value) {
        let line = format!("POST {path}");
        let (status, _, body) = self.call(&line, &[("content-type", "application/yaml")], body.to_owned()).await;
        (status, serde_json::from_str(&body).unwrap())
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let (status, _, body) = self.call(&format!("GET {path}"), &[], Body::empty()).await;
        (status, serde_json::from_str(&body).unwrap())
    }
}

#[tokio::test]
async fn manifest_is_applied_shown_changed_and_removed() {
    let server = TestServer::new();
    let (status, response) = server.post("/api/v1/manifests?dry_run=true", MANIFEST).await;
    assert_eq!((status, &response["data"]["result"]), (StatusCode::OK, &"created".into()), "{response}");
    assert_eq!(server.get("/api/v1/manifests/far").await.0, StatusCode::NOT_FOUND, "a dry run stores nothing");

    let (status, response) = server.post("/api/v1/manifests", MANIFEST).await;
    assert_eq!((status, &response["data"]["result"]), (StatusCode::CREATED, &"created".into()), "{response}");
    let (status, response) = server.post("/api/v1/manifests", MANIFEST).await;
    assert_eq!((status, &response["data"]["result"]), (StatusCode::OK, &"unchanged".into()), "{response}");
    assert_eq!(response["data"]["changes"], serde_json::json!([]));

    let changed = MANIFEST.replace("page_size: 100", "page_size: 50");
    for (path, dry_run) in [("/api/v1/manifests?dry_run=true", true), ("/api/v1/manifests", false)] {
        let (_, response) = server.post(path, &changed).await;
        let expected = serde_json::json!([
            { "path": "endpoints.works.pagination.page_size", "before": 100, "after": 50 }
        ]);
        let data = &response["data"];
        assert_eq!((&data["changes"], &data["dry_run"]), (&expected, &dry_run.into()), "{response}");
        assert_eq!(response["data"]["result"], "changed");
    }
    let (_, response) = server.get("/api/v1/manifests/far").await;
    assert_eq!(response["data"]["endpoints"]["works"]["pagination"]["page_size"], 50, "{response}");

    let accept = [("accept", "application/yaml, */*;q=0.1")];
    let (_, kind, yaml) = server.call("GET /api/v1/manifests/FAR", &accept, Body::empty()).await;
    assert_eq!(kind, "application/yaml");
    assert_eq!(server.post("/api/v1/manifests", &yaml).await.1["data"]["result"], "unchanged", "{yaml}");
    let (_, list) = server.get("/api/v1/manifests").await;
    assert_eq!(list["data"]["items"][0]["provenance_code"], "far");

    let (status, _, _) = server.call("DELETE /api/v1/manifests/far", &[], Body::empty()).await;
    assert_eq!(status, StatusCode::OK);
    let (status, _, _) = server.call("DELETE /api/v1/manifests/far", &[], Body::empty()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/api/v1/manifests/far").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn exported_json_manifest_can_be_applied() {
    let server = TestServer::new();
    server.post("/api/v1/manifests", MANIFEST).await;
    let (_, response) = server.get("/api/v1/manifests/far").await;
    let json = [("content-type", "application/json; charset=utf-8")];
    let (status, _, body) = server.call("POST /api/v1/manifests", &json, response["data"].to_string()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(body.contains(r#""result":"unchanged""#), "{body}");
}

#[tokio::test]
async fn all_problems_of_a_manifest_are_in_one_response() {
    let server = TestServer::new();
    let wrong = MANIFEST.replace("page_size: 100", "pagesize: 100").replace("type: offset", "type: offsets");
    let (status, response) = server.post("/api/v1/manifests", &wrong).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{response}");
    assert_eq!(response["error"]["code"], "CONFIG_ERROR");
    let problems = response["error"]["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2, "{response}");
    assert!(problems.iter().all(|problem| problem["line"] == 9 && problem["path"] != "" && problem["message"] != ""));
    assert_eq!(server.get("/api/v1/manifests/far").await.0, StatusCode::NOT_FOUND);

    let yaml = [("content-type", "text/yaml")];
    let cases = [
        (&[("content-type", "text/plain")][..], Vec::from(MANIFEST), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (&[], MANIFEST.into(), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (&yaml, vec![0xff, 0xfe], StatusCode::BAD_REQUEST),
        (&yaml, vec![b'#'; patra_engine::registry::MAX_MANIFEST_BYTES + 1], StatusCode::PAYLOAD_TOO_LARGE),
    ];
    for (headers, body, expected) in cases {
        let (status, _, response) = server.call("POST /api/v1/manifests", headers, body).await;
        assert_eq!(status, expected, "{response}");
        assert!(response.contains(r#""status":"error""#), "{response}");
    }
    let (status, response) = server.post("/api/v1/manifests?colour=red", MANIFEST).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{response}");
}

// covers: ING-3.3-03, ING-3.3-05
#[tokio::test]
async fn spec_shows_the_layer_of_each_value() {
    let server = TestServer::new();
    server.post("/api/v1/manifests", MANIFEST).await;
    let (status, response) = server.get("/api/v1/specs/far/works?operation=backfill").await;
    assert_eq!(status, StatusCode::OK, "{response}");
    assert_eq!(
        (&response["data"]["operation"], &response["data"]["http"]["baseUrl"]),
        (&"BACKFILL".into(), &"https://far.example".into())
    );
    assert!(response["meta"]["version"].as_str().is_some_and(|version| version.starts_with("v1:")), "{response}");

    let path = "/api/v1/specs/far/works?explain=true&set=pagination.page_size=7,rate_limit.refill_rate_per_sec=0.5";
    let (_, response) = server.get(path).await;
    let layer = |path: &str| {
        let values = response["data"]["values"].as_array().unwrap();
        let found = values.iter().find(|value| value["path"] == path).unwrap_or_else(|| panic!("{path}: {response}"));
        (found["value"].clone(), found["layer"].as_str().unwrap().to_owned())
    };
    assert_eq!(layer("pagination.page_size"), (7.into(), "trigger".into()));
    assert_eq!(layer("pagination.type").1, "endpoint settings (reg_prov_pagination_cfg)");

    for (path, expected) in [
        ("/api/v1/specs/far/none", StatusCode::NOT_FOUND),
        ("/api/v1/specs/none/works", StatusCode::NOT_FOUND),
        ("/api/v1/specs/far/works?operation=steal", StatusCode::BAD_REQUEST),
        ("/api/v1/specs/far/works?colour=red", StatusCode::BAD_REQUEST),
        ("/api/v1/specs/far/works?set=http.base_url=x", StatusCode::UNPROCESSABLE_ENTITY),
        ("/api/v1/specs/far/works?set=rate_limit.refill_rate_per_sec=500", StatusCode::UNPROCESSABLE_ENTITY),
        ("/api/v1/specs/f%00/works", StatusCode::BAD_REQUEST),
    ] {
        let (status, response) = server.get(path).await;
        assert_eq!(status, expected, "{path}: {response}");
    }
}

#[tokio::test]
async fn dictionary_and_schema_are_readable() {
    let server = TestServer::new();
    patra_engine::registry::sync_dictionary(&*server.api.store).await.unwrap();
    let (_, response) = server.get("/api/v1/dictionary").await;
    let methods =
        response["data"]["types"].as_array().unwrap().iter().find(|kind| kind["code"] == "http_method").unwrap();
    assert!(methods["items"].as_array().unwrap().iter().any(|item| item["code"] == "GET"), "{methods}");
    let (_, kind, schema) = server.call("GET /api/v1/schema", &[], Body::empty()).await;
    assert_eq!(kind, "application/schema+json");
    assert!(serde_json::from_str::<Value>(&schema).unwrap()["properties"]["endpoints"].is_object(), "{schema}");
}

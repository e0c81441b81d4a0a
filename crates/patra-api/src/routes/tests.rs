//! Every route with every kind of key, on the in-memory store.

mod access;
mod bodies;
mod crawler;
mod credentials;
mod jobs;
mod openapi;
mod ops;
mod pool;
mod registry;
mod scrape;
mod sources;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use tower::ServiceExt as _;

use patra_core::port::CommandsExt;
use patra_core::tx::{CreateProject, KeyScope, RevokeKey};
use patra_core::vault::{Vault, VaultCell};
use patra_engine::metrics::Metrics;
use patra_testkit::clock::ManualClock;
use patra_testkit::memory::SharedMem;

use crate::{Api, key, router};

pub(crate) struct TestServer {
    pub(crate) api: Api,
    clock: Arc<ManualClock>,
}

fn vault() -> Arc<Vault> {
    #[derive(Debug)]
    struct Fixed;

    impl patra_core::port::Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
            bytes.fill(7);
            Ok(())
        }
    }

    let key = patra_core::seal::MasterKey::new([1; 32]);
    Arc::new(Vault::new(patra_core::seal::Keyring::new(key), Arc::new(Fixed)))
}

impl TestServer {
    pub(crate) fn new() -> TestServer {
        let clock = Arc::new(ManualClock::new(patra_core::Ts::from_secs(1_000)));
        let store = Arc::new(SharedMem::new(clock.clone()));
        let gate = patra_engine::gate::RateGate::new(store.clone(), clock.clone(), "test", 0);
        let metrics = Arc::new(Metrics::new(gate));
        let (vault, make_vault) = (VaultCell::default(), Arc::new(|| Ok(vault())));
        TestServer {
            clock: Arc::clone(&clock),
            api: Api {
                store,
                clock,
                nudge: Arc::new(|| {}),
                vault,
                make_vault,
                live: None,
                public_read: false,
                crawler: None,
                lock_timeout: std::time::Duration::from_secs(1_800),
                batch_size: 10,
                limits: crate::Limits::default(),
                metrics,
            },
        }
    }

    pub(crate) async fn key(&self, scope: KeyScope) -> String {
        self.key_of(scope, Vec::new()).await
    }

    pub(crate) async fn key_of(&self, scope: KeyScope, projects: Vec<String>) -> String {
        let (text, create) = key::generate("test", scope, projects, false, false).unwrap();
        self.api.store.run(create).await.unwrap();
        text
    }

    pub(crate) async fn project(&self, project_key: &str) {
        let create = CreateProject { project_key: project_key.into(), name: project_key.into() };
        self.api.store.run(create).await.unwrap();
    }

    async fn request(&self, method: &str, path: &str, key: Option<&str>) -> (StatusCode, String) {
        let body = if method == "POST" { r#"{"provenance":"x","endpoint":"y"}"# } else { "" };
        self.send(method, path, key, body.into()).await
    }

    async fn send(&self, method: &str, path: &str, key: Option<&str>, body: String) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let response = router(self.api.clone()).oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        assert!(response.headers().contains_key("x-request-id"));
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }
}

/// Every protected route, the scope that it needs, and the status for a key with that scope.
const ROUTES: &[(&str, &str, KeyScope, StatusCode)] = &[
    ("GET", "/api/v1/jobs", KeyScope::Read, StatusCode::OK),
    ("GET", "/api/v1/jobs/none", KeyScope::Read, StatusCode::NOT_FOUND),
    ("POST", "/api/v1/jobs", KeyScope::Write, StatusCode::NOT_FOUND),
    ("GET", "/api/v1/items", KeyScope::Read, StatusCode::OK),
    ("GET", "/api/v1/keys", KeyScope::Admin, StatusCode::OK),
    ("GET", "/api/v1/credentials", KeyScope::Admin, StatusCode::OK),
    ("GET", "/api/v1/credential-states", KeyScope::Admin, StatusCode::OK),
    ("POST", "/api/v1/credentials", KeyScope::Admin, StatusCode::BAD_REQUEST),
    ("DELETE", "/api/v1/credentials/none", KeyScope::Admin, StatusCode::NOT_FOUND),
    ("POST", "/api/v1/runs/1/batches/1/replay", KeyScope::Write, StatusCode::NOT_FOUND),
    ("POST", "/api/v1/runs/1/batches/1/redrive", KeyScope::Write, StatusCode::BAD_REQUEST),
    ("POST", "/api/v1/tasks/1/redrive", KeyScope::Write, StatusCode::BAD_REQUEST),
    ("POST", "/api/v1/runs/1/batches/1/bundle", KeyScope::Admin, StatusCode::BAD_REQUEST),
    ("GET", "/api/v1/exports", KeyScope::Admin, StatusCode::OK),
    ("GET", "/api/v1/manifests", KeyScope::Read, StatusCode::OK),
    ("POST", "/api/v1/manifests", KeyScope::Admin, StatusCode::UNPROCESSABLE_ENTITY),
    ("GET", "/api/v1/manifests/none", KeyScope::Read, StatusCode::NOT_FOUND),
    ("DELETE", "/api/v1/manifests/none", KeyScope::Admin, StatusCode::NOT_FOUND),
    ("GET", "/api/v1/specs/none/none", KeyScope::Read, StatusCode::NOT_FOUND),
    ("GET", "/api/v1/dictionary", KeyScope::Read, StatusCode::OK),
    ("GET", "/api/v1/schema", KeyScope::Read, StatusCode::OK),
];

// covers: CRAWL-58
#[tokio::test]
async fn every_route_needs_a_key_with_its_scope() {
    let server = TestServer::new();
    let revoked = server.key(KeyScope::Admin).await;
    let prefix = key::prefix(&revoked).unwrap().to_owned();
    server.api.store.run(RevokeKey { prefix }).await.unwrap();
    let keys = [
        (KeyScope::Read, server.key(KeyScope::Read).await),
        (KeyScope::Write, server.key(KeyScope::Write).await),
        (KeyScope::Admin, server.key(KeyScope::Admin).await),
    ];
    for (method, path, needed, status) in ROUTES {
        for wrong in [
            None,
            Some("nonsense"),
            Some("patra_00000000_000000000000000000000000000000000000000000000000"),
            Some(revoked.as_str()),
        ] {
            let (got, body) = server.request(method, path, wrong).await;
            assert_eq!(got, StatusCode::UNAUTHORIZED, "{method} {path} with {wrong:?}");
            assert!(body.contains(r#""code":"UNAUTHORIZED""#));
        }
        for (scope, key) in &keys {
            let (got, body) = server.request(method, path, Some(key)).await;
            let expected = if scope >= needed { *status } else { StatusCode::FORBIDDEN };
            assert_eq!(got, expected, "{method} {path} with {scope:?}: {body}");
            assert!(!body.contains(key.rsplit('_').next().unwrap()), "a response contains a key");
        }
    }
}

#[tokio::test]
async fn health_is_open_and_unknown_paths_have_the_envelope() {
    let server = TestServer::new();
    for path in ["/health", "/healthz", "/readyz"] {
        assert_eq!(server.request("GET", path, None).await.0, StatusCode::OK, "{path}");
    }
    let (status, body) = server.request("GET", "/nowhere", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(body.contains(r#""status":"error""#), "{body}");
    let (status, body) = server.request("DELETE", "/health", None).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(body.contains(r#""status":"error""#), "{body}");
}

#[tokio::test]
async fn nul_and_broken_text_are_refused_with_the_envelope() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Admin).await;
    for path in [
        "/api/v1/jobs/a%00b",
        "/api/v1/jobs/%ff",
        "/api/v1/%00",
        "/api/v1/%ff",
        "/api/v1/items?provenance=%00",
        "/api/v1/items?endpoint=a%00",
        "/api/v1/tasks?status=%00",
        "/api/v1/jobs?provenance=%00x",
    ] {
        let (status, body) = server.request("GET", path, Some(&key)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {body}");
        assert!(body.contains(r#""code":"INVALID_INPUT""#), "{path}: {body}");
    }
}

#[tokio::test]
async fn invalid_body_is_refused_with_a_code() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Write).await;
    for body in [
        r#"{"provenance":"a\u0000","endpoint":"y"}"#,
        r#"{"provenance":"x","endpoint":"\u0000"}"#,
        r#"{"provenance":"x","endpoint":"y","public_id":"a\u0000b"}"#,
        r#"{"provenance":"x","#,
        r#"{"provenance":"x","endpoint":"y","colour":1}"#,
        r#"{"provenance":1,"endpoint":"y"}"#,
    ] {
        let (status, response) = server.send("POST", "/api/v1/jobs", Some(&key), body.to_owned()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{response}");
        assert!(response.contains(r#""code":"INVALID_INPUT""#), "{response}");
    }
}

//! What everybody can reach: public reading, bodies that never come, headers of every response, failed keys.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use futures_util::stream;
use serde_json::json;
use tower::ServiceExt as _;

use patra_core::tx::KeyScope;

use super::super::served;
use super::TestServer;
use super::openapi::example;
use crate::connection::Peer;
use crate::openapi::Needs;
use crate::router;

/// Pages that a browser can reach, in addition to the described routes.
const PAGES: [&str; 8] = ["/", "/login", "/sources", "/sources/1", "/items", "/jobs", "/keys", "/search?q=hidden"];

// covers: COLL-80
#[tokio::test]
async fn public_reading_shows_nothing_private_on_any_route() {
    let mut server = TestServer::new();
    let key = server.key(KeyScope::Write).await;
    for (name, is_public) in [("hidden", false), ("shown", true)] {
        let url = format!("https://{name}.example/feed?token={name}-token");
        let source = json!({ "type": "rss", "name": name, "config": { "url": url }, "is_public": is_public });
        let (status, body) = server.send("POST", "/api/sources", Some(&key), source.to_string()).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
    }
    server.api.public_read = true;
    let operations = served(&server.api).operations;
    let mut public = Vec::new();
    for operation in operations.iter().filter(|operation| operation.method == "GET") {
        for id in ["1", "2"] {
            let path = example(operation).replace("/1", &format!("/{id}"));
            let (status, body) = server.request("GET", &path, None).await;
            assert!(!body.contains("hidden"), "{path} shows a private source: {body}");
            if operation.public {
                let expected = if path.ends_with("/1") { StatusCode::NOT_FOUND } else { StatusCode::OK };
                assert_eq!(status, expected, "{path}: {body}");
                assert!(status != StatusCode::OK || body.contains("shown"), "{path}: {body}");
                public.push(path);
            } else if operation.needs != Needs::Nothing {
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{path} is not marked public");
            }
        }
    }
    assert_eq!(public.len(), 6, "{public:?}");
    for path in PAGES {
        let (_, body) = server.request("GET", path, None).await;
        assert!(!body.contains("hidden.example"), "{path}: {body}");
    }
}

/// A request with a body that begins and never ends.
fn endless(method: &str, path: &str, kind: &str, key: Option<&str>) -> Request<Body> {
    use futures_util::StreamExt as _;
    let begun = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{\"key\": \"a"))]);
    let body = Body::from_stream(begun.chain(stream::pending()));
    let mut request = Request::builder().method(method).uri(path).header("content-type", kind);
    if let Some(key) = key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    request.body(body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_route_ends_although_its_body_never_arrives() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Admin).await;
    let operations = served(&server.api).operations;
    let described = operations.iter().map(|operation| (operation.method, example(operation)));
    let pages = ["/login", "/sources", "/try", "/keys", "/settings"].map(|path| ("POST", path.to_owned()));
    let mut timed_out = Vec::new();
    for (method, path) in described.chain(pages) {
        for (kind, key) in [("application/json", Some(&*key)), ("application/x-www-form-urlencoded", None)] {
            let answer = router(server.api.clone()).oneshot(endless(method, &path, kind, key));
            let answer = tokio::time::timeout(Duration::from_secs(60), answer).await;
            let answer = answer.unwrap_or_else(|_| panic!("{method} {path} waits for ever")).unwrap();
            if answer.status() == StatusCode::REQUEST_TIMEOUT {
                assert_eq!(answer.headers()["connection"], "close", "{method} {path}");
                timed_out.push(path.clone());
            }
        }
    }
    for path in ["/login", "/api/v1/jobs", "/api/sources", "/api/v1/crawler/executions/acquire", "/api/sources/opml"] {
        assert!(timed_out.iter().any(|known| known == path), "{path}: {timed_out:?}");
    }
}

#[tokio::test]
async fn login_form_is_small() {
    let server = TestServer::new();
    let form = Request::builder()
        .method("POST")
        .uri("/login")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(format!("key={}", "a".repeat(20_000))))
        .unwrap();
    let answer = router(server.api).oneshot(form).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn every_response_forbids_guessing_and_storing() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Admin).await;
    let operations = served(&server.api).operations;
    let mut paths: Vec<_> = operations.iter().map(|operation| (operation.method, example(operation))).collect();
    paths.extend(PAGES.map(|path| ("GET", path.to_owned())));
    paths.push(("GET", "/nowhere".to_owned()));
    for (method, path) in paths {
        for key in [None, Some(&key)] {
            let mut request = Request::builder().method(method).uri(&path);
            if let Some(key) = key {
                request = request.header("authorization", format!("Bearer {key}"));
            }
            let answer = router(server.api.clone()).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "{method} {path}");
            assert_eq!(header("cache-control").as_deref(), Some("no-store"), "{method} {path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_keys_and_logins_are_counted_and_slowed() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Read).await;
    let peer = Peer::new([192, 0, 2, 1].into(), false, 0);
    let send = async |key: &str| {
        let request = Request::builder().uri("/api/v1/dictionary").header("authorization", format!("Bearer {key}"));
        let request = request.extension(peer.clone()).body(Body::empty()).unwrap();
        let begun = tokio::time::Instant::now();
        let answer = router(server.api.clone()).oneshot(request).await.unwrap();
        (answer.status(), begun.elapsed())
    };
    for _ in 0..10 {
        assert_eq!(send("wrong").await, (StatusCode::UNAUTHORIZED, Duration::ZERO));
    }
    let (status, waited) = send("wrong").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(!waited.is_zero(), "a further failure is not slowed");
    assert_eq!(send(&key).await, (StatusCode::OK, Duration::ZERO), "a valid key is not slowed");
    let burst = futures_util::future::join_all((0..40).map(|_| send("wrong"))).await;
    assert!(burst.iter().any(|(status, _)| *status == StatusCode::TOO_MANY_REQUESTS), "{burst:?}");
    let text = server.api.metrics.text(&*server.api.store).await.unwrap();
    assert!(text.contains("patra_http_auth_failures_total{kind=\"key\"} 51"), "{text}");
    // A browser gets the token of the form first.
    let form = "csrf=token&key=patra_00000000_0";
    let login = Request::builder()
        .method("POST")
        .uri("/login")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("cookie", "patra_login=token");
    let answer = router(server.api.clone()).oneshot(login.body(Body::from(form)).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let text = server.api.metrics.text(&*server.api.store).await.unwrap();
    assert!(text.contains("patra_http_auth_failures_total{kind=\"login\"} 1"), "{text}");
}

//! The signing hook behind HTTP.

use bytes::Bytes;
use patra_core::port::Signer;
use patra_core::port::transport::{HttpMethod, HttpRequest};
use patra_http::HttpSigner;

use crate::server::{ServerStep, TestServer, reply};

fn request() -> HttpRequest {
    let mut request = HttpRequest::new(HttpMethod::Post, "https://api.example/a?b=1");
    request.headers = vec![("X-Key".to_owned(), "canary".to_owned())];
    request.body = Some(Bytes::from_static(b"canary body"));
    request
}

// covers: ING-4.2-04, ING-3.8-02, CRAWL-198, ING-2.3-03
#[tokio::test]
async fn signer_gets_the_request_and_returns_additions() {
    let body = r#"{"headers":{"X-Sig":"s"},"query":{"t":"1"},"more":true}"#;
    let server = TestServer::fixed(reply("200 OK", "", body)).await;
    // The signer is on this host: allowed, because the operator configured it.
    let signer = HttpSigner::new(&server.url("/sign")).unwrap();
    let signature = signer.sign(&request()).await.unwrap();
    assert_eq!(signature.headers, [("X-Sig".to_owned(), "s".to_owned())]);
    assert_eq!(signature.query, [("t".to_owned(), "1".to_owned())]);
    let request = server.requests.lock().unwrap().concat();
    assert!(request.starts_with("POST /sign HTTP/1.1"), "{request}");
    for part in [
        r#""method":"POST""#,
        r#""url":"https://api.example/a?b=1""#,
        r#""headers":{"X-Key":"canary"}"#,
        r#""body":"Y2FuYXJ5IGJvZHk=""#,
        &format!(r#""body_sha256":"{}""#, patra_core::hash::sha256_hex(b"canary body")),
    ] {
        assert!(request.contains(part), "{part} is not in {request}");
    }
}

#[tokio::test]
async fn failing_signer_error_has_no_body_and_is_classified() {
    let many: Vec<_> = (0..40).map(|n| format!(r#""h{n}":"v""#)).collect();
    let cases = [
        (reply("200 OK", "", "canary"), false),
        (reply("200 OK", "", r#"{"headers":["canary"]}"#), false),
        (reply("200 OK", "", format!("{{\"headers\":{{{}}}}}", many.join(","))), false),
        (reply("200 OK", "", "canary".repeat(20_000)), false),
        (reply("401 No", "", "canary"), false),
        (reply("302 Found", "location: http://canary/\r\n", "canary"), false),
        (reply("500 No", "", "canary"), true),
        (vec![ServerStep::Close], true),
    ];
    for (steps, transient) in cases {
        let server = TestServer::fixed(steps).await;
        let signer = HttpSigner::new(&server.url("/sign?canary")).unwrap();
        let error = signer.sign(&request()).await.unwrap_err();
        assert_eq!(error.transient, transient, "{error}");
        assert!(!format!("{error} {error:?} {signer:?}").contains("canary"), "{error}");
    }
    for url in ["canary", "ftp://a/b", "http://", "/sign"] {
        let error = HttpSigner::new(url).unwrap_err();
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

//! The signing hook behind HTTP.

use bytes::Bytes;
use patra_core::port::Signer;
use patra_core::port::transport::{Method, Request};
use patra_http::HttpSigner;

use crate::server::{Server, Step, answer};

fn request() -> Request {
    let mut request = Request::new(Method::Post, "https://far.example/a?b=1");
    request.headers = vec![("X-Key".to_owned(), "canary".to_owned())];
    request.body = Some(Bytes::from_static(b"canary body"));
    request
}

// covers: ING-4.2-04, ING-3.8-02, CRAWL-198
#[tokio::test]
async fn a_signer_gets_the_request_and_says_what_to_add() {
    let body = r#"{"headers":{"X-Sig":"s"},"query":{"t":"1"},"more":true}"#;
    let server = Server::fixed(answer("200 OK", "", body)).await;
    // On this very host: the operator named it.
    let signer = HttpSigner::new(&server.url("/sign")).unwrap();
    let signature = signer.sign(&request()).await.unwrap();
    assert_eq!(signature.headers, [("X-Sig".to_owned(), "s".to_owned())]);
    assert_eq!(signature.query, [("t".to_owned(), "1".to_owned())]);
    let asked = server.requests.lock().unwrap().concat();
    assert!(asked.starts_with("POST /sign HTTP/1.1"), "{asked}");
    for part in [
        r#""method":"POST""#,
        r#""url":"https://far.example/a?b=1""#,
        r#""headers":{"X-Key":"canary"}"#,
        r#""body":"Y2FuYXJ5IGJvZHk=""#,
        &format!(r#""body_sha256":"{}""#, patra_core::hash::sha256_hex(b"canary body")),
    ] {
        assert!(asked.contains(part), "{part} is not in {asked}");
    }
}

#[tokio::test]
async fn a_signer_that_fails_shows_nothing_and_says_whether_to_ask_again() {
    let many: Vec<_> = (0..40).map(|n| format!(r#""h{n}":"v""#)).collect();
    let cases = [
        (answer("200 OK", "", "canary"), false),
        (answer("200 OK", "", r#"{"headers":["canary"]}"#), false),
        (answer("200 OK", "", format!("{{\"headers\":{{{}}}}}", many.join(","))), false),
        (answer("200 OK", "", "canary".repeat(20_000)), false),
        (answer("401 No", "", "canary"), false),
        (answer("302 Found", "location: http://canary/\r\n", "canary"), false),
        (answer("500 No", "", "canary"), true),
        (vec![Step::Close], true),
    ];
    for (steps, transient) in cases {
        let server = Server::fixed(steps).await;
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

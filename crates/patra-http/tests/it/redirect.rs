use patra_core::port::transport::{Error, HttpMethod, HttpResponse, Transport};

use crate::server::{TestServer, client, get, reply};

fn to(status: &str, location: &str) -> Vec<crate::server::ServerStep> {
    reply(status, &format!("location: {location}\r\n"), "moved")
}

async fn follow(url: String, max_redirects: u8) -> Result<HttpResponse, Error> {
    let mut request = get(url);
    request.limits.max_redirects = max_redirects;
    request.headers = [("authorization", "canary"), ("cookie", "canary"), ("x-key", "canary"), ("accept", "a/b")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    client().send(request).await
}

fn refusal(result: Result<HttpResponse, Error>) -> String {
    match result {
        Err(Error::Redirect { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Counts down: /3 leads to /2, and so on to /0.
async fn stairs() -> TestServer {
    TestServer::start(|request, _| match request.as_bytes()[5] {
        b'0' => reply("200 OK", "", "arrived"),
        step => to("302 Found", &format!("/{}", char::from(step - 1))),
    })
    .await
}

// covers: ING-4.2-09
#[tokio::test]
async fn redirects_are_off_by_default_and_counted_when_on() {
    let server = stairs().await;
    let untouched = client().send(get(server.url("/3"))).await.unwrap();
    assert_eq!((untouched.status, untouched.header("location")), (302, Some("/2")));
    assert_eq!(follow(server.url("/3"), 3).await.unwrap().body, "arrived");
    assert_eq!(follow(server.url("/1"), 3).await.unwrap().body, "arrived");
    assert_eq!(refusal(follow(server.url("/4"), 3).await), "more than 3 redirects");
    assert_eq!(refusal(follow(server.url("/2"), 1).await), "more than 1 redirects");
}

#[tokio::test]
async fn redirect_loop_ends() {
    let server = TestServer::fixed(to("301 Moved", "/?canary")).await;
    assert_eq!(refusal(follow(server.url("/"), 5).await), "more than 5 redirects");
    assert_eq!(server.requests().len(), 6);
    assert_eq!(refusal(follow(server.url("/"), 255).await), "more than 255 redirects");
}

#[tokio::test]
async fn secrets_stay_with_the_host() {
    let other = TestServer::fixed(reply("200 OK", "", "arrived")).await;
    let target = other.url("/there");
    let server = TestServer::start(move |request, _| match request.starts_with("GET /here") {
        true => to("302 Found", "/near"),
        false => to("302 Found", &target),
    })
    .await;
    let url = server.url("/here").replace("http://", "http://canary:canary@");
    assert_eq!(follow(url, 5).await.unwrap().body, "arrived");
    for request in server.requests() {
        assert_eq!(request.matches("canary").count(), 3, "{request}");
    }
    let request = &other.requests()[0];
    assert!(!request.contains("canary") && !request.contains("Basic"), "{request}");
    assert!(request.contains("accept: a/b\r\n") && request.contains("user-agent: patra/"), "{request}");
    assert!(request.contains(&format!("host: {}\r\n", other.address)), "{request}");
}

#[tokio::test]
async fn a_post_becomes_a_get_or_is_not_repeated() {
    for (status, followed) in
        [("301 X", true), ("302 X", true), ("303 X", true), ("307 X", false), ("308 X", false), ("304 X", true)]
    {
        let server = TestServer::start(move |request, _| match request.starts_with("POST") {
            true => to(status, "/done"),
            false => reply("200 OK", "", "done"),
        })
        .await;
        let mut request = get(server.url("/"));
        request.method = HttpMethod::Post;
        request.body = Some("payload".into());
        request.headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
        request.limits.max_redirects = 3;
        assert_eq!(client().send(request).await.is_ok(), followed, "{status}");
        for repeated in server.requests().iter().skip(1) {
            assert!(repeated.starts_with("GET /done"), "{repeated}");
            assert!(!repeated.contains("payload") && !repeated.contains("content-type"), "{repeated}");
        }
    }
}

#[tokio::test]
async fn only_http_is_followed() {
    for target in ["file:///etc/passwd", "ftp://a.test/", "gopher://127.0.0.1:70/", "data:,x", "http://", "//:0:0"] {
        let server = TestServer::fixed(to("302 Found", target)).await;
        refusal(follow(server.url("/"), 3).await);
    }
}

use bytes::Bytes;
use http::HeaderValue;

use super::*;

fn hop(method: Method, url: &str) -> RequestHop {
    let mut headers = HeaderMap::new();
    for name in ["authorization", "cookie", "x-api-key", "accept", "user-agent", "content-type", "host"] {
        headers.append(name, HeaderValue::from_static("canary"));
    }
    headers.append("x-api-key", HeaderValue::from_static("second"));
    RequestHop { method, url: Url::parse(url).unwrap(), headers, body: Some(Bytes::from_static(b"canary")) }
}

fn follow(method: Method, from: &str, status: u16, to: &str) -> Result<RequestHop, Error> {
    next(&hop(method, from), StatusCode::from_u16(status).unwrap(), to)
}

// covers: ING-4.2-09
#[test]
fn targets_are_resolved_or_refused() {
    #[rustfmt::skip]
    let cases = [
        ("http://a.test/x/y?q=1", "z", Ok("http://a.test/x/z")),
        ("http://a.test/x", "//b.test/y", Ok("http://b.test/y")),
        ("http://a.test/x", "https://a.test/x", Ok("https://a.test/x")),
        ("https://a.test/x", "https://b.test/x", Ok("https://b.test/x")),
        ("https://a.test/x", "http://a.test/?canary", Err("a.test leads from https to http")),
        ("https://a.test/x", "HTTP://a.test/?canary", Err("a.test leads from https to http")),
        ("http://a.test/x", "file:///etc/canary", Err("a.test leads out of http")),
        ("http://a.test/x", "ftp://a.test/canary", Err("a.test leads out of http")),
        ("http://a.test/x", "javascript:canary", Err("a.test leads out of http")),
        ("http://a.test/x", "http://canary:99999/", Err("a.test names no valid URL: invalid port number")),
        ("http://a.test/x", "http://u:canary@a.test/y", Ok("http://a.test/y")),
        ("http://a.test/x", "http://2130706433/", Ok("http://127.0.0.1/")),
    ];
    for (from, to, expected) in cases {
        match (follow(Method::GET, from, 302, to), expected) {
            (Ok(next), Ok(url)) => assert_eq!(next.url.as_str(), url),
            (Err(Error::Redirect { reason }), Err(expected)) => assert_eq!(reason, expected),
            (other, _) => panic!("{from} to {to}: {:?}", other.map(|hop| hop.url)),
        }
    }
}

#[test]
fn a_method_is_repeated_only_when_it_is_get() {
    for (method, status, expected) in [
        (Method::GET, 301, Some((Method::GET, false))),
        (Method::GET, 307, Some((Method::GET, true))),
        (Method::GET, 308, Some((Method::GET, true))),
        (Method::POST, 301, Some((Method::GET, false))),
        (Method::POST, 302, Some((Method::GET, false))),
        (Method::POST, 303, Some((Method::GET, false))),
        (Method::POST, 307, None),
        (Method::POST, 308, None),
    ] {
        let next = follow(method.clone(), "http://a.test/", status, "/b").ok();
        assert_eq!(next.map(|hop| (hop.method, hop.body.is_some())), expected, "{method} {status}");
    }
}

#[test]
fn credential_headers_stay_with_the_host() {
    let all = ["accept", "authorization", "content-type", "cookie", "host", "user-agent", "x-api-key"];
    for (from, to, kept) in [
        ("http://a.test/", "http://a.test/b", &all[..]),
        ("http://a.test/", "http://a.test:80/b", &all),
        ("http://a.test/", "https://a.test/b", &all),
        ("http://a.test/", "http://b.test/", &["accept", "user-agent"]),
        ("http://a.test/", "http://a.test:8080/", &["accept", "user-agent"]),
        ("http://a.test/", "https://a.test:8443/", &["accept", "user-agent"]),
        ("http://a.test/", "http://sub.a.test/", &["accept", "user-agent"]),
    ] {
        let next = follow(Method::GET, from, 307, to).unwrap();
        let mut names: Vec<_> = next.headers.keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, kept, "{from} to {to}");
    }
}

#[test]
fn only_a_redirect_with_a_target_is_one() {
    for (status, expected) in
        [(200, false), (201, false), (300, false), (301, true), (303, true), (304, false), (305, false), (308, true)]
    {
        let headers = HeaderMap::from_iter([(header::LOCATION, HeaderValue::from_static("/x"))]);
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(location(status, &headers).is_some(), expected, "{status}");
        assert_eq!(location(status, &HeaderMap::new()), None);
    }
}

//! Positions of next pages, and limits of paging.

use patra_core::paging::Position;
use patra_core::{Code, Level};

use super::{answer, ask, pager, read_at, request, window};

const ITEMS: &str = r#"{"items":[{"id":1,"at":5},{"id":2,"at":5}],"next":"page2?c=1","count":"7"}"#;
const RESPONSE: &str = "items_path: $.items, id_path: $.id, updated_at_path: $.at";

/// The next URL in the form in which it is requested.
fn next_url(endpoint: &str, at: Option<&str>, headers: &[(&str, &str)]) -> Option<String> {
    let position = Position::Url(at.map(str::to_owned));
    read_at(&pager(endpoint), &position, answer(headers, ITEMS)).unwrap().facts.next_url
}

// covers: ING-4.3-04
#[test]
fn a_link_header_names_the_next_page() {
    let endpoint = format!("pagination: {{ type: url, next_url_header: Link }}\nresponse: {{ {RESPONSE} }}");
    let both = [("link", "</v1/list?page=9>; rel=\"last\""), ("link", "</v1/list?page=2>; rel=\"next\"")];
    assert_eq!(next_url(&endpoint, None, &both).as_deref(), Some("https://api.example.org/v1/list?page=2"));
    assert_eq!(next_url(&endpoint, None, &both[..1]), None);
    let named = endpoint.replace("Link", "X-Next");
    assert_eq!(
        next_url(&named, None, &[("x-next", "https://api.example.org/n")]).as_deref(),
        Some("https://api.example.org/n")
    );
}

#[test]
fn a_relative_url_is_relative_to_its_page() {
    let endpoint = format!("pagination: {{ type: url, next_url_path: $.next }}\nresponse: {{ {RESPONSE} }}");
    assert_eq!(next_url(&endpoint, None, &[]).as_deref(), Some("https://api.example.org/v1/page2?c=1"));
    let deep = Some("https://api.example.org/v2/deep/page1");
    assert_eq!(next_url(&endpoint, deep, &[]).as_deref(), Some("https://api.example.org/v2/deep/page2?c=1"));
}

// covers: ING-4.8-06
#[test]
fn other_hosts_are_followed_only_where_the_manifest_names_them() {
    let endpoint = format!(
        "pagination: {{ type: url, next_url_path: $.next, allow_hosts: [CDN.example.org, \"other.org:8443\"] }}\nresponse: {{ {RESPONSE} }}"
    );
    let pager = pager(&endpoint);
    let check = |url: &str, allowed: bool| {
        let asked = pager.request(&ask(&Position::Url(Some(url.to_owned()))));
        match asked {
            Ok(exchange) => assert!(allowed && exchange.request.url == url, "{url}"),
            Err(refusal) => {
                assert!(!allowed, "{url}");
                assert_eq!((refusal.fault.code, refusal.fault.level), (Code::Forbidden, Level::L2));
            }
        }
    };
    check("https://api.example.org/v1/x", true);
    check("https://cdn.example.org/x", true);
    check("https://other.org:8443/x", true);
    check("https://other.org/x", false);
    check("https://cdn.example.org:444/x", false);
    check("http://cdn.example.org/x", false);
    check("http://api.example.org/v1/x", false);
    check("https://user:secret@api.example.org/v1/x", false);
    check("https://api.example.org.evil.org/x", false);
    check("//evil.org/x", false);
    check("ftp://cdn.example.org/x", false);
}

// covers: ING-4.3-03, ING-4.7-02
#[test]
fn token_total_and_more_may_stand_in_headers() {
    let endpoint = format!(
        "query: {{ c: \"${{ page.token }}\" }}\npagination: {{ type: token, next_token_header: X-Next }}\nresponse: {{ {RESPONSE}, total_header: X-Total-Count, has_more_header: X-More }}"
    );
    let pager = pager(&endpoint);
    let read = |headers: &[(&str, &str)]| {
        read_at(&pager, &Position::Token(None), answer(headers, ITEMS)).unwrap().facts.clone()
    };
    let facts = read(&[("x-next", " abc "), ("x-total-count", "70"), ("x-more", "TRUE")]);
    assert_eq!((facts.next_token.as_deref(), facts.total, facts.has_more), (Some("abc"), Some(70), Some(true)));
    let facts = read(&[("x-next", ""), ("x-total-count", "many"), ("x-more", "perhaps")]);
    assert_eq!((facts.next_token, facts.total, facts.has_more), (None, None, None));
}

// covers: ING-4.3-03
#[test]
fn a_token_may_be_sent_in_a_header() {
    let endpoint = format!(
        "http: {{ base_url: \"https://api.example.org\", headers: {{ X-Cursor: \"${{ page.token }}\" }} }}\npagination: {{ type: token, next_token_path: $.next }}\nresponse: {{ {RESPONSE} }}"
    );
    let pager = pager(&endpoint);
    assert_eq!(request(&pager, &Position::Token(None)).headers, []);
    let sent = request(&pager, &Position::Token(Some("a b".into())));
    assert_eq!(sent.headers, [("X-Cursor".to_owned(), "a b".to_owned())]);
    let broken = pager.request(&ask(&Position::Token(Some("a\r\nX-Evil: 1".into())))).unwrap_err();
    assert_eq!(broken.fault.code, Code::InvalidInput);
}

// covers: ING-5.4-06, ING-2.3-02
#[test]
fn a_request_is_the_frozen_template_with_the_place_and_the_window_at_hand() {
    let sent = |paging: &str, query: &str, position: Position| {
        let endpoint = format!(
            "window: {{ supports_updated_since: true, watermark_key: updated_at, initial: 2020-01-01 }}\nquery: {{ {query}, from: \"${{ window.from | epoch }}\" }}\npagination: {{ {paging} }}\nresponse: {{ {RESPONSE} }}"
        );
        let url = request(&pager(&endpoint), &position).url;
        let query = url.strip_prefix("https://api.example.org/v1/list?").unwrap_or_else(|| panic!("{url}"));
        let mut pairs: Vec<_> = query.split('&').map(str::to_owned).collect();
        let window = format!("from={}", window().from.micros() / 1_000_000);
        assert!(pairs.contains(&window), "{url} without {window}");
        pairs.retain(|pair| *pair != window);
        pairs.sort();
        pairs.join(" ")
    };
    let offset = ("type: offset, page_size: 2", "start: \"${ page.offset }\", rows: \"${ page.size }\"");
    assert_eq!(sent(offset.0, offset.1, Position::Offset(40)), "rows=2 start=40");
    let number = ("type: page, base: 1, page_size: 2", "p: \"${ page.no }\"");
    assert_eq!(sent(number.0, number.1, Position::Page(3)), "p=3");
    let token = ("type: token, next_token_path: $.next", "c: \"${ page.token }\", all: \"1\"");
    assert_eq!(sent(token.0, token.1, Position::Token(None)), "all=1", "no token on the first page");
    assert_eq!(sent(token.0, token.1, Position::Token(Some("a+b".into()))), "all=1 c=a%2Bb");
    let url = format!("pagination: {{ type: url, next_url_path: $.next }}\nresponse: {{ {RESPONSE} }}");
    let next = "https://api.example.org/v1/page2?c=1";
    assert_eq!(request(&pager(&url), &Position::Url(Some(next.into()))).url, next);
}

// covers: ING-4.2-09
#[test]
fn redirects_are_off_unless_the_manifest_allows_some() {
    let endpoint =
        |http: &str| format!("http: {{ base_url: \"https://api.example.org\"{http} }}\nresponse: {{ {RESPONSE} }}");
    assert_eq!(request(&pager(&endpoint("")), &Position::Time).limits.max_redirects, 0);
    assert_eq!(request(&pager(&endpoint(", max_redirects: 3")), &Position::Time).limits.max_redirects, 3);
}

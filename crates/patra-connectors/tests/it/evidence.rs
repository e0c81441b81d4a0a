//! Evidence of a request and its response for the ledger.

use std::time::Duration;

use patra_core::Ts;
use patra_core::paging::Position;
use serde_json::{Value, json};

use super::{answer, ask, pager};

// covers: ING-14.3-05
#[test]
fn both_digests_have_the_members_that_are_fixed() {
    let pager = pager(
        "http: { method: post, base_url: \"https://api.example.org/v1/\", path: \"/list/${ params.kind }\", headers: { Accept: application/json } }\n\
         params: { kind: { default: all } }\n\
         query: { page: \"${ page.token }\", q: x }\n\
         body: { json: { a: 1 } }\n\
         pagination: { type: token, next_token_path: $.next }\n\
         response: { items_path: $.data.items, id_path: $.id, updated_at_path: $.at }",
    );
    let params = [("kind".to_owned(), "new ones".to_owned())].into();
    let exchange =
        pager.request(&patra_connectors::PageRequest { params: &params, ..ask(&Position::Token(None)) }).unwrap();
    let body = r#"{"data":{"items":[{"id":"1","at":"2024-01-01T00:00:00Z"}]},"next":null}"#;
    let response = answer(&[("x-ratelimit-remaining", "12")], body);
    let page = pager.read(exchange, Ok(response), Duration::ZERO, Ts::from_secs(0)).unwrap();
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (request, response) = (read(&page.evidence.request_digest), read(&page.evidence.response_digest));
    assert_eq!(
        (&request["method"], &request["urlTemplate"], &request["url"]),
        (
            &json!("POST"),
            &json!("https://api.example.org/v1/list/${ params.kind }"),
            &json!("https://api.example.org/v1/list/new%20ones")
        )
    );
    assert_eq!((&request["query"], &request["headers"][0]), (&json!({ "q": "x" }), &json!("Accept")));
    assert!(request["bodyHash"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(response["status"], 200);
    assert_eq!(response["headerHints"], json!({ "retryAfter": null, "rateLimitRemaining": "12" }));
    assert_eq!((&response["itemsPath"], &response["nextTokenPath"]), (&json!("$.data.items"), &json!("$.next")));
    assert!(response["sample"].as_str().unwrap().starts_with("sha256:"));
}

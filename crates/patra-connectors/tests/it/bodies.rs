//! Bodies of requests.

use patra_core::paging::Position;
use serde_json::{Value, json};

use super::{ask, pager, request, window};

fn endpoint(body: &str) -> String {
    let http = "http: { base_url: \"https://api.example.org\", path: /graphql, method: post }";
    let paging = "pagination: { type: token, next_token_path: $.data.works.pageInfo.endCursor, page_size: 50 }";
    let response = "response: { items_path: $.data.works.nodes, id_path: $.id, updated_at_path: $.at }";
    format!("{http}\n{paging}\n{response}\n{body}")
}

fn sent(endpoint: &str, token: Option<&str>) -> (Option<String>, String) {
    let request = request(&pager(endpoint), &Position::Token(token.map(str::to_owned)));
    let kind = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let body = String::from_utf8(request.body.unwrap_or_default().to_vec()).unwrap();
    (kind.map(|(_, value)| value.clone()), body)
}

// covers: ING-4.3-03, ING-4.2-07, ING-4.8-02, ING-4.8-06
#[test]
fn graphql_is_a_json_body() {
    let endpoint = endpoint(
        r#"window: { supports_updated_since: true, watermark_key: at, initial: 2024-01-01 }
body:
  json:
    query: "query($first: Int!, $after: String) { works(first: $first, after: $after) { nodes { id at } } }"
    variables:
      first: "${ page.size }"
      after: "${ page.token }"
      since: "${ window.from | epoch }"
      tags: [a, "${ page.token }", 1, true, null]
      text: "size ${ page.size }""#,
    );
    let (kind, body) = sent(&endpoint, Some("x\", \"evil\": \"1"));
    assert_eq!(kind.as_deref(), Some("application/json"));
    let body: Value = serde_json::from_str(&body).unwrap();
    let since = window().from.micros() / 1_000_000;
    let token = "x\", \"evil\": \"1";
    let variables =
        json!({ "first": 2, "after": token, "since": since, "tags": ["a", token, 1, true, null], "text": "size 2" });
    assert_eq!(body["variables"], variables);
    assert!(body["query"].as_str().unwrap().starts_with("query($first: Int!"));
    let first: Value = serde_json::from_str(&sent(&endpoint, None).1).unwrap();
    assert_eq!((first["variables"].get("after"), &first["variables"]["tags"]), (None, &json!(["a", 1, true, null])));
    // Digits do not make a token a number.
    let digits: Value = serde_json::from_str(&sent(&endpoint, Some("123")).1).unwrap();
    assert_eq!(digits["variables"]["after"], "123");
}

#[test]
fn forms_are_encoded() {
    let endpoint = endpoint("body: { form: { after: \"${ page.token }\", n: 5, q: \"a&b=ü c\" } }");
    let (kind, body) = sent(&endpoint, Some("1&evil=2"));
    assert_eq!(kind.as_deref(), Some("application/x-www-form-urlencoded"));
    assert_eq!(body, "after=1%26evil%3D2&n=5&q=a%26b%3D%C3%BC+c");
    assert_eq!(sent(&endpoint, None).1, "n=5&q=a%26b%3D%C3%BC+c");
}

#[test]
fn raw_bodies_are_as_written_and_headers_win() {
    let raw = endpoint("body: { raw: \"<q after='${ page.token }'/>\" }");
    assert_eq!(sent(&raw, Some("t")), (None, "<q after='t'/>".to_owned()));
    assert_eq!(sent(&raw.replace("{ raw: ", "").replace("/>\" }", "/>\""), Some("t")).1, "<q after='t'/>");
    let own = endpoint("body: { json: { after: \"${ page.token }\" } }")
        .replace("method: post", "method: post, headers: { content-type: application/vnd.api+json }");
    assert_eq!(sent(&own, None), (Some("application/vnd.api+json".to_owned()), "{}".to_owned()));
}

#[test]
fn a_body_has_a_bound() {
    let many: Vec<String> = (0..40).map(|at| format!("k{at}: \"${{ page.token }}\"")).collect();
    let endpoint = endpoint(&format!("body: {{ json: {{ {} }} }}", many.join(", ")));
    let long = Position::Token(Some("x".repeat(60_000)));
    let refusal = pager(&endpoint).request(&ask(&long)).unwrap_err();
    assert!(refusal.fault.message.contains("at most 1048576 are sent"), "{}", refusal.fault);
}

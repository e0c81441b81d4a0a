//! Named values of requests: conditions, rules and credentials.

use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::HttpRequest;
use patra_core::{Code, Fault, Level};
use patra_spec::expr::credential_placeholder;
use serde_json::json;

use super::{ask, page, pager, read};

const RESPONSE: &str = "response: { items_path: $, id_path: $.id, updated_at_path: $.at }\n";

fn asked(endpoint: &str, position: &Position, params: &[(&str, &str)]) -> Result<HttpRequest, Fault> {
    let params: Params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut ask = ask(position);
    ask.params = &params;
    let pager = pager(&format!("{RESPONSE}{endpoint}"));
    pager.request(&ask).map(|exchange| exchange.request).map_err(|refusal| refusal.fault)
}

fn url(endpoint: &str, params: &[(&str, &str)]) -> String {
    asked(endpoint, &Position::Time, params).unwrap().url
}

#[track_caller]
fn refused(endpoint: &str, params: &[(&str, &str)], message: &str) {
    let fault = asked(endpoint, &Position::Time, params).unwrap_err();
    assert_eq!((fault.code, fault.level, fault.message.as_str()), (Code::InvalidInput, Level::L2, message));
}

// covers: ING-4.8-05, ING-4.8-06, ING-3.2-10
#[test]
fn a_request_leaves_only_with_values_that_pass() {
    let endpoint = "params: { q: {}, n: {} }
query:
  plain: \"${ params.n }\"
  some: { expr: \"${ params.n }\", default: 10 }
  term: { expr: \"${ params.q }\", required: true, pattern: \"[a-z]{1,5}\" }";
    assert_eq!(url(endpoint, &[("q", "cats")]), "https://api.example.org/v1/list?some=10&term=cats");
    let all = url(endpoint, &[("q", "cats"), ("n", "a&b=c d")]);
    assert_eq!(all, "https://api.example.org/v1/list?plain=a%26b%3Dc+d&some=a%26b%3Dc+d&term=cats");
    refused(endpoint, &[], "query parameter term is required and has no value");
    refused(endpoint, &[("q", "")], "query parameter term is required and has no value");
    for evil in ["cats&x=1", "catscats", "Cats", "cats\n", "x\u{0}"] {
        refused(endpoint, &[("q", evil)], "query parameter term does not match its pattern");
    }
}

#[test]
fn null_in_path_is_an_error_that_names_the_param() {
    let endpoint = "params: { user: {}, tail: {} }
http: { base_url: \"https://api.example.org\", path: \"/users/${ params.user }/posts${ params.tail }\" }
expr: { null_policy: empty }";
    let of = |params: &[(&str, &str)]| asked(endpoint, &Position::Time, params);
    assert_eq!(of(&[("user", "7"), ("tail", "")]).unwrap().url, "https://api.example.org/users/7/posts");
    let refused = |params: &[(&str, &str)]| {
        let fault = of(params).unwrap_err();
        assert_eq!((fault.code, fault.level), (Code::ConfigError, Level::L2));
        fault.message
    };
    assert_eq!(refused(&[("tail", "")]), "the path cannot be rendered: `${ params.user }` is null");
    assert_eq!(refused(&[("user", "7")]), "the path cannot be rendered: `${ params.tail }` is null");
    assert_eq!(
        refused(&[("user", ""), ("tail", "")]),
        "the path cannot be rendered: a part of `/users/${ params.user }/posts${ params.tail }` between two slashes is \
         empty"
    );
}

#[test]
fn query_of_nulls_leaves_no_question_mark() {
    let endpoint = "params: { q: {}, n: {} }\nquery: { q: \"${ params.q }\", n: \"${ params.n }\" }";
    assert_eq!(url(endpoint, &[]), "https://api.example.org/v1/list");
    assert_eq!(url(endpoint, &[("n", "1")]), "https://api.example.org/v1/list?n=1");
}

// covers: ING-4.8-06
#[test]
fn headers_and_forms_are_held_to_the_same() {
    let header = "params: { h: {} }
http: { base_url: \"https://api.example.org\", headers: { X-H: { expr: \"${ params.h }\", pattern: \"(?s).*x\" } } }";
    let sent = asked(header, &Position::Time, &[("h", "ab x")]).unwrap().headers;
    assert_eq!(sent, [("X-H".to_owned(), "ab x".to_owned())]);
    assert_eq!(asked(header, &Position::Time, &[]).unwrap().headers, []);
    refused(header, &[("h", "y")], "header X-H does not match its pattern");
    for evil in ["a\r\nHost: evil x", "a\u{0}x", "a\u{7f}x"] {
        refused(header, &[("h", evil)], "header X-H would hold a control character");
    }
    let form = "params: { f: {} }
http: { base_url: \"https://api.example.org\", method: post }
body: { form: { f: { expr: \"${ params.f }\", required: true, pattern: '[0-9]+' }, g: 1 } }";
    let body = asked(form, &Position::Time, &[("f", "7")]).unwrap().body.unwrap();
    assert_eq!(body, "f=7&g=1");
    refused(form, &[("f", "7&g=2")], "form field f does not match its pattern");
    refused(form, &[], "form field f is required and has no value");
}

// covers: ING-3.2-12, ING-4.8-02
#[test]
fn the_rules_of_the_source_hold_at_run_time() {
    let lines = |expr: &str| {
        format!(
            "params: {{ n: {{}} }}\nexpr: {expr}\nwindow: {{ supports_updated_since: true, watermark_key: u, initial: 2024-01-01 }}\nquery: {{ from: \"${{ window.from }}\", n: \"${{ params.n }}\", d: {{ expr: \"${{ params.n }}\", default: x }} }}"
        )
    };
    let base = "https://api.example.org/v1/list";
    assert_eq!(url(&lines("{ time_format: epoch }"), &[]), format!("{base}?d=x&from=-2208988800"));
    assert_eq!(url(&lines("{ time_format: '%Y', null_policy: empty }"), &[]), format!("{base}?d=x&from=1900&n="));
    let fault = asked(&lines("{ null_policy: error }"), &Position::Time, &[]).unwrap_err();
    assert_eq!(fault.message, "query parameter n cannot be rendered: `${ params.n }` is null");
    let number = "expr: { time_format: epoch_ms }
http: { base_url: \"https://api.example.org\", method: post }
window: { supports_updated_since: true, watermark_key: u, initial: 2024-01-01 }
body: { json: { from: \"${ window.from }\" } }";
    assert_eq!(asked(number, &Position::Time, &[]).unwrap().body.unwrap(), "{\"from\":-2208988800000}");
}

// covers: ING-4.8-04
#[test]
fn the_source_gives_way_to_the_endpoint_and_both_to_the_run() {
    let yaml = r#"
provenance: far
defaults:
  http: { base_url: "https://api.example.org", headers: { X-A: source, X-B: source } }
  params: { p: { default: source }, q: { default: source }, r: { default: source } }
  query: { p: "${ params.p }", q: "${ params.q }", r: "${ params.r }", size: 1, page: "${ page.size }" }
  response: { items_path: $, id_path: $.id, updated_at_path: $.at }
endpoints:
  list:
    http: { headers: { x-b: endpoint } }
    params: { q: { default: endpoint }, r: { default: endpoint } }
    query: { size: 2 }
    window: { watermark_key: at, initial: 2024-01-01 }
"#;
    let manifest = patra_spec::read("far.yaml", yaml).unwrap();
    let spec = patra_spec::compile(&manifest, "list", patra_spec::Operation::Harvest).unwrap().snapshot;
    let params = spec.resolve_params(&Params::from([("r".into(), "run".into())])).unwrap();
    let position = Position::Time;
    let mut ask = ask(&position);
    ask.params = &params;
    let request = patra_connectors::Pager::new(&spec).unwrap().request(&ask).unwrap().request;
    assert_eq!(request.url, "https://api.example.org/?p=source&page=2&q=endpoint&r=run&size=2");
    let headers: Vec<_> = request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(headers, ["X-A: source", "x-b: endpoint"]);
}

// covers: ING-3.9-03, ING-4.2-10
#[test]
fn a_credential_is_a_mark_until_it_is_sent() {
    let endpoint = "auth: { type: bearer }
params: { p: {} }
http: { base_url: \"https://api.example.org\", method: post, headers: { X-Key: \"k ${ credential.apiKey }\" } }
query: { key: \"${ credential.apiKey }!\", p: \"${ params.p }\" }
body: { json: { secret: \"${ credential.secret }\" } }";
    let pager = pager(&format!("{RESPONSE}{endpoint}"));
    let exchange = pager.request(&ask(&Position::Time)).unwrap();
    let request = &exchange.request;
    let marked = |name: &str| request.headers.iter().any(|(header, value)| header == name && value.contains('\u{1}'));
    assert!(marked("X-Key"));
    assert_eq!(request.headers[0].1, format!("k {}", credential_placeholder("apiKey")));
    assert!(request.url.contains("key=%01credential.apiKey%01%21"), "{}", request.url);
    assert_eq!(request.body.as_deref(), Some(&br#"{"secret":"\u0001credential.secret\u0001"}"#[..]));
    // The debug form shows the credential in its template form.
    let digest = format!("{exchange:?}");
    assert!(digest.contains("${credential.apiKey}!"), "{digest}");
    // A param value that imitates a placeholder is refused.
    let forged = credential_placeholder("apiKey");
    let fault = asked(endpoint, &Position::Time, &[("p", &forged)]).unwrap_err();
    assert!(fault.message.contains("U+0001"), "{fault}");
}

#[test]
fn a_url_from_outside_cannot_ask_for_a_credential() {
    let endpoint = "auth: { type: bearer }\npagination: { type: url, next_url_path: $.next }";
    for next in ["/v1/list?x=%01credential.apiKey%01", "/v1/list?x=\u{1}credential.apiKey\u{1}", "/%01credential.k%01"]
    {
        let fault = asked(endpoint, &Position::Url(Some(next.into())), &[]).unwrap_err();
        assert_eq!((fault.code, fault.message.as_str()), (Code::Forbidden, "the next URL holds a control character"));
    }
}

#[test]
fn values_stay_within_their_segment_of_the_path() {
    let endpoint =
        "params: { p: {} }\nhttp: { base_url: \"https://api.example.org/v1\", path: \"/a/${ params.p }/b\" }";
    assert_eq!(url(endpoint, &[("p", "10.1/x?y#z")]), "https://api.example.org/v1/a/10.1%2Fx%3Fy%23z/b");
    for evil in ["..", ".", "%2e%2e"] {
        let url = asked(endpoint, &Position::Time, &[("p", evil)]).map(|request| request.url);
        match url {
            Err(fault) => assert_eq!(fault.message, "the path would lead out of its place"),
            Ok(url) => assert_eq!(url, "https://api.example.org/v1/a/%252e%252e/b"),
        }
    }
}

// covers: ING-3.2-03
#[test]
fn proxy_and_compression_go_with_the_request() {
    let request = asked("", &Position::Time, &[]).unwrap();
    assert_eq!((request.proxy, request.compression), (None, true));
    let endpoint =
        "http: { base_url: \"https://api.example.org\", proxy: \"http://proxy.example.org:3128\", compression: false }";
    let request = asked(endpoint, &Position::Time, &[]).unwrap();
    assert_eq!((request.proxy.as_deref(), request.compression), (Some("http://proxy.example.org:3128"), false));
}

// covers: ING-4.7-03
#[test]
fn an_object_in_the_place_of_the_list_is_refused_with_a_way_out() {
    let endpoint = "response: { items_path: $.data, id_path: $.id, updated_at_path: $.at }";
    let refusal = read(endpoint, r#"{"data":{"items":[]}}"#).unwrap_err();
    assert_eq!(
        (refusal.fault.code, refusal.fault.level),
        (Code::ParseError, Level::L4),
        "two in a row halt the partition"
    );
    assert_eq!(
        refusal.fault.message,
        "items_path $.data finds an object and no list (it must name the list within) in the response"
    );
    let sub = endpoint.replace("$.data", "$.data.items");
    assert_eq!(page(&sub, r#"{"data":{"items":[{"id":1,"at":"2024-01-01"}]}}"#).records.len(), 1);
}

// covers: ING-4.4-16
#[test]
fn records_without_times_are_of_the_window_that_they_were_found_in() {
    let endpoint =
        "window: { supports_updated_since: true, watermark_key: entered, initial: 2024-01-01, monotonic: true }
query: { from: \"${ window.from }\" }
response: { items_path: $, id_path: $.id }";
    let page = page(endpoint, &json!([{ "id": 1 }, { "id": 2 }]).to_string());
    assert_eq!(page.rejected.len(), 0);
    let times: Vec<_> = page.records.iter().map(|record| record.version.updated_at).collect();
    assert_eq!(times, [super::window().from; 2]);
}

//! Errors in responses of status 200.

use std::time::Duration;

use patra_core::paging::Position;
use patra_core::{Code, Level};

use super::{answer, fixture, pager, read, read_at};

const PUBMED: &str = r#"response:
  items_path: $.esearchresult.idlist
  id_path: $
  updated_at_path: $
  total_path: $.esearchresult.count
  lenient: true
  errors:
    - { path: $.error, matches: "(?i)rate limit", throttle: true }
    - { path: $.esearchresult.ERROR, matches: "Empty term", level: L4, code: CONFIG_ERROR }
    - { path: $.esearchresult.ERROR }"#;

// covers: ING-15-03, ING-4.13-01, ING-4.13-02
#[test]
fn recorded_errors_have_the_level_that_the_manifest_gives_them() {
    let check = |name: &str, code: Code, level: Level, throttled: bool, message: &str| {
        let refusal = read(PUBMED, &fixture(name)).unwrap_err();
        assert_eq!((refusal.fault.code, refusal.fault.level, refusal.throttled), (code, level, throttled), "{name}");
        assert_eq!(refusal.fault.message, message);
        assert_eq!(refusal.evidence.status, 200);
    };
    check(
        "pubmed/error_rate_limited.json",
        Code::RateLimited,
        Level::L1,
        true,
        "the upstream returned an error at $.error: API rate limit exceeded",
    );
    check(
        "pubmed/error_200_empty_term.json",
        Code::ConfigError,
        Level::L4,
        false,
        "the upstream returned an error at $.esearchresult.ERROR: Empty term and query_key - nothing todo",
    );
    let empty = read(PUBMED, &fixture("pubmed/esearch_phrase_not_found.json")).unwrap();
    assert_eq!((empty.facts.items, empty.facts.total), (0, Some(0)), "nothing found is no error");
}

#[test]
fn a_pause_that_the_upstream_names_is_kept() {
    let response = answer(&[("retry-after", "7")], &fixture("pubmed/error_rate_limited.json"));
    let refusal = read_at(&pager(PUBMED), &Position::Time, response).unwrap_err();
    assert_eq!((refusal.throttled, refusal.retry_after), (true, Some(Duration::from_secs(7))));
    let response = answer(&[("retry-after", "7")], &fixture("pubmed/error_200_empty_term.json"));
    assert_eq!(read_at(&pager(PUBMED), &Position::Time, response).unwrap_err().retry_after, None);
}

#[test]
fn every_test_of_a_condition() {
    let check = |rule: &str, body: &str, expected: &str| {
        let endpoint = format!("response: {{ items_path: $.list, id_path: $, updated_at_path: $, errors: [{rule}] }}");
        let shown = read(&endpoint, body).map_or_else(|refusal| refusal.fault.message, |_| "page".to_owned());
        let shown = shown.replace("the upstream returned an error at ", "");
        assert_eq!(shown, expected, "{rule} {body}");
    };
    check("{ path: $.code, not_equals: 0 }", r#"{"list":[],"code":0}"#, "page");
    check("{ path: $.code, not_equals: 0 }", r#"{"list":[],"code":"0"}"#, "page");
    check("{ path: $.code, not_equals: 0 }", r#"{"list":[]}"#, "page");
    check(
        "{ path: $.code, not_equals: 0, message_path: $.msg }",
        r#"{"code":300011,"msg":"blocked"}"#,
        "$.code: blocked",
    );
    check("{ path: $.ok, equals: false }", r#"{"list":[],"ok":true}"#, "page");
    check("{ path: $.ok, equals: false }", r#"{"list":[],"ok":false}"#, "$.ok: false");
    check("{ path: $.code, in: [1, b] }", r#"{"list":[],"code":"b"}"#, "$.code: b");
    check("{ path: $.code, in: [1, b] }", r#"{"list":[],"code":2}"#, "page");
    check("{ path: $.error }", r#"{"list":[],"error":null}"#, "page");
    check("{ path: $.error, exists: true }", r#"{"list":[],"error":{"a":1}}"#, "$.error");
    check("{ path: $.data, exists: false, message_path: $.why }", r#"{"list":[],"why":"gone"}"#, "$.data: gone");
    check("{ path: $.data, exists: false }", r#"{"list":[],"data":{}}"#, "page");
}

#[test]
fn an_error_in_xml_is_found_by_the_same_paths() {
    let endpoint = "response: { format: xml, items_path: $.eSearchResult.IdList.Id, id_path: $, updated_at_path: $, errors: [{ path: $.eSearchResult.ERROR }] }";
    let fault = read(endpoint, "<eSearchResult><ERROR>Empty term</ERROR></eSearchResult>").unwrap_err().fault;
    assert_eq!(fault.message, "the upstream returned an error at $.eSearchResult.ERROR: Empty term");
}

// covers: ING-4.11-02, ING-3.4-05
#[test]
fn a_code_that_the_manifest_calls_passing_is_tried_again() {
    let endpoint = "retry: { retryable_codes: [BUSY] }\nresponse: { items_path: $.items, id_path: $.id, updated_at_path: $.at, errors: [{ path: $.error.code, level: L2 }] }";
    let refusal = |code: &str| read(endpoint, &format!(r#"{{"error": {{"code": "{code}"}}}}"#)).unwrap_err();
    assert_eq!(refusal("BUSY").fault.level, Level::L1);
    assert_eq!(refusal("BROKEN").fault.level, Level::L2);
}

// covers: ING-12.2-05, ING-DOD-15
#[test]
fn a_request_that_is_called_wrong_says_what_was_answered_and_which_parameter_it_is_about() {
    let endpoint = "query: { offset: \"${ page.offset }\", rows: \"${ page.size }\" }\npagination: { type: offset, page_size: 2 }\nresponse: { items_path: $.items, id_path: $.id, updated_at_path: $.at }";
    let refused = |status, body: &str| {
        let response = patra_core::port::transport::HttpResponse { status, ..answer(&[], body) };
        read_at(&pager(endpoint), &Position::Offset(20), response).unwrap_err()
    };
    let refusal = refused(422, r#"{"error":"offset beyond 10","mail":"ann@example.org"}"#);
    assert_eq!((refusal.fault.code, refusal.fault.level), (Code::PlatformError, Level::L2));
    let (reason, about) = refusal.fault.message.split_once("; ").unwrap();
    assert!(
        reason.starts_with(r#"the upstream returned 422: {"error":"offset beyond 10","mail":"<email:"#),
        "{reason}"
    );
    assert_eq!(about, "it names the parameter `offset`, which was `20`");
    assert_eq!(refused(404, "").fault.message, "the upstream returned 404");
    assert_eq!(refused(500, "offset").fault.message, "the upstream returned 500", "that is not about the request");
}

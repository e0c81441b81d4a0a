use bytes::Bytes;
use patra_core::Ts;

use super::*;

fn spec() -> Snapshot {
    let body = r#"{
        "provenanceCode": "p", "endpointCode": "e", "operation": "HARVEST",
        "http": {"baseUrl": "http://x", "pathTemplate": "/"},
        "pagination": {"type": "TOKEN", "nextTokenPath": "$.message['next-cursor']"},
        "window": {"supportsUpdatedSince": true},
        "response": {"itemsPath": "$.message.items", "idPath": "$.id", "updatedAtPath": "$.updated_at", "totalPath": "$.message.total", "versionPath": "$.rev"},
        "mapping": {"outputFields": [{"name": "title", "expr": "$.title[0]"}, {"name": "a\"b", "expr": "$.deep.er"}]}
    }"#;
    Snapshot::from_body(body).unwrap()
}

fn window() -> Window {
    Window { from: Ts::from_secs(0), to: Ts::from_secs(100) }
}

fn decode(spec: &Snapshot, body: &str) -> Result<Decoded, Fault> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let response = HttpResponse { status: 200, headers: Vec::new(), body, redirected: None };
    let asked = PageContext { url: "http://x/", window: window(), until: None, shared_ids: &SharedIds::new() };
    Decoder::new(spec).unwrap().decode(&response, &asked).map_err(|refused| refused.fault)
}

fn items(items: &str) -> Decoded {
    decode(&spec(), &format!(r#"{{"message":{{"items":[{items}]}}}}"#)).unwrap()
}

// covers: ING-4.7-01, ING-4.7-02, ING-5.4-07, ING-2.3-02, ING-2.4-05
#[test]
fn a_page_is_read_in_place() {
    let body = r#"{"status":"ok","x":[1,{"items":3}],"message":{"total":"42","next-cursor":"a+b/c=","items":[
        {"id":"10.1/é","updated_at":"1970-01-01T00:00:05.000000999Z","rev":3,"title":["T",2],"deep":{"er":{"k":[1]}}} , {"id":7,"updated_at":9,"title":null}]}}"#;
    let mut page = decode(&spec(), body).unwrap();
    assert_eq!(std::mem::take(&mut page.facts.ids), ["10.1/é", "7"].map(|id| id_hash(id.as_bytes())));
    assert_eq!(
        page.facts,
        PageFacts { items: 2, next_token: Some("a+b/c=".into()), total: Some(42), ..PageFacts::default() }
    );
    let [first, second] = &page.records[..] else { panic!("{page:?}") };
    assert_eq!(
        (first.key.as_str(), first.version.updated_at, first.version.source_version),
        ("10.1/é", Ts::from_secs(5), 3)
    );
    assert_eq!(first.fields, r#"{"title":"T","a\"b":{"k":[1]}}"#);
    assert!(first.payload.starts_with(r#"{"id":"10.1/"#) && first.payload.ends_with('}'));
    assert_eq!((second.key.as_str(), second.version.updated_at, second.fields.as_str()), ("7", Ts::from_secs(9), ""));
}

// covers: ING-4.7-05, ING-11.8-01, ING-11.8-02, ING-12.1-03
#[test]
fn an_unusable_item_is_set_aside_and_the_rest_go_on() {
    let page = items(
        r#"{"updated_at":1},{"id":"","updated_at":1},{"id":"a","updated_at":"soon"},{"id":"b"},{"id":"c\u0000","updated_at":1},{"id":"ok","updated_at":1},7"#,
    );
    assert_eq!(page.facts.items, 7);
    assert_eq!(page.records.len(), 1);
    let reasons: Vec<_> = page.rejected.iter().map(|r| (r.index, r.key.as_deref(), r.reason.as_str())).collect();
    assert_eq!(reasons[0], (0, None, "id_path $.id finds no text or number"));
    assert_eq!(reasons[2], (2, Some("a"), "updated_at_path $.updated_at finds no time"));
    assert_eq!(page.rejected.len(), 6);
    assert_eq!(page.rejected[2].sample, r#"{"id":"a","updated_at":"soon"}"#);
}

#[test]
fn a_cut_body_may_be_tried_again_and_a_changed_shape_may_not() {
    let cut = decode(&spec(), r#"{"message":{"items":[{"id":"#).unwrap_err();
    assert_eq!((cut.code, cut.level), (Code::ParseError, Level::L1));
    let moved = decode(&spec(), r#"{"data":[]}"#).unwrap_err();
    assert_eq!(
        (moved.level, moved.message.as_str()),
        (Level::L4, "items_path $.message.items finds nothing in the response")
    );
    assert_eq!(decode(&spec(), r#"{"message":{"items":7}}"#).unwrap_err().level, Level::L4);
    assert_eq!(decode(&spec(), r#"{"message":{"items":null}}"#).unwrap().facts.items, 0);
    assert!(decode(&spec(), "{} trailing").is_err());
    assert!(decode(&spec(), &"[".repeat(100_000)).is_err(), "depth is bounded");
}

// covers: ING-4.4-14, ING-4.4-21, ING-6.1-07, ING-6.2-02, ING-10.4-01
#[test]
fn records_outside_the_window_are_left_to_their_own_window() {
    let mut spec = spec();
    spec.window.supports_updated_since = false;
    let body = r#"{"message":{"items":[{"id":"in","updated_at":0},{"id":"end","updated_at":100},{"id":"before","updated_at":-1}]}}"#;
    let page = decode(&spec, body).unwrap();
    assert_eq!(page.records.iter().map(|r| r.key.as_str()).collect::<Vec<_>>(), ["in"]);
    assert_eq!(page.facts.items, 3);
}

#[test]
fn equal_pages_have_equal_content_and_others_do_not() {
    let page = |id: &str| items(&format!(r#"{{"id":"{id}","updated_at":1}}"#)).content;
    assert_eq!(page("a"), page("a"));
    assert_ne!(page("a"), page("b"));
}

#[test]
fn a_next_token_that_is_no_text_is_an_error_and_not_the_end() {
    let next = |token: &str| decode(&spec(), &format!(r#"{{"message":{{"items":[],"next-cursor":{token}}}}}"#));
    for none in ["null", "false", r#""""#] {
        assert_eq!(next(none).unwrap().facts.next_token, None, "{none}");
    }
    assert_eq!(next("7").unwrap().facts.next_token.as_deref(), Some("7"));
    for wrong in ["[100]", r#"{"href":"/2"}"#, "true", r#""a\u0000b""#] {
        let fault = next(wrong).unwrap_err();
        assert_eq!(fault.level, Level::L4, "{wrong}");
        assert!(fault.message.starts_with("next_token_path finds"), "{}", fault.message);
    }
}

#[test]
fn digits_that_look_like_a_date_are_not_taken_for_seconds() {
    let page = items(
        r#"{"id":"y","updated_at":"2024"},{"id":"d","updated_at":"20240101"},{"id":"e","updated_at":"1700000000"}"#,
    );
    assert_eq!(page.records.len(), 1);
    assert_eq!(page.rejected.len(), 2);
}

//! Decoding of items: filters, ids, times, fields, and payloads.

use serde_json::json;

use super::{fields, fixture, keys, page, payload};

const LISTING: &str = r#"response: { items_path: $.data.children, id_path: [$.kind, $.data.id], id_separator: "_", updated_at_path: $.data.created_utc, updated_at_format: epoch }
record:
  filter:
    - { path: $.data.stickied, not_equals: true }
    - { path: $.data.is_video, equals: false }
    - { path: $.data.subreddit, in: [MMA, Overwatch, anime] }
    - { path: $.data.selftext, exists: true }
  add: { source: reddit, weight: 2 }
  remove: [$.data.score, $.data.preview, $.data.nowhere.at.all]
fields:
  score: { path: $.data.score, type: string }
  ratio: { path: $.data.upvote_ratio, type: number }
  edited: { path: $.data.edited, type: boolean }
  at: { path: $.data.created_utc, type: timestamp }
  title: $.data.title"#;

#[test]
fn a_recorded_listing_is_filtered_and_mapped() {
    let page = page(LISTING, &fixture("reddit/oauth_listing_r_popular_hot_2026-04_trimmed.json"));
    assert_eq!(page.facts.items, 5, "items count as they came; those left out are skipped");
    assert_eq!((page.skipped.filtered, page.skipped.out_of_window), (2, 0));
    assert_eq!(keys(&page), ["t3_1skjxta", "t3_1skh6dk", "t3_1sk894v"]);
    assert!(page.rejected.is_empty());
    let first = fields(&page, 0);
    assert_eq!((&first["score"], &first["source"], &first["weight"]), (&json!("546"), &json!("reddit"), &json!(2)));
    assert_eq!((&first["at"], &first["edited"]), (&json!("2026-04-13T18:44:08Z"), &json!(false)));
    let stored = payload(&page, 0);
    assert!(stored["data"].get("score").is_none() && stored["data"].get("preview").is_none());
    assert_eq!(stored["data"]["subreddit"], "MMA");
}

const WORKS: &str = "response: { items_path: $.message.items, id_path: $.DOI, updated_at_path: \"$.issued['date-parts']\", updated_at_format: date_parts }";

// covers: ING-4.7-04, ING-4.4-04
#[test]
fn recorded_date_parts_are_times() {
    let page = page(WORKS, &fixture("crossref/works_query_rows2_polite.json"));
    let times: Vec<_> = page.records.iter().map(|record| record.version.updated_at.to_short_text()).collect();
    assert_eq!(times, ["2022-07-26T00:00:00Z", "2012-05-23T00:00:00Z"]);
}

#[test]
fn times_in_parts_and_patterns() {
    let check = |format: &str, value: &str, expected: &str| {
        let endpoint = format!(
            "response: {{ items_path: $, id_path: $.id, updated_at_path: $.at, updated_at_format: \"{format}\" }}"
        );
        let page = page(&endpoint, &format!(r#"[{{"id":1,"at":{value}}}]"#));
        let shown = page.records.first().map(|record| record.version.updated_at.to_short_text());
        let shown = shown.unwrap_or_else(|| page.rejected[0].reason.clone());
        assert_eq!(shown, expected, "{value}");
    };
    let none = "updated_at_path $.at finds no time";
    check("date_parts", "[[2024,5,1]]", "2024-05-01T00:00:00Z");
    check("date_parts", "[[2024]]", "2024-01-01T00:00:00Z");
    check("date_parts", "[2024,5]", "2024-05-01T00:00:00Z");
    check("date_parts", "[[null]]", none);
    check("date_parts", "[]", none);
    check("date_parts", r#"{"Year":"2012","Month":"Feb","Day":"25"}"#, "2012-02-25T00:00:00Z");
    check("date_parts", r#"{"Year":"2008","Month":"11","Day":"15","Hour":"9","Minute":"0"}"#, "2008-11-15T09:00:00Z");
    check("date_parts", r#"{"MedlineDate":"1998 Dec-1999 Jan"}"#, none);
    check("date_parts", "7", none);
    check("%Y/%m/%d %H:%M", r#""2016/12/10 06:00""#, "2016-12-10T06:00:00Z");
    check("epoch_ms", "1715293332691", "2024-05-09T22:22:12.691000Z");
    check("rfc3339", "1715293332", none);
}

#[test]
fn parts_of_an_id_never_run_together() {
    let endpoint = "response: { items_path: $, id_path: [$.a, $.b], updated_at_path: $.t }";
    let body = r#"[{"a":"x:y","b":"z","t":1},{"a":"x","b":"y:z","t":1},{"a":"x\\","b":1,"t":1},{"a":"x","t":1},{"a":"","b":"y","t":1}]"#;
    let page = page(endpoint, body);
    assert_eq!(keys(&page), ["x\\:y:z", "x:y\\:z", "x\\\\:1"]);
    let reasons: Vec<_> = page.rejected.iter().map(|rejected| rejected.reason.as_str()).collect();
    assert_eq!(reasons, ["id_path $.b finds no text or number", "id_path $.a finds an empty text"]);
}

// covers: ING-4.8-05, ING-4.13-03
#[test]
fn casts_leave_out_or_set_aside_what_does_not_fit() {
    let check = |field: &str, value: &str, expected: &str| {
        let endpoint = format!(
            "response: {{ items_path: $, id_path: $.id, updated_at_path: $.id }}\nfields: {{ f: {{ path: $.v, {field} }} }}"
        );
        let page = page(&endpoint, &format!(r#"[{{"id":1,"v":{value}}}]"#));
        let shown =
            page.records.first().map_or_else(|| page.rejected[0].reason.clone(), |record| record.fields.clone());
        assert_eq!(shown, expected, "{field} {value}");
    };
    check("type: integer", r#"" 603 ""#, r#"{"f":603}"#);
    check("type: integer", "3.0", r#"{"f":3}"#);
    check("type: integer", "3.5", "");
    check("type: integer", "1e300", "");
    check("type: integer, on_error: reject", "3.5", "\"f\" at $.v is no integer");
    check("type: integer, required: true", r#""x""#, "\"f\" at $.v is no integer");
    check("type: integer, required: true", "null", "\"f\" at $.v is missing");
    check("type: integer, on_error: reject", "null", "");
    check("required: true", "[1]", r#"{"f":[1]}"#);
    check("type: number", r#""1.50""#, r#"{"f":1.50}"#);
    check("type: number", r#""+.5""#, r#"{"f":0.5}"#);
    check("type: number", r#""NaN""#, "");
    check("type: string", "12345678901234567890.10", r#"{"f":"12345678901234567890.10"}"#);
    check("type: string", "true", r#"{"f":"true"}"#);
    check("type: string", r#""a\"b""#, r#"{"f":"a\"b"}"#);
    check("type: string", "{}", "");
    check("type: boolean", r#""YES""#, r#"{"f":true}"#);
    check("type: boolean", "0", r#"{"f":false}"#);
    check("type: boolean", "2", "");
    check("type: timestamp", r#""2024-05-01T10:00:00+02:00""#, r#"{"f":"2024-05-01T08:00:00Z"}"#);
    check("type: timestamp, format: date_parts", "[[2024,5]]", r#"{"f":"2024-05-01T00:00:00Z"}"#);
    check("type: json", r#"{"a": [1, null]}"#, r#"{"f":{"a": [1, null]}}"#);
}

#[test]
fn removed_members_are_not_hashed_and_the_rest_stays_as_written() {
    let endpoint = "response: { items_path: $, id_path: $.id, updated_at_path: $.seen }\nrecord: { remove: [$.seen, \"$['a.b'].x\", \"$.l[1].x\"] }";
    let one =
        page(endpoint, r#"[{"z":1.10,"id":"1","seen":5,"a.b":{"x":1,"y\n":"\u00e9"},"l":[{"x":0},{"x":1},2],"k":{}}]"#);
    let text = &one.records[0].payload;
    assert_eq!(text, r#"{"z":1.10,"id":"1","a.b":{"y\n":"\u00e9"},"l":[{"x":0},{},2],"k":{}}"#);
    let other =
        page(endpoint, r#"[{"z":1.10,"id":"1","seen":6,"a.b":{"x":2,"y\n":"\u00e9"},"l":[{"x":0},{},2],"k":{}}]"#);
    assert_eq!(one.records[0].content_hash, other.records[0].content_hash);
    assert_ne!(one.records[0].version, other.records[0].version);
    let scalar =
        page("response: { items_path: $, id_path: $, updated_at_path: $ }\nrecord: { remove: [$.x] }", "[7,{\"x\":1}]");
    assert_eq!((keys(&scalar), scalar.rejected.len()), (vec!["7"], 1));
}

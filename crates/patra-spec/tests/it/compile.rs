//! Snapshots: their structure, their hashes, and manifests that do not compile.

use patra_core::hash::canonical;
use patra_core::window::Align;
use proptest::prelude::*;
use serde_json::json;

use patra_spec::{Manifest, Operation, Snapshot, compile};

use crate::{DEMO, EVERYTHING, WORKS, manifest};

const BASE: &str = r#"
provenance: Test
defaults:
  http: { headers: { Accept: application/json, X-A: shared }, read_timeout: PT20S }
  retry: { max_attempts: 7 }
endpoints:
  list:
    http: { base_url: "https://x.org", path: /list, headers: { accept: text/json }, timeout: PT1M }
    query: { q: "type:a,since:${ window.from | date }", rows: 50, page: "${ page.no }" }
    pagination: { type: page, base: 1, page_size: 50, max_page: 20, has_more_path: $.more }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }
    response: { items_path: $.items, id_path: $.id, updated_at_path: $.at }
    retry: { min_delay: PT1S }
    rate_limit: { burst: 3 }
"#;

fn snapshot(yaml: &str) -> Snapshot {
    let manifest = manifest(yaml);
    let name = manifest.endpoints.keys().next().unwrap();
    compile(&manifest, name, Operation::Harvest).unwrap_or_else(|problems| panic!("{problems}")).snapshot
}

/// Compiles `BASE` with `from` replaced by `to`; returns the problems, or the warnings.
fn check(operation: Operation, from: &str, to: &str, expected: &str) {
    assert!(BASE.contains(from), "{from}");
    let shown = match compile(&manifest(&BASE.replace(from, to)), "list", operation) {
        Ok(compiled) => compiled.warnings.join("\n"),
        Err(problems) => problems.to_string(),
    };
    assert_eq!(shown, expected, "{operation} {from} -> {to}");
}

// covers: ING-3.3-12, ING-3.3-13, ING-3.3-14, ING-3.9-01, ING-3.9-02
#[test]
fn works_compile_to_the_contract_snapshot() {
    let mut body: serde_json::Value = serde_json::from_str(&snapshot(WORKS).body()).unwrap();
    let fingerprint = body.as_object_mut().unwrap().remove("specFingerprint").unwrap();
    assert!(fingerprint.as_str().unwrap().starts_with("v1:"));
    let expected = json!({
        "provenanceCode": "crossref", "endpointCode": "works", "operation": "HARVEST", "role": "SEARCH", "kind": "work",
        "http": {
            "method": "GET", "baseUrl": "https://api.crossref.org", "pathTemplate": "/works", "headersTemplate": {},
            "queryTemplate": {
                "filter": "from-update-date:${ window.from | date },until-update-date:${ window.to | date }",
                "rows": "${ page.size }", "cursor": "${ page.token }",
            },
            "connectTimeoutMs": 10000, "readTimeoutMs": 30000, "maxBodyBytes": 16777216,
        },
        "pagination": {
            "type": "TOKEN", "pageSize": 100, "initial": "*", "nextTokenPath": "$.message['next-cursor']",
            "alwaysToken": true, "onMaxPage": "split", "orderBy": "updated desc",
        },
        "expr": { "nullPolicy": "omit", "timeFormat": "iso", "timezone": "UTC" },
        "batching": { "idBatchSize": 200 },
        "window": {
            "supportsUpdatedSince": true, "watermarkKey": "updated_at", "safetyLag": "PT10M", "maxWindow": "P1D",
            "align": "hour", "initial": "2024-01-01T00:00:00.000000000Z", "timezone": "UTC",
            "boundaryPolicy": "[from,to)", "outOfRange": "keep",
        },
        "retry": {
            "policy": "exponential_jitter", "maxAttempts": 5, "minDelayMs": 100, "maxDelayMs": 30000,
            "multiplierPercent": 200, "jitterPercent": 20,
        },
        "rateLimit": { "qps": 10.0, "burst": 10 },
        "limits": crate::thresholds::limits(),
        "health": crate::thresholds::health(),
        "response": {
            "format": "json", "itemsPath": "$.message.items", "idPath": "$.DOI",
            "updatedAtPath": "$.deposited['date-time']", "totalPath": "$.message['total-results']",
        },
        "mapping": {
            "requestParams": [
                { "name": "cursor", "location": "QUERY", "expr": "${ page.token }" },
                {
                    "name": "filter", "location": "QUERY",
                    "expr": "from-update-date:${ window.from | date },until-update-date:${ window.to | date }",
                },
                { "name": "rows", "location": "QUERY", "expr": "${ page.size }" },
            ],
            "outputFields": [{ "name": "doi", "expr": "$.DOI" }, { "name": "title", "expr": "$.title[0]" }],
        },
    });
    assert_eq!(canonical(&body), canonical(&expected));
}

#[test]
fn demo_compiles_without_warnings() {
    let compiled = compile(&manifest(DEMO), " Records", Operation::Harvest).unwrap();
    assert_eq!(compiled.warnings, [""; 0]);
    let snapshot = compiled.snapshot;
    assert_eq!(snapshot.cut().align, Some(Align::Hour));
    assert_eq!(snapshot.cut().max_width.as_secs(), 86_400);
    assert_eq!(snapshot.safety_lag().as_secs(), 0);
    assert_eq!(snapshot.initial(), "2024-01-01".parse().ok());
    assert_eq!(snapshot.retry_policy(), patra_core::retry::RetryPolicy::default());
    assert_eq!(snapshot.paging().first(), patra_core::paging::Position::Token(None));
    assert_eq!(snapshot.paging().page_size, 200);
    assert_eq!(snapshot.rate().per_sec, 200.0);
    assert_eq!(snapshot.timeout(), None);
}

// covers: ING-3.3-03, ING-3.3-04, ING-4.1-02, ING-4.2-08, ING-4.4-17, ING-4.10-36
#[test]
fn endpoint_wins_over_provenance_over_platform() {
    let snapshot = snapshot(BASE);
    assert_eq!(snapshot.provenance_code, "test");
    let headers: Vec<_> = snapshot.http.headers_template.iter().map(|(k, v)| format!("{k}: {v}")).collect();
    assert_eq!(headers, ["X-A: shared", "accept: text/json"]);
    let http = &snapshot.http;
    assert_eq!((http.connect_timeout_ms, http.read_timeout_ms, http.timeout_ms), (10_000, 20_000, Some(60_000)));
    let retry = snapshot.retry_policy();
    assert_eq!((retry.max_attempts, retry.min_delay_ms, retry.max_delay_ms), (7, 1_000, 30_000));
    assert_eq!((snapshot.rate_limit.qps, snapshot.rate_limit.burst), (1.0, 3));
    assert_eq!(snapshot.window.safety_lag, "PT10M".parse().unwrap());
    assert_eq!(snapshot.response.has_more_path.as_deref(), Some("$.more"));
    assert_eq!(snapshot.paging().first(), patra_core::paging::Position::Page(1));
}

// covers: ING-4.7-01, ING-4.17-05, ING-4.4-16, ING-3.3-22
#[test]
fn operation_requirements_are_checked() {
    use Operation::{Backfill, Harvest, Update};
    let total = "no response.total_path: the number of records is not known in advance";
    let rate = "no rate_limit: at most one request per second is sent";
    check(Harvest, "Test", "Test", &format!("{total}\n{rate}"));
    let missing = |operation: &str| {
        format!(
            "t.yaml:12:5: endpoints.list.response.updated_at_path: {operation} needs `updated_at_path`: without an update time records cannot be ordered\n  hint: a source without update times can only be read by UPDATE"
        )
    };
    check(Harvest, ", updated_at_path: $.at", "", &missing("HARVEST"));
    check(Backfill, ", updated_at_path: $.at", "", &missing("BACKFILL"));
    // UPDATE needs no window and no update time, only a detail endpoint.
    let without = "t.yaml:7:3: endpoints.list.update.detail: UPDATE fetches stored records by id, but no detail endpoint is set\n  hint: add an endpoint with `role: detail` whose requests send `ids` or `id`, and name it: update: { detail: NAME }";
    check(Update, "Test", "Test", without);
    let content = "no response.updated_at_path: records are replaced when their content differs";
    let detail = "  one: { role: detail, path: \"/${ id }\", http: { base_url: \"https://x.org\" }, response: { items_path: $, id_path: $.id } }\n  list:\n    update: { detail: one }\n";
    check(Update, "  list:\n", detail, &format!("{content}\n{rate}"));
    let initial = "t.yaml:11:5: endpoints.list.window.initial: HARVEST needs `initial`: the start time of the first run\n  hint: for example initial: 2024-01-01";
    check(Harvest, ", initial: 2024-01-01", "", initial);
    check(Backfill, ", initial: 2024-01-01", "", &format!("{total}\n{rate}"));
    let key = "t.yaml:11:5: endpoints.list.window.watermark_key: HARVEST needs `watermark_key`\n  hint: for example watermark_key: updated_at";
    check(Harvest, ", watermark_key: updated_at", "", key);
}

// covers: ING-4.4-14
#[test]
fn upstream_without_time_filter_causes_a_warning() {
    let yaml = BASE
        .replace("supports_updated_since: true", "supports_updated_since: false")
        .replace("${ window.from | date }", "always");
    let compiled = compile(&manifest(&yaml), "list", Operation::Harvest).unwrap();
    assert!(compiled.warnings.iter().any(|warning| warning.contains("does not filter by time")));
    let yaml = BASE
        .replace(
            "window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }",
            "kind: note",
        )
        .replace("${ window.from | date }", "always");
    let problems = compile(&manifest(&yaml), "list", Operation::Harvest).unwrap_err();
    assert_eq!(problems.as_slice()[0].path, "endpoints.list.window");
}

#[test]
fn unknown_endpoint_gets_a_suggestion() {
    let problems = compile(&manifest(BASE), "lits", Operation::Harvest).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "t.yaml:6:1: endpoints: `test` has no endpoint `lits`\n  hint: did you mean `list`?"
    );
}

// covers: ING-3.3-20, ING-4.4-13
#[test]
fn snapshots_survive_storage_with_the_same_fingerprint() {
    for yaml in [BASE, DEMO, WORKS] {
        let before = snapshot(yaml);
        let after = Snapshot::from_body(&before.body()).unwrap();
        assert_eq!(after, before);
        assert_eq!(after.body(), before.body());
        assert_eq!(after.fingerprint(), before.spec_fingerprint);
    }
}

proptest! {
    // covers: ING-3.3-20
    #[test]
    fn any_snapshot_survives_storage(
        text in "\\PC{0,40}", name in ".{0,20}", micros in -60_000_000_000_000_000i64..250_000_000_000_000_000,
        lag in 0u64..10_000_000_000, number in any::<u32>(), millis in any::<u64>(), rate in 1u64..10_000_000_000,
        flag in any::<bool>(), operation in prop::sample::select(Operation::ALL),
    ) {
        let mut before = snapshot(BASE);
        before.operation = operation;
        before.http.query_template.insert(name.clone(), text.clone());
        before.http.body_template = flag.then(|| text.clone());
        before.http.timeout_ms = flag.then_some(millis);
        before.mapping.output_fields.push(patra_spec::snapshot::OutputFieldSpec { name, expr: text, ..Default::default() });
        before.window.initial = Some(patra_core::Ts::from_micros(micros));
        before.window.safety_lag = patra_spec::IsoDuration(std::time::Duration::from_micros(lag));
        before.rate_limit = patra_spec::snapshot::RateLimitSpec { qps: rate as f64 / 1e6, burst: number, ..Default::default() };
        if flag {
            before.pagination = None;
        }
        before.spec_fingerprint = before.fingerprint();
        let after = Snapshot::from_body(&before.body()).unwrap();
        prop_assert_eq!(&after, &before);
        prop_assert_eq!(after.body(), before.body());
        prop_assert_eq!(&after.fingerprint(), &before.spec_fingerprint);
        prop_assert_eq!(after.selection_hash(), before.selection_hash());
    }
}

// covers: ING-0.1-02
#[test]
fn snapshots_of_older_and_newer_binaries_are_read() {
    let mut json: serde_json::Value = serde_json::from_str(&snapshot(BASE).body()).unwrap();
    let map = json.as_object_mut().unwrap();
    for later in ["retry", "rateLimit", "mapping", "kind", "role", "specFingerprint"] {
        map.remove(later);
    }
    map.insert("batching".into(), json!({ "idBatchSize": 200 }));
    map["http"].as_object_mut().unwrap().insert("proxy".into(), json!("x"));
    let read = Snapshot::from_body(&json.to_string()).unwrap();
    assert_eq!(read.retry_policy(), patra_core::retry::RetryPolicy::default());
}

#[test]
fn the_registry_document_reads_back_and_ignores_key_order() {
    let before = manifest(BASE);
    let document = before.to_document();
    let after = Manifest::from_document(&document).unwrap();
    assert_eq!(after, before);
    let compiled = |m: &Manifest| compile(m, "list", Operation::Harvest).unwrap().snapshot.fingerprint();
    assert_eq!(compiled(&after), compiled(&before));

    let shuffled = "endpoints:\n  LIST:\n    rate_limit: { burst: 3 }\n    retry: { min_delay: PT1S }\n    response: { updated_at_path: $.at, id_path: $.id, items_path: $.items }\n    window: { initial: 2024-01-01T00:00:00Z, watermark_key: updated_at, supports_updated_since: true }\n    pagination: { has_more_path: $.more, max_page: 20, page_size: 50, base: 1, type: PAGE }\n    query: { page: \"${ page.no }\", rows: '50', q: \"type:a,since:${ window.from | date }\" }\n    http: { timeout: PT60S, headers: { accept: text/json }, path: /list, base_url: \"https://x.org\" }\ndefaults:\n  retry: { max_attempts: 7 }\n  http: { read_timeout: PT20S, headers: { X-A: shared, Accept: application/json } }\nprovenance: \" test \"\n";
    assert_eq!(canonical(&manifest(shuffled).to_document()), canonical(&document));
    assert_eq!(compiled(&manifest(shuffled)), compiled(&before));

    let mut unknown = document.clone();
    unknown.as_object_mut().unwrap().insert("colour".into(), json!("red"));
    assert!(Manifest::from_document(&unknown).unwrap_err().to_string().contains("unknown field `colour`"));
    // A stored document is checked again: an invalid edit in the database does not compile.
    let mut bad = document;
    bad["endpoints"]["list"]["query"]["q"] = json!("${ nope }");
    let problems = compile(&Manifest::from_document(&bad).unwrap(), "list", Operation::Harvest).unwrap_err();
    assert!(problems.to_string().starts_with("endpoints.list.query.q: there is no variable `nope`"), "{problems}");
    // The detail endpoint is checked again too, because it becomes part of the snapshot.
    let mut bad = manifest(EVERYTHING).to_document();
    bad["endpoints"]["work"]["query"]["x"] = json!("${ nope }");
    let problems = compile(&Manifest::from_document(&bad).unwrap(), "search", Operation::Harvest).unwrap_err();
    assert!(problems.to_string().starts_with("endpoints.work.query.x: there is no variable `nope`"), "{problems}");
}

/// G-03: a cursor keeps its namespace unless the query changes.
#[test]
fn selection_hash_changes_with_the_query_only() {
    let base = snapshot(BASE).selection_hash();
    let changed = |from: &str, to: &str| {
        assert!(BASE.contains(from), "{from}");
        snapshot(&BASE.replace(from, to)).selection_hash() != base
    };
    for (from, to) in [
        ("page_size: 50", "page_size: 20"),
        ("window.from | date", "window.from | iso"),
        ("page: \"${ page.no }\"", "p: \"${ page.no }\""),
        ("burst: 3", "burst: 9"),
        ("min_delay: PT1S", "min_delay: PT2S"),
        ("text/json", "text/plain"),
        ("updated_at_path: $.at", "updated_at_path: $.b"),
        ("initial: 2024-01-01", "initial: 2020-01-01, align: day"),
    ] {
        assert!(!changed(from, to), "{from} -> {to}");
    }
    for (from, to) in
        [("type:a", "type:b"), ("path: /list", "path: /other"), ("  list:", "  lost:"), ("rows: 50", "rows: 51")]
    {
        assert!(changed(from, to), "{from} -> {to}");
    }
    assert_ne!(snapshot(BASE).fingerprint(), snapshot(&BASE.replace("burst: 3", "burst: 4")).fingerprint());
}

const WHOLE: &str = r#"
provenance: whole
defaults: { http: { max_redirects: 2 } }
endpoints:
  list:
    http: { base_url: "https://x.org", method: post }
    params: { b: {}, c: {} }
    body: { json: { q: "type:a", first: "${ page.size }", after: "${ page.token }", deep: [{ a: "${ params.b }" }] } }
    pagination: { type: token, next_token_header: X-Next, page_size: 50, result_ceiling: 9999 }
    window: { watermark_key: updated_at, initial: 2024-01-01 }
    response:
      format: xml
      lenient: true
      xml: { lists: [Author] }
      items_path: $.r.i
      id_path: [$.a, $.b]
      id_separator: "|"
      updated_at_path: $.at
      updated_at_format: "%Y %b"
      total_header: X-Total
      errors:
        - { path: $.e, matches: limit, throttle: true }
        - { path: $.c, not_equals: 0, level: L4, code: config_error, message_path: $.m }
    record: { filter: [{ path: $.k, in: [a, b] }], add: { source: x }, remove: [$.x] }
    fields:
      plain: $.p
      year: { path: $.y, type: integer, required: true }
"#;

// covers: ING-3.4-02, ING-3.4-03, ING-3.4-09, ING-4.1-05
#[test]
fn every_response_key_is_in_the_snapshot() {
    let snapshot = snapshot(WHOLE);
    let json: serde_json::Value = serde_json::from_str(&snapshot.body()).unwrap();
    assert_eq!(
        json["response"],
        json!({
            "format": "xml", "lenient": true, "xml": { "lists": ["Author"] }, "itemsPath": "$.r.i",
            "idPath": ["$.a", "$.b"], "idSeparator": "|", "updatedAtPath": "$.at", "updatedAtFormat": "%Y %b",
            "totalHeader": "x-total",
            "errors": [
                { "path": "$.e", "matches": "limit", "level": "L1", "code": "RATE_LIMITED", "throttle": true },
                { "path": "$.c", "notEquals": "0", "level": "L4", "code": "CONFIG_ERROR", "messagePath": "$.m" },
            ],
        })
    );
    assert_eq!(
        json["mapping"],
        json!({
            "filter": [{ "path": "$.k", "in": ["a", "b"] }], "add": { "source": "x" }, "remove": ["$.x"],
            "outputFields": [
                { "name": "plain", "expr": "$.p" },
                { "name": "year", "expr": "$.y", "type": "integer", "required": true, "onError": "reject" },
            ],
        })
    );
    assert_eq!((&json["http"]["maxRedirects"], &json["http"]["bodyJson"]["q"]), (&json!(2), &json!("type:a")));
    assert_eq!(
        (&json["pagination"]["nextTokenHeader"], &json["pagination"]["resultCeiling"]),
        (&json!("x-next"), &json!(9999))
    );
    assert_eq!(Snapshot::from_body(&snapshot.body()).unwrap(), snapshot);
    let manifest = manifest(WHOLE);
    assert_eq!(Manifest::from_document(&manifest.to_document()).unwrap(), manifest);
}

#[test]
fn bodies_and_filters_are_part_of_the_selection() {
    let base = snapshot(WHOLE).selection_hash();
    let changed = |from: &str, to: &str| {
        assert!(WHOLE.contains(from), "{from}");
        snapshot(&WHOLE.replace(from, to)).selection_hash() != base
    };
    assert!(changed("type:a", "type:b") && changed("params.b", "params.c") && changed("in: [a, b]", "in: [a]"));
    assert!(
        !changed("page_size: 50", "page_size: 20")
            && !changed("after: \"${ page.token }\"", "next: \"${ page.token }\"")
    );
    assert!(!changed("limit,", "slow,") && !changed("plain: $.p", "plain: $.q"));
}

/// Documents as stored by earlier versions.
#[test]
fn documents_of_older_versions_are_read() {
    let mut document = manifest(BASE).to_document();
    document["endpoints"]["list"]["http"]["method"] = json!("POST");
    document["endpoints"]["list"]["body"] = json!("q=${ page.no }");
    document["endpoints"]["list"]["fields"] = json!({ "title": "$.title" });
    let manifest = Manifest::from_document(&document).unwrap();
    assert_eq!(manifest.to_document(), document);
    let snapshot = compile(&manifest, "list", Operation::Harvest).unwrap().snapshot;
    assert_eq!(snapshot.http.body_template.as_deref(), Some("q=${ page.no }"));
    assert_eq!(snapshot.mapping.output_fields[0].expr, "$.title");
    assert_eq!(snapshot.response.id_path.0, ["$.id"]);
}

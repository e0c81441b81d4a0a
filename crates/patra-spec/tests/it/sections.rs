//! What each section of an endpoint contributes to the snapshot, per operation.

use std::collections::BTreeMap;

use patra_core::Level;
use patra_core::protocol::run::RecordOrder;
use patra_spec::{Operation, Overrides, Snapshot, compile, inspect};
use serde_json::{Value, json};

use super::manifest;

/// The example of ING-3.9-01 with C-23: ids from the search, records and update times from the detail endpoint.
const PUBMED: &str = r#"
provenance: pubmed
defaults:
  http: { base_url: "https://eutils.ncbi.nlm.nih.gov/entrez/eutils", headers: { Accept: application/json } }
  auth: { type: api_key, location: query, name: api_key, credential: cred_pubmed }
  rate_limit: { refill_rate_per_sec: 5, burst: 10, header_adaptive: true }
endpoints:
  search:
    http: { path: /esearch.fcgi, timeout: PT10S }
    params: { q: { required: true, pattern: "[A-Za-z0-9 ]{1,40}" }, db: { default: pubmed } }
    query:
      db: "${ params.db }"
      retmode: json
      term: { expr: "${ renderQuery() }", required: true, pattern: "[A-Za-z0-9 ]+" }
      mindate: "${ window.from | format('%Y/%m/%d') }"
      retstart: "${ page.offset }"
      retmax: "${ page.size }"
    pagination: { type: offset, page_size: 100, max_page_size: 10000, max_page: 100 }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }
    retry: { retryable_status: [429, 500, 502, 503], retryable_codes: [API_BUSY] }
    two_phase: { detail: summary }
    expr: { allowed_functions: [now, format, formatDateTime, coalesce, renderQuery, join] }
    response: { items_path: $.esearchresult.idlist, id_path: $, total_path: $.esearchresult.count }
  summary:
    role: detail
    http: { path: /esummary.fcgi }
    query: { id: "${ ids | join(',') }" }
    response: { items_path: $.result, id_path: $.uid, updated_at_path: $.updated }
    fields: { title: $.title }
"#;

fn snapshot(yaml: &str, endpoint: &str) -> Snapshot {
    let compiled = compile(&manifest(yaml), endpoint, Operation::Harvest);
    compiled.unwrap_or_else(|problems| panic!("{problems}")).snapshot
}

fn json_of(yaml: &str, endpoint: &str) -> Value {
    serde_json::from_str(&snapshot(yaml, endpoint).body()).unwrap()
}

/// One endpoint with these lines in it.
fn endpoint(lines: &str) -> String {
    let lines = lines.replace('\n', "\n    ");
    format!(
        "provenance: acme\nendpoints:\n  list:\n    http: {{ base_url: \"https://x.org/v1\", path: /list, method: post }}\n    window: {{ watermark_key: updated_at, initial: 2024-01-01 }}\n    response: {{ items_path: $, id_path: $.id, updated_at_path: $.at, total_path: $.n }}\n    rate_limit: {{ refill_rate_per_sec: 1 }}\n    {lines}\n"
    )
}

// covers: ING-3.9-01, ING-3.3-12, ING-3.3-13, ING-3.3-14, ING-3.3-15, ING-3.3-16, ING-3.3-17, ING-3.3-18, ING-3.3-19
// covers: ING-3.4-01, ING-3.4-02, ING-3.4-03, ING-3.4-04, ING-3.4-05, ING-3.4-06, ING-3.4-07, ING-3.4-08, ING-3.4-09
// covers: ING-3.4-10, ING-3.4-11, ING-4.3-06, ING-4.4-12, ING-0.2-05, ING-2.4-01
#[test]
fn contract_example_compiles_to_its_snapshot() {
    let mut body = json_of(PUBMED, "search");
    let detail = body["twoPhase"].as_object_mut().unwrap().remove("detail").unwrap();
    let fingerprint = body.as_object_mut().unwrap().remove("specFingerprint").unwrap();
    assert!(fingerprint.as_str().unwrap().starts_with("v1:"));
    let query = |name: &str, expr: &str| json!({ "name": name, "location": "QUERY", "expr": expr });
    let term = json!({ "name": "term", "location": "QUERY", "expr": "${ renderQuery() }", "required": true, "pattern": "[A-Za-z0-9 ]+" });
    let expected = json!({
        "provenanceCode": "pubmed", "endpointCode": "search", "operation": "HARVEST", "role": "SEARCH", "kind": "document",
        "http": {
            "method": "GET", "baseUrl": "https://eutils.ncbi.nlm.nih.gov/entrez/eutils", "pathTemplate": "/esearch.fcgi",
            "headersTemplate": { "Accept": "application/json" },
            "queryTemplate": {
                "db": "${ params.db }", "retmode": "json", "term": "${ renderQuery() }",
                "mindate": "${ window.from | format('%Y/%m/%d') }", "retstart": "${ page.offset }", "retmax": "${ page.size }",
            },
            "connectTimeoutMs": 10000, "readTimeoutMs": 30000, "timeoutMs": 10000, "maxBodyBytes": 16777216,
        },
        "auth": {
            "type": "API_KEY", "location": "QUERY", "name": "api_key", "credentialRef": "cred_pubmed", "required": true,
        },
        "params": { "q": { "required": true, "pattern": "[A-Za-z0-9 ]{1,40}" }, "db": { "default": "pubmed" } },
        "pagination": {
            "type": "OFFSET", "pageSize": 100, "maxPageSize": 10000, "maxPage": 100, "onMaxPage": "split",
            "orderBy": "updated desc", "alwaysToken": false,
        },
        "window": {
            "supportsUpdatedSince": true, "watermarkKey": "updated_at", "safetyLag": "PT10M", "maxWindow": "P1D",
            "initial": "2024-01-01T00:00:00.000000000Z", "outOfRange": "keep", "timezone": "UTC",
            "boundaryPolicy": "[from,to)",
        },
        "retry": {
            "policy": "exponential_jitter", "maxAttempts": 5, "minDelayMs": 100, "maxDelayMs": 30000,
            "multiplierPercent": 200, "jitterPercent": 20, "retryableStatus": [429, 500, 502, 503],
            "retryableCodes": ["API_BUSY"],
        },
        "rateLimit": { "qps": 5.0, "burst": 10, "headerAdaptive": true },
        "limits": crate::thresholds::limits(),
        "health": crate::thresholds::health(),
        "batching": { "idBatchSize": 200 },
        "twoPhase": { "enabled": true, "linkedEndpoint": "summary", "missing": "bad" },
        "expr": {
            "allowedFunctions": ["now", "format", "formatDateTime", "coalesce", "renderQuery", "join"], "timezone": "UTC",
            "nullPolicy": "omit", "timeFormat": "iso",
        },
        "response": {
            "format": "json", "itemsPath": "$.esearchresult.idlist", "idPath": "$", "totalPath": "$.esearchresult.count",
        },
        "mapping": {
            "requestParams": [
                query("db", "${ params.db }"), query("mindate", "${ window.from | format('%Y/%m/%d') }"),
                query("retmax", "${ page.size }"), query("retmode", "json"), query("retstart", "${ page.offset }"), term,
                json!({ "name": "Accept", "location": "HEADER", "expr": "application/json" }),
            ],
            "outputFields": [],
        },
    });
    assert_eq!(serde_json::to_string_pretty(&body).unwrap(), serde_json::to_string_pretty(&expected).unwrap());
    assert_eq!(
        (&detail["endpointCode"], &detail["role"], &detail["operation"]),
        (&json!("summary"), &json!("DETAIL"), &json!("HARVEST"))
    );
    assert_eq!(detail["response"]["updatedAtPath"], "$.updated");
    assert_eq!(detail["auth"]["credentialRef"], "cred_pubmed");
    let complete: Snapshot = serde_json::from_value(detail).unwrap();
    assert_eq!(complete.fingerprint(), complete.spec_fingerprint);
}

// covers: ING-3.8-01, ING-4.2-02, ING-3.3-12
#[test]
fn auth_snapshot_contains_implied_values() {
    let auth = |auth: &str| json_of(&endpoint(&format!("auth: {auth}")), "list")["auth"].clone();
    assert_eq!(auth("{ type: none }"), Value::Null);
    let base = |kind: &str, name: &str, prefix: &str| {
        let mut base = json!({
            "type": kind, "location": "HEADER", "name": name, "prefix": prefix, "credentialRef": "acme", "required": true,
        });
        base.as_object_mut().unwrap().retain(|_, value| value != "");
        base
    };
    assert_eq!(auth("{ type: bearer }"), base("BEARER", "Authorization", "Bearer "));
    assert_eq!(auth("{ type: basic }"), base("BASIC", "Authorization", ""));
    assert_eq!(auth("{ type: cookie }"), base("COOKIE", "Cookie", ""));
    assert_eq!(auth("{ type: bearer, name: X-Token, prefix: '' }"), base("BEARER", "X-Token", ""));
    assert_eq!(
        auth(
            "{ type: custom, location: body, signing_hook: hmac, credential: Other, required: false, credential_status: [403] }"
        ),
        json!({
            "type": "CUSTOM", "location": "BODY", "credentialRef": "other", "required": false, "signingHook": "hmac",
            "credentialStatus": [403],
        })
    );
    let oauth2 = auth("{ type: oauth2, oauth2: { token_url: 'https://id.x.org/t', scope: read } }");
    assert_eq!(
        oauth2["oauth2"],
        json!({
            "grant": "CLIENT_CREDENTIALS", "tokenUrl": "https://id.x.org/t", "scope": "read", "clientAuth": "BASIC",
            "tokenPath": "$.access_token", "expiresPath": "$.expires_in", "refreshPath": "$.refresh_token",
            "refreshAhead": "PT1M",
        })
    );
    let session = auth(
        "{ type: session, session: { url: /login, token_header: X-T, headers: { A: b }, body: { form: { u: '${ credential.user }' } } } }",
    );
    assert_eq!((&session["name"], &session["prefix"]), (&json!("Authorization"), &json!("Bearer ")));
    assert_eq!(
        session["session"],
        json!({
            "method": "POST", "url": "https://x.org/v1/login", "headersTemplate": { "A": "b" },
            "bodyForm": { "u": "${ credential.user }" }, "tokenHeader": "x-t", "expiresIn": "PT1H",
        })
    );
    let cookie = auth("{ type: session, session: { url: 'https://id.x.org/in', cookie: sid } }");
    assert_eq!((&cookie["name"], &cookie["prefix"]), (&json!("Cookie"), &Value::Null));
    assert_eq!(cookie["session"]["url"], "https://id.x.org/in");
    let spec = snapshot(&endpoint("auth: { type: bearer, credential_status: [403] }"), "list");
    let rejected: Vec<_> = [400, 401, 403, 404].into_iter().filter(|status| spec.auth.is_rejection(*status)).collect();
    assert_eq!(rejected, [401, 403]);
}

/// A snapshot of an earlier version, byte for byte: without `limits`, `health` and related keys.
const OLDER: &str = include_str!("older_snapshot.json");

// covers: ING-5.8-03
#[test]
fn newer_version_reads_older_snapshots() {
    let spec = Snapshot::from_body(OLDER).unwrap();
    let mut today = snapshot(PUBMED, "search");
    // It equals the snapshot of the same manifest, with defaults.
    assert_eq!(spec.spec_fingerprint, "v1:26d79e702f7bf077fd0f7473f29038a0d5ed161deb0045462f283375464fd0e9");
    today.spec_fingerprint.clone_from(&spec.spec_fingerprint);
    let (details, older) = (today.two_phase.as_mut().unwrap(), spec.two_phase.as_ref().unwrap());
    details.detail.spec_fingerprint.clone_from(&older.detail.spec_fingerprint);
    assert_eq!(spec, today);
    assert_eq!((&spec.limits, &spec.health), (&Default::default(), &Default::default()));
    assert_eq!((spec.raw_keep, &spec.update), (None, &None));
    assert_eq!(spec.pagination.as_ref().unwrap().page_range, None);
    // Its cursor keeps its position, and its records their generation.
    assert_eq!(spec.selection_hash(), "v1:e6df8ec7db22834a1013c3cbcc75d23114bb64f251a2083dc189848a23a5d968");
    assert_eq!(spec.mapping_generation(), today.mapping_generation());
    // A partial section is completed with defaults.
    let mut json: Value = serde_json::from_str(OLDER).unwrap();
    json["limits"] = json!({ "concurrency": 2, "unheardOf": true });
    json["health"] = json!({ "circuitAfter": 7 });
    json["update"] = json!({ "segmentSize": 8 });
    let spec = Snapshot::from_body(&json.to_string()).unwrap();
    assert_eq!((spec.limits.concurrency, spec.limits.inventory), (2, 1_000));
    assert_eq!((spec.health.circuit_after, spec.health.min_page_size), (7, 10));
    assert_eq!(
        spec.update.map(|update| (update.segment_size, update.stale_after.to_string())),
        Some((8, "P30D".into()))
    );
}

/// Snapshots of earlier versions lack these sections; their behaviour is unchanged.
#[test]
fn snapshots_without_the_sections_read_as_before() {
    let mut old = json_of(PUBMED, "search");
    let map = old.as_object_mut().unwrap();
    for later in ["auth", "params", "expr", "batching", "twoPhase", "partitions"] {
        map.remove(later);
    }
    map["mapping"].as_object_mut().unwrap().remove("requestParams");
    for later in ["onMaxPage", "orderBy", "maxPageSize"] {
        map["pagination"].as_object_mut().unwrap().remove(later);
    }
    map["window"].as_object_mut().unwrap().remove("outOfRange");
    map["retry"].as_object_mut().unwrap().remove("retryableStatus");
    let spec = Snapshot::from_body(&old.to_string()).unwrap();
    assert!(spec.auth.is_none() && spec.http.compression && spec.keeps_out_of_range());
    assert!(spec.two_phase.is_none() && spec.partitions.is_empty() && !spec.paging().split_at_max);
    assert_eq!((spec.batching.id_batch_size, spec.expr.time_format.as_str()), (200, "iso"));
    assert_eq!(spec.pagination.as_ref().unwrap().order_by, "updated desc");
    assert!(spec.retry.is_retryable(503) && spec.retry.is_retryable(429) && !spec.retry.is_retryable(404));
}

// covers: ING-4.8-06
#[test]
fn params_of_a_run_are_checked_and_completed() {
    let spec = snapshot(PUBMED, "search");
    let resolve = |given: &[(&str, &str)]| {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        spec.resolve_params(&given)
    };
    let both = BTreeMap::from([("db".to_owned(), "pubmed".to_owned()), ("q".to_owned(), "cats 2".to_owned())]);
    assert_eq!(resolve(&[("q", "cats 2")]).unwrap(), both);
    let refused = |given: &[(&str, &str)]| {
        let fault = resolve(given).unwrap_err();
        assert_eq!(fault.level, Level::L2);
        fault.message
    };
    assert_eq!(refused(&[]), "the parameter `q` is required and was not given");
    assert_eq!(refused(&[("q", "a&b")]), "the parameter `q` does not match [A-Za-z0-9 ]{1,40}");
    assert_eq!(refused(&[("q", "a\nb")]), "the parameter `q` does not match [A-Za-z0-9 ]{1,40}");
    assert_eq!(refused(&[("q", "")]), "the parameter `q` does not match [A-Za-z0-9 ]{1,40}");
    assert_eq!(refused(&[("query", "a")]), "`search` has no parameter `query`: expected one of: db, q");
    assert_eq!(refused(&[("qq", "a")]), "`search` has no parameter `qq`: did you mean `q`?");
    // Parameters bound by a partition need not be given; those of the detail endpoint must be.
    let bound = PUBMED
        .replace("    two_phase:", "    partitions: [{ param: q, values: [a, b] }]\n    two_phase:")
        .replace("    role: detail\n", "    role: detail\n    params: { lang: { default: en } }\n");
    let resolved = snapshot(&bound, "search").resolve_params(&BTreeMap::new()).unwrap();
    assert_eq!(resolved.into_keys().collect::<Vec<_>>(), ["db", "lang"]);
}

#[test]
fn params_of_the_path_are_required() {
    let yaml = endpoint("params: { user: {}, lang: { default: '' }, q: {} }\nquery: { q: '${ params.q }' }")
        .replace("path: /list", "path: '/users/${ params.user }/${ params.lang }'");
    let spec = snapshot(&yaml, "list");
    let resolve = |given: &[(&str, &str)]| {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        spec.resolve_params(&given).map(BTreeMap::into_keys).map(Vec::from_iter).map_err(|fault| fault.message)
    };
    assert_eq!(resolve(&[]), Err("the parameter `user` is required and was not given".into()));
    assert_eq!(resolve(&[("user", "")]), Err("the parameter `user` is required and is empty".into()));
    assert_eq!(resolve(&[("user", "7")]), Ok(vec!["lang".into(), "user".into()]));
}

#[test]
fn partitions_are_frozen() {
    let lines = "params: { year: {}, author: {} }\npartitions: [{ param: year, values: [2023, 2024] }, { param: author, parent: { endpoint: authors, path: $.id } }]\nbody: { form: { year: '${ params.year }', author: '${ params.author }' } }";
    let yaml = format!(
        "{}  authors:\n    http: {{ base_url: \"https://x.org\" }}\n    response: {{ items_path: $, id_path: $.id }}\n",
        endpoint(lines)
    );
    assert_eq!(
        json_of(&yaml, "list")["partitions"],
        json!([
            { "param": "year", "values": ["2023", "2024"] },
            { "param": "author", "parent": { "endpoint": "authors", "path": "$.id" } },
        ])
    );
}

// covers: ING-4.6-01, ING-4.7-01, ING-4.17-05
#[test]
fn required_paths_may_be_split_over_both_phases() {
    let compiled = |yaml: &str, name: &str, operation| compile(&manifest(yaml), name, operation);
    let warnings = compiled(PUBMED, "search", Operation::Harvest).unwrap().warnings;
    assert!(!warnings.iter().any(|warning| warning.contains("updated_at_path")), "{warnings:?}");
    let untimed = PUBMED.replace(", updated_at_path: $.updated", "");
    for operation in [Operation::Harvest, Operation::Backfill] {
        let problems = compiled(&untimed, "search", operation).unwrap_err();
        assert_eq!(problems.as_slice()[0].path, "endpoints.summary.response.updated_at_path");
        assert!(problems.to_string().contains("UPDATE"), "{problems}");
    }
    assert!(compiled(&untimed, "search", Operation::Update).is_ok());
    // A detail endpoint has no window of its own.
    let problems = compiled(PUBMED, "summary", Operation::Harvest).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "t.yaml:25:11: endpoints.summary.role: HARVEST reads windows; a detail endpoint only fetches records by id\n  hint: read the search endpoint that names it in `two_phase.detail`"
    );
    let problems = compiled(PUBMED, "summary", Operation::Update).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "t.yaml:25:11: endpoints.summary.role: UPDATE updates the records of a search; a detail endpoint only fetches records by id\n  hint: update the search endpoint that names it in `update.detail` or `two_phase.detail`"
    );
    assert!(inspect(&manifest(PUBMED), "summary", Operation::Update, &Overrides::default()).is_ok());
    // One id per request if the template reads `id`.
    let single = PUBMED.replace("path: /esummary.fcgi", "path: \"/esummary/${ id }\"");
    let single = single.replace("    query: { id: \"${ ids | join(',') }\" }\n", "");
    assert_eq!(snapshot(&single, "search").batching.id_batch_size, 1);
    // A problem of the detail endpoint is a problem of the search.
    let document = manifest(PUBMED).to_document();
    let mut bad = document.clone();
    bad["endpoints"]["summary"]["query"]["id"] = json!("${ ids | nope }");
    let bad = patra_spec::Manifest::from_document(&bad).unwrap();
    let problems = compile(&bad, "search", Operation::Harvest).unwrap_err();
    assert!(problems.to_string().starts_with("endpoints.summary.query.id: there is no filter `nope`"), "{problems}");
}

// covers: ING-4.4-16, ING-6.1-02
#[test]
fn monotonic_watermark_requires_time_filter() {
    let yaml = PUBMED.replace(", updated_at_path: $.updated", "");
    let monotonic = yaml.replace("watermark_key: updated_at", "watermark_key: entered_at, monotonic: true");
    let spec = snapshot(&monotonic, "search");
    assert!(spec.window.monotonic);
    let unfiltered = monotonic
        .replace("supports_updated_since: true, ", "")
        .replace("      mindate: \"${ window.from | format('%Y/%m/%d') }\"\n", "");
    let problems = compile(&manifest(&unfiltered), "search", Operation::Harvest).unwrap_err();
    assert!(
        problems.to_string().contains("`monotonic` can replace it only if the upstream filters by time"),
        "{problems}"
    );
    assert!(compile(&manifest(&yaml), "search", Operation::Harvest).is_err());
}

// covers: ING-3.3-22, ING-3.6-02
#[test]
fn inefficient_settings_cause_warnings() {
    let warnings = |lines: &str| {
        let yaml = endpoint(lines).replace("    rate_limit: { refill_rate_per_sec: 1 }\n    rate", "    rate");
        let yaml = match lines.contains("window:") {
            true => yaml.replacen("    window: { watermark_key: updated_at, initial: 2024-01-01 }\n", "", 1),
            false => yaml,
        };
        let filtered = "the upstream does not filter by time: every slice reads all records and filters them locally";
        let compiled = compile(&manifest(&yaml), "list", Operation::Harvest).unwrap();
        compiled.warnings.into_iter().filter(|warning| warning != filtered).collect::<Vec<_>>()
    };
    assert_eq!(warnings("kind: work"), [""; 0]);
    let window = "window: { watermark_key: u, initial: 2024-01-01, safety_lag: PT0S";
    let twice = "window.safety_lag is PT0S and as_of is not true: the last page is read twice";
    assert_eq!(warnings(&format!("{window} }}")), [twice]);
    assert_eq!(warnings(&format!("{window}, as_of: true }}")), [""; 0]);
    let capped = |lookback: &str| {
        let window = format!("window: {{ watermark_key: u, initial: 2024-01-01{lookback} }}");
        warnings(&format!(
            "{window}\nquery: {{ o: \"${{ page.offset }}\" }}\npagination: {{ type: offset, page_size: 10, result_ceiling: 100 }}"
        ))
    };
    assert_eq!(capped(""), [""; 0]);
    let back = "window.lookback counts towards result_ceiling: its records are in every narrower window too";
    assert_eq!(capped(", lookback: PT1H"), [back]);
    assert_eq!(warnings("schedule: { every: PT19M }"), [""; 0]);
    assert_eq!(
        warnings("schedule: { every: PT20M }"),
        ["safety_lag and schedule.every make a cursor lag of PT30M, which looks like a stall"]
    );
    assert_eq!(warnings("schedule: { cron: \"*/15 * * * *\" }"), [""; 0]);
    assert_eq!(
        warnings("schedule: { cron: \"*/15 6-18 * * *\" }"),
        ["safety_lag and schedule.cron make a cursor lag of PT11H25M, which looks like a stall"]
    );
    assert_eq!(warnings("limits: { concurrency: 51 }"), [""; 0]);
    assert_eq!(warnings("limits: { concurrency: 52 }"), ["limits.concurrency is near its ceiling"]);
    assert_eq!(warnings("retry: { max_attempts: 15 }"), [""; 0]);
    assert_eq!(warnings("retry: { max_attempts: 16 }"), ["retry.max_attempts is near its ceiling"]);
    assert_eq!(
        warnings("rate_limit: { refill_rate_per_sec: 8000 }"),
        ["rate_limit.refill_rate_per_sec is near its ceiling"]
    );
}

#[test]
fn order_by_has_one_spelling() {
    let order = |order: &str| {
        let lines = format!("pagination: {{ type: url, next_url_path: $.n, order_by: {order} }}");
        let spec = snapshot(&endpoint(&lines), "list");
        assert_eq!(Snapshot::from_body(&spec.body()).unwrap().order(), spec.order());
        (spec.pagination.as_ref().unwrap().order_by.clone(), spec.order())
    };
    assert_eq!(order("Updated  ASC"), ("updated asc".to_owned(), Some(RecordOrder::Ascending)));
    assert_eq!(order("updated desc"), ("updated desc".to_owned(), Some(RecordOrder::Descending)));
    assert_eq!(order("Published"), ("Published".to_owned(), None));
    assert_eq!(order("null"), ("updated desc".to_owned(), None), "an undeclared order is not used");
    // Records without update times do not bound what was read.
    let monotonic = PUBMED
        .replace("max_page: 100", "max_page: 100, order_by: updated asc")
        .replace("watermark_key: updated_at", "watermark_key: updated_at, monotonic: true");
    assert_eq!(snapshot(&monotonic, "search").order(), None);
}

/// G-03: a cursor keeps its position unless the query changes.
#[test]
fn defaults_for_null_are_part_of_the_selection() {
    let meaning = |from: &str, to: &str| {
        assert!(PUBMED.contains(from), "{from}");
        snapshot(&PUBMED.replace(from, to), "search").selection_hash()
    };
    let base = snapshot(PUBMED, "search").selection_hash();
    let default = meaning("required: true, pattern: \"[A-Za-z0-9 ]+\"", "default: cats");
    assert_ne!(default, base);
    assert_ne!(meaning("required: true, pattern: \"[A-Za-z0-9 ]+\"", "default: dogs"), default);
    for (from, to) in [
        ("pattern: \"[A-Za-z0-9 ]+\"", "pattern: \"[a-z]+\""),
        ("credential: cred_pubmed", "credential: other"),
        ("two_phase: { detail: summary }", "two_phase: { detail: summary, missing: ignore }"),
        ("max_page: 100", "max_page: 10"),
    ] {
        assert_eq!(meaning(from, to), base, "{from} -> {to}");
    }
}

// covers: ING-3.1-05, ING-0.4-02, ING-4.4-22
#[test]
fn times_of_a_manifest_are_utc() {
    let yaml = PUBMED.replace("initial: 2024-01-01", "initial: 2024-01-01T02:00:00+02:00");
    let window = json_of(&yaml, "search")["window"].clone();
    assert_eq!(window["initial"], "2024-01-01T00:00:00.000000000Z");
    assert_eq!((&window["timezone"], &window["boundaryPolicy"]), (&json!("UTC"), &json!("[from,to)")));
}

// covers: ING-4.1-04
#[test]
fn on_max_page_default_depends_on_time_filter() {
    let lines = "pagination: { type: url, next_url_path: $.n, max_page: 5, unique_tokens: true, tail_probe: true }";
    let spec = snapshot(&endpoint(lines), "list");
    assert!(!spec.paging().split_at_max && !spec.keeps_out_of_range());
    assert!(spec.paging().unique_tokens && spec.paging().tail_probe);
    assert!(snapshot(PUBMED, "search").paging().split_at_max && snapshot(PUBMED, "search").keeps_out_of_range());
}

#[test]
fn poll_limits_reach_the_paging_rule() {
    let lines = "polled: true\nparams: { limit: {}, most: {}, since: {} }\npagination: { type: url, next_url_path: $.n, repeat_ends: true, limit_param: limit, limit_max_param: most, until_param: since }";
    let spec = snapshot(&endpoint(lines), "list");
    let rule = spec.paging();
    assert!(rule.repeat_ends);
    assert_eq!((rule.limit_param.as_deref(), rule.limit_max_param.as_deref()), (Some("limit"), Some("most")));
    assert_eq!(spec.pagination.as_ref().and_then(|paging| paging.until_param.as_deref()), Some("since"));
    let plain = snapshot(&endpoint("pagination: { type: url, next_url_path: $.n }"), "list").body();
    assert!(!plain.contains("repeatEnds") && !plain.contains("limitParam") && !plain.contains("untilParam"));
}

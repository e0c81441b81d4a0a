//! The examples of the requirements and the shipped manifests compile to the required snapshots.

use serde_json::{Value, json};

use patra_spec::{Operation, Snapshot, compile};

use super::manifest;

/// The example of ING-3.9 and ING-4.18. The location of the key is set once, by `auth`; the other corrections are C-21
/// to C-45.
const PUBMED: &str = r#"
provenance: pubmed
endpoints:
  search:
    http: { base_url: "https://eutils.ncbi.nlm.nih.gov", path: /entrez/eutils/esearch.fcgi, headers: { Accept: application/json }, timeout: PT10S }
    auth: { type: api_key, location: query, name: api_key, credential: cred_pubmed }
    params: { q: { required: true } }
    query:
      db: pubmed
      retmode: json
      term: { expr: "${ renderQuery() }", required: true }
      mindate: "${ window.from | formatDateTime('%Y/%m/%d') }"
      retstart: "${page.offset}"
      retmax: "${page.size}"
    pagination: { type: offset, page_size: 100, max_page: 1000, order_by: updated }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT10M, initial: 2024-01-01 }
    retry: { max_attempts: 5, retryable_status: [429, 500, 502, 503] }
    rate_limit: { refill_rate_per_sec: 5, burst: 10, header_adaptive: true }
    batching: { id_batch_size: 200 }
    expr: { allowed_functions: [now, formatDateTime, coalesce, renderQuery], null_policy: omit }
    response: { items_path: $.esearchresult.idlist, id_path: $, updated_at_path: $.updated, has_more_path: $.esearchresult.more }
    fields: { provider_id: $, title: $.title, updated_at: $.updated }
"#;

const CROSSREF: &str = r#"
provenance: crossref
endpoints:
  works:
    http: { base_url: "https://api.crossref.org", path: /works }
    query: { filter: "from-update-date:${ window.from | date }", rows: "${ page.size }", cursor: "${ page.token }" }
    pagination: { type: token, initial: "*", next_token_path: "$.message['next-cursor']", page_size: 100, always_token: true }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }
    response: { items_path: $.message.items, id_path: $.DOI, updated_at_path: "$.deposited['date-time']" }
    rate_limit: { refill_rate_per_sec: 10, burst: 10 }
"#;

fn snapshot(yaml: &str, endpoint: &str) -> Snapshot {
    let compiled = compile(&manifest(yaml), endpoint, Operation::Harvest);
    compiled.unwrap_or_else(|problems| panic!("{problems}")).snapshot
}

fn stored(snapshot: &Snapshot) -> Value {
    serde_json::from_str(&snapshot.body()).unwrap()
}

/// Every expected member has its value; there may be more members.
#[track_caller]
fn contains(found: &Value, expected: &Value, path: &str) {
    match (found, expected) {
        (Value::Object(_), Value::Object(members)) => {
            members.iter().for_each(|(key, value)| contains(&found[key], value, &format!("{path}.{key}")));
        }
        (Value::Number(found), Value::Number(expected)) => assert_eq!(found.as_f64(), expected.as_f64(), "{path}"),
        _ => assert_eq!(found, expected, "{path}"),
    }
}

// covers: ING-3.9-01, ING-3.9-02, ING-4.18-01
#[test]
fn the_pubmed_example_compiles_to_its_snapshot() {
    let snapshot = snapshot(PUBMED, "search");
    let term = "${ renderQuery() }";
    let expected = json!({
        "provenanceCode": "pubmed", "endpointCode": "search", "operation": "HARVEST",
        "http": {
            "method": "GET", "baseUrl": "https://eutils.ncbi.nlm.nih.gov", "pathTemplate": "/entrez/eutils/esearch.fcgi",
            "headersTemplate": { "Accept": "application/json" },
            "queryTemplate": {
                "db": "pubmed", "retmode": "json", "term": term, "retstart": "${page.offset}", "retmax": "${page.size}",
            },
            "timeoutMs": 10000, "connectTimeoutMs": 10000, "readTimeoutMs": 30000,
        },
        "auth": { "type": "API_KEY", "location": "QUERY", "credentialRef": "cred_pubmed" },
        "pagination": { "type": "OFFSET", "pageSize": 100, "maxPage": 1000, "orderBy": "updated" },
        "window": {
            "supportsUpdatedSince": true, "safetyLag": "PT10M", "watermarkKey": "updated_at", "timezone": "UTC",
        },
        "retry": { "policy": "exponential_jitter", "maxAttempts": 5, "retryableStatus": [429, 500, 502, 503] },
        "rateLimit": { "qps": 5, "burst": 10, "headerAdaptive": true },
        "batching": { "idBatchSize": 200 },
        "twoPhase": null,
        "expr": {
            "allowedFunctions": ["now", "formatDateTime", "coalesce", "renderQuery"], "timezone": "UTC", "nullPolicy": "omit",
        },
        "response": {
            "itemsPath": "$.esearchresult.idlist", "idPath": "$", "updatedAtPath": "$.updated",
            "hasMorePath": "$.esearchresult.more",
        },
        "specFingerprint": snapshot.fingerprint(),
    });
    let found = stored(&snapshot);
    contains(&found, &expected, "");
    let params = found["mapping"]["requestParams"].as_array().unwrap();
    let declared = params.iter().find(|param| param["name"] == "term").unwrap();
    contains(declared, &json!({ "location": "QUERY", "required": true, "expr": term }), "term");
    let fields = json!([
        { "name": "provider_id", "expr": "$" }, { "name": "title", "expr": "$.title" },
        { "name": "updated_at", "expr": "$.updated" },
    ]);
    assert_eq!(found["mapping"]["outputFields"], fields);
}

// covers: ING-4.18-01
#[test]
fn pubmed_without_update_time_compiles_for_update_only() {
    let manifest = manifest(&PUBMED.replace(", updated_at_path: $.updated", ""));
    let problems = compile(&manifest, "search", Operation::Harvest).unwrap_err().to_string();
    assert!(problems.contains("can only be read by UPDATE"), "{problems}");
    let problems = compile(&manifest, "search", Operation::Update).unwrap_err().to_string();
    assert!(problems.contains("name it: update: { detail: NAME }"), "{problems}");
    let fetched = PUBMED.replace(", updated_at_path: $.updated", "").replace(
        "  search:\n",
        "  article: { role: detail, http: { base_url: \"https://eutils.ncbi.nlm.nih.gov\" }, query: { id: \"${ ids | join(',') }\" }, response: { items_path: $.a, id_path: $.id } }\n  search:\n    update: { detail: article }\n",
    );
    let compiled = compile(&super::manifest(&fetched), "search", Operation::Update).unwrap();
    assert!(compiled.warnings.iter().any(|warning| warning.contains("updated_at_path")), "{:?}", compiled.warnings);
}

// covers: ING-4.18-02
#[test]
fn the_crossref_example_compiles_to_its_snapshot() {
    let expected = json!({
        "pagination": { "type": "TOKEN", "pageSize": 100, "nextTokenPath": "$.message['next-cursor']", "initial": "*" },
        "window": { "supportsUpdatedSince": true },
        "http": { "queryTemplate": { "filter": "from-update-date:${ window.from | date }" } },
        "rateLimit": { "qps": 10 },
        "response": {
            "itemsPath": "$.message.items", "idPath": "$.DOI", "updatedAtPath": "$.deposited['date-time']",
        },
    });
    contains(&stored(&snapshot(CROSSREF, "works")), &expected, "");
}

/// The shipped manifest follows C-23: ids by search, records and update times by fetch, and no query above the
/// upstream's ceiling.
// covers: ING-3.9-01, ING-4.18-01
#[test]
fn the_shipped_pubmed_takes_its_update_time_from_the_detail() {
    let found = stored(&snapshot(include_str!("../../../../sources/pubmed.yaml"), "search"));
    let expected = json!({
        "provenanceCode": "pubmed", "endpointCode": "search",
        "auth": { "type": "API_KEY", "location": "QUERY", "name": "api_key", "credentialRef": "pubmed", "required": false },
        "pagination": { "type": "OFFSET", "resultCeiling": 9999 },
        "window": { "supportsUpdatedSince": true, "watermarkKey": "updated_at", "maxWindow": "P1D", "align": "day" },
        "rateLimit": { "qps": 3, "headerAdaptive": true },
        "batching": { "idBatchSize": 200 },
        "twoPhase": {
            "enabled": true, "linkedEndpoint": "article",
            "detail": {
                "role": "DETAIL",
                "response": { "format": "xml", "updatedAtPath": "$.MedlineCitation.DateRevised", "updatedAtFormat": "date_parts" },
            },
        },
        "response": { "itemsPath": "$.esearchresult.idlist", "idPath": "$", "updatedAtPath": null },
    });
    contains(&found, &expected, "");
}

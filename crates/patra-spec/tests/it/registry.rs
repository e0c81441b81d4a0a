//! Manifests as rows and back.

use std::collections::BTreeSet;

use patra_core::hash::canonical;
use patra_core::registry::{RegistryRow, RegistryTable, WHOLE};
use patra_spec::{Manifest, registry};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{EVERYTHING, WORKS, fingerprints, manifest, sources};

fn config(rows: &[RegistryRow], table: RegistryTable, endpoint: &str) -> Value {
    let row = rows.iter().find(|row| row.table == table && row.endpoint_name == endpoint);
    row.map_or(Value::Null, |row| serde_json::from_str(&row.config).unwrap())
}

fn check(manifest: &Manifest) {
    let rows = registry::rows(manifest);
    let back = registry::manifest(&manifest.provenance, &rows).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(canonical(&back.to_document()), canonical(&manifest.to_document()));
    assert_eq!(registry::rows(&back), rows);
    // The order of rows does not matter.
    let reversed: Vec<_> = rows.iter().rev().cloned().collect();
    assert_eq!(registry::manifest(&manifest.provenance, &reversed).unwrap(), back);
}

// covers: ING-3.1-01, ING-3.1-04, ING-0.4-01
#[test]
fn rows_rebuild_the_same_manifest() {
    for yaml in sources() {
        let manifest = manifest(&yaml);
        check(&manifest);
        let back = registry::manifest(&manifest.provenance, &registry::rows(&manifest)).unwrap();
        assert_eq!(fingerprints(&back), fingerprints(&manifest));
        assert_eq!(back.version(), manifest.version());
    }
}

// covers: ING-3.2-01, ING-3.2-02, ING-3.2-03, ING-3.2-05, ING-3.2-06, ING-3.2-07, ING-3.2-08, ING-3.2-09, ING-3.2-10
// covers: ING-3.2-11, ING-3.2-12, ING-3.2-13, ING-4.1-01
#[test]
fn each_table_holds_its_settings() {
    let yaml = EVERYTHING.split("defaults:").next().unwrap().to_owned()
        + "endpoints:\n  one:\n"
        + "    { role: detail, description: d, method: post, path: /p, items_path: $.i, schedule: { every: PT1H },\n"
        + "      http: { base_url: \"https://x.org\", headers: { Accept: a }, timeout: PT1M }, auth: { type: bearer },\n"
        + "      query: { q: x }, params: { kind: {} }, body: { form: { id: \"${ ids | join(',') }\" } },\n"
        + "      response: { id_path: $.id }, fields: { t: $.t }, retry: { max_attempts: 2 }, rate_limit: { burst: 2 },\n"
        + "      window: { watermark_key: at }, batching: { id_batch_size: 5 }, record: { remove: [$.x] },\n"
        + "      expr: { allowed_functions: [join], null_policy: empty } }\n";
    let rows = registry::rows(&manifest(&yaml));
    let whole = config(&rows, RegistryTable::Provenance, WHOLE);
    assert_eq!((&whole["name"], &whole["allow_http"]), (&json!("Every key: all of them"), &json!(true)));
    let one = |table| config(&rows, table, "one");
    assert_eq!(
        one(RegistryTable::EndpointDef),
        json!({ "role": "DETAIL", "description": "d", "method": "POST", "path": "/p", "items_path": "$.i",
            "schedule": { "every": "PT1H" }, "record": { "remove": ["$.x"] } })
    );
    assert_eq!(
        one(RegistryTable::HttpCfg),
        json!({ "base_url": "https://x.org", "timeout": "PT1M", "auth": { "type": "BEARER" } })
    );
    assert_eq!(
        one(RegistryTable::ApiParamMap),
        json!({ "params": { "kind": {} }, "query": { "q": "x" }, "headers": { "Accept": "a" },
            "form": { "id": "${ ids | join(',') }" } })
    );
    assert_eq!(one(RegistryTable::WindowOffsetCfg), json!({ "watermark_key": "at" }));
    assert_eq!(one(RegistryTable::RetryCfg), json!({ "max_attempts": 2 }));
    assert_eq!(one(RegistryTable::RateLimitCfg), json!({ "burst": 2 }));
    assert_eq!(one(RegistryTable::BatchingCfg), json!({ "id_batch_size": 5 }));
    assert_eq!(one(RegistryTable::ExprCapability), json!({ "allowed_functions": ["join"] }));
    assert_eq!(one(RegistryTable::ExprRenderRule), json!({ "null_policy": "empty" }));
    assert_eq!(one(RegistryTable::ExprFieldDict), json!({ "id_path": "$.id", "fields": { "t": "$.t" } }));
    assert_eq!(one(RegistryTable::PaginationCfg), Value::Null);
    let crossref = registry::rows(&manifest(WORKS));
    assert_eq!(config(&crossref, RegistryTable::PaginationCfg, "works")["page_size"], json!(100));
    // Together they use every table.
    let used: BTreeSet<_> = rows.iter().chain(&crossref).map(|row| row.table).collect();
    assert_eq!(used, RegistryTable::ALL.iter().copied().collect());
}

/// The rows are valid for the stores.
#[test]
fn rows_are_valid_for_a_store() {
    let manifest = manifest(EVERYTHING);
    let endpoints = manifest.endpoints.keys().map(|name| patra_core::tx::EndpointRow {
        endpoint_name: name.clone(),
        role: "SEARCH".into(),
        schedules: registry::schedules(&manifest.endpoints[name]),
    });
    let apply = patra_core::tx::ApplyProvenance {
        provenance_code: manifest.provenance.clone(),
        name: manifest.name.clone(),
        project_key: manifest.project.clone(),
        rows: registry::rows(&manifest),
        document_hash: manifest.version(),
        endpoints: endpoints.collect(),
    };
    assert_eq!(apply.invalid_reason(), None);
}

#[test]
fn invalid_rows_are_rejected() {
    let valid = registry::rows(&manifest(WORKS));
    let check = |change: &dyn Fn(&mut Vec<RegistryRow>), expected: &str| {
        let mut rows = valid.clone();
        change(&mut rows);
        let problems = registry::manifest("crossref", &rows).unwrap_err().to_string();
        assert!(problems.contains(expected), "{problems}");
    };
    check(&|rows| rows.clear(), "`crossref` has no row in reg_provenance");
    check(
        &|rows| rows.retain(|row| row.table != RegistryTable::EndpointDef),
        "`works` has no row in reg_prov_endpoint_def",
    );
    check(&|rows| rows.push(rows[1].clone()), "[works]: the row is a duplicate");
    let damage = |table, config: &'static str| {
        move |rows: &mut Vec<RegistryRow>| {
            let at = rows.iter().position(|row| row.table == table).unwrap();
            rows[at].config = config.to_owned();
        }
    };
    check(&damage(RegistryTable::WindowOffsetCfg, "{"), "reg_prov_window_offset_cfg[works]: the row is not valid JSON");
    check(
        &damage(RegistryTable::WindowOffsetCfg, "[]"),
        "reg_prov_window_offset_cfg[works]: the row is not a JSON object",
    );
    check(&damage(RegistryTable::WindowOffsetCfg, r#"{"colour":"red"}"#), "unknown field `colour`");
    check(&damage(RegistryTable::WindowOffsetCfg, r#"{"align":"week"}"#), "unknown variant `week`");
    check(&damage(RegistryTable::Provenance, "{}"), "missing field `name`");
    check(&|rows| rows[0].endpoint_name = "works".into(), "`*` must be the only row in reg_provenance");
}

/// A stored body with two kinds is rejected.
#[test]
fn body_of_two_kinds_is_rejected() {
    let mut rows = registry::rows(&manifest(WORKS));
    rows.retain(|row| !matches!(row.table, RegistryTable::HttpCfg | RegistryTable::ApiParamMap));
    let works = "works".to_owned();
    let http = r#"{"base_url":"https://x.org","method":"POST","body":"text"}"#.to_owned();
    rows.push(RegistryRow { table: RegistryTable::HttpCfg, endpoint_name: works.clone(), config: http });
    rows.push(RegistryRow {
        table: RegistryTable::ApiParamMap,
        endpoint_name: works,
        config: r#"{"form":{"a":"b"}}"#.into(),
    });
    let manifest = registry::manifest("crossref", &rows).unwrap();
    let problems = patra_spec::compile(&manifest, "works", patra_spec::Operation::Update).unwrap_err();
    assert!(problems.to_string().contains("a body is one of `json`, `form` and `raw`"), "{problems}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The largest manifest with any subset of its parts.
    #[test]
    fn parts_of_manifests_survive_as_rows(keep in prop::collection::vec(any::<bool>(), 64), seed in any::<u64>()) {
        let mut document = manifest(EVERYTHING).to_document();
        let mut at = 0;
        let mut kept = || { at += 1; keep[at % keep.len()] ^ (seed >> (at % 64) & 1 == 1) };
        for endpoint in document["endpoints"].as_object_mut().unwrap().values_mut() {
            let endpoint = endpoint.as_object_mut().unwrap();
            endpoint.retain(|_, _| kept());
            for section in endpoint.values_mut().filter_map(Value::as_object_mut) {
                section.retain(|_, _| kept());
            }
        }
        // Parts that are required for reading.
        for endpoint in document["endpoints"].as_object_mut().unwrap().values_mut() {
            if endpoint["body"].as_object().is_some_and(serde_json::Map::is_empty) && seed % 2 == 0 {
                endpoint.as_object_mut().unwrap().remove("body");
            }
        }
        let manifest = Manifest::from_document(&document).unwrap();
        check(&manifest);
        let back = registry::manifest(&manifest.provenance, &registry::rows(&manifest)).unwrap();
        prop_assert_eq!(fingerprints(&back), fingerprints(&manifest));
    }
}

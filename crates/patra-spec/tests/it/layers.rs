//! Which layer wins, and that problems point to the layer that set the value.

use std::collections::BTreeMap;

use patra_core::registry::RegistryTable;
use patra_spec::{
    ExplainedSetting, Manifest, Operation, Overrides, SettingLayer, compile, compile_with, explain, inspect,
};
use serde_json::{Map, Value, json};

use crate::{DEMO, EVERYTHING, WORKS, manifest};

const BASE: &str = "\
provenance: test
defaults:
  http: { base_url: \"https://x.org\", path: /shared, headers: { Accept: a, X-A: b }, read_timeout: PT20S }
  query: { q: shared, rows: \"${ page.size }\" }
  pagination: { page_size: 10, max_page: 9 }
  response: { items_path: $.shared, id_path: $.id, updated_at_path: $.at }
  rate_limit: { refill_rate_per_sec: 4, burst: 2 }
  retry: { max_attempts: 3 }
endpoints:
  list:
    description: All of them
    path: /list
    items_path: $.short
    http: { headers: { accept: c } }
    query: { q: own, cursor: \"${ page.token }\" }
    pagination: { type: token, next_token_path: $.next, page_size: 50 }
    window: { watermark_key: updated_at, initial: 2024-01-01 }
";

fn explained(manifest: &Manifest, name: &str, operation: Operation, overrides: &Overrides) -> Vec<ExplainedSetting> {
    explain(manifest, name, operation, overrides).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The value and the layer of one path of `BASE`, with `from` replaced by `to`.
fn check(from: &str, to: &str, path: &str, value: impl Into<Value>, layer: &str) {
    assert!(BASE.contains(from), "{from}");
    let overrides = Overrides::parse(["rate_limit.burst=1"]).unwrap();
    let all = explained(&manifest(&BASE.replacen(from, to, 1)), "list", Operation::Harvest, &overrides);
    let found = all.iter().find(|one| one.path == path).unwrap_or_else(|| panic!("no {path} in {all:#?}"));
    assert_eq!((&found.value, found.layer.to_string().as_str()), (&value.into(), layer), "{path}");
}

// covers: ING-3.3-03, ING-3.3-04, ING-4.1-02, ING-3.3-02
#[test]
fn five_layers_apply_in_order() {
    let (platform, provenance, definition) = ("platform", "provenance defaults", "endpoint definition");
    let settings = |table: RegistryTable| format!("endpoint settings ({})", table.name());
    let same = |path, value, layer: &str| check("test", "test", path, value, layer);
    same("http.connect_timeout", json!("PT10S"), platform);
    same("http.read_timeout", json!("PT20S"), provenance);
    same("http.path", json!("/list"), definition);
    same("response.items_path", json!("$.short"), definition);
    same("description", json!("All of them"), definition);
    same("pagination.page_size", json!(50), "endpoint settings (reg_prov_pagination_cfg)");
    same("pagination.max_page", json!(9), provenance);
    same("rate_limit.burst", json!(1), "trigger");
    same("rate_limit.refill_rate_per_sec", json!(4.0), provenance);
    same("query.q", json!("own"), &settings(RegistryTable::ApiParamMap));
    same("window.initial", json!("2024-01-01T00:00:00.000000000Z"), &settings(RegistryTable::WindowOffsetCfg));
    // Sections win over short keys; without both, the provenance's defaults apply.
    check(
        "headers: { accept",
        "path: /own, headers: { accept",
        "http.path",
        json!("/own"),
        &settings(RegistryTable::HttpCfg),
    );
    check("    path: /list\n", "", "http.path", json!("/shared"), provenance);
    check("    items_path: $.short\n", "", "response.items_path", json!("$.shared"), provenance);
    check(
        "    items_path: $.short\n",
        "    method: post\n    items_path: $.i\n",
        "http.method",
        json!("POST"),
        definition,
    );
}

/// A value of a section with another type is not used, even if it is equal.
#[test]
fn replaced_sections_are_not_explained() {
    let yaml = BASE
        .replace(
            "pagination: { page_size: 10",
            "auth: { type: api_key, name: k, credential: test, location: header }\n  pagination: { page_size: 10",
        )
        .replace("    description:", "    auth: { type: bearer }\n    description:");
    let all = explained(&manifest(&yaml), "list", Operation::Harvest, &Overrides::default());
    let auth: Vec<_> = all.iter().filter(|one| one.path.starts_with("auth.")).collect();
    let shown: Vec<_> = auth.iter().map(|one| format!("{} {} {}", one.path, one.value, one.layer)).collect();
    assert_eq!(
        shown,
        [
            "auth.credential \"test\" platform",
            "auth.location \"HEADER\" platform",
            "auth.name \"Authorization\" platform",
            "auth.prefix \"Bearer \" platform",
            "auth.required true platform",
            "auth.type \"BEARER\" endpoint settings (reg_prov_http_cfg)",
        ]
    );
}

#[test]
fn headers_merge_without_case_and_named_entries_are_replaced() {
    let all = explained(&manifest(BASE), "list", Operation::Harvest, &Overrides::default());
    let paths: Vec<_> = all.iter().map(|one| one.path.as_str()).filter(|path| path.contains("headers")).collect();
    assert_eq!(paths, ["http.headers.X-A", "http.headers.accept"]);
    let yaml = BASE
        .replace("q: shared", "q: { expr: shared, default: x, pattern: \".*\" }")
        .replace("path: /shared", "path: /shared, max_redirects: 1")
        .replace("q: own", "q: { expr: own, required: true }");
    let all = explained(&manifest(&yaml), "list", Operation::Harvest, &Overrides::default());
    let query = all.iter().find(|one| one.path == "query.q").unwrap();
    assert_eq!(query.value, json!({ "expr": "own", "required": true }));
}

/// A section of another type inherits nothing from the provenance.
#[test]
fn section_of_another_type_inherits_nothing() {
    let yaml = BASE
        .replace(
            "pagination: { page_size: 10",
            "auth: { type: bearer, credential: c }\n  pagination: { type: page, base: 1, page_size: 10",
        )
        .replace("    description:", "    auth: { type: none }\n    description:");
    let snapshot = compile(&manifest(&yaml), "list", Operation::Harvest).unwrap().snapshot;
    let paging = snapshot.pagination.unwrap();
    assert_eq!((paging.base1, paging.max_page, paging.page_size), (None, None, Some(50)));
    assert!(snapshot.auth.is_none());
    let yaml = "\
provenance: bodies
defaults:
  http: { base_url: \"https://x.org\", method: post }
  response: { items_path: $.items, id_path: $.id }
  body: { json: { a: 1, deep: { b: 2 } } }
endpoints:
  same: { body: { json: { deep: { c: 3 } } } }
  form: { body: { form: { a: x } } }
  raw: { body: text }
  none: {}
";
    let body = |name: &str| {
        let snapshot = inspect(&manifest(yaml), name, Operation::Harvest, &Overrides::default()).unwrap().snapshot;
        json!([snapshot.http.body_json, snapshot.http.body_form, snapshot.http.body_template])
    };
    assert_eq!(body("same"), json!([{ "a": 1, "deep": { "b": 2, "c": 3 } }, null, null]));
    assert_eq!(body("form"), json!([null, { "a": "x" }, null]));
    assert_eq!(body("raw"), json!([null, null, "text"]));
    assert_eq!(body("none"), json!([{ "a": 1, "deep": { "b": 2 } }, null, null]));
}

// covers: ING-3.3-07
#[test]
fn problem_points_to_the_origin_of_its_value() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(BASE.contains(from), "{from}");
        let problems = patra_spec::read("t.yaml", &BASE.replacen(from, to, 1)).unwrap_err();
        assert_eq!(problems.to_string(), expected);
    };
    check(
        "page_size: 10, max_page: 9",
        "page_size: 10, max_page: 0",
        "t.yaml:5:42: defaults.pagination.max_page: expected at least 1\n  hint: remove it for no limit",
    );
    check(
        "rows: \"${ page.size }\"",
        "rows: \"${ page.sise }\"",
        "t.yaml:4:33: defaults.query.rows: there is no variable `page.sise`\n  hint: did you mean `page.size`?",
    );
    check(
        "path: /list",
        "path: list",
        "t.yaml:12:11: endpoints.list.path: a path begins with `/`\n  hint: write /list",
    );
    check(
        "items_path: $.short",
        "items_path: items",
        "t.yaml:13:17: endpoints.list.items_path: a path begins with `$`\n  hint: write `$.items`",
    );
    check(
        "id_path: $.id",
        "id_path: 5",
        "t.yaml:6:46: defaults.response.id_path: expected a path, or a list of paths, found the number 5",
    );
    // A missing value is reported at the endpoint, where its section begins.
    check(
        "type: token, ",
        "",
        "t.yaml:16:5: endpoints.list.pagination.type: `type` is missing\n  hint: one of token, offset, page, url, time",
    );
    // Two endpoints that inherit one mistake give one problem.
    check(
        "max_page: 9 }",
        "max_page: 0 }\n  fields: {}",
        "t.yaml:5:42: defaults.pagination.max_page: expected at least 1\n  hint: remove it for no limit",
    );
    let twice = format!("{BASE}{}", BASE.split("endpoints:\n").nth(1).unwrap().replace("  list:", "  other:"));
    let problems = patra_spec::read("t.yaml", &twice.replace("max_page: 9", "max_page: 0")).unwrap_err();
    assert_eq!(problems.as_slice().len(), 1, "{problems}");
}

#[test]
fn endpoint_definition_cannot_be_inherited() {
    let problems =
        patra_spec::read("t.yaml", &BASE.replace("  retry:", "  schedule: { every: PT1H }\n  retry:")).unwrap_err();
    assert!(problems.to_string().contains("defaults.schedule: unknown key `schedule`"), "{problems}");
    let mut document = manifest(BASE).to_document();
    document["defaults"]["kind"] = json!("work");
    let stored = Manifest::from_document(&document).unwrap();
    let problems = compile(&stored, "list", Operation::Harvest).unwrap_err();
    assert_eq!(problems.to_string(), "defaults.kind: this key belongs to an endpoint and cannot be in `defaults`");
}

#[test]
fn inherited_defaults_are_bounded() {
    let params: String = (0..300).map(|n| format!("p{n}: x, ")).collect();
    let endpoints: String = (0..300).map(|n| format!("  e{n}: {{}}\n")).collect();
    let yaml = format!("provenance: big\ndefaults: {{ query: {{ {params} }} }}\nendpoints:\n{endpoints}");
    let problems = patra_spec::read("t.yaml", &yaml).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "t.yaml:2:1: defaults: too many values for 300 endpoints to inherit\n  hint: together they may inherit 50000 values: move settings that few of them need to these endpoints"
    );
}

/// An endpoint built from all explained values compiles to the same snapshot: the explanation is complete and correct.
#[test]
fn explanation_is_complete() {
    let fast = Overrides::parse(["rate_limit.burst=1", "retry.max_attempts=1"]).unwrap();
    let mut compared = 0;
    for (yaml, overrides) in
        [(WORKS, Overrides::default()), (DEMO, fast), (EVERYTHING, Overrides::default()), (BASE, Overrides::default())]
    {
        let manifest = manifest(yaml);
        for name in manifest.endpoints.keys() {
            for operation in [Operation::Harvest, Operation::Update] {
                let Ok(compiled) = inspect(&manifest, name, operation, &overrides) else { continue };
                let mut document = manifest.to_document();
                document["endpoints"][name] = document_of(&explained(&manifest, name, operation, &overrides));
                // Other endpoints that it references still inherit their defaults.
                let defaults = document["defaults"].take();
                for (other, endpoint) in document["endpoints"].as_object_mut().unwrap() {
                    if other != name {
                        let all = explain(&manifest, other, Operation::Update, &Overrides::default());
                        *endpoint = all.map_or_else(|_| defaults.clone(), |all| document_of(&all));
                    }
                }
                document["defaults"] = json!({});
                let alone = Manifest::from_document(&document).unwrap();
                let again = inspect(&alone, name, operation, &Overrides::default());
                let again = again.unwrap_or_else(|problems| panic!("{name}: {problems}"));
                assert_eq!(again.snapshot, compiled.snapshot, "{name} {operation}");
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared}");
}

/// Builds a document from paths. Quoted keys are literal.
fn document_of(explained: &[ExplainedSetting]) -> Value {
    let mut document = Value::Object(Map::new());
    // Writing out the default order would declare it.
    for one in explained.iter().filter(|one| one.path != "pagination.order_by" || one.layer != SettingLayer::Platform) {
        let mut place = &mut document;
        for key in keys(&one.path) {
            place = place.as_object_mut().unwrap().entry(key).or_insert_with(|| json!({}));
        }
        *place = one.value.clone();
    }
    document
}

fn keys(path: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('[') {
            let end = quoted.find("\"]").unwrap() + 1;
            keys.push(serde_json::from_str(&quoted[..end]).unwrap());
            rest = &quoted[end + 1..];
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            keys.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    keys
}

/// Every value of a snapshot has a line in the explanation.
#[test]
fn every_value_of_a_snapshot_is_explained() {
    // Snapshot name to manifest name, if they differ; empty if the value is not a setting.
    let renamed: BTreeMap<&str, &str> = [
        ("provenance_code", ""),
        ("endpoint_code", ""),
        ("operation", ""),
        ("spec_fingerprint", ""),
        ("http.path_template", "http.path"),
        ("http.connect_timeout_ms", "http.connect_timeout"),
        ("http.read_timeout_ms", "http.read_timeout"),
        ("http.timeout_ms", "http.timeout"),
        ("http.headers_template", "http.headers"),
        ("http.query_template", "query"),
        ("http.body_template", "body"),
        ("http.body_json", "body.json"),
        ("http.body_form", "body.form"),
        ("auth.credential_ref", "auth.credential"),
        ("pagination.base1", "pagination.base"),
        ("window.timezone", "expr.timezone"),
        ("window.boundary_policy", ""),
        ("retry.policy", ""),
        ("retry.multiplier_percent", ""),
        ("retry.jitter_percent", ""),
        ("retry.min_delay_ms", "retry.min_delay"),
        ("retry.max_delay_ms", "retry.max_delay"),
        ("rate_limit.qps", "rate_limit.refill_rate_per_sec"),
        ("mapping.request_params", ""),
        ("mapping.output_fields", "fields"),
        ("mapping.filter", "record.filter"),
        ("dedup_scope", "record.dedup_scope"),
        ("emit", "record.emit"),
        ("mapping.add", "record.add"),
        ("mapping.remove", "record.remove"),
        ("two_phase.enabled", ""),
        ("two_phase.linked_endpoint", "update.detail"),
        ("two_phase.detail", ""),
        ("raw_keep", "raw.keep"),
        ("auth.session.headers_template", "auth.session.headers"),
        ("auth.session.body_form", "auth.session.body.form"),
        ("auth.session.body_template", "auth.session.body"),
        ("auth.session.body_json", "auth.session.body.json"),
    ]
    .into();
    for yaml in [WORKS, EVERYTHING, BASE] {
        let manifest = manifest(yaml);
        for name in manifest.endpoints.keys() {
            let Ok(compiled) = inspect(&manifest, name, Operation::Update, &Overrides::default()) else { continue };
            let explained_values = explained(&manifest, name, Operation::Update, &Overrides::default());
            let mut paths = Vec::new();
            flatten(&serde_json::from_str(&compiled.snapshot.body()).unwrap(), "", &mut paths);
            for path in paths {
                // In every snapshot, but settings only for some types.
                let alone = manifest.endpoints[name].two_phase.is_none() && path == "two_phase.missing";
                let alone = alone || path == "pagination.order_declared";
                let alone = alone || compiled.snapshot.reads_whole_list() && path.starts_with("window.");
                if path == "pagination.on_max_page" || path == "pagination.always_token" || alone {
                    continue;
                }
                let contains = |prefix: &str, path: &str| {
                    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                let known = renamed.iter().find(|(from, _)| contains(from, &path));
                let path =
                    known.map_or(
                        path.clone(),
                        |(from, to)| if to.is_empty() { String::new() } else { path.replacen(from, to, 1) },
                    );
                // The same value at two paths.
                let path = if path == "response.has_more_path"
                    && explained_values.iter().any(|one| one.path == "pagination.has_more_path")
                {
                    String::new()
                } else {
                    path
                };
                let there = path.is_empty()
                    || explained_values.iter().any(|one| contains(&one.path, &path) || contains(&path, &one.path));
                assert!(there, "{name}: {path} is not explained: {explained_values:#?}");
            }
        }
    }
}

/// Leaves of a snapshot, with manifest names.
fn flatten(value: &Value, path: &str, paths: &mut Vec<String>) {
    let Value::Object(map) = value else {
        paths.extend((*value != json!([])).then(|| path.to_owned()));
        return;
    };
    for (key, value) in map {
        // Names are not converted.
        if path.ends_with("_template")
            || path.ends_with("_form")
            || path.contains("json")
            || path == "mapping.add"
            || path == "params"
        {
            paths.push(format!("{path}.{key}"));
            continue;
        }
        let key: String = key
            .chars()
            .flat_map(|c| c.is_ascii_uppercase().then_some('_').into_iter().chain(c.to_lowercase()))
            .collect();
        flatten(value, &if path.is_empty() { key } else { format!("{path}.{key}") }, paths);
    }
}

// covers: ING-3.3-05
#[test]
fn compilation_has_labels() {
    let base = manifest(BASE);
    let labels = compile(&base, " LIST ", Operation::Harvest).unwrap().labels;
    assert_eq!(
        (labels.provenance.as_str(), labels.endpoint.as_str(), labels.operation),
        ("test", "list", Operation::Harvest)
    );
    assert_eq!(labels.version, base.version());
    let compiled = compile(&base, "list", Operation::Harvest).unwrap();
    assert_eq!(compiled.labels.hash, compiled.snapshot.fingerprint());
    // Another spelling is the same version, another value is not, and overrides change only the hash.
    assert_eq!(manifest(&BASE.replace("PT20S", "PT0M20S")).version(), labels.version);
    assert_ne!(manifest(&BASE.replace("PT20S", "PT21S")).version(), labels.version);
    let overrides = Overrides::parse(["pagination.page_size=20"]).unwrap();
    let overridden = compile_with(&base, "list", Operation::Harvest, &overrides).unwrap().labels;
    assert_eq!(overridden.version, labels.version);
    assert_ne!(overridden.hash, labels.hash);
    assert_eq!(SettingLayer::Trigger.to_string(), "trigger");
}

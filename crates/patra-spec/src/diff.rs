//! Compares two manifests value by value.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::layers::{join, leaves};
use crate::manifest::Manifest;

/// One changed value. `before` is `None` for a new value, `after` is `None` for a removed one.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestChange {
    /// For example `endpoints.works.pagination.page_size`.
    pub path: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Changes from `old` to `new`, ordered by path.
pub fn diff(old: Option<&Manifest>, new: &Manifest) -> Vec<ManifestChange> {
    let (mut before, after) = (old.map(values).unwrap_or_default(), values(new));
    let mut changes = Vec::new();
    for (path, after) in after {
        let before = before.remove(&path);
        if before.as_ref() != Some(&after) {
            changes.push(ManifestChange { path, before, after: Some(after) });
        }
    }
    changes.extend(before.into_iter().map(|(path, before)| ManifestChange { path, before: Some(before), after: None }));
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

fn values(manifest: &Manifest) -> BTreeMap<String, Value> {
    let Value::Object(mut document) = manifest.to_document() else { return BTreeMap::new() };
    let mut values = BTreeMap::new();
    let mut section = |path: &str, section: &Value| {
        let inner = leaves(section).into_iter().map(|(inner, value)| (format!("{path}{}{inner}", dot(&inner)), value));
        values.extend(inner.filter(|(inner, value)| inner != path || value.as_object().is_some()));
    };
    section("defaults", &document.remove("defaults").unwrap_or_default());
    for (name, endpoint) in document.remove("endpoints").iter().filter_map(Value::as_object).flatten() {
        section(&join("endpoints", name), endpoint);
    }
    for (at, test) in document.remove("tests").iter().filter_map(Value::as_array).flatten().enumerate() {
        values.insert(format!("tests[{at}]"), test.clone());
    }
    // A default that is not written is not a value.
    document.retain(|key, value| key != "allow_http" || *value == Value::Bool(true));
    values.extend(document);
    values
}

/// Separator between a section and its key; a quoted key needs none.
fn dot(inner: &str) -> &'static str {
    if inner.is_empty() || inner.starts_with('[') { "" } else { "." }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "\
provenance: test
defaults: { rate_limit: { burst: 3 } }
endpoints:
  list:
    http: { base_url: \"https://x.org\", headers: { Accept: a } }
    query: { a.b: \"1\" }
    response: { items_path: $.items, id_path: $.id }
    fields: { title: $.t }
tests: [{ name: one }]
";

    fn manifest(yaml: &str) -> Manifest {
        crate::read("t.yaml", yaml).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn check(from: &str, to: &str, expected: &[&str]) {
        let (old, new) = (manifest(BASE), manifest(&BASE.replacen(from, to, 1)));
        assert_eq!(show(&diff(Some(&old), &new)), expected, "{from} -> {to}");
        let back: Vec<_> = diff(Some(&new), &old).into_iter().map(|change| (change.path, change.after)).collect();
        let there: Vec<_> = diff(Some(&old), &new).into_iter().map(|change| (change.path, change.before)).collect();
        assert_eq!(back, there, "the way back is the other way round");
    }

    fn show(changes: &[ManifestChange]) -> Vec<String> {
        let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        changes.iter().map(|c| format!("{}: {} -> {}", c.path, text(&c.before), text(&c.after))).collect()
    }

    #[test]
    fn change_names_only_the_changed_value() {
        check("test", "test", &[]);
        check("burst: 3", "burst: 4", &["defaults.rate_limit.burst: 3 -> 4"]);
        check("rate_limit: { burst: 3 }", "", &["defaults.rate_limit.burst: 3 -> -"]);
        check(
            "Accept: a",
            "Accept: b, X-A: c",
            &["endpoints.list.http.headers.Accept: \"a\" -> \"b\"", "endpoints.list.http.headers.X-A: - -> \"c\""],
        );
        check("a.b: \"1\"", "a.b: \"2\"", &["endpoints.list.query[\"a.b\"]: \"1\" -> \"2\""]);
        check(
            "title: $.t",
            "title: { path: $.t, required: true }",
            &["endpoints.list.fields.title: \"$.t\" -> {\"path\":\"$.t\",\"required\":true}"],
        );
        check("{ name: one }", "{ name: one }, { name: two }", &["tests[1]: - -> {\"name\":\"two\"}"]);
        check("provenance: test", "provenance: test\nallow_http: true", &["allow_http: - -> true"]);
    }

    #[test]
    fn a_first_manifest_is_new_in_every_value() {
        let changes = show(&diff(None, &manifest(BASE)));
        assert_eq!(
            changes,
            [
                "defaults.rate_limit.burst: - -> 3",
                "endpoints.list.fields.title: - -> \"$.t\"",
                "endpoints.list.http.base_url: - -> \"https://x.org\"",
                "endpoints.list.http.headers.Accept: - -> \"a\"",
                "endpoints.list.query[\"a.b\"]: - -> \"1\"",
                "endpoints.list.response.id_path: - -> \"$.id\"",
                "endpoints.list.response.items_path: - -> \"$.items\"",
                "name: - -> \"test\"",
                "provenance: - -> \"test\"",
                "tests[0]: - -> {\"name\":\"one\"}",
            ]
        );
    }
}

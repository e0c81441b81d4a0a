//! Output of commands on a small manifest, and responses of the API, as snapshots.

use serde_json::Value;

use crate::snapshot::{check, redacted, transcript};
use crate::support::{Workspace, http, manifest};

#[test]
fn commands_on_a_small_manifest_print_their_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let small = manifest("http://127.0.0.1:1");
    std::fs::write(folder.path().join("small.yaml"), &small).unwrap();
    std::fs::write(folder.path().join("changed.yaml"), small.replace("page_size: 50", "page_size: 20")).unwrap();
    let print = |commands: &[&[&str]]| {
        let all: Vec<_> = commands.iter().map(|args| transcript(folder.path(), args)).collect();
        all.join("\n")
    };
    check("validate", &print(&[&["validate", "small.yaml"], &["validate", "small.yaml", "-o", "json"]]));
    check(
        "apply",
        &print(&[
            &["apply", "-f", "small.yaml", "--dry-run"],
            &["apply", "-f", "small.yaml"],
            &["apply", "-f", "small.yaml"],
            &["apply", "-f", "changed.yaml"],
            &["apply", "-f", "small.yaml", "-o", "ndjson"],
        ]),
    );
    check(
        "get",
        &print(&[
            &["get", "provenances"],
            &["get", "endpoints", "-o", "json"],
            &["get", "tasks"],
            &["get", "tasks", "-o", "json"],
            &["get", "overview"],
            &["get", "alerts"],
            &["get", "gates"],
            &["get", "spec", "far", "records", "--explain"],
        ]),
    );
    check(
        "operations",
        &print(&[
            &["pause", "source", "far", "--reason", "maintenance", "--by", "ann"],
            &["pause", "source", "far", "--reason", "maintenance", "--by", "ann"],
            &["get", "holds"],
            &["resume", "source", "far", "--by", "ann"],
            &["outbox", "retry"],
            &["archive"],
            &["source", "list"],
            &["source", "add", "rss", "https://example.com/feed.xml"],
            &["source", "add", "rsss", "https://example.com/other.xml"],
            &["project", "create", "lottery"],
            &["project", "create", "lottery"],
            &["credential", "list"],
            &["migrate"],
        ]),
    );
}

/// A response as text: status, then the body.
fn response(base: &str, key: Option<&str>, path: &str, body: Option<&str>, place: &Workspace) -> String {
    let (status, value) = http(&format!("{base}{path}"), key, body);
    let body_text = body.map_or_else(String::new, |body| format!(" {body}"));
    let method = if body.is_some() { "POST" } else { "GET" };
    let text = match value {
        Value::String(text) => text,
        value => serde_json::to_string_pretty(&value).unwrap(),
    };
    format!("{method} {path}{body_text}\n{status}\n{}\n", redacted(&text, place.folder.path()))
}

#[test]
fn responses_and_error_envelopes_of_the_api_equal_their_snapshots() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    let serving = crate::cli::serve_with(&place, &["--role", "api"]);
    let (base, key) = (format!("http://{}", serving.address), Some(serving.key.as_str()));
    let all = |requests: &[(&str, Option<&str>)], key: Option<&str>| -> String {
        let texts: Vec<_> = requests.iter().map(|(path, body)| response(&base, key, path, *body, &place)).collect();
        texts.join("\n")
    };
    check(
        "http_responses",
        &all(
            &[
                ("/api/v1/endpoints", None),
                ("/api/v1/tasks", None),
                ("/api/v1/manifests", None),
                ("/api/v1/outbox/retry", Some("{}")),
                ("/api/v1/holds", Some(r#"{"provenance":"far","reason":"maintenance","by":"ann"}"#)),
                ("/api/v1/holds", None),
                ("/api/sources", None),
                ("/api/collector/status", None),
            ],
            key,
        ),
    );
    check(
        "http_errors_without_key",
        &all(&[("/api/v1/items", None), ("/api/sources", None), ("/api/search", Some("{}"))], None),
    );
    check(
        "http_errors",
        &all(
            &[
                ("/api/v1/nonsense", None),
                ("/nonsense", None),
                ("/api/v1/tasks?limit=501", None),
                ("/api/v1/tasks?colour=red", None),
                ("/api/v1/tasks?status=faild", None),
                ("/api/v1/jobs/nothing", None),
                ("/api/v1/jobs", Some(r#"{"provenance":"fra","endpoint":"records"}"#)),
                ("/api/v1/jobs", Some(r#"{"provenance":"far","endpoint":"records","operation":"HARVST"}"#)),
                ("/api/v1/jobs", Some("no JSON")),
                ("/api/v1/manifests", Some("provenance: far\nendpoints: {}\n")),
                ("/api/v1/outbox/77/retry", Some("{}")),
                ("/api/v1/runs/1/batches/1/replay", Some("{}")),
                ("/api/admin/scrape", Some(r#"{"usernames":["a"]}"#)),
                ("/api/search", Some("{}")),
                ("/api/note/detail", Some(r#"{"platform":"xhs","note_ids":[]}"#)),
                ("/api/sources/77", None),
            ],
            key,
        ),
    );
}

/// Paths of the last release keep working for one release, and the document does not list them.
#[test]
fn old_paths_work_and_are_not_described() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    let serving = crate::cli::serve_with(&place, &["--role", "api"]);
    let (base, key) = (format!("http://{}", serving.address), Some(serving.key.as_str()));
    for (old, new) in [
        ("/api/v1/outbox/retell", "/api/v1/outbox/retry"),
        ("/api/v1/outbox/77/retell", "/api/v1/outbox/77/retry"),
        ("/api/v1/runs/1/batches/1/blackbox", "/api/v1/runs/1/batches/1/bundle"),
    ] {
        let post = |path: &str| http(&format!("{base}{path}"), key, Some(r#"{"reason":"x"}"#));
        assert_eq!(post(old), post(new), "{old} does the same as {new}");
        assert_ne!(post(new).0, 405, "{new}");
    }
    let (_, document) = http(&format!("{base}/openapi.json"), key, None);
    let paths: Vec<_> = document["paths"].as_object().unwrap().keys().collect();
    assert!(paths.iter().any(|path| *path == "/api/v1/outbox/retry"), "{paths:?}");
    assert!(!paths.iter().any(|path| path.contains("retell") || path.contains("blackbox")), "{paths:?}");
}

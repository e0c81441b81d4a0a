//! Isolation of projects: a caller who tries every path with the ids of another project gets nothing, and cannot
//! distinguish it from what never existed.

mod whole_api;

use patra_upstream::Script;
use serde_json::{Value, json};

use crate::crawler::server::{Response, TestServer, WITH_COLLECTOR, mock_api};
use crate::support::{On, Workspace, manifest};

/// The project `rich` has everything that a project can have; the key is for `poor` alone.
struct Two {
    server: TestServer,
    poor: String,
    job: String,
    source: i64,
}

fn two(place: Workspace) -> Two {
    two_with(place, &[])
}

fn two_with(place: Workspace, variables: &[(&str, &str)]) -> Two {
    for key in ["rich", "poor"] {
        assert!(place.run(&["project", "create", key]).status.success());
    }
    let made = place.run(&["key", "create", "of the poor", "--scope", "admin", "--for", "poor"]);
    let poor = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(poor.starts_with("patra_"), "{}", String::from_utf8_lossy(&made.stderr));
    let mock_api = mock_api(Script::default());
    place.apply(&crate::crawler::server::manifest(&mock_api));
    place.apply(&(manifest(mock_api.base_url()) + "    record: { emit: true }\n"));
    let ran = place.run(&["--project", "rich", "run", "far", "records", "--to", "2024-01-03T12:00:00Z"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let added = place.run(&["--project", "rich", "source", "add", "rss", "https://rich.example/feed", "-o", "ndjson"]);
    let source = serde_json::from_slice::<Value>(&added.stdout).unwrap()["id"].as_i64().unwrap();
    let jobs = place.list(&["jobs"]);
    let job = jobs.iter().find(|job| job["provenance_code"] == "far").unwrap();
    let job = job["public_id"].as_str().unwrap().to_owned();
    // A server shows its first key when there is none; here one exists.
    let admin = String::from_utf8(place.run(&["key", "create", "admin", "--scope", "admin"]).stdout).unwrap();
    let server = TestServer::open_with(place, mock_api, variables, Some(admin.trim().to_owned()));
    let doc = json!({ "uri": "doc:1", "content": "https://rich.example/secret-page" });
    let head = "X-Project-Key: rich\r\n";
    let call = |path: &str, body: &Value| {
        server.call_with(Some(&server.key), "POST", path, None, Some(&body.to_string()), head)
    };
    assert_eq!(call("/api/v1/documents", &doc).status, 201);
    let extracted = call("/api/v1/resource_pool/extract/from-documents", &json!({}));
    assert!(extracted.body["data"]["result"]["urls_new"].as_u64() > Some(0), "{}", extracted.body);
    Two { server, poor, job, source }
}

impl Two {
    fn poor(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        self.server.call_as(Some(&self.poor), method, path, None, body.map(Value::to_string).as_deref())
    }
}

// covers: POOL-08, POOL-18, POOL-120, MAP-C-19
on_both!(routes_show_nothing_of_other_projects);
async fn routes_show_nothing_of_other_projects(on: On) {
    for place in on.places() {
        let two = two(place);
        let mut walked = 0;
        // Lists are empty, and the ids of another project's rows are unknown.
        for view in [
            "jobs",
            "plans",
            "slices",
            "tasks",
            "runs",
            "batches",
            "cursors",
            "cursor-events",
            "items",
            "quarantine",
            "signals",
            "candidates",
            "outbox",
        ] {
            let answer = two.poor("GET", &format!("/api/v1/{view}"), None);
            assert_eq!((answer.status, &answer.body["data"]["items"]), (200, &json!([])), "{view}: {}", answer.body);
            walked += 1;
        }
        for path in ["/api/sources", "/api/raw-items", "/api/raw-items/stats"] {
            assert_eq!(two.poor("GET", path, None).body, json!([]), "{path}");
        }
        assert_eq!(two.poor("GET", "/api/v1/resource_pool/urls", None).body["data"]["items"], json!([]));
        let (job, source) = (&two.job, two.source);
        let not_there = [
            ("GET", format!("/api/v1/jobs/{job}")),
            ("POST", format!("/api/v1/jobs/{job}/cancel")),
            ("POST", "/api/v1/plans/1/cancel".to_owned()),
            ("POST", "/api/v1/slices/1/cancel".to_owned()),
            ("POST", "/api/v1/tasks/1/cancel".to_owned()),
            ("GET", "/api/v1/plans/1/lineage".to_owned()),
            ("POST", "/api/v1/runs/1/batches/1/replay".to_owned()),
            ("POST", "/api/v1/runs/1/batches/1/redrive".to_owned()),
            ("POST", "/api/v1/tasks/1/redrive".to_owned()),
            ("POST", "/api/v1/quarantine/1/abandon".to_owned()),
            ("POST", "/api/v1/outbox/1/retry".to_owned()),
            ("GET", format!("/api/sources/{source}")),
            ("DELETE", format!("/api/sources/{source}")),
            ("POST", format!("/api/sources/{source}/pause")),
            ("POST", format!("/api/sources/{source}/resume")),
            ("POST", format!("/api/sources/{source}/collect")),
            ("GET", format!("/api/admin/scrape/{job}")),
        ];
        for (method, path) in &not_there {
            let mine = two.poor(method, path, None);
            assert_eq!(mine.status, 404, "{method} {path}: {}", mine.body);
            // The same error as for unknown ids.
            let digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
            let never = two.poor(
                method,
                &path.replace(job.as_str(), "never").replace("/1/", "/777/").replace(&format!("/{source}"), "/777"),
                None,
            );
            let message = |answer: &Response| {
                digits(&answer.body["error"]["message"].to_string()).replace(&digits(job), "").replace("never", "")
            };
            assert_eq!((never.status, message(&never)), (404, message(&mine)), "{method} {path}");
            walked += 1;
        }
        let box_of = json!({ "reason": "curious" });
        assert_eq!(two.poor("POST", "/api/v1/runs/1/batches/1/bundle", Some(&box_of)).status, 404);
        let ids = json!({ "filters": { "document_ids": [1] }, "project_key": "poor" });
        assert_eq!(two.poor("POST", "/api/v1/resource_pool/extract/from-documents", Some(&ids)).status, 404);
        let tasks = json!({ "task_ids": [job], "project_key": "poor" });
        assert_eq!(two.poor("POST", "/api/v1/resource_pool/capture/from-tasks", Some(&tasks)).status, 404);
        // Paths that belong to no project are for administration.
        for path in [
            "holds",
            "gates",
            "manifests",
            "manifests/far",
            "specs/far/records",
            "credentials",
            "keys",
            "exports",
            "provenances",
        ] {
            let answer = two.poor("GET", &format!("/api/v1/{path}"), None);
            assert_eq!(answer.status, 403, "{path}: {}", answer.body);
        }
        assert_eq!(two.poor("GET", "/metrics", None).status, 403);
        assert_eq!(two.poor("GET", "/api/v1/crawler/cookies", None).status, 403);
        // The key is refused for another project, whether or not it exists.
        for project in ["rich", "never"] {
            let head = format!("X-Project-Key: {project}\r\n");
            let answer = two.server.call_with(Some(&two.poor), "GET", "/api/v1/items", None, None, &head);
            assert_eq!((answer.status, &answer.body["error"]["code"]), (403, &json!("FORBIDDEN")), "{project}");
        }
        let shown = two.poor("GET", "/api/v1/projects", None);
        assert_eq!(shown.body["data"]["items"].as_array().map(Vec::len), Some(1));
        let shared = json!({ "project_key": "poor", "scope": "shared" });
        assert_eq!(two.poor("POST", "/api/v1/resource_pool/extract/from-documents", Some(&shared)).status, 403);
        assert!(walked > 25);
        // A repeated idempotency key does not reveal another project's job.
        let taken = json!({ "provenance": "far", "endpoint": "records", "public_id": job });
        let fired = two.poor("POST", "/api/v1/jobs", Some(&taken));
        assert_eq!((fired.status, &fired.body["data"]["existed"]), (202, &json!(false)), "{}", fired.body);
    }
}

// covers: POOL-12, POOL-17
on_both!(commands_show_nothing_of_other_projects);
async fn commands_show_nothing_of_other_projects(on: On) {
    for place in on.places() {
        let mut two = two(place);
        two.server.stop();
        let place = &two.server.place;
        let poor = |args: &[&str]| {
            let output = place.patra().args(["--project", "poor"]).args(args).output().unwrap();
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
            )
        };
        for view in ["jobs", "plans", "slices", "tasks", "runs", "batches", "cursors", "cursor-events", "items"] {
            let (code, text) = poor(&["get", view, "-o", "ndjson"]);
            assert_eq!((code, text.trim()), (Some(0), ""), "{view}");
        }
        let source = two.source.to_string();
        for args in [
            &["cancel", "plan", "1"][..],
            &["cancel", "task", "1"],
            &["cancel", "slice", "1"],
            &["cancel", "job", &two.job],
            &["pause", "task", "1"],
            &["pause", "plan", "1"],
            &["pause", "slice", "1"],
            &["resume", "task", "1"],
            &["replay", "1", "1"],
            &["replay", "1", "1", "--redrive"],
            &["get", "lineage", "1"],
            &["source", "pause", &source],
            &["source", "resume", &source],
            &["source", "fetch", &source],
            &["source", "remove", &source],
            &["pool", "extract", "--document", "1"],
            &["pool", "look-back", "--job", &two.job],
        ] {
            let (code, text) = poor(args);
            assert_ne!(code, Some(0), "{args:?}: {text}");
            assert!(text.contains("there is no") || text.contains("in another project"), "{args:?}: {text}");
        }
        assert!(poor(&["pause", "source", "far"]).1.contains("affects all projects"));
        assert!(poor(&["source", "list", "-o", "ndjson"]).1.trim().is_empty());
        assert!(poor(&["pool", "list", "-o", "ndjson"]).1.starts_with("page 1 of 0"), "{}", poor(&["pool", "list"]).1);
        let (code, text) = {
            let output = place.patra().args(["--project", "never", "pool", "list"]).output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        assert!(code != Some(0) && text.contains("there is no project"), "{text}");
        // The same harvest for `poor`: its own records, from the beginning.
        let ran = poor(&["run", "far", "records", "--to", "2024-01-03T12:00:00Z"]);
        assert_eq!(ran.0, Some(0), "{}", ran.1);
        let (_, items) = poor(&["get", "items", "-o", "ndjson", "--limit", "0"]);
        assert_eq!(items.lines().count(), 10, "{items}");
    }
}

// covers: POOL-95, MAP-C-01, POOL-94
on_both!(a_manifest_may_be_for_one_project_alone);
async fn a_manifest_may_be_for_one_project_alone(on: On) {
    for place in on.places() {
        let mut two = two(place);
        let own = manifest(two.server.mock_api.base_url()).replace("provenance: far", "provenance: own\nproject: rich");
        let sent = |yaml: &str| {
            let head = "Content-Type: application/yaml\r\n";
            two.server.call_with(Some(&two.server.key), "POST", "/api/v1/manifests", None, Some(yaml), head)
        };
        let unknown = sent(&own.replace("project: rich", "project: nobodys"));
        assert!(unknown.status == 400 || unknown.status == 422, "{}", unknown.body);
        assert!(unknown.text.contains("patra project create nobodys"), "{}", unknown.body);
        assert_eq!(sent(&own).status, 201);
        let body = json!({ "provenance": "own", "endpoint": "records", "to": "2024-01-03T12:00:00Z" });
        let foreign = two.poor("POST", "/api/v1/jobs", Some(&body));
        let never = two.poor("POST", "/api/v1/jobs", Some(&json!({ "provenance": "never", "endpoint": "records" })));
        assert_eq!((foreign.status, never.status), (404, 404), "{} {}", foreign.body, never.body);
        let message = |answer: &Response| answer.body["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!(message(&foreign), message(&never).replace("never", "own"));
        let seen = |project: &str| {
            let path = format!("/api/v1/ingest/news-resources?project_key={project}");
            let found = two.server.call("GET", &path, None, None).body["data"]["items"].clone();
            let found =
                found.as_array().unwrap().iter().map(|item| (item["resource_id"].clone(), item["scope"].clone()));
            found.collect::<Vec<_>>()
        };
        assert!(seen("rich").contains(&(json!("own"), json!("project"))), "{:?}", seen("rich"));
        assert!(!seen("poor").iter().any(|(code, _)| code == "own"), "{:?}", seen("poor"));
        two.server.stop();
        let run = |project: &str| {
            let args = ["--project", project, "run", "own", "records", "--to", "2024-01-03T12:00:00Z"];
            two.server.place.run(&args).status.success()
        };
        assert!(run("rich") && !run("poor"));
        // Other projects cannot read it either.
        let folder = two.server.place.folder.path().join("out");
        let folder = folder.to_str().unwrap();
        for args in [&["get", "manifest", "own"][..], &["get", "spec", "own", "records"]] {
            let shown = |project: &str| two.server.place.run(&[&["--project", project], args].concat());
            assert!(shown("rich").status.success(), "{args:?}");
            let refused = shown("poor");
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && said.contains("no manifest is applied"), "{args:?}: {said}");
            assert!(refused.stdout.is_empty(), "{args:?}");
        }
        let exported = |project: &str| {
            let done =
                two.server.place.run(&["--project", project, "get", "manifest", "--all", folder, "-o", "ndjson"]);
            String::from_utf8(done.stdout).unwrap()
        };
        assert!(exported("rich").contains("own.yaml") && !exported("poor").contains("own.yaml"));
    }
}

//! The command line: output, exit codes and error messages. Snapshots of texts are in `mistakes.rs` and `outputs.rs`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Output, Stdio};

use patra_upstream::{Dataset, FaultSchedule, MockApi, Script};

use crate::support::{On, Workspace, http, manifest};

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn check_error(output: &Output, exit: i32, parts: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(exit), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

pub(crate) fn upstream(records: usize, script: Script) -> MockApi {
    MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, records), script).unwrap()
}

// covers: ING-2.5-01, ING-2.5-02, ING-2.5-03, ING-2.5-04, ING-2.5-05, ING-2.5-06, ING-DOD-06
on_both!(harvest_collects_items_and_the_next_one_only_new_ones);
async fn harvest_collects_items_and_the_next_one_only_new_ones(on: On) {
    let server = upstream(1_000, Script { visible: Some(600), ..Script::default() });
    on.run(|place| {
        server.script().update(|script| script.visible = Some(600));
        place.apply(&manifest(server.base_url()));
        let first = place.run(&["run", "far", "records", "--to", "2024-01-01T10:00:00Z", "-o", "json"]);
        assert!(first.status.success(), "{}", stderr(&first));
        let report: serde_json::Value = serde_json::from_str(&stdout(&first)).unwrap();
        let expected = server.dataset().ids_in(0, micros("2024-01-01T10:00:00Z")).count();
        assert_eq!(report["inserted"], expected);
        assert_eq!(report["cursor"], "2024-01-01T10:00:00Z");

        server.script().update(|script| script.visible = None);
        let second = place.run(&["run", "far", "records", "--to", "2024-01-02", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&stdout(&second)).unwrap();
        assert_eq!(report["inserted"], server.dataset().len() - expected);
        assert_eq!(
            (&report["updated"], &report["skipped"]),
            (&0.into(), &0.into()),
            "nothing was read twice: {report}"
        );

        let third = place.run(&["run", "far", "records", "--to", "2024-01-02", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&stdout(&third)).unwrap();
        assert_eq!(report["pages"], 0);
        let item = &place.list(&["items"])[0];
        assert!(item["fields"]["title"].is_string() && item["payload"]["id"] == item["dedup_key"]);
    });
}

fn micros(text: &str) -> i64 {
    text.parse::<patra_core::Ts>().unwrap().micros()
}

// covers: ING-DOD-17
#[tokio::test(flavor = "multi_thread")]
async fn failing_api_is_reported_and_halts_the_source_until_resumed() {
    // 404 on the first page of one slice is final for that slice; the others are collected and the cursor waits.
    let server = upstream(1_000, Script { require_header: Some(("X-Key".into(), "k".into())), ..Script::default() });
    let place = Workspace::sqlite();
    place.apply(&manifest(server.base_url()));
    let output = place.run(&["run", "far", "records", "--to", "2024-01-01T10:00:00Z"]);
    check_error(&output, 1, &["slices failed", "hint: the rest is halted; fix the cause, then `patra resume hold 1`"]);
    let tasks = place.list(&["tasks", "--status", "FAILED"]);
    assert_eq!(tasks[0]["error"]["code"], "UPSTREAM_AUTH_FAILED");
    assert_eq!(place.list(&["cursors"])[0]["normalized_instant"], serde_json::Value::Null);
    let batches = place.list(&["batches"]);
    assert!(batches.iter().all(|batch| batch["status_code"] == "FAILED" && batch["request_digest"]["method"] == "GET"));

    // The halt stays until somebody resumes the source, even if the API works again.
    server.script().update(|script| script.require_header = None);
    let (run, requests) = (["run", "far", "records", "--to", "2024-01-01T10:00:00Z"], server.stats().data_requests);
    check_error(&place.run(&run), 1, &["the work is halted (BREAK, source=far)", "patra resume hold 1"]);
    assert_eq!(server.stats().data_requests, requests);
    assert!(place.run(&["resume", "source", "far", "--reason", "fixed"]).status.success());
    check_error(&place.run(&["resume", "source", "far"]), 78, &["source far is not paused"]);
    assert!(place.run(&run).status.success());
    assert_eq!(place.list(&["cursors"])[0]["normalized_instant"], "2024-01-01T10:00:00.000000000Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_tasks_of_an_interrupted_run_count() {
    let server = upstream(1_000, Script { latency_ms: 400, ..Script::default() });
    let place = Workspace::sqlite();
    place.apply(&manifest(server.base_url()));
    let run = ["run", "far", "records", "--to", "2024-01-01T10:00:00Z"];
    let mut child = place.patra().args(run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while server.stats().data_requests == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    server.script().set(Script { require_header: Some(("X-Key".into(), "k".into())), ..Script::default() });
    check_error(&place.run(&run), 1, &["slices failed; the last one because the upstream", "401"]);
}

// covers: ING-15-01
#[tokio::test(flavor = "multi_thread")]
async fn repeated_page_token_fails_the_slice() {
    let server = upstream(1_000, Script { repeat_token_after: Some(2), ..Script::default() });
    let place = Workspace::sqlite();
    place.apply(&manifest(server.base_url()));
    let output = place.run(&["run", "far", "records", "--to", "2024-01-01T05:00:00Z"]);
    check_error(&output, 1, &["1 of 1 slices failed"]);
    let task = &place.list(&["tasks"])[0];
    assert!(task["error"]["message"].as_str().unwrap().contains("same page again"), "{task}");
}

// covers: ING-4.3-12
#[tokio::test(flavor = "multi_thread")]
async fn smaller_pages_than_requested_are_read_to_the_end() {
    let server = upstream(1_000, Script { page_size_max: 100, ..Script::default() });
    for (path, paging, query) in [
        ("/offset", "type: offset", r#"offset: "${ page.offset }", limit: "${ page.size }""#),
        ("/page", "type: page, base: 1", r#"page: "${ page.no }", size: "${ page.size }""#),
    ] {
        let place = Workspace::sqlite();
        let window = r#"from: "${ window.from | iso }", to: "${ window.to | iso }""#;
        let text = manifest(server.base_url())
            .replace("path: /cursor", &format!("path: {path}"))
            .replace(r#"cursor: "${ page.token }", rows: "${ page.size }", from: "${ window.from | iso }", to: "${ window.to | iso }""#, &format!("{query}, {window}"))
            .replace(r#"type: token, next_token_path: "$.message['next-cursor']", page_size: 50"#, &format!("{paging}, page_size: 250"))
            .replace("$.message.items\"", "$.items\", total_path: \"$.total\"")
            .replace("PT6H", "P1D");
        place.apply(&text);
        let output = place.run(&["run", "far", "records", "--to", "2024-01-02"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(place.list(&["items"]).len(), 1_000, "{path}");
    }
}

// covers: ING-4.10-37, ING-4.10-17
#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_respected() {
    let script = Script {
        e429: FaultSchedule::at([2]),
        retry_after: patra_upstream::RetryAfter::Seconds(1),
        ..Script::default()
    };
    let server = upstream(600, script);
    let place = Workspace::sqlite();
    place.apply(&manifest(server.base_url()));
    let output = place.run(&["run", "far", "records", "--to", "2024-01-02", "--concurrency", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let stats = server.stats();
    assert_eq!((stats.r429, stats.too_early), (1, 0));
}

#[test]
fn wrong_manifest_is_reported_with_line_expectation_and_hint() {
    let place = Workspace::sqlite();
    let wrong = manifest("http://127.0.0.1:1")
        .replace("page_size: 50", "pagesize: 50")
        .replace("type: token", "type: tokens")
        .replace("id_path: \"$.id\"", "id_path: \"id\"")
        .replace("${ page.token }", "${ page.tokn }")
        .replace("max_window: PT6H", "max_window: 6 hours");
    let file = place.file("wrong.yaml", &wrong);
    for command in [&["validate", file.as_str()][..], &["apply", "-f", file.as_str()][..]] {
        let output = place.run(command);
        check_error(
            &output,
            78,
            &[
                "wrong.yaml:9:",
                "tokens",
                "did you mean",
                "pagesize",
                "page.tokn",
                "6 hours",
                "error[CONFIG_ERROR]: ",
                "hint: ",
            ],
        );
    }
    check_error(&place.run(&["get", "provenances"]), 78, &["there is no database at", "hint: `patra apply"]);
    check_error(&place.run(&["validate", "/dev/zero"]), 78, &["/dev/zero is not a manifest", "1024 KiB"]);
    check_error(&place.run(&["validate", "nowhere.yaml"]), 78, &["cannot read nowhere.yaml", "hint: "]);
    check_error(&place.run(&["validate", &place.file("x.yaml", "a: [1\nb: 2")]), 78, &["x.yaml:"]);
}

#[test]
fn wrong_usage_exits_with_64_and_lists_what_is_possible() {
    let place = Workspace::sqlite();
    check_error(&place.run(&["harvest"]), 64, &["unrecognized subcommand"]);
    check_error(&place.run(&["get", "nonsense"]), 64, &["one of: provenances, endpoints"]);
    check_error(&place.run(&["run", "a", "b", "--from", "tomorrow"]), 64, &["RFC 3339"]);
    check_error(
        &place.run(&["run", "a", "b", "--from", "2024-01-02", "--to", "2024-01-01"]),
        64,
        &["--from must be before --to"],
    );
    check_error(&place.run(&["get", "items", "--limit", "0"]), 64, &["ndjson"]);
    check_error(&place.run(&["get", "schedules", "--plan", "1"]), 64, &["`schedules` cannot be filtered by --plan"]);
}

#[test]
fn unknown_sources_are_refused_before_any_work() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    check_error(
        &place.run(&["run", "fra", "records"]),
        78,
        &["no manifest is applied for `fra`", "patra get provenances"],
    );
    check_error(&place.run(&["run", "far", "record"]), 78, &["`far` has no endpoint `record`", "it has: records"]);
    assert!(place.list(&["jobs"]).is_empty());
}

#[test]
fn unusable_database_is_one_clear_error() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    let file = place.folder.path().join("data/patra.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute("UPDATE patra_migration SET version = 9999", []).unwrap();
    drop(connection);
    check_error(&place.run(&["migrate"]), 78, &["newer version", "9999", "hint: "]);
    check_error(&place.run(&["get", "items"]), 78, &["newer version"]);
    std::fs::write(&file, "this is not a database, whatever its name is; long enough to be examined").unwrap();
    check_error(&place.run(&["migrate"]), 78, &["is not a database", "hint: "]);

    let blocked = place.file("blocked", "a file where a folder should be");
    let output = place.patra().args(["--data", &format!("{blocked}/data"), "migrate"]).output().unwrap();
    check_error(&output, 78, &["cannot be created", "hint: "]);
    let secret = "postgres://someone:hunter2@127.0.0.1:1/patra";
    let output = place.patra().args(["--database-url", secret, "migrate"]).output().unwrap();
    check_error(&output, 78, &["no PostgreSQL server responds at 127.0.0.1:1", "hint: "]);
    assert!(!stderr(&output).contains("hunter2"));
}

#[test]
fn private_address_is_refused_unless_allowed() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:9"));
    let output = place
        .patra()
        .env_remove("PATRA_ALLOW_NET")
        .args(["run", "far", "records", "--to", "2024-01-01T01:00:00Z"])
        .output()
        .unwrap();
    check_error(&output, 1, &["1 of 1 slices failed"]);
    assert_eq!(place.list(&["tasks"])[0]["error"]["code"], "FORBIDDEN");
}

/// A running `patra serve`, killed at the end.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
    pub(crate) key: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn serve(place: &Workspace) -> Serving {
    serve_with(place, &[])
}

pub(crate) fn serve_with(place: &Workspace, options: &[&str]) -> Serving {
    let mut command = place.patra();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(options);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let (mut address, mut key, mut line) = (None, None, String::new());
    while address.is_none() && lines.read_line(&mut line).unwrap() > 0 {
        if let Some(found) = line.trim().strip_prefix("patra_") {
            key = Some(format!("patra_{found}"));
        }
        address = line.split("address=").nth(1).map(|rest| rest.trim().to_owned());
        line.clear();
    }
    std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
    Serving { child, address: address.unwrap(), key: key.unwrap_or_default() }
}

on_both!(server_prints_its_first_key_once_does_jobs_and_stops_on_sigterm);
async fn server_prints_its_first_key_once_does_jobs_and_stops_on_sigterm(on: On) {
    let server = upstream(300, Script::default());
    on.run(|place| {
        place.apply(&manifest(server.base_url()));
        let mut serving = serve(place);
        let base = format!("http://{}", serving.address);
        assert_eq!(http(&format!("{base}/healthz"), None, None).0, 200);
        assert_eq!(http(&format!("{base}/readyz"), None, None).0, 200);
        assert_eq!(http(&format!("{base}/health"), None, None).1["status"], "ok");
        assert_eq!(place.run(&["health", "--url", &base]).status.code(), Some(0));
        let (status, refused) = http(&format!("{base}/api/v1/items"), None, None);
        assert_eq!(
            (status, &refused["error"]["code"], &refused["meta"]["request_id"]),
            (401, &"UNAUTHORIZED".into(), &"mine".into())
        );

        let key = Some(serving.key.as_str());
        let job = r#"{"provenance":"far","endpoint":"records","to":"2024-01-01T05:00:00Z","public_id":"mine-1"}"#;
        assert_eq!(http(&format!("{base}/api/v1/jobs"), key, Some(job)).0, 202);
        assert_eq!(http(&format!("{base}/api/v1/jobs"), key, Some(job)).0, 200, "the same id is the same job");
        let done = (0..200).any(|_| {
            std::thread::yield_now();
            let (_, response) = http(&format!("{base}/api/v1/jobs/mine-1"), key, None);
            response["meta"]["finished"] == true
        });
        assert!(done, "the job did not finish");
        let (_, response) = http(&format!("{base}/api/v1/jobs/mine-1"), key, None);
        assert_eq!(response["data"]["inserted"], server.dataset().ids_in(0, micros("2024-01-01T05:00:00Z")).count());

        if place.database_url().is_none() {
            check_error(&place.run(&["run", "far", "records"]), 78, &["in use by another process (pid ", "hint: "]);
        }
        assert!(!place.list(&["items"]).is_empty(), "reading works next to the server");

        let pid = serving.child.id();
        assert!(
            std::process::Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status().unwrap().success()
        );
        assert_eq!(serving.child.wait().unwrap().code(), Some(0));
        assert_eq!(serve(place).key, "", "the first key is shown once");
    });
}

#[test]
fn keys_are_shown_once_scoped_and_revocable() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    let reader = stdout(&place.run(&["key", "create", "reader"])).trim().to_owned();
    let prefix = reader.split('_').nth(1).unwrap().to_owned();
    assert!(!stdout(&place.run(&["key", "list"])).contains(&reader));
    {
        let serving = serve(&place);
        let base = format!("http://{}", serving.address);
        assert_eq!(serving.key, "", "there is a key already");
        assert_eq!(http(&format!("{base}/api/v1/tasks?limit=5"), Some(&reader), None).0, 200);
        let job = r#"{"provenance":"far","endpoint":"records"}"#;
        assert_eq!(http(&format!("{base}/api/v1/jobs"), Some(&reader), Some(job)).0, 403);
        for (path, status) in
            [("tasks?limit=501", 400), ("tasks?colour=red", 400), ("nonsense", 404), ("schedules?plan=1", 400)]
        {
            assert_eq!(http(&format!("{base}/api/v1/{path}"), Some(&reader), None).0, status, "{path}");
        }
    }
    assert_eq!(place.run(&["key", "revoke", &prefix]).status.code(), Some(0));
    let again = place.run(&["key", "revoke", &reader]);
    check_error(&again, 78, &["no key", "patra key list"]);
    assert!(!stderr(&again).contains(&reader), "a pasted key is not repeated");
    let serving = serve(&place);
    assert_eq!(http(&format!("http://{}/api/v1/tasks", serving.address), Some(&reader), None).0, 401);
    // The database has only the hash of the key.
    let database = std::fs::read(place.folder.path().join("data/patra.db")).unwrap();
    assert!(!database.windows(reader.len()).any(|window| window == reader.as_bytes()));
}

#[test]
fn closed_pipe_is_no_error_and_completions_are_printed() {
    let place = Workspace::sqlite();
    let script = place.run(&["completions", "bash"]);
    assert!(script.status.success() && stdout(&script).contains("patra"));
    let mut child =
        place.patra().args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = place.patra().args(["get", "nonsense"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(64), "an error that cannot be printed is no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_collects_everything_through_a_kill() {
    let place = Workspace::sqlite();
    let output = place.patra().args(["demo", "--records", "2000"]).output().unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("2000 records in the database"), "{text}");
    assert!(text.contains("0 missing, 0 double, 0 different"), "{text}");
}

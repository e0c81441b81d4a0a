//! Operations on work and their output: pausing, cancelling, signalling, listing, waiting.

use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};

use serde_json::Value;

use patra_upstream::{Dataset, DetailEndpoints, FailingItem, FaultSchedule, MockApi, RetryAfter, Script};

use crate::cli::serve;
use crate::support::{On, Workspace, http, manifest};
use crate::two_phase;

const RUN: [&str; 5] = ["run", "far", "records", "--to", "2024-01-01T06:00:00Z"];

fn upstream(records: usize, script: Script) -> MockApi {
    MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, records), script).unwrap()
}

#[track_caller]
fn check(output: &Output, code: i32, words: &[&str]) -> String {
    let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
    text
}

/// Ids first, then details; records are stale after a second.
fn refreshed(base_url: &str) -> String {
    two_phase::manifest(base_url).replace("    two_phase:", "    update: { stale_after: PT1S }\n    two_phase:")
}

const HARVEST: [&str; 5] = ["run", "far", "search", "--to", "2024-01-01T12:00:00Z"];
const UPDATE: [&str; 7] = ["run", "far", "search", "--operation", "update", "--reason", "staleness"];

#[expect(clippy::disallowed_methods, reason = "the program runs alongside; nothing else waits for this thread")]
fn let_them_get_stale() {
    std::thread::sleep(std::time::Duration::from_millis(1_200));
}

fn looked_at(place: &Workspace) -> Vec<(Value, Value)> {
    let items = place.list(&["items"]);
    items.into_iter().map(|item| (item["dedup_key"].clone(), item["refresh_checked_at"].clone())).collect()
}

// covers: ING-6.3-09, ING-12.2-05
on_both!(update_with_all_details_refused_fails_and_leaves_records_stale);
async fn update_with_all_details_refused_fails_and_leaves_records_stale(on: On) {
    on.run(|place| {
        let server = upstream(60, Script::default());
        place.apply(&refreshed(server.base_url()));
        check(&place.run(&HARVEST), 0, &[]);
        let before = looked_at(place);
        assert!(before.len() >= 20, "{}", before.len());
        let_them_get_stale();
        let poison = (0..60).map(|index| FailingItem { index, status: 422 }).collect();
        server.script().update(|script| script.detail = DetailEndpoints { poison, ..DetailEndpoints::default() });
        check(&place.run(&UPDATE), 1, &["slices failed", "422"]);
        assert_eq!(looked_at(place), before);
        // The refusal concerns the request: later work waits until the pause is resumed.
        check(&place.run(&UPDATE), 1, &["the work is paused (ADVISORY"]);
        server.script().update(|script| script.detail = DetailEndpoints::default());
        check(&place.run(&["resume", "endpoint", "far", "search", "--operation", "update"]), 0, &[]);
        check(&place.run(&UPDATE), 0, &[]);
        let after = looked_at(place);
        assert!(after.iter().zip(&before).all(|(after, before)| after.1 != before.1), "{after:?}");
    });
}

// covers: ING-8.4-01
#[tokio::test(flavor = "multi_thread")]
async fn detail_groups_larger_than_a_page_of_ids_shrink_no_page() {
    let (server, place) = (upstream(200, Script::default()), Workspace::sqlite());
    place.apply(&refreshed(server.base_url()).replace("page_size: 40", "page_size: 5"));
    check(&place.run(&HARVEST), 0, &[]);
    let_them_get_stale();
    check(&place.run(&UPDATE), 0, &[]);
    let runs = place.list(&["runs"]);
    let updates: Vec<_> = runs.iter().filter(|run| run["operation_code"] == "UPDATE").collect();
    assert!(updates.iter().any(|run| run["stats"]["pagesVisited"].as_u64() > Some(3)), "{updates:?}");
    assert!(updates.iter().all(|run| run["stats"]["selfHealing"].is_null()), "{updates:?}");
}

/// First line on stderr about waiting. The program is killed after it.
fn waiting(place: &Workspace, args: &[&str]) -> String {
    let mut child = place.patra().args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = lines.map_while(Result::ok).find(|line| line.contains("waiting until"));
    let _ = child.kill();
    let _ = child.wait();
    found.expect("a line about waiting")
}

on_both!(waiting_run_logs_its_reason_and_end);
async fn waiting_run_logs_its_reason_and_end(on: On) {
    on.run(|place| {
        let server = upstream(600, Script::default());
        // Both are logged: a plan without room in the quota, and a run without any quota left.
        let short = manifest(server.base_url()).replace("burst: 1000", "burst: 1000, quota_hourly: 4");
        place.apply(&short);
        let line = waiting(place, &["run", "far", "records", "--to", "2024-01-02"]);
        assert!(line.contains("quota"), "{line}");
        let line = waiting(place, &["run", "far", "records", "--to", "2024-01-02"]);
        assert!(line.contains("quota"), "the next run logs it again: {line}");
    });
    let script = Script { e429: FaultSchedule::every(1), retry_after: RetryAfter::Seconds(3_600), ..Script::default() };
    let (server, place) = (upstream(100, script), Workspace::sqlite());
    place.apply(&manifest(server.base_url()));
    for _ in 0..2 {
        let line = waiting(&place, &RUN);
        assert!(line.contains("pause") || line.contains("silence"), "{line}");
    }
}

/// A listing that refuses pages after its tenth record.
fn refusing(base_url: &str) -> String {
    manifest(base_url)
        .replace("path: /cursor", "path: /offset")
        .replace(
            r#"cursor: "${ page.token }", rows: "${ page.size }""#,
            r#"offset: "${ page.offset }", limit: "${ page.size }""#,
        )
        .replace(
            r#"type: token, next_token_path: "$.message['next-cursor']", page_size: 50"#,
            "type: offset, page_size: 10",
        )
        .replace("$.message.items", "$.items")
}

// covers: ING-9.5-02
#[tokio::test(flavor = "multi_thread")]
async fn advisory_pause_expires_and_the_next_run_tries_again() {
    let (server, place) = (upstream(300, Script { ceiling: Some(10), ..Script::default() }), Workspace::sqlite());
    place.apply(&refusing(server.base_url()));
    check(&place.run(&RUN), 1, &["slices failed", "400"]);
    check(&place.run(&RUN), 1, &["the work is paused (ADVISORY"]);
    let database = rusqlite::Connection::open(place.folder.path().join("data/patra.db")).unwrap();
    let half_an_hour = 30 * 60 * 1_000_000_i64;
    database.execute("UPDATE ing_hold SET created_at = created_at - ?1", [half_an_hour]).unwrap();
    drop(database);
    check(&place.run(&RUN), 1, &["slices failed", "400"]);
    let holds = place.list(&["holds"]);
    assert_eq!((holds.len(), &holds[1]["released_by"]), (2, &"its time was over".into()), "{holds:?}");
    // A new manifest allows another try.
    server.script().update(|script| script.ceiling = None);
    place.apply(&refusing(server.base_url()).replace("page_size: 10", "page_size: 20"));
    check(&place.run(&RUN), 0, &[]);
}

// covers: ING-12.1-04
#[tokio::test(flavor = "multi_thread")]
async fn second_unreadable_response_halts_the_source() {
    let (server, place) = (upstream(300, Script::default()), Workspace::sqlite());
    place.apply(&manifest(server.base_url()).replace("$.message.items", "$.message.entries"));
    let run: Vec<_> = RUN.iter().copied().chain(["--concurrency", "1"]).collect();
    check(&place.run(&run), 1, &["slices failed", "items_path $.message.entries finds nothing", "patra resume hold"]);
    assert_eq!(server.stats().data_requests, 2, "one may be a slip");
    let holds = place.list(&["holds"]);
    assert_eq!(
        (&holds[0]["kind_code"], &holds[0]["subject"]),
        (&"BREAK".into(), &"source=far endpoint=records".into())
    );
    check(&place.run(&run), 1, &["the work is halted (BREAK"]);
}

on_both!(missing_work_cannot_be_paused_and_ended_work_cannot_be_cancelled);
async fn missing_work_cannot_be_paused_and_ended_work_cannot_be_cancelled(on: On) {
    on.run(|place| {
        let server = upstream(300, Script::default());
        place.apply(&manifest(server.base_url()));
        check(&place.run(&["pause", "source", "fra"]), 78, &["no manifest is applied for `fra`", "hint: "]);
        check(&place.run(&["pause", "endpoint", "far", "record"]), 78, &["`far` has no endpoint `record`"]);
        for what in ["plan", "slice", "task"] {
            let hint = format!("patra get {what}s");
            check(&place.run(&["pause", what, "77"]), 78, &[&format!("there is no {what} 77"), &hint]);
        }
        assert!(place.list(&["holds"]).is_empty());
        check(&place.run(&["pause", "source", "FAR"]), 0, &["source far is paused"]);
        check(&place.run(&["resume", "source", "Far"]), 0, &[]);

        check(&place.run(&RUN), 0, &[]);
        let plan = place.list(&["plans"])[0]["id"].to_string();
        check(&place.run(&["pause", "plan", &plan]), 0, &[]);
        check(&place.run(&["cancel", "plan", &plan]), 0, &["has ended already: there is nothing to cancel"]);
        assert_eq!(place.list(&["plans"])[0]["status_code"], "READY", "it is as it was");
        assert!(place.list(&["slices"]).iter().all(|slice| slice["status_code"] == "READY"));

        let serving = serve(place);
        let (base, key) = (format!("http://{}/api/v1", serving.address), Some(serving.key.as_str()));
        let post = |path: &str, body: &str| http(&format!("{base}/{path}"), key, Some(body));
        assert_eq!(post("holds", r#"{"provenance":"fra"}"#).0, 404);
        assert_eq!(post("holds", r#"{"task":77}"#).0, 404);
        assert_eq!(post("holds", r#"{"provenance":"far"}"#).0, 201);
        let (status, answer) = post(&format!("plans/{plan}/cancel"), "{}");
        assert_eq!((status, &answer["data"]["plans"]), (200, &0.into()));
        let (status, refused) = post("signals", r#"{"provenance":"far","endpoint":"records","ids":["1"]}"#);
        assert_eq!((status, &refused["error"]["code"]), (422, &"CONFIG_ERROR".into()), "{refused}");
        let update = r#"{"provenance":"far","endpoint":"records","operation":"UPDATE","reason":"STALENESS","to":"2024-01-02T00:00:00Z"}"#;
        let (status, refused) = post("jobs", update);
        assert!(status == 400 && refused.to_string().contains("an UPDATE has no window"), "{refused}");
        let get = |path: &str| http(&format!("{base}/{path}"), key, None);
        assert_eq!(get("tasks?status=succeeded").1["data"]["items"].as_array().map(Vec::len), Some(1));
        let (status, refused) = get("tasks?status=DONE");
        assert!(status == 400 && refused.to_string().contains("QUEUED, DISPATCHED"), "{refused}");
    });
}

#[test]
fn impossible_requests_are_refused_with_the_alternatives() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    check(&place.run(&["get", "tasks", "--status", "succeeded"]), 0, &[]);
    check(
        &place.run(&["get", "tasks", "--status", "DONE"]),
        64,
        &["no tasks have the status `DONE`", "QUEUED, DISPATCHED, EXECUTING, SUCCEEDED, FAILED, PARTIAL, CANCELLED"],
    );
    check(&place.run(&["get", "items", "--status", "READY"]), 64, &["`items` cannot be filtered by --status"]);
    check(&place.run(&["archive", "--older-than", "PT23H59M"]), 64, &["at least P1D"]);
    check(&place.run(&["archive", "--older-than", "P1D"]), 0, &["archived 0 batches"]);
    for bound in ["--from", "--to"] {
        let args = ["run", "far", "records", "--operation", "update", "--reason", "staleness", bound, "2024-01-01"];
        check(&place.run(&args), 64, &["an UPDATE has no window"]);
    }
    check(&place.run(&["signal", "far", "record", "--id", "1"]), 78, &["`far` has no endpoint `record`"]);
    let signal = ["signal", "far", "records", "--id", "1"];
    check(&place.run(&signal), 78, &["no detail endpoint is set", "update: { detail: NAME }"]);
    for name in ["", "  ", "a\tb"] {
        check(&place.run(&["key", "create", name]), 64, &["a key needs a name", "hint: "]);
    }
    check(&place.run(&["key", "create", &"n".repeat(129)]), 64, &["128 bytes"]);
    check(&place.run(&["run", "far", "records", "--to", "9999-12-31"]), 64, &["up to 9999-12-30T22:00:00Z"]);
    let empty = ["PATRA_ALLOW_NET", "PATRA_OUTPUT", "PATRA_LOG_FORMAT", "PATRA_DATABASE_URL", "PATRA_MASTER_KEY_FILE"];
    let output = place.patra().envs(empty.map(|name| (name, ""))).args(["get", "tasks"]).output().unwrap();
    check(&output, 0, &[]);
}

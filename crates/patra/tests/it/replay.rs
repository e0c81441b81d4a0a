//! Replays, diagnostic bundles and redrives, end to end on both stores: a replay gives the same result and writes
//! nothing, and refusals say why.

mod bundle;
mod dump;
mod over_http;
mod phases;
mod redrive;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use patra_upstream::{Dataset, FaultSchedule, MockApi, Script};

use crate::support::{On, Workspace, manifest};
use dump::dump;

/// The first slice of the upstream.
const RUN: [&str; 5] = ["run", "far", "records", "--to", "2024-01-01T06:00:00Z"];

fn upstream(script: Script) -> MockApi {
    MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 600), script).unwrap()
}

/// The manifest of the other tests, with raw responses kept.
fn keeping(base_url: &str) -> String {
    manifest(base_url).replace("    fields:", "    raw: { keep: P7D }\n    fields:")
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn code(output: &Output, code: i32) -> String {
    let text = text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// Runs `patra replay` and returns its report.
#[track_caller]
fn replay(place: &Workspace, batch: &Value, options: &[&str], exit: i32) -> Value {
    let (run, no) = (batch["run_id"].to_string(), batch["batch_no"].to_string());
    let output = place.patra().args(["replay", &run, &no, "-o", "json"]).args(options).output().unwrap();
    code(&output, exit);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One line of the comparison table.
fn line<'r>(report: &'r Value, what: &str) -> &'r Value {
    let mut lines = report["checks"].as_array().unwrap().iter();
    lines.find(|line| line["what"] == what).unwrap_or_else(|| panic!("{what} is not in {report}"))
}

// covers: ING-DOD-04, ING-DOD-10, ING-14.9-07, ING-14.9-08, ING-14.9-09, ING-14.9-13, ING-15-07, ING-5.9-03
// covers: ING-0.3-03, ING-1.2-07, ING-2.6-04
on_both!(replay_from_the_archive_gives_the_same_and_changes_no_row);
async fn replay_from_the_archive_gives_the_same_and_changes_no_row(on: On) {
    on.run(|place| {
        let server = upstream(Script::default());
        place.apply(&keeping(server.base_url()));
        code(&place.run(&RUN), 0);
        let batches = place.list(&["batches"]);
        assert!(batches.len() > 2, "{batches:?}");
        // The upstream is gone.
        drop(server);
        let before = dump(place);
        for batch in &batches {
            let report = replay(place, batch, &[], 0);
            assert_eq!((&report["verdict"], &report["mode"]), (&"SAME".into(), &"archive".into()), "{report}");
            for what in ["context", "request", "status", "itemsCount", "nextHint", "sample hash", "rows", "position"] {
                assert_eq!(line(&report, what)["result"], "same", "{report}");
            }
            let decisions = &report["decisions"];
            assert_eq!(decisions["recorded"]["inserted"], batch["stats"]["inserted"]);
            assert_eq!(decisions["now"]["inserted"], 0, "all of it is stored: {report}");
            assert_eq!(decisions["now"]["skipped"], batch["stats"]["itemsCount"]);
            assert_eq!(decisions["samples"].as_array().unwrap().len(), 3);
            assert_eq!(report["healing"]["agrees"], true);
        }
        let (run, no) = (batches[0]["run_id"].to_string(), batches[0]["batch_no"].to_string());
        let shown = code(&place.run(&["replay", &run, &no]), 0);
        assert!(shown.contains("SAME: ") && shown.contains("nothing was written"), "{shown}");
        assert_eq!(before, dump(place), "a replay has written");
        let missing = code(&place.run(&["replay", &run, "999"]), 78);
        assert!(missing.contains(&format!("run {run} has no batch 999")), "{missing}");
    });
}

// covers: ING-15-07
#[tokio::test(flavor = "multi_thread")]
async fn replay_without_stored_response_is_refused_and_live_replay_works() {
    let server = upstream(Script::default());
    let place = Workspace::sqlite();
    place.apply(&manifest(server.base_url()));
    code(&place.run(&RUN), 0);
    let batch = &place.list(&["batches"])[0];
    let (run, no) = (batch["run_id"].to_string(), batch["batch_no"].to_string());
    let text = code(&place.run(&["replay", &run, &no]), 78);
    assert!(
        text.contains("is not stored: the manifest had no `raw: { keep: … }`") && text.contains("--live"),
        "{text}"
    );
    assert_eq!(replay(&place, batch, &["--live"], 0)["verdict"], "SAME");
}

// covers: ING-14.9-10, ING-14.9-11, C-64
on_both!(live_replay_detects_changed_upstream_and_writes_nothing);
async fn live_replay_detects_changed_upstream_and_writes_nothing(on: On) {
    on.run(|place| {
        let server = upstream(Script::default());
        place.apply(&keeping(server.base_url()));
        code(&place.run(&RUN), 0);
        let before = dump(place);
        let batches = place.list(&["batches"]);
        let asked = server.stats().data_requests;
        let report = replay(place, &batches[0], &["--live"], 0);
        assert_eq!((&report["verdict"], &report["mode"]), (&"SAME".into(), &"live".into()), "{report}");
        assert_eq!(server.stats().data_requests, asked + 1, "one request, and no other");

        server.script().update(|script| script.visible = Some(3));
        let first = batches.iter().find(|batch| batch["batch_no"] == 1).unwrap();
        let report = replay(place, first, &["--live"], 1);
        assert_eq!(report["verdict"], "TIME_POINT_MISMATCH", "{report}");
        assert_eq!(line(&report, "request")["result"], "same");
        assert_eq!(line(&report, "itemsCount")["replayed"], "3");
        server.script().update(|script| script.e500 = FaultSchedule::every(1));
        let report = replay(place, first, &["--live"], 1);
        assert_eq!(line(&report, "status")["replayed"], "500");
        assert_eq!(report["healing"]["agrees"], false, "{report}");
        assert_eq!(before, dump(place), "a live replay has written");

        drop(server);
        let report = replay(place, first, &["--live"], 1);
        assert!(line(&report, "status")["replayed"].as_str().unwrap().starts_with("no response: "), "{report}");
        assert_eq!(replay(place, first, &[], 0)["verdict"], "SAME", "the raw response is still stored");
        assert_eq!(before, dump(place));
    });
}

// covers: ING-DOD-13, ING-DOD-04, ING-14.9-12
on_both!(batches_that_failed_at_every_level_fail_the_same_way_again);
async fn batches_that_failed_at_every_level_fail_the_same_way_again(on: On) {
    on.run(|place| {
        // L4: access denied. L2: no such path. Both end their task at once.
        for (level, code_word, script, path) in [
            ("L4", "UPSTREAM_AUTH_FAILED", locked(), "/cursor"),
            ("L2", "PLATFORM_ERROR", Script::default(), "/nowhere"),
        ] {
            let server = upstream(script);
            place.apply(&named(&keeping(server.base_url()), &level.to_lowercase()).replace("/cursor", path));
            let mut run = RUN;
            let name = level.to_lowercase();
            run[1] = &name;
            code(&place.run(&run), 1);
            drop(server);
            fails_again(place, &name, level, code_word);
        }
        // L1: temporarily unavailable. The task waits for its next try; the batch of this one has failed.
        let server = upstream(Script { e500: FaultSchedule::every(1), ..Script::default() });
        // Fewer tries than the circuit breaker allows.
        place.apply(&named(&keeping(server.base_url()), "l1").replace("retry: {", "retry: { max_attempts: 2,"));
        let mut run = RUN;
        run[1] = "l1";
        let mut child = place.patra().args(run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let failed = || !place.list(&["batches", "--provenance", "l1", "--status", "FAILED"]).is_empty();
        let has_failed = (0..200).any(|_| failed());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_failed, "no batch has failed");
        drop(server);
        fails_again(place, "l1", "L1", "PLATFORM_ERROR");
    });
}

fn locked() -> Script {
    Script { require_header: Some(("X-Key".into(), "k".into())), ..Script::default() }
}

/// The same manifest as another source.
fn named(manifest: &str, provenance: &str) -> String {
    manifest.replace("provenance: far", &format!("provenance: {provenance}"))
}

#[track_caller]
fn fails_again(place: &Workspace, provenance: &str, level: &str, code_word: &str) {
    let before = dump(place);
    let batch = &place.list(&["batches", "--provenance", provenance, "--status", "FAILED"])[0];
    let report = replay(place, batch, &[], 0);
    assert_eq!((&report["verdict"], &report["status"]), (&"SAME".into(), &"FAILED".into()), "{report}");
    let cause = &report["cause"];
    assert_eq!((&cause["level"], &cause["code"]), (&level.into(), &code_word.into()), "{report}");
    assert_eq!((&cause["reproduced"], &report["healing"]["agrees"]), (&true.into(), &true.into()), "{report}");
    assert_eq!(line(&report, "refusal")["result"], "same");
    assert_eq!(before, dump(place), "a replay has written");
}

// covers: ING-DOD-13
#[tokio::test(flavor = "multi_thread")]
async fn replay_rejects_invalid_records_again() {
    let server = upstream(Script::default());
    let place = Workspace::sqlite();
    let strict = r#"fields: { third: { path: "$.keywords[2]", required: true } }"#;
    place.apply(&keeping(server.base_url()).replace("fields: { title: \"$.title\" }", strict));
    code(&place.run(&RUN), 0);
    drop(server);
    assert!(!place.list(&["quarantine"]).is_empty());
    for batch in place.list(&["batches"]) {
        let report = replay(&place, &batch, &[], 0);
        assert_eq!(line(&report, "rejected")["replayed"], batch["stats"]["failed"].to_string(), "{report}");
        assert_eq!(report["decisions"]["now"]["failed"], batch["stats"]["failed"]);
    }
}

// covers: ING-14.9-12
#[tokio::test(flavor = "multi_thread")]
async fn changed_raw_response_is_detected() {
    let server = upstream(Script::default());
    let place = Workspace::sqlite();
    place.apply(&keeping(server.base_url()));
    code(&place.run(&RUN), 0);
    let batches = place.list(&["batches"]);
    let (one, other) = (&batches[0], &batches[1]);
    let connection = rusqlite::Connection::open(place.folder.path().join("data/patra.db")).unwrap();
    let swapped = "UPDATE ing_raw SET body = (SELECT body FROM ing_raw AS o WHERE o.run_id = ?3 AND o.batch_no = ?4) \
                   WHERE run_id = ?1 AND batch_no = ?2";
    let number = |batch: &Value, column: &str| batch[column].as_i64().unwrap();
    let place_of = |batch: &Value| (number(batch, "run_id"), number(batch, "batch_no"));
    let ((a, b), (c, d)) = (place_of(one), place_of(other));
    assert_eq!(connection.execute(swapped, [a, b, c, d]).unwrap(), 1);
    drop(connection);
    let report = replay(&place, one, &[], 1);
    assert_eq!(report["verdict"], "DIFFERENT", "{report}");
    assert_eq!(line(&report, "body hash")["result"], "different");
    assert_eq!(line(&report, "rows")["result"], "different");
}

/// An upstream that repeats the request's key in a header and in its body.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let (mut said, mut head) = (String::new(), BufReader::new(stream.try_clone().unwrap()));
            let mut line = String::new();
            while head.read_line(&mut line).is_ok_and(|read| read > 2) {
                if line.to_lowercase().starts_with("x-key:") {
                    said = line[6..].trim().to_owned();
                }
                line.clear();
            }
            let body = format!(
                r#"{{"message":{{"items":[{{"id":"a","updated_at":"2024-01-01T01:00:00Z","you":"{said}","mail":"ann@example.org"}}]}}}}"#
            );
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nETag: \"{said}\"\r\nSet-Cookie: s={said}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

const SECRET: &str = "canary-0123456789";

/// Collects with a credential that the upstream repeats in every response.
fn with_echo(place: &Workspace) -> Value {
    let asking = "    auth: { type: api_key, name: X-Key }\n    raw: { keep: P7D }\n    fields:";
    place.apply(&manifest(&echo()).replace("    fields:", asking).replace(", version_path: \"$.rev\"", ""));
    let mut add = place.patra();
    add.args(["credential", "add", "far", "--type", "api_key", "--provenance", "far"]);
    let mut child = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(SECRET.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    code(&place.run(&RUN), 0);
    place.list(&["batches"])[0].clone()
}

// covers: ING-14.10-01, ING-14.10-02, ING-15-07
#[tokio::test(flavor = "multi_thread")]
async fn secret_repeated_by_the_upstream_is_in_no_archive_report_or_bundle() {
    let place = Workspace::sqlite();
    let batch = with_echo(&place);
    for options in [&[][..], &["--live"][..]] {
        let report = replay(&place, &batch, options, 0);
        assert!(!report.to_string().contains("canary"), "{report}");
        assert_eq!(report["verdict"], "SAME", "{report}");
    }
    let digest = &batch["response_digest"];
    let sample = digest["sampleText"].as_str().unwrap();
    assert!(sample.contains(r#""you":"***""#) && sample.contains("<email:"), "{sample}");
    assert_eq!(digest["raw"], "kept");
    let connection = rusqlite::Connection::open(place.folder.path().join("data/patra.db")).unwrap();
    let mut rows = connection.prepare("SELECT status, headers, body FROM ing_raw").unwrap();
    let kept: Vec<_> = rows
        .query_map([], |row| Ok((row.get::<_, u16>(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(!kept.is_empty());
    for (status, headers, body) in kept {
        let answer = patra_connectors::stored_response::open(status, &headers, &body).unwrap();
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(!headers.contains("canary") && !headers.contains("set-cookie"), "{headers}");
        assert!(body.contains(r#""you":"***""#) && !body.contains("canary"), "{body}");
    }
}

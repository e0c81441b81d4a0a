//! The built-in orchestrator, alerts, and a request id that appears everywhere.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use patra_upstream::Script;
use serde_json::{Value, json};

use super::server::{GOOD, MASTER_KEY, TestServer, everywhere, manifest, mock_api};
use super::{script, search};
use crate::support::On;

// covers: CRAWL-133, CRAWL-DAY3-2, CRAWL-184, CRAWL-185, CRAWL-186, CRAWL-88, CRAWL-172, CRAWL-173, CRAWL-174, CRAWL-175
// covers: CRAWL-165, CRAWL-GAP-13, CRAWL-GAP-14, CRAWL-GAP-01
on_both!(built_in_flow_collects_everything_once);
async fn built_in_flow_collects_everything_once(on: On) {
    for place in on.places() {
        let mock_api =
            mock_api(Script { notes_gone: vec![3], e500: patra_upstream::FaultSchedule::every(9), ..script() });
        place.apply(&manifest(&mock_api));
        let patra = |args: &[&str], input: &str| {
            let mut command = place.patra();
            command.args(args).env("COOKIE_MASTER_KEY", MASTER_KEY).env("BACKOFF", "0,0,0").env("BATCH_SIZE", "7");
            command
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        let add = ["credential", "add", "worn", "--type", "cookie", "--provenance", "xhs", "--priority", "9"];
        assert!(patra(&add, "a1=1; web_session=expired").status.success());
        assert!(
            patra(
                &["credential", "add", "good", "--type", "cookie", "--provenance", "xhs", "--daily-limit", "500"],
                GOOD
            )
            .status
            .success()
        );
        let run = patra(&["crawl", "run", "xhs", "tea", "-o", "json"], "");
        assert_eq!(run.status.code(), Some(1), "one note is gone: {}", String::from_utf8_lossy(&run.stderr));
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!((&report["report"]["found"], &report["report"]["collected"]), (&25.into(), &24.into()), "{report}");
        let listed = |what: &[&str]| -> Vec<Value> {
            let output = patra(&[&["crawl", "list"], what, &["-o", "ndjson"]].concat(), "");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        assert_eq!(listed(&["notes"]).len(), 24);
        assert_eq!(listed(&["candidates", "--status", "collected"]).len(), 24);
        assert_eq!(listed(&["candidates", "--status", "failed"])[0]["last_error_code"], "NOT_FOUND");
        let executions = listed(&["executions"]);
        assert_eq!(
            (executions.len(), &executions[0]["status"], &executions[0]["items_processed"]),
            (1, &"completed".into(), &24.into())
        );
        let again = patra(&["crawl", "run", "xhs", "tea", "-o", "json"], "");
        assert!(again.status.success());
        let report: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!((&report["report"]["created"], &report["report"]["collected"]), (&0.into(), &0.into()));
        assert_eq!(listed(&["notes"]).len(), 24, "a second run creates nothing");
        // A signal to stop makes it release its lock and exit with an error.
        mock_api.script().update(|script| (script.notes_slow, script.notes_slow_ms) = ((0..25).collect(), 60_000));
        let mut stopped = place.patra();
        stopped
            .args(["crawl", "run", "xhs", "milk"])
            .env("COOKIE_MASTER_KEY", MASTER_KEY)
            .stderr(std::process::Stdio::piped());
        let stopped = stopped.spawn().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !mock_api.log().iter().any(|entry| entry.body.contains("milk")) {
            assert!(std::time::Instant::now() < deadline, "nothing is searched for");
            std::thread::sleep(Duration::from_millis(20));
        }
        let signalled = std::process::Command::new("kill").args(["-TERM", &stopped.id().to_string()]).status().unwrap();
        let ended = stopped.wait_with_output().unwrap();
        assert!(signalled.success() && !ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        mock_api.script().update(|script| script.notes_slow.clear());
        assert_eq!(listed(&["executions", "--status", "running"]).len(), 0);
        assert_eq!(listed(&["executions", "--status", "failed"]).len(), 1);
        let requeued = patra(&["crawl", "requeue", "xhs", "--keyword", "tea", "-o", "json"], "");
        assert_eq!(serde_json::from_slice::<Value>(&requeued.stdout).unwrap()["requeued"], 1);
        mock_api.script().update(|script| script.e500 = patra_upstream::FaultSchedule::never());
        let found = patra(&["crawl", "search", "xhs", "tea", "-o", "json"], "");
        assert_eq!(serde_json::from_slice::<Value>(&found.stdout).unwrap()["items"].as_array().map(Vec::len), Some(20));
        let unknown = patra(&["crawl", "search", "dy", "tea"], "");
        assert!(!unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("xhs"));
    }
}

// covers: CRAWL-RULE-6, CRAWL-86, CRAWL-88, CRAWL-89, CRAWL-90, CRAWL-DAY2-4
on_both!(request_id_is_in_responses_logs_and_rows);
async fn request_id_is_in_responses_logs_and_rows(on: On) {
    everywhere(on, &script(), &[("RUST_LOG", "debug")], |server| {
        server.add_cookie("account_01", "a1=1; web_session=expired", 1);
        let step = |step: &str, path: &str, body: &Value| {
            server.call(
                "POST",
                &format!("/api/v1/crawler{path}"),
                Some(&format!("wf-1700000000-abc123-{step}")),
                Some(body),
            )
        };
        assert_eq!(step("search", "/search", &search("tea")).status, 502);
        server.add_cookie("account_01", GOOD, 1);
        let found = step("search2", "/search", &search("tea"));
        let items = found.body["data"]["items"].clone();
        step("candidates", "/candidates", &json!({ "platform": "xhs", "items": items }));
        let lock = step("lock", "/executions/acquire", &json!({ "workflow_name": "w" }));
        let execution = &lock.body["data"]["execution_id"];
        let claimed = step("claim", "/candidates/claim", &json!({ "execution_id": execution, "batch_size": 1 }));
        let record = &claimed.body["data"]["records"][0];
        let write = json!({ "execution_id": execution, "record_info": record, "crawl_result": { "title": "x" } });
        assert_eq!(step("write", "/notes", &write).status, 200);
        let log = server.log();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("wf-1700000000-abc123")).collect();
        for word in ["search", "candidates", "lock", "claim", "write"] {
            assert!(lines.iter().any(|line| line.contains(&format!("abc123-{word}"))), "{word}: {lines:#?}");
        }
        // Log lines about the cookie of the search have its id too.
        assert!(
            lines.iter().any(|line| line.contains("abc123-search") && line.contains("a cookie was refused")),
            "{lines:#?}"
        );
        let meta = server.place.sql("SELECT exec_meta FROM crawl_candidate WHERE status = 'collected'").remove(0);
        assert!(meta.contains("wf-1700000000-abc123-write"), "{meta}");
        let sent = server.mock_api.log();
        assert!(!sent.is_empty());
    });
}

/// A webhook, and the head and body of each of its requests.
pub(crate) fn receiver() -> (String, mpsc::Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, calls) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut text, mut byte) = (Vec::new(), [0]);
            let mut wanted = usize::MAX;
            while text.len() < wanted && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                text.push(byte[0]);
                if wanted == usize::MAX && text.ends_with(b"\r\n\r\n") {
                    let head = String::from_utf8_lossy(&text).to_lowercase();
                    let length = head
                        .split("content-length:")
                        .nth(1)
                        .and_then(|rest| rest.split("\r\n").next()?.trim().parse::<usize>().ok());
                    wanted = text.len() + length.unwrap_or(0);
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            let text = String::from_utf8(text).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            if sender.send((head.to_owned(), serde_json::from_str(body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, calls)
}

// covers: CRAWL-156, CRAWL-157, CRAWL-158, CRAWL-159, CRAWL-160, CRAWL-161, CRAWL-162, CRAWL-163, CRAWL-164, CRAWL-DAY3-1
// covers: CRAWL-GAP-20, MAP-C-23, CRAWL-75
on_both!(alerts_fire_resolve_and_survive_a_restart);
async fn alerts_fire_resolve_and_survive_a_restart(on: On) {
    for place in on.places() {
        let (url, calls) = receiver();
        let mut server = TestServer::open(
            place,
            mock_api(script()),
            &[("ALERT_WEBHOOK_URL", &url), ("ALERT_WEBHOOK_SECRET", "shared")],
        );
        let next = |alert: &str, state: &str| loop {
            let (head, body) = calls.recv_timeout(Duration::from_secs(90)).expect("a webhook call");
            if body["alert"] == alert && body["state"] == state {
                for name in ["level", "value", "threshold", "since", "request_id"] {
                    assert!(!body[name].is_null(), "{name}: {body}");
                }
                let signature = patra_core::hash::hmac_sha256_hex(b"shared", body_text(&body).as_bytes());
                assert!(head.to_lowercase().contains("x-patra-signature: sha256="), "{head} {signature}");
                return body;
            }
        };
        // A platform that was paused and resumed alerts like every other.
        let held =
            server.call("POST", "/api/v1/holds", None, Some(&json!({ "provenance": "xhs", "reason": "a look" })));
        let hold = held.body["data"]["hold"].as_i64().unwrap_or_else(|| panic!("{}", held.body));
        assert_eq!(server.call("DELETE", &format!("/api/v1/holds/{hold}"), None, None).status, 200);
        // A platform without cookies does not alert; one whose cookies are all cooling does.
        server.add_cookie("worn", "a1=1; web_session=expired", 1);
        (0..3).for_each(|_| drop(server.post("/search", &search("tea"))));
        let fired = next("cookies_exhausted", "firing");
        assert_eq!((&fired["level"], &fired["value"], &fired["subject"]), (&"P0".into(), &0.0.into(), &"xhs".into()));
        let metrics = server.call("GET", "/metrics", None, None).text;
        assert!(
            metrics.contains("patra_alert_firing{alert=\"cookies_exhausted\",subject=\"xhs\",level=\"P0\"} 1\n"),
            "{metrics}"
        );
        assert!(metrics.contains("patra_cookies{platform=\"xhs\",status=\"cooling\"} 1\n"), "{metrics}");
        assert_eq!(server.call_as(None, "GET", "/metrics", None, None).status, 401);
        // At least ten requests with too many failures, and a long backlog: for as long as the rules say, also across a
        // restart.
        server.add_cookie("good", GOOD, 5);
        next("cookies_exhausted", "resolved");
        server.mock_api.script().update(|s| s.e500 = patra_upstream::FaultSchedule::every(1));
        (0..12).for_each(|_| drop(server.post("/search", &search("tea"))));
        for many in 0..3 {
            let items: Vec<_> = (0..200).map(|n| json!({ "note_id": format!("n{many}-{n}") })).collect();
            server.data("POST", "/candidates", Some(&json!({ "platform": "xhs", "items": items })));
        }
        let deadline = std::time::Instant::now() + Duration::from_secs(90);
        while server
            .place
            .sql("SELECT alert FROM alert_state WHERE since IS NOT NULL AND alert <> 'cookies_exhausted'")
            .len()
            < 2
        {
            assert!(std::time::Instant::now() < deadline, "the conditions are not seen");
            std::thread::sleep(Duration::from_millis(200));
        }
        server.age("alert_state", "since", 31);
        server.restart();
        assert_eq!(next("low_success_rate", "firing")["level"], "P1");
        let backlog = match server
            .place
            .sql("SELECT alert FROM alert_state WHERE alert = 'backlog' AND told_at IS NOT NULL")
            .len()
        {
            0 => next("backlog", "firing"),
            _ => json!({ "level": "P2" }),
        };
        assert_eq!(backlog["level"], "P2");
        assert!(server.log().contains("alert firing"), "{}", server.log());
    }
}

fn body_text(body: &Value) -> String {
    body.to_string()
}

//! Stored records are delivered to a webhook in order, and again until it accepts them.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use patra_core::hash::hmac_sha256_hex;
use patra_upstream::{Dataset, MockApi, Script};
use serde_json::{Value, json};

use crate::crawler::server::TestServer;
use crate::support::{On, Workspace, preamble};

const SECRET: &str = "between us";

/// A webhook that answers its first requests with these statuses. Only events that it accepted are passed on.
pub(crate) fn webhook(refusals: Vec<u16>) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, events) = mpsc::channel();
    let mut refusals = refusals.into_iter();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut length, mut signature, mut line) = (0, None, String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                } else if let Some(value) = lower.strip_prefix("x-patra-signature: sha256=") {
                    signature = Some(value.trim().to_owned());
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let status = refusals.next().unwrap_or(204);
            let answer = format!("HTTP/1.1 {status} So\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            let mut event: Value = serde_json::from_slice(&body).unwrap();
            event["signed"] = json!(signature == Some(hmac_sha256_hex(SECRET.as_bytes(), &body)));
            if status == 204 && sender.send(event).is_err() {
                return;
            }
        }
    });
    (url, events)
}

/// Two endpoints, of which one emits.
fn manifest(base_url: &str) -> String {
    let endpoint = |name: &str, emit: bool| {
        format!(
            r#"  {name}:
    http: {{ path: /cursor }}
    query: {{ cursor: "${{ page.token }}", rows: "${{ page.size }}", from: "${{ window.from | iso }}", to: "${{ window.to | iso }}" }}
    pagination: {{ type: token, next_token_path: "$.message['next-cursor']", page_size: 20 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, as_of: true, max_window: P9999D, initial: 2024-01-01 }}
    response: {{ items_path: "$.message.items", id_path: "$.id", updated_at_path: "$.updated_at", version_path: "$.rev" }}
    record: {{ emit: {emit} }}
"#
        )
    };
    preamble(base_url).trim_end().to_owned() + "\n" + &endpoint("records", true) + &endpoint("quiet", false)
}

fn run(place: &Workspace, endpoint: &str) {
    let output = place.run(&["run", "far", endpoint, "--to", "2024-06-01"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Marks events as given up after a day of retries.
fn give_up(place: &Workspace, ids: &[i64]) {
    for id in ids {
        place.sql(&format!(
            "UPDATE outbox_event SET status_code = 'FAILED', tries = 36, ended_at = not_before WHERE id = {id}"
        ));
    }
}

/// Retries one event, all events of a project, and more than one transaction takes.
fn retry_by_command(place: &Workspace, waiting: &[Value]) {
    let retry = |args: &[&str]| {
        let output = place.patra().args(["outbox", "retry", "-o", "json"]).args(args).output().unwrap();
        let report: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        (output.status.code(), report.map_or(Value::Null, |report| report["events"].clone()))
    };
    let ids: Vec<i64> = waiting.iter().map(|event| event["id"].as_i64().unwrap()).collect();
    assert_eq!(retry(&[]), (Some(0), json!(0)), "nothing was given up");
    assert_eq!(retry(&["777"]), (Some(78), Value::Null));
    assert_eq!(retry(&["--project", "nobody"]), (Some(78), Value::Null));
    assert!(place.run(&["project", "create", "another"]).status.success());
    give_up(place, &ids[..3]);
    let one = ids[0].to_string();
    assert_eq!(retry(&["--project", "another"]), (Some(0), json!(0)));
    assert_eq!(retry(&["--project", "another", &one]), (Some(78), Value::Null));
    assert_eq!(retry(&[&one]), (Some(0), json!(1)));
    place.sql(&format!(
        "INSERT INTO outbox_event
           (project_key, event_type, topic, idempotency_key, status_code, not_before, created_at, ended_at, payload)
         SELECT project_key, 'nobody', topic, idempotency_key || n, 'FAILED', not_before, created_at, created_at, payload
         FROM outbox_event,
           (WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1100) SELECT n FROM numbers) AS many
         WHERE id = {one}"
    ));
    assert_eq!(retry(&["--project", "default"]), (Some(0), json!(1_102)));
    place.sql("DELETE FROM outbox_event WHERE event_type = 'nobody'");
    assert!(place.list(&["outbox"]).iter().all(|event| event["status_code"] == "PENDING" && event["tries"] == 0));
}

// covers: ING-2.3-05, ING-4.9-03, ING-11.4-01, G-01, ING-2.2-02
on_both!(stored_records_are_delivered_in_order_and_retried);
async fn stored_records_are_delivered_in_order_and_retried(on: On) {
    for place in on.places() {
        let mock_api = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 90), Script::default()).unwrap();
        place.apply(&manifest(mock_api.base_url()));
        run(&place, "records");
        run(&place, "quiet");
        let waiting = place.list(&["outbox"]);
        assert!(waiting.len() == 5 && waiting.iter().all(|event| event["status_code"] == "PENDING"), "{waiting:?}");
        retry_by_command(&place, &waiting);
        let (url, delivered) = webhook(vec![500, 503]);
        let server =
            TestServer::open(place, mock_api, &[("RECORDS_WEBHOOK_URL", &url), ("RECORDS_WEBHOOK_SECRET", SECRET)]);
        let events: Vec<Value> = (0..5).map(|_| delivered.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
        let mut records = Vec::new();
        for (event, batch_no) in events.iter().zip(1..) {
            assert_eq!(
                (&event["event"], &event["project_key"], &event["topic"], &event["signed"]),
                (&json!("records.stored"), &json!("default"), &json!("default/far/records"), &json!(true))
            );
            let data = &event["data"];
            assert_eq!((&data["endpoint_name"], &data["batch_no"]), (&json!("records"), &json!(batch_no)), "in order");
            records.extend(data["records"].as_array().unwrap().iter().cloned());
        }
        let text = |record: &Value, name: &str| record[name].as_str().unwrap().to_owned();
        let ids: BTreeSet<_> = records.iter().map(|record| text(record, "id")).collect();
        let stored = server.place.list(&["items"]);
        assert_eq!(stored.len(), 180, "records of the endpoint without emit have no event");
        assert_eq!((records.len(), &ids), (90, &stored.iter().map(|item| text(item, "dedup_key")).collect()));
        assert!(records.iter().all(|record| record["change"] == "inserted"));
        let keys: BTreeSet<_> = records.iter().map(|record| text(record, "idempotency_key")).collect();
        assert_eq!(keys.len(), 90);
        server.wait("that all are delivered", || {
            server.place.list(&["outbox"]).iter().all(|event| event["status_code"] == "DELIVERED")
        });
        let outbox = server.place.list(&["outbox"]);
        assert_eq!(outbox.iter().map(|event| event["tries"].as_i64().unwrap()).sum::<i64>(), 2, "two refusals");

        // The webhook was away for too long: events that were given up are delivered on request.
        let retry = |path: &str| {
            let answer = server.call("POST", path, None, None);
            (answer.status, answer.body["data"]["events"].clone())
        };
        assert_eq!(retry("/api/v1/outbox/retry"), (200, json!(0)));
        let ids: Vec<i64> = outbox.iter().map(|event| event["id"].as_i64().unwrap()).rev().collect();
        let (accepted, lost) = (ids[2], [ids[1], ids[3]]);
        give_up(&server.place, &lost);
        let metrics = server.call("GET", "/metrics", None, None).text;
        assert!(metrics.contains("patra_outbox_failed 2\n") && metrics.contains("patra_outbox_oldest_seconds 0\n"));
        assert_eq!(retry(&format!("/api/v1/outbox/{accepted}/retry")), (200, json!(0)), "it was accepted");
        assert_eq!(retry("/api/v1/outbox/777/retry").0, 404);
        assert_eq!(retry(&format!("/api/v1/outbox/{}/retry", lost[0])), (200, json!(1)));
        assert_eq!(retry("/api/v1/outbox/retry"), (200, json!(1)));
        for id in lost {
            let event = delivered.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!((&event["event_id"], &event["signed"]), (&json!(id), &json!(true)));
        }
        server.wait("that all are delivered again", || {
            server.place.list(&["outbox"]).iter().all(|event| event["status_code"] == "DELIVERED")
        });
    }
}

/// A process died while it delivered. Its lease would last for another day.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_a_dead_process_was_delivering_are_delivered_at_the_next_start() {
    let mock_api = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 90), Script::default()).unwrap();
    let place = Workspace::sqlite();
    place.apply(&manifest(mock_api.base_url()));
    run(&place, "records");
    place.sql("UPDATE outbox_event SET lease_owner = 'dead', leased_until = created_at + 86400000000");
    let (url, delivered) = webhook(Vec::new());
    let _server =
        TestServer::open(place, mock_api, &[("RECORDS_WEBHOOK_URL", &url), ("RECORDS_WEBHOOK_SECRET", SECRET)]);
    for batch_no in 1..=5 {
        let event = delivered.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(event["data"]["batch_no"], json!(batch_no), "in order");
    }
}

//! Alerts of all products reach log, metrics, webhook and command line: somebody learns that a source died.

use std::collections::BTreeMap;
use std::sync::mpsc;

use patra_core::alert::RULES;

use patra_upstream::Script;

use super::*;
use crate::cli::upstream;
use crate::crawler::flow::receiver;
use crate::support::manifest;

/// The next call about each of these alerts in this state, by its name.
fn calls(received: &mpsc::Receiver<(String, Value)>, state: &str, alerts: &[&str]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    while found.len() < alerts.len() {
        let (_, body) = received.recv_timeout(Duration::from_secs(90)).unwrap_or_else(|_| {
            panic!("{alerts:?} wanted as {state}, only these came: {:?}", found.keys().collect::<Vec<_>>())
        });
        let name = body["alert"].as_str().unwrap().to_owned();
        if body["state"] == state && alerts.contains(&name.as_str()) {
            found.insert(name, body);
        }
    }
    found
}

// covers: COLL-54, COLL-GOAL-3
on_both!(fn source_paused_by_errors_raises_an_alert_that_names_it);
fn source_paused_by_errors_raises_an_alert_that_names_it(on: On) {
    everywhere(on, |place, feeds| {
        let id = add(place, "rss", &feeds.url(1, "/error"));
        let gone = add(place, "rss", &feeds.url(2, "/gone"));
        for _ in 1..=5 {
            let now = if place.database_url().is_some() { "now()" } else { "1" };
            place.sql(&format!("UPDATE source SET next_due_at = {now} WHERE id = {id}"));
            place.run(&["collect"]);
        }
        assert_eq!(list(place)[0]["paused_reason"], "error");
        let (url, received) = receiver();
        let running =
            Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &[("ALERT_WEBHOOK_URL", url.as_str())]);
        let fired = calls(&received, "firing", &["source_paused", "source_gone", "endpoint_failing"]);
        assert_eq!(fired["endpoint_failing"]["subject"], "collector/rss HARVEST");
        let about = |alert: &str, id: i64, words: &[&str]| {
            let body = &fired[alert];
            assert_eq!((&body["subject"], &body["level"]), (&json!(format!("source {id}")), &json!("P1")), "{body}");
            let detail = body["detail"].as_str().unwrap();
            assert!(words.iter().all(|word| detail.contains(word)), "{detail}");
        };
        about("source_paused", id, &["/error", "500"]);
        about("source_gone", gone, &["/gone", "410"]);
        running.wait_for("alert firing");
        running.terminate();
        running.end();
        let shown: Vec<Value> = ok(&place.run(&["get", "alerts", "-o", "ndjson"]))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let paused = shown.iter().find(|row| row["alert"] == "source_paused").unwrap_or_else(|| panic!("{shown:?}"));
        assert_eq!(paused["state"]["firing"], true, "{paused}");
        assert!(paused["detail"].as_str().unwrap().contains("500"), "{paused}");
        // A person resumes it: the alert ends.
        ok(&place.run(&["source", "resume", &id.to_string()]));
        let running =
            Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &[("ALERT_WEBHOOK_URL", url.as_str())]);
        calls(&received, "resolved", &["source_paused"]);
        running.terminate();
        running.end();
    });
}

// covers: COLL-128, ING-12.6-01, ING-12.6-02, ING-12.6-04, ING-14.8-01
on_both!(fn every_other_rule_fires_on_the_state_that_it_is_about);
fn every_other_rule_fires_on_the_state_that_it_is_about(on: On) {
    everywhere(on, |place, feeds| {
        let id = add(place, "rss", &feeds.url(1, "/feed/a"));
        ok(&place.run(&["collect"]));
        let postgres = place.database_url().is_some();
        let ago = |hours: i64| match postgres {
            true => format!("now() - interval '{hours} hours'"),
            false => (crate::support::now_micros() as i64 - hours * 3_600_000_000).to_string(),
        };
        place.sql(&format!(
            "UPDATE source SET last_new_at = {}, new_count = 20, new_gap_seconds = 3600 WHERE id = {id}",
            ago(100)
        ));
        for (kind, subject, columns, values) in
            [("BREAK", "credential=7", "credential_id", "7"), ("BREAK", "provenance=shop", "provenance_code", "'shop'")]
        {
            place.sql(&format!(
                "INSERT INTO ing_hold (kind_code, subject, {columns}, reason, created_by, created_at) \
                 VALUES ('{kind}', '{subject}', {values}, '401 Unauthorized', 'engine', {})",
                ago(1)
            ));
        }
        // An advisory pause stops only planning: the queue stands all the same.
        place.sql(&format!(
            "INSERT INTO ing_hold (kind_code, subject, provenance_code, endpoint_name, operation_code, reason, created_by, \
             created_at) VALUES ('ADVISORY', 'source=collector endpoint=rss operation=HARVEST', 'collector', 'rss', \
             'HARVEST', '400', 'engine', {})",
            ago(0)
        ));
        let (url, received) = receiver();
        // The poll of the source is due, and nobody may execute it because its credential is refused.
        let task = "UPDATE ing_task SET status_code = 'QUEUED', finished_at = NULL, credential_id = 7, scheduled_at =";
        place.sql(&format!("{task} {} WHERE source_id = {id}", ago(2)));
        let settings = [("ALERT_WEBHOOK_URL", url.as_str()), ("ALERT_QUEUE_STANDS", "60")];
        let running = Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &settings);
        let fired = calls(&received, "firing", &["source_silent", "credential_refused", "work_halted", "queue_stands"]);
        assert_eq!(fired["queue_stands"]["threshold"], 60.0);
        assert_eq!(fired["source_silent"]["subject"], format!("source {id}"));
        assert_eq!(fired["credential_refused"]["detail"], "401 Unauthorized");
        assert_eq!(fired["work_halted"]["subject"], "provenance=shop");
        running.terminate();
        running.end();
    });
}

// covers: ING-3.6-01, ING-4.1-03, ING-5.3-03, ING-12.4-01, ING-4.13-04, ING-9.5-03, ING-12.2-07, ING-12.6-01, ING-14.8-01
on_both!(fatal_errors_refused_plans_and_stopped_events_raise_alerts);
async fn fatal_errors_refused_plans_and_stopped_events_raise_alerts(on: On) {
    let locked = upstream(50, Script { require_header: Some(("x-key".into(), "k".into())), ..Script::default() });
    let fine = upstream(50, Script::default());
    everywhere(on, |place, _| {
        let named = |code: &str, base: &str| manifest(base).replace("provenance: far", &format!("provenance: {code}"));
        let run = |code: &str, more: &[&str]| {
            let args: Vec<_> =
                ["run", code, "records", "--to", "2024-01-02T00:00:00Z"].iter().chain(more).copied().collect();
            place.run(&args).status.code()
        };
        place.apply(&named("locked", locked.base_url()));
        assert_eq!(run("locked", &[]), Some(1));
        let odd = named("odd", fine.base_url()).replace("$.message.items", "$.message.entries");
        place.apply(&odd);
        assert_eq!(run("odd", &[]), Some(1));
        let emits = named("emits", fine.base_url()) + "    record: { emit: true }\n";
        place.apply(&emits);
        assert_eq!(run("emits", &[]), Some(0));
        let ago = match place.database_url().is_some() {
            true => "created_at - interval '2 hours'",
            false => "created_at - 7200000000",
        };
        place.sql(&format!("UPDATE outbox_event SET created_at = {ago}"));
        // The endpoint is removed before its job was planned.
        place.apply(&named("unplanned", fine.base_url()));
        assert_eq!(run("unplanned", &["--no-wait"]), Some(0));
        place.apply(&named("unplanned", fine.base_url()).replace("  records:", "  others:"));
        let (url, received) = receiver();
        let args = ["serve", "--listen", "127.0.0.1:0", "--no-collector"];
        let running = Running::start(place, &args, &[("ALERT_WEBHOOK_URL", url.as_str())]);
        let mut halted = BTreeMap::new();
        let mut others = BTreeMap::new();
        while halted.len() < 2 || others.len() < 2 {
            let (_, body) = received
                .recv_timeout(Duration::from_secs(90))
                .unwrap_or_else(|_| panic!("only {halted:?} and {others:?} came: {}", running.log()));
            match body["alert"].as_str().unwrap() {
                "work_halted" | "credential_refused" => drop(halted.insert(body["subject"].to_string(), body)),
                name @ ("plan_refused" | "events_behind") => drop(others.insert(name.to_owned(), body)),
                _ => {}
            }
        }
        let about = |subject: &str, word: &str| {
            let (_, body) = halted.iter().find(|(name, _)| name.contains(subject)).unwrap();
            assert_eq!(body["level"], "P0", "{body}");
            assert!(body["detail"].as_str().unwrap().contains(word), "{body}");
        };
        about("locked", "401");
        about("odd", "items_path");
        let refused = &others["plan_refused"];
        assert_eq!((&refused["subject"], &refused["level"]), (&json!("unplanned/records HARVEST"), &json!("P0")));
        assert!(refused["detail"].as_str().unwrap().contains("records"), "{refused}");
        assert!(others["events_behind"]["value"].as_f64().unwrap() >= 7_200.0);
        running.terminate();
        running.end();
    });
}

#[test]
fn prometheus_rules_are_those_of_the_table() {
    let file = crate::observability::read("deploy/prometheus/rules.yml");
    let (_, generated) = file.split_once("a test compares the two.\n").expect("the marker");
    assert_eq!(generated, patra_core::alert::prometheus_rules());
    let docs = crate::observability::read("docs/observability.md");
    for rule in RULES {
        assert!(docs.contains(&format!("`{}`", rule.name)), "{} is not in docs/observability.md", rule.name);
    }
}

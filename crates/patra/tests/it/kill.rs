//! kill -9 at random moments of `patra run`: nothing is lost and nothing is stored twice, compared with the upstream's
//! own list, on both stores. `PATRA_KILL_ROUNDS=200 cargo test -p patra --test it kill` makes 200 kills on each store;
//! the default is small enough for every test run.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use patra_core::rng::Rng;
use patra_upstream::{Dataset, FaultSchedule, MockApi, RetryAfter, Script};
use serde_json::Value;

use crate::support::{On, Workspace, manifest, now_micros};

/// Kills of one case before it is left to finish.
const KILLS_PER_CASE: usize = 5;

fn rounds() -> usize {
    std::env::var("PATRA_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

// covers: ING-2.6-03, ING-DOD-08, ING-5.8-01, ING-9.4-05, ING-1.2-05, ING-DOD-11
// covers: ING-1.3-04
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_survives_kill_9_at_any_moment() {
    run(&|| Some(Workspace::sqlite())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_survives_kill_9_at_any_moment() {
    run(&Workspace::empty_postgres).await;
}

async fn run(make: &dyn Fn() -> Option<Workspace>) {
    let seed = now_micros();
    eprintln!("seed of the kill moments: {seed}");
    let (mut rng, mut kills) = (Rng::new(seed), 0);
    while kills < rounds() {
        let Some(place) = make() else { return };
        kills += case(&place, &mut rng).await;
    }
    eprintln!("{kills} kills survived");
}

/// One harvest with several kills, then an undisturbed end, then the comparison. Returns the kills that hit a living
/// process.
async fn case(place: &Workspace, rng: &mut Rng) -> usize {
    let server = upstream(rng);
    place.apply(&emitting(server.base_url()));
    let mut kills = 0;
    for _ in 0..KILLS_PER_CASE {
        let mut child = place.patra().args(RUN).args(TWO).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moment = Duration::from_micros(rng.below(400_000));
        tokio::time::sleep(moment).await;
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        if ended.is_some() {
            break;
        }
        kills += 1;
    }
    let mut last: Command = place.patra();
    let output = tokio::task::spawn_blocking(move || last.args(RUN).args(TWO).output().unwrap()).await.unwrap();
    assert!(output.status.success(), "the undisturbed run failed: {}", String::from_utf8_lossy(&output.stderr));
    compare(place, &server);
    kills
}

/// The manifest with events for all stored records.
fn emitting(base_url: &str) -> String {
    manifest(base_url).replace("    fields:", "    record: { emit: true }\n    fields:")
}

const RUN: [&str; 7] = ["run", "far", "records", "--to", "2024-01-03T12:00:00Z", "--lease-secs", "1"];
const TWO: [&str; 2] = ["--concurrency", "2"];

fn upstream(rng: &mut Rng) -> MockApi {
    let dataset = Dataset::builder().seed(rng.next_u64()).count(2_500).build();
    let script = Script {
        latency_ms: 1 + rng.below(4),
        e500: FaultSchedule::every(17),
        e429: FaultSchedule::every(23),
        retry_after: RetryAfter::Absent,
        truncate: FaultSchedule::every(29),
        reset: FaultSchedule::every(37),
        ..Script::default()
    };
    MockApi::start(([127, 0, 0, 1], 0).into(), dataset, script).unwrap()
}

fn compare(place: &Workspace, server: &MockApi) {
    let mut stored: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for item in place.list(&["items"]) {
        let entry = stored.entry(item["dedup_key"].as_str().unwrap().to_owned()).or_default();
        entry.0 += 1;
        entry.1 = item["payload"].to_string();
    }
    for (id, _, json) in server.dataset().records() {
        let (count, payload) = stored.remove(id).unwrap_or_else(|| panic!("{id} is missing"));
        assert_eq!(count, 1, "{id} is stored more than once");
        let expected: Value = serde_json::from_str(json).unwrap();
        assert_eq!(payload, expected.to_string(), "{id} differs");
    }
    assert!(stored.is_empty(), "records that the upstream does not have: {stored:?}");
    // Each record is counted as inserted exactly once in the ledger.
    let inserted: i64 = place.list(&["batches"]).iter().map(|batch| batch["stats"]["inserted"].as_i64().unwrap()).sum();
    assert_eq!(inserted as usize, server.dataset().len());
    // Each record is in exactly one event.
    let mut emitted: Vec<_> = place.list(&["outbox"]).iter().flat_map(event_ids).collect();
    emitted.sort();
    let mut ids: Vec<_> = server.dataset().records().map(|(id, ..)| id.to_owned()).collect();
    ids.sort();
    assert_eq!(emitted, ids, "the events differ from the stored records");
    let cursors = place.list(&["cursors"]);
    assert_eq!(cursors[0]["normalized_instant"], "2024-01-03T12:00:00.000000000Z");
    place.check_integrity();
}

fn event_ids(event: &Value) -> Vec<String> {
    let records = event["payload"]["records"].as_array().unwrap();
    records.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect()
}

// covers: ING-9.4-05
on_both!(only_the_task_that_kills_its_process_fails);
async fn only_the_task_that_kills_its_process_fails(on: On) {
    // The other tasks are slow enough to die with it.
    let script = Script { latency_ms: 20, ..Script::default() };
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(8, 1_500), script).unwrap();
    for place in on.places() {
        place.apply(&manifest(server.base_url()));
        let mut deaths = 0;
        loop {
            let mut run = place.patra();
            run.env("PATRA_CRASH_POINT", "task.3:1").args(RUN).args(["--concurrency", "6"]);
            let output = tokio::task::spawn_blocking(move || run.output().unwrap()).await.unwrap();
            if output.status.code().is_some() {
                break;
            }
            deaths += 1;
            assert!(deaths < 20, "{:?}", place.list(&["tasks"]));
        }
        assert_eq!(deaths, 6, "the first one does not say which task it was");
        // Where the lease of the task had to run out first, no new task was planned for its window yet.
        place.run(&RUN);
        for task in place.list(&["tasks"]) {
            let expected = if task["id"] == 3 { "FAILED" } else { "SUCCEEDED" };
            assert_eq!(task["status_code"], expected, "{task}");
        }
        assert_eq!(place.list(&["items"]).len(), 1_500, "the window was read again by a new task");
    }
}

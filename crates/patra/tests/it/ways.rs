//! The three operations on both stores: harvest, backfill and update, each with its own cursor.

use std::collections::BTreeSet;
use std::time::Duration;

use patra_core::rng::Rng;
use patra_upstream::{Dataset, DetailEndpoints, MockApi, Script};
use serde_json::Value;

use crate::support::{On, Workspace, now_micros, preamble, run_through_kills};

/// A listing that is harvested, and a detail endpoint for updates of its records.
fn manifest(base_url: &str) -> String {
    preamble(base_url)
        + r#"  records:
    path: /cursor
    query: { cursor: "${ page.token }", rows: "${ page.size }", from: "${ window.from | iso }", to: "${ window.to | iso }" }
    pagination: { type: token, next_token_path: "$.message['next-cursor']", page_size: 50 }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, as_of: true, max_window: PT3H, align: hour, initial: 2024-01-01 }
    batching: { id_batch_size: 15 }
    update: { detail: one, stale_after: PT1S, segment_size: 100 }
    response: { items_path: "$.message.items", id_path: "$.id", updated_at_path: "$.updated_at", version_path: "$.rev" }
    fields: { title: "$.title" }
  one:
    role: detail
    path: /details
    query: { ids: "${ ids | join(',') }" }
    response: { items_path: $.items, id_path: $.id, updated_at_path: $.updated_at, version_path: $.rev }
    fields: { title: "$.title" }
"#
}

fn upstream(gone: Vec<usize>) -> MockApi {
    let dataset = Dataset::builder().seed(11).count(900).build();
    let detail = DetailEndpoints { max_ids: 15, gone, ..DetailEndpoints::default() };
    MockApi::start(([127, 0, 0, 1], 0).into(), dataset, Script { detail, ..Script::default() }).unwrap()
}

#[track_caller]
fn run(place: &Workspace, args: &[&str]) -> Value {
    let output = place.patra().args(["run", "far", "records", "-o", "json"]).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn cursor(place: &Workspace, operation: &str) -> Value {
    place.list(&["cursors"]).into_iter().find(|row| row["operation_code"] == operation).unwrap()
}

const HARVEST: [&str; 2] = ["--to", "2024-01-01T12:00:00Z"];
const BACKFILL: [&str; 4] = ["--operation", "backfill", "--activity", "old"];

// covers: ING-4.4-08, ING-4.4-09, ING-4.4-19, ING-4.15-01, ING-4.15-02, ING-6.2-01, ING-6.2-04, ING-6.2-05, ING-6.2-07
// covers: ING-6.2-08, ING-6.2-09, ING-5.9-04, ING-5.4-13, ING-8.2-07, ING-10.5-01
on_both!(backfill_resumes_into_the_past_and_leaves_the_harvest_cursor);
async fn backfill_resumes_into_the_past_and_leaves_the_harvest_cursor(on: On) {
    let server = upstream(Vec::new());
    on.run(|place| {
        place.apply(&manifest(server.base_url()));
        run(place, &["--from", "2024-01-01T06:00:00Z", "--to", "2024-01-01T12:00:00Z"]);
        let before = cursor(place, "HARVEST");
        // The window of the harvest began at 06:00, so its cursor still stands at the beginning.
        let first =
            run(place, &[&BACKFILL[..], &["--from", "2024-01-01T03:00:00Z", "--to", "2024-01-01T06:00:00Z"]].concat());
        assert!(first["inserted"].as_u64().unwrap() > 0);
        let row = cursor(place, "BACKFILL");
        assert_eq!(row["namespace_scope_code"], "CUSTOM");
        assert_eq!(row["direction_code"], "BACKFILL");
        assert_eq!(row["normalized_instant"], "2024-01-01T03:00:00.000000000Z");
        // The backfill continues where it stopped, down to the beginning, and then has nothing to do.
        run(place, &[&BACKFILL[..], &["--from", "2024-01-01T00:00:00Z"]].concat());
        assert_eq!(cursor(place, "BACKFILL")["normalized_instant"], "2024-01-01T00:00:00.000000000Z");
        let third = run(place, &[&BACKFILL[..], &["--from", "2024-01-01T00:00:00Z"]].concat());
        assert_eq!(third["pages"], 0, "{third}");
        assert_eq!(cursor(place, "HARVEST")["version"], before["version"], "the harvest's cursor was not touched");
        let expected: BTreeSet<String> = names(&server, "2024-01-01T12:00:00Z");
        assert_eq!(stored(place), expected);
        let events = place.list(&["cursor-events"]);
        let falling: Vec<_> = events.iter().filter(|event| event["operation_code"] == "BACKFILL").collect();
        assert!(falling.iter().all(|event| event["direction_code"] == "BACKFILL"));
        // Newest window first: ids rise while windows fall.
        let mut slices: Vec<_> = place.list(&["slices"]);
        slices.reverse();
        let plan = place.list(&["plans"]).into_iter().find(|plan| plan["operation_code"] == "BACKFILL").unwrap();
        let windows: Vec<_> = slices
            .iter()
            .filter(|slice| slice["plan_id"] == plan["id"])
            .map(|slice| slice["window_from"].to_string())
            .collect();
        assert!(windows.windows(2).all(|pair| pair[0] > pair[1]), "{windows:?}");
        assert!(plan["record_remarks"]["namespace"]["scope"] == "CUSTOM", "the plan states its namespace");
    });
}

fn names(server: &MockApi, to: &str) -> BTreeSet<String> {
    names_in(server, "1970-01-01T00:00:00Z", to)
}

fn names_in(server: &MockApi, from: &str, to: &str) -> BTreeSet<String> {
    let [from, to] = [from, to].map(|text| text.parse::<patra_core::Ts>().unwrap().micros());
    server.dataset().ids_in(from, to).map(str::to_owned).collect()
}

/// The same listing without a time filter: every window is a walk along its tokens from end to end.
fn unfiltered(base_url: &str) -> String {
    manifest(base_url)
        .replace(r#", from: "${ window.from | iso }", to: "${ window.to | iso }""#, "")
        .replace("supports_updated_since: true, ", "supports_updated_since: false, ")
        .replace("as_of: true, ", "")
}

// covers: ING-6.1-02, ING-6.1-03, ING-6.2-02, ING-6.2-03, ING-6.1-07, ING-10.4-01, ING-0.2-06, ING-2.4-02
on_both!(endpoint_without_time_filter_is_scanned_and_each_window_keeps_its_records);
async fn endpoint_without_time_filter_is_scanned_and_each_window_keeps_its_records(on: On) {
    let server = upstream(Vec::new());
    on.run(|place| {
        place.apply(&unfiltered(server.base_url()));
        server.reset();
        run(place, &["--from", "2024-01-01T06:00:00Z", "--to", "2024-01-01T09:00:00Z"]);
        let ours = names_in(&server, "2024-01-01T06:00:00Z", "2024-01-01T09:00:00Z");
        assert_eq!(stored(place), ours, "a harvest");
        let pages = server.dataset().len().div_ceil(50);
        assert!(server.log().len() >= pages, "{} requests for one walk of {pages} pages", server.log().len());
        run(place, &[&BACKFILL[..], &["--from", "2024-01-01T03:00:00Z", "--to", "2024-01-01T06:00:00Z"]].concat());
        let both = names_in(&server, "2024-01-01T03:00:00Z", "2024-01-01T09:00:00Z");
        assert!(both.len() > ours.len());
        assert_eq!(stored(place), both, "and a backfill: nothing twice, nothing missing, nothing of other windows");
    });
}

fn stored(place: &Workspace) -> BTreeSet<String> {
    let items = place.list(&["items"]);
    let keys: BTreeSet<_> = items.iter().map(|item| item["dedup_key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(keys.len(), items.len());
    keys
}

fn asked_for(server: &MockApi) -> Vec<String> {
    let ids = |target: &str| target.strip_prefix("/details?ids=").map(|ids| ids.replace("%2C", ","));
    let lists: Vec<String> = server.log().iter().filter_map(|entry| ids(&entry.target)).collect();
    lists.iter().flat_map(|list| list.split(',').map(str::to_owned)).collect()
}

// covers: ING-4.14-01, ING-4.14-04, ING-4.14-05, ING-6.3-01, ING-6.3-04, ING-6.3-05, ING-6.3-06, ING-6.3-08, ING-6.3-09
// covers: ING-11.7-03
// covers: ING-8.2-03, ING-8.2-08, ING-10.2-02, ING-4.4-10, ING-9.6-03
on_both!(stale_records_are_checked_again_through_kills);
async fn stale_records_are_checked_again_through_kills(on: On) {
    for place in on.places() {
        let server = upstream(vec![5]);
        place.apply(&manifest(server.base_url()));
        run(&place, &HARVEST);
        let (before, harvested) = (cursor(&place, "HARVEST"), stored(&place));
        server.reset();
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let mut rng = Rng::new(now_micros());
        let args = ["run", "far", "records", "--operation", "update", "--reason", "staleness", "--lease-secs", "1"];
        run_through_kills(&place, &mut rng, &args, 0, Duration::ZERO).await;
        let asked: BTreeSet<_> = asked_for(&server).into_iter().collect();
        assert_eq!(asked, harvested, "each stored record, and nothing else");
        assert_eq!(stored(&place), harvested, "records deleted upstream stay stored");
        assert_eq!(cursor(&place, "HARVEST")["version"], before["version"]);
        let last = harvested.iter().next_back().map(String::as_str);
        // A busy machine may lose a lease of a second between the end of a run and its cursor: the next plan moves the
        // cursor.
        if cursor(&place, "UPDATE")["cursor_value"].as_str() != last {
            run(&place, &["--operation", "update", "--reason", "staleness"]);
        }
        let row = cursor(&place, "UPDATE");
        assert_eq!((&row["cursor_type_code"], &row["namespace_scope_code"]), (&"ID".into(), &"CUSTOM".into()));
        assert_eq!(row["cursor_value"].as_str(), last);
        // Killed in between: all records are checked, and hardly one twice.
        server.reset();
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        run_through_kills(&place, &mut rng, &args, 3, Duration::from_millis(500)).await;
        let asked: BTreeSet<_> = asked_for(&server).into_iter().collect();
        assert_eq!(asked, harvested);
        let open = place.list(&["tasks"]).iter().any(|task| task["status_code"] != "SUCCEEDED");
        assert!(!open);
        let slice = &place.list(&["slices"])[0];
        assert_eq!(slice["slice_spec"]["dimension"], "ID");
        assert_eq!(slice["slice_spec"]["phase"]["twoPhase"], true);
        assert!(slice["window_from"].is_null());
    }
}

// covers: ING-4.14-02, ING-6.3-03, ING-6.3-02
on_both!(changed_mapping_is_applied_to_unchanged_records);
async fn changed_mapping_is_applied_to_unchanged_records(on: On) {
    let server = upstream(Vec::new());
    on.run(|place| {
        place.apply(&manifest(server.base_url()));
        run(place, &HARVEST);
        place.apply(
            &manifest(server.base_url()).replace("fields: { title: \"$.title\" }", "fields: { name: \"$.title\" }"),
        );
        let report = run(place, &["--operation", "update", "--reason", "expr-change"]);
        let count = stored(place).len();
        assert_eq!(report["updated"], count, "{report}");
        assert!(place.list(&["items"]).iter().all(|item| item["fields"]["name"].is_string()));
        let again = run(place, &["--operation", "update", "--reason", "expr-change"]);
        assert_eq!(again["pages"], 0, "nothing is left to be done: {again}");
    });
}

// covers: ING-4.14-03, ING-11.8-03, ING-12.5-03, ING-12.2-06
on_both!(signals_are_fetched_and_settled);
async fn signals_are_fetched_and_settled(on: On) {
    let server = upstream(vec![3]);
    on.run(|place| {
        place.apply(&manifest(server.base_url()));
        run(place, &HARVEST);
        let names: Vec<String> = server.dataset().records().map(|(id, ..)| id.to_owned()).collect();
        server.reset();
        let output =
            place.run(&["signal", "far", "records", "--id", &names[7], "--id", &names[3], "--reason", "no price"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for _ in 0..5 {
            run(place, &["--operation", "update", "--reason", "signals"]);
        }
        let asked = asked_for(&server);
        assert_eq!(asked.iter().filter(|id| **id == names[7]).count(), 1, "{asked:?}");
        assert_eq!(asked.iter().filter(|id| **id == names[3]).count(), 5, "given up after five tries");
        let signals = place.list(&["signals"]);
        let status = |key: &str| signals.iter().find(|row| row["item_key"] == key).unwrap()["status_code"].clone();
        assert_eq!((status(&names[7]), status(&names[3])), ("RESOLVED".into(), "ABANDONED".into()));
        run(place, &["--operation", "update", "--reason", "signals"]);
        assert_eq!(asked_for(&server).len(), asked.len());
    });
}

on_both!(pause_of_other_work_blocks_nothing_else);
async fn pause_of_other_work_blocks_nothing_else(on: On) {
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(5, 100), Script::default()).unwrap();
    for place in on.places() {
        place.apply(&crate::support::manifest(server.base_url()));
        let run = |to: &str| place.run(&["run", "far", "records", "--to", to]);
        assert!(run("2024-01-01T06:00:00Z").status.success());
        for held in [["task", "1"], ["plan", "1"], ["slice", "1"]] {
            assert!(place.run(&["pause", held[0], held[1]]).status.success());
        }
        let output = run("2024-01-02");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

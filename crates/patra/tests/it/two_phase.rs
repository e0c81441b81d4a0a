//! Two phases: ids first, then their content, and windows with more records than a query returns. Harvested from the
//! mock API with the program itself, killed in between, on both stores.

use std::collections::BTreeSet;
use std::time::Duration;

use patra_core::rng::Rng;
use patra_upstream::{Dataset, DetailEndpoints, FailingItem, FaultSchedule, MockApi, Script};

use crate::support::{Workspace, now_micros, preamble, run_through_kills};

pub(crate) fn manifest(base_url: &str) -> String {
    preamble(base_url)
        + r#"  search:
    path: /ids/offset
    query: { offset: "${ page.offset }", limit: "${ page.size }", from: "${ window.from | iso }", to: "${ window.to | iso }" }
    pagination: { type: offset, page_size: 40, result_ceiling: 200 }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT1M, max_window: P1D, align: min, initial: 2024-01-01 }
    batching: { id_batch_size: 15 }
    two_phase: { detail: fetch }
    response: { items_path: $.items, id_path: $, total_path: $.total }
  fetch:
    role: detail
    path: /details
    query: { ids: "${ ids | join(',') }" }
    response: { items_path: $.items, id_path: $.id, updated_at_path: $.updated_at, version_path: $.rev }
    fields: { title: $.title }
"#
}

const RUN: [&str; 9] =
    ["run", "far", "search", "--to", "2024-01-02T12:00:00Z", "--concurrency", "2", "--lease-secs", "1"];

/// Two ids that cannot be fetched: one makes its whole group fail, one is missing in the response.
const POISON: usize = 77;
const GONE: usize = 300;

fn upstream(seed: u64) -> MockApi {
    let dataset = Dataset::builder().seed(seed).count(1_500).build();
    let script = Script {
        latency_ms: 2,
        ceiling: Some(200),
        e500: FaultSchedule::every(41),
        reset: FaultSchedule::every(53),
        detail: DetailEndpoints {
            max_ids: 15,
            gone: vec![GONE],
            poison: vec![FailingItem { index: POISON, status: 400 }],
            ..DetailEndpoints::default()
        },
        ..Script::default()
    };
    MockApi::start(([127, 0, 0, 1], 0).into(), dataset, script).unwrap()
}

// covers: ING-4.6-02, ING-4.6-03, ING-4.6-04, ING-4.6-05, ING-11.6-02, ING-15-02, ING-15-06
// covers: ING-1.2-02
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_harvests_in_two_phases_through_kills() {
    case(&Workspace::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_harvests_in_two_phases_through_kills() {
    let Some(place) = Workspace::postgres() else { return };
    case(&place).await;
}

async fn case(place: &Workspace) {
    let seed = now_micros();
    eprintln!("seed of the kill moments: {seed}");
    let mut rng = Rng::new(seed);
    let server = upstream(rng.next_u64());
    place.apply(&manifest(server.base_url()));
    run_through_kills(place, &mut rng, &RUN, 4, Duration::from_millis(800)).await;
    compare(place, &server);
}

// covers: ING-15-06
#[tokio::test(flavor = "multi_thread")]
async fn id_listed_again_in_the_same_version_is_not_fetched_again() {
    let place = Workspace::sqlite();
    let dataset = Dataset::builder().seed(7).count(600).build();
    let script = Script { detail: DetailEndpoints { max_ids: 15, ..DetailEndpoints::default() }, ..Script::default() };
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), dataset, script).unwrap();
    // Every slice lists the two hours before it once more.
    let manifest = manifest(server.base_url())
        .replace("query: { offset:", "query: { version: \"1\", offset:")
        .replace("safety_lag: PT1M, max_window: P1D", "safety_lag: PT1M, lookback: PT2H, max_window: PT3H")
        .replace("{ detail: fetch }", "{ detail: fetch, version_path: $.version }")
        .replace("id_path: $,", "id_path: $.id,");
    place.apply(&manifest);
    // One slice after the other: two at once may both request an id, and fetch it twice.
    let one_by_one = ["run", "far", "search", "--to", "2024-01-02T12:00:00Z", "--concurrency", "1"];
    run_through_kills(&place, &mut Rng::new(0), &one_by_one, 0, Duration::ZERO).await;
    let mut asked: Vec<String> = Vec::new();
    for entry in server.log() {
        if let Some(ids) = entry.target.strip_prefix("/details?ids=") {
            asked.extend(ids.split("%2C").map(str::to_owned));
        }
    }
    let once: BTreeSet<_> = asked.iter().cloned().collect();
    assert_eq!((asked.len(), once.len()), (600, 600));
    assert_eq!(place.list(&["items"]).len(), 600);
}

fn compare(place: &Workspace, server: &MockApi) {
    let names: Vec<String> = server.dataset().records().map(|(id, ..)| id.to_owned()).collect();
    let bad: BTreeSet<_> = [POISON, GONE].map(|index| names[index].clone()).into();
    let expected: BTreeSet<_> = names.iter().filter(|id| !bad.contains(*id)).cloned().collect();
    let items = place.list(&["items"]);
    let stored: BTreeSet<_> = items.iter().map(|item| item["dedup_key"].as_str().unwrap().to_owned()).collect();
    assert_eq!((items.len(), stored), (expected.len(), expected), "each record once, and no other");

    let aside: BTreeSet<_> =
        place.list(&["quarantine"]).iter().map(|row| row["dedup_key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(aside, bad, "ids that cannot be fetched are quarantined, not lost");
    let marked: BTreeSet<_> = place
        .list(&["candidates", "--status", "BAD"])
        .iter()
        .map(|row| row["candidate_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(marked, bad);
    assert!(!place.list(&["slices", "--status", "PARTIAL"]).is_empty(), "a day holds more than the ceiling");
    let cursors = place.list(&["cursors"]);
    assert_eq!(cursors[0]["normalized_instant"], "2024-01-02T12:00:00.000000000Z");
    place.check_integrity();
}

//! Replays of special batches: ids, details in groups, refused groups, and records fetched again.

use serde_json::Value;

use super::{code, dump::dump, line, replay};
use crate::support::{On, Workspace, preamble};
use patra_upstream::{Dataset, DetailEndpoints, FailingItem, MockApi, Script};

const POISON: usize = 17;
const GONE: usize = 40;

fn manifest(base_url: &str) -> String {
    preamble(base_url)
        + r#"  search:
    path: /ids/offset
    query: { offset: "${ page.offset }", limit: "${ page.size }", from: "${ window.from | iso }", to: "${ window.to | iso }" }
    pagination: { type: offset, page_size: 40 }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT1M, max_window: P1D, align: min, initial: 2024-01-01 }
    batching: { id_batch_size: 15 }
    two_phase: { detail: fetch }
    update: { segment_size: 100 }
    raw: { keep: P1D }
    response: { items_path: $.items, id_path: $, total_path: $.total }
  fetch:
    role: detail
    path: /details
    query: { ids: "${ ids | join(',') }", at: "${ now() | iso }" }
    response: { items_path: $.items, id_path: $.id, updated_at_path: $.updated_at, version_path: $.rev }
    fields: { title: $.title }
"#
}

fn upstream() -> MockApi {
    let detail = DetailEndpoints {
        max_ids: 15,
        gone: vec![GONE],
        poison: vec![FailingItem { index: POISON, status: 400 }],
        ..DetailEndpoints::default()
    };
    let dataset = Dataset::builder().seed(3).count(200).build();
    MockApi::start(([127, 0, 0, 1], 0).into(), dataset, Script { detail, ..Script::default() }).unwrap()
}

fn all_the_same(place: &Workspace, batches: &[Value]) {
    for batch in batches {
        let report = replay(place, batch, &[], 0);
        assert_eq!(report["verdict"], "SAME", "{batch}: {report}");
        assert_eq!(line(&report, "request")["result"], "same");
        assert_eq!(report["healing"]["agrees"], true, "{report}");
    }
}

// covers: ING-DOD-10, ING-14.9-09, ING-14.9-11, ING-15-07
on_both!(ids_details_refused_groups_and_updates_replay_as_they_were);
async fn ids_details_refused_groups_and_updates_replay_as_they_were(on: On) {
    on.run(|place| {
        let server = upstream();
        place.apply(&manifest(server.base_url()));
        code(&place.run(&["run", "far", "search", "--to", "2024-01-02"]), 0);
        let harvested = place.list(&["batches"]);
        let refused = |batch: &&Value| !batch["response_digest"]["refused"].is_null();
        assert!(harvested.iter().any(|batch| refused(&batch)), "the poisoned id was refused");
        assert!(harvested.iter().any(|batch| batch["request_digest"]["url"].as_str().unwrap().ends_with("/details")));
        let items = place.list(&["items"]);
        let ids: Vec<_> = items.iter().take(40).map(|item| item["dedup_key"].as_str().unwrap()).collect();
        let mut signal = vec!["signal", "far", "search"];
        ids.iter().for_each(|id| signal.extend(["--id", *id]));
        code(&place.run(&signal), 0);
        code(&place.run(&["run", "far", "search", "--operation", "update", "--reason", "signals"]), 0);
        let batches = place.list(&["batches"]);
        assert!(batches.len() > harvested.len(), "the update has batches too");
        drop(server);
        let before = dump(place);
        all_the_same(place, &batches);
        assert_eq!(before, dump(place), "a replay has written");
    });
}

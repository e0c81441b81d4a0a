//! Committing pages: ledger, records, quarantine.

use std::sync::Arc;

use patra_core::paging::Position;
use patra_core::port::query::{Cell, View};
use patra_core::record::{Record, RecordStream, RecordVersion};
use patra_core::tx::{BatchStats, CommitBatch, Lease, TxError};
use patra_core::{RunId, Ts};

use super::fixture::{int, text, time};
use super::{Fixture, make};

fn counts(stats: &BatchStats) -> (u32, u32, u32) {
    (stats.inserted, stats.updated, stats.skipped)
}

/// Key and payload of every item, by key.
async fn stored(fx: &Fixture) -> Vec<(String, String)> {
    let items = fx.rows(View::Items).await;
    let mut stored: Vec<_> = items.texts("dedup_key").into_iter().zip(items.texts("payload")).collect();
    stored.sort();
    stored
}

// covers: ING-7.6-02, ING-9.3-04, ING-9.3-05, ING-9.3-06, ING-2.4-05
pub(super) async fn page_becomes_a_ledger_row_and_items(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let page = make::page(&lease, run, 1, vec![make::record("b", 5), make::record("a", 7)], true);
    let done = fx.ok(Arc::new(page.clone())).await;
    assert_eq!((counts(&done.stats), done.replayed), ((2, 0, 0), false));
    assert_eq!(done.stats, BatchStats { inserted: 2, ..page.stats });

    let batches = fx.rows(View::Batches).await;
    assert_eq!(batches.ids(), [done.batch.0]);
    let numbers = ["run_id", "task_id", "plan_id", "batch_no", "page_no", "page_size", "has_next", "latency_ms"];
    let numbers = numbers.map(|column| int(&batches.at(0, column)));
    assert_eq!(numbers, [run.0, lease.task.0, lease.lineage.plan.0, 1, 0, 10, 1, 7]);
    assert_eq!(text(&batches.at(0, "status_code")), "SUCCEEDED");
    assert_eq!(serde_json::from_str::<BatchStats>(&text(&batches.at(0, "stats"))).expect("statistics"), done.stats);
    assert_eq!(text(&batches.at(0, "request_digest")), page.request_digest);
    assert_eq!(text(&batches.at(0, "response_digest")), page.response_digest);
    assert_eq!((batches.at(0, "error"), batches.at(0, "before_token")), (Cell::Null, Cell::Null));

    let items = fx.rows(View::Items).await;
    let at = items.texts("dedup_key").iter().position(|key| key == "a").expect("item a");
    assert_eq!(items.texts("payload")[at], r#"{"id":"a","at":7}"#);
    assert_eq!(items.texts("fields")[at], r#"{"at":7}"#);
    assert_eq!(time(&items.at(at, "updated_at")), Ts::from_secs(7));
    assert_eq!((int(&items.at(at, "run_id")), text(&items.at(at, "kind"))), (run.0, "work".to_owned()));
}

// covers: ING-9.4-01, ING-11.1-02, ING-11.1-03, ING-11.1-04, ING-7.10-05, ING-4.4-20, ING-4.4-23, ING-4.5-03
// covers: ING-4.9-02
pub(super) async fn newer_replaces_equal_and_older_are_skipped(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let first = ["equal", "newer", "older"].map(|key| make::record(key, 50)).to_vec();
    fx.commit(&lease, run, 1, first, true).await;
    let created = fx.rows(View::Items).await.ids();
    let mut equal = make::record("equal", 50);
    equal.payload = r#"{"other":"text"}"#.into();
    let second = vec![equal, make::record("newer", 51), make::record("older", 49), make::record("new", 1)];
    let done = fx.commit(&lease, run, 2, second, false).await;
    assert_eq!(counts(&done.stats), (1, 1, 2));
    let expected = [("equal", 50), ("new", 1), ("newer", 51), ("older", 50)];
    let expected = expected.map(|(key, at)| (key.to_owned(), format!(r#"{{"id":"{key}","at":{at}}}"#)));
    assert_eq!(stored(&fx).await, expected);
    let ids = fx.rows(View::Items).await.ids();
    assert!(ids.len() == 4 && created.iter().all(|id| ids.contains(id)), "a replaced item keeps its row");
}

// covers: ING-11.1-03, ING-4.9-02
pub(super) async fn version_decides_between_records_of_equal_time(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let versioned = |source_version, payload: &'static str| Record {
        version: RecordVersion { updated_at: Ts::from_micros(-5), source_version },
        payload: payload.into(),
        ..make::record("a", 0)
    };
    let steps = [(2, "\"2\"", (1, 0, 0)), (1, "\"1\"", (0, 0, 1)), (2, "\"2b\"", (0, 0, 1)), (3, "\"3\"", (0, 1, 0))];
    for (no, (version, payload, expected)) in (1..).zip(steps) {
        let done = fx.commit(&lease, run, no, vec![versioned(version, payload)], true).await;
        assert_eq!(counts(&done.stats), expected, "version {version}");
    }
    // The time comes first: a newer one wins with any version.
    let newer = Record {
        version: RecordVersion { updated_at: Ts::from_micros(-4), source_version: -9 },
        ..versioned(0, "\"t\"")
    };
    assert_eq!(counts(&fx.commit(&lease, run, 5, vec![newer], true).await.stats), (0, 1, 0));
    assert_eq!(stored(&fx).await, [("a".to_owned(), "\"t\"".to_owned())]);
}

// covers: ING-11.8-02, ING-9.4-07
pub(super) async fn bad_record_is_quarantined_and_blocks_nothing(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let mut page = make::page(&lease, run, 1, vec![make::record("good", 1)], false);
    page.rejected = vec![make::rejected(3), patra_core::record::RejectedRecord { key: None, ..make::rejected(1) }];
    (page.stats.failed, page.stats.skipped, page.stats.items_count) = (2, 4, 7);
    let done = fx.ok(Arc::new(page)).await;
    assert_eq!((counts(&done.stats), done.stats.failed), ((1, 0, 4), 2), "what was dropped before stays counted");
    assert_eq!(fx.rows(View::Items).await.len(), 1);

    let kept = fx.rows(View::Quarantine).await;
    let mut places: Vec<_> = kept.column("item_index").iter().map(int).collect();
    places.sort_unstable();
    assert_eq!(places, [1, 3]);
    let at = kept.column("item_index").iter().position(|cell| int(cell) == 3).expect("the third record");
    assert_eq!((text(&kept.at(at, "dedup_key")), kept.at(1 - at, "dedup_key")), ("bad-3".into(), Cell::Null));
    assert_eq!(
        (text(&kept.at(at, "error_code")), text(&kept.at(at, "status_code"))),
        ("PARSE_ERROR".into(), "SIGNALLED".into())
    );
    assert_eq!(text(&kept.at(1 - at, "status_code")), "OPEN", "the key of the record is unknown");
    assert_eq!(
        (text(&kept.at(at, "reason")), text(&kept.at(at, "sample"))),
        ("no update time".into(), "{\"id\":…".into())
    );
    assert_eq!(
        (int(&kept.at(at, "run_id")), int(&kept.at(at, "task_id")), int(&kept.at(at, "batch_no"))),
        (run.0, lease.task.0, 1)
    );
}

// covers: ING-9.4-03, ING-11.2-02, ING-9.3-08, ING-7.6-01, ING-7.10-02, ING-2.4-05, ING-4.9-04, ING-4.11-04
pub(super) async fn repeated_page_returns_the_first_counts(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let mut page = make::page(&lease, run, 1, vec![make::record("a", 1)], true);
    page.rejected = vec![make::rejected(0)];
    let first = fx.ok(Arc::new(page.clone())).await;
    let before = all_rows(&fx).await;
    // Even if the upstream responds differently the second time.
    page.records = vec![make::record("a", 99), make::record("b", 99)];
    page.rejected = vec![make::rejected(0), make::rejected(1)];
    page.next = None;
    let again = fx.ok(Arc::new(page)).await;
    assert_eq!((again.batch, again.stats, again.replayed), (first.batch, first.stats, true));
    assert_eq!(all_rows(&fx).await, before);
}

async fn all_rows(fx: &Fixture) -> Vec<Vec<Vec<Cell>>> {
    let mut all = Vec::new();
    for view in [View::Items, View::Batches, View::Quarantine, View::Tasks, View::Runs] {
        all.push(fx.rows(view).await.rows);
    }
    all
}

// covers: ING-11.2-01, ING-7.6-03, ING-7.10-02, ING-4.9-04
pub(super) async fn token_is_read_once_per_run(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let at = |lease: &Lease, run, no, token: &str, records| CommitBatch {
        before_token: Some(token.into()),
        position: Position::Token(Some(token.into())),
        next: Some(Position::Token(Some("next".into()))),
        ..make::page(lease, run, no, records, true)
    };
    fx.ok(Arc::new(at(&lease, run, 1, "t", vec![]))).await;
    let batches = fx.rows(View::Batches).await;
    assert_eq!(
        (text(&batches.at(0, "before_token")), text(&batches.at(0, "after_token"))),
        ("t".into(), "next".into())
    );
    assert_eq!(batches.at(0, "page_no"), Cell::Null);

    let before = all_rows(&fx).await;
    let mut twice = at(&lease, run, 2, "t", vec![make::record("a", 1)]);
    twice.rejected = vec![make::rejected(0)];
    assert!(matches!(fx.run(Arc::new(twice)).await, Err(TxError::Refused(_))));
    let mut same_key = at(&lease, run, 2, "u", vec![make::record("a", 1)]);
    same_key.idempotent_key = format!("{run}:1");
    assert!(matches!(fx.run(Arc::new(same_key)).await, Err(TxError::Refused(_))));
    assert_eq!(all_rows(&fx).await, before, "a refused page leaves nothing behind");

    let other = fx.next().await;
    let other_run = fx.start(&other).await;
    assert!(!fx.ok(Arc::new(at(&other, other_run, 1, "t", vec![]))).await.replayed);
    // Pages without a token do not conflict.
    fx.commit(&lease, run, 2, vec![], true).await;
    fx.commit(&lease, run, 3, vec![], true).await;
}

// covers: ING-2.6-01
pub(super) async fn pages_are_committed_together_or_not_at_all(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let page = |no, token: &str, key: &str| {
        let token = Some(token.to_owned());
        let records = vec![make::record(key, 1), make::record("shared", i64::from(no))];
        Arc::new(CommitBatch { before_token: token, ..make::page(&lease, run, no, records, true) })
    };
    let group: Arc<[_]> = [page(1, "a", "one"), page(2, "b", "two")].into();
    let done = fx.ok(Arc::clone(&group)).await;
    let stored: Vec<_> = done.iter().map(|page| (counts(&page.stats), page.replayed)).collect();
    assert_eq!(stored, [((2, 0, 0), false), ((1, 1, 0), false)], "each page meets what the one before it stored");
    let newest_first = done.iter().rev().map(|page| page.batch.0).collect::<Vec<_>>();
    assert_eq!(fx.rows(View::Batches).await.ids(), newest_first);

    let before = all_rows(&fx).await;
    let again = fx.ok(group).await;
    assert!(again.iter().zip(&done).all(|(again, done)| again.replayed && again.stats == done.stats), "{again:?}");
    let twice: Arc<[_]> = [page(3, "c", "three"), page(4, "c", "four")].into();
    assert!(matches!(fx.run(twice).await, Err(TxError::Refused(_))), "a token that is read twice");
    let gone = Lease { fence: patra_core::Fence(lease.fence.0 + 1), ..lease.clone() };
    let stale = |no| Arc::new(make::page(&gone, run, no, vec![make::record("late", 1)], true));
    assert_eq!(fx.run(Arc::<[_]>::from([stale(3), stale(4)])).await, Err(TxError::Fenced));
    assert_eq!(all_rows(&fx).await, before, "nothing of them is there");

    let many: Arc<[_]> = (3..=66).map(|no| page(no, &format!("t{no}"), &format!("k{no}"))).collect();
    let done = fx.ok(many).await;
    assert_eq!(done.iter().map(|page| counts(&page.stats)).collect::<Vec<_>>(), [(1, 1, 0); 64]);
    assert_eq!(fx.rows(View::Batches).await.ids().len(), 66);
}

// covers: ING-13.3-09
pub(super) async fn page_needs_a_running_run_under_its_lease(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let page = |lease: &Lease, run| Arc::new(make::page(lease, run, 1, vec![make::record("a", 1)], true));
    assert_eq!(fx.run(page(&lease, RunId(1))).await, Err(TxError::Fenced), "before the start");
    let run = fx.start(&lease).await;
    for fence in [lease.fence.0 - 1, lease.fence.0 + 1] {
        let wrong = Lease { fence: patra_core::Fence(fence), ..lease.clone() };
        assert_eq!(fx.run(page(&wrong, run)).await, Err(TxError::Fenced));
    }
    fx.ok(page(&lease, run)).await;
    fx.end(&lease, run, patra_core::tx::RunEnd::Succeeded).await;
    assert_eq!(fx.run(page(&lease, run)).await, Err(TxError::Fenced), "not even a repetition after the end");
    assert_eq!(fx.rows(View::Batches).await.len(), 1);
}

// covers: ING-13.8-02
pub(super) async fn page_of_more_rows_than_a_statement_takes_is_stored_whole(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let page = |at: std::ops::Range<u32>, secs| at.map(|at| make::record(&format!("{at:04}"), secs)).collect();
    let done = fx.commit(&lease, run, 1, page(0..1_201, 5), true).await;
    assert_eq!(counts(&done.stats), (1_201, 0, 0));
    let done = fx.commit(&lease, run, 2, page(700..1_400, 6), true).await;
    assert_eq!(counts(&done.stats), (199, 501, 0));
    let done = fx.commit(&lease, run, 3, page(100..1_400, 6), true).await;
    assert_eq!(counts(&done.stats), (0, 600, 700));
}

pub(super) async fn page_resets_the_attempt_count(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    assert_eq!(int(&fx.cell(View::Tasks, lease.task.0, "attempt_count").await), 1);
    fx.commit(&lease, run, 1, vec![], true).await;
    assert_eq!(int(&fx.cell(View::Tasks, lease.task.0, "attempt_count").await), 0);
}

// covers: ING-9.4-01, ING-11.1-01, ING-4.5-03, ING-4.9-01
pub(super) async fn item_is_identified_by_project_source_scope_and_key(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let streams = [
        make::stream(),
        RecordStream { project_key: "other".into(), ..make::stream() },
        RecordStream { provenance_code: "other".into(), ..make::stream() },
        RecordStream { dedup_scope: "other".into(), ..make::stream() },
    ];
    for (no, stream) in (1..).zip(streams) {
        let page = CommitBatch {
            stream: Arc::new(stream),
            ..make::page(&lease, run, no, vec![make::record("same", 1)], true)
        };
        assert_eq!(counts(&fx.ok(Arc::new(page)).await.stats), (1, 0, 0));
    }
    // Endpoint and kind are not part of the identity; a replacement sets its own.
    let stream = RecordStream { endpoint_name: "details".into(), kind: "detail".into(), ..make::stream() };
    let page =
        CommitBatch { stream: Arc::new(stream), ..make::page(&lease, run, 5, vec![make::record("same", 2)], true) };
    assert_eq!(counts(&fx.ok(Arc::new(page)).await.stats), (0, 1, 0));
    let items = fx.rows(View::Items).await;
    assert_eq!(items.len(), 4);
    assert_eq!(items.texts("kind").iter().filter(|kind| *kind == "detail").count(), 1);
}

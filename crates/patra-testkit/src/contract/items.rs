//! Items of sources: links, lists, counts and deletion.

use std::sync::Arc;
use std::time::Duration;

use patra_core::SourceId;
use patra_core::port::query::{BatchPage, Cell, View};
use patra_core::port::source::{ItemFilter, RawItem};
use patra_core::record::{Record, RecordStream};
use patra_core::state::TaskStatus;
use patra_core::tx::{BatchStats, ChangeSource, CommitBatch, ExpiredPurged, PurgeExpired, RunEnd};

use super::source::{PROJECT, failed, feed, poll_end};
use super::{Fixture, make};

const TICK: Duration = Duration::from_millis(5);

fn articles() -> Arc<RecordStream> {
    Arc::new(RecordStream { kind: "article".into(), ..make::stream() })
}

/// Polls a source that returns these records, and returns the stats of the page.
async fn bring(fx: &Fixture, id: SourceId, records: Vec<Record>) -> BatchStats {
    bring_of(fx, id, articles(), records).await
}

async fn bring_of(fx: &Fixture, id: SourceId, stream: Arc<RecordStream>, records: Vec<Record>) -> BatchStats {
    let lease = fx.polled(id).await;
    let (run, _) = fx.start_poll(&lease).await;
    let raw = Some(make::raw("<feed/>", make::LONG));
    let page = CommitBatch { stream, raw, ..make::page(&lease, run, 1, records, false) };
    let stats = fx.ok(Arc::new(page)).await.stats;
    assert_eq!(fx.end_poll(&lease, run, RunEnd::Succeeded, poll_end(id)).await, TaskStatus::Succeeded);
    fx.pass(TICK).await;
    stats
}

fn ask() -> ItemFilter {
    ItemFilter { project_key: PROJECT.into(), limit: 100, ..ItemFilter::default() }
}

async fn items(fx: &Fixture, ask: ItemFilter) -> Vec<RawItem> {
    fx.subject.store.raw_items(ask).await.expect("items")
}

async fn keys(fx: &Fixture, ask: ItemFilter) -> Vec<String> {
    items(fx, ask).await.into_iter().map(|item| format!("{} of {}", item.dedup_key, item.source_name)).collect()
}

pub(super) async fn item_belongs_to_every_source_that_found_it(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b")]).await;
    // The item was stored before any source found it.
    fx.plan("plan", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.commit(&lease, run, 1, vec![make::record("old", 9)], false).await;
    assert_eq!(keys(&fx, ask()).await, Vec::<String>::new());

    assert_eq!(bring(&fx, ids[0], vec![make::record("old", 9), make::record("x", 1)]).await.inserted, 1);
    assert_eq!(keys(&fx, ask()).await, ["x of a", "old of a"]);
    let first = items(&fx, ask()).await;
    assert_eq!(bring(&fx, ids[1], vec![make::record("x", 2), make::record("y", 1)]).await.updated, 1);
    assert_eq!(keys(&fx, ask()).await, ["y of b", "x of b", "x of a", "old of a"]);
    let both = items(&fx, ask()).await;
    assert_eq!((both[1].id, both[1].fields == both[2].fields), (both[2].id, true));
    // The time of the first link stays.
    bring(&fx, ids[0], vec![make::record("x", 3)]).await;
    let now = items(&fx, ask()).await;
    assert_eq!(
        now.iter().map(|item| item.fetched_at).collect::<Vec<_>>(),
        both.iter().map(|item| item.fetched_at).collect::<Vec<_>>()
    );
    assert_eq!(RawItem { fields: first[0].fields.clone(), ..now[2].clone() }, first[0]);
    assert_eq!((&*now[2].fields, &*now[2].source_type, now[2].source), (r#"{"at":3}"#, "rss", ids[0]));
    // An empty page links nothing.
    bring(&fx, ids[1], Vec::new()).await;
    assert_eq!(items(&fx, ask()).await, now);
}

pub(super) async fn items_are_listed_newest_first(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b")]).await;
    bring(&fx, ids[0], vec![make::record("1", 1), make::record("2", 1)]).await;
    bring(&fx, ids[1], vec![make::record("3", 1)]).await;
    bring(&fx, ids[0], vec![make::record("4", 1)]).await;
    let other = Arc::new(RecordStream { project_key: "other".into(), ..(*articles()).clone() });
    bring_of(&fx, ids[1], other, vec![make::record("5", 1)]).await;
    assert_eq!(keys(&fx, ask()).await, ["4 of a", "3 of b", "2 of a", "1 of a"]);
    assert_eq!(keys(&fx, ItemFilter { limit: 2, offset: 1, ..ask() }).await, ["3 of b", "2 of a"]);
    assert_eq!(keys(&fx, ItemFilter { limit: 0, ..ask() }).await, Vec::<String>::new());
    let of = |ids: &[SourceId]| Some(ids.iter().map(|id| id.0).collect());
    assert_eq!(keys(&fx, ItemFilter { sources: of(&[ids[1]]), ..ask() }).await, ["3 of b"]);
    assert_eq!(keys(&fx, ItemFilter { sources: of(&ids), offset: 3, ..ask() }).await, ["1 of a"]);
    assert_eq!(keys(&fx, ItemFilter { sources: of(&[]), ..ask() }).await, Vec::<String>::new());
    let since = items(&fx, ask()).await[1].fetched_at;
    assert_eq!(keys(&fx, ItemFilter { since: Some(since), ..ask() }).await, ["4 of a", "3 of b"]);
    assert_eq!(keys(&fx, ItemFilter { since: Some(since), sources: of(&[ids[0]]), ..ask() }).await, ["4 of a"]);
    assert_eq!(keys(&fx, ItemFilter { project_key: "other".into(), ..ask() }).await, ["5 of b"]);
    // Items of a deleted source stay.
    fx.change(ids[1], ChangeSource { delete: true, ..ChangeSource::default() }).await.expect("a deletion");
    assert_eq!(keys(&fx, ItemFilter { limit: 2, ..ask() }).await, ["4 of a", "3 of b"]);
}

pub(super) async fn collector_stats_count_fetches_errors_and_items(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c", "d"].map(feed)).await;
    fx.plan("plan", &make::windows(0, 1)).await;
    fx.finish(&fx.next().await, RunEnd::Succeeded).await;
    bring(&fx, ids[0], vec![make::record("1", 1), make::record("2", 1)]).await;
    bring(&fx, ids[1], vec![make::record("2", 1)]).await;
    fx.fetch(ids[1], failed("no"), poll_end(ids[1])).await;
    fx.change(ids[3], ChangeSource { is_active: Some(false), ..ChangeSource::default() }).await.expect("a pause");
    fx.queue(&[ids[0]]).await;
    let running = fx.polled_of(&[ids[2]]).await;
    let stats = fx.subject.store.collector_stats(PROJECT).await.expect("an answer");
    assert_eq!((stats.fetches_24h, stats.errors_24h, stats.items_24h, stats.running), (3, 1, 3, running));
    assert_eq!(stats.heartbeats, []);
    let foreign = fx.subject.store.collector_stats("other").await.expect("an answer");
    let counts = (foreign.fetches_24h, foreign.errors_24h, foreign.items_24h, foreign.running);
    assert_eq!(counts, (0, 0, 0, 0), "another project's work is not counted");
    let stats = fx.subject.store.raw_item_stats(PROJECT).await.expect("an answer");
    let counts: Vec<_> = stats.iter().map(|row| (row.source, &*row.name, row.total_items, row.items_24h)).collect();
    assert_eq!(counts, [(ids[0], "a", 2, 2), (ids[1], "b", 1, 1), (ids[2], "c", 0, 0)]);
    let last = items(&fx, ask()).await[0].fetched_at;
    assert_eq!((stats[1].last_item_at, stats[2].last_item_at, &*stats[0].r#type), (Some(last), None, "rss"));
    assert_eq!(fx.subject.store.raw_item_stats("other").await, Ok(Vec::new()));
    fx.pass(Duration::from_secs(90_000)).await;
    let stats = fx.subject.store.collector_stats(PROJECT).await.expect("an answer");
    assert_eq!((stats.fetches_24h, stats.errors_24h, stats.items_24h), (0, 0, 0));
    let stats = fx.subject.store.raw_item_stats(PROJECT).await.expect("an answer");
    assert_eq!((stats[0].total_items, stats[0].items_24h), (2, 0));
}

impl Fixture {
    /// Queues polls of these sources, claims all waiting polls, and returns their number.
    async fn polled_of(&self, ids: &[SourceId]) -> i64 {
        self.queue(ids).await;
        self.claim_polls("collector", 10, 10).await.len() as i64
    }
}

fn clean(keep: Option<Duration>, keep_ledger: Duration, limit: u32) -> PurgeExpired {
    PurgeExpired { keep, keep_ledger, keep_jobs: make::LONG, limit }
}

// covers: COLL-44, COLL-109, COLL-110
pub(super) async fn old_items_are_emptied_and_do_not_come_back(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b")]).await;
    bring(&fx, ids[0], vec![make::record("1", 1), make::record("2", 1)]).await;
    bring(&fx, ids[1], vec![make::record("2", 1)]).await;
    bring_of(&fx, ids[1], Arc::new(make::stream()), vec![make::record("work", 1)]).await;
    assert_eq!(fx.ok(clean(None, make::LONG, 10)).await, ExpiredPurged::default(), "for ever");
    assert_eq!(fx.ok(clean(Some(make::LONG), make::LONG, 10)).await, ExpiredPurged::default(), "none is old");
    assert_eq!(
        fx.ok(clean(Some(Duration::ZERO), make::LONG, 10)).await,
        ExpiredPurged { items: 2, ..ExpiredPurged::default() }
    );
    assert_eq!(keys(&fx, ask()).await, ["work of b"]);
    assert_eq!(fx.ok(clean(Some(Duration::ZERO), make::LONG, 10)).await, ExpiredPurged::default());
    let rows = fx.rows(View::Items).await;
    assert_eq!(rows.column("payload"), [Cell::Json(r#"{"id":"work","at":1}"#.into()), Cell::Null, Cell::Null]);
    assert_eq!(rows.column("fields"), [Cell::Json(r#"{"at":1}"#.into()), Cell::Null, Cell::Null]);
    // It is stored neither as new nor as newer, and a feed that still lists it is not linked again.
    let stats = bring(&fx, ids[0], vec![make::record("1", 5), make::record("2", 1), make::record("3", 1)]).await;
    assert_eq!((stats.inserted, stats.updated, stats.skipped), (1, 0, 2));
    assert_eq!(keys(&fx, ask()).await, ["3 of a", "work of b"]);
    let lease = fx.polled(ids[1]).await;
    let (run, _) = fx.start_poll(&lease).await;
    let other = CommitBatch {
        refresh: true,
        generation: "other".into(),
        stream: articles(),
        ..make::page(&lease, run, 1, vec![make::record("1", 1)], false)
    };
    assert_eq!(fx.ok(Arc::new(other)).await.stats.skipped, 1, "a refresh brings it back neither");
    let stats = fx.subject.store.raw_item_stats(PROJECT).await.expect("an answer");
    assert_eq!(stats.iter().map(|row| row.total_items).collect::<Vec<_>>(), [1, 1]);
    // The limit applies.
    bring(&fx, ids[0], ["4", "5"].map(|key| make::record(key, 1)).to_vec()).await;
    let mut emptied = Vec::new();
    for _ in 0..3 {
        emptied.push(fx.ok(clean(Some(Duration::ZERO), make::LONG, 2)).await.items);
    }
    assert_eq!(emptied, [2, 1, 0]);
}

pub(super) async fn old_polls_are_forgotten_and_nothing_else(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c"].map(feed)).await;
    let plan = fx.plan("plan", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let raw = Some(make::raw("kept", make::LONG));
    fx.ok(Arc::new(CommitBatch { raw, ..make::page(&lease, run, 1, vec![make::record("w", 1)], false) })).await;
    fx.end(&lease, run, RunEnd::Succeeded).await;
    for id in &ids[..2] {
        bring(&fx, *id, vec![make::record(&format!("of {id}"), 1)]).await;
    }
    fx.queue(&[ids[2]]).await;
    let held = fx.claim_polls("x", 1, 1).await.remove(0);
    fx.start_poll(&held).await;
    fx.queue(&[ids[0]]).await;
    let views = [View::Jobs, View::Plans, View::Slices, View::Tasks, View::Runs, View::Batches];
    let count = async || {
        let mut counts = Vec::new();
        for view in views {
            counts.push(fx.rows(view).await.len());
        }
        counts
    };
    assert_eq!(count().await, [5, 5, 5, 5, 4, 3]);
    assert_eq!(fx.ok(clean(None, make::LONG, 10)).await, ExpiredPurged::default(), "none is old");
    let old = fx.rows(View::Runs).await;
    let of_poll = old.ids().into_iter().find(|id| *id != run.0 && old.text_of(*id, "status_code") == "SUCCEEDED");
    let of_poll = patra_core::RunId(of_poll.expect("a run"));
    assert!(fx.subject.store.raw(of_poll, 1).await.expect("an answer").is_some());
    assert_eq!(fx.ok(clean(None, Duration::ZERO, 1)).await, ExpiredPurged { polls: 1, ..ExpiredPurged::default() });
    assert_eq!(fx.ok(clean(None, Duration::ZERO, 10)).await, ExpiredPurged { polls: 1, ..ExpiredPurged::default() });
    assert_eq!(fx.ok(clean(None, Duration::ZERO, 10)).await, ExpiredPurged::default());
    assert_eq!(count().await, [3, 3, 3, 3, 2, 1]);
    let store = &fx.subject.store;
    assert_eq!(store.raw(of_poll, 1).await, Ok(None));
    assert_eq!(store.evidence(of_poll, 1).await, Ok(None));
    assert_eq!(store.progress(&format!("source-{}-0", ids[0])).await, Ok(None));
    assert!(store.raw(run, 1).await.expect("an answer").is_some(), "what is no poll stays");
    assert!(store.lineage(plan.plan, BatchPage::default()).await.expect("an answer").is_some());
    // So do items, their links, and the sources with their polls that have not ended.
    assert_eq!((fx.rows(View::Items).await.len(), items(&fx, ask()).await.len()), (3, 2));
    assert_eq!((fx.state(ids[0]).await.fetch_count, fx.source(ids[0]).await.poll_count), (1, 2));
    let next = fx.claim_polls("x", 9, 9).await;
    assert_eq!(next.iter().map(|lease| lease.source).collect::<Vec<_>>(), [Some(ids[0])]);
    assert_eq!(fx.task_status(&held).await, "EXECUTING");
}

pub(super) async fn concurrent_cleaning_and_collecting_lose_nothing(fx: Fixture) {
    let names: Vec<_> = (0..8).map(|no| feed(&format!("s{no}"))).collect();
    let ids = fx.feeds(&names).await;
    fx.queue(&ids).await;
    let leases = fx.claim_polls("x", 8, 1).await;
    let records =
        |no: i64| (0..20).map(|key| make::record(&format!("key {:02}", (key * 7) % 20), no)).collect::<Vec<_>>();
    let polls = leases.into_iter().enumerate().map(|(no, lease)| {
        let (fx, records) = (fx.clone(), records(no as i64));
        tokio::spawn(async move {
            let (run, _) = fx.start_poll(&lease).await;
            let page = CommitBatch { stream: articles(), ..make::page(&lease, run, 1, records, false) };
            fx.ok(Arc::new(page)).await;
            let id = lease.source.expect("a source");
            fx.end_poll(&lease, run, RunEnd::Succeeded, poll_end(id)).await
        })
    });
    let polls: Vec<_> = polls.collect();
    let cleans = (0..8).map(|_| {
        let fx = fx.clone();
        tokio::spawn(async move { fx.ok(clean(Some(Duration::ZERO), Duration::ZERO, 50)).await })
    });
    let (mut emptied, mut forgotten) = (0, 0);
    for clean in cleans.collect::<Vec<_>>() {
        let cleaned = clean.await.expect("an answer");
        emptied += cleaned.items;
        forgotten += cleaned.polls;
    }
    for poll in polls {
        assert_eq!(poll.await.expect("an end"), TaskStatus::Succeeded);
    }
    fx.pass(TICK).await;
    let rest = fx.ok(clean(Some(Duration::ZERO), Duration::ZERO, 500)).await;
    assert_eq!((emptied + rest.items, forgotten + rest.polls), (20, 8), "each once");
    assert_eq!(items(&fx, ask()).await, []);
    let rows = fx.rows(View::Items).await;
    assert_eq!(rows.column("payload"), vec![Cell::Null; 20], "an emptied item has got no link and no content");
}

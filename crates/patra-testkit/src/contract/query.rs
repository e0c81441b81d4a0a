//! Queries: lists, progress, keys, and values that are returned unchanged.

use std::sync::Arc;
use std::time::Duration;

use patra_core::cursor::CursorValue;
use patra_core::gate::{GateLimits, GateRequest};
use patra_core::paging::Verification;
use patra_core::port::query::{Cell, CellKind, StoredApiKey, View, ViewFilter};
use patra_core::record::{CandidateMark, DetailCandidate};
use patra_core::record::{Record, RecordVersion};
use patra_core::state::PauseKind;
use patra_core::tx::{
    ArchiveLedger, CreateKey, KeyScope, MarkCredential, PauseSubject, RequestPermits, RevokeKey, RunEnd, SkipReasons,
    TxError,
};
use patra_core::{Ts, Window};

use super::fixture::{text, time};
use super::{Fixture, credential, make, retention};

/// Makes at least one row in each view.
async fn world(fx: &Fixture) {
    fx.ok(make::provenance("h1", &[("works", Some(Duration::from_secs(3_600))), ("authors", None)])).await;
    let saved = fx.plan("a", &make::windows(0, 3)).await;
    let leases = fx.claim(2).await;
    let run = fx.start(&leases[0]).await;
    let mut page = make::page(&leases[0], run, 1, vec![make::record("a", 1), make::record("b", 1)], false);
    page.rejected = vec![make::rejected(2)];
    page.marks = vec![CandidateMark { candidate: DetailCandidate { id: "a".into(), version: "1".into() }, bad: None }];
    (page.stats.failed, page.stats.skipped, page.stats.retry_count, page.stats.throttled_count) = (1, 3, 4, 5);
    page.stats.skipped_by = SkipReasons { out_of_window: 2, filtered: 1 };
    fx.ok(Arc::new(page)).await;
    fx.end(&leases[0], run, RunEnd::Succeeded).await;
    let run = fx.start(&leases[1]).await;
    fx.commit(&leases[1], run, 1, vec![make::record("b", 2), make::record("c", 1)], true).await;
    let mut end = make::end(&leases[1], run, RunEnd::Failed { error: make::fault("gone") });
    end.failure = Some(make::failure(&leases[1], run, 2));
    fx.ok(Arc::new(end)).await;
    fx.advance(saved.cursor).await;
    fx.ok(key("k1", false)).await;
    let credential = fx.ok(credential::save(credential::binding("key", "demo", "*"), 1)).await.id;
    fx.ok(MarkCredential { credential, seen_version: 0, rejected: Some("401".into()) }).await;
    fx.ok(make::hold(PauseKind::Pause, PauseSubject::source("other"))).await;
    fx.ok(retention::export(run)).await;
    fx.ok(Arc::new(RequestPermits {
        key: "demo/works".into(),
        limits: GateLimits::default(),
        request: GateRequest::default(),
    }))
    .await;
}

fn key(prefix: &str, only_first: bool) -> CreateKey {
    let (hash, name) = (format!("hash of {prefix}"), "Schlüssel".into());
    let (projects, shared) = (Vec::new(), false);
    CreateKey { prefix: prefix.into(), hash, name, scope: KeyScope::Write, projects, shared, only_first }
}

fn of(provenance: &str) -> ViewFilter {
    ViewFilter { provenance_code: Some(provenance.into()), ..ViewFilter::default() }
}

pub(super) async fn every_view_lists_its_columns_newest_first(fx: Fixture) {
    for view in View::ALL {
        assert!(fx.rows(*view).await.is_empty(), "{} of an empty store", view.as_str());
    }
    world(&fx).await;
    fx.events("u", 1).await;
    // One old page goes to the archive, and no more.
    fx.pass(Duration::from_millis(5)).await;
    fx.ok(ArchiveLedger { before: fx.now().await, limit: 1 }).await;
    for view in View::ALL {
        let rows = fx.rows(*view).await;
        assert!(!rows.is_empty(), "{} has a row", view.as_str());
        let ids = rows.ids();
        assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "{}: {ids:?}", view.as_str());
        for row in &rows.rows {
            for (cell, column) in row.iter().zip(view.columns()) {
                let fits = match cell {
                    Cell::Null => true,
                    Cell::Int(_) => column.kind == CellKind::Int,
                    Cell::Text(_) => column.kind == CellKind::Text,
                    Cell::Time(_) => column.kind == CellKind::Time,
                    Cell::Json(_) => column.kind == CellKind::Json,
                };
                assert!(fits, "{}.{}: {cell:?}", view.as_str(), column.name);
            }
        }
    }
}

pub(super) async fn filter_returns_rows_that_meet_all_conditions(fx: Fixture) {
    world(&fx).await;
    let tasks = fx.rows(View::Tasks).await;
    let status = |status: &str| ViewFilter { status: Some(status.into()), ..of("demo") };
    assert_eq!(fx.filtered(View::Tasks, status("QUEUED")).await.len(), 1);
    assert_eq!(fx.filtered(View::Tasks, status("FAILED")).await.len(), 1);
    assert_eq!(fx.filtered(View::Tasks, status("no such")).await.len(), 0);
    for view in [View::Tasks, View::Items, View::Cursors, View::Jobs, View::Events, View::Batches] {
        assert!(fx.filtered(view, of("other")).await.is_empty(), "{}", view.as_str());
        assert_eq!(fx.filtered(view, of("demo")).await.rows, fx.rows(view).await.rows, "{}", view.as_str());
    }
    let endpoint = ViewFilter { endpoint_name: Some("authors".into()), ..ViewFilter::default() };
    assert_eq!(fx.filtered(View::Endpoints, endpoint).await.len(), 1);
    let runs = fx.rows(View::Runs).await;
    for at in 0..2 {
        let (run, task) = (runs.ids()[at], runs.at(at, "task_id"));
        let Cell::Int(task) = task else { panic!("a task id") };
        assert_eq!(
            fx.filtered(View::Runs, ViewFilter { task: Some(task), ..ViewFilter::default() }).await.ids(),
            [run]
        );
        let batches = fx.filtered(View::Batches, ViewFilter { run: Some(run), ..ViewFilter::default() }).await;
        assert_eq!(batches.len(), 2 - at, "pages of run {run}");
        let both = ViewFilter { run: Some(run), status: Some("SUCCEEDED".into()), ..ViewFilter::default() };
        assert_eq!(fx.filtered(View::Batches, both).await.len(), 1);
    }
    let Cell::Int(plan) = tasks.at(0, "plan_id") else { panic!("a plan id") };
    assert_eq!(fx.filtered(View::Slices, ViewFilter { plan: Some(plan), ..ViewFilter::default() }).await.len(), 3);
    assert_eq!(fx.filtered(View::Slices, ViewFilter { plan: Some(plan + 1), ..ViewFilter::default() }).await.len(), 0);
}

pub(super) async fn unknown_filter_is_refused(fx: Fixture) {
    world(&fx).await;
    let refused = [
        (View::Keys, of("demo")),
        (View::Provenances, ViewFilter { status: Some("READY".into()), ..ViewFilter::default() }),
        (View::Endpoints, ViewFilter { task: Some(1), ..ViewFilter::default() }),
        (View::Jobs, ViewFilter { run: Some(1), ..ViewFilter::default() }),
        (View::Gates, ViewFilter { from: Some(Ts::from_secs(1)), ..ViewFilter::default() }),
    ];
    for (view, filter) in refused {
        let answer = fx.subject.store.list(view, filter).await;
        assert!(matches!(answer, Err(TxError::Refused(_))), "{}: {answer:?}", view.as_str());
    }
}

pub(super) async fn long_list_is_read_page_by_page(fx: Fixture) {
    fx.plan("a", &make::windows(0, 130)).await;
    let all = fx.rows(View::Tasks).await.ids();
    assert_eq!(all.len(), 130);
    assert_eq!(fx.filtered(View::Tasks, ViewFilter::default()).await.len(), ViewFilter::DEFAULT_LIMIT as usize);
    let (mut read, mut before_id) = (Vec::new(), None);
    loop {
        let page = fx.filtered(View::Tasks, ViewFilter { before_id, limit: 50, ..ViewFilter::default() }).await.ids();
        let Some(last) = page.last() else { break };
        before_id = Some(*last);
        read.extend(page);
    }
    assert_eq!(read, all);
}

// covers: POOL-99
pub(super) async fn list_can_be_limited_to_a_span_of_time(fx: Fixture) {
    for job in ["a", "b", "c"] {
        fx.fire(job).await;
        fx.pass(Duration::from_millis(5)).await;
    }
    let jobs = fx.rows(View::Jobs).await;
    let (third, second) = (time(&jobs.at(0, "created_at")), time(&jobs.at(1, "created_at")));
    let ids = async |from, to| {
        fx.filtered(View::Jobs, ViewFilter { from, to, ..ViewFilter::default() }).await.texts("public_id")
    };
    assert_eq!(ids(Some(second), None).await, ["c", "b"]);
    assert_eq!(ids(None, Some(third)).await, ["b", "a"]);
    assert_eq!(ids(Some(second), Some(third)).await, ["b"]);
    assert!(ids(Some(third), Some(third)).await.is_empty());
}

pub(super) async fn progress_sums_up_the_work_of_a_trigger(fx: Fixture) {
    world(&fx).await;
    fx.fire("other").await;
    let progress = fx.progress("a").await;
    assert_eq!(progress.remarks, None);
    assert_eq!((progress.tasks_queued, progress.tasks_active), (1, 0));
    assert_eq!((progress.tasks_succeeded, progress.tasks_failed, progress.tasks_partial), (1, 1, 0));
    let failed = fx.filtered(View::Tasks, ViewFilter { status: Some("FAILED".into()), ..ViewFilter::default() }).await;
    let Cell::Json(fault) = failed.at(0, "error") else { panic!("a failed task has an error") };
    assert_eq!(progress.fault, serde_json::from_str(&fault).ok());
    assert_eq!((progress.batches, progress.inserted, progress.updated, progress.skipped), (2, 3, 1, 3));
    assert_eq!((progress.out_of_window, progress.filtered, progress.unchanged()), (2, 1, 0));
    assert_eq!((progress.rejected, progress.retries, progress.throttled), (1, 4, 5));
    assert!(!progress.is_finished());
    let lease = fx.next().await;
    assert_eq!(fx.progress("a").await.tasks_active, 1);
    fx.finish(&lease, RunEnd::Partial { error: make::fault("capped") }).await;
    let progress = fx.progress("a").await;
    assert!(progress.is_finished() && progress.tasks_partial == 1 && progress.tasks() == 3);
    assert_eq!(fx.progress("other").await.tasks(), 0);
    assert_eq!(fx.subject.store.progress("unknown").await, Ok(None));
}

pub(super) async fn unverified_tasks_are_counted(fx: Fixture) {
    fx.plan("a", &make::windows(0, 4)).await;
    let ends = [
        (RunEnd::Succeeded, Some(Verification::Unverified)),
        (RunEnd::Succeeded, Some(Verification::Seams)),
        (RunEnd::Succeeded, None),
        (RunEnd::Partial { error: make::fault("capped") }, Some(Verification::Unverified)),
    ];
    for (end, verification) in ends {
        let lease = fx.next().await;
        let mut end = make::end(&lease, fx.start(&lease).await, end);
        end.stats.verification = verification;
        fx.ok(Arc::new(end)).await;
    }
    let progress = fx.progress("a").await;
    assert_eq!((progress.tasks_succeeded, progress.tasks_unverified, progress.tasks_partial), (3, 1, 1));
    let tasks = fx.rows(View::Tasks).await;
    let marked: Vec<_> = (0..4).map(|at| tasks.at(at, "is_unverified")).collect();
    assert_eq!(marked, [Cell::Int(0), Cell::Int(0), Cell::Int(0), Cell::Int(1)], "newest first");
}

pub(super) async fn keys_are_made_found_and_revoked(fx: Fixture) {
    let store = &fx.subject.store;
    assert_eq!(store.key("k1").await, Ok(None));
    assert!(fx.ok(key("k1", true)).await.created, "the first key");
    assert!(!fx.ok(key("k2", true)).await.created, "no second first key");
    assert!(fx.ok(key("k2", false)).await.created);
    let other = CreateKey { hash: "other".into(), scope: KeyScope::Admin, ..key("k2", false) };
    assert!(!fx.ok(other).await.created, "a prefix is taken once");
    let found = StoredApiKey {
        prefix: "k2".into(),
        hash: "hash of k2".into(),
        scope: KeyScope::Write,
        projects: Vec::new(),
        shared: false,
        revoked: false,
    };
    assert_eq!(store.key("k2").await, Ok(Some(found.clone())));

    assert!(fx.ok(RevokeKey { prefix: "k2".into() }).await.revoked);
    assert_eq!(store.key("k2").await, Ok(Some(StoredApiKey { revoked: true, ..found })));
    let keys = fx.rows(View::Keys).await;
    assert_eq!(keys.texts("prefix"), ["k2", "k1"]);
    let revoked_at = time(&keys.at(0, "revoked_at"));
    fx.pass(Duration::from_millis(5)).await;
    assert!(!fx.ok(RevokeKey { prefix: "k2".into() }).await.revoked, "once is enough");
    assert!(!fx.ok(RevokeKey { prefix: "k9".into() }).await.revoked);
    assert_eq!(time(&fx.rows(View::Keys).await.at(0, "revoked_at")), revoked_at);
    fx.ok(RevokeKey { prefix: "k1".into() }).await;
    assert!(!fx.ok(key("k3", true)).await.created, "a revoked key was made too");
}

pub(super) async fn store_responds_to_a_ping(fx: Fixture) {
    assert!(fx.subject.store.ping().await.is_ok_and(|version| version > 0));
}

// covers: ING-0.1-05
pub(super) async fn payloads_are_returned_byte_for_byte(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let long = format!(r#"{{"text":"{}"}}"#, "0123456789abcdeß".repeat(65_536));
    let texts = [
        ("1 spaces", "{ \"b\" : 1.50,\n\t\"a\": 1e3, \"a\": 2 }".to_owned()),
        ("2 unicode", r#"{"t":"日本語 🦀 ñ n\u0303 \u0000 \ud83e\udd80 ' \" \\ %s $1 ?1"}"#.to_owned()),
        ("3 long", long),
        ("4 ключ '\"; drop table item; --", "[]".to_owned()),
        ("5 number", "12345678901234567890.123456789".to_owned()),
    ];
    let records: Vec<_> = texts
        .iter()
        .map(|(key, payload)| Record { payload: payload.clone().into(), fields: String::new(), ..make::record(key, 1) })
        .collect();
    fx.commit(&lease, run, 1, records, false).await;
    let items = fx.rows(View::Items).await;
    let mut stored: Vec<_> = items.texts("dedup_key").into_iter().zip(items.texts("payload")).collect();
    stored.sort();
    for ((key, payload), (stored_key, stored_payload)) in texts.iter().zip(&stored) {
        assert_eq!(key, stored_key);
        assert!(payload == stored_payload, "{key} came back changed");
    }
    assert!(
        items.column("fields").iter().all(|cell| *cell == Cell::Null),
        "an endpoint that maps no fields shows none"
    );
}

// covers: ING-0.1-03, ING-4.4-02, ING-0.4-02
pub(super) async fn times_keep_their_microseconds(fx: Fixture) {
    let instants = [
        "1969-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00.000001Z",
        "1582-10-10T12:00:00.5Z",
        "2026-03-29T01:30:00.123456Z",
        "9999-12-30T21:59:59.999999Z",
    ];
    let instants = instants.map(|text| text.parse::<Ts>().expect("a time"));
    let window = Window { from: instants[1], to: instants[4] };
    fx.plan("a", &[window]).await;
    let lease = fx.next().await;
    assert_eq!(lease.window, Some(window));
    let coverage = fx.coverage().await;
    assert_eq!((coverage.origin, &*coverage.covered), (Some(window.from), &[window][..]));
    let run = fx.start(&lease).await;
    let record = |(at, instant): (usize, &Ts)| Record {
        version: RecordVersion { updated_at: *instant, source_version: i64::MIN },
        ..make::record(&at.to_string(), 0)
    };
    fx.commit(&lease, run, 1, instants.iter().enumerate().map(record).collect(), false).await;
    let items = fx.rows(View::Items).await;
    for (row, key) in items.texts("dedup_key").iter().enumerate() {
        let at: usize = key.parse().expect("a place");
        assert_eq!(time(&items.at(row, "updated_at")), instants[at]);
    }
    // One microsecond decides.
    let later = RecordVersion { updated_at: Ts::from_micros(instants[0].micros() + 1), source_version: i64::MIN };
    let done = fx.commit(&lease, run, 2, vec![Record { version: later, ..make::record("0", 0) }], false).await;
    assert_eq!(done.stats.updated, 1);
    fx.end(&lease, run, RunEnd::Succeeded).await;
    let cursor = lease.cursor;
    let advance = fx.advance(cursor).await;
    assert_eq!(advance.target, Some(CursorValue::At(window.to)));
    fx.ok(patra_core::tx::AdvanceCursor { cursor, to: CursorValue::At(window.to), version: 0 }).await;
    assert_eq!(fx.coverage().await.value, Some(CursorValue::At(window.to)));
    assert_eq!(text(&fx.rows(View::Cursors).await.at(0, "cursor_value")).parse::<Ts>().ok(), Some(window.to));
}

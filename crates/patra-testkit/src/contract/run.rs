//! Opening runs, and where they resume.

use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::{Position, WalkProgress};
use patra_core::port::query::{Cell, View};
use patra_core::tx::{BatchStats, CommitBatch, LeaseRef, ResumePoint, RunEnd, RunStarted, StartRun, TxError};
use patra_core::{Fence, TaskId};

use super::fixture::{int, text, time};
use super::{Fixture, make};

fn again() -> RunEnd {
    RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted: false }
}

// covers: ING-9.2-01, ING-9.2-02
pub(super) async fn run_opens_once_per_lease(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let start = StartRun { lease: LeaseRef::from(&lease) };
    let first = fx.ok(start).await;
    let RunStarted::Go { run, attempt_no, snapshot_hash, slice_signature_hash, resume, validators: known } =
        first.clone()
    else {
        panic!("no go: {first:?}")
    };
    assert_eq!((attempt_no, &*snapshot_hash, resume, known), (lease.fence.0, "snapshot", None, None));
    assert_eq!(fx.rows(View::Slices).await.texts("slice_signature_hash"), [slice_signature_hash]);
    let before = (fx.rows(View::Runs).await.rows, fx.rows(View::Tasks).await.rows);
    fx.pass(Duration::from_millis(5)).await;
    assert_eq!(fx.ok(start).await, first, "a repetition gets the same run");
    assert_eq!((fx.rows(View::Runs).await.rows, fx.rows(View::Tasks).await.rows), before);

    let runs = fx.rows(View::Runs).await;
    assert_eq!((runs.ids(), runs.texts("status_code")), (vec![run.0], vec!["RUNNING".to_owned()]));
    assert_eq!((runs.at(0, "checkpoint"), runs.at(0, "finished_at")), (Cell::Null, Cell::Null));
    assert_eq!(int(&runs.at(0, "attempt_no")), lease.fence.0);
    assert_eq!(fx.task_status(&lease).await, "EXECUTING");
}

// covers: ING-13.3-09
pub(super) async fn only_the_holder_of_the_lease_opens_a_run(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let lease = fx.next().await;
    let held = LeaseRef::from(&lease);
    let waiting = fx.rows(View::Tasks).await.ids().into_iter().find(|id| *id != lease.task.0).expect("a second task");
    let wrong = [
        LeaseRef { fence: Fence(held.fence.0 - 1), ..held },
        LeaseRef { fence: Fence(held.fence.0 + 1), ..held },
        LeaseRef { task: TaskId(waiting), fence: Fence(0) },
        LeaseRef { task: TaskId(999_999), fence: Fence(1) },
    ];
    for lease in wrong {
        assert_eq!(fx.run(StartRun { lease }).await, Err(TxError::Fenced), "{lease:?}");
    }
    fx.finish(&lease, RunEnd::Succeeded).await;
    assert_eq!(fx.run(StartRun { lease: held }).await, Err(TxError::Fenced), "after the end");
    assert_eq!(fx.rows(View::Runs).await.len(), 1);
}

// covers: ING-7.5-01
pub(super) async fn task_starts_only_once(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let first = fx.next().await;
    fx.finish(&first, again()).await;
    let started = fx.cell(View::Tasks, first.task.0, "started_at").await;
    assert!(time(&started) > patra_core::Ts::from_secs(0));
    fx.pass(Duration::from_millis(5)).await;
    let second = fx.next().await;
    fx.start(&second).await;
    assert_eq!(fx.cell(View::Tasks, first.task.0, "started_at").await, started);
    assert_eq!(fx.rows(View::Runs).await.len(), 2);
}

// covers: ING-9.4-05, ING-9.2-03, ING-7.6-01
pub(super) async fn run_resumes_after_the_last_committed_page_of_any_run(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let first = fx.start(&lease).await;
    fx.commit(&lease, first, 1, vec![make::record("a", 1)], true).await;
    fx.commit(&lease, first, 2, vec![make::record("b", 1)], true).await;
    fx.end(&lease, first, again()).await;

    // Neither a run without commits nor a failed page moves the position.
    let lease = fx.next().await;
    let (second, resume) = fx.start_fully(&lease).await;
    let after_two =
        ResumePoint { run: first, batch_no: 2, next: Some(Position::Offset(20)), total: None, taken: None, walk: None };
    assert_eq!(resume, Some(after_two.clone()));
    let checkpoint = text(&fx.cell(View::Runs, second.0, "checkpoint").await);
    let checkpoint: serde_json::Value = serde_json::from_str(&checkpoint).expect("JSON");
    assert_eq!(checkpoint["resumedFrom"]["runId"], first.0);
    assert_eq!(checkpoint["resumedFrom"]["batchNo"], 2);
    let mut failed = make::end(&lease, second, again());
    failed.failure = Some(make::failure(&lease, second, 1));
    fx.ok(Arc::new(failed)).await;

    let lease = fx.next().await;
    let (third, resume) = fx.start_fully(&lease).await;
    assert_eq!(resume, Some(after_two));
    let page = make::page(&lease, third, 1, vec![make::record("c", 1)], true);
    let walk = WalkProgress { distinct: 5, digest: u64::MAX, seam: Some(u64::MAX - 1), ..WalkProgress::default() };
    let stats = BatchStats { total: Some(7), taken: Some(3), walk: Some(walk), ..page.stats };
    fx.ok(Arc::new(CommitBatch { stats, ..page })).await;
    fx.end(&lease, third, again()).await;

    let lease = fx.next().await;
    let (_, resume) = fx.start_fully(&lease).await;
    assert_eq!(
        resume,
        Some(ResumePoint {
            run: third,
            batch_no: 1,
            next: Some(Position::Offset(10)),
            total: Some(7),
            taken: Some(3),
            walk: Some(Box::new(walk))
        })
    );
}

pub(super) async fn run_after_the_last_page_has_nothing_left_to_read(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let leases = fx.claim(2).await;
    let run = fx.start(&leases[0]).await;
    fx.commit(&leases[0], run, 1, vec![make::record("a", 1)], false).await;
    fx.sweep(true).await;
    let leases = fx.claim(2).await;
    let (_, resume) = fx.start_fully(&leases[0]).await;
    assert_eq!(resume, Some(ResumePoint { run, batch_no: 1, next: None, total: None, taken: None, walk: None }));
    // Pages of another task do not matter.
    assert_eq!(fx.start_fully(&leases[1]).await.1, None);
}

pub(super) async fn paging_position_is_read_back_as_it_was_written(fx: Fixture) {
    let places = [
        Position::Offset(u64::from(u32::MAX) + 7),
        Position::Page(3),
        Position::Token(Some("tökén \"1\" \\ 🦀".into())),
        Position::Token(None),
        Position::Url(Some("https://example.org/?a=1&b=%20".into())),
        Position::Url(None),
        Position::Time,
    ];
    fx.plan("a", &make::windows(0, 1)).await;
    for place in places {
        let lease = fx.next().await;
        let run = fx.start(&lease).await;
        let mut page = make::page(&lease, run, 1, Vec::new(), true);
        (page.before_token, page.position, page.next) = (place.token_key(), place.clone(), Some(place.clone()));
        fx.ok(Arc::new(page)).await;
        fx.end(&lease, run, again()).await;
        fx.pass(Duration::from_millis(2)).await;
        let lease = fx.next().await;
        let (run, resume) = fx.start_fully(&lease).await;
        assert_eq!(resume.and_then(|resume| resume.next), Some(place));
        fx.end(&lease, run, again()).await;
        fx.pass(Duration::from_millis(2)).await;
    }
}

//! Redrive of ended tasks.

use std::sync::Arc;
use std::time::Duration;

use patra_core::cursor::CursorValue;
use patra_core::paging::Position;
use patra_core::port::query::{Cell, View};
use patra_core::tx::{
    AdvanceCursor, CancelSubject, CancelWork, EndRun, Lease, RedriveTarget, RedriveWork, Redriven, ResumePoint, RunEnd,
    TxError,
};
use patra_core::{RunId, TaskId};
use serde_json::json;

use super::fixture::{int, text};
use super::{Fixture, make};

fn again(request: &str, what: RedriveTarget) -> RedriveWork {
    RedriveWork { request: request.into(), target: what, by: "somebody".into() }
}

fn failed() -> RunEnd {
    RunEnd::Failed { error: make::fault("gone") }
}

/// The task that a new request made.
async fn queued(fx: &Fixture, request: &str, what: RedriveTarget) -> TaskId {
    match fx.ok(again(request, what)).await {
        Redriven::Queued { task, existed: false } => task,
        other => panic!("expected a new task: {other:?}"),
    }
}

/// A task that committed two pages and failed at the third.
async fn failed_at_three(fx: &Fixture) -> (Lease, RunId) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.commit(&lease, run, 1, vec![make::record("a", 1)], true).await;
    fx.commit(&lease, run, 2, vec![make::record("b", 1)], true).await;
    let failure = Some(make::failure(&lease, run, 3));
    fx.ok(Arc::new(EndRun { failure, ..make::end(&lease, run, failed()) })).await;
    (lease, run)
}

async fn checkpoint(fx: &Fixture, run: RunId) -> serde_json::Value {
    serde_json::from_str(&text(&fx.cell(View::Runs, run.0, "checkpoint").await)).expect("JSON")
}

// covers: ING-7.10-04, ING-11.2-03, ING-4.11-04
pub(super) async fn redrive_of_an_executed_batch_returns_it_and_changes_nothing(fx: Fixture) {
    let (_, run) = failed_at_three(&fx).await;
    let views = [View::Tasks, View::Runs, View::Batches, View::Slices, View::Items];
    let all = async || {
        let mut all = Vec::new();
        for view in views {
            all.push(fx.rows(view).await.rows);
        }
        all
    };
    let before = all().await;
    let batches = fx.rows(View::Batches).await;
    let answer = fx.ok(again("r", RedriveTarget::Batch { run, batch_no: 2 })).await;
    let Redriven::ReadBack { batch, stats, next } = answer else { panic!("expected the old result: {answer:?}") };
    assert_eq!((batch.0, stats.inserted, next), (batches.ids()[1], 1, Some(Position::Offset(20))));
    assert_eq!(all().await, before);
    assert_eq!(fx.ok(again("r", RedriveTarget::Batch { run: RunId(999_999), batch_no: 1 })).await, Redriven::NotFound);
    assert_eq!(fx.ok(again("r", RedriveTarget::Task(TaskId(999_999)))).await, Redriven::NotFound);
    assert_eq!(all().await, before);
}

// covers: ING-5.9-03, ING-11.2-03, ING-12.6-05
pub(super) async fn redrive_of_a_failed_or_missing_batch_repeats_its_task(fx: Fixture) {
    for (batch_no, offset) in [(3, 0), (9, 10)] {
        let window = make::window(offset, offset + 10);
        fx.plan(&format!("job {offset}"), &[window]).await;
        let lease = fx.next().await;
        let run = fx.start(&lease).await;
        fx.commit(&lease, run, 1, vec![], true).await;
        let mut end = make::end(&lease, run, failed());
        end.failure = Some(make::failure(&lease, run, 3));
        fx.ok(Arc::new(end)).await;

        let task = queued(&fx, "r", RedriveTarget::Batch { run, batch_no }).await;
        let new = fx.next().await;
        assert_eq!(new.task, task);
        let (second, resume) = fx.start_fully(&new).await;
        assert_eq!(
            resume,
            Some(ResumePoint {
                run,
                batch_no: 1,
                next: Some(Position::Offset(10)),
                total: None,
                taken: None,
                walk: None
            })
        );
        let checkpoint = checkpoint(&fx, second).await;
        assert_eq!(checkpoint["replay"], json!({ "task": lease.task.0, "request": "r" }));
        assert_eq!(checkpoint["resumedFrom"], json!({ "runId": run.0, "batchNo": 1 }));
    }
}

// covers: ING-5.9-03, ING-8.3-02
pub(super) async fn redriven_task_replaces_the_old_one(fx: Fixture) {
    let (old, _) = failed_at_three(&fx).await;
    assert!(fx.coverage().await.covered.is_empty());
    let id = queued(&fx, "r", RedriveTarget::Task(old.task)).await;
    assert_eq!(fx.ok(again("r", RedriveTarget::Task(old.task))).await, Redriven::Queued { task: id, existed: true });
    // Another redrive of the old task would make a second task of one slice.
    let second = fx.run(again("s", RedriveTarget::Task(old.task))).await;
    assert!(matches!(second, Err(TxError::Refused(_))), "{second:?}");
    assert_eq!(fx.run(again("s", RedriveTarget::Task(id))).await, Err(TxError::Conflict), "it has not ended");

    let tasks = fx.rows(View::Tasks).await;
    assert_eq!(tasks.column("slice_id"), vec![Cell::Int(old.lineage.slice.0); 2]);
    assert_eq!((int(&tasks.of(id.0, "redrive_of")), tasks.of(old.task.0, "redrive_of")), (old.task.0, Cell::Null));
    assert_eq!((int(&tasks.of(id.0, "replaced")), int(&tasks.of(old.task.0, "replaced"))), (0, 1));
    for column in ["plan_id", "provenance_code", "endpoint_name", "operation_code", "params", "credential_id"] {
        assert_eq!(tasks.of(id.0, column), tasks.of(old.task.0, column), "{column}");
    }
    for column in ["window_from", "window_to", "ordinal", "c_max", "priority"] {
        assert_eq!(tasks.of(id.0, column), tasks.of(old.task.0, column), "{column}");
    }
    assert_eq!(fx.coverage().await.covered, make::windows(0, 1), "in progress again");

    let new = fx.next().await;
    assert_eq!((new.task, new.fence.0, new.attempts), (id, 1, 1));
    assert_eq!((new.lineage, new.cursor, new.expr_hash.clone()), (old.lineage, old.cursor, old.expr_hash.clone()));
    fx.finish(&new, RunEnd::Succeeded).await;
    assert_eq!(fx.advance(new.cursor).await.target, Some(make::at(10)), "the failed one blocks nothing");
    let progress = fx.progress("a").await;
    assert_eq!((progress.tasks_succeeded, progress.tasks_failed, progress.tasks_split), (1, 0, 1));
    assert!(progress.is_finished());
    assert_eq!(fx.ok(again("r", RedriveTarget::Task(old.task))).await, Redriven::Queued { task: id, existed: true });
}

pub(super) async fn runs_of_a_redriven_task_are_replays_and_resume_from_their_own_pages(fx: Fixture) {
    let (old, run) = failed_at_three(&fx).await;
    queued(&fx, "r", RedriveTarget::Task(old.task)).await;
    let later = || RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted: false };
    let from_old =
        ResumePoint { run, batch_no: 2, next: Some(Position::Offset(20)), total: None, taken: None, walk: None };
    for round in 0..2 {
        let lease = fx.next().await;
        let (second, resume) = fx.start_fully(&lease).await;
        assert_eq!(resume, Some(from_old.clone()), "round {round}: nothing of its own yet");
        assert_eq!(checkpoint(&fx, second).await["replay"]["request"], "r");
        fx.end(&lease, second, later()).await;
        fx.pass(Duration::from_millis(2)).await;
    }
    let lease = fx.next().await;
    let third = fx.start(&lease).await;
    fx.commit(&lease, third, 1, vec![], true).await;
    fx.end(&lease, third, later()).await;
    fx.pass(Duration::from_millis(2)).await;
    let (_, resume) = fx.start_fully(&fx.next().await).await;
    assert_eq!(
        resume,
        Some(ResumePoint {
            run: third,
            batch_no: 1,
            next: Some(Position::Offset(10)),
            total: None,
            taken: None,
            walk: None
        })
    );
}

/// A redrive that failed without a page is redriven from where the first one stopped.
pub(super) async fn chain_of_redrives_resumes_from_the_last_page_of_any(fx: Fixture) {
    let (old, run) = failed_at_three(&fx).await;
    let second = queued(&fx, "r", RedriveTarget::Task(old.task)).await;
    let lease = fx.next().await;
    fx.finish(&lease, failed()).await;
    queued(&fx, "r", RedriveTarget::Task(second)).await;
    let (last, resume) = fx.start_fully(&fx.next().await).await;
    assert_eq!(
        resume,
        Some(ResumePoint { run, batch_no: 2, next: Some(Position::Offset(20)), total: None, taken: None, walk: None })
    );
    assert_eq!(checkpoint(&fx, last).await["replay"]["task"], second.0);
}

pub(super) async fn task_replaced_by_narrower_tasks_is_not_redriven(fx: Fixture) {
    fx.plan("a", &[make::window(0, 20)]).await;
    let lease = fx.next().await;
    assert_eq!(fx.run(again("r", RedriveTarget::Task(lease.task))).await, Err(TxError::Conflict));
    let slices = make::windows(0, 2).into_iter().map(|part| make::slice("split", part)).collect();
    fx.finish(&lease, RunEnd::Split { error: make::fault("too many"), slices }).await;
    let answer = fx.run(again("r", RedriveTarget::Task(lease.task))).await;
    assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}");
    assert_eq!(fx.rows(View::Tasks).await.len(), 3);
}

pub(super) async fn redrive_reopens_a_cancelled_slice_and_never_a_cancelled_plan(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 2)).await;
    let leases = fx.claim(2).await;
    let cancel = |target| CancelWork { target, reason: "wrong".into(), by: "somebody".into() };
    fx.ok(cancel(CancelSubject::Slice(leases[0].lineage.slice))).await;
    let task = queued(&fx, "r", RedriveTarget::Task(leases[0].task)).await;
    assert_eq!(text(&fx.cell(View::Slices, leases[0].lineage.slice.0, "status_code").await), "READY");
    let new = fx.next().await;
    assert_eq!(new.task, task);
    fx.finish(&new, RunEnd::Succeeded).await;

    fx.ok(cancel(CancelSubject::Plan(saved.plan))).await;
    let answer = fx.run(again("r", RedriveTarget::Task(leases[1].task))).await;
    assert!(matches!(answer, Err(TxError::Refused(_))), "nothing would consume it: {answer:?}");
    assert_eq!(fx.rows(View::Tasks).await.len(), 3);
}

pub(super) async fn redriven_segment_keeps_its_number(fx: Fixture) {
    let cursor = fx.plan_ids("a", 0, &["f", "z"]).await.cursor;
    let leases = fx.claim(2).await;
    fx.finish(&leases[0], failed()).await;
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, None);
    queued(&fx, "r", RedriveTarget::Task(leases[0].task)).await;
    let new = fx.next().await;
    fx.finish(&new, RunEnd::Succeeded).await;
    let target = fx.advance(cursor).await.target;
    assert_eq!(target, Some(nth(2, "z")));
}

pub(super) async fn redriven_segment_behind_the_cursor_blocks_nothing(fx: Fixture) {
    let cursor = fx.plan_ids("a", 0, &["f", "z"]).await.cursor;
    let leases = fx.claim(2).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    fx.advance(cursor).await;
    fx.ok(AdvanceCursor { cursor, to: nth(1, "f"), version: 0 }).await;
    queued(&fx, "r", RedriveTarget::Task(leases[0].task)).await;
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, Some(nth(2, "z")));
}

fn nth(ordinal: i64, last: &str) -> CursorValue {
    CursorValue::Nth { ordinal, last: last.into() }
}

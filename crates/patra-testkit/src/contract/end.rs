//! Ends of runs: the states of run and task, and the ledger.

use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::Position;
use patra_core::port::query::{Cell, View};
use patra_core::state::TaskStatus;
use patra_core::tx::{EndRun, Lease, LeaseRef, RunEnd, RunStats, TxError};
use patra_core::{Fence, RunId, Ts};

use super::fixture::{int, text, time};
use super::{Fixture, make};

fn requeue(counted: bool) -> RunEnd {
    RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted }
}

/// Status of run and task.
async fn statuses(fx: &Fixture, lease: &Lease, run: RunId) -> (String, String) {
    (text(&fx.cell(View::Runs, run.0, "status_code").await), fx.task_status(lease).await)
}

// covers: ING-9.2-05, ING-9.2-06, ING-2.5-07
pub(super) async fn success_closes_run_and_task(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let stats = RunStats {
        req_count: 4,
        inserted: 9,
        throttled_count: 2,
        has_next_last: true,
        observed_max: Some(Ts::from_micros(-1)),
        ..RunStats::default()
    };
    let end = EndRun { stats: stats.clone(), ..make::end(&lease, run, RunEnd::Succeeded) };
    assert_eq!(fx.ok(Arc::new(end)).await.task_status, TaskStatus::Succeeded);
    assert_eq!(statuses(&fx, &lease, run).await, ("SUCCEEDED".into(), "SUCCEEDED".into()));
    let (tasks, runs) = (fx.rows(View::Tasks).await, fx.rows(View::Runs).await);
    for column in ["lease_owner", "leased_until", "error"] {
        assert_eq!(tasks.at(0, column), Cell::Null, "{column}");
    }
    assert_eq!(runs.at(0, "error"), Cell::Null);
    assert_eq!(tasks.at(0, "finished_at"), runs.at(0, "finished_at"));
    assert!(time(&tasks.at(0, "finished_at")) >= time(&tasks.at(0, "started_at")));
    assert_eq!(serde_json::from_str::<RunStats>(&text(&runs.at(0, "stats"))).expect("statistics"), stats);
}

// covers: ING-9.2-05, ING-9.2-06
pub(super) async fn partial_or_failed_end_keeps_its_error(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let leases = fx.claim(2).await;
    let ends = [
        (RunEnd::Partial { error: make::fault("cäpped") }, "PARTIAL", "cäpped"),
        (RunEnd::Failed { error: make::fault("refused \"x\"") }, "FAILED", "refused \"x\""),
    ];
    for (lease, (end, status, message)) in leases.iter().zip(ends) {
        let run = fx.start(lease).await;
        assert_eq!(fx.end(lease, run, end).await.as_str(), status);
        assert_eq!(statuses(&fx, lease, run).await, (status.into(), status.into()));
        assert_ne!(fx.cell(View::Tasks, lease.task.0, "finished_at").await, Cell::Null);
        for (view, id) in [(View::Tasks, lease.task.0), (View::Runs, run.0)] {
            let error: patra_core::Fault =
                serde_json::from_str(&text(&fx.cell(view, id, "error").await)).expect("a fault");
            assert_eq!(error, make::fault(message));
        }
    }
    assert!(fx.claim(9).await.is_empty());
}

// covers: ING-7.5-01
pub(super) async fn counted_requeues_fail_the_task_in_the_end(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    for attempt in 1..=3 {
        let lease = fx.next().await;
        let run = fx.start(&lease).await;
        let status = fx.end(&lease, run, requeue(true)).await;
        let expected = if attempt < 3 { TaskStatus::Queued } else { TaskStatus::Failed };
        assert_eq!(status, expected, "attempt {attempt}");
        assert_eq!(statuses(&fx, &lease, run).await, ("FAILED".into(), expected.as_str().to_owned()));
        let finished = fx.cell(View::Tasks, lease.task.0, "finished_at").await;
        assert_eq!(finished == Cell::Null, attempt < 3);
        fx.pass(Duration::from_millis(2)).await;
    }
    assert!(fx.claim(9).await.is_empty());
    assert_eq!(int(&fx.rows(View::Tasks).await.at(0, "attempt_count")), 3);
}

pub(super) async fn committed_page_resets_the_requeue_count(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    for _ in 0..4 {
        let lease = fx.next().await;
        let run = fx.start(&lease).await;
        fx.commit(&lease, run, 1, Vec::new(), true).await;
        let end = EndRun { max_attempts: 1, ..make::end(&lease, run, requeue(true)) };
        assert_eq!(fx.ok(Arc::new(end)).await.task_status, TaskStatus::Queued);
        fx.pass(Duration::from_millis(2)).await;
    }
}

pub(super) async fn deferral_gives_the_attempt_back(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    for round in 1..=5 {
        let lease = fx.next().await;
        assert_eq!((lease.fence, lease.attempts), (Fence(round), 1));
        let run = fx.start(&lease).await;
        assert_eq!(fx.end(&lease, run, requeue(false)).await, TaskStatus::Queued);
        assert_eq!(statuses(&fx, &lease, run).await, ("CANCELLED".into(), "QUEUED".into()));
        assert_eq!(int(&fx.rows(View::Tasks).await.at(0, "attempt_count")), 0);
        fx.pass(Duration::from_millis(2)).await;
    }
    // With a page committed the run is PARTIAL, and no attempt is left to give back.
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.commit(&lease, run, 1, Vec::new(), true).await;
    fx.end(&lease, run, requeue(false)).await;
    assert_eq!(statuses(&fx, &lease, run).await, ("PARTIAL".into(), "QUEUED".into()));
    assert_eq!(int(&fx.rows(View::Tasks).await.at(0, "attempt_count")), 0);
    assert!(text(&fx.cell(View::Runs, run.0, "error").await).contains("later"));
}

pub(super) async fn requeued_task_waits_for_its_delay(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let delay = Duration::from_secs(50);
    fx.end(&lease, run, RunEnd::Requeue { delay, error: make::fault("slow down"), counted: true }).await;
    let ended = time(&fx.cell(View::Runs, run.0, "finished_at").await);
    assert_eq!(time(&fx.cell(View::Tasks, lease.task.0, "scheduled_at").await), ended + delay);
    assert!(fx.claim(1).await.is_empty());
}

pub(super) async fn ending_twice_returns_the_present_status(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let end = Arc::new(make::end(&lease, run, requeue(true)));
    assert_eq!(fx.ok(end.clone()).await.task_status, TaskStatus::Queued);
    let before = (fx.rows(View::Runs).await.rows, fx.rows(View::Tasks).await.rows);
    fx.pass(Duration::from_millis(5)).await;
    assert_eq!(fx.ok(end.clone()).await.task_status, TaskStatus::Queued);
    let other = Arc::new(make::end(&lease, run, RunEnd::Succeeded));
    assert_eq!(fx.ok(other).await.task_status, TaskStatus::Queued, "the first end counts");
    assert_eq!((fx.rows(View::Runs).await.rows, fx.rows(View::Tasks).await.rows), before);
    // Also if the task has continued meanwhile.
    let next = fx.next().await;
    assert_eq!(fx.ok(end.clone()).await.task_status, TaskStatus::Dispatched);
    fx.finish(&next, RunEnd::Succeeded).await;
    assert_eq!(fx.ok(end).await.task_status, TaskStatus::Succeeded);
}

pub(super) async fn run_closed_by_the_sweep_keeps_its_state(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    fx.sweep(true).await;
    let before = (fx.rows(View::Runs).await.rows, fx.rows(View::Tasks).await.rows);
    assert_eq!(fx.end(&lease, run, RunEnd::Succeeded).await, TaskStatus::Queued);
    assert_eq!((fx.rows(View::Runs).await.rows, fx.rows(View::Tasks).await.rows), before);
}

// covers: ING-13.3-09
pub(super) async fn only_the_holder_of_the_lease_ends_a_run(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    for fence in [lease.fence.0 - 1, lease.fence.0 + 1] {
        let wrong = LeaseRef { task: lease.task, fence: Fence(fence) };
        let end = EndRun { lease: wrong, ..make::end(&lease, run, RunEnd::Succeeded) };
        assert_eq!(fx.run(Arc::new(end)).await, Err(TxError::Fenced));
    }
    assert_eq!(statuses(&fx, &lease, run).await, ("RUNNING".into(), "EXECUTING".into()));
}

// covers: ING-9.5-01
pub(super) async fn failed_page_is_in_the_ledger(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    fx.commit(&lease, run, 1, vec![make::record("a", 1)], true).await;
    let mut end = make::end(&lease, run, RunEnd::Failed { error: make::fault("no answer") });
    end.failure = Some(make::failure(&lease, run, 2));
    fx.ok(Arc::new(end.clone())).await;
    fx.ok(Arc::new(end)).await;
    let batches = fx.rows(View::Batches).await;
    assert_eq!(batches.texts("status_code"), ["FAILED", "SUCCEEDED"]);
    assert_eq!((int(&batches.at(0, "batch_no")), int(&batches.at(0, "page_no"))), (2, 10));
    assert!(batches.texts("stats")[0].contains("retryCount"));
    assert!(text(&batches.at(0, "error")).contains("no answer"));
    let progress = fx.progress("a").await;
    assert_eq!((progress.batches, progress.retries), (1, 0), "only committed pages are counted");
}

pub(super) async fn failure_row_never_prevents_the_end_of_a_run(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let leases = fx.claim(2).await;
    // The page was committed after all, only the result was lost.
    let run = fx.start(&leases[0]).await;
    fx.commit(&leases[0], run, 1, vec![make::record("a", 1)], true).await;
    let mut end = make::end(&leases[0], run, requeue(true));
    let failure = make::failure(&leases[0], run, 1);
    end.failure = Some(patra_core::tx::BatchFailure { idempotent_key: "another".into(), ..failure });
    assert_eq!(fx.ok(Arc::new(end)).await.task_status, TaskStatus::Queued);
    assert_eq!(fx.rows(View::Batches).await.texts("status_code"), ["SUCCEEDED"]);

    // The upstream returned a token again that was read before.
    let run = fx.start(&leases[1]).await;
    let token = Position::Token(Some("same".into()));
    let mut page = make::page(&leases[1], run, 1, Vec::new(), true);
    (page.before_token, page.position, page.next) = (token.token_key(), token.clone(), Some(token.clone()));
    fx.ok(Arc::new(page)).await;
    let failure = patra_core::tx::BatchFailure { position: token, ..make::failure(&leases[1], run, 2) };
    let end = make::end(&leases[1], run, RunEnd::Failed { error: make::fault("a loop") });
    assert_eq!(fx.ok(Arc::new(EndRun { failure: Some(failure), ..end })).await.task_status, TaskStatus::Failed);
}

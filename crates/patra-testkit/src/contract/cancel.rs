//! Cancellation.

use std::sync::Arc;

use patra_core::port::query::{Cell, View};
use patra_core::state::{Operation, TaskStatus};
use patra_core::tx::{CancelSubject, CancelWork, Lease, LeaseRef, Renew, RunEnd, StartRun, TxError, WorkCancelled};
use patra_core::{Fault, PlanId, SliceId, TaskId};

use super::fixture::text;
use super::{Fixture, make};

fn cancel(target: CancelSubject) -> CancelWork {
    CancelWork { target, reason: "not „wanted“".into(), by: "somebody".into() }
}

fn counts(triggers: u32, plans: u32, slices: u32, tasks: u32) -> WorkCancelled {
    WorkCancelled { found: true, jobs: triggers, plans, slices, tasks }
}

/// Statuses of tasks, oldest first.
async fn tasks(fx: &Fixture) -> Vec<String> {
    let mut all = fx.rows(View::Tasks).await.texts("status_code");
    all.reverse();
    all
}

// covers: ING-5.9-02, ING-9.1-04
pub(super) async fn cancelled_task_ends_in_every_state(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 4)).await;
    let leases = fx.claim(3).await;
    let run = fx.start(&leases[1]).await;
    fx.commit(&leases[1], run, 1, vec![make::record("a", 1)], true).await;
    fx.finish(&leases[2], RunEnd::Succeeded).await;
    let mut ids = fx.rows(View::Tasks).await.ids();
    ids.reverse();
    for (at, cancelled) in [(0, 1), (1, 1), (2, 0), (3, 1)] {
        let op = cancel(CancelSubject::Task(TaskId(ids[at])));
        assert_eq!(fx.ok(op.clone()).await, counts(0, 0, 0, cancelled), "task {at}");
        assert_eq!(fx.ok(op).await, counts(0, 0, 0, 0), "task {at} again");
    }
    assert_eq!(tasks(&fx).await, ["CANCELLED", "CANCELLED", "SUCCEEDED", "CANCELLED"]);
    let rows = fx.rows(View::Tasks).await;
    let expected = cancel(CancelSubject::Task(TaskId(1))).fault();
    assert_eq!(expected.message, "cancelled by somebody: not „wanted“");
    for id in [ids[0], ids[1], ids[3]] {
        assert_eq!((rows.of(id, "lease_owner"), rows.of(id, "leased_until")), (Cell::Null, Cell::Null));
        assert_ne!(rows.of(id, "finished_at"), Cell::Null);
        assert_eq!(serde_json::from_str::<Fault>(&rows.text_of(id, "error")).expect("a fault"), expected);
    }
    let runs = fx.rows(View::Runs).await;
    assert_eq!(text(&runs.of(run.0, "status_code")), "CANCELLED");
    assert_eq!(serde_json::from_str::<Fault>(&runs.text_of(run.0, "error")).expect("a fault"), expected);
    assert_eq!(runs.of(run.0, "finished_at"), rows.of(ids[1], "finished_at"));
    assert!(fx.claim(9).await.is_empty());
    assert_eq!(fx.rows(View::Slices).await.texts("status_code"), vec!["READY".to_owned(); 4], "slices stay");
    // Cancelled windows are no longer covered.
    assert_eq!(fx.coverage().await.covered, [make::window(20, 30)]);
    assert_eq!(fx.advance(saved.cursor).await.target, None);
}

pub(super) async fn owner_of_a_cancelled_task_is_fenced(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let leases = fx.claim(2).await;
    let run = fx.start(&leases[0]).await;
    for lease in &leases {
        fx.ok(cancel(CancelSubject::Task(lease.task))).await;
    }
    let renew =
        Renew { owner: "worker".into(), leases: leases.iter().map(LeaseRef::from).collect(), lease: make::LONG };
    assert!(fx.ok(renew).await.held.is_empty());
    assert_eq!(fx.run(StartRun { lease: LeaseRef::from(&leases[1]) }).await, Err(TxError::Fenced));
    let page = make::page(&leases[0], run, 1, vec![make::record("a", 1)], true);
    assert_eq!(fx.run(Arc::new(page)).await, Err(TxError::Fenced));
    // The run is closed, and its end returns the status.
    assert_eq!(fx.end(&leases[0], run, RunEnd::Succeeded).await, TaskStatus::Cancelled);
    assert_eq!(fx.sweep(true).await.requeued, []);
    assert!(fx.rows(View::Items).await.is_empty());
}

// covers: ING-5.9-02
pub(super) async fn slice_is_cancelled_with_its_task(fx: Fixture) {
    fx.plan("a", &make::windows(0, 3)).await;
    let leases = fx.claim(2).await;
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    let slice = |lease: &Lease| cancel(CancelSubject::Slice(lease.lineage.slice));
    assert_eq!(fx.ok(slice(&leases[0])).await, counts(0, 0, 1, 1));
    assert_eq!(fx.ok(slice(&leases[0])).await, counts(0, 0, 0, 0));
    assert_eq!(fx.ok(slice(&leases[1])).await, counts(0, 0, 0, 0), "its task has ended");
    assert_eq!(tasks(&fx).await, ["CANCELLED", "SUCCEEDED", "QUEUED"]);
    assert_eq!(fx.rows(View::Slices).await.texts("status_code"), ["READY", "READY", "CANCELLED"]);
    assert_eq!(fx.rows(View::Plans).await.texts("status_code"), ["READY"]);
    // A task that was replaced by narrower ones has already ended.
    let lease = fx.next().await;
    let slices = vec![make::slice("split", make::window(20, 30))];
    fx.finish(&lease, RunEnd::Split { error: make::fault("too many"), slices }).await;
    assert_eq!(fx.ok(slice(&lease)).await, counts(0, 0, 0, 0));
    assert_eq!(fx.claim(9).await.len(), 1);
}

// covers: ING-5.9-02
pub(super) async fn plan_is_cancelled_with_all_its_work(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 4)).await;
    let other = fx.plan("b", &make::windows(40, 1)).await;
    let leases = fx.claim(3).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    let slices = vec![make::slice("split", make::window(10, 20))];
    fx.finish(&leases[1], RunEnd::Split { error: make::fault("too many"), slices }).await;
    fx.start(&leases[2]).await;
    assert_eq!(fx.ok(cancel(CancelSubject::Plan(saved.plan))).await, counts(0, 1, 4, 3));
    assert_eq!(fx.ok(cancel(CancelSubject::Plan(saved.plan))).await, counts(0, 0, 0, 0));
    assert_eq!(tasks(&fx).await, ["SUCCEEDED", "PARTIAL", "CANCELLED", "CANCELLED", "QUEUED", "CANCELLED"]);
    let plans = fx.rows(View::Plans).await;
    assert_eq!(text(&plans.of(saved.plan.0, "status_code")), "CANCELLED");
    assert_eq!(text(&plans.of(other.plan.0, "status_code")), "READY");
    let progress = fx.progress("a").await;
    assert!(progress.is_finished());
    assert_eq!((progress.tasks_succeeded, progress.tasks_split, progress.tasks_cancelled), (1, 1, 3));
    assert_eq!(fx.coverage().await.covered, [make::window(0, 10), make::window(40, 50)]);
}

/// Ended work stays as it is.
pub(super) async fn ended_plan_is_not_cancelled(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 2)).await;
    let leases = fx.claim(2).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    fx.finish(&leases[1], RunEnd::Failed { error: make::fault("refused") }).await;
    for target in [CancelSubject::Plan(saved.plan), CancelSubject::Job("a".into())] {
        assert_eq!(fx.ok(cancel(target)).await, counts(0, 0, 0, 0));
    }
    assert_eq!(fx.rows(View::Plans).await.texts("status_code"), ["READY"]);
    assert_eq!(fx.rows(View::Slices).await.texts("status_code"), ["READY", "READY"]);
    assert_eq!(fx.coverage().await.covered, [make::window(0, 10)]);
}

/// Otherwise the trigger would plan the same again at once.
pub(super) async fn unfinished_plan_is_cancelled_with_its_trigger(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let saved = fx.ok(Arc::new(make::part(&taken, 0, make::window(0, 60), &make::windows(0, 2)))).await;
    let again = fx.take().await.expect("the trigger that goes on");
    assert_eq!(fx.ok(cancel(CancelSubject::Plan(saved.plan))).await, counts(1, 1, 2, 2));
    // The planner that leased it is fenced.
    let mut rest = make::part(&again, 1, make::window(0, 60), &make::windows(20, 1));
    rest.target = patra_core::tx::PlanTarget::Existing(saved.plan);
    assert_eq!(fx.run(Arc::new(rest)).await, Err(TxError::Fenced));
    assert_eq!(fx.take().await, None);
    assert_eq!(fx.rows(View::Jobs).await.texts("status_code"), ["CANCELLED"]);
}

pub(super) async fn trigger_is_cancelled_with_all_its_work(fx: Fixture) {
    let root = fx.trigger("root").await;
    fx.ok(Arc::new(make::fan(&root, &["x", "y", "z"], false))).await;
    let mut taken = Vec::new();
    while let Some(next) = fx.take().await {
        taken.push(next);
    }
    assert_eq!((taken.len(), &*taken[0].public_id), (4, "root"));
    fx.ok(Arc::new(make::plan(&taken[2], 0, &make::windows(0, 2)))).await;
    let other = fx.plan("other", &make::windows(20, 1)).await;
    let op = cancel(CancelSubject::Job("root".into()));
    // The root and two children that are not planned yet; one plan with two slices.
    assert_eq!(fx.ok(op.clone()).await, counts(3, 1, 2, 2));
    assert_eq!(fx.ok(op.clone()).await, counts(0, 0, 0, 0));
    assert_eq!(fx.take().await, None);
    let progress = fx.progress("root").await;
    assert!(progress.is_finished());
    assert_eq!((progress.partitions, progress.partitions_waiting, progress.tasks_cancelled), (3, 0, 2));
    let remarks: serde_json::Value = serde_json::from_str(&progress.remarks.expect("remarks")).expect("JSON");
    assert_eq!(remarks["remark"], "cancelled by somebody: not „wanted“");
    let claimed = fx.claim(9).await;
    assert_eq!((claimed.len(), claimed[0].lineage.plan), (1, other.plan));
}

/// Work that was planned long ago can still be cancelled by the name of its trigger.
pub(super) async fn planned_trigger_stays_planned_and_its_work_stops(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    assert_eq!(fx.ok(cancel(CancelSubject::Job("a".into()))).await, counts(0, 1, 2, 2));
    assert_eq!(fx.rows(View::Jobs).await.texts("status_code"), ["PLANNED"]);
    assert!(fx.claim(9).await.is_empty());
    // The windows are planned again, by the next trigger.
    fx.plan("b", &make::windows(0, 2)).await;
    assert_eq!(fx.claim(9).await.len(), 2);
}

pub(super) async fn cancelled_trigger_is_not_fired_again_under_its_name(fx: Fixture) {
    fx.fire("a").await;
    assert_eq!(fx.ok(cancel(CancelSubject::Job("a".into()))).await, counts(1, 0, 0, 0));
    assert!(fx.ok(make::fire("a", Operation::Harvest)).await.existed);
    assert_eq!(fx.take().await, None);
}

pub(super) async fn missing_subject_cannot_be_cancelled(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let targets = [
        CancelSubject::Job("unknown".into()),
        CancelSubject::Plan(PlanId(999_999)),
        CancelSubject::Slice(SliceId(999_999)),
        CancelSubject::Task(TaskId(999_999)),
    ];
    for target in targets {
        assert_eq!(fx.ok(cancel(target.clone())).await, WorkCancelled::default(), "{target:?}");
    }
    assert_eq!(fx.claim(9).await.len(), 1);
}

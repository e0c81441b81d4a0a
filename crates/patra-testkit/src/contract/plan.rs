//! Coverage of a namespace, and saving plans.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::query::View;
use patra_core::state::{JobStatus, Operation, TaskStatus};
use patra_core::tx::{
    AdvanceCursor, ClaimJob, ClaimedJob, Coverage, OpenPlan, PlanTarget, ReadCoverage, RemainingPlan, RunEnd, SavePlan,
    TaskLineage, TxError,
};
use patra_core::{Fence, PlanId, SliceId, Ts, Window};

use super::{Fixture, make};

pub(super) async fn namespace_without_a_plan_is_empty(fx: Fixture) {
    let Coverage { cursor, origin, value, epoch, covered, queued, .. } = fx.coverage().await;
    assert_eq!((cursor, origin, value, epoch, covered, queued), (None, None, None, 0, vec![], 0));
}

pub(super) async fn plan_covers_its_windows_in_order(fx: Fixture) {
    let windows = [make::window(20, 30), make::window(0, 10), make::window(10, 20)];
    let saved = fx.plan("a", &windows).await;
    assert_eq!((saved.created, saved.existing), (3, 0));
    let coverage = fx.coverage().await;
    assert_eq!((coverage.cursor, coverage.origin), (Some(saved.cursor), Some(Ts::from_secs(0))));
    assert_eq!((coverage.value, coverage.epoch, coverage.queued), (None, 1, 3));
    assert_eq!(coverage.covered, make::windows(0, 3));
    let progress = fx.progress("a").await;
    assert_eq!((progress.job_status, progress.tasks_queued), (JobStatus::Planned, 3));
    assert_eq!(fx.rows(View::Plans).await.texts("status_code"), ["READY"]);
}

// covers: ING-9.1-01, ING-9.1-02
pub(super) async fn task_carries_the_spec_of_its_slice(fx: Fixture) {
    let window = make::window(-10, 10);
    let saved = fx.plan("a", &[window]).await;
    let slice = make::slice("a", window);
    let lease = fx.next().await;
    let slices = fx.rows(View::Slices).await;
    let job = fx.progress("a").await.job;
    assert_eq!(lease.lineage, TaskLineage { job, plan: saved.plan, slice: SliceId(slices.ids()[0]) });
    assert_eq!((lease.cursor, lease.window, lease.operation), (saved.cursor, Some(window), Operation::Harvest));
    assert_eq!((lease.expr_hash, lease.params), (slice.expr_hash, slice.task_params));
    assert_eq!((&*lease.project_key, &*lease.provenance_code, &*lease.endpoint_name), ("default", "demo", "works"));
    assert_eq!(slices.texts("slice_signature_hash"), [slice.signature]);
    assert_eq!(slices.texts("status_code"), ["READY"]);
}

pub(super) async fn running_and_done_tasks_are_covered_and_failed_ones_are_not(fx: Fixture) {
    fx.plan("a", &make::windows(0, 6)).await;
    let leases = fx.claim(5).await;
    fx.start(&leases[1]).await;
    fx.finish(&leases[2], RunEnd::Failed { error: make::fault("gone") }).await;
    fx.finish(&leases[3], RunEnd::Partial { error: make::fault("capped") }).await;
    assert_eq!(fx.finish(&leases[4], RunEnd::Succeeded).await, TaskStatus::Succeeded);
    let coverage = fx.coverage().await;
    let expected: Vec<_> = [0, 1, 4, 5].into_iter().map(|at| make::windows(0, 6)[at]).collect();
    assert_eq!(coverage.covered, expected);
    assert_eq!(coverage.queued, 1);
}

pub(super) async fn coverage_begins_beyond_the_cursor(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 4)).await;
    for at in [0, 1, 2] {
        let lease = fx.next().await;
        if at != 1 {
            fx.finish(&lease, RunEnd::Succeeded).await;
        }
    }
    let advance = fx.advance(saved.cursor).await;
    fx.ok(AdvanceCursor { cursor: saved.cursor, to: make::at(10), version: advance.version }).await;
    let coverage = fx.coverage().await;
    assert_eq!(coverage.value, Some(make::at(10)));
    assert_eq!(coverage.covered, make::windows(10, 3));
}

// covers: ING-10.5-02, ING-10.5-03, ING-11.9-02
pub(super) async fn namespaces_are_isolated_from_each_other(fx: Fixture) {
    fx.plan("harvest", &make::windows(0, 2)).await;
    let backfill = fx.plan_of("backfill", Operation::Backfill, &make::windows(0, 3)).await;
    let other = fx.ok(ReadCoverage { cursor: make::namespace(Operation::Backfill, "ns") }).await;
    let mine = fx.coverage().await;
    assert_ne!(mine.cursor, Some(backfill.cursor));
    assert_eq!((mine.covered.len(), mine.queued, mine.epoch), (2, 2, 1));
    assert_eq!((other.covered.len(), other.queued, other.epoch), (3, 3, 1));
    let unknown = fx.ok(ReadCoverage { cursor: make::namespace(Operation::Harvest, "elsewhere") }).await;
    assert_eq!((unknown.cursor, unknown.epoch), (None, 0));
}

pub(super) async fn plan_made_from_an_older_epoch_is_a_conflict(fx: Fixture) {
    let (first, second) = (fx.trigger("a").await, fx.trigger("b").await);
    let early = make::plan(&first, 1, &make::windows(0, 1));
    assert_eq!(fx.run(Arc::new(early)).await, Err(TxError::Conflict));
    assert_eq!(fx.coverage().await.cursor, None, "a conflict leaves nothing behind");
    assert!(fx.rows(View::Plans).await.is_empty() && fx.rows(View::Tasks).await.is_empty());

    fx.ok(Arc::new(make::plan(&first, 0, &make::windows(0, 1)))).await;
    let stale = make::plan(&second, 0, &make::windows(0, 1));
    assert_eq!(fx.run(Arc::new(stale)).await, Err(TxError::Conflict));
    // The lease is still valid: read the coverage again, plan again.
    fx.ok(Arc::new(make::plan(&second, 1, &make::windows(10, 1)))).await;
    assert_eq!(fx.coverage().await.epoch, 2);
}

pub(super) async fn planner_that_lost_its_trigger_saves_nothing(fx: Fixture) {
    fx.fire("a").await;
    let old = fx.ok(ClaimJob { owner: "slow".into(), ..make::take(make::SHORT) }).await.expect("a trigger");
    fx.pass(make::BEYOND).await;
    let new = fx.take().await.expect("the expired trigger");
    assert_eq!(fx.run(Arc::new(make::plan(&old, 0, &make::windows(0, 1)))).await, Err(TxError::Fenced));
    let foreign = SavePlan { fence: Fence(new.fence.0 + 1), ..make::plan(&new, 0, &make::windows(0, 1)) };
    assert_eq!(fx.run(Arc::new(foreign)).await, Err(TxError::Fenced));
    assert!(fx.rows(View::Tasks).await.is_empty() && fx.rows(View::Cursors).await.is_empty());
    fx.ok(Arc::new(make::plan(&new, 0, &make::windows(0, 1)))).await;
}

pub(super) async fn plan_repeated_after_a_lost_response_is_not_written_twice(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let plan = Arc::new(make::plan(&taken, 0, &make::windows(0, 2)));
    fx.ok(plan.clone()).await;
    assert_eq!(fx.run(plan).await, Err(TxError::Fenced));
    assert_eq!((fx.rows(View::Plans).await.len(), fx.rows(View::Tasks).await.len()), (1, 2));
    assert_eq!(fx.coverage().await.epoch, 1);
}

// covers: ING-5.3-15, ING-7.10-01, ING-11.3-02, ING-8.5-01
pub(super) async fn task_that_exists_is_not_derived_again(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let taken = fx.trigger("b").await;
    let mut plan = make::plan(&taken, 1, &make::windows(0, 3));
    for (slice, window) in plan.slices.iter_mut().zip(make::windows(0, 2)) {
        slice.task_key = make::slice("a", window).task_key;
    }
    let saved = fx.ok(Arc::new(plan)).await;
    assert_eq!((saved.created, saved.existing), (1, 2));
    assert_eq!(fx.rows(View::Tasks).await.len(), 3);
    // A task belongs to the trigger that made it.
    assert_eq!((fx.progress("a").await.tasks(), fx.progress("b").await.tasks()), (2, 1));
}

// covers: ING-5.3-11, ING-5.3-17, ING-7.3-03
pub(super) async fn partial_plan_is_continued_to_its_end(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let delay = Duration::from_millis(400);
    let mut part = make::part(&taken, 0, make::window(0, 30), &make::windows(0, 2));
    part.resume_delay = delay;
    let first = fx.ok(Arc::new(part.clone())).await;
    assert_eq!(fx.rows(View::Plans).await.texts("status_code"), ["PARTIAL"]);
    assert_eq!(fx.progress("a").await.job_status, JobStatus::Requested);
    // The lease was given back, and the trigger waits.
    assert_eq!(fx.run(Arc::new(part)).await, Err(TxError::Fenced));
    assert_eq!(fx.take().await, None);
    assert_eq!(fx.claim(1).await.len(), 1, "tasks of a partial plan are work already");

    fx.pass(delay + Duration::from_millis(20)).await;
    let again = fx.take().await.expect("the trigger that goes on");
    let open = OpenPlan {
        plan: first.plan,
        snapshot_hash: "snapshot".into(),
        rest: RemainingPlan::Time(make::window(20, 30)),
    };
    assert_eq!(again.plan, Some(open));
    // The second window is planned again, and known by signature and key.
    let rest = SavePlan { target: PlanTarget::Existing(first.plan), ..make::plan(&again, 1, &make::windows(10, 2)) };
    let second = fx.ok(Arc::new(rest)).await;
    assert_eq!((second.plan, second.created, second.existing), (first.plan, 1, 1));
    assert_eq!(fx.rows(View::Plans).await.texts("status_code"), ["READY"]);
    assert_eq!((fx.rows(View::Slices).await.len(), fx.rows(View::Tasks).await.len()), (3, 3));
    assert_eq!(fx.progress("a").await.job_status, JobStatus::Planned);
    assert_eq!(fx.coverage().await.epoch, 2);
}

fn rest(taken: &ClaimedJob) -> Option<RemainingPlan> {
    taken.plan.as_ref().map(|open| open.rest.clone())
}

/// Independent of the order and the states of the slices, and of other plans.
pub(super) async fn rest_of_a_plan_begins_behind_its_last_slice(fx: Fixture) {
    let whole = make::window(0, 60);
    let taken = fx.trigger("a").await;
    let saved = fx.ok(Arc::new(make::part(&taken, 0, whole, &[]))).await;
    let again = fx.take().await.expect("the trigger that goes on");
    assert_eq!(rest(&again), Some(RemainingPlan::Time(whole)), "nothing is sliced yet");

    let go_on = |taken: &ClaimedJob, epoch, windows: &[Window]| {
        let target = PlanTarget::Existing(saved.plan);
        Arc::new(SavePlan { target, ..make::part(taken, epoch, whole, windows) })
    };
    fx.ok(go_on(&again, 1, &[make::window(20, 30), make::window(0, 10)])).await;
    let failed = fx.next().await;
    fx.finish(&failed, RunEnd::Failed { error: make::fault("gone") }).await;
    let again = fx.take().await.expect("the trigger that goes on");
    assert_eq!(rest(&again), Some(RemainingPlan::Time(make::window(30, 60))));
    fx.plan("b", &[make::window(30, 70)]).await;

    fx.ok(go_on(&again, 3, &[make::window(40, 50)])).await;
    let again = fx.take().await.expect("the trigger that goes on");
    assert_eq!(rest(&again), Some(RemainingPlan::Time(make::window(50, 60))));

    fx.ok(go_on(&again, 4, &[make::window(50, 60)])).await;
    let again = fx.take().await.expect("the trigger that goes on");
    assert_eq!(rest(&again), Some(RemainingPlan::Time(make::window(60, 60))), "nothing is left");
    let target = PlanTarget::Existing(saved.plan);
    fx.ok(Arc::new(SavePlan { target, ..make::plan(&again, 5, &[]) })).await;
    assert_eq!(fx.progress("a").await.job_status, JobStatus::Planned);
}

pub(super) async fn only_a_partial_plan_of_this_trigger_is_continued(fx: Fixture) {
    let ready = fx.plan("a", &make::windows(0, 1)).await;
    let other = fx.trigger("other").await;
    let part = SavePlan { complete: false, resume_delay: make::LONG, ..make::plan(&other, 1, &make::windows(20, 1)) };
    let foreign = fx.ok(Arc::new(part)).await;
    let taken = fx.trigger("b").await;
    for plan in [ready.plan, foreign.plan, PlanId(999_999)] {
        let target = PlanTarget::Existing(plan);
        let wrong = SavePlan { target, ..make::plan(&taken, 2, &make::windows(10, 1)) };
        assert_eq!(fx.run(Arc::new(wrong)).await, Err(TxError::Conflict));
    }
    assert_eq!(fx.rows(View::Tasks).await.len(), 2);
    assert_eq!(fx.coverage().await.epoch, 2);
}

pub(super) async fn plan_without_slices_ends_its_trigger(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let saved = fx.ok(Arc::new(make::plan(&taken, 0, &[]))).await;
    assert_eq!((saved.created, saved.existing), (0, 0));
    assert!(fx.progress("a").await.is_finished());
}

// covers: ING-0.2-05
pub(super) async fn snapshot_is_stored_once_under_its_hash(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let taken = fx.trigger("b").await;
    let mut plan = make::plan(&taken, 1, &make::windows(10, 1));
    if let PlanTarget::New(new) = &mut plan.target {
        new.snapshot_body = r#"{"snapshot":2}"#.into();
    }
    fx.ok(Arc::new(plan)).await;
    let store = &fx.subject.store;
    assert_eq!(store.snapshot("snapshot").await, Ok(Some(r#"{"snapshot":1}"#.into())), "the first body stays");
    assert_eq!(store.snapshot("unknown").await, Ok(None));
    assert_eq!(fx.rows(View::Plans).await.texts("spec_fingerprint"), ["snapshot", "snapshot"]);
}

pub(super) async fn text_that_is_not_json_is_refused(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let good = make::plan(&taken, 0, &make::windows(0, 2));
    let mut bad = good.clone();
    bad.slices[1].task_params = "{not json".into();
    assert!(matches!(fx.run(Arc::new(bad)).await, Err(TxError::Refused(_))));
    assert!(fx.rows(View::Tasks).await.is_empty() && fx.rows(View::Cursors).await.is_empty());
    assert!(fx.rows(View::Slices).await.is_empty() && fx.rows(View::Plans).await.is_empty());
    // Nothing happened, so the planner still holds its trigger.
    fx.ok(Arc::new(good)).await;
}

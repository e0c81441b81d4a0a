//! Pauses: the work that they stop, and how they end.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::query::{Cell, View};
use patra_core::state::{Operation, PauseKind, TaskStatus};
use patra_core::tx::{
    ADVISORY_TTL, ClaimedJob, EndRun, JobSettlement, Lease, LeaseRef, PauseSelector, PauseSubject, PauseWork, Renew,
    Renewed, RequestJob, ResumeWork, RunEnd, SettleJob, TxError,
};
use patra_core::{CredentialId, PauseId};

use super::fixture::{int, text, time};
use super::{Fixture, make};

const PAUSE: PauseKind = PauseKind::Pause;
const BREAK: PauseKind = PauseKind::Break;
const ADVISORY: PauseKind = PauseKind::Advisory;

async fn release(fx: &Fixture, which: PauseSelector) -> u32 {
    fx.ok(ResumeWork { target: which, by: "somebody else".into() }).await.resumed
}

async fn renew(fx: &Fixture, leases: &[&Lease]) -> Renewed {
    let leases = leases.iter().map(|lease| LeaseRef::from(*lease)).collect();
    fx.ok(Renew { owner: "worker".into(), leases, lease: make::LONG }).await
}

/// Returns a trigger that was claimed for inspection.
async fn put_back(fx: &Fixture, taken: &ClaimedJob) {
    let settlement = JobSettlement::Later { delay: Duration::ZERO };
    fx.ok(SettleJob { job: taken.job, fence: taken.fence, settlement }).await;
    fx.pass(Duration::from_millis(2)).await;
}

// covers: ING-5.9-01, ING-9.1-04
pub(super) async fn paused_work_is_neither_planned_nor_claimed_until_resumed(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let held = fx.next().await;
    fx.fire("waiting").await;
    for subject in [
        PauseSubject::source(make::PROVENANCE),
        PauseSubject::endpoint(make::PROVENANCE, make::ENDPOINT),
        make::partition(Operation::Harvest),
        PauseSubject { operation: Some(Operation::Harvest), ..PauseSubject::source(make::PROVENANCE) },
    ] {
        for kind in [PAUSE, BREAK] {
            let hold = fx.ok(make::hold(kind, subject.clone())).await.pause;
            assert!(fx.claim(9).await.is_empty(), "{kind} {subject}");
            assert_eq!(fx.take().await, None, "{kind} {subject}");
            let lease = LeaseRef::from(&held);
            let renewed = renew(&fx, &[&held]).await;
            assert_eq!((renewed.held, renewed.paused), (vec![lease], vec![lease]), "{kind} {subject}");
            assert_eq!(release(&fx, PauseSelector::Id(hold)).await, 1);
            assert!(renew(&fx, &[&held]).await.paused.is_empty());
        }
    }
    let taken = fx.take().await.expect("the trigger waits no longer");
    put_back(&fx, &taken).await;
    assert_eq!(fx.claim(9).await.len(), 1);
}

pub(super) async fn pause_covers_its_subject_and_nothing_else(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let held = fx.next().await;
    fx.fire("waiting").await;
    for subject in [
        PauseSubject::source("other"),
        PauseSubject::endpoint(make::PROVENANCE, "authors"),
        make::partition(Operation::Update),
        PauseSubject::endpoint("other", make::ENDPOINT),
    ] {
        let hold = fx.ok(make::hold(PAUSE, subject.clone())).await.pause;
        let taken = fx.take().await.unwrap_or_else(|| panic!("{subject} is not about this trigger"));
        put_back(&fx, &taken).await;
        assert!(renew(&fx, &[&held]).await.paused.is_empty(), "{subject}");
        release(&fx, PauseSelector::Id(hold)).await;
    }
}

pub(super) async fn plan_slice_task_and_credential_can_be_paused(fx: Fixture) {
    let own = |plan: &mut patra_core::tx::SavePlan| plan.credential = Some(CredentialId(7));
    fx.plan_with(make::fire("a", Operation::Harvest), &make::windows(0, 2), own).await;
    fx.plan("b", &make::windows(20, 1)).await;
    let leases = fx.claim(9).await;
    let none = PauseSubject::default;
    let cases = [
        (PauseSubject { task: Some(leases[0].task), ..none() }, vec![0]),
        (PauseSubject { slice: Some(leases[1].lineage.slice), ..none() }, vec![1]),
        (PauseSubject { plan: Some(leases[0].lineage.plan), ..none() }, vec![0, 1]),
        (PauseSubject { credential: Some(CredentialId(7)), ..none() }, vec![0, 1]),
        (PauseSubject { plan: Some(leases[2].lineage.plan), ..PauseSubject::source(make::PROVENANCE) }, vec![2]),
        (PauseSubject { plan: Some(leases[2].lineage.plan), credential: Some(CredentialId(7)), ..none() }, vec![]),
        (PauseSubject { credential: Some(CredentialId(7)), ..PauseSubject::source("other") }, vec![]),
    ];
    let all: Vec<_> = leases.iter().collect();
    fx.fire("waiting").await;
    for (subject, covered) in cases {
        fx.ok(make::hold(BREAK, subject.clone())).await;
        let expected: Vec<_> = covered.iter().map(|at| LeaseRef::from(&leases[*at])).collect();
        assert_eq!(renew(&fx, &all).await.paused, expected, "{subject}");
        // A trigger has no plan, task or credential yet.
        let taken = fx.take().await.unwrap_or_else(|| panic!("{subject} is not about triggers"));
        put_back(&fx, &taken).await;
        assert_eq!(release(&fx, PauseSelector::On(subject)).await, 1);
    }
    fx.sweep(true).await;
    fx.ok(make::hold(PAUSE, PauseSubject { task: Some(leases[0].task), ..none() })).await;
    let claimed: Vec<_> = fx.claim(9).await.iter().map(|lease| lease.task).collect();
    assert_eq!(claimed, [leases[1].task, leases[2].task], "the others go on");
}

/// Planning, claiming, renewing and the cursor of a source go on while the credential of another is paused.
pub(super) async fn paused_credential_leaves_the_work_of_others_alone(fx: Fixture) {
    let with = |id| move |plan: &mut patra_core::tx::SavePlan| plan.credential = Some(CredentialId(id));
    let healthy = RequestJob { endpoint_name: "authors".into(), ..make::fire("healthy", Operation::Harvest) };
    fx.plan_with(make::fire("rejected", Operation::Harvest), &make::windows(0, 2), with(7)).await;
    let credential = PauseSubject { credential: Some(CredentialId(7)), ..PauseSubject::default() };
    fx.ok(make::hold(BREAK, credential)).await;
    let saved = fx.plan_with(healthy, &make::windows(0, 2), with(8)).await;
    let leases = fx.claim(9).await;
    assert_eq!(leases.iter().map(|lease| lease.credential).collect::<Vec<_>>(), [Some(CredentialId(8)); 2]);
    let all: Vec<_> = leases.iter().collect();
    assert_eq!(renew(&fx, &all).await.paused, []);
    for lease in &leases {
        fx.finish(lease, RunEnd::Succeeded).await;
    }
    let end = leases.iter().filter_map(|lease| lease.window).map(|window| window.to).max();
    let target = fx.advance(saved.cursor).await.target;
    assert_eq!(target.and_then(|value| value.instant()), end);
    assert!(fx.claim(9).await.is_empty(), "the paused ones wait");
}

/// A paused task takes no slot.
pub(super) async fn paused_task_leaves_its_slot_to_the_next(fx: Fixture) {
    let fire = make::fire("a", Operation::Harvest);
    fx.plan_with(fire, &make::windows(0, 3), |plan| plan.c_max = 1).await;
    let lease = fx.next().await;
    fx.sweep(true).await;
    fx.ok(make::hold(PAUSE, PauseSubject { task: Some(lease.task), ..PauseSubject::default() })).await;
    let next = fx.claim(9).await;
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].window, Some(make::window(10, 20)));
}

// covers: ING-9.5-02, ING-11.7-02
pub(super) async fn advice_stops_planning_and_lets_tasks_run(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let lease = fx.next().await;
    fx.fire("waiting").await;
    fx.ok(make::hold(ADVISORY, make::partition(Operation::Harvest))).await;
    assert_eq!(fx.take().await, None);
    assert!(renew(&fx, &[&lease]).await.paused.is_empty());
    assert_eq!(fx.claim(9).await.len(), 1);
}

pub(super) async fn pause_exists_once_per_kind_and_subject(fx: Fixture) {
    let subject = || PauseSubject::source("p");
    let first = fx.ok(make::hold(PAUSE, subject())).await;
    assert!(!first.existed);
    let again = PauseWork { reason: "another".into(), by: "another".into(), ..make::hold(PAUSE, subject()) };
    let again = fx.ok(again).await;
    assert_eq!((again.pause, again.existed), (first.pause, true));
    let other = fx.ok(make::hold(BREAK, subject())).await;
    assert!(!other.existed && other.pause != first.pause);
    let rows = fx.rows(View::Holds).await;
    assert_eq!(rows.ids(), [other.pause.0, first.pause.0]);
    assert_eq!(rows.texts("kind_code"), ["BREAK", "PAUSE"]);
    assert_eq!(
        (rows.texts("subject"), rows.texts("provenance_code")),
        (vec!["source=p".to_owned(); 2], vec!["p".into(); 2])
    );
    assert_eq!((text(&rows.at(1, "reason")), text(&rows.at(1, "created_by"))), ("a PAUSE".into(), "somebody".into()));
    assert_eq!((rows.at(1, "released_at"), rows.at(1, "task_id")), (Cell::Null, Cell::Null));

    assert_eq!(release(&fx, PauseSelector::On(PauseSubject::endpoint("p", "e"))).await, 0, "not exactly this");
    assert_eq!(release(&fx, PauseSelector::Id(PauseId(999_999))).await, 0);
    assert_eq!(release(&fx, PauseSelector::On(subject())).await, 2);
    assert_eq!(release(&fx, PauseSelector::On(subject())).await, 0, "once is enough");
    assert_eq!(release(&fx, PauseSelector::Id(first.pause)).await, 0);
    let rows = fx.rows(View::Holds).await;
    assert_eq!(rows.texts("released_by"), ["somebody else", "somebody else"]);
    assert!(time(&rows.at(0, "released_at")) >= time(&rows.at(0, "created_at")));
    let again = fx.ok(make::hold(PAUSE, subject())).await;
    assert!(!again.existed && again.pause != first.pause);
    assert_eq!(fx.rows(View::Holds).await.len(), 3);
}

pub(super) async fn pause_with_an_incomplete_subject_is_refused(fx: Fixture) {
    let loose = PauseSubject { operation: Some(Operation::Harvest), ..PauseSubject::default() };
    for subject in [PauseSubject::default(), loose] {
        let answer = fx.run(make::hold(PAUSE, subject)).await;
        assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}");
    }
    assert!(fx.rows(View::Holds).await.is_empty());
}

// covers: ING-12.1-04
pub(super) async fn run_that_ends_fatally_opens_a_halt_with_its_end(fx: Fixture) {
    fx.plan("a", &make::windows(0, 3)).await;
    let leases = fx.claim(2).await;
    let run = fx.start(&leases[0]).await;
    let failed = || RunEnd::Failed { error: make::fault("401") };
    let halt = make::hold(BREAK, PauseSubject::endpoint(make::PROVENANCE, make::ENDPOINT));
    let flawed =
        EndRun { pause: Some(make::hold(BREAK, PauseSubject::default())), ..make::end(&leases[0], run, failed()) };
    assert!(matches!(fx.run(Arc::new(flawed)).await, Err(TxError::Refused(_))));
    assert_eq!(fx.task_status(&leases[0]).await, "EXECUTING", "nothing happened");

    let end = Arc::new(EndRun { pause: Some(halt.clone()), ..make::end(&leases[0], run, failed()) });
    assert_eq!(fx.ok(end.clone()).await.task_status, TaskStatus::Failed);
    assert_eq!(fx.ok(end.clone()).await.task_status, TaskStatus::Failed);
    assert_eq!(fx.rows(View::Holds).await.len(), 1);
    assert!(fx.claim(9).await.is_empty());
    assert_eq!(renew(&fx, &[&leases[1]]).await.paused, [LeaseRef::from(&leases[1])]);
    // Only an operator ends it: no success, no manifest, no repeated end.
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    fx.ok(make::provenance("h1", &[("works", None)])).await;
    assert!(fx.claim(9).await.is_empty());
    assert_eq!(release(&fx, PauseSelector::On(halt.subject)).await, 1);
    fx.ok(end).await;
    assert_eq!(fx.claim(9).await.len(), 1);
}

pub(super) async fn advice_ends_when_a_task_of_its_partition_succeeds(fx: Fixture) {
    fx.plan("a", &make::windows(0, 3)).await;
    let leases = fx.claim(3).await;
    let partition = make::partition(Operation::Harvest);
    fx.ok(make::hold(ADVISORY, partition.clone())).await;
    fx.ok(make::hold(PAUSE, partition)).await;
    let wider = PauseSubject::endpoint(make::PROVENANCE, make::ENDPOINT);
    for subject in [wider, make::partition(Operation::Backfill)] {
        fx.ok(make::hold(ADVISORY, subject)).await;
    }
    let lasting = async || {
        let rows = fx.rows(View::Holds).await;
        rows.column("released_at").iter().filter(|cell| **cell == Cell::Null).count()
    };
    fx.finish(&leases[0], RunEnd::Failed { error: make::fault("gone") }).await;
    fx.finish(&leases[1], RunEnd::Partial { error: make::fault("capped") }).await;
    assert_eq!(lasting().await, 4);
    fx.finish(&leases[2], RunEnd::Succeeded).await;
    assert_eq!(lasting().await, 3, "exactly its partition");
    let rows = fx.rows(View::Holds).await;
    assert_eq!(text(&rows.at(3, "released_by")), ResumeWork::BY_SUCCESS);
    assert_eq!(text(&rows.at(3, "kind_code")), "ADVISORY");
}

/// Advice that nothing else ends must not last forever.
pub(super) async fn advice_ends_after_its_time(fx: Fixture) {
    fx.fire("waiting").await;
    for kind in [ADVISORY, PAUSE] {
        fx.ok(make::hold(kind, make::partition(Operation::Harvest))).await;
    }
    fx.pass(ADVISORY_TTL - Duration::from_millis(1)).await;
    assert_eq!(fx.take().await, None);
    let released = async || fx.rows(View::Holds).await.column("released_by");
    assert_eq!(released().await, [Cell::Null, Cell::Null]);
    fx.pass(Duration::from_millis(1)).await;
    assert_eq!(fx.take().await, None, "a pause has no end of its own");
    assert_eq!(released().await, [Cell::Null, Cell::Text(ResumeWork::BY_TIME.into())]);
    assert_eq!(release(&fx, PauseSelector::On(make::partition(Operation::Harvest))).await, 1);
    assert!(fx.take().await.is_some());
}

pub(super) async fn advice_ends_when_the_manifest_changes(fx: Fixture) {
    let apply = |hash: &str| make::provenance(hash, &[("works", None)]);
    fx.ok(apply("h1")).await;
    fx.ok(make::hold(ADVISORY, make::partition(Operation::Harvest))).await;
    fx.ok(make::hold(ADVISORY, PauseSubject::source(make::PROVENANCE))).await;
    fx.ok(make::hold(PAUSE, make::partition(Operation::Harvest))).await;
    fx.ok(make::hold(ADVISORY, PauseSubject::source("other"))).await;
    let released = async || {
        let rows = fx.rows(View::Holds).await;
        let by = rows.column("released_by").into_iter().filter(|cell| *cell != Cell::Null);
        by.map(|cell| text(&cell)).collect::<Vec<_>>()
    };
    fx.ok(apply("h1")).await;
    assert!(released().await.is_empty(), "the same manifest changes nothing");
    fx.ok(apply("h2")).await;
    assert_eq!(released().await, [ResumeWork::BY_MANIFEST, ResumeWork::BY_MANIFEST]);
}

pub(super) async fn trigger_passes_its_reason_and_activity_to_partitions(fx: Fixture) {
    let fire = RequestJob {
        reason: Some(patra_core::state::UpdateReason::Signals),
        activity: Some("spring cleaning".into()),
        ..make::fire("a", Operation::Update)
    };
    let instance = fx.ok(fire.clone()).await.job;
    let taken = fx.take().await.expect("the trigger");
    assert_eq!((taken.reason, &taken.activity), (fire.reason, &fire.activity));
    fx.ok(Arc::new(make::fan(&taken, &["x"], true))).await;
    let child = fx.take().await.expect("its child");
    assert_eq!((child.reason, &child.activity), (fire.reason, &fire.activity));
    let jobs = fx.rows(View::Jobs).await;
    assert_eq!(
        (jobs.texts("reason_code"), jobs.texts("activity")),
        (vec!["SIGNALS".to_owned(); 2], vec!["spring cleaning".to_owned(); 2])
    );
    assert_eq!(int(&jobs.at(0, "parent_id")), instance.0);
    fx.fire("plain").await;
    let jobs = fx.rows(View::Jobs).await;
    assert_eq!((jobs.at(0, "reason_code"), jobs.at(0, "activity")), (Cell::Null, Cell::Null));
}

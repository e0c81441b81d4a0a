//! Chores: jobs without a plan.

use std::time::Duration;

use patra_core::port::query::{Cell, View};
use patra_core::state::{JobStatus, Operation};
use patra_core::tx::{
    CancelSubject, CancelWork, ClaimBackgroundJob, ClaimedBackgroundJob, ExpiredPurged, JobRequested, JobSettlement,
    PurgeExpired, RequestBackgroundJob, SettleJob, TxError, UpdateBackgroundJob,
};
use serde_json::{Value, json};

use super::concurrent::at_once;
use super::{Fixture, make};

pub(super) fn ask_for(public_id: &str) -> RequestBackgroundJob {
    RequestBackgroundJob {
        public_id: public_id.into(),
        project_key: "one".into(),
        job_type: "extract_documents".into(),
        params: r#"{"limit":5}"#.into(),
        request_id: Some("req-1".into()),
    }
}

fn take(lease: Duration) -> ClaimBackgroundJob {
    ClaimBackgroundJob { owner: "worker".into(), lease }
}

fn keep(chore: &ClaimedBackgroundJob, done: Option<Result<&str, &str>>) -> UpdateBackgroundJob {
    let done = done.map(|done| done.map(str::to_owned).map_err(str::to_owned));
    UpdateBackgroundJob { job: chore.job, fence: chore.fence, lease: make::LONG, done }
}

fn parsed(text: Option<String>) -> Value {
    serde_json::from_str(&text.expect("a text")).expect("JSON")
}

impl Fixture {
    async fn chore(&self, lease: Duration) -> Option<ClaimedBackgroundJob> {
        self.ok(take(lease)).await.map(|taken| *taken)
    }
}

// covers: POOL-117
pub(super) async fn a_chore_is_asked_for_once_taken_and_done(fx: Fixture) {
    let JobRequested { job, existed } = fx.ok(ask_for("c1")).await;
    assert!(!existed);
    assert_eq!(fx.ok(ask_for("c1")).await, JobRequested { job, existed: true });
    fx.ok(ask_for("c2")).await;
    let waiting = fx.progress("c1").await;
    assert_eq!((waiting.job_status, waiting.in_progress), (JobStatus::Requested, false));
    assert_eq!((&*waiting.project_key, &*waiting.job_type), ("one", "extract_documents"));
    assert_eq!((waiting.request_id.as_deref(), waiting.started_at, waiting.finished_at), (Some("req-1"), None, None));

    let first = fx.chore(make::LONG).await.expect("the oldest");
    assert_eq!((first.job, first.fence.0, &*first.public_id), (job, 1, "c1"));
    assert_eq!((&*first.project_key, &*first.job_type), ("one", "extract_documents"));
    assert_eq!(parsed(Some(first.params.clone())), json!({ "limit": 5 }));
    let second = fx.chore(make::LONG).await.expect("the next");
    assert_eq!(second.public_id, "c2");
    assert_eq!(fx.chore(make::LONG).await, None);
    let under_way = fx.progress("c1").await;
    assert!(under_way.in_progress && under_way.started_at.is_some() && !under_way.is_finished());

    fx.ok(keep(&first, None)).await;
    fx.ok(keep(&first, Some(Ok(r#"{"urls_new":3}"#)))).await;
    let done = fx.progress("c1").await;
    assert_eq!(
        (done.job_status, done.in_progress, done.started_at),
        (JobStatus::Finished, false, under_way.started_at)
    );
    assert!(done.finished_at.is_some() && done.is_finished());
    assert_eq!(parsed(done.result), json!({ "urls_new": 3 }));
    for done in [None, Some(Ok("{}"))] {
        assert_eq!(fx.run(keep(&first, done)).await, Err(TxError::Fenced), "it is over");
    }
    fx.ok(keep(&second, Some(Err("the disk is full")))).await;
    let failed = fx.progress("c2").await;
    assert_eq!((failed.job_status, failed.result), (JobStatus::Failed, None));
    assert_eq!(parsed(failed.remarks), json!({ "error": "the disk is full" }));
    assert!(failed.finished_at.is_some());
    let rows = fx.rows(View::Jobs).await;
    assert_eq!(rows.texts("provenance_code"), ["resource_pool"; 2]);
    assert_eq!(rows.texts("endpoint_name"), ["extract_documents"; 2]);
    assert_eq!(rows.texts("trigger_type_code"), ["API"; 2]);
    assert_eq!(rows.texts("status_code"), ["FAILED", "FINISHED"]);
    assert_eq!(fx.ok(ask_for("c1")).await, JobRequested { job, existed: true }, "nor is it done again");
    assert_eq!(fx.chore(make::LONG).await, None);
}

// covers: POOL-98
pub(super) async fn a_chore_whose_worker_died_is_taken_by_the_next(fx: Fixture) {
    fx.ok(ask_for("c")).await;
    let dead = fx.chore(make::SHORT).await.expect("a chore");
    let started = fx.progress("c").await.started_at;
    fx.pass(make::BEYOND).await;
    assert!(!fx.progress("c").await.in_progress, "nobody is at it");
    fx.ok(keep(&dead, None)).await;
    assert!(fx.progress("c").await.in_progress, "expiry alone fences nobody");
    assert_eq!(fx.chore(make::LONG).await, None);
    fx.ok(UpdateBackgroundJob { lease: make::SHORT, ..keep(&dead, None) }).await;
    fx.pass(make::BEYOND).await;
    let next = fx.chore(make::LONG).await.expect("it again");
    assert_eq!((next.job, next.fence.0), (dead.job, 2));
    assert_eq!(fx.progress("c").await.started_at, started, "when it was begun first");
    for done in [None, Some(Ok("{}")), Some(Err("no"))] {
        assert_eq!(fx.run(keep(&dead, done)).await, Err(TxError::Fenced));
    }
    fx.ok(keep(&next, Some(Ok("{}")))).await;
}

pub(super) async fn planners_take_no_chores_and_workers_no_triggers(fx: Fixture) {
    fx.ok(ask_for("c")).await;
    assert_eq!(fx.take().await, None);
    fx.ok(make::fire("t", Operation::Harvest)).await;
    let trigger = fx.take().await.expect("the trigger");
    assert_eq!(trigger.public_id, "t");
    let chore = fx.chore(make::LONG).await.expect("the chore");
    assert_eq!(chore.public_id, "c");
    assert_eq!((fx.take().await, fx.chore(make::LONG).await), (None, None));
    let (instance, fence) = trigger.lease();
    let wrong = UpdateBackgroundJob { job: instance, fence, lease: make::LONG, done: Some(Ok("{}".into())) };
    assert_eq!(fx.run(wrong).await, Err(TxError::Fenced), "a trigger is no chore");
    fx.ok(SettleJob { job: instance, fence, settlement: JobSettlement::Nothing { remark: "r".into() } }).await;
    fx.ok(keep(&chore, Some(Ok("{}")))).await;
}

pub(super) async fn a_chore_can_be_cancelled_before_and_while_it_is_done(fx: Fixture) {
    let cancel = |id: &str| CancelWork { target: CancelSubject::Job(id.into()), reason: "r".into(), by: "me".into() };
    fx.ok(ask_for("waits")).await;
    assert_eq!(fx.ok(cancel("waits")).await.jobs, 1);
    assert_eq!(fx.chore(make::LONG).await, None);
    fx.ok(ask_for("runs")).await;
    let chore = fx.chore(make::LONG).await.expect("a chore");
    assert_eq!(fx.ok(cancel("runs")).await.jobs, 1);
    for done in [None, Some(Ok("{}"))] {
        assert_eq!(fx.run(keep(&chore, done)).await, Err(TxError::Fenced));
    }
    for id in ["waits", "runs"] {
        let progress = fx.progress(id).await;
        assert_eq!((progress.job_status, progress.in_progress), (JobStatus::Cancelled, false));
        assert!(progress.finished_at.is_some(), "{id} has ended");
    }
    assert_eq!(fx.ok(cancel("runs")).await.jobs, 0);
}

pub(super) async fn many_workers_share_no_chore(fx: Fixture) {
    for no in 0..10 {
        fx.ok(ask_for(&format!("c{no}"))).await;
    }
    let takes = (0..30).map(|_| take(make::LONG)).collect();
    let mut taken: Vec<_> = at_once(&fx, takes)
        .await
        .into_iter()
        .filter_map(|answer| answer.expect("an answer"))
        .map(|chore| chore.job)
        .collect();
    // One that met only those of others may come back with nothing.
    while let Some(chore) = fx.chore(make::LONG).await {
        taken.push(chore.job);
    }
    taken.sort_unstable();
    let all = taken.len();
    taken.dedup();
    assert_eq!((taken.len(), all), (10, 10));
}

// covers: TWEET-98
pub(super) async fn old_chores_are_forgotten(fx: Fixture) {
    for id in ["done", "failed", "cancelled", "waits"] {
        fx.ok(ask_for(id)).await;
    }
    for done in [Ok("{}"), Err("no")] {
        let chore = fx.chore(make::LONG).await.expect("a chore");
        fx.ok(keep(&chore, Some(done))).await;
    }
    fx.ok(CancelWork { target: CancelSubject::Job("cancelled".into()), reason: "r".into(), by: "me".into() }).await;
    fx.pass(make::BEYOND).await;
    let clean = |keep_jobs, limit| PurgeExpired { keep: None, keep_ledger: Duration::ZERO, keep_jobs, limit };
    assert_eq!(fx.ok(clean(make::LONG, 10)).await, ExpiredPurged::default(), "none is old");
    assert_eq!(fx.ok(clean(Duration::ZERO, 2)).await.jobs, 2, "at most so many at once");
    assert_eq!(fx.ok(clean(Duration::ZERO, 2)).await.jobs, 1);
    assert_eq!(fx.ok(clean(Duration::ZERO, 2)).await, ExpiredPurged::default());
    assert_eq!(fx.rows(View::Jobs).await.texts("public_id"), ["waits"]);
    assert_eq!(fx.subject.store.progress("done").await, Ok(None));
    assert_eq!(fx.rows(View::Jobs).await.column("record_remarks"), [Cell::Null]);
}

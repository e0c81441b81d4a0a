//! Background jobs: jobs without a plan.

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

pub(super) fn request(public_id: &str) -> RequestBackgroundJob {
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

fn update(job: &ClaimedBackgroundJob, done: Option<Result<&str, &str>>) -> UpdateBackgroundJob {
    let done = done.map(|done| done.map(str::to_owned).map_err(str::to_owned));
    UpdateBackgroundJob { job: job.job, fence: job.fence, lease: make::LONG, done }
}

fn parsed(text: Option<String>) -> Value {
    serde_json::from_str(&text.expect("a text")).expect("JSON")
}

impl Fixture {
    async fn background_job(&self, lease: Duration) -> Option<ClaimedBackgroundJob> {
        self.ok(take(lease)).await.map(|taken| *taken)
    }
}

// covers: POOL-117
pub(super) async fn background_job_is_requested_once_claimed_and_finished(fx: Fixture) {
    let JobRequested { job, existed } = fx.ok(request("c1")).await;
    assert!(!existed);
    assert_eq!(fx.ok(request("c1")).await, JobRequested { job, existed: true });
    fx.ok(request("c2")).await;
    let waiting = fx.progress("c1").await;
    assert_eq!((waiting.job_status, waiting.in_progress), (JobStatus::Requested, false));
    assert_eq!((&*waiting.project_key, &*waiting.job_type), ("one", "extract_documents"));
    assert_eq!((waiting.request_id.as_deref(), waiting.started_at, waiting.finished_at), (Some("req-1"), None, None));

    let first = fx.background_job(make::LONG).await.expect("the oldest");
    assert_eq!((first.job, first.fence.0, &*first.public_id), (job, 1, "c1"));
    assert_eq!((&*first.project_key, &*first.job_type), ("one", "extract_documents"));
    assert_eq!(parsed(Some(first.params.clone())), json!({ "limit": 5 }));
    let second = fx.background_job(make::LONG).await.expect("the next");
    assert_eq!(second.public_id, "c2");
    assert_eq!(fx.background_job(make::LONG).await, None);
    let running = fx.progress("c1").await;
    assert!(running.in_progress && running.started_at.is_some() && !running.is_finished());

    fx.ok(update(&first, None)).await;
    fx.ok(update(&first, Some(Ok(r#"{"urls_new":3}"#)))).await;
    let done = fx.progress("c1").await;
    assert_eq!((done.job_status, done.in_progress, done.started_at), (JobStatus::Finished, false, running.started_at));
    assert!(done.finished_at.is_some() && done.is_finished());
    assert_eq!(parsed(done.result), json!({ "urls_new": 3 }));
    for done in [None, Some(Ok("{}"))] {
        assert_eq!(fx.run(update(&first, done)).await, Err(TxError::Fenced), "it has ended");
    }
    fx.ok(update(&second, Some(Err("the disk is full")))).await;
    let failed = fx.progress("c2").await;
    assert_eq!((failed.job_status, failed.result), (JobStatus::Failed, None));
    assert_eq!(parsed(failed.remarks), json!({ "error": "the disk is full" }));
    assert!(failed.finished_at.is_some());
    let rows = fx.rows(View::Jobs).await;
    assert_eq!(rows.texts("provenance_code"), ["resource_pool"; 2]);
    assert_eq!(rows.texts("endpoint_name"), ["extract_documents"; 2]);
    assert_eq!(rows.texts("trigger_type_code"), ["API"; 2]);
    assert_eq!(rows.texts("status_code"), ["FAILED", "FINISHED"]);
    assert_eq!(fx.ok(request("c1")).await, JobRequested { job, existed: true }, "it is not run again");
    assert_eq!(fx.background_job(make::LONG).await, None);
}

// covers: POOL-98
pub(super) async fn background_job_of_a_dead_worker_is_claimed_by_the_next(fx: Fixture) {
    fx.ok(request("c")).await;
    let dead = fx.background_job(make::SHORT).await.expect("a job");
    let started = fx.progress("c").await.started_at;
    fx.pass(make::BEYOND).await;
    assert!(!fx.progress("c").await.in_progress, "no worker has it");
    fx.ok(update(&dead, None)).await;
    assert!(fx.progress("c").await.in_progress, "expiry alone fences nobody");
    assert_eq!(fx.background_job(make::LONG).await, None);
    fx.ok(UpdateBackgroundJob { lease: make::SHORT, ..update(&dead, None) }).await;
    fx.pass(make::BEYOND).await;
    let next = fx.background_job(make::LONG).await.expect("it again");
    assert_eq!((next.job, next.fence.0), (dead.job, 2));
    assert_eq!(fx.progress("c").await.started_at, started, "when it was begun first");
    for done in [None, Some(Ok("{}")), Some(Err("no"))] {
        assert_eq!(fx.run(update(&dead, done)).await, Err(TxError::Fenced));
    }
    fx.ok(update(&next, Some(Ok("{}")))).await;
}

pub(super) async fn planners_claim_no_background_jobs_and_workers_no_triggers(fx: Fixture) {
    fx.ok(request("c")).await;
    assert_eq!(fx.take().await, None);
    fx.ok(make::fire("t", Operation::Harvest)).await;
    let trigger = fx.take().await.expect("the trigger");
    assert_eq!(trigger.public_id, "t");
    let job = fx.background_job(make::LONG).await.expect("the job");
    assert_eq!(job.public_id, "c");
    assert_eq!((fx.take().await, fx.background_job(make::LONG).await), (None, None));
    let (instance, fence) = trigger.lease();
    let wrong = UpdateBackgroundJob { job: instance, fence, lease: make::LONG, done: Some(Ok("{}".into())) };
    assert_eq!(fx.run(wrong).await, Err(TxError::Fenced), "a trigger is not a background job");
    fx.ok(SettleJob { job: instance, fence, settlement: JobSettlement::Nothing { remark: "r".into() } }).await;
    fx.ok(update(&job, Some(Ok("{}")))).await;
}

pub(super) async fn background_job_can_be_cancelled_while_waiting_or_running(fx: Fixture) {
    let cancel = |id: &str| CancelWork { target: CancelSubject::Job(id.into()), reason: "r".into(), by: "me".into() };
    fx.ok(request("waits")).await;
    assert_eq!(fx.ok(cancel("waits")).await.jobs, 1);
    assert_eq!(fx.background_job(make::LONG).await, None);
    fx.ok(request("runs")).await;
    let job = fx.background_job(make::LONG).await.expect("a job");
    assert_eq!(fx.ok(cancel("runs")).await.jobs, 1);
    for done in [None, Some(Ok("{}"))] {
        assert_eq!(fx.run(update(&job, done)).await, Err(TxError::Fenced));
    }
    for id in ["waits", "runs"] {
        let progress = fx.progress(id).await;
        assert_eq!((progress.job_status, progress.in_progress), (JobStatus::Cancelled, false));
        assert!(progress.finished_at.is_some(), "{id} has ended");
    }
    assert_eq!(fx.ok(cancel("runs")).await.jobs, 0);
}

pub(super) async fn concurrent_workers_share_no_background_job(fx: Fixture) {
    for no in 0..10 {
        fx.ok(request(&format!("c{no}"))).await;
    }
    let takes = (0..30).map(|_| take(make::LONG)).collect();
    let mut taken: Vec<_> = at_once(&fx, takes)
        .await
        .into_iter()
        .filter_map(|answer| answer.expect("an answer"))
        .map(|job| job.job)
        .collect();
    // A claim that met only jobs leased by others may return nothing.
    while let Some(job) = fx.background_job(make::LONG).await {
        taken.push(job.job);
    }
    taken.sort_unstable();
    let all = taken.len();
    taken.dedup();
    assert_eq!((taken.len(), all), (10, 10));
}

// covers: TWEET-98
pub(super) async fn old_background_jobs_are_deleted(fx: Fixture) {
    for id in ["done", "failed", "cancelled", "waits"] {
        fx.ok(request(id)).await;
    }
    for done in [Ok("{}"), Err("no")] {
        let job = fx.background_job(make::LONG).await.expect("a job");
        fx.ok(update(&job, Some(done))).await;
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

//! Claims of triggers, and settlements without a plan.

use std::time::Duration;

use patra_core::port::query::View;
use patra_core::state::JobStatus;
use patra_core::tx::{ClaimedJob, JobSettlement, SettleJob, TxError};
use patra_core::{Fence, JobId};

use super::{Fixture, make};

fn settle(taken: &ClaimedJob, settlement: JobSettlement) -> SettleJob {
    SettleJob { job: taken.job, fence: taken.fence, settlement }
}

fn nothing() -> JobSettlement {
    JobSettlement::Nothing { remark: "nothing to do: „leer“".into() }
}

async fn take_for(fx: &Fixture, lease: Duration) -> Option<ClaimedJob> {
    fx.ok(make::take(lease)).await.map(|taken| *taken)
}

pub(super) async fn oldest_trigger_is_claimed_first_and_never_twice(fx: Fixture) {
    assert_eq!(fx.take().await, None);
    let (a, b) = (fx.fire("a").await, fx.fire("b").await);
    let first = fx.take().await.expect("a trigger");
    assert_eq!((first.job, first.fence), (a, Fence(1)));
    assert_eq!(fx.take().await.map(|taken| taken.job), Some(b));
    assert_eq!(fx.take().await, None);
}

pub(super) async fn expired_trigger_is_claimed_again_under_a_higher_fence(fx: Fixture) {
    fx.fire("a").await;
    let old = take_for(&fx, make::SHORT).await.expect("a trigger");
    fx.pass(make::BEYOND).await;
    let new = fx.take().await.expect("the expired trigger");
    assert_eq!((new.job, new.fence), (old.job, Fence(old.fence.0 + 1)));
    assert_eq!(fx.run(settle(&old, nothing())).await, Err(TxError::Fenced));
    assert_eq!(fx.progress("a").await.job_status, JobStatus::Requested);
    fx.ok(settle(&new, nothing())).await;
}

pub(super) async fn expiry_alone_fences_nobody(fx: Fixture) {
    fx.fire("a").await;
    let taken = take_for(&fx, make::SHORT).await.expect("a trigger");
    fx.pass(make::BEYOND).await;
    fx.ok(settle(&taken, nothing())).await;
    assert_eq!(fx.progress("a").await.job_status, JobStatus::Planned);
}

pub(super) async fn settling_ends_a_trigger_with_its_reason(fx: Fixture) {
    let planned = fx.trigger("planned").await;
    let failed = fx.trigger("failed").await;
    fx.ok(settle(&planned, nothing())).await;
    fx.ok(settle(&failed, JobSettlement::Refused { error: "no such \"endpoint\"".into() })).await;

    let progress = fx.progress("planned").await;
    assert_eq!((progress.job_status, progress.is_finished()), (JobStatus::Planned, true));
    let remarks: serde_json::Value = serde_json::from_str(&progress.remarks.expect("remarks")).expect("JSON");
    assert_eq!(remarks["remark"], "nothing to do: „leer“");
    let progress = fx.progress("failed").await;
    assert_eq!(progress.job_status, JobStatus::Failed);
    let remarks: serde_json::Value = serde_json::from_str(&progress.remarks.expect("remarks")).expect("JSON");
    assert_eq!(remarks["error"], "no such \"endpoint\"");

    assert_eq!(fx.take().await, None);
    // A repetition finds no lease.
    assert_eq!(fx.run(settle(&planned, JobSettlement::Refused { error: String::new() })).await, Err(TxError::Fenced));
    assert_eq!(fx.rows(View::Jobs).await.texts("status_code"), ["FAILED", "PLANNED"]);
}

pub(super) async fn deferred_trigger_is_claimable_after_its_delay(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let delay = Duration::from_millis(400);
    fx.ok(settle(&taken, JobSettlement::Later { delay })).await;
    assert_eq!(fx.progress("a").await.job_status, JobStatus::Requested);
    assert_eq!(fx.take().await, None);
    // The lease was given back.
    assert_eq!(fx.run(settle(&taken, nothing())).await, Err(TxError::Fenced));
    fx.pass(delay + Duration::from_millis(20)).await;
    let again = fx.take().await.expect("the deferred trigger");
    assert_eq!((again.job, again.fence), (taken.job, Fence(taken.fence.0 + 1)));
}

pub(super) async fn foreign_fence_settles_nothing(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let wrong = SettleJob { fence: Fence(taken.fence.0 + 1), ..settle(&taken, nothing()) };
    assert_eq!(fx.run(wrong).await, Err(TxError::Fenced));
    let unknown = SettleJob { job: JobId(999_999), ..settle(&taken, nothing()) };
    assert_eq!(fx.run(unknown).await, Err(TxError::Fenced));
    let waiting = fx.fire("b").await;
    let not_taken = SettleJob { job: waiting, fence: Fence(0), settlement: nothing() };
    assert_eq!(fx.run(not_taken).await, Err(TxError::Fenced));
    assert_eq!(fx.rows(View::Jobs).await.texts("status_code"), ["REQUESTED", "REQUESTED"]);
}

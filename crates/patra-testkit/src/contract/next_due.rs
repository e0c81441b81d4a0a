//! Due times of the next work.

use patra_core::Ts;
use patra_core::port::next_due::NextDue;
use patra_core::state::{Operation, PauseKind};
use patra_core::tx::{ADVISORY_TTL, ClaimBackgroundJob, JobSettlement, PauseSelector, ResumeWork, RunEnd, SettleJob};

use super::source::feed;
use super::{Fixture, background_job, make};

/// [`Fixture::ok`] checks in every case that the reported time is never too late.
pub(super) async fn next_due_reports_a_time_for_each_kind_of_work(fx: Fixture) {
    let named = |ahead: &NextDue| {
        let NextDue { schedule, job: trigger, background_job, task, poll, lease, .. } = ahead;
        [schedule, trigger, background_job, task, poll, lease].map(Option::is_some)
    };
    let nothing = fx.ahead().await;
    assert_eq!(named(&nothing), [false; 6]);
    fx.ok(make::provenance("h", &[(make::ENDPOINT, Some(make::LONG))])).await;
    let due = fx.ahead().await;
    assert_eq!(named(&due), [true, false, false, false, false, false]);
    fx.ok(make::provenance("g", &[(make::ENDPOINT, None)])).await;
    let is_now = |ahead: &NextDue, first: Option<Ts>| {
        assert!(first.is_some_and(|first| first >= nothing.now && first <= ahead.now), "{ahead:?}");
    };
    let is_later = |ahead: &NextDue, first: Option<Ts>| {
        assert!(first.is_some_and(|first| first > ahead.now && first <= ahead.now + make::LONG), "{ahead:?}");
    };

    // Advice expires if nothing else ends it.
    let advice = fx.ok(make::hold(PauseKind::Advisory, make::partition(Operation::Harvest))).await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, false, false, false, false]);
    assert!(ahead.job.is_some_and(|first| first > ahead.now && first <= ahead.now + ADVISORY_TTL), "{ahead:?}");
    fx.ok(ResumeWork { target: PauseSelector::Id(advice.pause), by: "me".into() }).await;
    assert_eq!(named(&fx.ahead().await), [false; 6]);

    // A trigger that waits, is leased, and is deferred.
    fx.fire("a").await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, false, false, false, false]);
    is_now(&ahead, ahead.job);
    let taken = fx.ok(make::take(make::LONG)).await.expect("the trigger");
    let ahead = fx.ahead().await;
    is_later(&ahead, ahead.job);
    let (instance, fence) = taken.lease();
    fx.ok(SettleJob { job: instance, fence, settlement: JobSettlement::Later { delay: make::LONG / 2 } }).await;
    let ahead = fx.ahead().await;
    is_later(&ahead, ahead.job);
    assert!(ahead.job.is_some_and(|first| first <= ahead.now + make::LONG / 2));
    // The earliest of several counts.
    fx.fire("b").await;
    let ahead = fx.ahead().await;
    is_now(&ahead, ahead.job);
    let taken = fx.take().await.expect("the second");
    let (instance, fence) = taken.lease();
    fx.ok(SettleJob { job: instance, fence, settlement: JobSettlement::Refused { error: "no".into() } }).await;

    // A background job is not a trigger.
    fx.ok(background_job::request("c")).await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, true, false, false, false]);
    is_now(&ahead, ahead.background_job);
    is_later(&ahead, ahead.job);
    fx.ok(ClaimBackgroundJob { owner: "worker".into(), lease: make::LONG }).await.expect("the job");
    let ahead = fx.ahead().await;
    is_later(&ahead, ahead.background_job);

    // Tasks of two operations, one of them requeued; a poll is not a task.
    fx.plan("d", &make::windows(0, 1)).await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, true, true, false, false]);
    is_now(&ahead, ahead.task);
    let lease = fx.next().await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, true, false, false, true]);
    is_later(&ahead, ahead.lease);
    fx.finish(&lease, RunEnd::Requeue { delay: make::LONG / 2, error: make::fault("away"), counted: true }).await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, true, true, false, false]);
    is_later(&ahead, ahead.task);
    fx.plan_of("e", Operation::Backfill, &make::windows(0, 1)).await;
    let ahead = fx.ahead().await;
    is_now(&ahead, ahead.task);
    let ids = fx.feeds(&[feed("f")]).await;
    fx.queue(&ids).await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, true, true, true, false]);
    is_now(&ahead, ahead.poll);
    fx.claim_polls("me", 1, 1).await.pop().expect("the poll");
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, true, true, false, true]);
}

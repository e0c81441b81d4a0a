//! Steps of the clock while work waits. A store notices a step at once or with the next sweep.

use std::sync::Arc;
use std::time::Duration;

use patra_core::Ts;
use patra_core::clock_step::StoreTime;
use patra_core::gate::{GateLimits, GateRefusal, GateRequest, GateSignal, Rate};
use patra_core::port::next_due::NextDue;
use patra_core::tx::{
    ApplyProvenance, ClaimEvents, CookiePicked, Delivery, FireDue, JobSettlement, Lease, LeaseRef, PickCookie,
    Recurrence, Renew, RequestPermits, RunEnd, SaveCookie, SettleEvent, SettleJob, TWEETS_COLLECTED,
};

use super::cookie::{cookie, pick};
use super::{Fixture, make};

const HOUR: i64 = 3_600_000_000;
const EVERY: Duration = Duration::from_secs(400);
const DELAY: Duration = Duration::from_secs(180);
const SILENCE: Duration = Duration::from_secs(60);

/// How exactly a wait is kept: the store may not have counted the time until it noticed the step.
const EXACT: Duration = Duration::from_secs(7);

const KEY: &str = "p/e";

async fn ask_gate(fx: &Fixture, request: GateRequest) -> Option<(GateRefusal, Duration)> {
    let limits = GateLimits { rate: Rate { per_sec: 10.0, burst: 5.0 }, ..GateLimits::default() };
    let reply = fx.ok(Arc::new(RequestPermits { key: KEY.into(), limits, request })).await;
    reply.refused.map(|(why, until)| (why, until.since(reply.now)))
}

async fn is_silent(fx: &Fixture) -> Option<Duration> {
    let request = GateRequest {
        member: "a".into(),
        class: "c".into(),
        weight: 1,
        now: 1,
        percent: 100,
        deadline: Duration::from_secs(30),
        ..GateRequest::default()
    };
    ask_gate(fx, request).await.map(|(why, wait)| {
        assert_eq!(why, GateRefusal::Cooldown);
        wait
    })
}

fn events(owner: &str) -> ClaimEvents {
    ClaimEvents { owner: owner.into(), lease: make::LONG, limit: 10, event_type: TWEETS_COLLECTED.into() }
}

/// One of everything that waits. Returns a lease that is held.
async fn everything_waits(fx: &Fixture) -> Lease {
    fx.ok(make::provenance("h", &[(make::ENDPOINT, Some(EVERY))])).await;
    fx.plan("planned", &make::windows(0, 2)).await;
    let mut leases = fx.claim(2).await;
    let (held, other) = (leases.remove(0), leases.remove(0));
    fx.finish(&other, RunEnd::Requeue { delay: DELAY, error: make::fault("later"), counted: false }).await;
    fx.trigger("later").await.lease();
    let (job, fence) = (fx.trigger("postponed").await).lease();
    fx.ok(SettleJob { job, fence, settlement: JobSettlement::Later { delay: DELAY } }).await;
    fx.events("u", 1).await;
    for event in fx.ok(events("x")).await.events {
        let failed = Delivery::Failed("status 500".into());
        fx.ok(SettleEvent { id: event.id, owner: "x".into(), delivery: failed }).await;
    }
    let silence = GateRequest { signals: vec![GateSignal::RetryAfter(SILENCE)], ..GateRequest::default() };
    ask_gate(fx, silence).await;
    held
}

/// Lets the store notice a step.
async fn notice(fx: &Fixture) {
    fx.ahead().await;
    fx.pass(StoreTime::PATIENCE_BACK).await;
    assert_eq!(fx.sweep(false).await.requeued, [], "a step takes no lease");
}

fn waits(due: &NextDue) -> Vec<(&'static str, Duration)> {
    let all: [(_, Option<Ts>); 5] =
        [("schedule", due.schedule), ("job", due.job), ("task", due.task), ("poll", due.poll), ("lease", due.lease)];
    all.into_iter().filter_map(|(kind, at)| Some((kind, at?.since(due.now)))).collect()
}

fn assert_as_long(before: &[(&'static str, Duration)], after: &[(&'static str, Duration)]) {
    assert_eq!(before.len(), after.len(), "{before:?} {after:?}");
    for ((kind, before), (_, after)) in before.iter().zip(after) {
        assert!(after <= before && *after + EXACT >= *before, "{kind}: {before:?} became {after:?}");
    }
}

/// All of it, in its time.
async fn everything_comes(fx: &Fixture, held: &Lease) {
    fx.pass(SILENCE).await;
    assert_eq!(is_silent(fx).await, None, "the silence is over");
    let lease = LeaseRef { task: held.task, fence: held.fence };
    let renewed =
        fx.ok(Renew { owner: make::claim(1, make::LONG).owner, leases: vec![lease], lease: make::SHORT }).await;
    assert_eq!(renewed.held, [lease], "the lease still stands");
    fx.pass(make::BEYOND).await;
    assert_eq!(fx.sweep(false).await.requeued, [lease.task], "and ends");
    assert_eq!(fx.claim(9).await.len(), 1, "the task that was postponed waits");
    fx.pass(DELAY).await;
    assert_eq!(fx.claim(9).await.len(), 1);
    assert_eq!(fx.ok(events("y")).await.events.len(), 1);
    assert_eq!(fx.take().await.map(|job| job.public_id), Some("postponed".to_owned()));
    fx.pass(EVERY).await;
    assert_eq!(fx.ok(FireDue { limit: 9 }).await.fired, 1);
}

pub(super) async fn waits_are_no_longer_after_the_clock_was_set_back(fx: Fixture) {
    let held = everything_waits(&fx).await;
    fx.sweep(false).await;
    let (before, silence) = (waits(&fx.ahead().await), is_silent(&fx).await.expect("silence"));
    fx.step_clock(-HOUR).await;
    notice(&fx).await;
    let now = fx.now().await;
    assert_as_long(&before, &waits(&fx.ahead().await));
    let left = is_silent(&fx).await.expect("silence");
    assert!(left <= silence && left + EXACT >= silence, "{silence:?} became {left:?}");
    fx.pass(make::BEYOND).await;
    assert_eq!(fx.now().await, now + make::BEYOND, "time runs");
    everything_comes(&fx, &held).await;
}

// covers: CRAWL-22
pub(super) async fn use_of_a_cookie_ends_after_the_clock_was_set_back(fx: Fixture) {
    fx.ok(SaveCookie { max_parallel: Some(1), ..cookie("a") }).await;
    let is_picked = async || matches!(fx.ok(pick()).await, CookiePicked::Picked { .. });
    let lease = Duration::from_secs(120);
    fx.ok(PickCookie { lease, ..pick() }).await;
    fx.sweep(false).await;
    fx.step_clock(-HOUR).await;
    notice(&fx).await;
    assert!(!is_picked().await, "the use goes on");
    fx.pass(lease).await;
    assert!(is_picked().await, "it has ended");
}

pub(super) async fn clock_that_was_ahead_leaves_nothing_in_the_future(fx: Fixture) {
    fx.sweep(false).await;
    fx.step_clock(HOUR).await;
    fx.pass(StoreTime::PATIENCE_FORWARD).await;
    fx.sweep(false).await;
    fx.pass(StoreTime::PATIENCE_FORWARD).await;
    let held = everything_waits(&fx).await;
    fx.sweep(false).await;
    let before = waits(&fx.ahead().await);
    fx.step_clock(-HOUR).await;
    notice(&fx).await;
    assert_as_long(&before, &waits(&fx.ahead().await));
    everything_comes(&fx, &held).await;
}

pub(super) async fn schedule_fires_again_in_an_hour_that_is_repeated(fx: Fixture) {
    let mut apply: ApplyProvenance = make::provenance("h", &[(make::ENDPOINT, None)]);
    apply.endpoints[0].schedules = vec![make::harvest(Recurrence::Cron("*/10 * * * *".into()))];
    fx.ok(apply).await;
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let fire = async |fx: &Fixture| {
        let fired = fx.ok(FireDue { limit: 9 }).await.fired;
        while let Some(taken) = fx.take().await {
            let (job, fence) = taken.lease();
            let nothing = JobSettlement::Nothing { remark: "nothing to collect".into() };
            fx.ok(SettleJob { job, fence, settlement: nothing }).await;
        }
        fired
    };
    for _ in 0..3 {
        fx.pass(minutes(10)).await;
        assert_eq!(fire(&fx).await, 1);
    }
    fx.sweep(false).await;
    fx.step_clock(-2 * HOUR / 6).await;
    notice(&fx).await;
    for _ in 0..3 {
        fx.pass(minutes(10)).await;
        assert_eq!(fire(&fx).await, 1, "{:?}", fx.ahead().await);
    }
}

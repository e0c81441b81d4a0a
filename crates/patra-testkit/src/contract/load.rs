//! What gauges are made of.

use std::time::Duration;

use patra_core::Ts;
use patra_core::cursor::Scope;
use patra_core::port::ahead::Ahead;
use patra_core::port::load::{FORGOTTEN, Load, Reached};
use patra_core::state::{HoldKind, Operation};
use patra_core::tx::{
    ADVICE_LASTS, AdvanceCursor, Inventory, Release, RunEnd, SettleTrigger, Settlement, TakeChore, Which,
};

use super::source::feed;
use super::{Fixture, chore, make};

fn partition(operation: Operation) -> Inventory {
    Inventory { provenance_code: make::PROVENANCE.into(), endpoint_name: make::ENDPOINT.into(), operation }
}

impl Fixture {
    async fn load(&self) -> Load {
        self.subject.store.load().await.expect("the load")
    }
}

// covers: ING-14.4-05
pub(super) async fn what_waits_and_what_is_held_is_counted_by_partition(fx: Fixture) {
    let nothing = fx.load().await;
    assert_eq!((&nothing.queues, &nothing.reached, &nothing.scheduled), (&vec![], &vec![], &vec![]));
    let before = nothing.now;
    fx.plan("a", &make::windows(0, 3)).await;
    fx.plan_of("b", Operation::Backfill, &make::windows(0, 1)).await;
    let held = fx.next().await;
    let load = fx.load().await;
    let counts: Vec<_> =
        load.queues.iter().map(|queue| (queue.partition.operation, queue.queued, queue.held)).collect();
    assert_eq!(counts, [(Operation::Harvest, 2, 1), (Operation::Backfill, 1, 0)]);
    let oldest = load.queues[0].oldest.expect("a time");
    assert!(oldest >= before && oldest <= load.now, "{oldest:?}");
    assert_eq!((held.scheduled_at, held.priority), (oldest, 100), "what a lease says of its place in the queue");
    fx.finish(&held, RunEnd::Succeeded).await;
    for lease in fx.claim(3).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    assert_eq!(fx.load().await.queues, []);
}

// covers: ING-14.4-06
pub(super) async fn how_far_cursors_have_come_is_told_until_they_are_forgotten(fx: Fixture) {
    let cursor = fx.plan("a", &make::windows(100, 2)).await.cursor;
    fx.plan_of("b", Operation::Backfill, &make::windows(0, 1)).await;
    let reached =
        |secs| [Reached { partition: partition(Operation::Harvest), scope: Scope::Expr, instant: Ts::from_secs(secs) }];
    let began = fx.load().await.reached;
    assert_eq!(began.len(), 1, "one that moves into the past is behind nothing: {began:?}");
    let lease = fx.next().await;
    fx.finish(&lease, RunEnd::Succeeded).await;
    let advance = fx.advance(cursor).await;
    let to = advance.target.expect("an event");
    assert!(fx.ok(AdvanceCursor { cursor, to, version: advance.version }).await.moved);
    assert_eq!(fx.load().await.reached, reached(110));
    if !fx.subject.is_real() {
        fx.pass(FORGOTTEN).await;
        assert_eq!(fx.load().await.reached, reached(110));
        fx.pass(Duration::from_secs(1)).await;
        assert_eq!(fx.load().await.reached, []);
    }
}

// covers: ING-14.8-02
pub(super) async fn partitions_with_a_schedule_are_named(fx: Fixture) {
    fx.ok(make::provenance("h", &[(make::ENDPOINT, Some(make::LONG)), ("other", None)])).await;
    assert_eq!(fx.load().await.scheduled, [partition(Operation::Harvest)]);
}

/// That the answer is never too late is looked at wherever a case finds something, see [`Fixture::ok`].
pub(super) async fn for_each_part_it_is_told_when_it_may_find_something(fx: Fixture) {
    let named = |ahead: &Ahead| {
        let Ahead { schedule, trigger, chore, task, poll, lease, .. } = ahead;
        [schedule, trigger, chore, task, poll, lease].map(Option::is_some)
    };
    let nothing = fx.ahead().await;
    assert_eq!(named(&nothing), [false; 6]);
    fx.ok(make::provenance("h", &[(make::ENDPOINT, Some(make::LONG))])).await;
    let due = fx.ahead().await;
    assert_eq!(named(&due), [true, false, false, false, false, false]);
    fx.ok(make::provenance("g", &[(make::ENDPOINT, None)])).await;
    let is_now = |ahead: &Ahead, first: Option<Ts>| {
        assert!(first.is_some_and(|first| first >= nothing.now && first <= ahead.now), "{ahead:?}");
    };
    let is_later = |ahead: &Ahead, first: Option<Ts>| {
        assert!(first.is_some_and(|first| first > ahead.now && first <= ahead.now + make::LONG), "{ahead:?}");
    };

    // Advice that nothing else ends, ends some time.
    let advice = fx.ok(make::hold(HoldKind::Advisory, make::partition(Operation::Harvest))).await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, false, false, false, false]);
    assert!(ahead.trigger.is_some_and(|first| first > ahead.now && first <= ahead.now + ADVICE_LASTS), "{ahead:?}");
    fx.ok(Release { which: Which::Hold(advice.hold), by: "me".into() }).await;
    assert_eq!(named(&fx.ahead().await), [false; 6]);

    // A trigger that waits, that somebody has, that is put off.
    fx.fire("a").await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, false, false, false, false]);
    is_now(&ahead, ahead.trigger);
    let taken = fx.ok(make::take(make::LONG)).await.expect("the trigger");
    let ahead = fx.ahead().await;
    is_later(&ahead, ahead.trigger);
    let (instance, fence) = taken.lease();
    fx.ok(SettleTrigger { instance, fence, settlement: Settlement::Later { delay: make::LONG / 2 } }).await;
    let ahead = fx.ahead().await;
    is_later(&ahead, ahead.trigger);
    assert!(ahead.trigger.is_some_and(|first| first <= ahead.now + make::LONG / 2));
    // The first of several is what counts.
    fx.fire("b").await;
    let ahead = fx.ahead().await;
    is_now(&ahead, ahead.trigger);
    let taken = fx.take().await.expect("the second");
    let (instance, fence) = taken.lease();
    fx.ok(SettleTrigger { instance, fence, settlement: Settlement::Refused { error: "no".into() } }).await;

    // A chore is no trigger.
    fx.ok(chore::ask_for("c")).await;
    let ahead = fx.ahead().await;
    assert_eq!(named(&ahead), [false, true, true, false, false, false]);
    is_now(&ahead, ahead.chore);
    is_later(&ahead, ahead.trigger);
    fx.ok(TakeChore { owner: "worker".into(), lease: make::LONG }).await.expect("the chore");
    let ahead = fx.ahead().await;
    is_later(&ahead, ahead.chore);

    // Tasks of two lanes, one of them put off; a poll is no task.
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

//! Claiming and renewing.

use std::time::Duration;

use patra_core::port::query::{Cell, View};
use patra_core::state::{Operation, TaskStatus};
use patra_core::tx::{ClaimTasks, Lease, LeaseRef, Renew, RunEnd};
use patra_core::{Fence, TaskId};

use super::fixture::{int, text, time};
use super::{Fixture, make};

fn requeue(delay: Duration) -> RunEnd {
    RunEnd::Requeue { delay, error: make::fault("later"), counted: true }
}

fn renew(leases: &[LeaseRef], lease: Duration) -> Renew {
    Renew { owner: "worker".into(), leases: leases.to_vec(), lease }
}

fn starts(leases: &[Lease]) -> Vec<i64> {
    leases.iter().filter_map(|lease| lease.window).map(|window| window.from.micros() / 1_000_000).collect()
}

// covers: ING-5.2-06, ING-5.4-01, ING-6.3-07, ING-9.7-01, ING-11.9-03, ING-13.3-02, ING-13.3-04
pub(super) async fn tasks_are_claimed_by_priority_then_time_then_id(fx: Fixture) {
    let tick = Duration::from_millis(5);
    fx.plan_of("backfill", Operation::Backfill, &[make::window(300, 310)]).await;
    fx.pass(tick).await;
    fx.plan_of("update", Operation::Update, &[make::window(200, 210)]).await;
    fx.pass(tick).await;
    fx.plan("one", &[make::window(20, 30), make::window(10, 20)]).await;
    fx.pass(tick).await;
    fx.plan("two", &[make::window(0, 10)]).await;
    // Tasks of one plan are in the order of its slices, and an older plan comes before a newer one.
    assert_eq!(starts(&fx.claim(3).await), [20, 10, 0]);
    assert_eq!(starts(&fx.claim(9).await), [200, 300]);
    assert!(fx.claim(9).await.is_empty());
}

// covers: ING-13.3-02, ING-13.3-03
pub(super) async fn claim_takes_at_most_its_limit_and_nothing_twice(fx: Fixture) {
    fx.plan("a", &make::windows(0, 5)).await;
    assert!(fx.claim(0).await.is_empty());
    let (first, second) = (fx.claim(2).await, fx.claim(9).await);
    assert_eq!((first.len(), second.len()), (2, 3));
    let mut tasks: Vec<_> = first.iter().chain(&second).map(|lease| lease.task).collect();
    tasks.sort();
    tasks.dedup();
    assert_eq!(tasks.len(), 5);
}

// covers: ING-9.1-03, ING-13.3-05
pub(super) async fn claimed_task_is_dispatched_under_its_owner(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let claimed = fx.ok(ClaimTasks { owner: "vörker 1".into(), ..make::claim(1, make::LONG) }).await;
    let lease = &claimed.leases[0];
    assert_eq!((lease.fence, lease.attempts, lease.until), (Fence(1), 1, claimed.now + make::LONG));
    let tasks = fx.rows(View::Tasks).await;
    assert_eq!(text(&tasks.at(0, "status_code")), "DISPATCHED");
    assert_eq!(text(&tasks.at(0, "lease_owner")), "vörker 1");
    assert_eq!(time(&tasks.at(0, "leased_until")), lease.until);
    assert_eq!((int(&tasks.at(0, "lease_epoch")), int(&tasks.at(0, "attempt_count"))), (1, 1));
}

// covers: ING-13.3-02, ING-8.5-03
pub(super) async fn task_is_not_claimed_before_its_time(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let lease = fx.next().await;
    let delay = Duration::from_millis(400);
    assert_eq!(fx.finish(&lease, requeue(delay)).await, TaskStatus::Queued);
    // The task behind it is not blocked.
    assert_ne!(fx.next().await.task, lease.task);
    assert!(fx.claim(9).await.is_empty());
    fx.pass(delay + Duration::from_millis(20)).await;
    assert_eq!(fx.next().await.task, lease.task);
}

pub(super) async fn fence_and_attempts_rise_with_every_claim(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    for round in 1..=2 {
        let lease = fx.next().await;
        assert_eq!((lease.fence, lease.attempts), (Fence(i64::from(round)), round));
        fx.finish(&lease, requeue(Duration::ZERO)).await;
        fx.pass(Duration::from_millis(5)).await;
    }
}

pub(super) async fn renewal_extends_only_the_leases_of_the_owner(fx: Fixture) {
    fx.plan("a", &make::windows(0, 3)).await;
    let leases = fx.claim(3).await;
    let [a, b, c] = [0, 1, 2].map(|at| LeaseRef::from(&leases[at]));
    let stale = LeaseRef { fence: Fence(b.fence.0 - 1), ..b };
    let unknown = LeaseRef { task: TaskId(999_999), fence: Fence(1) };
    let done = fx.ok(renew(&[c, stale, unknown, a], 2 * make::LONG)).await;
    let mut held = vec![a, c];
    held.sort();
    assert_eq!(done.held, held);
    let tasks = fx.rows(View::Tasks).await;
    assert_eq!(time(&tasks.of(a.task.0, "leased_until")), done.now + 2 * make::LONG);
    assert_eq!(time(&tasks.of(b.task.0, "leased_until")), leases[1].until);

    let other = Renew { owner: "thief".into(), ..renew(&[a], make::LONG) };
    assert!(fx.ok(other).await.held.is_empty());
    assert!(fx.ok(renew(&[], make::LONG)).await.held.is_empty());
    // A run in progress is renewed like a task that waits for its start.
    fx.start(&leases[0]).await;
    assert_eq!(fx.ok(renew(&[a], make::LONG)).await.held, [a]);
}

pub(super) async fn expired_lease_cannot_be_renewed(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.claim_for(1, make::SHORT).await.remove(0);
    fx.pass(make::BEYOND).await;
    assert!(fx.ok(renew(&[LeaseRef::from(&lease)], make::LONG)).await.held.is_empty());
    assert_eq!(fx.sweep(false).await.requeued, [lease.task]);
}

pub(super) async fn ended_task_cannot_be_renewed(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let leases = fx.claim(2).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    fx.finish(&leases[1], requeue(Duration::ZERO)).await;
    let both: Vec<_> = leases.iter().map(LeaseRef::from).collect();
    assert!(fx.ok(renew(&both, make::LONG)).await.held.is_empty());
    assert_eq!(fx.rows(View::Tasks).await.column("leased_until"), [Cell::Null, Cell::Null]);
}

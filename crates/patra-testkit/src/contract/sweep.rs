//! Sweeps of expired leases.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::query::{Cell, View};
use patra_core::state::TaskStatus;
use patra_core::tx::{Lease, LeaseRef, Renew, RunEnd, Sweep, TxError};
use patra_core::{Code, Fault};

use super::fixture::{int, time};
use super::{Fixture, make};

// covers: ING-9.1-03, ING-9.4-05
pub(super) async fn sweep_reclaims_only_expired_leases(fx: Fixture) {
    fx.plan("a", &make::windows(0, 3)).await;
    let dead = fx.claim_for(1, make::SHORT).await.remove(0);
    let live = fx.claim(2).await;
    fx.start(&live[0]).await;
    fx.pass(make::BEYOND).await;
    let swept = fx.sweep(false).await;
    assert_eq!((&*swept.requeued, &*swept.failed), (&[dead.task][..], &[][..]));
    assert_eq!(fx.task_status(&dead).await, "QUEUED");
    assert_eq!(fx.task_status(&live[0]).await, "EXECUTING");
    assert_eq!(fx.task_status(&live[1]).await, "DISPATCHED");
    assert!(fx.sweep(false).await.requeued.is_empty(), "once is enough");
    let again = fx.next().await;
    assert_eq!((again.task, again.fence.0, again.attempts), (dead.task, dead.fence.0 + 1, 1));
}

pub(super) async fn sweep_at_the_start_of_the_only_process_reclaims_every_lease(fx: Fixture) {
    fx.plan("a", &make::windows(0, 4)).await;
    let leases = fx.claim(3).await;
    fx.start(&leases[0]).await;
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    let swept = fx.sweep(true).await;
    let mut expected = [leases[0].task, leases[2].task];
    expected.sort();
    assert_eq!(swept.requeued, expected);
    assert_eq!(fx.task_status(&leases[1]).await, "SUCCEEDED");
    assert_eq!(fx.claim(9).await.len(), 3);
}

pub(super) async fn sweep_frees_the_triggers_of_dead_planners(fx: Fixture) {
    let old = fx.trigger("a").await;
    fx.sweep(false).await;
    assert_eq!(fx.take().await, None, "an ordinary sweep is about tasks");
    fx.sweep(true).await;
    assert_eq!(fx.run(Arc::new(make::plan(&old, 0, &make::windows(0, 1)))).await, Err(TxError::Fenced));
    let new = fx.take().await.expect("the trigger");
    assert_eq!((new.job, new.fence.0), (old.job, old.fence.0 + 1));
    fx.ok(Arc::new(make::plan(&new, 0, &make::windows(0, 1)))).await;
}

// covers: ING-9.4-05
pub(super) async fn task_that_keeps_killing_its_process_fails(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    for round in 1..=4 {
        let lease = fx.next().await;
        // The first death does not say whose fault it was.
        assert_eq!((lease.suspect, lease.attempts), (round > 1, (round - 1).max(1)));
        fx.start(&lease).await;
        let swept = fx.sweep(true).await;
        if round < 4 {
            assert_eq!((swept.requeued.len(), swept.failed.len()), (1, 0));
            continue;
        }
        assert_eq!((&*swept.requeued, &*swept.failed), (&[][..], &[lease.task][..]));
        let tasks = fx.rows(View::Tasks).await;
        assert_eq!(tasks.texts("status_code"), ["FAILED"]);
        assert_ne!(tasks.at(0, "finished_at"), Cell::Null);
        assert_eq!((tasks.at(0, "lease_owner"), tasks.at(0, "leased_until")), (Cell::Null, Cell::Null));
    }
    assert!(fx.claim(9).await.is_empty());
}

pub(super) async fn death_counts_only_for_a_suspect_that_was_running(fx: Fixture) {
    fx.plan("a", &make::windows(0, 3)).await;
    let state = |leases: &[Lease]| leases.iter().map(|lease| (lease.suspect, lease.attempts)).collect::<Vec<_>>();
    let leases = fx.claim(3).await;
    fx.start(&leases[0]).await;
    fx.start(&leases[1]).await;
    fx.sweep(true).await;
    let leases = fx.claim(3).await;
    assert_eq!(state(&leases), [(true, 1), (true, 1), (false, 1)], "the third one had not begun");
    // Deferring neither clears a suspect nor counts; a failure counts.
    for (lease, counted) in [(&leases[1], false), (&leases[2], true)] {
        let error = Fault::transient(Code::RateLimited, "later");
        let run = fx.start(lease).await;
        fx.end(lease, run, RunEnd::Requeue { delay: Duration::ZERO, error, counted }).await;
    }
    fx.start(&leases[0]).await;
    fx.sweep(true).await;
    let leases = fx.claim(3).await;
    assert_eq!(state(&leases), [(true, 2), (true, 1), (false, 2)]);
    let run = fx.start(&leases[0]).await;
    fx.commit(&leases[0], run, 1, vec![make::record("a", 1)], true).await;
    fx.sweep(true).await;
    let leases = fx.claim(3).await;
    assert_eq!(state(&leases), [(true, 1), (true, 1), (false, 2)], "its progress had cleared it");
    let run = fx.start(&leases[0]).await;
    fx.commit(&leases[0], run, 2, vec![make::record("b", 2)], true).await;
    let error = Fault::transient(Code::RateLimited, "later");
    fx.end(&leases[0], run, RunEnd::Requeue { delay: Duration::ZERO, error, counted: false }).await;
    assert_eq!(state(&[fx.next().await]), [(false, 1)]);
}

pub(super) async fn orphan_run_fails_with_its_reason(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.claim_for(1, make::SHORT).await.remove(0);
    let run = fx.start(&lease).await;
    fx.commit(&lease, run, 1, vec![make::record("a", 1)], true).await;
    fx.pass(make::BEYOND).await;
    let swept = fx.sweep(false).await;
    let runs = fx.rows(View::Runs).await;
    assert_eq!(runs.texts("status_code"), ["FAILED"]);
    assert!(runs.texts("error")[0].contains("lease_expired"));
    assert_eq!(time(&runs.at(0, "finished_at")), swept.now);
    // Its commits stay, and the batch was progress, so the attempts start again.
    assert_eq!(fx.rows(View::Items).await.len(), 1);
    assert_eq!(int(&fx.rows(View::Tasks).await.at(0, "attempt_count")), 0);
}

pub(super) async fn task_that_finished_meanwhile_stays_finished(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let leases = fx.claim_for(2, make::SHORT).await;
    let run = fx.start(&leases[0]).await;
    fx.start(&leases[1]).await;
    fx.pass(make::BEYOND).await;
    // The lease has expired, but has not been swept yet.
    assert_eq!(fx.end(&leases[0], run, RunEnd::Succeeded).await, TaskStatus::Succeeded);
    assert_eq!(fx.sweep(false).await.requeued, [leases[1].task]);
    assert_eq!(fx.task_status(&leases[0]).await, "SUCCEEDED");
}

pub(super) async fn sweep_keeps_a_renewed_lease(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.claim_for(1, Duration::from_millis(500)).await.remove(0);
    let renew = Renew { owner: "worker".into(), leases: vec![LeaseRef::from(&lease)], lease: make::LONG };
    assert_eq!(fx.ok(renew).await.held.len(), 1);
    fx.pass(Duration::from_millis(550)).await;
    assert!(fx.sweep(false).await.requeued.is_empty());
}

pub(super) async fn many_live_leases_do_not_hide_one_dead_one(fx: Fixture) {
    let live = 10_000;
    fx.plan("a", &make::windows(0, live + 1)).await;
    for _ in 0..live / 500 {
        assert_eq!(fx.claim(500).await.len(), 500);
    }
    let dead = fx.claim_for(1, make::SHORT).await.remove(0);
    fx.pass(make::BEYOND).await;
    let swept = fx.ok(Sweep { limit: 1, max_attempts: 3, all_owners: false, longest_lease: make::LONG }).await;
    assert_eq!(swept.requeued, [dead.task]);
}

pub(super) async fn sweep_stops_at_its_limit_and_continues_the_next_time(fx: Fixture) {
    fx.plan("a", &make::windows(0, 5)).await;
    fx.claim(5).await;
    let some = fx.ok(Sweep { limit: 2, max_attempts: 3, all_owners: true, longest_lease: make::LONG }).await;
    assert_eq!(some.requeued.len(), 2);
    assert_eq!(fx.sweep(true).await.requeued.len(), 3);
}

// covers: ING-9.2-01
pub(super) async fn swept_owner_cannot_write(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let old = fx.claim_for(1, make::SHORT).await.remove(0);
    let old_run = fx.start(&old).await;
    fx.pass(make::BEYOND).await;
    fx.sweep(false).await;
    let page = || Arc::new(make::page(&old, old_run, 1, vec![make::record("zombie", 1)], false));
    assert_eq!(fx.run(page()).await, Err(TxError::Fenced), "while the task waits");
    let new = fx.next().await;
    assert_eq!(fx.run(page()).await, Err(TxError::Fenced), "while another owner has the lease");
    let run = fx.start(&new).await;
    assert_ne!(run, old_run);
    assert_eq!(fx.run(page()).await, Err(TxError::Fenced), "while another runs it");
    // The run is closed; whatever its end returns, the task continues under the new lease.
    let _ = fx.run(Arc::new(make::end(&old, old_run, RunEnd::Succeeded))).await;
    assert_eq!(fx.task_status(&new).await, "EXECUTING");
    assert!(fx.rows(View::Items).await.is_empty());
    assert_eq!(fx.end(&new, run, RunEnd::Succeeded).await, TaskStatus::Succeeded);
    assert_eq!(fx.run(page()).await, Err(TxError::Fenced), "after the end");
    assert!(fx.rows(View::Items).await.is_empty());
}

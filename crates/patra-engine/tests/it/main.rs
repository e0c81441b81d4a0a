//! The engine on the in-memory store, with a mock API and tokio's virtual time.

#![expect(clippy::unwrap_used, reason = "these are tests: a failure is meant to be loud")]

mod credentials;
mod gate;
mod late;
mod parallel;
mod partitions;
mod recovery;
mod registry;
mod scale;
mod support;
mod work_poller;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use patra_core::state::{RunStatus, TaskStatus};
use tokio_util::sync::CancellationToken;

use support::{MockApi, World, stop};

// covers: ING-5.1-01, ING-5.1-03, ING-0.4-03
#[tokio::test(start_paused = true)]
async fn a_trigger_becomes_items_and_a_cursor() {
    let world = World::new(MockApi::with(95));
    let engine = world.start("one").await;
    world.fire("job").await;
    engine.nudge();
    let progress = world.finished("job").await;
    assert_eq!((progress.inserted, progress.tasks_succeeded, progress.tasks_failed), (95, 2, 0));
    assert_eq!(world.items(), 95);
    assert_eq!(world.cursor(), Some(support::END));
    stop(engine).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_middle_gives_the_task_back_and_the_next_process_goes_on_from_the_ledger() {
    let api = MockApi { latency: Duration::from_secs(1), ..MockApi::with(95) };
    let world = World::new(api);
    let engine = world.start("one").await;
    world.fire("job").await;
    engine.nudge();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    stop(engine).await;
    let (queued, partial) = world.store.lock().tasks.iter().fold((0, 0), |(queued, partial), task| {
        assert!(matches!(task.status, TaskStatus::Queued), "{:?}", task.status);
        (queued + 1, partial + task.attempts)
    });
    assert_eq!((queued, partial), (2, 0), "given back, and not counted as failures");
    let read = world.items();
    assert!(read > 0 && read < 95);
    let asked = world.transport.requests.load(Relaxed);

    let engine = world.start("two").await;
    assert_eq!(world.finished("job").await.inserted, 95);
    stop(engine).await;
    // Ten pages in all; committed pages are not requested again.
    let again = world.transport.requests.load(Relaxed) - asked;
    assert!(again < 10, "{again} requests after the restart");
    assert_eq!(world.cursor(), Some(support::END));
}

/// Two slices in parallel, each page in a fifth of a second, and a crash at every tenth of it.
// covers: ING-DOD-08
#[tokio::test(start_paused = true)]
async fn after_a_death_at_any_moment_only_the_page_in_flight_is_read_again() {
    for tenth in 1..60 {
        let world = World::new(MockApi { latency: Duration::from_millis(200), ..MockApi::with(100) });
        let engine = world.start("one").await;
        world.fire("job").await;
        engine.nudge();
        tokio::time::sleep(Duration::from_millis(20 * tenth)).await;
        // Dropped, not stopped: as if it had been killed.
        drop(engine);
        // A transaction that was sent goes on to its end.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let committed = world.store.lock().batches.len() as u64;
        let asked = world.transport.requests.load(Relaxed);
        assert!(asked <= committed + 2, "one page of each slice is in progress");

        let engine = world.start("two").await;
        assert_eq!(world.finished("job").await.inserted, 100);
        stop(engine).await;
        let all = world.store.lock().batches.len() as u64;
        let again = world.transport.requests.load(Relaxed) - asked;
        assert_eq!(again, all - committed, "killed after {} ms: what was committed is not asked for again", 20 * tenth);
        assert_eq!((world.items(), world.cursor()), (100, Some(support::END)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hurried_stop_does_not_wait_for_the_upstream() {
    let world = World::new(MockApi { latency: Duration::from_secs(100), ..MockApi::with(10) });
    let engine = world.start("one").await;
    world.fire("job").await;
    engine.nudge();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hurry = CancellationToken::new();
    hurry.cancel();
    let before = tokio::time::Instant::now();
    engine.stop(hurry).await;
    assert!(before.elapsed() < Duration::from_secs(1));
}

// covers: ING-5.8-02, ING-11.2-02
#[tokio::test(start_paused = true)]
async fn a_store_that_is_busy_away_or_loses_its_answers_changes_nothing_in_the_result() {
    for seed in 0..30 {
        let world = World::new(MockApi::with(95)).with_flaky_store(seed);
        let engine = world.start("one").await;
        world.fire("job").await;
        engine.nudge();
        let progress = world.finished("job").await;
        assert_eq!((progress.inserted, world.items()), (95, 95), "seed {seed}");
        stop(engine).await;
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_are_retried_and_a_poisoned_page_ends_its_task_only() {
    let world = World::new(MockApi { fail_every: 3, poison: Some(36), ..MockApi::with(95) });
    let engine = world.start("one").await;
    world.fire("job").await;
    engine.nudge();
    let progress = world.finished("job").await;
    assert_eq!((progress.tasks_succeeded, progress.tasks_failed), (1, 1));
    assert!(progress.retries > 0);
    assert_eq!(world.cursor(), None, "the first slice failed, so nothing before it is complete");
    let runs: Vec<_> = world.store.lock().runs.iter().map(|run| run.status).collect();
    assert!(runs.contains(&RunStatus::Failed) && runs.contains(&RunStatus::Succeeded));
    stop(engine).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_for_a_while_delays_planning_and_runs_and_fails_nothing() {
    let world = World::new(MockApi::with(95)).with_blind_store(4);
    let engine = world.start("one").await;
    world.fire("job").await;
    engine.nudge();
    let progress = world.finished("job").await;
    assert_eq!((progress.inserted, progress.tasks_failed), (95, 0));
    stop(engine).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_loses_its_lease_and_its_task_ends() {
    let world = World::new(MockApi { panics: true, ..MockApi::with(10) });
    let engine = world.start("one").await;
    world.fire("job").await;
    engine.nudge();
    let progress = world.finished("job").await;
    assert_eq!((progress.tasks_failed, progress.tasks_succeeded), (2, 0), "after its attempts, not never");
    stop(engine).await;
}

#[tokio::test(start_paused = true)]
async fn two_processes_share_the_work_and_a_dead_one_is_replaced() {
    let world = World::new(MockApi { latency: Duration::from_millis(300), ..MockApi::with(95) });
    let (first, second) = (world.start("one").await, world.start("two").await);
    world.fire("job").await;
    first.nudge();
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Dropped, not stopped: as if it had been killed.
    drop(first);
    assert_eq!(world.finished("job").await.inserted, 95);
    assert_eq!(world.items(), 95);
    stop(second).await;
}

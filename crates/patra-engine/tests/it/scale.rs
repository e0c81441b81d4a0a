//! Planners and executors in processes of their own, in any number.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use patra_core::port::Queries;
use patra_engine::EngineRole;

use crate::support::{END, MANIFEST, MockApi, World, stop};

/// Sixty slices of two seconds, one request each, and room for all of them at once.
fn fine() -> String {
    MANIFEST.replace("max_window: PT1M", "max_window: PT2S") + "    limits: { concurrency: 64 }\n"
}

/// A world in which several planners have planned everything, and were stopped.
async fn planned(planners: usize) -> World {
    plan(World::new(MockApi { latency: Duration::from_secs(1), ..MockApi::with(120) }), planners).await
}

async fn plan(world: World, planners: usize) -> World {
    world.apply(&fine()).await;
    world.ask("job").await;
    let mut engines = Vec::new();
    for at in 0..planners {
        engines.push(world.start_as(&format!("planner {at}"), &[EngineRole::Planner]).await);
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    for engine in engines {
        stop(engine).await;
    }
    world
}

// covers: ING-5.1-02, ING-0.3-02, ING-DOD-01
// covers: ING-0.2-03, ING-0.2-04, ING-1.3-02
#[tokio::test(start_paused = true)]
async fn planners_only_plan_and_executors_only_execute_however_many_there_are() {
    for planners in [1, 3] {
        let world = planned(planners).await;
        let tasks = world.store.progress("job").await.unwrap().unwrap().tasks_queued;
        assert_eq!(tasks, 60, "{planners} planners make each task once");
        assert_eq!(world.transport.requests.load(Relaxed), 0, "and send no request");

        world.ask("another").await;
        let executors =
            [world.start_as("a", &[EngineRole::Executor]).await, world.start_as("b", &[EngineRole::Executor]).await];
        let progress = world.finished("job").await;
        assert_eq!((progress.inserted, progress.tasks_succeeded, world.items()), (120, 60, 120));
        assert_eq!(world.cursor(), Some(END));
        let waiting = world.store.progress("another").await.unwrap().unwrap();
        assert!(!waiting.is_finished() && waiting.tasks() == 0, "executors plan nothing: {waiting:?}");
        for executor in executors {
            stop(executor).await;
        }
    }
}

/// Each executor runs two tasks, and the upstream responds in one second: sixty tasks are thirty rounds of one
/// executor.
// covers: ING-5.1-02, ING-DOD-21
#[tokio::test(start_paused = true)]
async fn twice_as_many_executors_take_half_the_time() {
    let mut took = Vec::new();
    for executors in [1, 2, 4] {
        let world = planned(1).await;
        let begun = tokio::time::Instant::now();
        let mut engines = Vec::new();
        for at in 0..executors {
            engines.push(world.start_as(&format!("executor {at}"), &[EngineRole::Executor]).await);
        }
        while !world.store.progress("job").await.unwrap().unwrap().is_finished() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        took.push(begun.elapsed().as_secs_f64());
        for engine in engines {
            stop(engine).await;
        }
    }
    for pair in took.windows(2) {
        let gain = pair[0] / pair[1];
        assert!((1.7..=2.3).contains(&gain), "{gain} times as fast: {took:?}");
    }
}

/// Tasks that end together share one request for the cursor.
// covers: ING-10.3-01, ING-5.4-12
#[tokio::test(start_paused = true)]
async fn tasks_that_end_at_once_move_their_cursor_together() {
    for executors in [1, 2] {
        let api = MockApi { latency: Duration::from_secs(1), ..MockApi::with(120) };
        let (world, switch) = World::new(api).with_switch();
        let world = plan(world, 1).await;
        switch.thoughtful.store(true, Relaxed);
        let before = switch.cursor_asked.load(Relaxed);
        let mut engines = Vec::new();
        for at in 0..executors {
            engines.push(world.start_with(&format!("executor {at}"), &[EngineRole::Executor], 30 / executors).await);
        }
        world.finished("job").await;
        assert_eq!((world.cursor(), world.items()), (Some(END), 120));
        let asked = switch.cursor_asked.load(Relaxed) - before;
        assert!((2..=30).contains(&asked), "{asked} questions for sixty tasks that end thirty at a time");
        for engine in engines {
            stop(engine).await;
        }
    }
}

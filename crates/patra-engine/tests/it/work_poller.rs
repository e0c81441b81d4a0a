//! Polling of an idle process, and its wake-ups. All times are virtual.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use patra_core::port::CommandsExt as _;
use patra_core::tx::ClaimTasks;
use patra_engine::EngineRole;
use tokio::time::Instant;

use crate::support::{MockApi, World, stop};

// covers: ING-5.2-05
#[tokio::test(start_paused = true)]
async fn an_idle_process_asks_one_thing_and_finds_what_others_have_made() {
    let (world, switch) = World::new(MockApi::with(95)).with_switch();
    let engine = world.start("one").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = || (switch.transactions.load(Relaxed), switch.looks.load(Relaxed));
    let (transactions, looks) = asked();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let (transactions, looks) = (asked().0 - transactions, asked().1 - looks);
    assert!(transactions < 10, "{transactions} transactions in vain");
    assert!((130..=170).contains(&looks), "{looks} looks in five minutes");
    // No nudge is sent.
    let made = Instant::now();
    world.fire("job").await;
    world.finished("job").await;
    assert!(made.elapsed() < Duration::from_secs(8), "{:?}", made.elapsed());
    stop(engine).await;
}

// covers: ING-9.1-03
#[tokio::test(start_paused = true)]
async fn the_work_of_the_dead_is_taken_up_when_its_lease_ends() {
    let lease = Duration::from_secs(25);
    let world = World::new(MockApi::with(95));
    world.fire("job").await;
    let planner = world.start_as("planner", &[EngineRole::Planner]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    stop(planner).await;
    let claim =
        ClaimTasks { owner: "dead".into(), limit: 9, lease, caps: Vec::new(), reverse_priority: false, only: None };
    assert_eq!(world.store.run(claim).await.unwrap().leases.len(), 2);
    let died = Instant::now();
    let engine = world.start_as("two", &[EngineRole::Executor]).await;
    assert_eq!(world.finished("job").await.inserted, 95);
    let late = died.elapsed().saturating_sub(lease);
    assert!(died.elapsed() > lease && late < Duration::from_secs(3), "{late:?} after the lease");
    stop(engine).await;
}

//! Transitions of the reference model that the contract suite cannot reach.

use std::sync::Arc;

use patra_core::Ts;
use patra_core::state::{Operation, PlanStatus, RunStatus, TaskStatus};
use patra_core::tx::{Done, Lease, LeaseRef, RunStarted, StartRun, Tx, TxError};

use patra_testkit::contract::make;
use patra_testkit::memory::MemStore;

const NOW: Ts = Ts::from_secs(1_000_000);

/// A store with one task, leased.
fn leased() -> (MemStore, Lease) {
    let mut store = MemStore::default();
    run(&mut store, make::fire("a", Operation::Harvest));
    let take = make::take(make::LONG);
    let Done::ClaimJob(Some(taken)) = run(&mut store, take) else { panic!("no trigger") };
    run(&mut store, Arc::new(make::plan(&taken, 0, &make::windows(0, 2))));
    let Done::ClaimTasks(mut claimed) = run(&mut store, make::claim(1, make::LONG)) else { panic!("no claim") };
    (store, claimed.leases.remove(0))
}

fn run(store: &mut MemStore, tx: impl Into<Tx>) -> Done {
    store.apply(NOW, &tx.into()).unwrap()
}

// Cancelling a plan cancels its tasks, so the contract suite cannot get here.
#[test]
fn task_of_a_cancelled_plan_is_cancelled_when_it_starts() {
    let (mut store, lease) = leased();
    let start: Tx = StartRun { lease: LeaseRef::from(&lease) }.into();
    store.set_plan(lease.lineage.plan, PlanStatus::Cancelled);
    assert_eq!(run(&mut store, start.clone()), Done::StartRun(RunStarted::Cancelled));
    assert_eq!((store.tasks[0].status, store.tasks[0].finished_at), (TaskStatus::Cancelled, Some(NOW)));
    assert!(store.runs.is_empty());
    assert_eq!(store.apply(NOW, &start), Err(TxError::Fenced));
}

#[test]
fn start_repeated_after_the_plan_was_cancelled_closes_its_run() {
    let (mut store, lease) = leased();
    let start: Tx = StartRun { lease: LeaseRef::from(&lease) }.into();
    run(&mut store, start.clone());
    store.set_plan(lease.lineage.plan, PlanStatus::Cancelled);
    assert_eq!(run(&mut store, start), Done::StartRun(RunStarted::Cancelled));
    assert_eq!(store.runs[0].status, RunStatus::Cancelled);
}

#[test]
#[should_panic(expected = "task 1 must not go from DISPATCHED to SUCCEEDED")]
fn illegal_transition_panics() {
    let (mut store, lease) = leased();
    store.set_task(lease.task, TaskStatus::Succeeded, None);
}

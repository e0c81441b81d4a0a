use super::*;
use crate::id::{CursorId, InstanceId, PlanId, SliceId};
use crate::state::Operation;
use crate::tx::Lineage;
use crate::window::Window;

fn at(secs: i64) -> Ts {
    Ts::from_secs(secs)
}

fn lease(task: i64, fence: i64) -> Lease {
    Lease {
        task: TaskId(task),
        fence: Fence(fence),
        until: at(0),
        attempts: 1,
        lineage: Lineage { instance: InstanceId(1), plan: PlanId(1), slice: SliceId(task) },
        cursor: CursorId(1),
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        operation: Operation::Harvest,
        expr_hash: String::new(),
        window: Window { from: at(0), to: at(1) },
        params: "{}".into(),
        credential: None,
    }
}

fn executor() -> Executor {
    Executor::new(Options { capacity: 2, ..Options::new("me") }, Rng::new(1), at(0))
}

fn polled(executor: &mut Executor, now: Ts) -> Vec<Want> {
    let mut wants = Vec::new();
    executor.poll(now, &mut wants);
    wants
}

/// An executor that holds two tasks, claimed at second 0.
fn holding_two() -> Executor {
    let mut executor = executor();
    polled(&mut executor, at(0));
    let mut wants = Vec::new();
    executor.on_claimed(at(0), at(0), Ok(Claimed { leases: vec![lease(1, 4), lease(2, 9)], now: at(0) }), &mut wants);
    assert!(matches!(&wants[..], [Want::Start(_), Want::Start(_)]));
    executor
}

// covers: ING-5.2-05
#[test]
fn it_claims_for_its_free_capacity_only_and_waits_when_there_is_nothing() {
    let mut executor = executor();
    assert!(matches!(&polled(&mut executor, at(0))[..], [Want::Claim(claim)] if claim.limit == 2));
    assert!(polled(&mut executor, at(0)).is_empty(), "one claim at a time");
    executor.on_claimed(at(0), at(0), Ok(Claimed { leases: vec![], now: at(0) }), &mut Vec::new());
    assert!(polled(&mut executor, at(0)).is_empty());
    assert!(executor.wake_at() > at(0));
    executor.nudge(at(0));
    assert!(matches!(&polled(&mut executor, at(0))[..], [Want::Claim(_)]));

    let mut full = holding_two();
    assert!(polled(&mut full, at(1)).is_empty());
    full.on_ended(at(1), LeaseRef { task: TaskId(1), fence: Fence(4) });
    assert!(matches!(&polled(&mut full, at(1))[..], [Want::Claim(claim)] if claim.limit == 1));
}

// covers: ING-13.3-06
#[test]
fn leases_are_renewed_after_a_third_of_their_life_and_lost_ones_stop() {
    let mut executor = holding_two();
    let Some(Want::Renew(renew)) = polled(&mut executor, at(20)).pop() else { panic!("no renewal") };
    assert_eq!(renew.leases.len(), 2);
    let kept = LeaseRef { task: TaskId(1), fence: Fence(4) };
    let mut wants = Vec::new();
    executor.on_renewed(at(20), at(20), &renew.leases, Ok(Renewed { held: vec![kept], now: at(20) }), &mut wants);
    assert!(matches!(&wants[..], [Want::Stop(lost)] if lost.task == TaskId(2)));
    assert_eq!(executor.held(), 1);
}

// covers: ING-11.9-03
#[test]
fn a_lease_that_ran_out_while_the_store_was_away_is_dropped_by_its_own_clock() {
    let mut executor = holding_two();
    let Some(Want::Renew(renew)) = polled(&mut executor, at(20)).pop() else { panic!("no renewal") };
    let away = Err(TxError::Unavailable("gone".into()));
    executor.on_renewed(at(20), at(25), &renew.leases, away, &mut Vec::new());
    assert!(executor.wake_at() <= at(31), "asks again soon");
    let wants = polled(&mut executor, at(60));
    assert_eq!(wants.iter().filter(|want| matches!(want, Want::Stop(_))).count(), 2);
    assert_eq!(executor.held(), 0);
}

#[test]
fn a_draining_executor_claims_nothing_but_keeps_its_leases() {
    let mut executor = holding_two();
    executor.drain();
    executor.on_ended(at(1), LeaseRef { task: TaskId(1), fence: Fence(4) });
    assert!(polled(&mut executor, at(1)).is_empty());
    assert!(matches!(&polled(&mut executor, at(20))[..], [Want::Renew(_)]));
}

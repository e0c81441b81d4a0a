use super::*;
use crate::id::{CursorId, JobId, PlanId, SliceId};
use crate::state::Operation;
use crate::tx::TaskLineage;
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
        suspect: false,
        lineage: TaskLineage { job: JobId(1), plan: PlanId(1), slice: SliceId(task) },
        cursor: CursorId(1),
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        operation: Operation::Harvest,
        expr_hash: String::new(),
        window: Some(Window { from: at(0), to: at(1) }),
        params: "{}".into(),
        credential: None,
        source: None,
        priority: 0,
        scheduled_at: at(0),
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
    executor.on_claimed(
        at(0),
        at(0),
        Ok(ClaimedTasks { leases: vec![lease(1, 4), lease(2, 9)], now: at(0) }),
        &mut wants,
    );
    assert!(matches!(&wants[..], [Want::Start(_), Want::Start(_)]));
    executor
}

// covers: ING-5.2-05
#[test]
fn executor_claims_for_its_free_capacity_and_waits_when_idle() {
    let mut executor = executor();
    assert!(matches!(&polled(&mut executor, at(0))[..], [Want::Claim(claim)] if claim.limit == 2));
    assert!(polled(&mut executor, at(0)).is_empty(), "one claim at a time");
    executor.on_claimed(at(0), at(0), Ok(ClaimedTasks { leases: vec![], now: at(0) }), &mut Vec::new());
    assert!(polled(&mut executor, at(0)).is_empty());
    assert!(executor.wake_at() > at(0));
    executor.nudge(at(0));
    assert!(matches!(&polled(&mut executor, at(0))[..], [Want::Claim(_)]));
    // Work that was announced meanwhile may have been added after the claim looked.
    executor.nudge(at(0));
    executor.on_claimed(at(0), at(0), Ok(ClaimedTasks { leases: vec![], now: at(0) }), &mut Vec::new());
    assert!(matches!(&polled(&mut executor, at(0))[..], [Want::Claim(_)]));
    executor.on_claimed(at(0), at(0), Ok(ClaimedTasks { leases: vec![], now: at(0) }), &mut Vec::new());
    assert!(polled(&mut executor, at(0)).is_empty());

    let mut full = holding_two();
    assert!(polled(&mut full, at(1)).is_empty());
    full.on_ended(at(1), LeaseRef { task: TaskId(1), fence: Fence(4) }, &mut Vec::new());
    assert!(matches!(&polled(&mut full, at(1))[..], [Want::Claim(claim)] if claim.limit == 1));
}

// covers: ING-13.3-06, ING-5.6-02
#[test]
fn leases_are_renewed_after_a_third_of_their_life_and_lost_ones_stop() {
    let mut executor = holding_two();
    let Some(Want::Renew(renew)) = polled(&mut executor, at(20)).pop() else { panic!("no renewal") };
    assert_eq!(renew.leases.len(), 2);
    let kept = LeaseRef { task: TaskId(1), fence: Fence(4) };
    let mut wants = Vec::new();
    executor.on_renewed(
        at(20),
        at(20),
        &renew.leases,
        Ok(Renewed { held: vec![kept], paused: vec![], now: at(20) }),
        &mut wants,
    );
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
    assert!(executor.wake_at() <= at(31), "retries soon");
    let wants = polled(&mut executor, at(60));
    assert_eq!(wants.iter().filter(|want| matches!(want, Want::Stop(_))).count(), 2);
    assert_eq!(executor.held(), 0);
}

#[test]
fn a_draining_executor_claims_nothing_but_keeps_its_leases() {
    let mut executor = holding_two();
    executor.drain();
    executor.on_ended(at(1), LeaseRef { task: TaskId(1), fence: Fence(4) }, &mut Vec::new());
    assert!(polled(&mut executor, at(1)).is_empty());
    assert!(matches!(&polled(&mut executor, at(20))[..], [Want::Renew(_)]));
}

/// Sends a claim that returns this many leases, each ended at once; whether its priorities were reversed.
fn claim(executor: &mut Executor, leases: i64) -> bool {
    executor.nudge(at(0));
    let wants = polled(executor, at(0));
    let [Want::Claim(claim)] = &wants[..] else { panic!("{wants:?}") };
    let leased: Vec<_> = (1..=leases).map(|task| lease(task, 1)).collect();
    executor.on_claimed(at(0), at(0), Ok(ClaimedTasks { leases: leased, now: at(0) }), &mut Vec::new());
    for task in 1..=leases {
        executor.on_ended(at(0), LeaseRef { task: TaskId(task), fence: Fence(1) }, &mut Vec::new());
    }
    claim.reverse_priority
}

#[test]
fn every_twentieth_claim_that_leases_something_begins_with_the_least_urgent() {
    let mut executor = executor();
    for round in 0..3 {
        for turn in 0..19 {
            assert!(!claim(&mut executor, 0), "a claim that finds nothing is no turn");
            assert!(!claim(&mut executor, 1), "round {round}, turn {turn}");
        }
        assert!(claim(&mut executor, 0) && claim(&mut executor, 2), "it stays its turn until something is leased");
    }
}

// covers: ING-12.2-02
#[test]
fn partitions_in_trouble_are_claimed_for_with_their_caps_until_further_notice() {
    let mut executor = executor();
    let (provenance_code, endpoint_name) = ("p".to_owned(), "e".to_owned());
    let slow = PartitionKey { provenance_code, endpoint_name, operation: Operation::Harvest };
    let mut caps = |caps: Vec<(PartitionKey, u32)>| {
        executor.set_caps(caps);
        executor.nudge(at(0));
        let wants = polled(&mut executor, at(0));
        executor.on_claimed(at(0), at(0), Ok(ClaimedTasks { leases: vec![], now: at(0) }), &mut Vec::new());
        let [Want::Claim(claim)] = &wants[..] else { panic!("{wants:?}") };
        claim.caps.clone()
    };
    assert_eq!(caps(vec![(slow.clone(), 1)]), [(slow, 1)]);
    assert_eq!(caps(Vec::new()), []);
}

// covers: ING-5.9-01
#[test]
fn paused_work_is_returned_and_stays_leased_until_then() {
    let mut executor = holding_two();
    let Some(Want::Renew(renew)) = polled(&mut executor, at(20)).pop() else { panic!("no renewal") };
    let (one, two) = (renew.leases[0], renew.leases[1]);
    let renewed = Renewed { held: vec![one, two], paused: vec![two], now: at(20) };
    let mut wants = Vec::new();
    executor.on_renewed(at(20), at(20), &renew.leases, Ok(renewed), &mut wants);
    assert!(matches!(&wants[..], [Want::GiveBack(lease)] if *lease == two), "{wants:?}");
    assert_eq!(executor.held(), 2);
    assert!(
        polled(&mut executor, at(60)).iter().all(|want| !matches!(want, Want::Stop(_))),
        "its run may end in peace"
    );
    executor.on_ended(at(61), two, &mut Vec::new());
    assert_eq!(executor.held(), 1);
    // A lost lease is not returned.
    let renewed = Renewed { held: vec![], paused: vec![one], now: at(62) };
    let mut wants = Vec::new();
    executor.on_renewed(at(62), at(62), &[one], Ok(renewed), &mut wants);
    assert!(matches!(&wants[..], [Want::Stop(lease)] if *lease == one), "{wants:?}");
}

// covers: ING-5.2-08
#[test]
fn executor_under_pressure_uses_a_share_of_its_capacity() {
    let claimed = |share| {
        let mut executor = Executor::new(Options { capacity: 8, ..Options::new("me") }, Rng::new(1), at(0));
        executor.set_share(share);
        match &polled(&mut executor, at(0))[..] {
            [Want::Claim(claim)] => claim.limit,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([100, 70, 25, 1, 0].map(claimed), [8, 5, 2, 1, 1]);

    let mut executor = holding_two();
    executor.set_share(50);
    assert!(polled(&mut executor, at(1)).is_empty(), "it keeps its tasks");
    executor.on_ended(at(1), LeaseRef { task: TaskId(1), fence: Fence(4) }, &mut Vec::new());
    assert!(polled(&mut executor, at(1)).is_empty() && executor.wake_at() > at(1), "one is its share now");
    executor.set_share(100);
    assert!(matches!(&polled(&mut executor, at(1))[..], [Want::Claim(claim)] if claim.limit == 1));
}

fn suspect(task: i64, attempts: u32) -> Lease {
    Lease { suspect: true, attempts, ..lease(task, 1) }
}

fn of(task: i64) -> LeaseRef {
    LeaseRef { task: TaskId(task), fence: Fence(1) }
}

fn started(wants: &[Want]) -> Vec<i64> {
    let task = |want: &Want| if let Want::Start(lease) = want { Some(lease.task.0) } else { None };
    wants.iter().filter_map(task).collect()
}

/// An executor that has just claimed these tasks, and what it starts.
fn claimed(leases: Vec<Lease>) -> (Executor, Vec<i64>) {
    let mut executor = Executor::new(Options { capacity: 8, ..Options::new("me") }, Rng::new(1), at(0));
    polled(&mut executor, at(0));
    let mut wants = Vec::new();
    executor.on_claimed(at(0), at(0), Ok(ClaimedTasks { leases, now: at(0) }), &mut wants);
    (executor, started(&wants))
}

#[test]
fn suspects_start_one_after_the_other_alongside_the_rest() {
    let (mut executor, first) = claimed(vec![suspect(1, 1), lease(2, 1), suspect(3, 4), suspect(4, 2)]);
    assert_eq!(first, [2, 1]);
    let mut wants = Vec::new();
    executor.on_progress(at(1), of(2), &mut wants);
    assert_eq!(started(&wants), [0; 0], "an innocent task says nothing about the suspect");
    executor.on_progress(at(1), of(1), &mut wants);
    assert_eq!(started(&wants), [3], "cleared by its first batch");
    executor.on_ended(at(2), of(3), &mut wants);
    assert_eq!(started(&wants), [3, 4]);
    assert_eq!(executor.held(), 3);
}

#[test]
fn suspect_on_its_last_attempt_runs_alone() {
    let (mut executor, first) = claimed(vec![suspect(1, 5), lease(2, 1), suspect(3, 1)]);
    assert_eq!(first, [2, 3]);
    let mut wants = Vec::new();
    executor.on_progress(at(1), of(3), &mut wants);
    let [Want::GiveBack(one), Want::GiveBack(two)] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!((one.task.0, two.task.0), (2, 3));
    wants.clear();
    assert!(!executor.is_to_claim(at(5)), "nothing new while the others end");
    executor.on_ended(at(5), of(2), &mut wants);
    assert!(wants.is_empty(), "{wants:?}");
    executor.on_ended(at(5), of(3), &mut wants);
    assert_eq!(started(&wants), [1]);
    assert!(!executor.is_to_claim(at(6)));
    wants.clear();
    executor.on_progress(at(7), of(1), &mut wants);
    assert!(executor.is_to_claim(at(7)), "it is none any more");
}

#[test]
fn suspect_that_waits_keeps_its_lease_or_is_forgotten() {
    let (mut executor, first) = claimed(vec![suspect(1, 1), suspect(2, 1)]);
    assert_eq!(first, [1]);
    let Some(Want::Renew(renew)) = polled(&mut executor, at(20)).pop() else { panic!("no renewal") };
    assert_eq!(renew.leases, [of(1), of(2)]);
    let (mut wants, held) = (Vec::new(), vec![of(1)]);
    executor.on_renewed(at(20), at(20), &renew.leases, Ok(Renewed { held, paused: vec![], now: at(20) }), &mut wants);
    assert!(wants.is_empty(), "its run has not begun: {wants:?}");
    executor.on_ended(at(21), of(1), &mut wants);
    assert!(wants.is_empty(), "{wants:?}");
}

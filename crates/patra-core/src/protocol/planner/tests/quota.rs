//! Plans are made for what a quota has left.

use super::*;
use crate::gate::{GateLimits, GateReply, GateState, Quotas};
use crate::tx::RequestPermits;

const LIMITS: GateLimits = GateLimits {
    rate: crate::gate::Rate { per_sec: 10.0, burst: 10.0 },
    quotas: Quotas { hourly: Some(100), daily: None },
    warmup: Duration::ZERO,
    demote: 2.0,
};

/// The gate's reply when this much of the hundred is used up.
fn gate_reply(permits: &RequestPermits, used: u32) -> GateReply {
    let mut state = GateState::new(LIMITS, DB_NOW);
    let use_up = crate::gate::GateRequest {
        now: used,
        member: "m".into(),
        percent: 100,
        first: true,
        deadline: Duration::from_secs(60),
        ..Default::default()
    };
    let mut left = used;
    let mut now = DB_NOW;
    while left > 0 {
        let taken = state.request(LIMITS, &crate::gate::GateRequest { now: left, ..use_up.clone() }, now).slots;
        left -= taken.iter().map(|slot| slot.permits).sum::<u32>();
        now = now + Duration::from_secs(1);
    }
    state.request(permits.limits, &permits.request, now)
}

/// The plan of three windows that take this many requests each.
fn planned_with(operation: Operation, used: u32, queued: u32, records: u64) -> Result<Arc<SavePlan>, JobSettlement> {
    let history = History { items: records, span: Duration::from_secs(300) };
    let coverage = Coverage { queued, history, ..fresh() };
    planned_over(operation, used, &coverage)
}

fn planned_over(operation: Operation, used: u32, coverage: &Coverage) -> Result<Arc<SavePlan>, JobSettlement> {
    let claimed = ClaimedJob { operation, ..claimed() };
    let mut draft = draft(&claimed);
    draft.context.operation = operation;
    draft.per_request = 10;
    draft.quota = Some(PlanQuota { key: "p/e".into(), limits: LIMITS });
    let mut driver = Driver::with(Options::new("me"), claimed, draft);
    let wants = driver.covered(coverage);
    let [Want::Tx(Tx::RequestPermits(permits))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(permits.request, crate::gate::GateRequest::default(), "it only looks");
    outcome(&driver.ok(Done::RequestPermits(gate_reply(permits, used))))
}

// covers: ING-4.10-03, ING-4.10-43, ING-6.1-05, ING-4.10-20, ING-4.10-21, ING-4.10-28, ING-4.12-01, ING-4.12-04
// covers: ING-12.4-03, ING-0.2-08, ING-2.4-04, ING-1.3-05
#[test]
fn a_plan_is_as_long_as_its_quota_lasts_and_goes_on_later() {
    let whole = planned_with(Operation::Harvest, 0, 0, 300).expect("a plan");
    assert_eq!((whole.slices.len(), whole.complete), (3, true), "three windows of thirty requests");
    let budget: serde_json::Value = serde_json::from_str(&whole.slices[0].spec).unwrap();
    assert_eq!(budget["budget"]["expectedRequests"], 30);
    assert_eq!(budget["budget"]["budgetHint"]["quotaRemaining"], 90);

    let part = planned_with(Operation::Harvest, 40, 0, 300).expect("a part");
    assert_eq!((part.slices.len(), part.complete), (1, false), "fifty requests are enough for one window");

    let little = planned_with(Operation::Harvest, 80, 0, 300).expect("a part");
    assert_eq!(little.slices.len(), 1, "it goes as far as it can");
    let none = planned_with(Operation::Harvest, 90, 0, 300);
    assert!(matches!(none, Err(JobSettlement::Later { .. })), "{none:?}");

    let Err(JobSettlement::Later { delay }) = none else { panic!("nothing is left") };
    assert!(delay >= Duration::from_secs(30), "a quota does not come back within a second: {delay:?}");
    assert!(delay <= Duration::from_secs(300), "a larger one may be declared: {delay:?}");

    let queued = planned_with(Operation::Harvest, 0, 2, 300).expect("a part");
    assert_eq!(queued.slices.len(), 1, "queued tasks will use their part of the quota");
}

// covers: ING-4.10-25, ING-4.10-26, ING-4.12-03, ING-4.15-04
#[test]
fn less_important_operations_leave_a_larger_quota_reserve() {
    let slices = |operation| planned_with(operation, 45, 0, 200).map_or(0, |save| save.slices.len());
    assert_eq!(slices(Operation::Harvest), 2, "45 left after the margin, twenty for each window");
    let backfill = {
        let view =
            gate_reply(&RequestPermits { key: "k".into(), limits: LIMITS, request: Default::default() }, 45).view;
        [Operation::Harvest, Operation::Update, Operation::Backfill]
            .map(|operation| PlanQuota::budget(&view, operation))
    };
    assert_eq!(backfill, [Some(45), Some(35), Some(25)]);
}

#[test]
fn plan_without_history_books_a_prior_and_waits_for_its_first_slices() {
    let planned = |used, coverage: Coverage| planned_over(Operation::Harvest, used, &coverage);
    let part = planned(70, fresh()).expect("a part");
    assert_eq!((part.slices.len(), part.complete), (2, false), "twenty are left, and ten for each window is a guess");
    let spec: serde_json::Value = serde_json::from_str(&part.slices[0].spec).unwrap();
    assert_eq!(spec["budget"]["expectedRequests"], 10);
    let one = |covered, queued| Coverage { covered: vec![covered; 4], queued, ..fresh() };
    let elsewhere = Window { from: Ts::from_secs(1), to: Ts::from_secs(2) };
    let more = planned(0, one(elsewhere, 3));
    assert!(matches!(more, Err(JobSettlement::Later { .. })), "four slices are enough to learn from: {more:?}");
    let more = planned(0, one(elsewhere, 0)).expect("a part");
    assert_eq!(more.slices.len(), 1, "nothing waits");
}

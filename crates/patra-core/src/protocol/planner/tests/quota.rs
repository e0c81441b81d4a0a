//! Plans are made for what a quota has left.

use super::*;
use crate::gate::{Answer, Limits, Quotas, State};
use crate::tx::AskGate;

const LIMITS: Limits = Limits {
    rate: crate::gate::Rate { per_sec: 10.0, burst: 10.0 },
    quotas: Quotas { hourly: Some(100), daily: None },
    warmup: Duration::ZERO,
    demote: 2.0,
};

/// What the gate answers when so much of the hundred is used up.
fn look(ask: &AskGate, used: u32) -> Answer {
    let mut state = State::new(LIMITS, DB_NOW);
    let use_up = crate::gate::Ask {
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
        let taken = state.ask(LIMITS, &crate::gate::Ask { now: left, ..use_up.clone() }, now).slots;
        left -= taken.iter().map(|slot| slot.permits).sum::<u32>();
        now = now + Duration::from_secs(1);
    }
    state.ask(ask.limits, &ask.ask, now)
}

/// Three windows, of which each takes so many requests, as a plan sees them.
fn planned_with(operation: Operation, used: u32, queued: u32, records: u64) -> Result<Arc<SavePlan>, Settlement> {
    let trigger = TriggerTaken { operation, ..trigger() };
    let mut draft = draft(&trigger);
    draft.shape.operation = operation;
    draft.per_request = 10;
    draft.quota = Some(Quota { key: "p/e".into(), limits: LIMITS });
    let mut driver = Driver::with(Options::new("me"), trigger, draft);
    let history = History { items: records, span: Duration::from_secs(300) };
    let wants = driver.covered(&Coverage { queued, history, ..fresh() });
    let [Want::Tx(Tx::AskGate(ask))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(ask.ask, crate::gate::Ask::default(), "it only looks");
    outcome(&driver.ok(Done::AskGate(look(ask, used))))
}

// covers: ING-4.10-03, ING-4.10-43, ING-6.1-05, ING-4.10-20, ING-4.10-21, ING-4.10-28, ING-4.12-01, ING-4.12-04, ING-12.4-03
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
    assert!(matches!(none, Err(Settlement::Later { .. })), "{none:?}");

    let Err(Settlement::Later { delay }) = none else { panic!("nothing is left") };
    assert!(delay >= Duration::from_secs(30), "a quota does not come back within a second: {delay:?}");
    assert!(delay <= Duration::from_secs(300), "a larger one may be declared: {delay:?}");

    let queued = planned_with(Operation::Harvest, 0, 2, 300).expect("a part");
    assert_eq!(queued.slices.len(), 1, "what waits will use its part of the quota");
}

// covers: ING-4.10-25, ING-4.10-26, ING-4.12-03
#[test]
fn those_who_come_later_leave_more_for_those_who_come_first() {
    let slices = |operation| planned_with(operation, 45, 0, 200).map_or(0, |save| save.slices.len());
    assert_eq!(slices(Operation::Harvest), 2, "45 left after the margin, twenty for each window");
    let backfill = {
        let view = look(&AskGate { key: "k".into(), limits: LIMITS, ask: Default::default() }, 45).view;
        [Operation::Harvest, Operation::Update, Operation::Backfill].map(|operation| Quota::budget(&view, operation))
    };
    assert_eq!(backfill, [Some(45), Some(35), Some(25)]);
}

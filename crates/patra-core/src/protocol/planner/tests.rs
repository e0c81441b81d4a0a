//! A planner and a clock, driven by hand.

mod backfill;
mod fan;
mod flow;
mod quota;
mod remarks;
mod update;

use serde_json::json;

use super::*;
use crate::cursor::{Mark, Name, Scope};
use crate::id::{CredentialId, CursorId, Fence, InstanceId, PlanId};
use crate::paging::Position;
use crate::params::Params;
use crate::state::{Operation, TriggerType};
use crate::tx::{
    CursorMoved, FiredDue, History, NewPlan, OpenPlan, PlanSaved, PlanTarget, Rest, SavePlan, TriggerSettled,
};
use crate::window::{Cut, Window};

/// The database's clock; the planner's own shows something else.
const DB_NOW: Ts = Ts::from_micros(1_000_700_000);
const HERE: Ts = Ts::from_secs(5_000);

fn at(secs: i64) -> Ts {
    Ts::from_secs(secs)
}

fn w(from: i64, to: i64) -> Window {
    Window { from: at(from), to: at(to) }
}

fn trigger() -> TriggerTaken {
    TriggerTaken {
        instance: InstanceId(1),
        fence: Fence(2),
        public_id: "t-1".into(),
        trigger_type: TriggerType::Manual,
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        operation: Operation::Harvest,
        reason: None,
        activity: None,
        window_from: None,
        window_to: None,
        priority: 0,
        params: "{}".into(),
        overrides: "{}".into(),
        place: None,
        plan: None,
        now: DB_NOW,
    }
}

/// Slices of 300 s; the barrier is 60 s behind: 940 at [`DB_NOW`].
fn draft(trigger: &TriggerTaken) -> Draft {
    Draft {
        snapshot_body: "{}".into(),
        cursor: Name {
            project_key: "default".into(),
            provenance_code: "p".into(),
            endpoint_name: "e".into(),
            operation: Operation::Harvest,
            cursor_key: "updated_at".into(),
            scope: Scope::Expr,
            namespace_key: "n".into(),
        },
        span: Span::Time {
            cut: Cut { max_width: Duration::from_secs(300), align: None },
            initial: at(100),
            narrowest: Duration::from_secs(10),
            depth: 1_000,
        },
        c_max: 4,
        inventory: None,
        quota: None,
        qps: 5.0,
        per_request: 0,
        shape: Shape {
            project_key: "default".into(),
            provenance_code: "p".into(),
            endpoint_name: "e".into(),
            operation: Operation::Harvest,
            watermark_key: "updated_at".into(),
            snapshot_hash: "s".into(),
            first: Position::Token(None),
            params: Params::from([("user".into(), "7".into()), ("lang".into(), "en".into())]),
            partition: Params::from([("user".into(), "7".into())]),
            safety_lag: Duration::from_secs(60),
            phase: Phase::default(),
            budget: Budget::default(),
            priority: 100,
            trigger: trigger_component(trigger),
        },
        credential: Some(CredentialId(3)),
        labels: json!({ "hash": "s" }),
        degradations: vec!["noCount"],
        warnings: vec!["no total".into()],
    }
}

/// A namespace that was never planned.
fn fresh() -> Coverage {
    Coverage {
        cursor: None,
        origin: None,
        value: None,
        epoch: 0,
        covered: Vec::new(),
        next_ordinal: 0,
        queued: 0,
        history: History::default(),
        harvested: None,
        now: DB_NOW,
    }
}

/// One that begins at 100 and is done up to `value`.
fn known(value: Option<i64>, covered: Vec<Window>) -> Coverage {
    let cursor = Some(CursorId(4));
    Coverage { cursor, origin: Some(at(100)), value: value.map(mark), epoch: 3, covered, ..fresh() }
}

fn mark(secs: i64) -> Mark {
    Mark::At(at(secs))
}

struct Driver(Planner);

impl Driver {
    /// A planner that has the trigger compiled and asks what is covered.
    fn reading(options: Options, trigger: TriggerTaken) -> Driver {
        let draft = draft(&trigger);
        Driver::with(options, trigger, draft)
    }

    /// The same, with what it was compiled to.
    fn with(options: Options, trigger: TriggerTaken, draft: Draft) -> Driver {
        let mut driver = Driver(Planner::new(options, Rng::new(1), HERE));
        let mut wants = Vec::new();
        driver.0.poll(HERE, &mut wants);
        assert!(matches!(&wants[..], [Want::Tx(Tx::FireDue(_))]));
        let wants = driver.ok(Done::FireDue(FiredDue { fired: 0, next_due: None, now: DB_NOW }));
        assert!(matches!(&wants[..], [Want::Tx(Tx::TakeTrigger(_))]));
        let wants = driver.ok(Done::TakeTrigger(Some(Box::new(trigger))));
        assert!(matches!(&wants[..], [Want::Compile(_)]));
        let wants = driver.on(Got::Compiled(Ok(Compiled::Plan(Box::new(draft)))));
        assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]));
        driver
    }

    fn on(&mut self, got: Got) -> Vec<Want> {
        let mut wants = Vec::new();
        self.0.on(HERE, got, &mut wants);
        wants
    }

    fn ok(&mut self, done: Done) -> Vec<Want> {
        self.on(Got::Tx(Ok(done)))
    }

    fn err(&mut self, error: TxError) -> Vec<Want> {
        self.on(Got::Tx(Err(error)))
    }

    /// Answers with this coverage, and again once the cursor is settled.
    fn covered(&mut self, coverage: &Coverage) -> Vec<Want> {
        let wants = self.ok(Done::ReadCoverage(coverage.clone()));
        if coverage.cursor.is_none() {
            return wants;
        }
        assert!(matches!(&wants[..], [Want::Tx(Tx::RecordAdvance(_))]), "{wants:?}");
        let (value, target) = (coverage.value.clone(), coverage.value.clone());
        let direction = crate::state::Direction::Forward;
        let settled = crate::tx::Advance { direction, value, target, by: None, version: 1 };
        let wants = self.ok(Done::RecordAdvance(settled));
        assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]), "{wants:?}");
        self.ok(Done::ReadCoverage(coverage.clone()))
    }
}

/// What a planner makes of a trigger in a namespace of this state.
fn planned(options: Options, trigger: TriggerTaken, coverage: &Coverage) -> Result<Arc<SavePlan>, Settlement> {
    outcome(&Driver::reading(options, trigger).covered(coverage))
}

/// What a planner makes of a draft in a namespace of this state.
fn drafted(trigger: TriggerTaken, draft: Draft, coverage: &Coverage) -> Result<Arc<SavePlan>, Settlement> {
    outcome(&Driver::with(Options::new("me"), trigger, draft).covered(coverage))
}

fn outcome(wants: &[Want]) -> Result<Arc<SavePlan>, Settlement> {
    match wants {
        [Want::Tx(Tx::SavePlan(save))] => Ok(Arc::clone(save)),
        [Want::Tx(Tx::SettleTrigger(settle))] => {
            assert_eq!((settle.instance, settle.fence), (InstanceId(1), Fence(2)));
            Err(settle.settlement.clone())
        }
        other => panic!("neither a plan nor a settlement: {other:?}"),
    }
}

fn plan(trigger: TriggerTaken, coverage: &Coverage) -> Arc<SavePlan> {
    planned(Options::new("me"), trigger, coverage).expect("a plan")
}

fn windows(save: &SavePlan) -> Vec<Window> {
    save.slices.iter().map(|slice| slice.window.expect("a window")).collect()
}

fn new_plan(save: &SavePlan) -> &NewPlan {
    match &save.target {
        PlanTarget::New(plan) => plan,
        PlanTarget::Existing(plan) => panic!("expected a new plan, got {plan}"),
    }
}

fn remarks(save: &SavePlan) -> serde_json::Value {
    serde_json::from_str(&new_plan(save).remarks).unwrap()
}

fn keys(save: &SavePlan) -> Vec<&str> {
    save.slices.iter().map(|slice| slice.task_key.as_str()).collect()
}

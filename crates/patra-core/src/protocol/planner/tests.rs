//! A planner and a clock, driven by hand.

mod backfill;
mod fan;
mod flow;
mod quota;
mod remarks;
mod update;
mod whole;

use serde_json::json;

use super::*;
use crate::cursor::{CursorName, CursorScope, CursorValue};
use crate::id::{CredentialId, CursorId, Fence, JobId, PlanId};
use crate::paging::Position;
use crate::params::Params;
use crate::state::{Operation, TriggerType};
use crate::tx::{
    CursorMoved, FiredDue, History, JobSettled, NewPlan, OpenPlan, PlanSaved, PlanTarget, RemainingPlan, SavePlan,
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

fn claimed() -> ClaimedJob {
    ClaimedJob {
        job: JobId(1),
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
        position: None,
        plan: None,
        now: DB_NOW,
    }
}

/// Slices of 300 s; the barrier is 60 s behind: 940 at [`DB_NOW`].
fn draft(claimed: &ClaimedJob) -> PlanDraft {
    PlanDraft {
        snapshot_body: "{}".into(),
        cursor: CursorName {
            project_key: "default".into(),
            provenance_code: "p".into(),
            endpoint_name: "e".into(),
            operation: Operation::Harvest,
            cursor_key: "updated_at".into(),
            scope: CursorScope::Expr,
            namespace_key: "n".into(),
        },
        span: PlanSpan::Time {
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
        context: SliceContext {
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
            phase: PhaseSpec::default(),
            budget: SliceBudget::default(),
            priority: 100,
            job: job_component(claimed),
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

/// A namespace that begins at 100 and is done up to `value`.
fn known(value: Option<i64>, covered: Vec<Window>) -> Coverage {
    let cursor = Some(CursorId(4));
    Coverage { cursor, origin: Some(at(100)), value: value.map(mark), epoch: 3, covered, ..fresh() }
}

fn mark(secs: i64) -> CursorValue {
    CursorValue::At(at(secs))
}

struct Driver(Planner);

impl Driver {
    /// A planner that has the job compiled and reads the coverage.
    fn reading(options: Options, claimed: ClaimedJob) -> Driver {
        let draft = draft(&claimed);
        Driver::with(options, claimed, draft)
    }

    /// The same, with this draft.
    fn with(options: Options, claimed: ClaimedJob, draft: PlanDraft) -> Driver {
        let mut driver = Driver(Planner::new(options, Rng::new(1), HERE));
        let mut wants = Vec::new();
        driver.0.poll(HERE, &mut wants);
        assert!(matches!(&wants[..], [Want::Tx(Tx::FireDue(_))]));
        let wants = driver.ok(Done::FireDue(FiredDue { fired: 0, next_due: None, now: DB_NOW }));
        assert!(matches!(&wants[..], [Want::Tx(Tx::ClaimJob(_))]));
        let wants = driver.ok(Done::ClaimJob(Some(Box::new(claimed))));
        assert!(matches!(&wants[..], [Want::Compile(_)]));
        let wants = driver.on(PlannerInput::Compiled(Ok(CompiledJob::Plan(Box::new(draft)))));
        assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]));
        driver
    }

    fn on(&mut self, got: PlannerInput) -> Vec<Want> {
        let mut wants = Vec::new();
        self.0.on(HERE, got, &mut wants);
        wants
    }

    fn ok(&mut self, done: Done) -> Vec<Want> {
        self.on(PlannerInput::Tx(Ok(done)))
    }

    fn err(&mut self, error: TxError) -> Vec<Want> {
        self.on(PlannerInput::Tx(Err(error)))
    }

    /// Returns this coverage, and again once the cursor is settled.
    fn covered(&mut self, coverage: &Coverage) -> Vec<Want> {
        let wants = self.ok(Done::ReadCoverage(coverage.clone()));
        if coverage.cursor.is_none() {
            return wants;
        }
        assert!(matches!(&wants[..], [Want::Tx(Tx::RecordAdvance(_))]), "{wants:?}");
        let (value, target) = (coverage.value.clone(), coverage.value.clone());
        let direction = crate::state::Direction::Forward;
        let settled = crate::tx::AdvanceRecorded { direction, value, target, by: None, version: 1 };
        let wants = self.ok(Done::RecordAdvance(settled));
        assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]), "{wants:?}");
        self.ok(Done::ReadCoverage(coverage.clone()))
    }
}

/// The plan of a job in a namespace of this state.
fn planned(options: Options, claimed: ClaimedJob, coverage: &Coverage) -> Result<Arc<SavePlan>, JobSettlement> {
    outcome(&Driver::reading(options, claimed).covered(coverage))
}

/// The plan of a draft in a namespace of this state.
fn drafted(claimed: ClaimedJob, draft: PlanDraft, coverage: &Coverage) -> Result<Arc<SavePlan>, JobSettlement> {
    outcome(&Driver::with(Options::new("me"), claimed, draft).covered(coverage))
}

fn outcome(wants: &[Want]) -> Result<Arc<SavePlan>, JobSettlement> {
    match wants {
        [Want::Tx(Tx::SavePlan(save))] => Ok(Arc::clone(save)),
        [Want::Tx(Tx::SettleJob(settle))] => {
            assert_eq!((settle.job, settle.fence), (JobId(1), Fence(2)));
            Err(settle.settlement.clone())
        }
        other => panic!("neither a plan nor a settlement: {other:?}"),
    }
}

fn plan(claimed: ClaimedJob, coverage: &Coverage) -> Arc<SavePlan> {
    planned(Options::new("me"), claimed, coverage).expect("a plan")
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

//! From a trigger to tasks in the queue.

use std::time::Duration;

use serde::Serialize;

use super::registry::When;
use crate::cursor::{self, Mark};
use crate::id::{CredentialId, CursorId, Fence, InstanceId, PlanId};
use crate::state::{Direction, Operation, TriggerType, UpdateReason};
use crate::time::Ts;
use crate::window::Window;

/// Records one time that something was asked for. The same `public_id` again is the same trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fire {
    pub public_id: String,
    pub trigger_type: TriggerType,
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    /// Why, for an UPDATE and for nothing else.
    pub reason: Option<UpdateReason>,
    /// What the work belongs to: triggers of one activity share the progress of a BACKFILL or an UPDATE (C-63). Without one,
    /// the trigger is an activity of its own.
    pub activity: Option<String>,
    /// Bounds that the caller wishes; the planner fills in what is missing.
    pub window_from: Option<Ts>,
    pub window_to: Option<Ts>,
    /// Added to the priority of the operation; smaller is sooner (G-19).
    pub priority: i32,
    /// What the caller binds, as canonical JSON (see [`crate::params`]); `{}` when nothing.
    pub params: String,
    /// Settings of this run only, canonical JSON (ING-3.3-03, layer 5); `{}` when none.
    pub overrides: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fired {
    pub instance: InstanceId,
    /// It was there already.
    pub existed: bool,
}

/// The provenance of what the collector polls without a manifest.
const COLLECTOR: &str = "collector";

/// `ing_schedule_instance.job_type` of a trigger whose maker names none: the provenance, or, of what the collector polls, the
/// endpoint.
pub fn job_type<'a>(provenance_code: &'a str, endpoint_name: &'a str) -> &'a str {
    if provenance_code == COLLECTOR { endpoint_name } else { provenance_code }
}

/// Fires up to `limit` schedules whose time has come (`next_due_at <= now`), oldest first. Each moves to its first due
/// time after now, so a long pause makes one firing, not many (G-18). A schedule whose last trigger still waits for
/// planning only moves, and so does one whose last trigger has a partition that waits. The trigger's `public_id` is
/// `schedule-<id>-<due time in µs>`, its type SCHEDULE, its project `default`, operation and reason are the schedule's; it
/// binds nothing and overrides nothing. A pattern that never comes again is due no more: its next time is [`Ts::NEVER`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FireDue {
    pub limit: u32,
}

impl FireDue {
    /// The due time that follows `due` at `now`: in step with the schedule, strictly later than now.
    pub fn next_due(due: Ts, when: &When, now: Ts) -> Ts {
        match when {
            When::Every(every) => {
                let every = crate::time::micros(*every).max(1);
                let missed = (now.micros() - due.micros()).max(0) / every;
                Ts::from_micros(due.micros() + (missed + 1) * every)
            }
            When::Cron(_) => when.first_after(now).unwrap_or(Ts::NEVER),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FiredDue {
    pub fired: u32,
    /// When the next schedule is due.
    pub next_due: Option<Ts>,
    pub now: Ts,
}

/// Leases the oldest trigger in REQUESTED whose `not_before` has come, whose lease is free or expired, whose inventory is not
/// known to be full and on which there is no hold ([`Hold`](super::Hold)). The fence rises by one. ADVISORY holds that were set
/// [`ADVICE_LASTS`](super::ADVICE_LASTS) ago or earlier are ended first, by [`Release::BY_TIME`](super::Release::BY_TIME).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeTrigger {
    pub owner: String,
    pub lease: Duration,
    /// Whatever would be planned there would have to wait: it is left where it is.
    pub full: Vec<Inventory>,
}

/// What the limit on QUEUED tasks is counted by (ING-5.3-16), and what boards show.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Inventory {
    pub provenance_code: String,
    pub endpoint_name: String,
    #[serde(rename = "operation_code")]
    pub operation: Operation,
}

impl Inventory {
    /// One text for each: codes and names hold no blank.
    pub fn to_text(&self) -> String {
        format!("{} {} {}", self.provenance_code, self.endpoint_name, self.operation.as_str())
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TriggerTaken {
    pub instance: InstanceId,
    pub fence: Fence,
    pub public_id: String,
    pub trigger_type: TriggerType,
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    pub reason: Option<UpdateReason>,
    pub activity: Option<String>,
    pub window_from: Option<Ts>,
    pub window_to: Option<Ts>,
    pub priority: i32,
    pub params: String,
    pub overrides: String,
    /// How far it has made its children, see [`FanOut`](super::FanOut).
    pub place: Option<String>,
    /// A plan of this trigger that could not be sliced to its end: go on with it, on its own snapshot (C-10).
    pub plan: Option<OpenPlan>,
    pub now: Ts,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenPlan {
    pub plan: PlanId,
    pub snapshot_hash: String,
    pub rest: Rest,
}

/// What of a plan is still to be sliced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rest {
    /// See [`Rest::of`].
    Time(Window),
    /// The wanted records behind this key: the last id of the plan's task with the greatest ordinal.
    Ids { after: Option<String> },
}

impl Rest {
    /// What is left of a plan over `whole` whose slices, made in `direction`, reach from the earliest `from` to the latest
    /// `to` in `sliced`: everything behind the last of them, empty (`from == to`) when they reach the end. A window that has
    /// failed since it was sliced is left to a later trigger; if every part began with it again, a plan with as many such
    /// windows as the inventory holds would never end.
    pub fn of(whole: Window, direction: Direction, sliced: Option<Window>) -> Window {
        let Some(sliced) = sliced else { return whole };
        match direction {
            Direction::Forward => Window { from: whole.from.max(sliced.to).min(whole.to), ..whole },
            Direction::Backfill => Window { to: whole.to.min(sliced.from).max(whole.from), ..whole },
        }
    }
}

/// Ends or defers a trigger. `Fenced` when the lease on it is gone or it is no longer REQUESTED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettleTrigger {
    pub instance: InstanceId,
    pub fence: Fence,
    pub settlement: Settlement,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Settlement {
    /// Nothing to do: PLANNED, with the reason in `record_remarks`.
    Nothing { remark: String },
    /// Cannot be planned: FAILED, with the error in `record_remarks`.
    Refused { error: String },
    /// Not now: stays REQUESTED, lease given back, `not_before` = now + delay.
    Later { delay: Duration },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TriggerSettled;

/// What the planner must know of a namespace before it plans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadCoverage {
    pub cursor: cursor::Name,
}

/// A namespace's state. All empty and epoch 0 when it has never been planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coverage {
    pub cursor: Option<CursorId>,
    /// Where the namespace began: its lower end, or for a BACKFILL its upper end. The completed part counts from here.
    pub origin: Option<Ts>,
    pub value: Option<Mark>,
    /// Rises with every plan of the namespace. A planner that saw an older one must read again.
    pub epoch: i64,
    /// What lies beyond the value (or origin) and is done or under way, sorted, each once: windows whose tasks of one plan,
    /// those that were replaced apart, are all QUEUED, DISPATCHED, EXECUTING or SUCCEEDED, and the done parts of tasks that
    /// ended short (PARTIAL, FAILED or CANCELLED, replaced or not).
    pub covered: Vec<Window>,
    /// The `ordinal` after the greatest of the namespace's tasks; 0 without any.
    pub next_ordinal: i64,
    /// Inventory: QUEUED tasks of the partition (provenance, endpoint, operation).
    pub queued: u32,
    /// What the last [`HISTORY`] SUCCEEDED tasks of the namespace with a window brought, greatest `(window_to, id)` first,
    /// those with page ranges (`params` has `pages`) left out.
    pub history: History,
    /// The value of the HARVEST cursor of the same provenance, endpoint and cursor key that is furthest: where a backfill
    /// without an upper bound begins. Only for BACKFILL.
    pub harvested: Option<Ts>,
    pub now: Ts,
}

/// Tasks that [`Coverage::history`] looks back at.
pub const HISTORY: u32 = 20;

/// How dense records lay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct History {
    pub items: u64,
    /// The widths of the windows, added up.
    pub span: Duration,
}

impl History {
    /// How many records a span of this width would hold, going by what was seen; `None` without anything to go by.
    pub fn estimate(&self, width: Duration) -> Option<u64> {
        let (span, width) = (self.span.as_micros(), width.as_micros());
        (span > 0).then(|| u64::try_from(u128::from(self.items) * width / span).unwrap_or(u64::MAX))
    }

    /// The width that would hold about so many records; `None` without anything to go by.
    pub fn width_of(&self, items: u64) -> Option<Duration> {
        if self.items == 0 || self.span.is_zero() {
            return None;
        }
        let micros = self.span.as_micros().saturating_mul(u128::from(items)) / u128::from(self.items);
        Some(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    }
}

/// Writes a plan and a first part of its slices, or a further part of a plan that is PARTIAL; one task per slice.
///
/// In one transaction, in this order: the trigger must be REQUESTED and leased under `fence` (else `Fenced`); the cursor
/// row is made if it is missing (direction of its operation, TIME with this `origin`, or ID without one, no value, epoch 0)
/// and locked; its epoch must equal `epoch` (else `Conflict`) and rises by one; the snapshot is stored under its hash if it
/// is new; the plan is inserted, or found; slices are inserted unless `(plan, signature)` exists; tasks unless their
/// `idempotent_key` exists. With `complete` the plan becomes READY and the trigger PLANNED; without, the plan is PARTIAL and
/// the trigger stays REQUESTED, its lease given back, `not_before` = now + `resume_delay`. A plan that is not a PARTIAL one of
/// this trigger cannot go on: `Conflict`. One that was cancelled meanwhile took its trigger with it: `Fenced`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavePlan {
    pub instance: InstanceId,
    pub fence: Fence,
    pub target: PlanTarget,
    pub project_key: String,
    pub cursor: cursor::Name,
    /// `None`: the cursor counts segments, not time.
    pub origin: Option<Ts>,
    pub epoch: i64,
    pub slices: Vec<NewSlice>,
    pub complete: bool,
    pub resume_delay: Duration,
    pub priority: i32,
    /// `ing_task.c_max`: how many tasks of the partition may be held at once.
    pub c_max: u32,
    /// `ing_task.credential_id`.
    pub credential: Option<CredentialId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanTarget {
    New(NewPlan),
    Existing(PlanId),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewPlan {
    /// `None` for a plan over ids (C-51).
    pub window: Option<Window>,
    /// `plan_strategy`: TIME or ID.
    pub strategy: &'static str,
    pub snapshot_hash: String,
    /// Canonical JSON of the compiled spec.
    pub snapshot_body: String,
    /// JSON object: estimate, degradations, warnings.
    pub remarks: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSlice {
    /// `None` for a segment of ids.
    pub window: Option<Window>,
    /// Only for a segment of ids.
    pub segment: Option<Segment>,
    /// JSON of ING-8.2-04.
    pub spec: String,
    pub signature: String,
    /// The localised expression: the snapshot's hash, this window and the initial position, as canonical JSON.
    pub expr_snapshot: String,
    pub expr_hash: String,
    pub task_params: String,
    pub task_key: String,
}

/// The place of a segment of ids in its namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// From 0, without gaps, in the order in which the namespace's segments were planned.
    pub ordinal: i64,
    pub last_id: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanSaved {
    pub plan: PlanId,
    pub cursor: CursorId,
    pub created: u32,
    /// Tasks that were there already.
    pub existing: u32,
}

impl TriggerTaken {
    pub fn lease(&self) -> (InstanceId, Fence) {
        (self.instance, self.fence)
    }

    pub fn inventory(&self) -> Inventory {
        Inventory {
            provenance_code: self.provenance_code.clone(),
            endpoint_name: self.endpoint_name.clone(),
            operation: self.operation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_of_the_type_of_its_provenance_and_a_poll_of_its_source() {
        assert_eq!(job_type("pubmed", "search"), "pubmed");
        assert_eq!(job_type("collector", "rss"), "rss");
    }

    #[test]
    fn a_missed_schedule_keeps_its_step_and_fires_once() {
        let every = When::Every(Duration::from_secs(60));
        let next = |due, now| FireDue::next_due(Ts::from_secs(due), &every, Ts::from_secs(now));
        assert_eq!(next(100, 100), Ts::from_secs(160));
        assert_eq!(next(100, 159), Ts::from_secs(160));
        assert_eq!(next(100, 1_000), Ts::from_secs(1_060));
        assert_eq!(next(100, 50), Ts::from_secs(160));
    }

    #[test]
    fn the_rest_of_a_plan_lies_behind_its_slices_and_within_it() {
        let window = |from, to| Window { from: Ts::from_secs(from), to: Ts::from_secs(to) };
        let rest = |sliced: Option<Window>| Rest::of(window(10, 50), Direction::Forward, sliced);
        assert_eq!(rest(None), window(10, 50));
        assert_eq!(rest(Some(window(0, 5))), window(10, 50));
        assert_eq!(rest(Some(window(10, 30))), window(30, 50));
        assert_eq!(rest(Some(window(10, 50))), window(50, 50));
        assert_eq!(rest(Some(window(10, 60))), window(50, 50));
        let past = |sliced: Option<Window>| Rest::of(window(10, 50), Direction::Backfill, sliced);
        assert_eq!(past(None), window(10, 50));
        assert_eq!(past(Some(window(30, 50))), window(10, 30));
        assert_eq!(past(Some(window(5, 50))), window(10, 10));
    }

    #[test]
    fn history_tells_how_much_a_window_will_hold() {
        let history = History { items: 500, span: Duration::from_secs(1_000) };
        assert_eq!(history.estimate(Duration::from_secs(60)), Some(30));
        assert_eq!(history.width_of(50), Some(Duration::from_secs(100)));
        assert_eq!(History::default().estimate(Duration::from_secs(60)), None);
        assert_eq!(History { items: 0, ..history }.estimate(Duration::from_secs(60)), Some(0));
        assert_eq!(History { items: 0, ..history }.width_of(50), None);
    }
}

//! From a trigger to tasks in the queue.

use std::time::Duration;

use crate::cursor;
use crate::id::{CredentialId, CursorId, Fence, InstanceId, PlanId};
use crate::state::{Operation, TriggerType};
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

/// Fires up to `limit` schedules whose time has come (`next_due_at <= now`), oldest first. Each moves to its first due
/// time after now, so a long pause makes one firing, not many (G-18). A schedule whose last trigger still waits for
/// planning only moves, and so does one whose last trigger has a partition that waits. The trigger's `public_id` is
/// `schedule-<id>-<due time in µs>`, its type SCHEDULE, its project `default`; it binds nothing and overrides nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FireDue {
    pub limit: u32,
}

impl FireDue {
    /// The due time that follows `due` at `now`: in step with the schedule, strictly later than now.
    pub fn next_due(due: Ts, every: Duration, now: Ts) -> Ts {
        let every = crate::time::micros(every).max(1);
        let missed = (now.micros() - due.micros()).max(0) / every;
        Ts::from_micros(due.micros() + (missed + 1) * every)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FiredDue {
    pub fired: u32,
    /// When the next schedule is due.
    pub next_due: Option<Ts>,
    pub now: Ts,
}

/// Leases the oldest trigger in REQUESTED whose `not_before` has come, whose lease is free or expired and whose inventory
/// is not known to be full. The fence rises by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeTrigger {
    pub owner: String,
    pub lease: Duration,
    /// Whatever would be planned there would have to wait: it is left where it is.
    pub full: Vec<Inventory>,
}

/// What the limit on QUEUED tasks is counted by (ING-5.3-16).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Inventory {
    pub provenance_code: String,
    pub endpoint_name: String,
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
    /// What is still to be sliced, see [`OpenPlan::rest`].
    pub window: Window,
}

impl OpenPlan {
    /// What is left of a plan over `whole` whose slices end at `sliced_to`: everything behind the last of them, empty
    /// (`from == to`) when they reach the end. A window that has failed since it was sliced is left to a later trigger;
    /// if every part began with it again, a plan with as many such windows as the inventory holds would never end.
    pub fn rest(whole: Window, sliced_to: Option<Ts>) -> Window {
        let from = sliced_to.map_or(whole.from, |sliced_to| whole.from.max(sliced_to).min(whole.to));
        Window { from, ..whole }
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
    /// Where the namespace began; the prefix counts from here.
    pub origin: Option<Ts>,
    pub value: Option<Ts>,
    /// Rises with every plan of the namespace. A planner that saw an older one must read again.
    pub epoch: i64,
    /// Windows beyond the value (or origin) of tasks that are QUEUED, DISPATCHED, EXECUTING or SUCCEEDED, sorted.
    pub covered: Vec<Window>,
    /// Inventory: QUEUED tasks of the partition (provenance, endpoint, operation).
    pub queued: u32,
    pub now: Ts,
}

/// Writes a plan and a first part of its slices, or a further part of a plan that is PARTIAL; one task per slice.
///
/// In one transaction, in this order: the trigger must be REQUESTED and leased under `fence` (else `Fenced`); the cursor
/// row is made if it is missing (origin = `origin`, no value, epoch 0) and locked; its epoch must equal `epoch` (else
/// `Conflict`) and rises by one; the snapshot is stored under its hash if it is new; the plan is inserted, or found;
/// slices are inserted unless `(plan, signature)` exists; tasks unless their `idempotent_key` exists. With `complete` the
/// plan becomes READY and the trigger PLANNED; without, the plan is PARTIAL and the trigger stays REQUESTED, its lease
/// given back, `not_before` = now + `resume_delay`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavePlan {
    pub instance: InstanceId,
    pub fence: Fence,
    pub target: PlanTarget,
    pub project_key: String,
    pub cursor: cursor::Name,
    pub origin: Ts,
    pub epoch: i64,
    pub slices: Vec<NewSlice>,
    pub complete: bool,
    pub resume_delay: Duration,
    pub priority: i32,
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
    pub window: Window,
    pub snapshot_hash: String,
    /// Canonical JSON of the compiled spec.
    pub snapshot_body: String,
    /// JSON object: estimate, degradations, warnings.
    pub remarks: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSlice {
    pub window: Window,
    /// JSON of ING-8.2-04.
    pub spec: String,
    pub signature: String,
    /// The localised expression: the snapshot's hash, this window and the initial position, as canonical JSON.
    pub expr_snapshot: String,
    pub expr_hash: String,
    pub task_params: String,
    pub task_key: String,
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
    fn a_missed_schedule_keeps_its_step_and_fires_once() {
        let next = |due, now| FireDue::next_due(Ts::from_secs(due), Duration::from_secs(60), Ts::from_secs(now));
        assert_eq!(next(100, 100), Ts::from_secs(160));
        assert_eq!(next(100, 159), Ts::from_secs(160));
        assert_eq!(next(100, 1_000), Ts::from_secs(1_060));
        assert_eq!(next(100, 50), Ts::from_secs(160));
    }

    #[test]
    fn the_rest_of_a_plan_lies_behind_its_slices_and_within_it() {
        let window = |from, to| Window { from: Ts::from_secs(from), to: Ts::from_secs(to) };
        let rest = |sliced_to: Option<i64>| OpenPlan::rest(window(10, 50), sliced_to.map(Ts::from_secs));
        assert_eq!(rest(None), window(10, 50));
        assert_eq!(rest(Some(5)), window(10, 50));
        assert_eq!(rest(Some(30)), window(30, 50));
        assert_eq!(rest(Some(50)), window(50, 50));
        assert_eq!(rest(Some(60)), window(50, 50));
    }
}

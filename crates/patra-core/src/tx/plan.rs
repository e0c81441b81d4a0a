//! Jobs and plans: from a request to tasks in the queue.

use std::time::Duration;

use serde::Serialize;

use super::registry::Recurrence;
use crate::cursor::{self, CursorValue};
use crate::id::{CredentialId, CursorId, Fence, JobId, PlanId};
use crate::state::{Direction, Operation, TriggerType, UpdateReason};
use crate::time::Ts;
use crate::window::Window;

/// Requests a job. The same `public_id` again is the same job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestJob {
    pub public_id: String,
    pub trigger_type: TriggerType,
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    /// The reason of an UPDATE; `None` for other operations.
    pub reason: Option<UpdateReason>,
    /// The activity that the job belongs to: jobs of one activity share the progress of a BACKFILL or an UPDATE
    /// (C-63). Without one, the job is an activity of its own.
    pub activity: Option<String>,
    /// Requested bounds; the planner fills in missing ones.
    pub window_from: Option<Ts>,
    pub window_to: Option<Ts>,
    /// Added to the priority of the operation; smaller is sooner (G-19).
    pub priority: i32,
    /// Parameters that the caller binds, as canonical JSON (see [`crate::params`]); `{}` for none.
    pub params: String,
    /// Settings of this job only, canonical JSON (ING-3.3-03, layer 5); `{}` for none.
    pub overrides: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobRequested {
    pub job: JobId,
    /// The job existed already.
    pub existed: bool,
}

/// Provenances whose endpoints are source types: feeds, which need no manifest, and tweets.
const OF_SOURCES: [&str; 2] = ["collector", "twitterapi_io"];

/// Default `ing_schedule_instance.job_type` of a job: the provenance, or for provenances of sources the endpoint.
pub fn job_type<'a>(provenance_code: &'a str, endpoint_name: &'a str) -> &'a str {
    if OF_SOURCES.contains(&provenance_code) { endpoint_name } else { provenance_code }
}

/// Requests a job for up to `limit` schedules that are due (`next_due_at <= now`), oldest first. Each schedule moves
/// to its first due time after now, so a long downtime makes one job, not many (G-18). A schedule whose last job
/// still waits for planning, or has a partition that waits, only moves. The job's `public_id` is `schedule-<id>-<due
/// time in µs>` (followed by `-<time in µs>` if that exists: the clock was set back), its type SCHEDULE, its project `default`; operation and reason are the schedule's; it has no params
/// and no overrides. A pattern that never matches again gets [`Ts::NEVER`] as its next time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FireDue {
    pub limit: u32,
}

impl FireDue {
    /// The due time that follows `due` at `now`: in step with the schedule, strictly later than now.
    pub fn next_due(due: Ts, when: &Recurrence, now: Ts) -> Ts {
        match when {
            Recurrence::Every(every) => {
                let every = crate::time::micros(*every).max(1);
                let missed = (now.micros() - due.micros()).max(0) / every;
                Ts::from_micros(due.micros() + (missed + 1) * every)
            }
            Recurrence::Cron(_) => when.first_after(now).unwrap_or(Ts::NEVER),
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

/// Leases the oldest job in REQUESTED whose `not_before` has come, whose lease is free or expired, whose partition is
/// not known to be full, and which is not paused ([`PauseWork`](super::PauseWork)). The fence rises by one. ADVISORY
/// pauses that were set [`ADVISORY_TTL`](super::ADVISORY_TTL) ago or earlier are ended first, by
/// [`ResumeWork::BY_TIME`](super::ResumeWork::BY_TIME).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimJob {
    pub owner: String,
    pub lease: Duration,
    /// Partitions with a full queue: their jobs are skipped.
    pub full: Vec<PartitionKey>,
    /// Only jobs of this partition.
    pub only: Option<PartitionKey>,
}

/// Provenance, endpoint and operation: the limit on QUEUED tasks counts by it (ING-5.3-16), and boards group by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct PartitionKey {
    pub provenance_code: String,
    pub endpoint_name: String,
    #[serde(rename = "operation_code")]
    pub operation: Operation,
}

impl PartitionKey {
    /// The key as one text: codes and names contain no blank.
    pub fn to_text(&self) -> String {
        format!("{} {} {}", self.provenance_code, self.endpoint_name, self.operation.as_str())
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedJob {
    pub job: JobId,
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
    /// How far the job has created its children, see [`FanOut`](super::FanOut).
    pub position: Option<String>,
    /// A plan of this job that is not completely sliced: continue it, on its own snapshot (C-10).
    pub plan: Option<OpenPlan>,
    pub now: Ts,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenPlan {
    pub plan: PlanId,
    pub snapshot_hash: String,
    pub rest: RemainingPlan,
}

/// The part of a plan that is still to be sliced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RemainingPlan {
    /// See [`RemainingPlan::of`].
    Time(Window),
    /// Records to refresh behind this key: the last id of the plan's task with the greatest ordinal.
    Ids { after: Option<String> },
}

impl RemainingPlan {
    /// The rest of a plan over `whole` whose slices, made in `direction`, reach from the earliest `from` to the
    /// latest `to` in `sliced`: everything behind the last of them, empty (`from == to`) when they reach the end. A
    /// window that has failed since it was sliced is left to a later job; if every part began with it again, a plan
    /// with as many such windows as the queue holds would never end.
    pub fn of(whole: Window, direction: Direction, sliced: Option<Window>) -> Window {
        let Some(sliced) = sliced else { return whole };
        match direction {
            Direction::Forward => Window { from: whole.from.max(sliced.to).min(whole.to), ..whole },
            Direction::Backfill => Window { to: whole.to.min(sliced.from).max(whole.from), ..whole },
        }
    }
}

/// Ends or defers a job. `Fenced` when its lease is gone or it is no longer REQUESTED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettleJob {
    pub job: JobId,
    pub fence: Fence,
    pub settlement: JobSettlement,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobSettlement {
    /// Nothing to do: PLANNED, with the reason in `record_remarks`.
    Nothing { remark: String },
    /// Cannot be planned: FAILED, with the error in `record_remarks`.
    Refused { error: String },
    /// Not now: stays REQUESTED, lease released, `not_before` = now + delay.
    Later { delay: Duration },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobSettled;

/// Reads the state of a namespace for the planner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadCoverage {
    pub cursor: cursor::CursorName,
}

/// State of a namespace. All empty and epoch 0 when it was never planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coverage {
    pub cursor: Option<CursorId>,
    /// Where the namespace began: its lower end, or for a BACKFILL its upper end. Completion counts from here.
    pub origin: Option<Ts>,
    pub value: Option<CursorValue>,
    /// Rises with every plan of the namespace. A planner that saw an older one must read again.
    pub epoch: i64,
    /// Windows beyond the value (or origin) that are done or in progress, sorted, each once: windows whose tasks of
    /// one plan, without those that were replaced, are all QUEUED, DISPATCHED, EXECUTING or SUCCEEDED, and the done
    /// parts of tasks that ended short (PARTIAL, FAILED or CANCELLED, replaced or not).
    pub covered: Vec<Window>,
    /// The `ordinal` after the greatest of the namespace's tasks; 0 without tasks.
    pub next_ordinal: i64,
    /// QUEUED tasks of the partition (provenance, endpoint, operation).
    pub queued: u32,
    /// Density of the last [`HISTORY`] SUCCEEDED tasks of the namespace that have a window, greatest `(window_to,
    /// id)` first, without those that read a page range (`params` has `pages`).
    pub history: History,
    /// The furthest value of a HARVEST cursor with the same provenance, endpoint and cursor key: where a backfill
    /// without an upper bound begins. Only for BACKFILL.
    pub harvested: Option<Ts>,
    pub now: Ts,
}

/// Tasks that [`Coverage::history`] covers.
pub const HISTORY: u32 = 20;

/// Density of past records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct History {
    pub items: u64,
    /// Sum of the window widths.
    pub span: Duration,
}

impl History {
    /// Estimated records in a span of this width; `None` without history.
    pub fn estimate(&self, width: Duration) -> Option<u64> {
        let (span, width) = (self.span.as_micros(), width.as_micros());
        (span > 0).then(|| u64::try_from(u128::from(self.items) * width / span).unwrap_or(u64::MAX))
    }

    /// The width that would hold about this many records; `None` without history.
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
/// In one transaction, in this order: the job must be REQUESTED and leased under `fence` (else `Fenced`); the cursor
/// row is created if it is missing (direction of its operation, TIME with this `origin`, or ID without one, no value,
/// epoch 0) and locked; its epoch must equal `epoch` (else `Conflict`) and rises by one; the snapshot is stored under
/// its hash if it is new; the plan is inserted, or found; slices are inserted unless `(plan, signature)` exists;
/// tasks unless their `idempotent_key` exists. With `complete` the plan becomes READY and the job PLANNED; without,
/// the plan is PARTIAL and the job stays REQUESTED, its lease is released, `not_before` = now + `resume_delay`. A
/// plan that is not a PARTIAL one of this job cannot be continued: `Conflict`. If it was cancelled meanwhile, so was
/// its job: `Fenced`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavePlan {
    pub job: JobId,
    pub fence: Fence,
    pub target: PlanTarget,
    pub project_key: String,
    pub cursor: cursor::CursorName,
    /// `None`: the cursor counts segments, not time.
    pub origin: Option<Ts>,
    pub epoch: i64,
    pub slices: Vec<NewSlice>,
    pub complete: bool,
    pub resume_delay: Duration,
    pub priority: i32,
    /// `ing_task.c_max`: maximum leased tasks of the partition.
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
    pub segment: Option<SegmentPosition>,
    /// JSON of ING-8.2-04.
    pub spec: String,
    pub signature: String,
    /// The localised expression: the snapshot's hash, this window and the initial position, as canonical JSON.
    pub expr_snapshot: String,
    pub expr_hash: String,
    pub task_params: String,
    pub task_key: String,
}

/// Position of a segment of ids in its namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentPosition {
    /// From 0, without gaps, in the order in which the namespace's segments were planned.
    pub ordinal: i64,
    pub last_id: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanSaved {
    pub plan: PlanId,
    pub cursor: CursorId,
    pub created: u32,
    /// Tasks that existed already.
    pub existing: u32,
}

impl ClaimedJob {
    pub fn lease(&self) -> (JobId, Fence) {
        (self.job, self.fence)
    }

    pub fn inventory(&self) -> PartitionKey {
        PartitionKey {
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
        assert_eq!(job_type("twitterapi_io", "twitter_feed"), "twitter_feed");
    }

    #[test]
    fn a_missed_schedule_keeps_its_step_and_fires_once() {
        let every = Recurrence::Every(Duration::from_secs(60));
        let next = |due, now| FireDue::next_due(Ts::from_secs(due), &every, Ts::from_secs(now));
        assert_eq!(next(100, 100), Ts::from_secs(160));
        assert_eq!(next(100, 159), Ts::from_secs(160));
        assert_eq!(next(100, 1_000), Ts::from_secs(1_060));
        assert_eq!(next(100, 50), Ts::from_secs(160));
    }

    #[test]
    fn the_rest_of_a_plan_lies_behind_its_slices_and_within_it() {
        let window = |from, to| Window { from: Ts::from_secs(from), to: Ts::from_secs(to) };
        let rest = |sliced: Option<Window>| RemainingPlan::of(window(10, 50), Direction::Forward, sliced);
        assert_eq!(rest(None), window(10, 50));
        assert_eq!(rest(Some(window(0, 5))), window(10, 50));
        assert_eq!(rest(Some(window(10, 30))), window(30, 50));
        assert_eq!(rest(Some(window(10, 50))), window(50, 50));
        assert_eq!(rest(Some(window(10, 60))), window(50, 50));
        let past = |sliced: Option<Window>| RemainingPlan::of(window(10, 50), Direction::Backfill, sliced);
        assert_eq!(past(None), window(10, 50));
        assert_eq!(past(Some(window(30, 50))), window(10, 30));
        assert_eq!(past(Some(window(5, 50))), window(10, 10));
    }

    #[test]
    fn history_estimates_the_records_of_a_window() {
        let history = History { items: 500, span: Duration::from_secs(1_000) };
        assert_eq!(history.estimate(Duration::from_secs(60)), Some(30));
        assert_eq!(history.width_of(50), Some(Duration::from_secs(100)));
        assert_eq!(History::default().estimate(Duration::from_secs(60)), None);
        assert_eq!(History { items: 0, ..history }.estimate(Duration::from_secs(60)), Some(0));
        assert_eq!(History { items: 0, ..history }.width_of(50), None);
    }
}

//! The planner, from a job to queued tasks: fire due schedules, claim a job, have it compiled, find what its
//! namespace lacks, plan exactly that. No network I/O (ING-8.0-01).
//!
//! Two planners that look at the same namespace see the same epoch and derive the same task keys; the store lets one
//! of them through. A job whose window is too large for the queue is planned in parts, on one frozen snapshot. A job
//! that covers many partitions is not planned: it becomes one child job per partition, page by page.

mod draft;
mod options;
mod pace;
mod part;
mod slice;

use std::sync::Arc;
use std::time::Duration;

use super::LATER;
use super::advance::{self, CursorAdvance};
use crate::params::Params;
use crate::rng::Rng;
use crate::time::Ts;
use crate::tx::{
    ChildJob, ClaimJob, ClaimedJob, Coverage, Done, FanOut, FireDue, JobSettlement, PartitionKey, ReadCoverage,
    ReadSegments, RecordAdvance, SettleJob, Tx, TxError,
};
use draft::PlanPart;
use pace::InventoryPace;
use part::{PlanCapacity, PlanDecision};

pub use draft::{PlanDraft, PlanQuota, PlanSpan, RefreshSpec};
pub use options::Options;
pub use slice::{
    MAX_DURATION_SECS, MAX_REQUESTS, PhaseSpec, SliceBudget, SliceContext, SliceEstimate, SliceTemplate, job_component,
};

#[derive(Clone, Debug)]
pub enum Want {
    Tx(Tx),
    /// Compile the registry for this job, or load the snapshot of its open plan.
    Compile(Box<ClaimedJob>),
    /// Tasks were queued: wake the executor, if there is one in this process.
    Queued,
}

#[expect(clippy::large_enum_variant, reason = "a result is made once and read once")]
#[derive(Debug)]
pub enum PlannerInput {
    Tx(Result<Done, TxError>),
    /// The compiled job, or why it was not compiled.
    Compiled(Result<CompiledJob, CompileError>),
}

#[derive(Clone, Debug)]
pub enum CompiledJob {
    /// The job is to be planned.
    Plan(Box<PlanDraft>),
    /// The job is to be fanned out: some of its partitions are not bound yet.
    Fan(PartitionBatch),
}

/// The next partitions of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionBatch {
    /// At most [`crate::tx::MAX_CHILDREN`]; each has the job's params and all partition params.
    pub partitions: Vec<Params>,
    /// How far the partitions have been enumerated.
    pub position: String,
    /// Values so far that are not valid partitions.
    pub skipped: u32,
    /// These are the last partitions.
    pub complete: bool,
}

/// Why a job has no draft.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompileError {
    /// It never will: a sentence for the person who requested it.
    Refused(String),
    /// The store failed; a retry may succeed.
    Away(TxError),
}

impl From<TxError> for CompileError {
    fn from(error: TxError) -> CompileError {
        if error.is_transient() { CompileError::Away(error) } else { CompileError::Refused(error.to_string()) }
    }
}

impl From<String> for CompileError {
    fn from(reason: String) -> CompileError {
        CompileError::Refused(reason)
    }
}

impl From<&str> for CompileError {
    fn from(reason: &str) -> CompileError {
        CompileError::Refused(reason.to_owned())
    }
}

#[derive(Debug)]
pub struct Planner {
    options: Options,
    rng: Rng,
    stage: PlannerStage,
    /// When to claim jobs next.
    next_claim: Ts,
    /// When to check schedules next: at the next known due time, and periodically for new ones.
    next_fire: Ts,
    /// Partitions whose queue was full, and until when their jobs are skipped.
    full: Vec<(PartitionKey, Ts)>,
    pace: InventoryPace,
    /// When deferred jobs may be claimed again.
    resumes: Vec<Ts>,
}

#[derive(Debug)]
enum PlannerStage {
    Idle,
    Firing,
    Claiming,
    Compiling(Box<ClaimedJob>),
    FanningOut(Box<ClaimedJob>),
    /// Reading the coverage; `settled` once the cursor was advanced to its prefix.
    Reading {
        job: PlanningJob,
        settled: bool,
    },
    Settling {
        job: PlanningJob,
        advance: CursorAdvance,
    },
    /// Reading the state of the quota.
    Budgeting {
        job: PlanningJob,
        coverage: Box<Coverage>,
    },
    /// Reading which ids to refresh.
    ReadingSegments {
        job: PlanningJob,
        read: Box<ReadSegments>,
        estimate: SliceEstimate,
        epoch: i64,
        next_ordinal: i64,
    },
    Saving {
        job: PlanningJob,
        again: Option<Duration>,
    },
    Deciding {
        again: Option<Duration>,
    },
}

impl PlannerStage {
    /// The current job, unless its outcome is decided.
    fn into_job(self) -> Option<Box<ClaimedJob>> {
        match self {
            PlannerStage::Idle | PlannerStage::Firing | PlannerStage::Claiming | PlannerStage::Deciding { .. } => None,
            PlannerStage::Compiling(claimed) | PlannerStage::FanningOut(claimed) => Some(claimed),
            PlannerStage::Reading { job, .. }
            | PlannerStage::Settling { job, .. }
            | PlannerStage::Budgeting { job, .. }
            | PlannerStage::ReadingSegments { job, .. }
            | PlannerStage::Saving { job, .. } => Some(job.claimed),
        }
    }
}

/// A claimed job with its draft.
#[derive(Debug)]
struct PlanningJob {
    claimed: Box<ClaimedJob>,
    draft: Box<PlanDraft>,
    /// How often another planner was faster.
    conflicts: u8,
    /// When to plan the rest, if this is not all.
    wait: Duration,
    /// QUEUED tasks of the partition.
    queued: u32,
}

const MAX_CONFLICTS: u8 = 5;

/// A job whose statements overload the store is deferred this many times as long.
const OVERLOADED: u32 = 10;

/// Maximum full partitions, and deferred jobs, that are remembered; jobs beyond that are claimed and deferred one by
/// one.
const MAX_FULL: usize = 64;

/// A used-up quota is checked again after this at the latest: a larger one may have been declared.
const LONGEST_QUOTA_WAIT: Duration = Duration::from_secs(300);

impl Planner {
    pub fn new(options: Options, rng: Rng, now: Ts) -> Planner {
        let next_fire = if options.only.is_none() { now } else { Ts::MAX };
        Planner {
            options,
            rng,
            stage: PlannerStage::Idle,
            next_claim: now,
            next_fire,
            full: Vec::new(),
            pace: InventoryPace::default(),
            resumes: Vec::new(),
        }
    }

    pub fn poll(&mut self, now: Ts, wants: &mut Vec<Want>) {
        if now < self.wake_at() {
            return;
        }
        if now < self.next_fire {
            self.take(now, wants);
        } else {
            self.stage = PlannerStage::Firing;
            self.next_fire = now + self.rng.around(self.options.idle_poll);
            wants.push(Want::Tx(FireDue { limit: 100 }.into()));
        }
    }

    pub fn wake_at(&self) -> Ts {
        if self.is_idle() { self.next_claim.min(self.next_fire) } else { Ts::MAX }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.stage, PlannerStage::Idle)
    }

    /// A job may be waiting: stop sleeping.
    pub fn nudge(&mut self, now: Ts) {
        self.next_claim = self.next_claim.min(now);
    }

    /// A schedule may be due.
    pub fn nudge_schedules(&mut self, now: Ts) {
        if self.options.only.is_none() {
            self.next_fire = self.next_fire.min(now);
        }
    }

    pub fn on(&mut self, now: Ts, got: PlannerInput, wants: &mut Vec<Want>) {
        let stage = std::mem::replace(&mut self.stage, PlannerStage::Idle);
        match (stage, got) {
            (stage, PlannerInput::Tx(Err(error))) => self.on_error(now, stage, &error, wants),
            (PlannerStage::Firing, PlannerInput::Tx(Ok(Done::FireDue(fired)))) => {
                // If nothing was fired, a schedule that is still due belongs to another planner, or waits for its
                // last job.
                if let Some(due) = fired.next_due.filter(|due| fired.fired > 0 || *due > fired.now) {
                    self.next_fire = self.next_fire.min(now + due.since(fired.now));
                }
                if fired.fired > 0 || now >= self.next_claim {
                    self.take(now, wants);
                }
            }
            (PlannerStage::Claiming, PlannerInput::Tx(Ok(Done::ClaimJob(Some(claimed))))) => {
                wants.push(Want::Compile(claimed.clone()));
                self.stage = PlannerStage::Compiling(claimed);
            }
            (PlannerStage::Claiming, PlannerInput::Tx(Ok(Done::ClaimJob(None)))) => self.sleep(now),
            (PlannerStage::Compiling(claimed), PlannerInput::Compiled(Ok(CompiledJob::Plan(draft)))) => {
                self.read(
                    PlanningJob { claimed, draft, conflicts: 0, wait: self.options.inventory_wait, queued: 0 },
                    false,
                    wants,
                );
            }
            (PlannerStage::Compiling(claimed), PlannerInput::Compiled(Ok(CompiledJob::Fan(fan)))) => {
                wants.push(Want::Tx(Arc::new(fan.of(&claimed, &self.options)).into()));
                self.stage = PlannerStage::FanningOut(claimed);
            }
            (PlannerStage::Compiling(claimed), PlannerInput::Compiled(Err(CompileError::Refused(error)))) => {
                self.settle(&claimed, JobSettlement::Refused { error }, wants);
            }
            (PlannerStage::Compiling(claimed), PlannerInput::Compiled(Err(CompileError::Away(_)))) => {
                self.settle(&claimed, JobSettlement::Later { delay: self.options.inventory_wait }, wants);
            }
            (PlannerStage::Reading { job, settled }, PlannerInput::Tx(Ok(Done::ReadCoverage(coverage)))) => {
                self.on_coverage(now, job, settled, &coverage, wants);
            }
            (
                PlannerStage::ReadingSegments { job, read, estimate, epoch, next_ordinal },
                PlannerInput::Tx(Ok(Done::ReadSegments(segments))),
            ) => match part::of_segments(&job, &read, estimate, segments, epoch, next_ordinal) {
                Ok(part) => self.save(job, part, wants),
                Err(settlement) => self.settle(&job.claimed, settlement, wants),
            },
            (PlannerStage::Settling { job, mut advance }, PlannerInput::Tx(reply)) => match advance.on(reply) {
                advance::AdvanceStep::Tx(tx) => {
                    wants.push(Want::Tx(tx));
                    self.stage = PlannerStage::Settling { job, advance };
                }
                // Whether the cursor moved or not: read the coverage again from its current value.
                advance::AdvanceStep::Done { .. } | advance::AdvanceStep::GaveUp(_) => self.read(job, true, wants),
            },
            (PlannerStage::Budgeting { job, coverage }, PlannerInput::Tx(Ok(Done::RequestPermits(reply)))) => {
                let operation = job.draft.context.operation;
                let frees = PlanQuota::frees_at(&reply.view, operation).map(|at| at.since(reply.now));
                self.decide(now, job, &coverage, PlanQuota::budget(&reply.view, operation), frees, wants);
            }
            (PlannerStage::Saving { job, again }, PlannerInput::Tx(Ok(Done::SavePlan(saved)))) => {
                if saved.created > 0 {
                    wants.push(Want::Queued);
                }
                if again.is_some() {
                    let left = job.queued.saturating_add(saved.created);
                    self.pace.left(job.claimed.inventory(), left, now, self.options.inventory_wait);
                }
                self.defer(now, again);
                self.take(now, wants);
            }
            (PlannerStage::FanningOut(_), PlannerInput::Tx(Ok(Done::FanOut(_)))) => self.take(now, wants),
            (PlannerStage::Deciding { again }, PlannerInput::Tx(Ok(Done::SettleJob(_)))) => {
                self.defer(now, again);
                self.take(now, wants);
            }
            // A result of the wrong kind is a bug of the shell or the store; the lease on the job expires and it is
            // claimed again.
            _ => self.sleep(now),
        }
    }

    /// Handles a failed transaction. Nothing is lost: the job is deferred, or its lease expires and it is claimed
    /// again.
    fn on_error(&mut self, now: Ts, stage: PlannerStage, error: &TxError, wants: &mut Vec<Want>) {
        match (stage, error) {
            (PlannerStage::Saving { mut job, .. }, TxError::Conflict) if job.conflicts < MAX_CONFLICTS => {
                job.conflicts += 1;
                self.read(job, true, wants);
            }
            (PlannerStage::Settling { job, .. }, _) => self.read(job, true, wants),
            // Another planner has this job, or has planned it: continue with the next.
            (_, TxError::Fenced) => self.take(now, wants),
            (PlannerStage::FanningOut(claimed), TxError::Refused(reason)) => {
                self.settle(&claimed, JobSettlement::Refused { error: reason.clone() }, wants);
            }
            (PlannerStage::Saving { job, .. }, TxError::Refused(reason)) => {
                let error = format!("the plan cannot be stored: {reason}");
                self.settle(&job.claimed, JobSettlement::Refused { error }, wants);
            }
            // The store would refuse it again: not before the lease has expired.
            (_, TxError::Refused(_)) => self.sleep(now),
            (stage, _) => match stage.into_job() {
                // The caller must not wait for the lease to expire. An overloaded store gets more time.
                Some(claimed) => {
                    let is_overloaded = matches!(error, TxError::Unavailable(_));
                    let wait = self.options.inventory_wait * if is_overloaded { OVERLOADED } else { 1 };
                    let delay = self.rng.around(wait);
                    self.settle(&claimed, JobSettlement::Later { delay }, wants);
                }
                None => self.sleep(now),
            },
        }
    }

    fn on_coverage(&mut self, now: Ts, job: PlanningJob, settled: bool, coverage: &Coverage, wants: &mut Vec<Want>) {
        // First advance the cursor to its completed prefix: a crash may have left it behind (C-13).
        if let (Some(cursor), false) = (coverage.cursor, settled) {
            let (advance, step) = CursorAdvance::start(RecordAdvance { cursor, cause: None, observed_max: None });
            if let advance::AdvanceStep::Tx(tx) = step {
                wants.push(Want::Tx(tx));
            }
            self.stage = PlannerStage::Settling { job, advance };
            return;
        }
        match &job.draft.quota {
            Some(quota) => {
                wants.push(Want::Tx(Arc::new(quota.status_request()).into()));
                self.stage = PlannerStage::Budgeting { job, coverage: Box::new(coverage.clone()) };
            }
            None => self.decide(now, job, coverage, None, None, wants),
        }
    }

    /// `frees`: when a used-up quota admits more.
    fn decide(
        &mut self,
        now: Ts,
        mut job: PlanningJob,
        coverage: &Coverage,
        budget: Option<u64>,
        frees: Option<Duration>,
        wants: &mut Vec<Want>,
    ) {
        let limit = job.draft.inventory.unwrap_or(self.options.inventory);
        let longest = self.options.inventory_wait;
        let wait = match frees {
            Some(frees) => frees.min(LONGEST_QUOTA_WAIT).max(longest),
            None => self.pace.wait(&job.claimed.inventory(), coverage.queued, limit, now, longest),
        };
        (job.wait, job.queued) = (wait, coverage.queued);
        let room = limit.saturating_sub(coverage.queued);
        let room = PlanCapacity { slices: room, budget, wait };
        match part::decide(&job, coverage, &room) {
            PlanDecision::Save(part) => self.save(job, part, wants),
            PlanDecision::ReadSegments(read, estimate) => {
                wants.push(Want::Tx(read.clone().into()));
                let (epoch, next_ordinal) = (coverage.epoch, coverage.next_ordinal);
                self.stage = PlannerStage::ReadingSegments { job, read: Box::new(read), estimate, epoch, next_ordinal };
            }
            PlanDecision::Settle(settlement) => {
                if let JobSettlement::Later { delay } = settlement {
                    let inventory = job.claimed.inventory();
                    self.pace.left(inventory.clone(), coverage.queued, now, self.options.inventory_wait);
                    if self.full.len() < MAX_FULL {
                        self.full.push((inventory, now + delay));
                    }
                }
                self.settle(&job.claimed, settlement, wants);
            }
        }
    }

    fn save(&mut self, job: PlanningJob, part: PlanPart, wants: &mut Vec<Want>) {
        let save = job.draft.save(&job.claimed, part, job.wait);
        let again = (!save.complete).then_some(job.wait);
        wants.push(Want::Tx(Arc::new(save).into()));
        self.stage = PlannerStage::Saving { job, again };
    }

    fn take(&mut self, now: Ts, wants: &mut Vec<Want>) {
        self.full.retain(|(_, until)| *until > now);
        let full = self.full.iter().map(|(inventory, _)| inventory.clone()).collect();
        let Options { owner, lease, only, .. } = &self.options;
        let take = ClaimJob { owner: owner.clone(), lease: *lease, full, only: only.clone() };
        wants.push(Want::Tx(take.into()));
        self.stage = PlannerStage::Claiming;
    }

    fn read(&mut self, job: PlanningJob, settled: bool, wants: &mut Vec<Want>) {
        wants.push(Want::Tx(ReadCoverage { cursor: job.draft.cursor.clone() }.into()));
        self.stage = PlannerStage::Reading { job, settled };
    }

    fn settle(&mut self, claimed: &ClaimedJob, settlement: JobSettlement, wants: &mut Vec<Want>) {
        let (job, fence) = claimed.lease();
        let again = if let JobSettlement::Later { delay } = settlement { Some(delay) } else { None };
        wants.push(Want::Tx(SettleJob { job, fence, settlement }.into()));
        self.stage = PlannerStage::Deciding { again };
    }

    /// The store has recorded that the job may be claimed again after this delay.
    fn defer(&mut self, now: Ts, again: Option<Duration>) {
        if let Some(again) = again
            && self.resumes.len() < MAX_FULL
        {
            self.resumes.push(now + again + LATER);
        }
    }

    fn sleep(&mut self, now: Ts) {
        self.stage = PlannerStage::Idle;
        self.resumes.retain(|at| *at > now);
        let idle = now + self.rng.around(self.options.idle_poll);
        self.next_claim = self.resumes.iter().fold(idle, |first, at| first.min(*at));
    }
}

impl PartitionBatch {
    fn of(self, claimed: &ClaimedJob, options: &Options) -> FanOut {
        let (job, fence) = claimed.lease();
        FanOut {
            job,
            fence,
            children: self.partitions.iter().map(|partition| ChildJob::of(&claimed.public_id, partition)).collect(),
            position: self.position,
            skipped: self.skipped,
            complete: self.complete,
            limit: options.max_partitions,
            wait: options.inventory_wait,
        }
    }
}

#[cfg(test)]
mod tests;

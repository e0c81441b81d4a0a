//! From a trigger to queued tasks: fire what is due, take a trigger, have it compiled, see what of its namespace is
//! missing, plan exactly that. No network I/O (ING-8.0-01).
//!
//! Two planners that look at the same namespace see the same epoch and derive the same task keys; the store lets one of
//! them through. A trigger whose window is too large for the inventory is planned in parts, on one frozen snapshot. A
//! trigger that stands for many partitions is not planned: it becomes one trigger per partition, page by page.

mod draft;
mod pace;
mod part;
mod slice;

use std::sync::Arc;
use std::time::Duration;

use super::LATER;
use super::advance::{self, Advance};
use crate::params::Params;
use crate::rng::Rng;
use crate::time::Ts;
use crate::tx::{
    Child, Coverage, Done, FanOut, FireDue, Inventory, MAX_PARTITIONS, ReadCoverage, ReadSegments, RecordAdvance,
    SettleTrigger, Settlement, TakeTrigger, TriggerTaken, Tx, TxError,
};
use draft::Part;
use pace::Pace;
use part::{Decision, Room};

pub use draft::{Draft, Quota, Refresh, Span};
pub use slice::{Budget, MAX_DURATION_SECS, MAX_REQUESTS, Note, Phase, Shape, SliceForm, trigger_component};

#[derive(Clone, Debug)]
pub struct Options {
    pub owner: String,
    pub lease: Duration,
    /// How long to wait when there is nothing to plan and nobody calls.
    pub idle_poll: Duration,
    /// QUEUED tasks per partition above which no more are emitted (G-07).
    pub inventory: u32,
    /// How long a trigger waits for the inventory to fall, at most.
    pub inventory_wait: Duration,
    /// Most partitions of one trigger.
    pub max_partitions: u32,
}

impl Options {
    pub fn new(owner: impl Into<String>) -> Options {
        Options {
            owner: owner.into(),
            lease: Duration::from_secs(60),
            idle_poll: Duration::from_secs(1),
            inventory: 1_000,
            inventory_wait: Duration::from_secs(1),
            max_partitions: MAX_PARTITIONS,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Want {
    Tx(Tx),
    /// Compile the registry for this trigger, or load the snapshot of its open plan.
    Compile(Box<TriggerTaken>),
    /// Tasks were queued: wake the executor, if there is one in this process.
    Queued,
}

#[derive(Debug)]
pub enum Got {
    Tx(Result<Done, TxError>),
    /// What was made of the trigger, or why nothing was.
    Compiled(Result<Compiled, NotCompiled>),
}

#[derive(Clone, Debug)]
pub enum Compiled {
    /// To be planned.
    Plan(Box<Draft>),
    /// Some of its partitions are not bound yet.
    Fan(Fan),
}

/// The next partitions of a trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fan {
    /// At most [`crate::tx::MAX_CHILDREN`]; each binds what the trigger binds, and all partition params.
    pub partitions: Vec<Params>,
    /// How far they have been gone through.
    pub place: String,
    /// Values so far that fit no partition.
    pub skipped: u32,
    /// These are the last.
    pub complete: bool,
}

/// Why a trigger has no draft.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotCompiled {
    /// It never will: a sentence for the person who asked.
    Refused(String),
    /// The store did not answer; it may the next time.
    Away(TxError),
}

impl From<TxError> for NotCompiled {
    fn from(error: TxError) -> NotCompiled {
        if error.is_transient() { NotCompiled::Away(error) } else { NotCompiled::Refused(error.to_string()) }
    }
}

impl From<String> for NotCompiled {
    fn from(reason: String) -> NotCompiled {
        NotCompiled::Refused(reason)
    }
}

impl From<&str> for NotCompiled {
    fn from(reason: &str) -> NotCompiled {
        NotCompiled::Refused(reason.to_owned())
    }
}

#[derive(Debug)]
pub struct Planner {
    options: Options,
    rng: Rng,
    stage: Stage,
    /// When triggers are looked for next.
    next_take: Ts,
    /// When schedules are looked at next: at the next due time that is known, and now and then for new ones.
    next_fire: Ts,
    /// Inventories that were found full, and until when their triggers are left alone.
    full: Vec<(Inventory, Ts)>,
    pace: Pace,
    /// When triggers that were put off may be taken again.
    resumes: Vec<Ts>,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Firing,
    Taking,
    Compiling(Box<TriggerTaken>),
    FanningOut(Box<TriggerTaken>),
    /// Reading what is covered; `settled` once the cursor has been brought up to its prefix.
    Reading {
        job: Job,
        settled: bool,
    },
    Settling {
        job: Job,
        advance: Advance,
    },
    /// Looking at what the quota has left.
    Budgeting {
        job: Job,
        coverage: Box<Coverage>,
    },
    /// Asking which ids are wanted.
    Asking {
        job: Job,
        asked: Box<ReadSegments>,
        note: Note,
        epoch: i64,
        next_ordinal: i64,
    },
    Saving {
        job: Job,
        again: Option<Duration>,
    },
    Deciding {
        again: Option<Duration>,
    },
}

impl Stage {
    /// The trigger at hand, as long as nobody has said what becomes of it.
    fn into_trigger(self) -> Option<Box<TriggerTaken>> {
        match self {
            Stage::Idle | Stage::Firing | Stage::Taking | Stage::Deciding { .. } => None,
            Stage::Compiling(trigger) | Stage::FanningOut(trigger) => Some(trigger),
            Stage::Reading { job, .. }
            | Stage::Settling { job, .. }
            | Stage::Budgeting { job, .. }
            | Stage::Asking { job, .. }
            | Stage::Saving { job, .. } => Some(job.trigger),
        }
    }
}

/// A trigger with its draft.
#[derive(Debug)]
struct Job {
    trigger: Box<TriggerTaken>,
    draft: Box<Draft>,
    /// Times that another planner was faster.
    conflicts: u8,
    /// When the rest is worth a look, if this is not all.
    wait: Duration,
    /// How many wait in the inventory.
    queued: u32,
}

const MAX_CONFLICTS: u8 = 5;

/// So many times as long a trigger is put off whose statements take the store too long.
const OVERLOADED: u32 = 10;

/// Full inventories, and triggers put off, that are remembered; the triggers of any more are taken and put off one by one.
const MAX_FULL: usize = 64;

/// A quota that is used up is looked at again after this at the latest: somebody may have declared a larger one.
const LONGEST_QUOTA_WAIT: Duration = Duration::from_secs(300);

impl Planner {
    pub fn new(options: Options, rng: Rng, now: Ts) -> Planner {
        Planner {
            options,
            rng,
            stage: Stage::Idle,
            next_take: now,
            next_fire: now,
            full: Vec::new(),
            pace: Pace::default(),
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
            self.stage = Stage::Firing;
            self.next_fire = now + self.rng.around(self.options.idle_poll);
            wants.push(Want::Tx(FireDue { limit: 100 }.into()));
        }
    }

    pub fn wake_at(&self) -> Ts {
        if self.is_idle() { self.next_take.min(self.next_fire) } else { Ts::MAX }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// A trigger may be waiting: do not sleep on.
    pub fn nudge(&mut self, now: Ts) {
        self.next_take = self.next_take.min(now);
    }

    /// A schedule may be due.
    pub fn nudge_schedules(&mut self, now: Ts) {
        self.next_fire = self.next_fire.min(now);
    }

    pub fn on(&mut self, now: Ts, got: Got, wants: &mut Vec<Want>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Idle);
        match (stage, got) {
            (stage, Got::Tx(Err(error))) => self.on_error(now, stage, &error, wants),
            (Stage::Firing, Got::Tx(Ok(Done::FireDue(fired)))) => {
                // What is due still when nothing was fired is somebody else's, or waits for its last trigger.
                if let Some(due) = fired.next_due.filter(|due| fired.fired > 0 || *due > fired.now) {
                    self.next_fire = self.next_fire.min(now + due.since(fired.now));
                }
                if fired.fired > 0 || now >= self.next_take {
                    self.take(now, wants);
                }
            }
            (Stage::Taking, Got::Tx(Ok(Done::TakeTrigger(Some(trigger))))) => {
                wants.push(Want::Compile(trigger.clone()));
                self.stage = Stage::Compiling(trigger);
            }
            (Stage::Taking, Got::Tx(Ok(Done::TakeTrigger(None)))) => self.sleep(now),
            (Stage::Compiling(trigger), Got::Compiled(Ok(Compiled::Plan(draft)))) => {
                self.read(
                    Job { trigger, draft, conflicts: 0, wait: self.options.inventory_wait, queued: 0 },
                    false,
                    wants,
                );
            }
            (Stage::Compiling(trigger), Got::Compiled(Ok(Compiled::Fan(fan)))) => {
                wants.push(Want::Tx(Arc::new(fan.of(&trigger, &self.options)).into()));
                self.stage = Stage::FanningOut(trigger);
            }
            (Stage::Compiling(trigger), Got::Compiled(Err(NotCompiled::Refused(error)))) => {
                self.settle(&trigger, Settlement::Refused { error }, wants);
            }
            (Stage::Compiling(trigger), Got::Compiled(Err(NotCompiled::Away(_)))) => {
                self.settle(&trigger, Settlement::Later { delay: self.options.inventory_wait }, wants);
            }
            (Stage::Reading { job, settled }, Got::Tx(Ok(Done::ReadCoverage(coverage)))) => {
                self.on_coverage(now, job, settled, &coverage, wants);
            }
            (Stage::Asking { job, asked, note, epoch, next_ordinal }, Got::Tx(Ok(Done::ReadSegments(segments)))) => {
                match part::of_segments(&job, &asked, note, segments, epoch, next_ordinal) {
                    Ok(part) => self.save(job, part, wants),
                    Err(settlement) => self.settle(&job.trigger, settlement, wants),
                }
            }
            (Stage::Settling { job, mut advance }, Got::Tx(answer)) => match advance.on(answer) {
                advance::Step::Tx(tx) => {
                    wants.push(Want::Tx(tx));
                    self.stage = Stage::Settling { job, advance };
                }
                // Whether it moved or not: what is covered is read again from where the cursor stands now.
                advance::Step::Done { .. } | advance::Step::GaveUp(_) => self.read(job, true, wants),
            },
            (Stage::Budgeting { job, coverage }, Got::Tx(Ok(Done::AskGate(answer)))) => {
                let operation = job.draft.shape.operation;
                let frees = Quota::frees_at(&answer.view, operation).map(|at| at.since(answer.now));
                self.decide(now, job, &coverage, Quota::budget(&answer.view, operation), frees, wants);
            }
            (Stage::Saving { job, again }, Got::Tx(Ok(Done::SavePlan(saved)))) => {
                if saved.created > 0 {
                    wants.push(Want::Queued);
                }
                if again.is_some() {
                    let left = job.queued.saturating_add(saved.created);
                    self.pace.left(job.trigger.inventory(), left, now, self.options.inventory_wait);
                }
                self.put_off(now, again);
                self.take(now, wants);
            }
            (Stage::FanningOut(_), Got::Tx(Ok(Done::FanOut(_)))) => self.take(now, wants),
            (Stage::Deciding { again }, Got::Tx(Ok(Done::SettleTrigger(_)))) => {
                self.put_off(now, again);
                self.take(now, wants);
            }
            // An answer of the wrong kind is a bug of the shell or the store; the lease on the trigger runs out and the
            // work is taken up again.
            _ => self.sleep(now),
        }
    }

    /// A transaction failed. Nothing is lost in any case: the trigger is put off, or its lease runs out and it is taken again.
    fn on_error(&mut self, now: Ts, stage: Stage, error: &TxError, wants: &mut Vec<Want>) {
        match (stage, error) {
            (Stage::Saving { mut job, .. }, TxError::Conflict) if job.conflicts < MAX_CONFLICTS => {
                job.conflicts += 1;
                self.read(job, true, wants);
            }
            (Stage::Settling { job, .. }, _) => self.read(job, true, wants),
            // Somebody else has this trigger, or has planned it: on to the next.
            (_, TxError::Fenced) => self.take(now, wants),
            (Stage::FanningOut(trigger), TxError::Refused(reason)) => {
                self.settle(&trigger, Settlement::Refused { error: reason.clone() }, wants);
            }
            (Stage::Saving { job, .. }, TxError::Refused(reason)) => {
                let error = format!("the plan cannot be stored: {reason}");
                self.settle(&job.trigger, Settlement::Refused { error }, wants);
            }
            // What the store refuses once it refuses again: not before the lease has run out.
            (_, TxError::Refused(_)) => self.sleep(now),
            (stage, _) => match stage.into_trigger() {
                // Whoever waits for it must not wait for the lease. A store that has no time for it gets some.
                Some(trigger) => {
                    let is_overloaded = matches!(error, TxError::Unavailable(_));
                    let wait = self.options.inventory_wait * if is_overloaded { OVERLOADED } else { 1 };
                    let delay = self.rng.around(wait);
                    self.settle(&trigger, Settlement::Later { delay }, wants);
                }
                None => self.sleep(now),
            },
        }
    }

    fn on_coverage(&mut self, now: Ts, job: Job, settled: bool, coverage: &Coverage, wants: &mut Vec<Want>) {
        // First bring the cursor up to its completed prefix: a crash may have left it behind (C-13).
        if let (Some(cursor), false) = (coverage.cursor, settled) {
            let (advance, step) = Advance::start(RecordAdvance { cursor, cause: None, observed_max: None });
            if let advance::Step::Tx(tx) = step {
                wants.push(Want::Tx(tx));
            }
            self.stage = Stage::Settling { job, advance };
            return;
        }
        match &job.draft.quota {
            Some(quota) => {
                wants.push(Want::Tx(Arc::new(quota.look()).into()));
                self.stage = Stage::Budgeting { job, coverage: Box::new(coverage.clone()) };
            }
            None => self.decide(now, job, coverage, None, None, wants),
        }
    }

    /// `frees`: when a quota that is used up lets more in.
    fn decide(
        &mut self,
        now: Ts,
        mut job: Job,
        coverage: &Coverage,
        budget: Option<u64>,
        frees: Option<Duration>,
        wants: &mut Vec<Want>,
    ) {
        let limit = job.draft.inventory.unwrap_or(self.options.inventory);
        let longest = self.options.inventory_wait;
        let wait = match frees {
            Some(frees) => frees.min(LONGEST_QUOTA_WAIT).max(longest),
            None => self.pace.wait(&job.trigger.inventory(), coverage.queued, limit, now, longest),
        };
        (job.wait, job.queued) = (wait, coverage.queued);
        let room = limit.saturating_sub(coverage.queued);
        let room = Room { slices: room, budget, wait };
        match part::decide(&job, coverage, &room) {
            Decision::Save(part) => self.save(job, part, wants),
            Decision::Ask(asked, note) => {
                wants.push(Want::Tx(asked.clone().into()));
                let (epoch, next_ordinal) = (coverage.epoch, coverage.next_ordinal);
                self.stage = Stage::Asking { job, asked: Box::new(asked), note, epoch, next_ordinal };
            }
            Decision::Settle(settlement) => {
                if let Settlement::Later { delay } = settlement {
                    let inventory = job.trigger.inventory();
                    self.pace.left(inventory.clone(), coverage.queued, now, self.options.inventory_wait);
                    if self.full.len() < MAX_FULL {
                        self.full.push((inventory, now + delay));
                    }
                }
                self.settle(&job.trigger, settlement, wants);
            }
        }
    }

    fn save(&mut self, job: Job, part: Part, wants: &mut Vec<Want>) {
        let save = job.draft.save(&job.trigger, part, job.wait);
        let again = (!save.complete).then_some(job.wait);
        wants.push(Want::Tx(Arc::new(save).into()));
        self.stage = Stage::Saving { job, again };
    }

    fn take(&mut self, now: Ts, wants: &mut Vec<Want>) {
        self.full.retain(|(_, until)| *until > now);
        let full = self.full.iter().map(|(inventory, _)| inventory.clone()).collect();
        let take = TakeTrigger { owner: self.options.owner.clone(), lease: self.options.lease, full };
        wants.push(Want::Tx(take.into()));
        self.stage = Stage::Taking;
    }

    fn read(&mut self, job: Job, settled: bool, wants: &mut Vec<Want>) {
        wants.push(Want::Tx(ReadCoverage { cursor: job.draft.cursor.clone() }.into()));
        self.stage = Stage::Reading { job, settled };
    }

    fn settle(&mut self, trigger: &TriggerTaken, settlement: Settlement, wants: &mut Vec<Want>) {
        let (instance, fence) = trigger.lease();
        let again = if let Settlement::Later { delay } = settlement { Some(delay) } else { None };
        wants.push(Want::Tx(SettleTrigger { instance, fence, settlement }.into()));
        self.stage = Stage::Deciding { again };
    }

    /// The store has just written that a trigger may be taken again after so long.
    fn put_off(&mut self, now: Ts, again: Option<Duration>) {
        if let Some(again) = again
            && self.resumes.len() < MAX_FULL
        {
            self.resumes.push(now + again + LATER);
        }
    }

    fn sleep(&mut self, now: Ts) {
        self.stage = Stage::Idle;
        self.resumes.retain(|at| *at > now);
        let idle = now + self.rng.around(self.options.idle_poll);
        self.next_take = self.resumes.iter().fold(idle, |first, at| first.min(*at));
    }
}

impl Fan {
    fn of(self, trigger: &TriggerTaken, options: &Options) -> FanOut {
        let (instance, fence) = trigger.lease();
        FanOut {
            instance,
            fence,
            children: self.partitions.iter().map(|partition| Child::of(&trigger.public_id, partition)).collect(),
            place: self.place,
            skipped: self.skipped,
            complete: self.complete,
            limit: options.max_partitions,
            wait: options.inventory_wait,
        }
    }
}

#[cfg(test)]
mod tests;

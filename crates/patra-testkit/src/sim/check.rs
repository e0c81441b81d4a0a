//! What must always hold, checked after every transaction against the tables themselves. It keeps a copy of the little
//! that it needs of the state before, so a check costs about as much as what changed.

mod control;
mod marks;
mod plan;
mod segment;

use std::time::Duration;

use patra_core::paging::Position;
use patra_core::record::{RecordVersion, RejectedRecord};
use patra_core::state::{BatchStatus, JobStatus, RunStatus, TaskStatus};
use patra_core::tx::{CommitBatch, Done, LeaseRef, Tx, TxError};
use patra_core::{ClockStep, Fence, PauseId, RunId, Ts};

use super::api::{MockApi, number};
use super::partition::of_cursor;
use crate::memory::{Batch, Event, Instance, MemStore, Task};
pub(super) use control::stops;
pub(super) use plan::completed;
use plan::{reach, within_prefix};
use segment::is_new;

/// Description of a violated rule.
pub(super) type Broken = String;

#[derive(Debug, Default)]
pub(super) struct Checker {
    tasks: Vec<TaskState>,
    triggers: Vec<TriggerState>,
    batches: usize,
    /// Sum of `inserted` over the SUCCEEDED rows of the ledger.
    inserted: usize,
    /// Position of the newest event per cursor, in the direction of the cursor.
    events: Vec<i64>,
    /// Per cursor: positions of its value and of its newest event.
    cursors: Vec<(Option<i64>, Option<i64>)>,
    versions: Vec<RecordVersion>,
    /// Index in `items` by the number of the record.
    item_of: Vec<Option<usize>>,
    quarantined: Vec<(usize, Ts)>,
    /// Active pauses and halts.
    stops: Vec<PauseId>,
    /// When each slice was planned, by the time of the upstream; whether each item is marked as missing.
    marks: (Vec<Ts>, Vec<bool>),
    max_attempts: u32,
    /// Whether the store's clock is set back in this world.
    pub(super) steps: bool,
    /// The latest time that the store's clock showed before it was set back.
    pub(super) set_back_from: Ts,
}

/// The state of a task at the last check.
#[derive(Clone, Copy, Debug)]
struct TaskState {
    status: TaskStatus,
    fence: Fence,
    until: Option<Ts>,
    attempts: u32,
    /// Index of the last SUCCEEDED batch in the ledger.
    last_batch: Option<usize>,
    last_attempt: i64,
}

/// The state of a trigger at the last check.
#[derive(Clone, Copy, Debug)]
struct TriggerState {
    status: JobStatus,
    fence: Fence,
    until: Option<Ts>,
}

/// The state of a caller that is compared before and after a transaction.
struct Caller {
    lease: Option<LeaseRef>,
    stale: bool,
}

impl Checker {
    /// A checker for a new world that reuses the memory of this one.
    pub(super) fn renewed(mut self, max_attempts: u32) -> Checker {
        self.tasks.clear();
        self.triggers.clear();
        self.events.clear();
        self.cursors.clear();
        self.versions.clear();
        self.item_of.clear();
        self.quarantined.clear();
        self.stops.clear();
        self.marks.0.clear();
        self.marks.1.clear();
        Checker { max_attempts, batches: 0, inserted: 0, steps: false, set_back_from: Ts::MIN, ..self }
    }

    /// A sweep is about to move the leases with the clock.
    pub(super) fn follow(&mut self, step: ClockStep, longest: Duration) {
        let tasks = self.tasks.iter_mut().map(|seen| &mut seen.until);
        for until in tasks.chain(self.triggers.iter_mut().map(|seen| &mut seen.until)) {
            *until = until.map(|at| step.lease_until(at, longest));
        }
    }

    /// The newest cursor events and values are lost: nothing else depends on them.
    pub(super) fn forget(&mut self, mem: &MemStore) -> Result<(), Broken> {
        self.events.truncate(mem.events.len());
        self.cursors.clear();
        for row in &mem.cursors {
            self.cursors.push((row.value.as_ref().map(|mark| reach(row, mark)), None));
        }
        for event in &mem.events {
            let at = event.cursor.0 as usize - 1;
            self.cursors[at].1 = Some(reach(&mem.cursors[at], &event.value));
        }
        self.check_ledger(mem, &Caller { lease: None, stale: false })
    }

    /// Checks the tables after a transaction. `now` is the time of the store, `truly` that of the upstream.
    pub(super) fn after(
        &mut self,
        mem: &MemStore,
        now: Ts,
        truly: Ts,
        tx: &Tx,
        result: &Result<Done, TxError>,
        api: &MockApi,
    ) -> Result<(), Broken> {
        let caller = self.caller(tx);
        if caller.stale && result.is_ok() && !matches!(tx, Tx::EndRun(_)) {
            return Err(format!("fenced: {} with a stale fence was accepted", tx.name()));
        }
        self.check_split(mem, tx)?;
        self.check_done(mem, truly, tx, api)?;
        self.check_control(mem, tx, result)?;
        self.check_tasks(mem, now, tx, &caller)?;
        self.check_ledger(mem, &caller)?;
        self.check_items(mem, now, tx, result)?;
        self.check_triggers(mem, now, tx, result)?;
        self.check_events(mem)?;
        self.check_cursors(mem, truly, tx, api)?;
        self.check_marking(mem, truly, tx, api)?;
        self.check_plan(mem, tx, result)
    }

    /// The fence that the transaction carries, and whether it is the task's.
    fn caller(&self, tx: &Tx) -> Caller {
        let lease = match tx {
            Tx::StartRun(op) => op.lease,
            Tx::EndRun(op) => op.lease,
            Tx::MarkMissing(op) => op.lease,
            tx => match tx.pages().first() {
                Some(op) => op.lease,
                None => return Caller { lease: None, stale: false },
            },
        };
        let seen = self.tasks.get(lease.task.0 as usize - 1);
        let stale = seen.is_none_or(|seen| seen.fence != lease.fence || seen.until.is_none());
        Caller { lease: Some(lease), stale }
    }

    fn check_tasks(&mut self, mem: &MemStore, now: Ts, tx: &Tx, caller: &Caller) -> Result<(), Broken> {
        for (at, task) in mem.tasks.iter().enumerate() {
            let until = task.lease.as_ref().map(|(_, until)| *until);
            let Some(seen) = self.tasks.get(at).copied() else {
                self.check_new_task(mem, tx, task)?;
                self.tasks.push(TaskState {
                    status: task.status,
                    fence: task.fence,
                    until,
                    attempts: task.attempts,
                    last_batch: None,
                    last_attempt: 0,
                });
                continue;
            };
            let same = seen.status == task.status
                && seen.fence == task.fence
                && seen.until == until
                && seen.attempts == task.attempts;
            if same {
                continue;
            }
            self.check_change(mem, now, tx, caller, seen, task)?;
            let row = &mut self.tasks[at];
            (row.status, row.fence, row.until, row.attempts) = (task.status, task.fence, until, task.attempts);
        }
        Ok(())
    }

    fn check_change(
        &self,
        mem: &MemStore,
        now: Ts,
        tx: &Tx,
        caller: &Caller,
        seen: TaskState,
        task: &Task,
    ) -> Result<(), Broken> {
        let id = task.id;
        let until = task.lease.as_ref().map(|(_, until)| *until);
        if caller.lease.is_some_and(|lease| lease.task != id || caller.stale) {
            return Err(format!("fenced: {} of {:?} changed task {id}", tx.name(), caller.lease));
        }
        if seen.status != task.status && !seen.status.may_become(task.status) || seen.status.is_final() {
            return Err(format!("states: task {id} went from {} to {}", seen.status, task.status));
        }
        let claimed = matches!(tx, Tx::ClaimTasks(_));
        if claimed && (task.fence <= seen.fence || task.status != TaskStatus::Dispatched) {
            return Err(format!("fences rise: task {id} was claimed under fence {}", task.fence));
        }
        if !claimed && task.fence != seen.fence {
            return Err(format!("fences rise: {} changed the fence of task {id}", tx.name()));
        }
        if claimed && task.scheduled_at > now {
            return Err(format!("not before: task {id} was claimed ahead of its time"));
        }
        if claimed && seen.until.is_some_and(|until| until > now) {
            return Err(format!("one live lease: task {id} was claimed while it was leased"));
        }
        if claimed && until.is_none_or(|until| until <= now) {
            return Err(format!("one live lease: task {id} was claimed with a lease that is over"));
        }
        match (seen.until, until) {
            (Some(old), None) if caller.lease.is_none() && old > now && !matches!(tx, Tx::CancelWork(_)) => {
                return Err(format!("one live lease: {} took task {id} from its living holder", tx.name()));
            }
            (Some(old), Some(new)) if old != new && !claimed && (!matches!(tx, Tx::Renew(_)) || old <= now) => {
                return Err(format!("one live lease: {} brought the lease of task {id} back to life", tx.name()));
            }
            // A renewal after the clock was set back, before a sweep has noticed it.
            (Some(old), Some(new)) if new < old && !self.steps => {
                return Err(format!("one live lease: {} shortened the lease of task {id}", tx.name()));
            }
            _ => {}
        }
        if task.attempts > self.max_attempts {
            return Err(format!("attempts bounded: task {id} is at its attempt {}", task.attempts));
        }
        if claimed && task.attempts != seen.attempts + 1 {
            return Err(format!("attempts bounded: the claim of task {id} was not counted"));
        }
        if seen.status != task.status {
            self.check_run_of(mem, task)?;
        }
        if task.status == TaskStatus::Succeeded && task.what.segment.is_some() {
            return self.check_segment(mem, task);
        }
        if task.status == TaskStatus::Succeeded {
            let last = self.tasks[id.0 as usize - 1].last_batch.map(|at| &mem.batches[at]);
            if last.is_none_or(|last| last.next.is_some()) {
                return Err(format!("no gap: task {id} succeeded without its last page"));
            }
        }
        Ok(())
    }

    /// A run is open exactly while its task is EXECUTING under its fence.
    fn check_run_of(&self, mem: &MemStore, task: &Task) -> Result<(), Broken> {
        let run = task.runs.last().map(|run| &mem.runs[run.0 as usize - 1]);
        let open = run.is_some_and(|run| run.status == RunStatus::Running);
        let own = run.is_some_and(|run| run.attempt_no == task.fence.0);
        let executing = task.status == TaskStatus::Executing;
        if open != executing || executing && !own {
            return Err(format!("states: task {} is {} and its run is open: {open}", task.id, task.status));
        }
        Ok(())
    }

    fn check_ledger(&mut self, mem: &MemStore, caller: &Caller) -> Result<(), Broken> {
        if mem.batches.len() < self.batches {
            return Err("ledger: a row went away".to_owned());
        }
        for at in self.batches..mem.batches.len() {
            self.check_batch(mem, caller, at, &mem.batches[at])?;
        }
        self.batches = mem.batches.len();
        if self.inserted != mem.items.len() {
            return Err(format!(
                "no double effect: {} inserted by the ledger, {} items",
                self.inserted,
                mem.items.len()
            ));
        }
        Ok(())
    }

    fn check_batch(&mut self, mem: &MemStore, caller: &Caller, at: usize, batch: &Batch) -> Result<(), Broken> {
        let attempt = mem.runs[batch.run.0 as usize - 1].attempt_no;
        let seen = &mut self.tasks[batch.task.0 as usize - 1];
        if caller.stale || caller.lease != Some(LeaseRef { task: batch.task, fence: Fence(attempt) }) {
            return Err(format!(
                "fenced: batch {} of run {} was written by {:?}",
                batch.batch_no, batch.run, caller.lease
            ));
        }
        if attempt < seen.last_attempt {
            return Err(format!("fenced: task {} has a batch of attempt {attempt} after a later one", batch.task));
        }
        let before = mem.batches[..at].iter().filter(|other| other.run == batch.run).count();
        if batch.batch_no as usize != before + 1 {
            return Err(format!("ledger: batch {} of run {} follows {before} others", batch.batch_no, batch.run));
        }
        if batch.status != BatchStatus::Succeeded {
            return Ok(());
        }
        let behind = seen.last_batch.map(|last| &mem.batches[last].next);
        // Details have the position of the page that names them.
        let place = if let Position::Ids { at, .. } = &batch.position { at } else { &batch.position };
        if behind.is_some_and(|next| next.as_ref() != Some(place)) {
            return Err(format!("no gap: task {} went on at {:?} after {behind:?}", batch.task, batch.position));
        }
        seen.last_attempt = attempt;
        seen.last_batch = Some(at);
        self.inserted += batch.stats.inserted as usize;
        Ok(())
    }

    fn check_items(&mut self, mem: &MemStore, now: Ts, tx: &Tx, result: &Result<Done, TxError>) -> Result<(), Broken> {
        for (at, item) in mem.items.iter().enumerate().skip(self.versions.len()) {
            let Some(number) = number(&item.key) else { return Err(format!("an item `{}` from nowhere", item.key)) };
            if self.item_of.len() <= number {
                self.item_of.resize(number + 1, None);
            }
            if self.item_of[number].replace(at).is_some() {
                return Err(format!("no double effect: item {} exists twice", item.key));
            }
            self.versions.push(item.version);
        }
        for row in mem.quarantine.iter().skip(self.quarantined.len()) {
            let Some(place) = place(&row.what) else { return Err("a quarantined record from nowhere".to_owned()) };
            self.quarantined.push(place);
        }
        if result.is_err() {
            return Ok(());
        }
        for op in tx.pages() {
            if !op.checked.is_empty() && is_new(result) {
                self.check_tries(mem, now, op)?;
            }
            self.check_page(mem, op)?;
        }
        Ok(())
    }

    /// A committed page is stored completely, and no item became older.
    fn check_page(&mut self, mem: &MemStore, op: &CommitBatch) -> Result<(), Broken> {
        for record in &op.records {
            let at = number(&record.key).and_then(|number| self.item_of.get(number).copied().flatten());
            let Some(at) = at else { return Err(format!("no gap: {} was committed and is not stored", record.key)) };
            let version = mem.items[at].version;
            if version < record.version || version < self.versions[at] {
                return Err(format!("no gap: {} is older than what was committed", record.key));
            }
            self.versions[at] = version;
        }
        for rejected in &op.rejected {
            if !place(rejected).is_some_and(|place| self.quarantined.contains(&place)) {
                return Err(format!("no gap: rejected {:?} is not in quarantine", rejected.key));
            }
        }
        Ok(())
    }

    fn check_triggers(
        &mut self,
        mem: &MemStore,
        now: Ts,
        tx: &Tx,
        result: &Result<Done, TxError>,
    ) -> Result<(), Broken> {
        let carried = match tx {
            Tx::SavePlan(op) => Some((op.job, op.fence)),
            Tx::SettleJob(op) => Some((op.job, op.fence)),
            Tx::FanOut(op) => Some((op.job, op.fence)),
            _ => None,
        };
        if let (Some((id, fence)), Ok(_)) = (carried, result) {
            let seen = self.triggers[id.0 as usize - 1];
            if seen.fence != fence || seen.until.is_none() || seen.status.is_final() {
                return Err(format!("fenced: {} with a stale fence was accepted for trigger {id}", tx.name()));
            }
        }
        for (at, row) in mem.instances.iter().enumerate() {
            let until = row.lease.as_ref().map(|(_, until)| *until);
            let new = TriggerState { status: row.status, fence: row.fence, until };
            let Some(seen) = self.triggers.get(at).copied() else {
                if mem.instances[..at].iter().any(|other| other.public_id == row.public_id) {
                    return Err(format!("no double effect: two triggers are called {}", row.public_id));
                }
                let twin = |other: &&Instance| other.parent == row.parent && other.params == row.params;
                if row.parent.is_some() && mem.instances[..at].iter().any(|other| twin(&other)) {
                    return Err(format!("no double effect: {:?} has made {} twice", row.parent, row.params));
                }
                self.triggers.push(new);
                continue;
            };
            if seen.status != row.status && !seen.status.may_become(row.status) || row.fence < seen.fence {
                return Err(format!("states: trigger {} went from {} to {}", row.id, seen.status, row.status));
            }
            if row.fence != seen.fence && seen.until.is_some_and(|until| until > now) {
                return Err(format!("one live lease: trigger {} was claimed while it was leased", row.id));
            }
            self.triggers[at] = new;
        }
        Ok(())
    }

    fn check_events(&mut self, mem: &MemStore) -> Result<(), Broken> {
        let reach = |event: &Event| reach(&mem.cursors[event.cursor.0 as usize - 1], &event.value);
        let kept = mem.events.len() >= self.events.len()
            && self.events.last().is_none_or(|last| reach(&mem.events[self.events.len() - 1]) == *last);
        if !kept {
            return Err("event before value: an event was lost or changed".to_owned());
        }
        for event in &mem.events[self.events.len()..] {
            let at = event.cursor.0 as usize - 1;
            if self.cursors.len() <= at {
                self.cursors.resize(at + 1, (None, None));
            }
            let (newest, new) = (&mut self.cursors[at].1, reach(event));
            if newest.is_some_and(|newest| new <= newest) {
                return Err(format!("cursor monotonic: an event of {:?} follows {newest:?}", event.value));
            }
            *newest = Some(new);
            self.events.push(new);
            within_prefix(mem, at, &event.value)?;
        }
        Ok(())
    }

    fn check_cursors(&mut self, mem: &MemStore, now: Ts, tx: &Tx, api: &MockApi) -> Result<(), Broken> {
        for (at, row) in mem.cursors.iter().enumerate() {
            if self.cursors.len() <= at {
                self.cursors.push((None, None));
            }
            let (value, newest) = &mut self.cursors[at];
            let reached = row.value.as_ref().map(|mark| reach(row, mark));
            if *value == reached {
                continue;
            }
            if !matches!(tx, Tx::AdvanceCursor(op) if op.cursor == row.id) {
                return Err(format!("own progress: {} moved cursor {}", tx.name(), row.id));
            }
            let (Some(new), Some(mark)) = (reached.filter(|new| value.is_none_or(|old| old < *new)), &row.value) else {
                return Err(format!("cursor monotonic: cursor {} went from {value:?} to {:?}", row.id, row.value));
            };
            if newest.is_none_or(|newest| newest < new) {
                return Err(format!(
                    "event before value: cursor {} stands at {mark:?}, its event at {newest:?}",
                    row.id
                ));
            }
            let old = value.replace(new).map_or(row.began, |old| Some(Ts::from_micros(old.abs())));
            within_prefix(mem, at, mark)?;
            let partition = of_cursor(&row.name);
            if let (Some(old), Some(new), false) = (old, mark.instant(), api.empties && partition.is_some()) {
                self.check_no_gap(mem, api, now, partition, (old.min(new), old.max(new)), false)?;
            }
        }
        Ok(())
    }

    /// Every record that the upstream shows in `[from, to)` of the partition is stored or in quarantine. One that came
    /// late is found by the windows that are planned after that.
    pub(super) fn check_no_gap(
        &self,
        mem: &MemStore,
        api: &MockApi,
        now: Ts,
        partition: Option<usize>,
        (from, to): (Ts, Ts),
        late: bool,
    ) -> Result<(), Broken> {
        for (number, record) in api.records.iter().enumerate().filter(|(_, record)| record.partition == partition) {
            let Some(shown) = record.owed(now, late).filter(|shown| from <= shown.updated_at && shown.updated_at < to)
            else {
                continue;
            };
            let item = self.item_of.get(number).copied().flatten();
            let stored = item.is_some_and(|at| mem.items[at].version.updated_at >= shown.updated_at);
            let bad = record.bad && self.quarantined.contains(&(number, Ts::MAX));
            let named = || api.hides_moves && plan::is_unverified(mem, shown.updated_at, api.lookback);
            if !stored && !bad && !self.quarantined.contains(&(number, shown.updated_at)) && !named() {
                return Err(format!("no gap: r{number} of {:?} is missing below the cursor", shown.updated_at));
            }
        }
        Ok(())
    }

    /// Pages of this run in the ledger.
    pub(super) fn committed(&self, mem: &MemStore, run: RunId) -> usize {
        mem.runs[run.0 as usize - 1].batches.len()
    }
}

/// Number and version of a quarantined record; an id whose details are refused has no version.
fn place(rejected: &RejectedRecord) -> Option<(usize, Ts)> {
    let number = rejected.key.as_deref().and_then(number)?;
    Some((number, rejected.reason.parse().map_or(Ts::MAX, Ts::from_micros)))
}

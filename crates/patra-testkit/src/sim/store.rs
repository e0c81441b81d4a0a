//! The store of the simulated world: the in-memory store, unchanged or with one mutant.

use std::sync::Arc;
use std::time::Duration;

use patra_core::bounds::IdSegment;
use patra_core::cursor::{CursorValue, completed_end};
use patra_core::record::{DetailCandidate, RecordStream};
use patra_core::state::{Direction, Operation, RunStatus, TaskStatus};
use patra_core::tx::{
    BatchCommitted, CommitBatch, Done, EndRun, FanOut, LeaseRef, RemainingPlan, RunEnd, SavePlan, SettleJob, StartRun,
    Sweep, Tx, TxError,
};
use patra_core::{CursorId, RunId, Ts};

use super::Mutant;
use crate::memory::{Event, MemStore};

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) mem: MemStore,
    pub(super) mutant: Option<Mutant>,
}

impl Store {
    /// Runs one transaction at the database's time `now`; `local` is what the caller's clock shows.
    pub(super) fn apply(&mut self, now: Ts, local: Ts, tx: &Tx) -> Result<Done, TxError> {
        match self.mutant {
            None => self.mem.apply(now, tx),
            Some(mutant) => self.apply_wrongly(mutant, now, local, tx),
        }
    }

    fn apply_wrongly(&mut self, mutant: Mutant, now: Ts, local: Ts, tx: &Tx) -> Result<Done, TxError> {
        if let Some(done) = self.apply_with_marks(mutant, now, tx) {
            return done;
        }
        match (mutant, tx) {
            (Mutant::GroupLosesLast, Tx::CommitBatches(ops)) => {
                let Some((last, others)) = ops.split_last() else { return self.mem.apply(now, tx) };
                let mut done = self.mem.apply(now, &Arc::<[_]>::from(others).into())?.committed().to_vec();
                done.push(BatchCommitted { stats: last.stats, ..done[0] });
                Ok(Done::CommitBatches(done))
            }
            // A mutant of one page applies to each page of a group.
            (_, Tx::CommitBatches(ops)) => {
                let mut done = Vec::with_capacity(ops.len());
                for op in ops.iter() {
                    if let Done::CommitBatch(page) = self.apply_wrongly(mutant, now, local, &Arc::clone(op).into())? {
                        done.push(page);
                    }
                }
                Ok(Done::CommitBatches(done))
            }
            (Mutant::CommitUnfenced, Tx::CommitBatch(op)) => {
                let (lease, run) = self.current(op.lease, op.run);
                self.mem.apply(now, &Arc::new(CommitBatch { lease, run, ..(**op).clone() }).into())
            }
            (Mutant::EndUnfenced, Tx::EndRun(op)) => {
                let (lease, run) = self.current(op.lease, op.run);
                self.mem.apply(now, &Arc::new(EndRun { lease, run, ..(**op).clone() }).into())
            }
            (Mutant::StartUnfenced, Tx::StartRun(op)) => {
                let (lease, _) = self.current(op.lease, RunId(0));
                self.mem.apply(now, &StartRun { lease }.into())
            }
            (Mutant::SweepIgnoresExpiry, Tx::Sweep(op)) => {
                self.mem.apply(now, &Sweep { all_owners: true, ..*op }.into())
            }
            (Mutant::ClockStepIgnored, Tx::Sweep(_)) => {
                self.mem.seen_at = None;
                self.mem.apply(now, tx)
            }
            (Mutant::ClockStepForgetsQueue, Tx::Sweep(_)) => {
                let times: Vec<_> = self.mem.tasks.iter().map(|task| task.scheduled_at).collect();
                let done = self.mem.apply(now, tx);
                for (at, time) in times.into_iter().enumerate() {
                    self.mem.reschedule(at, time);
                }
                done
            }
            (Mutant::SweepIgnoresAttempts, Tx::Sweep(op)) => {
                self.mem.apply(now, &Sweep { max_attempts: u32::MAX, ..*op }.into())
            }
            (Mutant::DeathMarksAll, Tx::Sweep(_)) => {
                for task in self.mem.tasks.iter_mut().filter(|task| task.status == TaskStatus::Executing) {
                    task.suspect = true;
                }
                self.mem.apply(now, tx)
            }
            (Mutant::LeaseByLocalClock, Tx::ClaimTasks(_) | Tx::Renew(_) | Tx::Sweep(_)) => self.mem.apply(local, tx),
            (Mutant::LedgerWithoutRecords, Tx::CommitBatch(op)) => {
                self.mem.apply(now, &Arc::new(CommitBatch { records: Vec::new(), ..(**op).clone() }).into())
            }
            (Mutant::MarksWithoutRecords, Tx::CommitBatch(op)) if !op.marks.is_empty() => {
                self.mem.apply(now, &Arc::new(CommitBatch { records: Vec::new(), ..(**op).clone() }).into())
            }
            (Mutant::SplitLosesPart, Tx::EndRun(op)) => {
                let mut op = (**op).clone();
                if let RunEnd::Split { slices, .. } = &mut op.end {
                    slices.pop();
                }
                self.mem.apply(now, &Arc::new(op).into())
            }
            (Mutant::QuarantineLost, Tx::CommitBatch(op)) => {
                self.mem.apply(now, &Arc::new(CommitBatch { rejected: Vec::new(), ..(**op).clone() }).into())
            }
            (Mutant::FailureIsSuccess | Mutant::DeferralIsSuccess, Tx::EndRun(op)) => {
                let deferral = matches!(op.end, RunEnd::Requeue { counted: false, .. } | RunEnd::Partial { .. });
                let wrong = op.end != RunEnd::Succeeded && deferral == (mutant == Mutant::DeferralIsSuccess);
                let end = if wrong { RunEnd::Succeeded } else { op.end.clone() };
                self.mem.apply(now, &Arc::new(EndRun { end, ..(**op).clone() }).into())
            }
            (Mutant::PartialIsSuccess, Tx::EndRun(op)) if matches!(op.end, RunEnd::Partial { .. }) => {
                self.mem.apply(now, &Arc::new(EndRun { end: RunEnd::Succeeded, ..(**op).clone() }).into())
            }
            (Mutant::RequeueUncounted, Tx::EndRun(op)) => {
                let end = match &op.end {
                    RunEnd::Requeue { delay, error, .. } => {
                        RunEnd::Requeue { delay: *delay, error: error.clone(), counted: false }
                    }
                    end => end.clone(),
                };
                self.mem.apply(now, &Arc::new(EndRun { end, ..(**op).clone() }).into())
            }
            (Mutant::SaveUnfenced, Tx::SavePlan(op)) => {
                let fence = self.mem.instances[op.job.0 as usize - 1].fence;
                self.mem.apply(now, &Arc::new(SavePlan { fence, ..(**op).clone() }).into())
            }
            (Mutant::FanUnfenced, Tx::FanOut(op)) => {
                let fence = self.mem.instances[op.job.0 as usize - 1].fence;
                self.mem.apply(now, &Arc::new(FanOut { fence, ..(**op).clone() }).into())
            }
            (Mutant::FanLosesPartitions, Tx::FanOut(op)) if !op.complete => {
                self.mem.apply(now, &Arc::new(FanOut { children: Vec::new(), ..(**op).clone() }).into())
            }
            (Mutant::PartitionTwice, Tx::FanOut(op)) => {
                let mut op = (**op).clone();
                for child in &mut op.children {
                    child.public_id = format!("{}/{}", child.public_id, op.fence);
                }
                self.mem.apply(now, &Arc::new(op).into())
            }
            (Mutant::SettleUnfenced, Tx::SettleJob(op)) => {
                let fence = self.mem.instances[op.job.0 as usize - 1].fence;
                self.mem.apply(now, &SettleJob { fence, ..op.clone() }.into())
            }
            (Mutant::TakeIgnoresLease, Tx::ClaimJob(_)) => {
                for trigger in &mut self.mem.instances {
                    trigger.lease = None;
                }
                self.mem.apply(now, tx)
            }
            (Mutant::TaskKeyWithoutState, Tx::SavePlan(op)) => {
                let mut op = (**op).clone();
                for slice in &mut op.slices {
                    slice.task_key.clone_from(&slice.signature);
                }
                self.mem.apply(now, &Arc::new(op).into())
            }
            (Mutant::EpochUnchecked, Tx::SavePlan(op)) => {
                let mut op = (**op).clone();
                op.epoch = self.mem.cursors.iter().find(|row| row.name == op.cursor).map_or(0, |row| row.epoch);
                self.mem.apply(now, &Arc::new(op).into())
            }
            (Mutant::RangeLeavesPageOut, Tx::EndRun(op)) => {
                let mut op = (**op).clone();
                if let RunEnd::Split { slices, .. } = &mut op.end
                    && slices.iter().all(|slice| slice.task_params.contains("\"pages\":"))
                    && slices.len() > 1
                {
                    slices.remove(0);
                }
                self.mem.apply(now, &Arc::new(op).into())
            }
            (Mutant::DoneTooFar, Tx::EndRun(op)) if op.done.is_some() => {
                let done = self.mem.tasks[op.lease.task.0 as usize - 1].what.window;
                self.mem.apply(now, &Arc::new(EndRun { done, ..(**op).clone() }).into())
            }
            (Mutant::RemainderTooShort, Tx::EndRun(op)) if op.done.is_some() => {
                let mut op = (**op).clone();
                if let RunEnd::Split { slices, .. } = &mut op.end {
                    for window in slices.iter_mut().filter_map(|slice| slice.window.as_mut()) {
                        window.from = (window.from + Duration::from_secs(1)).min(window.to);
                    }
                }
                self.mem.apply(now, &Arc::new(op).into())
            }
            (Mutant::HaltIgnored, Tx::EndRun(op)) => {
                self.mem.apply(now, &Arc::new(EndRun { pause: None, ..(**op).clone() }).into())
            }
            (Mutant::LooksAreLost, Tx::CommitBatch(op)) if !op.checked.is_empty() => {
                self.mem.apply(now, &Arc::new(CommitBatch { checked: Vec::new(), ..(**op).clone() }).into())
            }
            (Mutant::RefusalResolves, Tx::CommitBatch(op)) if !op.checked.is_empty() => {
                let mut op = (**op).clone();
                for checked in &mut op.checked {
                    checked.failed = None;
                }
                self.mem.apply(now, &Arc::new(op).into())
            }
            (Mutant::ClaimIgnoresPause, Tx::ClaimTasks(_)) | (Mutant::TakeIgnoresPause, Tx::ClaimJob(_)) => {
                let holds = std::mem::take(&mut self.mem.holds);
                let done = self.mem.apply(now, tx);
                self.mem.holds = holds;
                done
            }
            _ => {
                let done = self.mem.apply(now, tx);
                self.spoil(mutant, now, tx, done)
            }
        }
    }

    /// The ids among these that must be fetched.
    pub(super) fn screen(
        &self,
        now: Ts,
        stream: &RecordStream,
        candidates: &[DetailCandidate],
    ) -> Vec<DetailCandidate> {
        let mut wanted = self.mem.screen(now, stream, candidates);
        if self.mutant == Some(Mutant::ScreenForgetsVersions) {
            wanted.retain(|one| !self.mem.candidates.iter().any(|row| row.candidate.id == one.id));
        }
        wanted
    }

    /// The ids of the segment that must be fetched.
    pub(super) fn wanted(
        &self,
        stream: &RecordStream,
        segment: &IdSegment,
        after: Option<&str>,
        limit: u32,
    ) -> Vec<String> {
        let mut keys = self.mem.wanted(stream, &segment.criteria, &segment.range, after, limit);
        if self.mutant == Some(Mutant::UpdateForgetsId) && keys.len() > 1 {
            keys.pop();
        }
        keys
    }

    /// Applies mutants that act after the transaction.
    fn spoil(&mut self, mutant: Mutant, now: Ts, tx: &Tx, done: Result<Done, TxError>) -> Result<Done, TxError> {
        let mut done = done?;
        match (mutant, &mut done, tx) {
            (Mutant::FireTwice, Done::RequestJob(fired), _) if fired.existed => {
                let again = self.mem.instances[fired.job.0 as usize - 1].clone();
                self.mem.instances.push(again);
            }
            (Mutant::PartsStartOver, Done::ClaimJob(Some(taken)), _) => {
                if let Some(open) = &mut taken.plan
                    && let Some(whole) = self.mem.plans[open.plan.0 as usize - 1].window
                {
                    open.rest = RemainingPlan::Time(whole);
                }
            }
            (Mutant::FanForgetsPlace, Done::ClaimJob(Some(taken)), _) => taken.position = None,
            (Mutant::BackfillMovesHarvest, Done::AdvanceCursor(moved), Tx::AdvanceCursor(op)) if moved.moved => {
                let backfill = self.mem.cursors[op.cursor.0 as usize - 1].name.operation == Operation::Backfill;
                let harvest = self.mem.cursors.iter_mut().find(|row| row.name.operation == Operation::Harvest);
                if let (true, Some(harvest)) = (backfill, harvest) {
                    harvest.value = harvest.value.clone().max(Some(op.to.clone()));
                }
            }
            (Mutant::BackfillToMin, Done::RecordAdvance(at), Tx::RecordAdvance(op)) => {
                let done = self.mem.tasks.iter().filter(|task| task.status == TaskStatus::Succeeded);
                let own = done.filter(|task| task.cursor == op.cursor).filter_map(|task| task.what.window);
                let min = own.map(|window| CursorValue::At(window.from)).min();
                if at.direction == Direction::Backfill && (at.target.is_none() || min < at.target) {
                    at.target = min.clone();
                    self.append(op.cursor, min, now);
                }
            }
            (Mutant::BackfillRestAbove, Done::ClaimJob(Some(taken)), _) => {
                if let (Operation::Backfill, Some(open)) = (taken.operation, &mut taken.plan)
                    && let (Some(whole), RemainingPlan::Time(rest)) =
                        (self.mem.plans[open.plan.0 as usize - 1].window, &mut open.rest)
                {
                    *rest = patra_core::Window { from: rest.to, to: whole.to };
                }
            }
            (Mutant::DoneIsForgotten, Done::ReadCoverage(coverage), _) => {
                coverage.covered.retain(|window| !self.mem.tasks.iter().any(|task| task.done == Some(*window)));
            }
            (Mutant::RangesCountAlone, Done::RecordAdvance(at), Tx::RecordAdvance(op)) => {
                let own = self.mem.tasks.iter().filter(|task| task.cursor == op.cursor);
                let done = own.filter(|task| task.status == TaskStatus::Succeeded);
                let windows: Vec<_> = done.filter_map(|task| task.what.window).collect();
                let began = self.mem.cursors[op.cursor.0 as usize - 1].start();
                let end = began.map(|began| CursorValue::At(completed_end(at.direction, began, &windows)));
                if end.as_ref().is_some_and(|end| end.is_beyond(at.target.as_ref(), at.direction))
                    && end.as_ref().map(CursorValue::instant) != Some(began)
                {
                    at.target.clone_from(&end);
                    self.append(op.cursor, end, now);
                }
            }
            (Mutant::SegmentsLeaveHole, Done::ReadSegments(segments), _) => {
                if let [_, .., last] = &mut segments.ranges[..] {
                    last.after = Some(last.through.clone());
                }
            }
            (Mutant::SegmentsEndEarly, Done::ReadSegments(segments), _) => segments.more = false,
            (Mutant::RenewHidesPause, Done::Renew(renewed), _) => renewed.paused.clear(),
            (Mutant::SweepEndsPauses, Done::Sweep(_), _) => {
                for hold in self.mem.holds.values_mut() {
                    hold.released.get_or_insert((String::new(), now));
                }
            }
            (Mutant::CancelLeavesQueued, Done::CancelWork(cancelled), _) if cancelled.tasks > 0 => {
                if let Some(task) = self.mem.tasks.iter_mut().rev().find(|task| task.status == TaskStatus::Cancelled) {
                    task.status = TaskStatus::Queued;
                }
            }
            (Mutant::CancelledIsCovered, Done::ReadCoverage(coverage), _) => {
                let cancelled = self.mem.tasks.iter().filter(|task| task.status == TaskStatus::Cancelled);
                coverage.covered.extend(cancelled.filter_map(|task| task.what.window));
            }
            (Mutant::SweepReopensFinished, Done::Sweep(_), _) => {
                if let Some(task) = self.mem.tasks.iter_mut().find(|task| task.status == TaskStatus::Succeeded) {
                    task.status = TaskStatus::Queued;
                }
            }
            (Mutant::SweepLeavesRunOpen, Done::Sweep(swept), _) => {
                for task in &swept.requeued {
                    let Some(run) = self.mem.tasks[task.0 as usize - 1].runs.last() else { continue };
                    self.mem.runs[run.0 as usize - 1].status = RunStatus::Running;
                }
            }
            (Mutant::RenewRevives, Done::Renew(renewed), Tx::Renew(op)) => {
                for lease in &op.leases {
                    let task = &mut self.mem.tasks[lease.task.0 as usize - 1];
                    if let (true, false, Some((_, until))) =
                        (task.fence == lease.fence, renewed.held.contains(lease), &mut task.lease)
                    {
                        *until = now + op.lease;
                        renewed.held.push(*lease);
                    }
                }
            }
            (Mutant::ClaimKeepsFence, Done::ClaimTasks(claimed), _) => {
                for lease in claimed.leases.iter_mut().filter(|lease| lease.fence.0 > 1) {
                    lease.fence.0 -= 1;
                    self.mem.tasks[lease.task.0 as usize - 1].fence = lease.fence;
                }
            }
            (Mutant::ClaimUncounted, Done::ClaimTasks(claimed), _) => {
                for lease in &claimed.leases {
                    self.mem.tasks[lease.task.0 as usize - 1].attempts -= 1;
                }
            }
            (Mutant::CursorToMax, Done::RecordAdvance(at), Tx::RecordAdvance(op)) => {
                let done = self
                    .mem
                    .tasks
                    .iter()
                    .filter(|task| task.cursor == op.cursor && task.status == TaskStatus::Succeeded);
                let max = done.filter_map(|task| task.what.window).map(|window| CursorValue::At(window.to)).max();
                if at.direction == Direction::Forward && max > at.target {
                    at.target = max.clone();
                    self.append(op.cursor, max, now);
                }
            }
            (Mutant::ValueWithoutEvent, Done::RecordAdvance(_), _) => {
                self.mem.events.pop();
            }
            (Mutant::EventOverwritten, Done::RecordAdvance(_), _) => {
                if let Some(newest) = self.mem.events.pop() {
                    self.mem.events.pop();
                    self.mem.events.push(newest);
                }
            }
            (Mutant::CursorGoesBack, Done::AdvanceCursor(moved), Tx::AdvanceCursor(op)) => {
                self.mem.cursors[op.cursor.0 as usize - 1].value = Some(op.to.clone());
                moved.moved = true;
            }
            (Mutant::CommitTwice, Done::CommitBatch(committed), _) if committed.replayed => {
                let again = self.mem.batches[committed.batch.0 as usize - 1].clone();
                self.mem.batches.push(again);
            }
            (Mutant::RecordsWithoutLedger, Done::CommitBatch(committed), _) if !committed.replayed => {
                self.mem.batches.pop();
                for run in &mut self.mem.runs {
                    run.batches.retain(|batch| *batch != committed.batch);
                }
            }
            (Mutant::OlderOverwrites, Done::CommitBatch(_), Tx::CommitBatch(op)) => {
                for record in &op.records {
                    if let Some(item) = self.mem.items.iter_mut().find(|item| item.key == record.key) {
                        item.version = record.version;
                    }
                }
            }
            (Mutant::FailedIsCovered, Done::ReadCoverage(coverage), _) => {
                let failed = self.mem.tasks.iter().filter(|task| task.status == TaskStatus::Failed);
                coverage.covered.extend(failed.filter_map(|task| task.what.window));
            }
            (Mutant::RunningIsUncovered, Done::ReadCoverage(coverage), _) => {
                let running = self.mem.tasks.iter().filter(|task| task.status == TaskStatus::Executing);
                for task in running {
                    coverage.covered.retain(|window| Some(*window) != task.what.window);
                }
            }
            _ => {}
        }
        Ok(done)
    }

    fn append(&mut self, cursor: CursorId, value: Option<CursorValue>, now: Ts) {
        let Some(value) = value else { return };
        let row = &mut self.mem.cursors[cursor.0 as usize - 1];
        row.target = Some(value.clone());
        let event = Event {
            id: self.mem.events.len() as i64 + 1,
            cursor,
            previous: row.value.clone(),
            value,
            observed_max: None,
            cause: None,
            lineage: None,
            remarks: String::new(),
            created_at: now,
            archived: false,
        };
        self.mem.events.push(event);
    }

    /// The present lease and run of the task, whoever the caller is.
    fn current(&self, asked: LeaseRef, run: RunId) -> (LeaseRef, RunId) {
        let task = &self.mem.tasks[asked.task.0 as usize - 1];
        (LeaseRef { fence: task.fence, ..asked }, task.runs.last().copied().unwrap_or(run))
    }
}

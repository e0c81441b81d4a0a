//! One attempt at a task: open the run, read page after page, commit each, close the run, move the cursor.
//!
//! Pages are read while earlier ones are being committed: the next is requested while at most [`Options::lookahead`]
//! are not yet committed, fewer where they are large, so memory is bounded and a crash repeats little. Commits of one
//! run go in order, one at a time; pages that were read meanwhile are committed together.
//!
//! ```text
//!   Starting ─► Preparing ─► Paging ─► (Marking) ─► Ending ─► Advancing ─► Over
//!                             │ reader:  permit → fetch → (sleep, again) → page
//!                             │          page of ids → screen → permit → fetch details, group by group
//!                             │ ledger:  commit page 1, 2, 3 …
//! ```

mod batch_context;
mod details;
mod halt;
mod ledger;
mod limit;
mod missing;
mod options;
mod order;
mod page;
mod page_failure;
mod parts;
mod poll;
mod reader;
mod split;
mod summary;
mod update;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::advance::{self, CursorAdvance};
use crate::bounds::{IdSegment, TaskBounds};
use crate::cursor::CursorValue;
use crate::error::{Code, Fault, Level};
use crate::gate::GateDecision;
use crate::health::Advice;
use crate::id::RunId;
use crate::paging::Part;
use crate::record::{DetailCandidate, RecordStream};
use crate::rng::Rng;
use crate::state::TaskStatus;
use crate::time::Ts;
use crate::tx::{
    AdvanceCause, BatchFailure, CommitBatch, Done, EndRun, Lease, LeaseRef, RecordAdvance, ResumePoint, RunEnd,
    RunStarted, RunStats, StartRun, Tx, TxError,
};

pub use details::DetailOptions;
use limit::RecordLimit;
use missing::MissingCheck;
use options::{MAX_ADVANCE_RETRIES, STORE_RETRY};
pub use options::{MissingRule, Options, PassRule, RunPolicy};
pub use order::RecordOrder;
pub use page::{ExchangeEvidence, FetchedPage, PageFailure, UpstreamQuota};
use page_failure::give_back;
use poll::PollProgress;
pub use reader::PageFetch;
use reader::PageReader;
pub use split::{SliceLimits, SplitRule};
pub use summary::{RunOutcome, RunSummary};
pub use update::IDS_PER_READ;

#[derive(Clone, Debug)]
pub enum Want {
    Tx(Tx),
    /// Load the spec and return its [`RunPolicy`].
    Prepare {
        snapshot_hash: String,
    },
    /// Request a permit from the gate, for a page or for details.
    Permit {
        details: bool,
    },
    /// Report to the gate that the upstream asked for a pause.
    CoolDown(Duration),
    Fetch(PageFetch),
    /// Find which of these must be fetched. See [`crate::port::Queries::screen`].
    Screen(Arc<RecordStream>, Vec<DetailCandidate>),
    /// Read the next ids to refresh. See [`crate::port::Queries::ids_to_refresh`].
    Wanted {
        stream: Arc<RecordStream>,
        segment: IdSegment,
        after: Option<String>,
        limit: u32,
    },
    Finished(RunSummary),
}

#[derive(Debug)]
pub enum RunInput {
    Tx(Result<Done, TxError>),
    Prepared(Result<Arc<RunPolicy>, Fault>),
    /// The gate's decision, and the measures for the upstream's health.
    Permit(GateDecision, Advice),
    Fetched(Result<Box<FetchedPage>, Box<PageFailure>>),
    Screened(Result<Vec<DetailCandidate>, TxError>),
    Wanted(Result<Vec<String>, TxError>),
    /// The lease is gone.
    Lost,
    /// Finish requests in flight and return the task: the process is shutting down, or the work is paused.
    Stop {
        reason: &'static str,
    },
}

#[derive(Debug)]
pub struct RunMachine {
    lease: Lease,
    options: Options,
    rng: Rng,
    stage: RunStage,
    store: StoreSlot,
    run: Option<RunId>,
    stats: RunStats,
    reader: PageReader,
    /// Pages that wait for their commit.
    queue: VecDeque<Arc<CommitBatch>>,
    /// Until when the first of them may wait for others.
    ripe_at: Ts,
    /// Number of pages in flight to the store.
    committing: usize,
    /// Number of waiting pages to commit one by one: the rest of a group that failed.
    singly: usize,
    /// How the run ends once everything read is committed.
    planned_end: Option<PlannedEnd>,
    stopping: Option<&'static str>,
    /// Total of a slice that an earlier run had read to its end.
    resumed_total: Option<u64>,
    /// In that slice, an item had no usable id.
    resumed_unidentified: bool,
    /// The lease expired, or ends with the transaction in flight.
    lost: bool,
    cursor: Option<CursorValue>,
    bounds: TaskBounds,
    limit: Option<RecordLimit>,
    /// The limit is reached unless all records are new, which their commits will show.
    awaits_news: bool,
    polling: PollProgress,
    advice: Advice,
    /// When the reading started.
    began: Ts,
    /// Time of the last event.
    now: Ts,
}

#[derive(Debug)]
enum RunStage {
    Starting,
    Preparing {
        resume: Option<ResumePoint>,
    },
    Paging(Arc<RunPolicy>),
    /// The list is read; marks the records that it no longer has.
    Marking(MissingCheck),
    Ending(Arc<EndRun>),
    Advancing(CursorAdvance, RunOutcome),
    Over,
}

/// The one transaction of this run that is in flight, or waits to be retried.
#[derive(Debug)]
enum StoreSlot {
    Free,
    Sent { tx: Tx, tries: u32 },
    Retry { tx: Tx, tries: u32, at: Ts },
}

#[derive(Debug)]
struct PlannedEnd {
    end: RunEnd,
    failure: Option<BatchFailure>,
}

impl RunMachine {
    pub fn new(lease: Lease, options: Options, rng: Rng) -> RunMachine {
        // A planner wrote these bounds; invalid ones are found before anything is read, see `on_prepared`.
        let bounds = TaskBounds::of_task(&lease.params).unwrap_or_default();
        RunMachine {
            bounds,
            limit: None,
            awaits_news: false,
            polling: PollProgress::default(),
            advice: Advice::default(),
            began: Ts::MAX,
            now: Ts::MIN,
            lease,
            options,
            rng,
            stage: RunStage::Starting,
            store: StoreSlot::Free,
            run: None,
            stats: RunStats::default(),
            reader: PageReader::default(),
            queue: VecDeque::new(),
            ripe_at: Ts::MAX,
            committing: 0,
            singly: 0,
            planned_end: None,
            stopping: None,
            resumed_total: None,
            resumed_unidentified: false,
            lost: false,
            cursor: None,
        }
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub fn is_over(&self) -> bool {
        matches!(self.stage, RunStage::Over)
    }

    /// Starts the run.
    pub fn start(&mut self, wants: &mut Vec<Want>) {
        self.send(StartRun { lease: LeaseRef::from(&self.lease) }.into(), wants);
    }

    /// Handles expired timers. Call at [`RunMachine::wake_at`], or more often.
    pub fn poll(&mut self, now: Ts, wants: &mut Vec<Want>) {
        self.now = now;
        let due = matches!(self.store, StoreSlot::Retry { at, .. } if now >= at);
        if let (true, StoreSlot::Retry { tx, tries, .. }) = (due, &self.store) {
            let (tx, tries) = (tx.clone(), *tries);
            wants.push(Want::Tx(tx.clone()));
            self.store = StoreSlot::Sent { tx, tries };
        }
        if matches!(self.stage, RunStage::Paging(_)) && self.planned_end.is_none() {
            if self.reader.wakes(now) {
                wants.push(self.reader.permit());
            }
            self.screen_again(now, wants);
        }
        self.send_pages(wants);
    }

    pub fn wake_at(&self) -> Ts {
        let store = if let StoreSlot::Retry { at, .. } = self.store { at } else { Ts::MAX };
        store.min(self.reader.wake_at()).min(self.send_at())
    }

    pub fn on(&mut self, now: Ts, got: RunInput, wants: &mut Vec<Want>) {
        if self.is_over() {
            return;
        }
        self.now = now;
        match got {
            RunInput::Lost => self.on_lost(wants),
            RunInput::Stop { reason } => self.stop(reason, wants),
            RunInput::Tx(result) => self.on_store(now, result, wants),
            RunInput::Prepared(prepared) => self.on_prepared(now, prepared, wants),
            RunInput::Permit(decision, advice) => self.on_permit(now, decision, advice, wants),
            RunInput::Fetched(result) => self.on_fetched(now, result, wants),
            RunInput::Screened(result) => self.on_screened(now, result, wants),
            RunInput::Wanted(result) => self.on_wanted(now, result, wants),
        }
    }

    /// A renewal that crosses the end of the run finds no lease either: the result of the end counts, and what
    /// follows needs no lease.
    fn on_lost(&mut self, wants: &mut Vec<Want>) {
        match (&self.stage, &self.store) {
            (RunStage::Advancing(..), _) => {}
            (RunStage::Ending(_), StoreSlot::Sent { .. }) => self.lost = true,
            _ => self.finish(RunOutcome::Lost, wants),
        }
    }

    fn on_store(&mut self, now: Ts, result: Result<Done, TxError>, wants: &mut Vec<Want>) {
        let StoreSlot::Sent { tx, tries } = std::mem::replace(&mut self.store, StoreSlot::Free) else { return };
        let advancing = matches!(self.stage, RunStage::Advancing(..));
        match result {
            Err(TxError::Fenced) => self.finish(RunOutcome::Lost, wants),
            Err(error) if error.is_transient() && self.lost && !advancing => self.finish(RunOutcome::Lost, wants),
            // Every operation may be repeated, also when its outcome is unknown. The lease bounds how long.
            Err(error) if error.is_transient() && (!advancing || tries < MAX_ADVANCE_RETRIES) => {
                let wait = STORE_RETRY.delay(tries + 1, &mut self.rng);
                let tx = self.first_of_group(tx);
                self.store = StoreSlot::Retry { tx, tries: tries + 1, at: now + wait };
            }
            Err(_) if tx.pages().len() > 1 => {
                let tx = self.first_of_group(tx);
                self.send(tx, wants);
            }
            result => self.on_reply(result, wants),
        }
    }

    fn on_reply(&mut self, result: Result<Done, TxError>, wants: &mut Vec<Want>) {
        match (&mut self.stage, result) {
            (
                RunStage::Starting,
                Ok(Done::StartRun(RunStarted::Go { run, snapshot_hash, resume, validators: known, .. })),
            ) => {
                self.run = Some(run);
                self.polling.previous = known;
                self.stage = RunStage::Preparing { resume };
                wants.push(Want::Prepare { snapshot_hash });
            }
            (RunStage::Starting, Ok(Done::StartRun(RunStarted::Cancelled))) => {
                self.finish(RunOutcome::Cancelled, wants);
            }
            (RunStage::Paging(_), Ok(done)) if self.committing > 0 && done.committed().len() == self.committing => {
                self.on_committed(done.committed(), wants);
            }
            // The store will never accept this page: keep what is committed, fail the task, report why.
            (RunStage::Paging(_), Err(error)) => {
                self.committing = 0;
                self.queue.clear();
                self.reader.halt();
                self.reader.track.give_up();
                let error = Fault::new(Code::InternalError, Level::L4, error.to_string());
                self.planned_end = Some(PlannedEnd { end: RunEnd::Failed { error }, failure: None });
                self.proceed(wants);
            }
            (RunStage::Marking(_), Ok(Done::MarkMissing(part))) => self.on_marked(part, wants),
            (RunStage::Ending(end), Ok(Done::EndRun(done))) => {
                let outcome = match &end.end {
                    RunEnd::Split { slices, .. } => RunOutcome::Split(slices.len()),
                    end => RunOutcome::Closed(done.task_status, end.error().cloned()),
                };
                // A done part may advance the cursor as well as a whole window.
                if self.lease.source.is_some() {
                    self.finish(outcome, wants);
                } else if done.task_status == TaskStatus::Succeeded || end.done.is_some() && done.task_status.is_final()
                {
                    self.advance(outcome, wants);
                } else {
                    self.finish(outcome, wants);
                }
            }
            (RunStage::Advancing(advance, outcome), result) => {
                self.cursor = match advance.on(result) {
                    advance::AdvanceStep::Tx(tx) => return self.send(tx, wants),
                    advance::AdvanceStep::Done { moved_to } => moved_to,
                    // The task is closed and its window counts; the next planner tick moves the value.
                    advance::AdvanceStep::GaveUp(_) => None,
                };
                let outcome = outcome.clone();
                self.finish(outcome, wants);
            }
            (_, Err(error)) => self.finish(RunOutcome::Stuck(error), wants),
            (_, Ok(other)) => {
                let error = TxError::Refused(format!("unexpected result {other:?}"));
                self.finish(RunOutcome::Stuck(error), wants);
            }
        }
    }

    fn on_prepared(&mut self, now: Ts, prepared: Result<Arc<RunPolicy>, Fault>, wants: &mut Vec<Want>) {
        let RunStage::Preparing { resume } = &mut self.stage else { return };
        let resume = resume.take();
        self.began = now;
        let limited = |policy: Arc<RunPolicy>| Ok((RecordLimit::of_task(&policy.paging, &self.lease.params)?, policy));
        match prepared.and_then(|policy| self.readable(policy)).and_then(limited) {
            Ok((limit, policy)) => {
                self.limit = limit;
                if let (Some(limit), Some(resume)) = (&mut self.limit, &resume) {
                    limit.resume(resume.taken);
                }
                match resume {
                    None => {
                        self.reader.begin(self.first(&policy), self.bounds.pages.is_none_or(|pages| pages.from == 0));
                    }
                    Some(ResumePoint { next: Some(next), total, walk, .. }) => {
                        let (next, walk) = self.resumable(&policy, next, walk);
                        self.reader.resume(next, total, walk.as_deref());
                    }
                    // The slice was read to its end before: only closing is left.
                    Some(ResumePoint { next: None, walk, total, .. }) => {
                        self.resumed_total = total;
                        self.resumed_unidentified = walk.as_ref().is_some_and(|walk| walk.unidentified);
                        self.stats.verification = walk.and_then(|walk| walk.verification);
                        self.planned_end = Some(PlannedEnd { end: RunEnd::Succeeded, failure: None });
                    }
                }
                if let Some(range) = self.bounds.pages {
                    self.reader.reads_a_part(Part::Range, range.total);
                } else if self.bounds.ids.is_some() || self.limit.is_some() || self.lease.source.is_some() {
                    self.reader.reads_a_part(Part::Beginning, None);
                }
                self.stage = RunStage::Paging(policy);
            }
            Err(error) => {
                self.planned_end = Some(PlannedEnd { end: self.end_by(&error), failure: None });
                self.close(wants);
                return;
            }
        }
        if let (Some(reason), None) = (self.stopping, &self.planned_end) {
            self.planned_end = Some(give_back(reason));
        }
        self.proceed(wants);
    }

    /// A task whose bounds cannot be parsed, or are missing, must not be treated as one that reads everything.
    fn readable(&self, policy: Arc<RunPolicy>) -> Result<Arc<RunPolicy>, Fault> {
        let damaged = match TaskBounds::of_task(&self.lease.params) {
            Err(error) => Some(error.to_string()),
            Ok(bounds) if bounds.ids.is_none() && self.lease.window.is_none() && self.lease.source.is_none() => {
                Some("no window and no ids".to_owned())
            }
            Ok(bounds) if bounds.ids.is_some() && policy.details.is_none() => Some("ids without details".to_owned()),
            Ok(_) => None,
        };
        match damaged {
            None => Ok(policy),
            Some(reason) => {
                let reason = format!("the bounds of the task are damaged: {reason}");
                Err(Fault::new(Code::InternalError, Level::L4, reason))
            }
        }
    }

    fn stop(&mut self, reason: &'static str, wants: &mut Vec<Want>) {
        self.stopping = Some(reason);
        if matches!(self.stage, RunStage::Paging(_)) && self.planned_end.is_none() {
            self.planned_end = Some(give_back(reason));
            self.reader.halt();
            self.proceed(wants);
        }
    }

    /// Commits the next page, reads the next page, or closes the run: whatever is possible now.
    fn proceed(&mut self, wants: &mut Vec<Want>) {
        self.send_pages(wants);
        let uncommitted = self.queue.len() + self.committing;
        match &self.planned_end {
            None if self.awaits_news && uncommitted == 0 => self.on_news(wants),
            None if self.awaits_news => {}
            None if self.reader.wants_ids() && uncommitted == 0 => self.read_ids(wants),
            None if self.reader.wants_ids() => {}
            None if self.may_read_on(uncommitted) && self.reader.may_request() => wants.push(self.reader.permit()),
            Some(_) if uncommitted == 0 => self.close(wants),
            _ => {}
        }
    }

    fn close(&mut self, wants: &mut Vec<Want>) {
        if self.checks_missing(wants) {
            return;
        }
        let (Some(run), Some(planned_end)) = (self.run, self.planned_end.take()) else { return };
        if let RunEnd::Split { error, .. } = &planned_end.end {
            self.stats.remarks = format!("online-reslice: {}", error.message);
        }
        let poll = self.poll_end(&planned_end);
        let end = Arc::new(EndRun {
            pause: halt::pause_after(&self.lease, &planned_end),
            done: self.done(&planned_end),
            lease: LeaseRef::from(&self.lease),
            lineage: self.lease.lineage,
            run,
            end: planned_end.end,
            stats: self.stats.clone(),
            failure: planned_end.failure,
            max_attempts: if poll.is_some() { poll::MAX_ATTEMPTS } else { self.options.max_attempts },
            poll,
        });
        self.stage = RunStage::Ending(Arc::clone(&end));
        self.send(end.into(), wants);
    }

    fn advance(&mut self, outcome: RunOutcome, wants: &mut Vec<Want>) {
        let (task, batch_no, late) = (self.lease.task, self.stats.pages_visited, self.stats.late);
        let (advance, step) = CursorAdvance::start(RecordAdvance {
            cursor: self.lease.cursor,
            cause: self.run.map(|run| AdvanceCause { task, run, batch_no, late }),
            observed_max: self.stats.observed_max,
        });
        self.stage = RunStage::Advancing(advance, outcome);
        if let advance::AdvanceStep::Tx(tx) = step {
            self.send(tx, wants);
        }
    }

    fn finish(&mut self, outcome: RunOutcome, wants: &mut Vec<Want>) {
        self.stage = RunStage::Over;
        self.store = StoreSlot::Free;
        self.reader.halt();
        self.queue.clear();
        wants.push(Want::Finished(RunSummary { outcome, stats: self.stats.clone(), cursor: self.cursor.take() }));
    }

    fn send(&mut self, tx: Tx, wants: &mut Vec<Want>) {
        debug_assert!(matches!(self.store, StoreSlot::Free), "one transaction at a time");
        wants.push(Want::Tx(tx.clone()));
        self.store = StoreSlot::Sent { tx, tries: 0 };
    }
}

#[cfg(test)]
mod tests;

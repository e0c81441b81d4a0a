//! One attempt at a task: open the run, read page after page, commit each, close the run, move the cursor.
//!
//! While pages are being committed the next may be on their way: another is asked for while at most
//! [`Options::lookahead`] are not yet committed, fewer where they are large, so memory is bounded and a crash repeats
//! little. Commits of one run go in order, one at a time; what was read meanwhile is committed together.
//!
//! ```text
//! Starting ─► Preparing ─► Paging ─► Ending ─► Advancing ─► Over
//!                            │ reader:  permit → fetch → (sleep, again) → page
//!                            │          page of ids → screen → permit → fetch details, group by group
//!                            │ ledger:  commit page 1, 2, 3 …
//! ```

mod details;
mod ended;
mod fuse;
mod ledger;
mod limit;
mod options;
mod order;
mod page;
mod place;
mod poll;
mod reader;
mod refused;
mod split;
mod update;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::advance::{self, Advance};
use crate::bounds::{Bounds, Segment};
use crate::cursor::Mark;
use crate::error::{Code, Fault, Level};
use crate::gate::Decision;
use crate::health::Advice;
use crate::id::RunId;
use crate::record::{Candidate, Stream};
use crate::rng::Rng;
use crate::state::TaskStatus;
use crate::time::Ts;
use crate::tx::{
    Cause, CommitBatch, Done, EndRun, Failure, Lease, LeaseRef, RecordAdvance, Resume, RunEnd, RunStarted, RunStats,
    StartRun, Tx, TxError,
};
use crate::window::Window;

pub use details::Details;
pub use ended::{Ended, Outcome};
use limit::Limit;
use options::{MAX_ADVANCE_RETRIES, STORE_RETRY};
pub use options::{Options, Policy};
pub use order::Order;
pub use page::{Evidence, Left, Page, Refusal};
use poll::Polling;
pub use reader::Fetch;
use reader::Reader;
use refused::give_back;
pub use split::{Limits, Split};
pub use update::WANTED_AT_ONCE;

#[derive(Clone, Debug)]
pub enum Want {
    Tx(Tx),
    /// Load the spec and answer with its [`Policy`].
    Prepare {
        snapshot_hash: String,
    },
    /// Ask the gate, for a page or for details.
    Permit {
        details: bool,
    },
    /// Tell the gate that the far side wants silence.
    CoolDown(Duration),
    Fetch(Fetch),
    /// Which of these must be fetched? See [`crate::port::Queries::screen`].
    Screen(Arc<Stream>, Vec<Candidate>),
    /// Which ids are wanted next? See [`crate::port::Queries::wanted`].
    Wanted {
        stream: Arc<Stream>,
        segment: Segment,
        after: Option<String>,
        limit: u32,
    },
    Finished(Ended),
}

#[derive(Debug)]
pub enum Got {
    Tx(Result<Done, TxError>),
    Prepared(Result<Arc<Policy>, Fault>),
    /// The gate's answer, and what to do about the far side's state.
    Permit(Decision, Advice),
    Fetched(Result<Box<Page>, Box<Refusal>>),
    Screened(Result<Vec<Candidate>, TxError>),
    Wanted(Result<Vec<String>, TxError>),
    /// The lease is gone.
    Lost,
    /// Finish what is in flight and give the task back: the process is shutting down, or somebody holds the work.
    Stop {
        why: &'static str,
    },
}

#[derive(Debug)]
pub struct Run {
    lease: Lease,
    options: Options,
    rng: Rng,
    stage: Stage,
    store: StoreSlot,
    run: Option<RunId>,
    stats: RunStats,
    reader: Reader,
    /// Read, waiting for their commit.
    queue: VecDeque<Arc<CommitBatch>>,
    /// Until when the first of them may wait for others.
    ripe_at: Ts,
    /// How many pages are on their way to the store.
    committing: usize,
    /// How many of the pages that wait come alone: what is left of a group that failed.
    singly: usize,
    /// How the run is to end once everything read is committed.
    verdict: Option<Verdict>,
    stopping: Option<&'static str>,
    /// The lease ran out, or ended with what is on its way to the store.
    lost: bool,
    cursor: Option<Mark>,
    bounds: Bounds,
    limit: Option<Limit>,
    /// Enough is read unless all of it is new, which its commits will tell.
    awaits_news: bool,
    polling: Polling,
    advice: Advice,
    /// When the reading began.
    began: Ts,
    /// When something happened last.
    now: Ts,
}

#[derive(Debug)]
enum Stage {
    Starting,
    Preparing { resume: Option<Resume> },
    Paging(Arc<Policy>),
    Ending(Arc<EndRun>),
    Advancing(Advance, Outcome),
    Over,
}

/// The one transaction of this run that is with the store, or waits to be sent again.
#[derive(Debug)]
enum StoreSlot {
    Free,
    Sent { tx: Tx, tries: u32 },
    Retry { tx: Tx, tries: u32, at: Ts },
}

#[derive(Debug)]
struct Verdict {
    end: RunEnd,
    failure: Option<Failure>,
}

impl Run {
    pub fn new(lease: Lease, options: Options, rng: Rng) -> Run {
        // What a planner wrote reads back; bounds that do not are found before anything is read, see `on_prepared`.
        let bounds = Bounds::of_task(&lease.params).unwrap_or_default();
        Run {
            bounds,
            limit: None,
            awaits_news: false,
            polling: Polling::default(),
            advice: Advice::default(),
            began: Ts::MAX,
            now: Ts::MIN,
            lease,
            options,
            rng,
            stage: Stage::Starting,
            store: StoreSlot::Free,
            run: None,
            stats: RunStats::default(),
            reader: Reader::default(),
            queue: VecDeque::new(),
            ripe_at: Ts::MAX,
            committing: 0,
            singly: 0,
            verdict: None,
            stopping: None,
            lost: false,
            cursor: None,
        }
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// The first step.
    pub fn start(&mut self, wants: &mut Vec<Want>) {
        self.send(StartRun { lease: LeaseRef::from(&self.lease) }.into(), wants);
    }

    /// Timers that have run out. Call at [`Run::wake_at`], and as often as you like.
    pub fn poll(&mut self, now: Ts, wants: &mut Vec<Want>) {
        self.now = now;
        let due = matches!(self.store, StoreSlot::Retry { at, .. } if now >= at);
        if let (true, StoreSlot::Retry { tx, tries, .. }) = (due, &self.store) {
            let (tx, tries) = (tx.clone(), *tries);
            wants.push(Want::Tx(tx.clone()));
            self.store = StoreSlot::Sent { tx, tries };
        }
        if matches!(self.stage, Stage::Paging(_)) && self.verdict.is_none() {
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

    pub fn on(&mut self, now: Ts, got: Got, wants: &mut Vec<Want>) {
        if self.is_over() {
            return;
        }
        self.now = now;
        match got {
            Got::Lost => self.on_lost(wants),
            Got::Stop { why } => self.stop(why, wants),
            Got::Tx(answer) => self.on_store(now, answer, wants),
            Got::Prepared(prepared) => self.on_prepared(now, prepared, wants),
            Got::Permit(decision, advice) => self.on_permit(now, decision, advice, wants),
            Got::Fetched(result) => self.on_fetched(now, result, wants),
            Got::Screened(answer) => self.on_screened(now, answer, wants),
            Got::Wanted(answer) => self.on_wanted(now, answer, wants),
        }
    }

    /// A renewal that crosses the end of the run finds no lease either: the store's word on the end counts, and what follows
    /// the end needs none.
    fn on_lost(&mut self, wants: &mut Vec<Want>) {
        match (&self.stage, &self.store) {
            (Stage::Advancing(..), _) => {}
            (Stage::Ending(_), StoreSlot::Sent { .. }) => self.lost = true,
            _ => self.finish(Outcome::Lost, wants),
        }
    }

    fn on_store(&mut self, now: Ts, answer: Result<Done, TxError>, wants: &mut Vec<Want>) {
        let StoreSlot::Sent { tx, tries } = std::mem::replace(&mut self.store, StoreSlot::Free) else { return };
        let advancing = matches!(self.stage, Stage::Advancing(..));
        match answer {
            Err(TxError::Fenced) => self.finish(Outcome::Lost, wants),
            Err(error) if error.is_transient() && self.lost && !advancing => self.finish(Outcome::Lost, wants),
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
            answer => self.on_answer(answer, wants),
        }
    }

    fn on_answer(&mut self, answer: Result<Done, TxError>, wants: &mut Vec<Want>) {
        match (&mut self.stage, answer) {
            (Stage::Starting, Ok(Done::StartRun(RunStarted::Go { run, snapshot_hash, resume, known, .. }))) => {
                self.run = Some(run);
                self.polling.known = known;
                self.stage = Stage::Preparing { resume };
                wants.push(Want::Prepare { snapshot_hash });
            }
            (Stage::Starting, Ok(Done::StartRun(RunStarted::Cancelled))) => self.finish(Outcome::Cancelled, wants),
            (Stage::Paging(_), Ok(done)) if self.committing > 0 && done.committed().len() == self.committing => {
                self.on_committed(done.committed(), wants);
            }
            // The store will never take this page: keep what is committed, fail the task, tell why.
            (Stage::Paging(_), Err(error)) => {
                self.committing = 0;
                self.queue.clear();
                self.reader.halt();
                self.reader.track.give_up();
                let error = Fault::new(Code::InternalError, Level::L4, error.to_string());
                self.verdict = Some(Verdict { end: RunEnd::Failed { error }, failure: None });
                self.proceed(wants);
            }
            (Stage::Ending(end), Ok(Done::EndRun(done))) => {
                let outcome = match &end.end {
                    RunEnd::Split { slices, .. } => Outcome::Split(slices.len()),
                    end => Outcome::Closed(done.task_status, end.error().cloned()),
                };
                // A done part may lead the cursor on as well as a whole window.
                if self.lease.source.is_some() {
                    self.finish(outcome, wants);
                } else if done.task_status == TaskStatus::Succeeded || end.done.is_some() && done.task_status.is_final()
                {
                    self.advance(outcome, wants);
                } else {
                    self.finish(outcome, wants);
                }
            }
            (Stage::Advancing(advance, outcome), answer) => {
                self.cursor = match advance.on(answer) {
                    advance::Step::Tx(tx) => return self.send(tx, wants),
                    advance::Step::Done { moved_to } => moved_to,
                    // The task is closed and its window counts; the next planner tick moves the value.
                    advance::Step::GaveUp(_) => None,
                };
                let outcome = outcome.clone();
                self.finish(outcome, wants);
            }
            (_, Err(error)) => self.finish(Outcome::Stuck(error), wants),
            (_, Ok(other)) => {
                let error = TxError::Refused(format!("unexpected answer {other:?}"));
                self.finish(Outcome::Stuck(error), wants);
            }
        }
    }

    fn on_prepared(&mut self, now: Ts, prepared: Result<Arc<Policy>, Fault>, wants: &mut Vec<Want>) {
        let Stage::Preparing { resume } = &mut self.stage else { return };
        let resume = resume.take();
        self.began = now;
        let limited = |policy: Arc<Policy>| Ok((Limit::of_task(&policy.paging, &self.lease.params)?, policy));
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
                    Some(Resume { next: Some(next), total, .. }) => self.reader.resume(next, total),
                    // The slice was read to its end before: only the closing is missing.
                    Some(Resume { next: None, .. }) => {
                        self.verdict = Some(Verdict { end: RunEnd::Succeeded, failure: None });
                    }
                }
                self.stage = Stage::Paging(policy);
            }
            Err(error) => {
                self.verdict = Some(Verdict { end: self.end_by(&error), failure: None });
                self.close(wants);
                return;
            }
        }
        if let (Some(why), None) = (self.stopping, &self.verdict) {
            self.verdict = Some(give_back(why));
        }
        self.proceed(wants);
    }

    /// A task whose bounds cannot be read, or that has none at all, must not be taken for one that reads everything.
    fn readable(&self, policy: Arc<Policy>) -> Result<Arc<Policy>, Fault> {
        let damaged = match Bounds::of_task(&self.lease.params) {
            Err(error) => Some(error.to_string()),
            Ok(bounds) if bounds.ids.is_none() && self.lease.window.is_none() && self.lease.source.is_none() => {
                Some("no window and no ids".to_owned())
            }
            Ok(bounds) if bounds.ids.is_some() && policy.details.is_none() => Some("ids without details".to_owned()),
            Ok(_) => None,
        };
        match damaged {
            None => Ok(policy),
            Some(why) => {
                let reason = format!("the bounds of the task are damaged: {why}");
                Err(Fault::new(Code::InternalError, Level::L4, reason))
            }
        }
    }

    fn stop(&mut self, why: &'static str, wants: &mut Vec<Want>) {
        self.stopping = Some(why);
        if matches!(self.stage, Stage::Paging(_)) && self.verdict.is_none() {
            self.verdict = Some(give_back(why));
            self.reader.halt();
            self.proceed(wants);
        }
    }

    /// Commits the next page, reads the next page, or closes the run: whatever is possible now.
    fn proceed(&mut self, wants: &mut Vec<Want>) {
        self.send_pages(wants);
        let uncommitted = self.queue.len() + self.committing;
        match &self.verdict {
            None if self.awaits_news && uncommitted == 0 => self.on_news(wants),
            None if self.awaits_news => {}
            None if self.reader.wants_ids() && uncommitted == 0 => self.ask_for_ids(wants),
            None if self.reader.wants_ids() => {}
            None if self.may_read_on(uncommitted) && self.reader.may_ask() => wants.push(self.reader.permit()),
            Some(_) if uncommitted == 0 => self.close(wants),
            _ => {}
        }
    }

    fn close(&mut self, wants: &mut Vec<Want>) {
        let (Some(run), Some(verdict)) = (self.run, self.verdict.take()) else { return };
        if let RunEnd::Split { error, .. } = &verdict.end {
            self.stats.remarks = format!("online-reslice: {}", error.message);
        }
        let poll = self.poll_end(&verdict);
        let end = Arc::new(EndRun {
            hold: fuse::hold(&self.lease, &verdict),
            done: self.done(&verdict),
            lease: LeaseRef::from(&self.lease),
            lineage: self.lease.lineage,
            run,
            end: verdict.end,
            stats: self.stats.clone(),
            failure: verdict.failure,
            max_attempts: if poll.is_some() { poll::MAX_ATTEMPTS } else { self.options.max_attempts },
            poll,
        });
        self.stage = Stage::Ending(Arc::clone(&end));
        self.send(end.into(), wants);
    }

    /// What of the window is complete although the task is not.
    fn done(&self, verdict: &Verdict) -> Option<Window> {
        let Stage::Paging(policy) = &self.stage else { return None };
        match &verdict.end {
            RunEnd::Succeeded => None,
            // A window that is cut as a whole is read again as a whole.
            RunEnd::Split { slices, .. } => {
                let (done, rest) = self.parts(policy)?;
                let from = slices.iter().filter_map(|slice| slice.window).map(|window| window.from).min()?;
                let to = slices.iter().filter_map(|slice| slice.window).map(|window| window.to).max()?;
                done.filter(|_| Window { from, to } == rest)
            }
            RunEnd::Partial { .. } | RunEnd::Failed { .. } | RunEnd::Requeue { .. } => self.parts(policy)?.0,
        }
    }

    fn advance(&mut self, outcome: Outcome, wants: &mut Vec<Want>) {
        let (task, batch_no, late) = (self.lease.task, self.stats.pages_visited, self.stats.late);
        let (advance, step) = Advance::start(RecordAdvance {
            cursor: self.lease.cursor,
            cause: self.run.map(|run| Cause { task, run, batch_no, late }),
            observed_max: self.stats.observed_max,
        });
        self.stage = Stage::Advancing(advance, outcome);
        if let advance::Step::Tx(tx) = step {
            self.send(tx, wants);
        }
    }

    fn finish(&mut self, outcome: Outcome, wants: &mut Vec<Want>) {
        self.stage = Stage::Over;
        self.store = StoreSlot::Free;
        self.reader.halt();
        self.queue.clear();
        wants.push(Want::Finished(Ended { outcome, stats: self.stats.clone(), cursor: self.cursor.take() }));
    }

    fn send(&mut self, tx: Tx, wants: &mut Vec<Want>) {
        debug_assert!(matches!(self.store, StoreSlot::Free), "one transaction at a time");
        wants.push(Want::Tx(tx.clone()));
        self.store = StoreSlot::Sent { tx, tries: 0 };
    }
}

#[cfg(test)]
mod tests;

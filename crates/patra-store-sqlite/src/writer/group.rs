//! Group commit: several operations in one transaction, each in its own savepoint, so that the failure of one is not
//! the failure of its neighbours.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;

use patra_core::Ts;
use patra_core::tx::{CommitBatch, Done, Tx, TxError};
use rusqlite::Connection;

use super::{Execute, Job};
use crate::error::{Error, Result, commit_failed, not_applied};

/// A group is closed at so many operations or rows: the first of it waits for the last.
const MAX_OPERATIONS: usize = 256;
const MAX_ROWS: usize = 10_000;

/// Operations of no more rows are short.
const SHORT: usize = 64;

/// What waits for the writer.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    jobs: VecDeque<Job>,
    /// The last group let the long ones wait.
    was_short: bool,
}

impl Backlog {
    pub(super) fn push(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The next operations to be committed together, in the order in which they came. Permits, leases and claims do not wait
    /// for pages that came before them: what runs side by side may come in any order, and a far side stands still for want
    /// of a permit. Then it is everybody's turn.
    pub(super) fn next(&mut self, waiting: &Receiver<Job>) -> Vec<Job> {
        self.jobs.extend(waiting.try_iter());
        let is_short = |job: &Job| weight(&job.tx) <= SHORT;
        let short = self.jobs.iter().filter(|job| is_short(job)).count();
        self.was_short = !self.was_short && short > 0 && short < self.jobs.len();
        let (mut group, mut later, mut rows) = (Vec::new(), VecDeque::new(), 0);
        for job in self.jobs.drain(..) {
            let is_full = group.len() == MAX_OPERATIONS || rows >= MAX_ROWS;
            if is_full || self.was_short && !is_short(&job) {
                later.push_back(job);
            } else {
                rows += weight(&job.tx);
                group.push(job);
            }
        }
        self.jobs = later;
        group
    }
}

fn weight(tx: &Tx) -> usize {
    match tx {
        Tx::CommitBatch(_) | Tx::CommitBatches(_) => tx.pages().iter().map(|page| rows(page)).sum(),
        Tx::AddUrls(add) => add.urls.len() + 1,
        Tx::TakeEvents(take) => take.limit as usize,
        Tx::SavePlan(plan) => 2 * plan.slices.len() + 1,
        Tx::FanOut(fan) => fan.children.len() + 1,
        Tx::Signal(signal) => signal.keys.len() + 1,
        Tx::Archive(archive) => 4 * archive.limit as usize,
        Tx::ReadSegments(read) => (read.size as usize).saturating_mul(read.limit as usize),
        Tx::Claim(claim) => claim.limit as usize,
        Tx::AddCandidates(add) => add.candidates.len() + 1,
        Tx::ClaimCandidates(claim) => claim.limit as usize,
        Tx::Sweep(sweep) => sweep.limit as usize,
        _ => 1,
    }
}

fn rows(batch: &CommitBatch) -> usize {
    let captured = batch.capture.as_ref().map_or(0, |capture| capture.urls.len());
    batch.records.len() + batch.rejected.len() + batch.checked.len() + captured + 1
}

/// Carries out the operations in one transaction and commits it. One answer per operation, in order.
pub(super) fn commit<'a>(
    connection: &Connection,
    operations: impl ExactSizeIterator<Item = &'a Tx>,
    execute: Execute,
    now: &mut dyn FnMut() -> Ts,
) -> Vec<Result<Done, TxError>> {
    let count = operations.len();
    let everyone = |error: TxError| vec![Err(error); count];
    if let Err(error) = run(connection, "BEGIN IMMEDIATE") {
        return everyone(not_applied(&error));
    }
    let mut answers = Vec::with_capacity(count);
    for operation in operations {
        let now = now();
        let attempt = || guarded(connection, operation, execute, now);
        let answer = if count > 1 { apart(connection, attempt) } else { Ok(attempt()) };
        match answer {
            Ok(answer) => answers.push(answer.map_err(TxError::from)),
            Err(lost) => {
                roll_back(connection);
                return everyone(not_applied(&lost));
            }
        }
        // Out of space or memory, or a failed read: SQLite has rolled back everything, the neighbours' work included.
        if connection.is_autocommit() {
            return everyone(match answers.pop() {
                Some(Err(error)) if error.is_transient() => error,
                _ => TxError::Unavailable("the transaction was rolled back".into()),
            });
        }
    }
    if answers.iter().all(Result::is_err) {
        roll_back(connection);
    } else if let Err(error) = run(connection, "COMMIT") {
        roll_back(connection);
        let error = commit_failed(&error);
        answers.iter_mut().filter(|answer| answer.is_ok()).for_each(|answer| *answer = Err(error.clone()));
    }
    answers
}

/// Runs one attempt in a savepoint and takes it back alone when it fails. The outer error means that the savepoint
/// itself did not work, and with it the whole transaction.
fn apart(connection: &Connection, attempt: impl FnOnce() -> Result<Done>) -> rusqlite::Result<Result<Done>> {
    run(connection, "SAVEPOINT operation")?;
    let answer = attempt();
    if connection.is_autocommit() {
        return Ok(answer);
    }
    if answer.is_err() {
        run(connection, "ROLLBACK TO operation")?;
    }
    run(connection, "RELEASE operation")?;
    Ok(answer)
}

/// A panic in an operation is a bug in that operation; the writer must outlive it.
fn guarded(connection: &Connection, operation: &Tx, execute: Execute, now: Ts) -> Result<Done> {
    catch_unwind(AssertUnwindSafe(|| execute(connection, operation, now))).unwrap_or_else(|panic| {
        let reason = message(&*panic);
        tracing::error!(operation = operation.name(), reason, "an operation panicked");
        Err(Error::refused(format!("{} panicked: {reason}", operation.name())))
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = run(connection, "ROLLBACK") {
        tracing::error!(%error, "a rollback failed");
    }
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(())?;
    Ok(())
}

//! The write side: one thread owns the only connection that writes. Waiting operations are committed together, so that
//! one disk sync serves many of them.

mod backlog;
mod checkpoint;
mod group;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use patra_core::tx::{Done, Tx, TxError};
use patra_core::{ClockStep, Ts};
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use self::backlog::Backlog;
use self::checkpoint::Checkpoint;
pub(crate) use self::checkpoint::MOST_FRAMES;
use crate::clock::StoreClock;
use crate::error::Result;
use crate::exec;

/// Most operations that may wait. Further callers wait outside: back-pressure instead of memory.
const MAX_WAITING: usize = 1_024;

/// An operation on the connection, inside the thread's open transaction.
pub(crate) type Execute = fn(&Connection, &Tx, Ts) -> Result<Done>;

/// The time that may pass until the store remembers how far its clock has come.
const REMEMBER_EVERY: Duration = Duration::from_secs(5);

/// What the thread does with its connection.
#[derive(Clone, Copy)]
pub(crate) struct Operations {
    pub(crate) execute: Execute,
    /// Moves the stored times with the clock.
    pub(crate) follow: fn(&Connection, ClockStep) -> Result<()>,
    /// Remembers how far the clock has come.
    pub(crate) saw: fn(&Connection, Ts) -> Result<()>,
}

impl Operations {
    /// Operations of the real store.
    pub(crate) const STORE: Operations =
        Operations { execute: exec::execute, follow: exec::clock::follow, saw: exec::clock::saw };
}

/// Handle of the writer. Dropping it lets the thread finish the waiting operations, empty the WAL and close the file.
#[derive(Debug)]
pub(crate) struct Writer {
    room: Arc<Semaphore>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// A submitted operation. It runs even if its caller is dropped.
#[derive(Debug)]
struct Job {
    tx: Tx,
    reply: oneshot::Sender<Result<Done, TxError>>,
    _room: OwnedSemaphorePermit,
}

impl Writer {
    pub(crate) fn start(connection: Connection, clock: Arc<StoreClock>, operations: Operations) -> io::Result<Writer> {
        let (jobs, waiting) = channel();
        let (backlog, checkpoint) = (Backlog::default(), Checkpoint::default());
        let remembered = Ts::MIN;
        let work = Work { connection, clock, remembered, operations, waiting, backlog, checkpoint };
        let thread = thread::Builder::new().name("patra-sqlite".into()).spawn(move || work.run())?;
        let room = Arc::new(Semaphore::new(MAX_WAITING));
        Ok(Writer { room, jobs: Some(jobs), thread: Some(thread) })
    }

    pub(crate) async fn execute(&self, tx: Tx) -> Result<Done, TxError> {
        let stopped = || TxError::Unavailable("the writer has stopped".into());
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| stopped())?;
        let (reply, answer) = oneshot::channel();
        let job = Job { tx, reply, _room: room };
        self.jobs.as_ref().ok_or_else(stopped)?.send(job).map_err(|_| stopped())?;
        answer.await.unwrap_or_else(|_| Err(TxError::Unknown("the writer stopped before it returned a result".into())))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread sees the end of the channel after the last operation.
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread panicked");
        }
    }
}

/// State of the thread.
struct Work {
    connection: Connection,
    clock: Arc<StoreClock>,
    /// The time that the store remembers.
    remembered: Ts,
    operations: Operations,
    waiting: Receiver<Job>,
    backlog: Backlog,
    checkpoint: Checkpoint,
}

impl Work {
    fn run(mut self) {
        while self.wait() {
            self.follow_clock();
            let jobs = self.backlog.next(&self.waiting);
            let operations = jobs.iter().map(|job| &job.tx);
            let execute = self.operations.execute;
            let answers = group::commit(&self.connection, operations, execute, &mut || self.clock.now());
            for (job, answer) in jobs.into_iter().zip(answers) {
                // The caller may be gone; the operation is done all the same.
                let _ = job.reply.send(answer);
            }
            self.remember(REMEMBER_EVERY);
            self.checkpoint.after_group(&self.connection);
        }
        self.remember(ClockStep::SMALLEST);
        self.checkpoint.on_idle(&self.connection);
        drop(self.checkpoint);
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(%error, "closing the database failed");
        }
    }

    /// Moves the stored times after a step of the system clock. Until that has succeeded, time runs on as if there had
    /// been none.
    fn follow_clock(&mut self) {
        let Some(step) = self.clock.step() else { return };
        let (connection, follow) = (&self.connection, self.operations.follow);
        match group::in_transaction(connection, &|| follow(connection, step)) {
            Ok(()) => {
                self.clock.follow();
                self.remembered = step.to;
            }
            Err(error) => tracing::warn!(%error, "following the system clock failed; the next operation tries again"),
        }
    }

    /// Remembers the time for the next start, unless the store remembers one that is not older than this.
    fn remember(&mut self, age: Duration) {
        let now = self.clock.now();
        if now.since(self.remembered) < age {
            return;
        }
        // Without it, only a clock that is set back before the next start goes unnoticed for longer.
        match (self.operations.saw)(&self.connection, now) {
            Ok(()) => self.remembered = now,
            Err(error) => tracing::debug!(error = %TxError::from(error), "remembering the time failed"),
        }
    }

    /// Waits for work; returns false when the handle is dropped. Idle time is used to empty the WAL.
    fn wait(&mut self) -> bool {
        while self.backlog.is_empty() {
            let next = match self.checkpoint.patience() {
                Some(patience) => self.waiting.recv_timeout(patience),
                None => self.waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(job) => self.backlog.push(job),
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => self.checkpoint.on_idle(&self.connection),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;

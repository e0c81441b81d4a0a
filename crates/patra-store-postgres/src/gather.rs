//! Group commit: operations of one kind that arrive while others of that kind are being sent wait for them, and then
//! share statements, a transaction and a disk write. An operation that arrives alone does not wait.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patra_core::tx::{CommitBatch, Done, EndRun, RunEnd, Tx, TxError};
use tokio::sync::oneshot;

use crate::exec::{self, IN_ORDER};
use crate::pool::Pool;

/// Most operations of one transaction: as many as can be sent at once.
const MOST: usize = IN_ORDER;

/// Most records of a page that joins a group. Larger pages get a transaction of their own.
const FEW: usize = 20;

/// Operations that may share a transaction. Each locks its own task, and then nothing that another one may have locked.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Start,
    Page,
    End,
    /// One statement serves all of a group, and waits for no lock.
    Pick,
}

impl Kind {
    const COUNT: usize = 4;

    pub(crate) fn of(tx: &Tx) -> Option<Kind> {
        match tx {
            Tx::StartRun(_) => Some(Kind::Start),
            Tx::CommitBatch(page) if is_small(page) => Some(Kind::Page),
            Tx::EndRun(end) if is_plain(end) => Some(Kind::End),
            Tx::PickCookie(pick) if pick.name.is_none() => Some(Kind::Pick),
            _ => None,
        }
    }
}

fn is_small(page: &CommitBatch) -> bool {
    page.records.len() <= FEW
        && page.source.is_none()
        && page.capture.is_none()
        && page.rejected.is_empty()
        && page.checked.is_empty()
        && page.marks.is_empty()
}

fn is_plain(end: &EndRun) -> bool {
    end.poll.is_none() && end.failure.is_none() && end.pause.is_none() && !matches!(end.end, RunEnd::Split { .. })
}

/// Whether an operation may be in a group with the first one of its kind.
fn joins(first: &Tx, other: &Tx) -> bool {
    match (first, other) {
        (Tx::PickCookie(first), Tx::PickCookie(other)) => exec::joins(first, other),
        _ => true,
    }
}

/// Cheap to clone; clones share the queues.
#[derive(Clone)]
pub(crate) struct Gather {
    pool: Pool,
    queues: Arc<[Mutex<Queue>; Kind::COUNT]>,
}

/// Leaves out the queued operations: they contain user data.
impl fmt::Debug for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").finish_non_exhaustive()
    }
}

/// Operations of one kind.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// A group is being sent. Its sender sends the waiting operations next, so they gather while the server works.
    is_served: bool,
}

struct Waiting {
    tx: Tx,
    response: oneshot::Sender<Result<Done, TxError>>,
}

impl Gather {
    pub(crate) fn new(pool: &Pool) -> Gather {
        Gather { pool: pool.clone(), queues: Arc::default() }
    }

    /// Runs an operation to its end, even if the caller is dropped.
    pub(crate) async fn run(&self, kind: Kind, tx: Tx) -> Result<Done, TxError> {
        let (response, receiver) = oneshot::channel();
        let was_served = {
            let mut queue = self.queue(kind);
            queue.waiting.push_back(Waiting { tx, response });
            std::mem::replace(&mut queue.is_served, true)
        };
        if !was_served {
            let server = Server { gather: self.clone(), kind, is_done: false };
            tokio::spawn(server.serve());
        }
        receiver.await.unwrap_or_else(|_| Err(TxError::Unknown("an operation did not end".to_owned())))
    }

    /// Runs one operation of a group that failed together.
    async fn alone(self, one: Waiting) {
        let done = self.pool.run(move |session| Box::pin(exec::execute(session, one.tx))).await;
        respond(one.response, done);
    }

    fn queue(&self, kind: Kind) -> MutexGuard<'_, Queue> {
        self.queues[kind as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends waiting operations until the queue is empty.
struct Server {
    gather: Gather,
    kind: Kind,
    is_done: bool,
}

impl Server {
    async fn serve(mut self) {
        while let Some(group) = self.next() {
            let operations: Vec<_> = group.iter().map(|one| one.tx.clone()).collect();
            let together = self.gather.pool.run(move |session| Box::pin(exec::execute_together(session, operations)));
            match together.await {
                Ok(done) => {
                    for (one, done) in group.into_iter().zip(done) {
                        // No free cookie is left for it: it waits for one by itself.
                        if matches!((self.kind, &done), (Kind::Pick, Err(TxError::Busy))) {
                            tokio::spawn(self.gather.clone().alone(one));
                        } else {
                            respond(one.response, done);
                        }
                    }
                }
                // One operation may fail the group, or conflict with another process: each is sent alone, without
                // blocking the queue. Otherwise one whose row is damaged would keep the others from being stored.
                Err(error) if group.len() > 1 && !matches!(error, TxError::Unknown(_)) => {
                    for one in group {
                        tokio::spawn(self.gather.clone().alone(one));
                    }
                }
                Err(error) => group.into_iter().for_each(|one| respond(one.response, Err(error.clone()))),
            }
        }
    }

    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut queue = self.gather.queue(self.kind);
        let first = queue.waiting.front().map(|one| &one.tx);
        let most = first
            .map_or(0, |first| queue.waiting.iter().take(MOST).take_while(|other| joins(first, &other.tx)).count());
        if most == 0 {
            queue.is_served = false;
            drop(queue);
            self.is_done = true;
            return None;
        }
        Some(queue.waiting.drain(..most).collect())
    }
}

/// A server that is dropped early, as when its runtime ends, drops the waiting operations, and the next operation
/// starts a new one.
impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_done {
            let mut queue = self.gather.queue(self.kind);
            queue.is_served = false;
            queue.waiting.clear();
        }
    }
}

fn respond(response: oneshot::Sender<Result<Done, TxError>>, done: Result<Done, TxError>) {
    // A dropped caller needs no response.
    let _ = response.send(done);
}

//! What many tasks do at the same time goes to the server together: operations of one kind that come while others of it are
//! on their way wait for those, and then share statements, a transaction and a disk write. Whoever comes alone does not wait.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patra_core::tx::{CommitBatch, Done, EndRun, RunEnd, Tx, TxError};
use tokio::sync::oneshot;

use crate::exec::{self, IN_ORDER};
use crate::pool::Pool;

/// Operations of one transaction, at most: all that can be sent in one go.
const MOST: usize = IN_ORDER;

/// Records of a page that is gathered, at most: larger ones are worth a transaction of their own, beside others.
const FEW: usize = 20;

/// Operations that may go together. They lock tasks, each its own, and then nothing that another of them may hold.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Start,
    Page,
    End,
}

impl Kind {
    const COUNT: usize = 3;

    pub(crate) fn of(tx: &Tx) -> Option<Kind> {
        match tx {
            Tx::StartRun(_) => Some(Kind::Start),
            Tx::CommitBatch(page) if is_small(page) => Some(Kind::Page),
            Tx::EndRun(end) if is_plain(end) => Some(Kind::End),
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

/// Cheap to clone; the clones share what waits.
#[derive(Clone)]
pub(crate) struct Gather {
    pool: Pool,
    queues: Arc<[Mutex<Queue>; Kind::COUNT]>,
}

/// Not what waits: it holds what people keep.
impl fmt::Debug for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").finish_non_exhaustive()
    }
}

/// Operations of one kind.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Some are on their way, and whoever sent them sends what waits next: while the server works, the next gather.
    is_served: bool,
}

struct Waiting {
    tx: Tx,
    answer: oneshot::Sender<Result<Done, TxError>>,
}

impl Gather {
    pub(crate) fn new(pool: &Pool) -> Gather {
        Gather { pool: pool.clone(), queues: Arc::default() }
    }

    /// Goes on to its end, whoever still listens.
    pub(crate) async fn run(&self, kind: Kind, tx: Tx) -> Result<Done, TxError> {
        let (answer, answered) = oneshot::channel();
        let was_served = {
            let mut queue = self.queue(kind);
            queue.waiting.push_back(Waiting { tx, answer });
            std::mem::replace(&mut queue.is_served, true)
        };
        if !was_served {
            let server = Server { gather: self.clone(), kind, is_done: false };
            tokio::spawn(server.serve());
        }
        answered.await.unwrap_or_else(|_| Err(TxError::Unknown("an operation did not end".to_owned())))
    }

    /// One of several that do not go together.
    async fn alone(self, one: Waiting) {
        let done = self.pool.run(move |session| Box::pin(exec::execute(session, one.tx))).await;
        tell(one.answer, done);
    }

    fn queue(&self, kind: Kind) -> MutexGuard<'_, Queue> {
        self.queues[kind as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends what waits, as long as something does.
struct Server {
    gather: Gather,
    kind: Kind,
    is_done: bool,
}

impl Server {
    async fn serve(mut self) {
        while let Some(group) = self.next() {
            let asked: Vec<_> = group.iter().map(|one| one.tx.clone()).collect();
            let together = self.gather.pool.run(move |session| Box::pin(exec::execute_together(session, asked)));
            match together.await {
                Ok(done) => group.into_iter().zip(done).for_each(|(one, done)| tell(one.answer, done)),
                // One stands in the way of the others, or met somebody else: each by itself, and nobody waits for it.
                Err(TxError::Busy | TxError::Conflict | TxError::Fenced | TxError::Refused(_)) if group.len() > 1 => {
                    for one in group {
                        tokio::spawn(self.gather.clone().alone(one));
                    }
                }
                Err(error) => group.into_iter().for_each(|one| tell(one.answer, Err(error.clone()))),
            }
        }
    }

    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut queue = self.gather.queue(self.kind);
        let most = queue.waiting.len().min(MOST);
        if most == 0 {
            queue.is_served = false;
            drop(queue);
            self.is_done = true;
            return None;
        }
        Some(queue.waiting.drain(..most).collect())
    }
}

/// One that is cut off, as when its runtime ends, takes along what waits, and the next operation finds another.
impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_done {
            let mut queue = self.gather.queue(self.kind);
            queue.is_served = false;
            queue.waiting.clear();
        }
    }
}

fn tell(answer: oneshot::Sender<Result<Done, TxError>>, done: Result<Done, TxError>) {
    // Whoever has gone away needs no answer.
    let _ = answer.send(done);
}

//! The event queue: a heap ordered by time, and among equal times in an order that the seed decides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use patra_core::Ts;
use patra_core::protocol::run::{self, FetchedPage, PageFailure};
use patra_core::protocol::{executor, planner};
use patra_core::rng::Rng;
use patra_core::tx::{Done, Tx, TxError};

use super::control::Act;
use super::process::Active;

#[derive(Debug)]
pub(super) enum Event {
    /// A transaction reaches the store.
    Arrive {
        exchange: Box<Exchange>,
        unknown: bool,
    },
    /// The result of a transaction reaches the process.
    Answer(Box<Exchange>),
    /// A response of the upstream, or its failure.
    Fetched {
        process: usize,
        life: u32,
        run: u32,
        result: Result<Box<FetchedPage>, Box<PageFailure>>,
    },
    /// A timer.
    Wake {
        process: usize,
    },
    Restart {
        process: usize,
        life: u32,
    },
    /// Somebody requests a job.
    Fire {
        number: u64,
    },
    /// An operator acts on the work.
    Act(Act),
    Outage {
        until: Ts,
    },
    /// The database server dies, and is back at this time.
    ServerCrash {
        until: Ts,
    },
    /// The store's clock is set: this far (in microseconds) from the true time.
    SetClock {
        offset: i64,
    },
    /// No more faults from here on.
    Calm,
}

/// A transaction and its result, in one reused box.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) from: Sender,
    pub(super) tx: Tx,
    pub(super) result: Result<Done, TxError>,
}

/// The machine that waits for a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) process: usize,
    pub(super) life: u32,
    pub(super) machine: Machine,
    /// Time of sending, by the process's clock.
    pub(super) sent: Ts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    Executor,
    Sweeper,
    Planner,
    Run(u32),
}

/// Reused memory.
#[derive(Debug, Default)]
pub(super) struct Pool {
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    pub(super) exchanges: Vec<Box<Exchange>>,
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    pub(super) actives: Vec<Box<Active>>,
    pub(super) run: Vec<Vec<run::Want>>,
    pub(super) executor: Vec<Vec<executor::Want>>,
    pub(super) planner: Vec<Vec<planner::Want>>,
}

impl Pool {
    pub(super) fn exchange(&mut self, from: Sender, tx: Tx, result: Result<Done, TxError>) -> Box<Exchange> {
        let exchange = Exchange { from, tx, result };
        match self.exchanges.pop() {
            Some(mut used) => {
                *used = exchange;
                used
            }
            None => Box::new(exchange),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Ts, u32, u32)>>,
    slots: Vec<Option<Event>>,
    free: Vec<u32>,
}

impl Agenda {
    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.slots.clear();
        self.free.clear();
    }

    pub(super) fn push(&mut self, at: Ts, rng: &mut Rng, event: Event) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                self.slots.len() as u32 - 1
            }
        };
        self.heap.push(Reverse((at, rng.next_u64() as u32, slot)));
    }

    pub(super) fn pop(&mut self) -> Option<(Ts, Event)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.slots[slot as usize].take().map(|event| (at, event))
    }
}

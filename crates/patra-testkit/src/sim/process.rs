//! One simulated process: the real machines, a gate, and a clock of its own that may be wrong.

use std::time::Duration;

use patra_core::gate::{Bucket, Rate};
use patra_core::protocol::executor::{self, Executor};
use patra_core::protocol::planner::{self, Planner};
use patra_core::protocol::run::RunMachine;
use patra_core::protocol::sweeper::{self, Sweeper};
use patra_core::rng::Rng;
use patra_core::state::Operation;
use patra_core::tx::LeaseRef;
use patra_core::{Ts, Window};

use super::clock::StoreClock;
use super::profile::Profile;
use crate::memory::Due;

/// Replaces the engine's gate, of which the protocols see only the decision.
const RATE: Rate = Rate { per_sec: 4.0, burst: 2.0 };

#[derive(Debug)]
pub(super) struct Process {
    pub(super) role: Role,
    /// Rises with every start; events of an earlier life are dropped.
    pub(super) life: u32,
    pub(super) alive: bool,
    pub(super) draining: bool,
    pub(super) paused_until: Ts,
    /// Microseconds by which the process's clock is ahead.
    pub(super) offset: i64,
    pub(super) machines: Machines,
    /// Due time of the next scheduled timer, in true time.
    pub(super) next_wake: Ts,
    /// Silence that the upstream requested, by this process's clock: no request before then.
    pub(super) silent_until: Ts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Executor,
    Planner,
    Both,
}

impl Role {
    /// The role of the process with this number.
    pub(super) fn of(index: u64, profile: &Profile) -> Role {
        match profile.joined {
            true => Role::Both,
            false if index < profile.executors => Role::Executor,
            false => Role::Planner,
        }
    }
}

#[derive(Debug)]
pub(super) struct Machines {
    pub(super) executor: Option<Executor>,
    pub(super) planner: Option<Planner>,
    pub(super) sweeper: Sweeper,
    #[expect(clippy::vec_box, reason = "a run is large, and moves when one before it ends")]
    pub(super) runs: Vec<Box<Active>>,
    pub(super) gate: Bucket,
    next_run: u32,
}

/// A run and the number under which it receives results.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) number: u32,
    pub(super) lease: LeaseRef,
    pub(super) window: Window,
    pub(super) partition: Option<usize>,
    /// Whether the run refreshes stored records.
    pub(super) update: bool,
    /// Whether the executor knows that the task is paused.
    pub(super) held: bool,
    pub(super) run: RunMachine,
}

impl Process {
    pub(super) fn new(index: usize, role: Role, profile: &Profile, rng: &mut Rng, now: Ts) -> Process {
        let skew = if profile.skewed { rng.below(80_000_001) as i64 - 40_000_000 } else { 0 };
        let local = Ts::from_micros(now.micros() + skew);
        Process {
            role,
            life: 0,
            alive: true,
            draining: false,
            paused_until: Ts::MIN,
            offset: skew,
            machines: Machines::new(index, 0, role, profile, rng, local),
            next_wake: Ts::MAX,
            silent_until: Ts::MIN,
        }
    }

    /// The process's clock at `now`.
    pub(super) fn local(&self, now: Ts) -> Ts {
        Ts::from_micros(now.micros() + self.offset)
    }

    /// Converts an instant of the process's clock to true time.
    fn truly(&self, local: Ts) -> Ts {
        Ts::from_micros(local.micros().saturating_sub(self.offset))
    }

    /// The next timer of any machine that may find work.
    pub(super) fn wake_at(&self, due: &Due, clock: StoreClock) -> Ts {
        let Machines { executor, planner, sweeper, runs, .. } = &self.machines;
        let timers = runs.iter().map(|active| active.run.wake_at()).min().unwrap_or(Ts::MAX);
        let executor = executor.as_ref().map_or(Ts::MAX, |executor| self.truly(executor.wake_at()));
        let executor = if runs.is_empty() { executor.max(clock.truly(due.task)) } else { executor };
        let planner = planner.as_ref().map_or(Ts::MAX, |planner| self.truly(planner.wake_at()));
        let sweeper = self.truly(sweeper.wake_at());
        let sweeper = if clock.unnoticed { sweeper } else { sweeper.max(clock.truly(due.lease)) };
        self.truly(timers).min(executor).min(planner.max(clock.truly(due.trigger))).min(sweeper)
    }
}

impl Machines {
    pub(super) fn new(index: usize, life: u32, role: Role, profile: &Profile, rng: &mut Rng, local: Ts) -> Machines {
        let owner = format!("{index}.{life}");
        let executor = (role != Role::Planner).then(|| {
            let (capacity, idle_poll) = (profile.capacity, profile.idle_poll);
            let options = executor::Options {
                capacity,
                lease: profile.lease,
                idle_poll,
                max_attempts: profile.attempts,
                ..executor::Options::new(owner.clone())
            };
            Executor::new(options, rng.fork(), local)
        });
        let planner = (role != Role::Executor).then(|| {
            let options = planner::Options {
                lease: profile.lease,
                idle_poll: profile.idle_poll,
                inventory: profile.inventory,
                inventory_wait: Duration::from_secs(3),
                ..planner::Options::new(owner)
            };
            Planner::new(options, rng.fork(), local)
        });
        let (every, longest_lease) = (profile.sweep, profile.lease);
        let sweep = sweeper::Options { every, limit: 3, max_attempts: profile.attempts, longest_lease };
        Machines {
            executor,
            planner,
            sweeper: Sweeper::new(sweep, rng.fork(), local),
            runs: Vec::new(),
            gate: Bucket::new(RATE, local),
            next_run: 0,
        }
    }

    pub(super) fn number_of(&self, lease: LeaseRef) -> Option<u32> {
        self.runs.iter().find(|active| active.lease == lease).map(|active| active.number)
    }

    /// A run is large, so the next run reuses the memory of an ended one.
    pub(super) fn add(&mut self, run: RunMachine, memory: Option<Box<Active>>) -> u32 {
        self.next_run += 1;
        let lease = LeaseRef::from(run.lease());
        // An UPDATE has no window and needs none.
        let window = run.lease().window.unwrap_or(Window { from: Ts::MIN, to: Ts::MAX });
        let partition = super::partition::of(run.lease());
        let update = run.lease().operation == Operation::Update;
        let active = Active { number: self.next_run, lease, window, partition, update, held: false, run };
        self.runs.push(match memory {
            Some(mut used) => {
                *used = active;
                used
            }
            None => Box::new(active),
        });
        self.next_run
    }

    pub(super) fn give_back(&mut self, held: &[LeaseRef]) {
        for active in self.runs.iter_mut().filter(|active| held.contains(&active.lease)) {
            active.held = true;
        }
    }

    pub(super) fn find(&mut self, number: u32) -> Option<&mut Active> {
        self.runs.iter_mut().find(|active| active.number == number).map(|active| &mut **active)
    }

    /// False when there is none.
    pub(super) fn nudge_executor(&mut self, local: Ts) -> bool {
        self.executor.as_mut().map(|executor| executor.nudge(local)).is_some()
    }

    /// False when there is none.
    pub(super) fn nudge_planner(&mut self, local: Ts) -> bool {
        self.planner.as_mut().map(|planner| planner.nudge(local)).is_some()
    }
}

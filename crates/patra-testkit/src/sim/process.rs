//! One simulated process: the real machines, a gate, and a clock of its own that may be wrong.

use std::time::Duration;

use patra_core::gate::{Bucket, Rate};
use patra_core::protocol::executor::{self, Executor};
use patra_core::protocol::planner::{self, Planner};
use patra_core::protocol::run::Run;
use patra_core::protocol::sweeper::{self, Sweeper};
use patra_core::rng::Rng;
use patra_core::tx::LeaseRef;
use patra_core::{Ts, Window};

use super::profile::Profile;

pub(super) const LEASE: Duration = Duration::from_secs(12);
pub(super) const MAX_ATTEMPTS: u32 = 3;

#[derive(Debug)]
pub(super) struct Process {
    pub(super) role: Role,
    /// Rises with every start; what belongs to an earlier life is not heard any more.
    pub(super) life: u32,
    pub(super) alive: bool,
    pub(super) draining: bool,
    pub(super) paused_until: Ts,
    /// Microseconds that its clock is ahead.
    pub(super) offset: i64,
    pub(super) machines: Machines,
    /// When the next timer is due that has been asked for, in true time.
    pub(super) next_wake: Ts,
    /// By its own clock: no request before then, as the far side has told it.
    pub(super) silent_until: Ts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Executor,
    Planner,
}

#[derive(Debug)]
pub(super) struct Machines {
    pub(super) executor: Option<Executor>,
    pub(super) planner: Option<Planner>,
    pub(super) sweeper: Sweeper,
    pub(super) runs: Vec<Active>,
    pub(super) gate: Bucket,
    next_run: u32,
}

/// A run and the number under which its answers come back.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) number: u32,
    pub(super) lease: LeaseRef,
    pub(super) window: Window,
    pub(super) partition: Option<usize>,
    pub(super) run: Run,
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

    /// What its clock shows at `now`.
    pub(super) fn local(&self, now: Ts) -> Ts {
        Ts::from_micros(now.micros() + self.offset)
    }

    /// A true instant from its own clock's.
    pub(super) fn truly(&self, local: Ts) -> Ts {
        Ts::from_micros(local.micros().saturating_sub(self.offset))
    }
}

impl Machines {
    pub(super) fn new(index: usize, life: u32, role: Role, profile: &Profile, rng: &mut Rng, local: Ts) -> Machines {
        let owner = format!("{index}.{life}");
        let executor = (role == Role::Executor).then(|| {
            let idle_poll = Duration::from_secs(6);
            let options =
                executor::Options { owner: owner.clone(), capacity: profile.capacity, lease: LEASE, idle_poll };
            Executor::new(options, rng.fork(), local)
        });
        let planner = (role == Role::Planner).then(|| {
            let options = planner::Options {
                lease: LEASE,
                // A plan in parts goes on as often as the planner looks.
                idle_poll: Duration::from_secs(if profile.inventory < 100 { 4 } else { 12 }),
                inventory: profile.inventory,
                inventory_wait: Duration::from_secs(3),
                ..planner::Options::new(owner)
            };
            Planner::new(options, rng.fork(), local)
        });
        let sweep = sweeper::Options { every: Duration::from_secs(14), limit: 3, max_attempts: MAX_ATTEMPTS };
        Machines {
            executor,
            planner,
            sweeper: Sweeper::new(sweep, rng.fork(), local),
            runs: Vec::new(),
            gate: Bucket::new(Rate { per_sec: 4.0, burst: 2.0 }, local),
            next_run: 0,
        }
    }

    pub(super) fn add(&mut self, run: Run) -> u32 {
        self.next_run += 1;
        let (lease, window) = (LeaseRef::from(run.lease()), run.lease().window);
        let partition = super::partition::of(run.lease());
        self.runs.push(Active { number: self.next_run, lease, window, partition, run });
        self.next_run
    }

    pub(super) fn find(&mut self, number: u32) -> Option<&mut Active> {
        self.runs.iter_mut().find(|active| active.number == number)
    }

    /// The next timer of any machine, by the process's clock.
    pub(super) fn wake_at(&self) -> Ts {
        let runs = self.runs.iter().map(|active| active.run.wake_at()).min().unwrap_or(Ts::MAX);
        let executor = self.executor.as_ref().map_or(Ts::MAX, Executor::wake_at);
        let planner = self.planner.as_ref().map_or(Ts::MAX, Planner::wake_at);
        runs.min(executor).min(planner).min(self.sweeper.wake_at())
    }
}

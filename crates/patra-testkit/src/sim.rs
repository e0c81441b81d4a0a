//! The seeded simulator: the real protocols of several processes over one in-memory store, with a clock, a network and
//! an upstream that misbehave as the seed decides. After every transaction the invariants of the design are checked on
//! the tables; in the end the faults stop and everything must come to rest with nothing missing.
//!
//! One seed is one schedule, bit for bit. A failure names its seed and the command that replays it.

mod api;
mod api_behavior;
mod check;
mod clock;
mod control;
mod crash;
mod death;
mod drive;
mod event;
mod mutant;
mod partition;
mod parts;
mod passes;
mod process;
mod profile;
mod refuse;
mod request;
mod scene;
mod store;
mod update;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use mutant::Mutant;
use world::{Spare, World};

/// A schedule that ended without a violation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub steps: u64,
    /// Hash of all events, in order.
    pub hash: u64,
}

/// A schedule that broke a rule.
#[derive(Clone, Debug)]
pub struct Violation {
    pub seed: u64,
    pub step: u64,
    pub rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}, step {}: {}\nreplay: cargo run --release -p patra-testkit --bin patra-sim -- --seed {} --trace",
            self.seed, self.step, self.rule, self.seed
        )
    }
}

impl std::error::Error for Violation {}

/// Runs seeds one after the other, each in the memory of the one before.
#[derive(Debug, Default)]
pub struct Simulator {
    spare: Spare,
}

impl Simulator {
    /// Runs one seed, with or without a mutant.
    pub fn run(&mut self, seed: u64, mutant: Option<Mutant>, trace: bool) -> Result<Schedule, Violation> {
        let mut world = World::new(seed, mutant, trace, std::mem::take(&mut self.spare));
        // The store panics rather than make an illegal transition; that is a finding like any other.
        let lived = catch_unwind(AssertUnwindSafe(|| world.live()));
        let rule = match lived {
            Ok(Ok(())) => {
                let schedule = Schedule { steps: world.steps, hash: world.hash };
                self.spare = world.into_spare();
                return Ok(schedule);
            }
            Ok(Err(rule)) => rule,
            Err(panic) => match panic.downcast::<String>() {
                Ok(text) => format!("panic: {text}"),
                Err(panic) => format!("panic: {}", panic.downcast_ref::<&str>().unwrap_or(&"?")),
            },
        };
        Err(Violation { seed, step: world.steps, rule })
    }
}

/// Runs one seed.
pub fn simulate(seed: u64, mutant: Option<Mutant>, trace: bool) -> Result<Schedule, Violation> {
    Simulator::default().run(seed, mutant, trace)
}

/// The first seed below `limit` that notices the bug.
pub fn hunt(mutant: Mutant, limit: u64) -> Option<Violation> {
    let mut simulator = Simulator::default();
    (0..limit).find_map(|seed| simulator.run(seed, Some(mutant), false).err())
}

/// Seeds that are always run: `seeds.txt`.
pub fn regression_seeds() -> impl Iterator<Item = u64> {
    include_str!("sim/seeds.txt").lines().filter_map(|line| line.split_whitespace().next()?.parse().ok())
}

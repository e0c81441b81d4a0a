//! What one seed is made of. Every kind of fault has its own probability, drawn per seed and often zero, so that seeds
//! differ in kind and not only in detail.

use std::time::Duration;

use patra_core::rng::Rng;
use patra_core::window::{Align, Cut};

/// All in permille unless said.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) executors: u64,
    pub(super) planners: u64,
    pub(super) capacity: u32,
    pub(super) cut: Cut,
    pub(super) page_size: u32,
    pub(super) inventory: u32,
    pub(super) lag: Duration,
    /// Faults stop after this long.
    pub(super) rough: Duration,
    /// A transaction meets …
    pub(super) busy: u64,
    pub(super) unavailable: u64,
    pub(super) unknown_done: u64,
    pub(super) unknown_lost: u64,
    pub(super) slow_store: u64,
    /// A process, when it is told something …
    pub(super) crash: u64,
    pub(super) pause: u64,
    pub(super) jump: u64,
    pub(super) drain: u64,
    /// A request meets …
    pub(super) throttle: u64,
    pub(super) error: u64,
    pub(super) lost: u64,
    pub(super) slow_far: u64,
    pub(super) repeat: u64,
    pub(super) malformed: u64,
    pub(super) skewed: bool,
    pub(super) outages: u64,
    pub(super) triggers: u64,
    pub(super) scheduled: bool,
    pub(super) poison: bool,
    /// Pages name ids; so many of them are asked for at once.
    pub(super) details: Option<u32>,
    /// A query gives out only so many records.
    pub(super) ceiling: bool,
}

impl Profile {
    pub(super) fn draw(rng: &mut Rng) -> Profile {
        let mut upto = |most: u64| if rng.chance(500) { 0 } else { 1 + rng.below(most) };
        Profile {
            busy: upto(120),
            unavailable: upto(80),
            unknown_done: upto(120),
            unknown_lost: upto(120),
            slow_store: upto(60),
            crash: upto(40),
            pause: upto(40),
            jump: upto(25),
            drain: upto(10),
            throttle: upto(250),
            error: upto(250),
            lost: upto(60),
            slow_far: upto(100),
            repeat: upto(30),
            malformed: upto(200),
            outages: upto(2),
            triggers: 2 + upto(5),
            executors: 1 + rng.below(3),
            planners: 1 + rng.below(2),
            capacity: 1 + rng.below(3) as u32,
            cut: Cut {
                max_width: Duration::from_secs(15 + rng.below(60)),
                align: if rng.chance(300) { Some(Align::Minute) } else { None },
            },
            page_size: 1 + rng.below(4) as u32,
            inventory: if rng.chance(300) { 1 + rng.below(4) as u32 } else { 100 },
            lag: Duration::from_secs(5 + rng.below(20)),
            rough: Duration::from_secs(60 + rng.below(90)),
            skewed: rng.chance(600),
            scheduled: rng.chance(500),
            poison: rng.chance(250),
            details: rng.chance(300).then(|| 1 + rng.below(3) as u32),
            ceiling: rng.chance(300),
        }
    }

    /// The same world with no more faults.
    pub(super) fn calm(&self) -> Profile {
        Profile {
            busy: 0,
            unavailable: 0,
            unknown_done: 0,
            unknown_lost: 0,
            slow_store: 0,
            crash: 0,
            pause: 0,
            jump: 0,
            drain: 0,
            throttle: 0,
            error: 0,
            lost: 0,
            slow_far: 0,
            repeat: 0,
            ..self.clone()
        }
    }
}

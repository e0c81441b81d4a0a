//! The crash points of the engine, and the choice of the next one.

use patra_core::rng::Rng;

use super::fleet::Part;

/// A crash point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Point {
    pub(super) name: &'static str,
    /// The role that executes it.
    pub(super) part: Part,
    /// Approximate number of passages in one round.
    passages: u64,
}

const fn point(name: &'static str, part: Part, passages: u64) -> Point {
    Point { name, part, passages }
}

/// After a page was read, before it is committed.
const MIDDLE: &str = "run.before-CommitBatch";

pub(super) const POINTS: &[Point] = &[
    point("planner.before-ClaimJob", Part::Planner, 2),
    point("planner.after-ClaimJob", Part::Planner, 2),
    point("planner.before-Compile", Part::Planner, 1),
    point("planner.after-Compile", Part::Planner, 1),
    point("planner.after-ReadCoverage", Part::Planner, 2),
    point("planner.after-RecordAdvance", Part::Planner, 1),
    point("planner.before-SavePlan", Part::Planner, 1),
    point("planner.after-SavePlan", Part::Planner, 1),
    point("executor.before-ClaimTasks", Part::Executor, 2),
    point("executor.after-ClaimTasks", Part::Executor, 2),
    point("executor.before-Renew", Part::Executor, 1),
    point("executor.after-Renew", Part::Executor, 1),
    point("run.before-StartRun", Part::Executor, 4),
    point("run.after-StartRun", Part::Executor, 4),
    point("run.before-Fetch", Part::Executor, 16),
    point("run.after-Fetch", Part::Executor, 16),
    point("run.before-CommitBatch", Part::Executor, 16),
    point("run.after-CommitBatch", Part::Executor, 16),
    point("run.before-EndRun", Part::Executor, 4),
    point("run.after-EndRun", Part::Executor, 4),
    // Between the cursor's event and its value. Tasks that end at once pass it together.
    point("run.before-RecordAdvance", Part::Executor, 2),
    point("run.after-RecordAdvance", Part::Executor, 2),
    point("run.before-AdvanceCursor", Part::Executor, 2),
    point("run.after-AdvanceCursor", Part::Executor, 2),
    point("sweeper.before-Sweep", Part::Executor, 2),
    point("sweeper.after-Sweep", Part::Executor, 2),
];

/// Deals all points in random order, then again in another order: each point occurs once per cycle.
pub(super) struct Deck {
    left: Vec<Point>,
    /// In the first cycle each point crashes at its first passage, the most certain one.
    is_first: bool,
}

impl Deck {
    pub(super) fn new() -> Deck {
        Deck { left: POINTS.to_vec(), is_first: true }
    }

    /// The next point, and its setting for the engine. The very first one is in the middle of the work.
    pub(super) fn deal(&mut self, rng: &mut Rng) -> (Point, String) {
        let middle = self.left.iter().position(|point| point.name == MIDDLE && self.left.len() == POINTS.len());
        let at = middle.filter(|_| self.is_first).unwrap_or_else(|| rng.below(self.left.len() as u64) as usize);
        let point = self.left.swap_remove(at);
        let passage = if self.is_first { 1 } else { 1 + rng.below(point.passages) };
        if self.left.is_empty() {
            *self = Deck { left: POINTS.to_vec(), is_first: false };
        }
        (point, format!("{}:{passage}", point.name))
    }
}

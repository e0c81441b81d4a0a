//! How the store is doing, as one process sees it (ING-5.2-08): commits that take long mean that it has more to do than it
//! can, and then this process takes fewer tasks, whatever the far sides could bear.

use std::time::Duration;

use super::{Action, ENOUGH, FEWEST_TASKS, Factor};
use crate::time::Ts;

/// How much the newest commit weighs in the average: one part of so many.
const WEIGHT: u64 = 16;

#[derive(Clone, Debug)]
pub struct Pressure {
    slow: Duration,
    commits: u32,
    average_us: u64,
    tasks: Factor,
}

impl Pressure {
    /// Commits that take longer than `slow` on average are too slow.
    pub fn new(slow: Duration) -> Pressure {
        Pressure { slow, commits: 0, average_us: 0, tasks: Factor::FULL }
    }

    /// Of the tasks that this process may run at once.
    pub fn tasks_percent(&self) -> u32 {
        self.tasks.percent
    }

    /// Takes note of how long a commit took, waiting for its turn included, and says what is done about it.
    pub fn on(&mut self, now: Ts, latency: Duration) -> Option<Action> {
        let latency = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX / WEIGHT).min(u64::MAX / WEIGHT);
        self.commits = self.commits.saturating_add(1);
        // A plain average until there are enough of them, so that the first one does not count for many.
        let weight = u64::from(self.commits).min(WEIGHT);
        self.average_us = (self.average_us * (weight - 1) + latency) / weight;
        let slow = self.commits >= ENOUGH && u128::from(self.average_us) > self.slow.as_micros();
        if slow {
            let changed = self.tasks.down(now, FEWEST_TASKS);
            changed.then_some(Action::TasksDown { percent: self.tasks.percent })
        } else {
            let changed = self.tasks.up(now);
            changed.then_some(Action::TasksUp { percent: self.tasks.percent })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_millis(5);
    const SLOW: Duration = Duration::from_millis(900);

    /// Commits of this kind, one a second.
    fn tell(pressure: &mut Pressure, from: i64, latencies: &[Duration]) -> Vec<Action> {
        let told = (from..).zip(latencies).filter_map(|(at, latency)| pressure.on(Ts::from_secs(at), *latency));
        told.collect()
    }

    // covers: ING-5.2-08, ING-5.7-01
    #[test]
    fn slow_commits_lower_the_tasks_of_the_process_and_fast_ones_bring_them_back() {
        let mut pressure = Pressure::new(Duration::from_millis(200));
        assert!(tell(&mut pressure, 0, &[SLOW; 19]).is_empty(), "too few to tell");
        assert_eq!(tell(&mut pressure, 19, &[SLOW]), [Action::TasksDown { percent: 70 }]);
        assert!(tell(&mut pressure, 20, &[SLOW; 9]).is_empty(), "what was done must be felt first");
        tell(&mut pressure, 100, &[SLOW; 100]);
        assert_eq!(pressure.tasks_percent(), 25, "never none at all");
        let up = tell(&mut pressure, 300, &[FAST; 200]);
        assert_eq!((up.len(), pressure.tasks_percent()), (8, 100), "{up:?}");
    }

    #[test]
    fn one_slow_commit_among_many_changes_nothing() {
        let mut pressure = Pressure::new(Duration::from_millis(200));
        let mut latencies = [FAST; 60];
        (latencies[0], latencies[30]) = (SLOW, SLOW);
        assert!(tell(&mut pressure, 0, &latencies).is_empty());
        assert!(pressure.on(Ts::from_secs(90), Duration::MAX).is_some(), "but one that takes for ever does");
    }
}

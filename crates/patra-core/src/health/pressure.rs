//! Pressure on the store, as one process sees it (ING-5.2-08): when commits take long the store is overloaded, and
//! this process runs fewer tasks, whatever the upstreams could bear.

use std::time::Duration;

use super::{ENOUGH, FEWEST_TASKS, Factor, HealthAction};
use crate::time::Ts;

/// Weight of the newest commit in the average: one part of this many.
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

    /// Percent of the tasks that this process may run at once.
    pub fn tasks_percent(&self) -> u32 {
        self.tasks.percent
    }

    /// Records the duration of a commit, including queueing, and applies measures.
    pub fn on(&mut self, now: Ts, latency: Duration) -> Option<HealthAction> {
        let latency = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX / WEIGHT).min(u64::MAX / WEIGHT);
        self.commits = self.commits.saturating_add(1);
        // A plain average until there are enough commits, so that the first one is not overweighted.
        let weight = u64::from(self.commits).min(WEIGHT);
        self.average_us = (self.average_us * (weight - 1) + latency) / weight;
        let slow = self.commits >= ENOUGH && u128::from(self.average_us) > self.slow.as_micros();
        if slow {
            let changed = self.tasks.down(now, FEWEST_TASKS);
            changed.then_some(HealthAction::TasksDown { percent: self.tasks.percent })
        } else {
            let changed = self.tasks.up(now);
            changed.then_some(HealthAction::TasksUp { percent: self.tasks.percent })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_millis(5);
    const SLOW: Duration = Duration::from_millis(900);

    /// Records commits of these durations, one a second.
    fn record(pressure: &mut Pressure, from: i64, latencies: &[Duration]) -> Vec<HealthAction> {
        let actions = (from..).zip(latencies).filter_map(|(at, latency)| pressure.on(Ts::from_secs(at), *latency));
        actions.collect()
    }

    // covers: ING-5.2-08, ING-5.7-01
    #[test]
    fn slow_commits_lower_task_capacity_and_fast_ones_restore_it() {
        let mut pressure = Pressure::new(Duration::from_millis(200));
        assert!(record(&mut pressure, 0, &[SLOW; 19]).is_empty(), "too few commits");
        assert_eq!(record(&mut pressure, 19, &[SLOW]), [HealthAction::TasksDown { percent: 70 }]);
        assert!(record(&mut pressure, 20, &[SLOW; 9]).is_empty(), "the effect must show first");
        record(&mut pressure, 100, &[SLOW; 100]);
        assert_eq!(pressure.tasks_percent(), 25, "never none at all");
        let up = record(&mut pressure, 300, &[FAST; 200]);
        assert_eq!((up.len(), pressure.tasks_percent()), (8, 100), "{up:?}");
    }

    #[test]
    fn one_slow_commit_among_many_changes_nothing() {
        let mut pressure = Pressure::new(Duration::from_millis(200));
        let mut latencies = [FAST; 60];
        (latencies[0], latencies[30]) = (SLOW, SLOW);
        assert!(record(&mut pressure, 0, &latencies).is_empty());
        assert!(pressure.on(Ts::from_secs(90), Duration::MAX).is_some(), "but one that takes for ever does");
    }
}

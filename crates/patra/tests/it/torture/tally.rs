//! Counts of actions and results, for the final line.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::fleet::lease;

/// A task of a killed executor should run again within the lease plus this.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rounds: u64,
    pub(super) records: usize,
    pub(super) gaps: usize,
    pub(super) doubles: usize,
    /// Pages that were read and not committed, because their process died. The next process reads them again.
    pub(super) pages_again: u64,
    harms: BTreeMap<String, u64>,
    missed: BTreeMap<String, u64>,
    slowest_recovery: Duration,
    reruns: u64,
    slowest_rerun: Duration,
    late_reruns: u64,
    /// Writes that a zombie certainly sent: it was frozen right before them.
    pub(super) stale_writes: u64,
    /// Wake-ups after which a zombie had changed data.
    pub(super) accepted: u64,
    /// Runs that stopped because their lease was lost.
    pub(super) lost: usize,
}

impl Tally {
    pub(super) fn harm(&mut self, what: &str) {
        *self.harms.entry(what.to_owned()).or_default() += 1;
    }

    /// A crash point that the round did not reach.
    pub(super) fn missed(&mut self, point: &str) {
        *self.missed.entry(point.to_owned()).or_default() += 1;
    }

    pub(super) fn recovered(&mut self, after: Duration) {
        self.slowest_recovery = self.slowest_recovery.max(after);
    }

    /// A task of a dead executor was started again.
    pub(super) fn rerun(&mut self, after: Duration) {
        self.reruns += 1;
        self.slowest_rerun = self.slowest_rerun.max(after);
        self.late_reruns += u64::from(after > lease() + GRACE);
    }

    /// The first limit is for an idle machine. Beyond this one, something is wrong even on a busy one.
    pub(super) fn judge(&self) {
        assert!(self.slowest_rerun < lease() + GRACE * 5, "a task waited {:?} for its next run", self.slowest_rerun);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |of: &BTreeMap<String, u64>| -> String {
            let all: Vec<_> = of.iter().map(|(what, count)| format!("{what} {count}")).collect();
            if all.is_empty() { "none".to_owned() } else { all.join(", ") }
        };
        write!(
            f,
            "{} rounds, {} records, {} gaps, {} duplicates; {} pages read again; slowest recovery {:.2} s; ",
            self.rounds,
            self.records,
            self.gaps,
            self.doubles,
            self.pages_again,
            self.slowest_recovery.as_secs_f64()
        )?;
        write!(
            f,
            "{} tasks of dead or frozen executors ran again, the slowest after {:.2} s, {} later than lease + {} s; ",
            self.reruns,
            self.slowest_rerun.as_secs_f64(),
            self.late_reruns,
            GRACE.as_secs()
        )?;
        write!(
            f,
            "{} stale writes sent on purpose, {} accepted, {} runs stopped by a lost lease; ",
            self.stale_writes, self.accepted, self.lost
        )?;
        write!(f, "harms: {}; points not come to: {}", list(&self.harms), list(&self.missed))
    }
}

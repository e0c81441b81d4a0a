//! Records are marked as missing by complete passes only, and only those that were away.

use patra_core::Ts;
use patra_core::paging::Verification;
use patra_core::tx::Tx;

use super::{Broken, Checker};
use crate::memory::{Item, MemStore};
use crate::sim::api::{MockApi, number};

impl Checker {
    /// A record is marked by a complete pass only, and only if its list was without it at some moment of the pass.
    pub(super) fn check_marking(&mut self, mem: &MemStore, truly: Ts, tx: &Tx, api: &MockApi) -> Result<(), Broken> {
        while self.marks.0.len() < mem.slices.len() {
            self.marks.0.push(truly);
        }
        let is_marked = |item: &Item| item.missing_since.is_some();
        for (at, item) in mem.items.iter().enumerate().filter(|(_, item)| is_marked(item)) {
            if self.marks.1.get(at).copied().unwrap_or(false) {
                continue;
            }
            let Tx::MarkMissing(op) = tx else { return Err(format!("marks: {} marked {}", tx.name(), item.key)) };
            if !self.is_complete(mem, op.lease.task.0) {
                return Err(format!("marks: {} was marked by a pass that is not complete", item.key));
            }
            let began = self.marks.0[op.lineage.slice.0 as usize - 1];
            let record = number(&item.key).and_then(|number| api.records.get(number));
            if !record.is_some_and(|record| record.was_away(began, truly)) {
                return Err(format!("marks: {} was in its list during the whole pass that marked it", item.key));
            }
        }
        self.marks.1.clear();
        self.marks.1.extend(mem.items.iter().map(is_marked));
        Ok(())
    }

    /// The list of the task was read to its end, and that is known.
    fn is_complete(&self, mem: &MemStore, task: i64) -> bool {
        let last = self.tasks.get(task as usize - 1).and_then(|task| task.last_batch);
        last.map(|at| &mem.batches[at]).is_some_and(|last| {
            let verified = last.stats.walk.and_then(|walk| walk.verification);
            last.next.is_none() && verified.is_some_and(Verification::is_complete)
        })
    }
}

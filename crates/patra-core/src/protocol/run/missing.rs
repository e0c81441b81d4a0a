//! Between the last page of a pass and the end of its run: marks the records that the list no longer has.
//!
//! Only a pass that has read the whole list, and can show it, marks anything. It counts first: a list that has lost
//! most of its records is more often a fault of the upstream than a deletion.

use std::sync::Arc;

use super::page_failure::give_back;
use super::{MissingRule, PlannedEnd, RunMachine, RunStage, Want};
use crate::paging::Verification;
use crate::record::RecordStream;
use crate::tx::{LeaseRef, MarkMissing, MissingMarked, RunEnd};

/// The share of a list that is gone counts from this many records on.
const ENOUGH_RECORDS: u64 = 20;

#[derive(Debug)]
pub(super) struct MissingCheck {
    rule: MissingRule,
    stream: Arc<RecordStream>,
    /// The upstream says that the list is empty.
    is_empty: bool,
    counting: bool,
    known: u64,
    gone: u64,
    missing: u64,
}

impl MissingCheck {
    fn part(&self, machine: &RunMachine, after: Option<i64>) -> MarkMissing {
        MarkMissing {
            lease: LeaseRef::from(&machine.lease),
            lineage: machine.lease.lineage,
            stream: Arc::clone(&self.stream),
            list: Arc::clone(&self.rule.list),
            after,
            limit: machine.options.mark_limit.max(1),
            only_count: self.counting,
        }
    }

    fn add(&mut self, part: MissingMarked) {
        self.known += u64::from(part.known);
        self.gone += u64::from(part.gone);
        self.missing += u64::from(part.missing);
    }

    /// Why nothing may be marked although the pass is complete.
    fn objection(&self) -> Option<String> {
        let MissingCheck { known, gone, .. } = *self;
        if self.rule.ratio >= 1.0 || gone == 0 {
            return None;
        }
        if gone == known && !self.is_empty {
            return Some(format!(
                "none of the {known} known records is in the list, and the API does not report a total of 0; if that \
                 is right, set limits.missing_ratio: 1"
            ));
        }
        let too_many = known >= ENOUGH_RECORDS && gone as f64 > self.rule.ratio * known as f64;
        too_many.then(|| {
            format!(
                "{gone} of {known} known records are no longer in the list, more than limits.missing_ratio allows \
                 ({}); if that is right, raise it",
                self.rule.ratio
            )
        })
    }
}

impl RunMachine {
    /// Starts the check, where there is something to check. False if the run can be closed.
    pub(super) fn checks_missing(&mut self, wants: &mut Vec<Want>) -> bool {
        let RunStage::Paging(policy) = &self.stage else { return false };
        let Some(rule) = policy.pass.as_ref().and_then(|pass| pass.missing.clone()) else { return false };
        if !matches!(&self.planned_end, Some(PlannedEnd { end: RunEnd::Succeeded, .. })) {
            return false;
        }
        let objection = if !self.stats.verification.is_some_and(Verification::is_complete) {
            Some("the slice is unverified: a record that is in the list may have moved past the reader")
        } else if self.reader.walk.is_unidentified() || self.resumed_unidentified {
            Some("the list has an item without a usable id, so it is not known which record it is")
        } else {
            None
        };
        if let Some(objection) = objection {
            objection.clone_into(&mut self.stats.missing_unmarked);
            return false;
        }
        let total = self.reader.walk.total().or(self.resumed_total).filter(|_| !policy.paging.estimates);
        let (stream, is_empty) = (Arc::clone(&policy.stream), total == Some(0));
        let check = MissingCheck { rule, stream, is_empty, counting: true, known: 0, gone: 0, missing: 0 };
        let first = check.part(self, None);
        self.stage = RunStage::Marking(check);
        self.send(first.into(), wants);
        true
    }

    pub(super) fn on_marked(&mut self, part: MissingMarked, wants: &mut Vec<Want>) {
        let RunStage::Marking(check) = &mut self.stage else { return };
        check.add(part);
        if let Some(reason) = self.stopping {
            // The pass is read: a later run only marks.
            self.planned_end = Some(give_back(reason));
            return self.close(wants);
        }
        if part.next.is_none() {
            // The last part.
            if !check.counting {
                self.stats.missing = check.missing;
                return self.close(wants);
            }
            if check.gone == 0 {
                return self.close(wants);
            }
            if let Some(objection) = check.objection() {
                self.stats.missing_unmarked = objection;
                return self.close(wants);
            }
            (check.counting, check.known, check.gone, check.missing) = (false, 0, 0, 0);
        }
        let RunStage::Marking(check) = &self.stage else { return };
        let next = check.part(self, part.next);
        self.send(next.into(), wants);
    }
}

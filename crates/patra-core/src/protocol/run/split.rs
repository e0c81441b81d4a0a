//! Cutting the window of a slice that is more than one query gives out (ING-15-02, ING-4.3-16).

use std::time::Duration;

use super::{Policy, Run};
use crate::error::{Code, Fault, Level};
use crate::protocol::planner::SliceForm;
use crate::tx::RunEnd;

/// How a slice's window is cut into narrower ones.
#[derive(Clone, Debug)]
pub struct Split {
    /// Borders fall on multiples of this, and nothing narrower is made.
    pub step: Duration,
    pub form: SliceForm,
}

/// Most parts that one window is cut into at once; those that are still too much are cut again.
const MAX_PARTS: u64 = 64;

impl Run {
    /// The end of a slice whose window holds more than a query gives out.
    pub(super) fn too_much(&self, policy: &Policy, total: Option<u64>, at_most: u64) -> RunEnd {
        let found = total.map_or_else(|| "more".to_owned(), |total| total.to_string());
        let held = format!("the window holds {found} records and the far side gives out {at_most} of a query");
        // Three quarters of that: records are not spread evenly.
        let aim = (at_most / 4 * 3).max(1);
        let parts = total.map_or(2, |total| total.div_ceil(aim)).clamp(2, MAX_PARTS);
        self.cut(policy, parts as u32, &held).unwrap_or_else(|| {
            let reason = format!("{held}; it cannot be cut any narrower");
            RunEnd::Failed { error: Fault::new(Code::PartialFail, Level::L2, reason) }
        })
    }

    /// The end of a slice that is read up to `max_page` while there is more.
    pub(super) fn at_max_page(&self, policy: &Policy, pages: u32) -> RunEnd {
        let reason = format!("stopped after {pages} pages (max_page) while there is more");
        let cut = if policy.paging.split_at_max { self.cut(policy, 2, &reason) } else { None };
        cut.unwrap_or_else(|| RunEnd::Partial { error: Fault::new(Code::PartialFail, Level::L2, reason) })
    }

    fn cut(&self, policy: &Policy, parts: u32, why: &str) -> Option<RunEnd> {
        let Split { step, form } = policy.split.as_ref()?;
        let windows = self.lease.window.split(parts, *step);
        if windows.len() < 2 {
            return None;
        }
        let generation = format!("split:{}", self.lease.task);
        let slices: Vec<_> = windows.iter().map(|window| form.derive(*window, &generation)).collect();
        let reason = format!("{why}; it was cut into {} windows", slices.len());
        Some(RunEnd::Split { error: Fault::new(Code::PartialFail, Level::L2, reason), slices })
    }
}

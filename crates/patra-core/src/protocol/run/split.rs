//! Cutting the window of a slice that is more than one query gives out (ING-15-02, ING-4.3-16).

use std::time::Duration;

use super::outlook::Step;
use super::reader::Ending;
use super::{Run, Stage};
use crate::error::{Code, Fault, Level};
use crate::paging::{Facts, Position};
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
    /// Nothing is clamped in silence: a window with more records than a query gives out is cut, before it is read where the
    /// total tells, else when the reading gets there.
    pub(super) fn within_bounds(&self, here: &Position, facts: &Facts, step: Step) -> Ending {
        let over = |next: &Position, total, ceiling| {
            let end = self.over_the_ceiling(total, ceiling);
            Ending::Over { next: next.clone(), end }
        };
        let ending = match step {
            Step::Next { next, perhaps } => Ending::Next { next, perhaps },
            Step::End => Ending::End,
            Step::Cut => return over(here, facts.total, u64::from(facts.items)),
        };
        let Stage::Paging(policy) = &self.stage else { return ending };
        let Some(ceiling) = policy.paging.ceiling else { return ending };
        if facts.total.is_some_and(|total| total > ceiling) {
            return over(here, facts.total, ceiling);
        }
        match &ending {
            // Asking there would be refused. A total that is reached says that nothing is there.
            Ending::Next { next, .. } if policy.paging.before(next).is_some_and(|before| before >= ceiling) => {
                if facts.total.is_some() { Ending::End } else { over(next, None, ceiling) }
            }
            _ => ending,
        }
    }

    fn over_the_ceiling(&self, total: Option<u64>, ceiling: u64) -> RunEnd {
        let found = total.map_or_else(|| "more".to_owned(), |total| total.to_string());
        let held = format!("the window holds {found} records and the far side gives out {ceiling} of a query");
        // Three quarters of the ceiling: records are not spread evenly.
        let aim = (ceiling / 4 * 3).max(1);
        let parts = total.map_or(2, |total| total.div_ceil(aim)).clamp(2, MAX_PARTS);
        self.cut(parts as u32, &held).unwrap_or_else(|| {
            let reason = format!("{held}; it cannot be cut any narrower");
            RunEnd::Failed { error: Fault::new(Code::PartialFail, Level::L2, reason) }
        })
    }

    /// The end of a slice that is read up to `max_page` while there is more.
    pub(super) fn at_max_page(&self, pages: u32, split: bool) -> RunEnd {
        let reason = format!("stopped after {pages} pages (max_page) while there is more");
        let cut = if split { self.cut(2, &reason) } else { None };
        cut.unwrap_or_else(|| RunEnd::Partial { error: Fault::new(Code::PartialFail, Level::L2, reason) })
    }

    fn cut(&self, parts: u32, why: &str) -> Option<RunEnd> {
        let Stage::Paging(policy) = &self.stage else { return None };
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

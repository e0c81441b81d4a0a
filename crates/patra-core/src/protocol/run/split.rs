//! Cutting the window of a slice: because it is more than one query gives out (ING-15-02, ING-4.3-16), too deep, or too much
//! for a far side in trouble (ING-8.4). Where records come in order only what remains is cut; otherwise the whole window
//! (G-26). Parts and what is done are together always the window.

use std::time::Duration;

use super::reader::Ending;
use super::{Policy, Run};
use crate::bounds::PageRange;
use crate::error::{Code, Fault, Level};
use crate::paging::{Kind, Position};
use crate::protocol::planner::SliceForm;
use crate::time::Ts;
use crate::tx::RunEnd;
use crate::window::Window;

/// What one slice may use up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    pub max_requests: u32,
    pub max_duration: Duration,
    /// A slice that the first page says is deeper is cut.
    pub page_depth: u32,
    /// Pages of one slice, where pages are read side by side.
    pub page_range: Option<u32>,
    /// Share of ids whose details are refused as wrong (L2); with more the task fails (ING-12.2-05).
    pub error_ratio: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        use crate::protocol::planner::{MAX_DURATION_SECS, MAX_REQUESTS};
        Limits {
            max_requests: MAX_REQUESTS,
            max_duration: Duration::from_secs(u64::from(MAX_DURATION_SECS)),
            page_depth: 200,
            page_range: None,
            error_ratio: 0.1,
        }
    }
}

/// How a slice's window is cut into narrower ones.
#[derive(Clone, Debug)]
pub struct Split {
    /// Borders fall on multiples of this, and nothing narrower is made.
    pub step: Duration,
    pub form: SliceForm,
    /// The far side filters by time: narrower windows hold less. Otherwise only pages can be shared out.
    pub by_time: bool,
}

/// Most parts that one window is cut into at once; those that are still too much are cut again.
const MAX_PARTS: u64 = 64;

/// Pages that may be read again because of a far side in trouble, where no order says what remains.
const FEW_PAGES: u32 = 2;

impl Run {
    /// The end of a slice whose window holds more than a query gives out.
    pub(super) fn too_much(&self, policy: &Policy, total: Option<u64>, at_most: u64) -> RunEnd {
        let found = total.map_or_else(|| "more".to_owned(), |total| total.to_string());
        let held = format!("the window holds {found} records and the far side gives out {at_most} of a query");
        self.cut(policy, self.lease.window, parts_of(total, at_most), &held).unwrap_or_else(|| {
            let reason = format!("{held}; it cannot be cut any narrower");
            RunEnd::Failed { error: Fault::new(Code::PartialFail, Level::L2, reason) }
        })
    }

    /// The end of a slice that is read up to `max_page` while there is more.
    pub(super) fn at_max_page(&self, policy: &Policy, pages: u32) -> RunEnd {
        let reason = format!("stopped after {pages} pages (max_page) while there is more");
        let remaining = self.remaining(policy).or(self.lease.window);
        let cut = if policy.paging.split_at_max { self.cut(policy, remaining, 2, &reason) } else { None };
        cut.unwrap_or_else(|| RunEnd::Partial { error: Fault::new(Code::PartialFail, Level::L2, reason) })
    }

    /// Where the reading goes on at `next`, unless it is better shared out, cut or put off.
    pub(super) fn onward(&self, policy: &Policy, now: Ts, next: Position, total: Option<u64>, perhaps: bool) -> Ending {
        if self.is_past_range(policy, &next) {
            return Ending::End;
        }
        let end = self.too_deep(policy, total).or_else(|| self.narrower(policy)).or_else(|| self.out_of_budget(now));
        match end {
            Some(end) => Ending::Over { next, end },
            None => Ending::Next { next, perhaps },
        }
    }

    /// The range of pages of this slice ends before `next`.
    pub(super) fn is_past_range(&self, policy: &Policy, next: &Position) -> bool {
        let Some(PageRange { to: Some(to), .. }) = self.bounds.pages else { return false };
        let page = match (&policy.paging.kind, next) {
            (Kind::Offset, Position::Offset(at)) => at / u64::from(policy.paging.page_size.max(1)),
            (Kind::Page { base }, Position::Page(no)) => no.saturating_sub(*base),
            _ => return false,
        };
        page > to
    }

    /// By what the first page says, there is more than one slice should read: share the pages out, or cut the window.
    fn too_deep(&self, policy: &Policy, total: Option<u64>) -> Option<RunEnd> {
        let (total, window, split) = (total?, self.lease.window?, policy.split.as_ref()?);
        let size = u64::from(policy.paging.page_size.max(1));
        if !self.reader.is_at_first() || self.bounds.pages.is_some() {
            return None;
        }
        if let Some(range) = policy.limits.page_range {
            let pages = total.div_ceil(size);
            if pages <= u64::from(range) {
                return None;
            }
            // Never more ranges than parts of a window; they are larger then.
            let range = u64::from(range).max(pages.div_ceil(MAX_PARTS));
            let generation = format!("pages:{}", self.lease.task);
            let ranges = PageRange::cover(pages, range);
            let slice = |pages| split.form.derive_pages(window, pages, &policy.paging, &generation);
            let slices: Vec<_> = ranges.into_iter().map(slice).collect();
            let reason = format!("{pages} pages; shared out as {} ranges", slices.len());
            return Some(RunEnd::Split { error: Fault::new(Code::PartialFail, Level::L2, reason), slices });
        }
        let depth = u64::from(policy.limits.page_depth) * size;
        if total <= depth || policy.paging.estimates {
            return None;
        }
        let why = format!("{total} records are more than {} pages", policy.limits.page_depth);
        self.cut(policy, self.lease.window, parts_of(Some(total), depth), &why)
    }

    /// A far side in trouble: leave the rest to smaller slices.
    fn narrower(&self, policy: &Policy) -> Option<RunEnd> {
        if !self.advice.narrower {
            return None;
        }
        let few = self.reader.pages() <= FEW_PAGES && policy.details.is_none();
        let rest = self.remaining(policy).or_else(|| self.lease.window.filter(|_| few))?;
        self.cut(policy, Some(rest), 2, "the far side is in trouble (many refusals, or very large answers)")
    }

    /// The slice has used up what it may (ING-4.16-03): the rest is cut where that is possible, else it waits its turn.
    pub(super) fn out_of_budget(&self, now: Ts) -> Option<RunEnd> {
        let super::Stage::Paging(policy) = &self.stage else { return None };
        let limits = &policy.limits;
        let spent = if self.stats.req_count >= limits.max_requests {
            format!("{} requests", limits.max_requests)
        } else if now.since(self.began) >= limits.max_duration {
            format!("{} seconds", limits.max_duration.as_secs())
        } else {
            return None;
        };
        let why = format!("the budget of the slice is used up ({spent})");
        let rest = self.remaining(policy);
        let cut = rest.and_then(|rest| self.cut(policy, Some(rest), 2, &why));
        Some(cut.unwrap_or_else(|| {
            let error = Fault::new(Code::PartialFail, Level::L1, why);
            RunEnd::Requeue { delay: Duration::ZERO, error, counted: false }
        }))
    }

    /// The done part of the window and what remains, where records come in order.
    pub(super) fn parts(&self, policy: &Policy) -> Option<(Option<Window>, Window)> {
        let (order, window) = (policy.order?, self.lease.window?);
        let step = policy.split.as_ref().map_or(Duration::from_secs(1), |split| split.step);
        if self.bounds.pages.is_some() || policy.details.is_some() {
            return None;
        }
        self.reader.track.parts(order, window, step)
    }

    fn remaining(&self, policy: &Policy) -> Option<Window> {
        self.parts(policy).map(|(_, rest)| rest)
    }

    fn cut(&self, policy: &Policy, window: Option<Window>, parts: u64, why: &str) -> Option<RunEnd> {
        let Split { step, form, by_time } = policy.split.as_ref()?;
        // A part of the pages of a window cannot be cut by time.
        if !by_time || self.bounds.pages.is_some() {
            return None;
        }
        let windows = window?.split(parts as u32, *step);
        if windows.len() < 2 {
            return None;
        }
        let generation = format!("split:{}", self.lease.task);
        let slices: Vec<_> = windows.iter().map(|window| form.derive(*window, &generation)).collect();
        let reason = format!("{why}; it was cut into {} windows", slices.len());
        Some(RunEnd::Split { error: Fault::new(Code::PartialFail, Level::L2, reason), slices })
    }
}

/// How many parts a window is cut into that holds `total`, so that none holds more than `at_most`. Three quarters of that:
/// records are not spread evenly.
fn parts_of(total: Option<u64>, at_most: u64) -> u64 {
    let aim = (at_most / 4 * 3).max(1);
    total.map_or(2, |total| total.div_ceil(aim)).clamp(2, MAX_PARTS)
}

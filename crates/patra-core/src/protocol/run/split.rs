//! Splits the window of a slice: because it holds more than one query returns (ING-15-02, ING-4.3-16), is too deep,
//! or too much for an upstream in trouble (ING-8.4). Where records come in order only the rest is split; otherwise
//! the whole window (G-26). The parts and the done part always add up to the window.

use std::time::Duration;

use super::page::FetchedPage;
use super::reader::PageEnding;
use super::{PlannedEnd, RunMachine, RunPolicy, RunStage};
use crate::bounds::PageRange;
use crate::error::{Code, Fault, Level};
use crate::paging::{EndReason, PageFacts, PageStep, PagingKind, PagingRule, Position};
use crate::protocol::planner::SliceTemplate;
use crate::time::Ts;
use crate::tx::RunEnd;
use crate::window::Window;

/// Limits of one slice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SliceLimits {
    pub max_requests: u32,
    pub max_duration: Duration,
    /// Maximum pages of a slice: a deeper one is split after its first page.
    pub page_depth: u32,
    /// Pages per slice, where page ranges are read in parallel.
    pub page_range: Option<u32>,
    /// Maximum share of ids whose details are refused as wrong (L2); above it the task fails (ING-12.2-05).
    pub error_ratio: f64,
}

impl Default for SliceLimits {
    fn default() -> SliceLimits {
        use crate::protocol::planner::{MAX_DURATION_SECS, MAX_REQUESTS};
        SliceLimits {
            max_requests: MAX_REQUESTS,
            max_duration: Duration::from_secs(u64::from(MAX_DURATION_SECS)),
            page_depth: 200,
            page_range: None,
            error_ratio: 0.1,
        }
    }
}

/// How a slice's window is split into narrower ones.
#[derive(Clone, Debug)]
pub struct SplitRule {
    /// Boundaries fall on multiples of this, and nothing narrower is made.
    pub step: Duration,
    pub template: SliceTemplate,
    /// The upstream filters by time: narrower windows hold less. Otherwise only page ranges are possible.
    pub by_time: bool,
}

/// Maximum parts of one window; parts that still hold too much are split again.
const MAX_PARTS: u64 = 64;

/// Pages that may be read again because of an upstream in trouble, where no order shows what remains.
const FEW_PAGES: u32 = 2;

impl RunMachine {
    /// The end of a slice whose window holds more than one query returns.
    pub(super) fn too_much(&self, policy: &RunPolicy, total: Option<u64>, at_most: u64) -> RunEnd {
        let found = total.map_or_else(|| "more".to_owned(), |total| total.to_string());
        let excess = format!("the window holds {found} records and the upstream returns at most {at_most} per query");
        // A part that reports the total of the whole again is cut for the same total.
        let total_of_window = total.or(self.bounds.total);
        let parts = parts_of(total_of_window, at_most);
        let cut = self.cut_by(policy, self.lease.window, parts, &excess, total_of_window);
        cut.unwrap_or_else(|| RunEnd::Partial { error: overfull(total, at_most) })
    }

    /// What the page at `here` means for the rest, by the requested size.
    pub(super) fn walk_on(&mut self, policy: &RunPolicy, here: &Position, page: &FetchedPage) -> PageStep {
        let requested = self.reader.requested_size;
        let (content, rejected) = (page.content, &page.rejected);
        let without_total = page.facts.total.filter(|total| self.is_total_of_more(policy, *total)).map(|_| {
            self.reader.walk.doubt();
            PageFacts { total: None, ..page.facts.clone() }
        });
        let facts = without_total.as_ref().unwrap_or(&page.facts);
        let total = facts.total;
        let to_the_ceiling = self.rule_to_the_ceiling(policy, total);
        let step = match to_the_ceiling {
            None if requested == policy.paging.page_size => {
                return self.reader.walk.after(&policy.paging, here, facts, content, rejected);
            }
            rule => {
                let rule = PagingRule { page_size: requested, ..rule.unwrap_or_else(|| policy.paging.clone()) };
                self.reader.walk.after(&rule, here, facts, content, rejected)
            }
        };
        self.at_the_ceiling(policy, total, step)
    }

    /// The window was cut for a total and a part reports it again: it may not count the records of a window, so the part is
    /// read up to the ceiling before it is cut.
    fn is_total_of_more(&self, policy: &RunPolicy, total: u64) -> bool {
        policy.paging.kind != PagingKind::Time
            && policy.paging.ceiling.is_some_and(|ceiling| total >= ceiling)
            && self.bounds.total.is_some_and(|whole| total >= whole)
            && self.can_be_cut(policy)
    }

    /// The list has no page after those that were read: what that means for the slice.
    pub(super) fn end_of_list(&mut self, policy: &RunPolicy) -> PageStep {
        let total = self.reader.walk.total();
        let rule = self.rule_to_the_ceiling(policy, total);
        let step = self.reader.walk.at_the_end(rule.as_ref().unwrap_or(&policy.paging), EndReason::Page);
        self.at_the_ceiling(policy, total, step)
    }

    /// Whether narrower windows could hold less than this one.
    fn can_be_cut(&self, policy: &RunPolicy) -> bool {
        self.cut(policy, self.lease.window, 2, "").is_some()
    }

    /// The paging rule for a window that cannot be cut: it is read as far as the upstream goes, whatever its total.
    fn rule_to_the_ceiling(&self, policy: &RunPolicy, total: Option<u64>) -> Option<PagingRule> {
        let ceiling = policy.paging.ceiling.filter(|_| !self.can_be_cut(policy))?;
        let estimates = policy.paging.estimates || total.is_some_and(|total| total >= ceiling);
        Some(PagingRule { ceiling: None, can_cut: false, estimates, ..policy.paging.clone() })
    }

    /// Ends the reading of a window that cannot be cut where the upstream returns no more.
    fn at_the_ceiling(&mut self, policy: &RunPolicy, total: Option<u64>, step: PageStep) -> PageStep {
        let Some(ceiling) = policy.paging.ceiling.filter(|_| !self.can_be_cut(policy)) else { return step };
        let at_most = |total| PageStep::Incomplete(overfull(total, ceiling));
        match &step {
            // A total that equals the ceiling may have been capped, where the upstream filters by time.
            PageStep::End(_) if total.is_some_and(|n| n > ceiling || (n == ceiling && policy.paging.can_cut)) => {
                at_most(total)
            }
            PageStep::Next { next, .. } if policy.paging.before(next).is_some_and(|before| before >= ceiling) => {
                let walk = &mut self.reader.walk;
                match total.filter(|total| !policy.paging.estimates && !walk.exceeds(*total)) {
                    Some(n) if n < ceiling || (n == ceiling && !policy.paging.can_cut) => {
                        walk.at_the_end(&policy.paging, EndReason::Counted)
                    }
                    _ => at_most(total.filter(|total| *total >= ceiling)),
                }
            }
            _ => step,
        }
    }

    /// The end of a slice that is read up to `max_page` while there is more.
    pub(super) fn at_max_page(&self, policy: &RunPolicy, pages: u32) -> RunEnd {
        let reason = format!("stopped after {pages} pages (max_page) while there is more");
        let remaining = self.remaining(policy).or(self.lease.window);
        let cut = if policy.paging.split_at_max { self.cut(policy, remaining, 2, &reason) } else { None };
        cut.unwrap_or_else(|| RunEnd::Partial { error: Fault::new(Code::PartialFail, Level::L2, reason) })
    }

    /// Continues the reading at `next`, unless the rest is better divided into ranges, split or deferred.
    pub(super) fn onward(
        &self,
        policy: &RunPolicy,
        now: Ts,
        next: Position,
        total: Option<u64>,
        perhaps: bool,
    ) -> PageEnding {
        if self.is_past_range(policy, &next) {
            return PageEnding::End;
        }
        let end = self.too_deep(policy, total).or_else(|| self.narrower(policy)).or_else(|| self.out_of_budget(now));
        match end {
            Some(end) => PageEnding::Over { next, end },
            None => PageEnding::Next { next, perhaps },
        }
    }

    /// The page range of this slice ends before `next`.
    pub(super) fn is_past_range(&self, policy: &RunPolicy, next: &Position) -> bool {
        let Some(PageRange { to: Some(to), .. }) = self.bounds.pages else { return false };
        let page = match (&policy.paging.kind, next) {
            (PagingKind::Offset, Position::Offset(at)) => at / u64::from(policy.paging.page_size.max(1)),
            (PagingKind::Page { base }, Position::Page(no)) => no.saturating_sub(*base),
            _ => return false,
        };
        page > to
    }

    /// By its first page, the slice is deeper than allowed: divide the pages into ranges, or split the window.
    fn too_deep(&self, policy: &RunPolicy, total: Option<u64>) -> Option<RunEnd> {
        let (total, window, split) = (total?, self.lease.window?, policy.split.as_ref()?);
        let size = u64::from(policy.paging.page_size.max(1));
        if !self.reader.is_at_first() || self.bounds.pages.is_some() {
            return None;
        }
        let within = policy.paging.ceiling.is_none_or(|ceiling| total <= ceiling);
        if let Some(range) = policy.limits.page_range.filter(|_| within) {
            let pages = total.div_ceil(size);
            if pages <= u64::from(range) {
                return None;
            }
            // Never more ranges than parts of a window; they are larger then.
            let range = u64::from(range).max(pages.div_ceil(MAX_PARTS));
            let generation = format!("pages:{}", self.lease.task);
            let known = (!policy.paging.estimates).then_some(total);
            let ranges = PageRange::cover(pages, range, known);
            let slice = |pages| split.template.derive_pages(window, pages, &policy.paging, &generation);
            let slices: Vec<_> = ranges.into_iter().map(slice).collect();
            let reason = format!("{pages} pages; shared out as {} ranges", slices.len());
            return Some(RunEnd::Split { error: Fault::new(Code::PartialFail, Level::L2, reason), slices });
        }
        let depth = u64::from(policy.limits.page_depth) * size;
        if total <= depth || policy.paging.estimates {
            return None;
        }
        if self.bounds.total.is_some_and(|whole| total >= whole) {
            // The window was cut for this total and a part reports it again: it does not count the records of a window.
            return None;
        }
        let cause = format!("{total} records are more than {} pages", policy.limits.page_depth);
        self.cut_by(policy, self.lease.window, parts_of(Some(total), depth), &cause, Some(total))
    }

    /// The upstream is in trouble: leave the rest to smaller slices.
    fn narrower(&self, policy: &RunPolicy) -> Option<RunEnd> {
        if !self.advice.narrower {
            return None;
        }
        let few = self.reader.pages() <= FEW_PAGES && policy.details.is_none();
        let rest = self.remaining(policy).or_else(|| self.lease.window.filter(|_| few))?;
        self.cut(policy, Some(rest), 2, "the upstream is in trouble (many refusals, or very large responses)")
    }

    /// The slice has used up its budget (ING-4.16-03): the rest is split where possible, else it waits its turn.
    pub(super) fn out_of_budget(&self, now: Ts) -> Option<RunEnd> {
        let RunStage::Paging(policy) = &self.stage else { return None };
        let limits = &policy.limits;
        let spent = if self.stats.req_count >= limits.max_requests {
            format!("{} requests", limits.max_requests)
        } else if now.since(self.began) >= limits.max_duration {
            format!("{} seconds", limits.max_duration.as_secs())
        } else {
            return None;
        };
        let cause = format!("the budget of the slice is used up ({spent})");
        let rest = self.remaining(policy);
        let cut = rest.and_then(|rest| self.cut(policy, Some(rest), 2, &cause));
        Some(cut.unwrap_or_else(|| {
            let error = Fault::new(Code::PartialFail, Level::L1, cause);
            RunEnd::Requeue { delay: Duration::ZERO, error, counted: false }
        }))
    }

    /// The part of the window that is complete although the task is not.
    pub(super) fn done(&self, planned_end: &PlannedEnd) -> Option<Window> {
        let RunStage::Paging(policy) = &self.stage else { return None };
        match &planned_end.end {
            RunEnd::Succeeded => None,
            // A window that is split as a whole is read again as a whole.
            RunEnd::Split { slices, .. } => {
                let (done, rest) = self.parts(policy)?;
                let from = slices.iter().filter_map(|slice| slice.window).map(|window| window.from).min()?;
                let to = slices.iter().filter_map(|slice| slice.window).map(|window| window.to).max()?;
                done.filter(|_| Window { from, to } == rest)
            }
            RunEnd::Partial { .. } | RunEnd::Failed { .. } | RunEnd::Requeue { .. } => self.parts(policy)?.0,
        }
    }

    /// The done part of the window and the rest, where records come in order.
    pub(super) fn parts(&self, policy: &RunPolicy) -> Option<(Option<Window>, Window)> {
        let (order, window) = (policy.order?, self.lease.window?);
        let step = policy.split.as_ref().map_or(Duration::from_secs(1), |split| split.step);
        let moving = !self.reader.keeps_its_place(&policy.paging);
        if moving || self.bounds.pages.is_some() || policy.details.is_some() {
            return None;
        }
        self.reader.track.parts(order, window, step)
    }

    fn remaining(&self, policy: &RunPolicy) -> Option<Window> {
        self.parts(policy).map(|(_, rest)| rest)
    }

    fn cut(&self, policy: &RunPolicy, window: Option<Window>, parts: u64, cause: &str) -> Option<RunEnd> {
        self.cut_by(policy, window, parts, cause, None)
    }

    /// `total`: the total that is the cause.
    fn cut_by(
        &self,
        policy: &RunPolicy,
        window: Option<Window>,
        parts: u64,
        cause: &str,
        total: Option<u64>,
    ) -> Option<RunEnd> {
        let SplitRule { step, template: form, by_time } = policy.split.as_ref()?;
        // A page range of a window cannot be split by time.
        if !by_time || self.bounds.pages.is_some() {
            return None;
        }
        let windows = window?.split(parts as u32, *step);
        if windows.len() < 2 {
            return None;
        }
        let generation = format!("split:{}", self.lease.task);
        let slice = |window: &Window| match total {
            Some(total) => form.derive_part(*window, total, &generation),
            None => form.derive(*window, &generation),
        };
        let slices: Vec<_> = windows.iter().map(slice).collect();
        let reason = format!("{cause}; it was split into {} windows", slices.len());
        Some(RunEnd::Split { error: Fault::new(Code::PartialFail, Level::L2, reason), slices })
    }
}

/// Why a window that cannot be cut is incomplete.
fn overfull(total: Option<u64>, at_most: u64) -> Fault {
    let found = match total {
        Some(total) if total <= at_most => format!("{total} records"),
        Some(total) => format!("{total} records, more than"),
        None => "more records than".to_owned(),
    };
    let excess = match total {
        Some(total) if total <= at_most => {
            format!("the window holds {found}, and the upstream returns at most {at_most} per query: there may be more")
        }
        _ => format!("the window holds {found} the {at_most} that the upstream returns per query"),
    };
    let reason = format!(
        "{excess}; it cannot be split any further (window.min_window) and was read as far as possible; \
         `patra cursor accept-gap` lets the cursor pass it"
    );
    Fault::new(Code::PartialFail, Level::L2, reason)
}

/// Number of parts for a window with `total` records, so that none holds more than `at_most`. Three quarters of that:
/// records are not spread evenly.
fn parts_of(total: Option<u64>, at_most: u64) -> u64 {
    let aim = (at_most / 4 * 3).max(1);
    total.map_or(2, |total| total.div_ceil(aim)).clamp(2, MAX_PARTS)
}

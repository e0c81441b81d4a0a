//! Plans the missing parts of a namespace as slices: exactly those, as far as the queue has room.

use std::collections::VecDeque;
use std::time::Duration;

use super::PlanningJob;
use super::draft::{PlanDraft, PlanPart, PlanSpan};
use super::slice::{SliceEstimate, SliceTemplate};
use crate::bounds;
use crate::state::Direction;
use crate::time::Ts;
use crate::tx::{ClaimedJob, Coverage, JobSettlement, NewSlice, ReadSegments, RemainingPlan, Segments};
use crate::window::{Cut, Window};

/// Requests that a slice is expected to need while a quota is declared and nothing is known about its namespace.
const UNKNOWN_REQUESTS: u64 = 10;

/// With a quota, slices of a namespace that are planned before one of them has shown how many requests they need.
const UNKNOWN_SLICES: usize = 4;

/// The next step for a job whose coverage is read.
pub(super) enum PlanDecision {
    Save(PlanPart),
    /// First read which ids to refresh.
    ReadSegments(ReadSegments, SliceEstimate),
    Settle(JobSettlement),
}

/// Room for new slices.
pub(super) struct PlanCapacity {
    /// By the queue.
    pub(super) slices: u32,
    /// Requests that the quota allows, where there is one.
    pub(super) budget: Option<u64>,
    /// How long to wait for more.
    pub(super) wait: Duration,
}

impl PlanCapacity {
    /// Slices of this many requests each. QUEUED ones will use their part of the budget (C-32).
    fn of(&self, expected: u64, queued: u32) -> u32 {
        let Some(budget) = self.budget else { return self.slices };
        let left = budget.saturating_sub(u64::from(queued) * expected);
        // A slice that needs more than the budget ever has goes as far as it can, and continues later.
        let fit = if left > 0 && queued == 0 { (left / expected.max(1)).max(1) } else { left / expected.max(1) };
        u32::try_from(fit).unwrap_or(u32::MAX).min(self.slices)
    }
}

/// Decides the next step of a job.
pub(super) fn decide(job: &PlanningJob, coverage: &Coverage, room: &PlanCapacity) -> PlanDecision {
    let (wait, known) = (room.wait, expected(job, coverage));
    let is_blind = known.is_none() && room.budget.is_some();
    let most = u64::from(job.draft.context.budget.max_requests.max(1));
    let expected = known.unwrap_or(if is_blind { UNKNOWN_REQUESTS } else { 1 }).clamp(1, most);
    let estimate = SliceEstimate { expected_requests: expected, budget_hint: room.budget };
    let mut room = room.of(expected, coverage.queued);
    if is_blind {
        // One at least when nothing waits, or else a namespace whose slices all end early would stop here.
        let blind = UNKNOWN_SLICES.saturating_sub(coverage.covered.len()).max(usize::from(coverage.queued == 0));
        room = room.min(blind as u32);
    }
    match &job.draft.span {
        PlanSpan::Time { cut, initial, narrowest, depth } => {
            let time =
                TimePlanning { job, coverage, cut: *cut, initial: *initial, narrowest: *narrowest, depth: *depth };
            time.decide(room, wait, estimate)
        }
        PlanSpan::Whole => whole(job, coverage, room, wait, estimate),
        PlanSpan::Ids { .. } if room == 0 => PlanDecision::Settle(JobSettlement::Later { delay: wait }),
        PlanSpan::Ids { stream, refresh } => {
            let read = ReadSegments {
                stream: stream.clone(),
                criteria: refresh.criteria(coverage.now),
                after: match &job.claimed.plan {
                    Some(open) => match &open.rest {
                        RemainingPlan::Ids { after } => after.clone(),
                        RemainingPlan::Time(_) => None,
                    },
                    None => None,
                },
                size: refresh.size.max(1),
                limit: room,
            };
            PlanDecision::ReadSegments(read, estimate)
        }
    }
}

/// Expected requests of a slice, by history; `None` without any.
fn expected(job: &PlanningJob, coverage: &Coverage) -> Option<u64> {
    let PlanDraft { span, per_request, context: shape, .. } = &*job.draft;
    let records = match span {
        PlanSpan::Time { cut, narrowest, depth, .. } => {
            let width = coverage.history.width_of(*depth).map_or(cut.max_width, |width| width.max(*narrowest));
            coverage.history.estimate(width.min(cut.max_width))
        }
        // How long the list is, only its pass knows.
        PlanSpan::Whole => None,
        PlanSpan::Ids { refresh, .. } => Some(u64::from(refresh.size)),
    };
    let per_request = match (span, shape.phase.id_batch_size) {
        (PlanSpan::Ids { .. }, Some(size)) => size,
        _ => *per_request,
    };
    if per_request == 0 { Some(1) } else { Some(records?.div_ceil(u64::from(per_request))) }
}

/// Where a list that is read as a whole begins: before everything.
const BEGINNING: Ts = Ts::from_secs(0);

/// One slice for everything since the last complete pass. A pass that is in progress reads everything already, and two
/// at once would only repeat each other.
fn whole(job: &PlanningJob, coverage: &Coverage, room: u32, wait: Duration, estimate: SliceEstimate) -> PlanDecision {
    let nothing = |remark: String| PlanDecision::Settle(JobSettlement::Nothing { remark });
    let origin = coverage.origin.unwrap_or(BEGINNING);
    let from = coverage.value.as_ref().and_then(crate::cursor::CursorValue::instant).unwrap_or(origin);
    let Some(window) = Window::new(from, coverage.now - job.draft.context.safety_lag) else {
        return nothing(format!("the list was read at {}", from.to_short_text()));
    };
    if coverage.covered.iter().any(|other| other.from < window.to && window.from < other.to) {
        return nothing("the list is being read".to_owned());
    }
    if room == 0 {
        return PlanDecision::Settle(JobSettlement::Later { delay: wait });
    }
    let form = SliceTemplate::new(job.draft.context.clone()).with_estimate(estimate);
    PlanDecision::Save(PlanPart {
        window: Some(window),
        origin: Some(origin),
        epoch: coverage.epoch,
        slices: vec![form.derive(window, &coverage.epoch.to_string())],
        complete: true,
        span: window.width(),
        estimate: None,
        slice_count: 1,
    })
}

/// The part of a plan that these segments make.
pub(super) fn of_segments(
    job: &PlanningJob,
    read: &ReadSegments,
    estimate: SliceEstimate,
    segments: Segments,
    epoch: i64,
    next: i64,
) -> Result<PlanPart, JobSettlement> {
    if segments.ranges.is_empty() && job.claimed.plan.is_none() {
        return Err(JobSettlement::Nothing { remark: "no stored record has to be fetched again".to_owned() });
    }
    let (form, generation) = (SliceTemplate::new(job.draft.context.clone()).with_estimate(estimate), epoch.to_string());
    let slice = |(range, ordinal)| {
        let segment = bounds::IdSegment { criteria: read.criteria.clone(), range };
        form.derive_ids(&segment, ordinal, &generation)
    };
    let slices: Vec<NewSlice> = segments.ranges.into_iter().zip(next..).map(slice).collect();
    Ok(PlanPart {
        window: None,
        origin: None,
        epoch,
        slice_count: slices.len(),
        span: Duration::ZERO,
        estimate: (!segments.more).then(|| slices.len() as u64 * u64::from(read.size)),
        slices,
        complete: !segments.more,
    })
}

/// Planning along time.
struct TimePlanning<'a> {
    job: &'a PlanningJob,
    coverage: &'a Coverage,
    cut: Cut,
    initial: Ts,
    narrowest: Duration,
    depth: u64,
}

impl TimePlanning<'_> {
    fn decide(&self, room: u32, wait: Duration, estimate: SliceEstimate) -> PlanDecision {
        let PlanningJob { claimed, draft, .. } = self.job;
        let origin = self.origin();
        let window = match claimed.plan.as_ref().map(|open| &open.rest) {
            Some(RemainingPlan::Time(rest)) => *rest,
            _ => match self.requested_window(origin) {
                Ok(window) => window,
                Err(settlement) => return PlanDecision::Settle(settlement),
            },
        };
        let gaps = window.minus(&self.covered(origin));
        let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else {
            // Nothing is left of a plan in parts: close it with an empty last part.
            if claimed.plan.is_some() {
                return PlanDecision::Save(self.part(origin, window, &gaps, Vec::new(), true, 0));
            }
            let remark = format!("everything up to {} was read before, or is being read", window.to.to_short_text());
            return PlanDecision::Settle(JobSettlement::Nothing { remark });
        };
        if room == 0 {
            return PlanDecision::Settle(JobSettlement::Later { delay: wait });
        }
        let (windows, count) = self.windows(&gaps, room as usize);
        let form = SliceTemplate::new(draft.context.clone()).with_estimate(estimate);
        let generation = self.coverage.epoch.to_string();
        let slices: Vec<_> = windows.iter().map(|window| form.derive(*window, &generation)).collect();
        let complete = slices.len() == count;
        let window = if claimed.plan.is_some() { window } else { Window { from: first.from, to: last.to } };
        PlanDecision::Save(self.part(origin, window, &gaps, slices, complete, count))
    }

    fn part(
        &self,
        origin: Ts,
        window: Window,
        gaps: &[Window],
        slices: Vec<NewSlice>,
        complete: bool,
        slice_count: usize,
    ) -> PlanPart {
        // Covered windows are within the plan's window and are not read again.
        let span = gaps.iter().map(Window::width).sum();
        let estimate = self.coverage.history.estimate(span);
        let (window, origin) = (Some(window), Some(origin));
        PlanPart { window, origin, epoch: self.coverage.epoch, slices, complete, span, estimate, slice_count }
    }

    fn claimed(&self) -> &ClaimedJob {
        &self.job.claimed
    }

    fn draft(&self) -> &PlanDraft {
        &self.job.draft
    }

    fn direction(&self) -> Direction {
        self.draft().cursor.operation.direction()
    }

    fn value(&self) -> Option<Ts> {
        self.coverage.value.as_ref().and_then(crate::cursor::CursorValue::instant)
    }

    /// `now - safety_lag`: no plan reaches beyond it (ING-5.5-03).
    fn barrier(&self) -> Ts {
        (self.coverage.now - self.draft().context.safety_lag).floor_to(Duration::from_secs(1))
    }

    fn origin(&self) -> Ts {
        let first = match self.direction() {
            // A later requested window must not make the namespace begin there: the rest would never be read.
            Direction::Forward => self.claimed().window_from.map_or(self.initial, |from| from.min(self.initial)),
            Direction::Backfill => self.upper(None),
        };
        self.coverage.origin.unwrap_or(first)
    }

    /// Upper end of a backfill: the requested one, else where it stopped, else where the harvest is.
    fn upper(&self, origin: Option<Ts>) -> Ts {
        let barrier = self.barrier();
        let to = self.claimed().window_to.or(self.value()).or(origin).or(self.coverage.harvested);
        to.map_or(barrier, |to| to.min(barrier))
    }

    /// The window that the job requests.
    fn requested_window(&self, origin: Ts) -> Result<Window, JobSettlement> {
        let claimed = self.claimed();
        let (from, to) = match self.direction() {
            Direction::Forward => {
                let from = claimed.window_from.unwrap_or_else(|| self.value().unwrap_or(origin));
                (from, claimed.window_to.map_or(self.barrier(), |to| to.min(self.barrier())))
            }
            Direction::Backfill => (claimed.window_from.unwrap_or(self.initial), self.upper(Some(origin))),
        };
        Window::new(from, to).ok_or_else(|| {
            let (from_text, to_text) = (from.to_short_text(), to.to_short_text());
            let remark = match self.direction() {
                _ if from != to => format!("nothing between {from_text} and {to_text}"),
                Direction::Forward => format!("everything before {to_text} was read before"),
                Direction::Backfill => format!("everything after {to_text} was read before"),
            };
            JobSettlement::Nothing { remark }
        })
    }

    fn covered(&self, origin: Ts) -> Vec<Window> {
        let mut covered = self.coverage.covered.clone();
        let behind = self.value().and_then(|value| match self.direction() {
            Direction::Forward => Window::new(origin, value),
            Direction::Backfill => Window::new(value, origin),
        });
        covered.extend(behind);
        covered
    }

    /// The first `room` slices of the gaps in reading order, and the number of all. A backfill goes towards the past
    /// (ING-6.2-04). Only these are held in memory: there may be millions.
    fn windows(&self, gaps: &[Window], room: usize) -> (Vec<Window>, usize) {
        let cut = self.cut_by_history();
        let mut all = gaps.iter().flat_map(|gap| cut.slices(*gap));
        if self.direction() == Direction::Forward {
            let first: Vec<_> = all.by_ref().take(room).collect();
            let count = first.len() + all.count();
            return (first, count);
        }
        let (mut newest, mut count) = (VecDeque::new(), 0);
        for window in all {
            if newest.len() == room {
                newest.pop_front();
            }
            newest.push_back(window);
            count += 1;
        }
        (newest.into_iter().rev().collect(), count)
    }

    /// As wide as the manifest allows, or narrower where such a window held too many records before (ING-4.4-18).
    fn cut_by_history(&self) -> Cut {
        let Some(width) = self.coverage.history.width_of(self.depth) else { return self.cut };
        let width = width.max(self.narrowest);
        if width >= self.cut.max_width {
            return self.cut;
        }
        let unit = self.cut.align.map_or(Duration::from_secs(1), crate::window::Align::unit);
        let whole = crate::time::micros(width) / crate::time::micros(unit) * crate::time::micros(unit);
        let whole = Duration::from_micros(whole.max(0) as u64).max(unit).max(self.narrowest);
        // The alignment unit may be wider than the manifest allows windows to be.
        Cut { max_width: whole.min(self.cut.max_width), ..self.cut }
    }
}

//! What of a namespace is missing, as slices: exactly that, as far as the inventory allows.

use std::collections::VecDeque;
use std::time::Duration;

use super::Job;
use super::draft::{Draft, Part, Span};
use super::slice::{Note, SliceForm};
use crate::bounds;
use crate::state::Direction;
use crate::time::Ts;
use crate::tx::{Coverage, NewSlice, ReadSegments, Rest, Segments, Settlement, TriggerTaken};
use crate::window::{Cut, Window};

/// What comes next for a job whose coverage is read.
pub(super) enum Decision {
    Save(Part),
    /// First ask which ids are wanted.
    Ask(ReadSegments, Note),
    Settle(Settlement),
}

/// What there is room for.
pub(super) struct Room {
    /// As the inventory goes.
    pub(super) slices: u32,
    /// Requests that the quota allows, where there is one.
    pub(super) budget: Option<u64>,
    /// How long to wait for more.
    pub(super) wait: Duration,
}

impl Room {
    /// Slices of so many requests each. Those that wait in the queue will use their part of the budget (C-32).
    fn of(&self, expected: u64, queued: u32) -> u32 {
        let Some(budget) = self.budget else { return self.slices };
        let left = budget.saturating_sub(u64::from(queued) * expected);
        // One that needs more than there ever is goes as far as it can, and on from there later.
        let fit = if left > 0 && queued == 0 { (left / expected.max(1)).max(1) } else { left / expected.max(1) };
        u32::try_from(fit).unwrap_or(u32::MAX).min(self.slices)
    }
}

/// Decides how a job goes on.
pub(super) fn decide(job: &Job, coverage: &Coverage, room: &Room) -> Decision {
    let (wait, expected) = (room.wait, expected(job, coverage));
    let note = Note { expected_requests: expected, budget_hint: room.budget };
    let room = room.of(expected, coverage.queued);
    match &job.draft.span {
        Span::Time { cut, initial, narrowest, depth } => {
            let time = Time { job, coverage, cut: *cut, initial: *initial, narrowest: *narrowest, depth: *depth };
            time.decide(room, wait, note)
        }
        Span::Ids { .. } if room == 0 => Decision::Settle(Settlement::Later { delay: wait }),
        Span::Ids { stream, refresh } => {
            let asked = ReadSegments {
                stream: stream.clone(),
                wanted: refresh.wanted(coverage.now),
                after: match &job.trigger.plan {
                    Some(open) => match &open.rest {
                        Rest::Ids { after } => after.clone(),
                        Rest::Time(_) => None,
                    },
                    None => None,
                },
                size: refresh.size.max(1),
                limit: room,
            };
            Decision::Ask(asked, note)
        }
    }
}

/// Requests that a slice will need, going by what was seen before; one at least, and no more than its budget.
fn expected(job: &Job, coverage: &Coverage) -> u64 {
    let Draft { span, per_request, shape, .. } = &*job.draft;
    let records = match span {
        Span::Time { cut, narrowest, depth, .. } => {
            let width = coverage.history.width_of(*depth).map_or(cut.max_width, |width| width.max(*narrowest));
            coverage.history.estimate(width.min(cut.max_width)).unwrap_or(0)
        }
        Span::Ids { refresh, .. } => u64::from(refresh.size),
    };
    let per_request = match (span, shape.phase.id_batch_size) {
        (Span::Ids { .. }, Some(size)) => size,
        _ => *per_request,
    };
    let requests = if per_request == 0 { 1 } else { records.div_ceil(u64::from(per_request)) };
    requests.clamp(1, u64::from(shape.budget.max_requests.max(1)))
}

/// The part of a plan that these segments make.
pub(super) fn of_segments(
    job: &Job,
    asked: &ReadSegments,
    note: Note,
    segments: Segments,
    epoch: i64,
    next: i64,
) -> Result<Part, Settlement> {
    if segments.ranges.is_empty() && job.trigger.plan.is_none() {
        return Err(Settlement::Nothing { remark: "no stored record has to be fetched again".to_owned() });
    }
    let (form, generation) = (SliceForm::new(job.draft.shape.clone()).noting(note), epoch.to_string());
    let slice = |(range, ordinal)| {
        let segment = bounds::Segment { wanted: asked.wanted.clone(), range };
        form.derive_ids(&segment, ordinal, &generation)
    };
    let slices: Vec<NewSlice> = segments.ranges.into_iter().zip(next..).map(slice).collect();
    Ok(Part {
        window: None,
        origin: None,
        epoch,
        slice_count: slices.len(),
        span: Duration::ZERO,
        estimate: (!segments.more).then(|| slices.len() as u64 * u64::from(asked.size)),
        slices,
        complete: !segments.more,
    })
}

/// Planning along time.
struct Time<'a> {
    job: &'a Job,
    coverage: &'a Coverage,
    cut: Cut,
    initial: Ts,
    narrowest: Duration,
    depth: u64,
}

impl Time<'_> {
    fn decide(&self, room: u32, wait: Duration, note: Note) -> Decision {
        let Job { trigger, draft, .. } = self.job;
        let origin = self.origin();
        let window = match trigger.plan.as_ref().map(|open| &open.rest) {
            Some(Rest::Time(rest)) => *rest,
            _ => match self.wished(origin) {
                Ok(window) => window,
                Err(settlement) => return Decision::Settle(settlement),
            },
        };
        let gaps = window.minus(&self.covered(origin));
        let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else {
            // Nothing left of a plan in parts: close it with an empty last part.
            if trigger.plan.is_some() {
                return Decision::Save(self.part(origin, window, &gaps, Vec::new(), true, 0));
            }
            let remark = format!("everything up to {} is harvested or under way", window.to.to_short_text());
            return Decision::Settle(Settlement::Nothing { remark });
        };
        if room == 0 {
            return Decision::Settle(Settlement::Later { delay: wait });
        }
        let (windows, count) = self.windows(&gaps, room as usize);
        let form = SliceForm::new(draft.shape.clone()).noting(note);
        let generation = self.coverage.epoch.to_string();
        let slices: Vec<_> = windows.iter().map(|window| form.derive(*window, &generation)).collect();
        let complete = slices.len() == count;
        let window = if trigger.plan.is_some() { window } else { Window { from: first.from, to: last.to } };
        Decision::Save(self.part(origin, window, &gaps, slices, complete, count))
    }

    fn part(
        &self,
        origin: Ts,
        window: Window,
        gaps: &[Window],
        slices: Vec<NewSlice>,
        complete: bool,
        slice_count: usize,
    ) -> Part {
        // What is covered already lies within the window and is not read again.
        let span = gaps.iter().map(Window::width).sum();
        let estimate = self.coverage.history.estimate(span);
        let (window, origin) = (Some(window), Some(origin));
        Part { window, origin, epoch: self.coverage.epoch, slices, complete, span, estimate, slice_count }
    }

    fn trigger(&self) -> &TriggerTaken {
        &self.job.trigger
    }

    fn draft(&self) -> &Draft {
        &self.job.draft
    }

    fn direction(&self) -> Direction {
        self.draft().cursor.operation.direction()
    }

    fn value(&self) -> Option<Ts> {
        self.coverage.value.as_ref().and_then(crate::cursor::Mark::instant)
    }

    /// `now - safety_lag`: no plan reaches beyond it (ING-5.5-03).
    fn barrier(&self) -> Ts {
        (self.coverage.now - self.draft().shape.safety_lag).floor_to(Duration::from_secs(1))
    }

    fn origin(&self) -> Ts {
        let first = match self.direction() {
            // A wish for a later window must not make the namespace begin there: the rest would never be read.
            Direction::Forward => self.trigger().window_from.map_or(self.initial, |from| from.min(self.initial)),
            Direction::Backfill => self.upper(None),
        };
        self.coverage.origin.unwrap_or(first)
    }

    /// Where a backfill begins that goes down: at the wish, else where it stopped, else where the harvest is.
    fn upper(&self, origin: Option<Ts>) -> Ts {
        let barrier = self.barrier();
        let to = self.trigger().window_to.or(self.value()).or(origin).or(self.coverage.harvested);
        to.map_or(barrier, |to| to.min(barrier))
    }

    /// The window that the trigger asks for.
    fn wished(&self, origin: Ts) -> Result<Window, Settlement> {
        let trigger = self.trigger();
        let (from, to) = match self.direction() {
            Direction::Forward => {
                let from = trigger.window_from.unwrap_or_else(|| self.value().unwrap_or(origin));
                (from, trigger.window_to.map_or(self.barrier(), |to| to.min(self.barrier())))
            }
            Direction::Backfill => (trigger.window_from.unwrap_or(self.initial), self.upper(Some(origin))),
        };
        Window::new(from, to).ok_or_else(|| Settlement::Nothing {
            remark: format!("nothing between {} and {}", from.to_short_text(), to.to_short_text()),
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

    /// The first `room` slices of the gaps in the order in which they are read, and how many there are. A backfill goes
    /// towards the past (ING-6.2-04). Only these are held: there may be millions.
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

    /// As wide as the manifest allows, or narrower where so wide a window held too much before (ING-4.4-18).
    fn cut_by_history(&self) -> Cut {
        let Some(width) = self.coverage.history.width_of(self.depth) else { return self.cut };
        let width = width.max(self.narrowest);
        if width >= self.cut.max_width {
            return self.cut;
        }
        let unit = self.cut.align.map_or(Duration::from_secs(1), crate::window::Align::unit);
        let whole = crate::time::micros(width) / crate::time::micros(unit) * crate::time::micros(unit);
        let whole = Duration::from_micros(whole.max(0) as u64).max(unit).max(self.narrowest);
        // The unit of the alignment may be wider than the manifest allows windows to be.
        Cut { max_width: whole.min(self.cut.max_width), ..self.cut }
    }
}

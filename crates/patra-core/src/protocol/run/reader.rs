//! The reading side of a run: its position, failed tries, and when to retry.

use std::collections::BTreeSet;

use super::batch_context::BatchContext;
use super::details::{DetailCounts, DetailPhase, RefusedId};
use super::limit::LimitStatus;
use super::order::OrderTracker;
use super::page::{FetchedPage, PageFailure};
use super::parts::needs_parts;
use super::{PlannedEnd, RunMachine, RunStage, Want};
use crate::error::{Code, Fault, Level};
use crate::gate::GateDecision;
use crate::health::Advice;
use crate::id::RunId;
use crate::paging::{PageStep, PageWalk, PagingRule, Part, Position, Verification, WalkProgress};
use crate::record::DetailCandidate;
use crate::source::Validators;
use crate::time::Ts;
use crate::tx::{RateStats, RunEnd, SelfHealing, SkipReasons};

/// One page to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageFetch {
    pub run: RunId,
    pub batch_no: u32,
    pub position: Position,
    pub page_size: u32,
    /// Validators of an unchanged response, used if they are for the requested URL.
    pub validators: Option<Box<Validators>>,
}

impl PageFetch {
    /// Correlation id for the upstream's log and ours (ING-14.2-02).
    pub fn correlation(&self) -> String {
        format!("ing-{}-{}", self.run, self.batch_no)
    }
}

#[derive(Debug)]
pub(super) struct PageReader {
    pub(super) state: ReaderState,
    /// Position of the current or next page; `None` at the end.
    position: Option<Position>,
    /// Position of the last request.
    requested: Option<Position>,
    batch_no: u32,
    /// Only a total says that this page exists: a 404 is the end then.
    pub(super) perhaps: bool,
    pub(super) walk: PageWalk,
    /// State of the walk before the current page: a page that is not left is judged again after a crash.
    pub(super) walk_before: Option<WalkProgress>,
    /// The next batch does not leave its page.
    pub(super) stays: bool,
    /// The last id of the page before, where ids are read first.
    last_id: Option<DetailCandidate>,
    /// Page size of the last request.
    pub(super) requested_size: u32,
    pub(super) track: OrderTracker,
    pages: u32,
    /// Started at the first page of the slice, not after an earlier run.
    from_the_start: bool,
    pub(super) healing: SelfHealing,
    pub(super) rate: RateStats,
    /// Failed tries of this page, without 429 responses.
    pub(super) failures: u32,
    pub(super) throttles: u32,
    /// The last response for this page had another format.
    pub(super) strange: bool,
    /// The ids of the current page, while their details are fetched.
    pub(super) phase: Option<DetailPhase>,
    pub(super) bad_in_a_row: u32,
    /// A detail arrived in this run: the upstream does return them.
    pub(super) proved: bool,
    pub(super) refused: Vec<RefusedId>,
    /// Ids of the current group that were refused together with too many others.
    pub(super) unresolved: BTreeSet<String>,
    /// Ids that were requested once more after an outage.
    pub(super) retried: BTreeSet<String>,
    pub(super) detail_counts: DetailCounts,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum ReaderState {
    /// May request a permit.
    #[default]
    Ready,
    AwaitingPermit,
    Sleeping(Ts),
    Fetching,
    /// Waiting for the screening of ids, or for the time to retry it.
    Screening {
        again: Ts,
    },
    Halted,
}

/// What follows a page.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum PageEnding {
    Next {
        next: Position,
        perhaps: bool,
    },
    /// The page was the last.
    End,
    /// The page was the last, and its end is missing.
    Cut(String),
    /// There is more, but this run ends here.
    Over {
        next: Position,
        end: RunEnd,
    },
}

impl Default for PageReader {
    fn default() -> PageReader {
        PageReader {
            state: ReaderState::default(),
            position: None,
            requested: None,
            batch_no: 0,
            perhaps: false,
            walk: PageWalk::new(true),
            walk_before: None,
            stays: false,
            last_id: None,
            requested_size: 0,
            track: OrderTracker::default(),
            pages: 0,
            from_the_start: true,
            healing: SelfHealing::default(),
            rate: RateStats::default(),
            failures: 0,
            throttles: 0,
            strange: false,
            phase: None,
            bad_in_a_row: 0,
            proved: false,
            refused: Vec::new(),
            unresolved: BTreeSet::new(),
            retried: BTreeSet::new(),
            detail_counts: DetailCounts::default(),
        }
    }
}

impl PageReader {
    pub(super) fn begin(&mut self, position: Position, from_the_start: bool) {
        self.position = Some(position);
        self.batch_no = 1;
        self.walk = PageWalk::new(from_the_start);
        self.from_the_start = from_the_start;
    }

    /// Continues after an earlier run.
    pub(super) fn resume(&mut self, position: Position, total: Option<u64>, progress: Option<&WalkProgress>) {
        let walk = PageWalk::resumed(&position, total, progress);
        self.begin(position, false);
        self.walk = walk;
    }

    /// The slice is only a part of a list, or this run takes only a part of it.
    pub(super) fn reads_a_part(&mut self, part: Part, total: Option<u64>) {
        self.walk = std::mem::replace(&mut self.walk, PageWalk::new(true)).of_part(part, total);
    }

    /// What the completeness of the slice is known by, once it was read to its end.
    pub(super) fn verification(&self, rule: &PagingRule) -> Verification {
        self.walk.verification(rule)
    }

    /// Whether no record can have moved past the reader.
    pub(super) fn keeps_its_place(&self, rule: &PagingRule) -> bool {
        self.walk.keeps_its_place(rule)
    }

    /// The server refused an offset that overlaps the page before: requests the offset without overlap.
    pub(super) fn refuse_overlap(&mut self) -> bool {
        let Some(exact) = self.walk.refuse_overlap() else { return false };
        self.position = Some(exact);
        self.again();
        true
    }

    pub(super) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Between two groups of ids from the store.
    pub(super) fn wants_ids(&self) -> bool {
        self.state == ReaderState::Ready && self.phase.is_none() && matches!(self.position, Some(Position::Keys { .. }))
    }

    /// Pages read by this run.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// The current page is the first of the slice, for the first time.
    pub(super) fn is_at_first(&self) -> bool {
        self.from_the_start && self.pages == 1
    }

    pub(super) fn halt(&mut self) {
        self.state = ReaderState::Halted;
    }

    /// Another page is requested, or will be at once.
    pub(super) fn is_reading_on(&self) -> bool {
        self.position.is_some()
            && !self.wants_ids()
            && matches!(self.state, ReaderState::Ready | ReaderState::AwaitingPermit | ReaderState::Fetching)
    }

    /// True when a permit should be requested now; the request is then recorded.
    pub(super) fn may_request(&mut self) -> bool {
        let may = self.state == ReaderState::Ready && self.position.is_some();
        if may {
            self.state = ReaderState::AwaitingPermit;
        }
        may
    }

    pub(super) fn permit(&self) -> Want {
        Want::Permit { details: self.phase.is_some() }
    }

    /// True when a sleep is over and a permit should be requested.
    pub(super) fn wakes(&mut self, now: Ts) -> bool {
        let wakes = matches!(self.state, ReaderState::Sleeping(until) if now >= until);
        if wakes {
            self.state = ReaderState::AwaitingPermit;
        }
        wakes
    }

    pub(super) fn wake_at(&self) -> Ts {
        if let ReaderState::Sleeping(until) | ReaderState::Screening { again: until } = self.state {
            until
        } else {
            Ts::MAX
        }
    }

    /// Requests something else instead of what was refused.
    pub(super) fn again(&mut self) {
        self.failures = 0;
        self.throttles = 0;
        self.strange = false;
        self.state = ReaderState::Ready;
    }

    /// Moves on to the next page.
    pub(super) fn step(&mut self, next: Option<Position>, perhaps: bool) {
        if let Some(token) = self.position.take().and_then(|position| position.token_key()) {
            self.walk.remember(&token);
        }
        self.position = next;
        self.perhaps = perhaps;
        self.batch_no += 1;
        self.again();
    }
}

impl RunMachine {
    pub(super) fn on_permit(&mut self, now: Ts, decision: GateDecision, advice: Advice, wants: &mut Vec<Want>) {
        let (ReaderState::AwaitingPermit, None) = (&self.reader.state, &self.planned_end) else { return };
        self.advice = advice;
        self.reader.healing.add(advice.healing());
        // The run reports it too when it makes no batch.
        self.stats.heal(advice.healing());
        self.count(&advice.rate);
        match decision {
            GateDecision::Allow => {
                let (Some(run), Some(at), RunStage::Paging(policy)) = (self.run, &self.reader.position, &self.stage)
                else {
                    return;
                };
                let details = self.reader.phase.as_ref().and_then(|phase| phase.position(at));
                let position = details.unwrap_or_else(|| at.clone());
                self.reader.requested = Some(position.clone());
                self.reader.state = ReaderState::Fetching;
                self.stats.req_count += 1;
                let page_size = self.page_size(policy);
                self.reader.requested_size = page_size;
                self.reader.healing.page_size_shrink |= page_size < policy.paging.page_size;
                let (batch_no, known) = (self.reader.batch_no, self.polling.known());
                wants.push(Want::Fetch(PageFetch { run, batch_no, position, page_size, validators: known }));
            }
            GateDecision::WaitUntil(until) => {
                let wait = until.since(now);
                // A run whose own requests opened the circuit has used up an attempt; one that only meets it has not
                // (C-60).
                if advice.circuit_open && self.reader.failures > 0 && wait > self.options.inline_wait {
                    let error = Fault::new(Code::PlatformError, Level::L1, "the upstream fails again and again");
                    let end = RunEnd::Requeue { delay: wait, error, counted: true };
                    self.planned_end = Some(PlannedEnd { end, failure: None });
                    self.reader.halt();
                    return self.proceed(wants);
                }
                let reason = match advice.rate {
                    RateStats { quota_hard_hits: 1.., .. } => "the quota is used up until then",
                    RateStats { quota_soft_hits: 1.., .. } => {
                        "the rest of the quota is reserved for HARVEST until then"
                    }
                    _ => "no request may be sent before then",
                };
                self.sleep_or_give_back(now, wait, reason, wants);
            }
        }
    }

    /// Counts for the batch, and for the run when there is no batch.
    pub(super) fn count(&mut self, rate: &RateStats) {
        self.reader.rate.add(rate);
        self.stats.rate.add(rate);
    }

    pub(super) fn on_fetched(
        &mut self,
        now: Ts,
        result: Result<Box<FetchedPage>, Box<PageFailure>>,
        wants: &mut Vec<Want>,
    ) {
        if self.reader.state != ReaderState::Fetching {
            // A run that was stopped meanwhile still reports that the upstream asked for a pause: other runs must
            // respect it.
            if let Err(PageFailure { throttled: true, retry_after: Some(silence), .. }) =
                result.map_err(|refusal| *refusal)
            {
                wants.push(Want::CoolDown(silence));
            }
            return;
        }
        match result {
            Ok(page) if self.reader.phase.is_some() => self.on_details(*page, wants),
            Ok(page) => self.on_page(now, page, wants),
            Err(refusal) => self.on_refusal(now, *refusal, wants),
        }
    }

    fn on_page(&mut self, now: Ts, mut page: Box<FetchedPage>, wants: &mut Vec<Want>) {
        let (RunStage::Paging(policy), Some(here)) = (&self.stage, self.reader.position.clone()) else { return };
        let policy = std::sync::Arc::clone(policy);
        self.reader.pages += 1;
        self.polling.on_page(&here, &mut page);
        let is_read_again = policy.details.is_some() || needs_parts(&page.records, self.options.max_batch_records);
        self.reader.walk_before = self.reader.walk.progress().filter(|_| is_read_again);
        if policy.pass.is_some() && page.has_unidentified() {
            self.reader.walk.note_unidentified();
        }
        let step = self.walk_on(&policy, &here, &page);
        // A page that is not committed does not advance the window.
        if let (Some(order), false) = (policy.order, matches!(step, PageStep::Broken(_))) {
            self.reader.track.page(order, &page.records);
        }
        let total = page.facts.total;
        let restarts = step == PageStep::Restart;
        let mut ending = match step {
            PageStep::Next { next, perhaps } => self.onward(&policy, now, next, total, perhaps),
            PageStep::Again => PageEnding::Next { next: here.clone(), perhaps: false },
            PageStep::Restart => {
                self.reader.track.give_up();
                PageEnding::Next { next: self.first(&policy), perhaps: false }
            }
            PageStep::End(_) => page.cut.take().map_or(PageEnding::End, PageEnding::Cut),
            PageStep::Incomplete(error) => {
                PageEnding::Over { next: self.first(&policy), end: RunEnd::Partial { error } }
            }
            PageStep::TooMuch { next, total, at_most } => {
                PageEnding::Over { next, end: self.too_much(&policy, total, at_most) }
            }
            // The cap falls on the last page of a range: nothing is missing.
            PageStep::MaxPage { next, .. } if self.is_past_range(&policy, &next) => PageEnding::End,
            PageStep::MaxPage { next, pages } => PageEnding::Over { next, end: self.at_max_page(&policy, pages) },
            PageStep::Broken(fault) => {
                self.give_up(self.end_by(&fault), fault, page.evidence, wants);
                return;
            }
        };
        match self.limit.as_mut().map(|limit| limit.take(&mut page)) {
            None | Some(LimitStatus::Below) => {}
            Some(LimitStatus::Enough) if matches!(ending, PageEnding::Next { .. }) => self.awaits_news = true,
            Some(LimitStatus::Enough | LimitStatus::Full) => ending = PageEnding::End,
        }
        self.polling.on_records(&policy.stream.kind, &page.records);
        if ending == PageEnding::End && self.bounds.ids.is_none() && self.lease.source.is_none() {
            self.stats.verification = Some(self.reader.verification(&policy.paging));
        }
        let resliced = matches!(&ending, PageEnding::Over { end: RunEnd::Split { .. } | RunEnd::Failed { .. }, .. });
        if (resliced || restarts) && policy.details.is_some() {
            // The narrower windows, or the repeated pages, name these ids again. A run that dies before that must not
            // resume behind them.
            page.facts.items = 0;
            page.candidates.clear();
            page.skipped = SkipReasons::default();
            if let PageEnding::Over { next, .. } = &mut ending {
                next.clone_from(&here);
                self.reader.stays = true;
            }
        }
        self.drop_overlap(&mut page);
        if page.candidates.is_empty() {
            self.turn(*page, Vec::new(), ending, wants);
        } else {
            self.screen(page, ending, wants);
        }
    }

    /// A page that overlaps the one before begins with an id that was handled there.
    fn drop_overlap(&mut self, page: &mut FetchedPage) {
        let last = page.candidates.last().cloned();
        if last.is_some() && page.candidates.first() == self.reader.last_id.as_ref() {
            page.candidates.remove(0);
        }
        self.reader.last_id = last;
    }
}

impl PageReader {
    pub(super) fn context(&self) -> BatchContext {
        let position = self.requested.clone().or_else(|| self.position.clone()).unwrap_or(Position::Time);
        // A source that repeats a token is still at a new page: the ledger's key must differ (C-37).
        let before_token = position
            .token_key()
            .map(|token| if self.walk.may_have_read(&token) { format!("{token}#{}", self.batch_no) } else { token });
        let by_token = matches!(self.position, Some(Position::Token(_)));
        BatchContext {
            batch_no: self.batch_no,
            before_token,
            position,
            total: self.walk.total().filter(|_| !by_token),
            taken: None,
            walk: self.walk.progress(),
            page_size: self.requested_size,
            healing: self.healing,
            rate: self.rate,
            retries: self.failures + self.throttles,
            throttles: self.throttles,
            // A page of ids is no progress before its details are fetched, and neither is reading pages again.
            progress: !self.walk.is_restarted()
                && (self.phase.is_none() || matches!(self.requested, Some(Position::Ids { .. }))),
        }
    }
}

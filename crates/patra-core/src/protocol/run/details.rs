//! Two-phase reading: a page names ids, their details are fetched in groups (ING-4.6). The page is committed first
//! and leads back to itself; each group is committed as a batch of its own, and only the last one leads on. So a run
//! that dies in between reads the page again, and the details that were fetched are screened out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::page::{ExchangeEvidence, FetchedPage, PageFailure};
use super::reader::{PageEnding, ReaderState};
use super::{RunMachine, RunStage, Want};
use crate::error::{Code, Fault, Level};
use crate::paging::Position;
use crate::record::{CandidateMark, DetailCandidate, RejectedRecord};
use crate::time::Ts;
use crate::tx::{RunEnd, TxError};

#[derive(Clone, Copy, Debug)]
pub struct DetailOptions {
    /// Ids per request.
    pub batch_size: u32,
    /// An id that is missing in the response is bad; otherwise it counts as fetched.
    pub missing_is_bad: bool,
}

/// Consecutive ids without details after which the fault is not in the ids.
const MAX_BAD_IN_A_ROW: u32 = 20;

/// Ids of a page that may count as bad although no detail has proved yet that the upstream returns any.
const MAX_UNPROVEN: usize = 2;

/// Why an id that is missing in the response is bad.
const MISSING: &str = "the upstream gave no detail for it";

/// Delay before a failed screening is retried.
const SCREEN_AGAIN: Duration = Duration::from_millis(500);

/// Minimum ids before the share of refused ones counts.
const ENOUGH_IDS: u32 = 20;

/// The ids of one page whose details are being fetched.
#[derive(Debug)]
pub(super) struct DetailPhase {
    /// What follows once all details are fetched.
    ending: PageEnding,
    groups: VecDeque<Vec<DetailCandidate>>,
    /// The page, until its ids are screened.
    page: Option<Box<FetchedPage>>,
}

/// An id whose details were refused.
#[derive(Debug)]
pub(super) struct RefusedId {
    candidate: DetailCandidate,
    reason: String,
    /// The upstream may have failed, not the id.
    outage: bool,
    /// The upstream says that it has no such record.
    gone: bool,
}

/// Counts of the detail requests of this run.
#[derive(Debug, Default)]
pub(super) struct DetailCounts {
    ids: u32,
    /// Ids that the upstream refused as wrong (L2), requested alone.
    refused: u32,
    /// Ids that the upstream does not have; in an UPDATE they do not count as refused.
    gone: u32,
    /// The last of these refusals.
    example: Option<Fault>,
}

impl DetailPhase {
    /// Ids that need no screening.
    pub(super) fn of(ending: PageEnding, groups: VecDeque<Vec<DetailCandidate>>) -> DetailPhase {
        DetailPhase { ending, groups, page: None }
    }

    /// The current request is for several ids.
    pub(super) fn is_group(&self) -> bool {
        self.groups.front().is_some_and(|group| group.len() > 1)
    }

    /// Position of the next request.
    pub(super) fn position(&self, at: &Position) -> Option<Position> {
        let group = self.groups.front()?;
        Some(Position::Ids { at: Box::new(at.clone()), ids: group.iter().map(|one| one.id.clone()).collect() })
    }
}

impl RunMachine {
    /// Screens a page of ids: which of them are new.
    pub(super) fn screen(&mut self, page: Box<FetchedPage>, ending: PageEnding, wants: &mut Vec<Want>) {
        let RunStage::Paging(policy) = &self.stage else { return };
        wants.push(Want::Screen(policy.stream.clone(), page.candidates.clone()));
        self.reader.state = ReaderState::Screening { again: Ts::MAX };
        self.reader.phase = Some(DetailPhase { ending, groups: VecDeque::new(), page: Some(page) });
    }

    pub(super) fn screen_again(&mut self, now: Ts, wants: &mut Vec<Want>) {
        let (ReaderState::Screening { again }, RunStage::Paging(policy)) = (&mut self.reader.state, &self.stage) else {
            return;
        };
        if now < *again {
            return;
        }
        *again = Ts::MAX;
        if self.bounds.ids.is_some() {
            return self.read_ids(wants);
        }
        if let Some(page) = self.reader.phase.as_ref().and_then(|phase| phase.page.as_ref()) {
            wants.push(Want::Screen(policy.stream.clone(), page.candidates.clone()));
        }
    }

    /// The screening failed: retry soon.
    pub(super) fn screen_later(&mut self, now: Ts) {
        self.reader.state = ReaderState::Screening { again: now + self.rng.around(SCREEN_AGAIN) };
    }

    pub(super) fn on_screened(
        &mut self,
        now: Ts,
        result: Result<Vec<DetailCandidate>, TxError>,
        wants: &mut Vec<Want>,
    ) {
        let (ReaderState::Screening { .. }, RunStage::Paging(policy)) = (&self.reader.state, &self.stage) else {
            return;
        };
        let screened = match result {
            Ok(screened) => screened,
            Err(error) if error.is_transient() => return self.screen_later(now),
            Err(error) => {
                let error = Fault::new(Code::InternalError, Level::L4, error.to_string());
                self.fail(error, wants);
                return;
            }
        };
        let size = policy.details.map_or(1, |details| details.batch_size.max(1)) as usize;
        let Some(mut phase) = self.reader.phase.take() else { return };
        let Some(mut page) = phase.page.take() else { return };
        // Fetched details are counted when they arrive.
        page.facts.items = page.facts.items.saturating_sub(screened.len() as u32);
        // One of each id: a page may name it twice, and the details are the current ones.
        let ids: BTreeMap<_, _> = screened.into_iter().map(|one| (one.id, one.version)).collect();
        let ids: Vec<_> = ids.into_iter().map(|(id, version)| DetailCandidate { id, version }).collect();
        phase.groups = ids.chunks(size).map(<[DetailCandidate]>::to_vec).collect();
        self.reader.state = ReaderState::Ready;
        if phase.groups.is_empty() {
            self.turn(*page, Vec::new(), phase.ending, wants);
        } else {
            self.reader.phase = Some(phase);
            self.stay(*page, Vec::new(), wants);
        }
    }

    /// Handles the details of a group, or of some of it.
    pub(super) fn on_details(&mut self, mut page: FetchedPage, wants: &mut Vec<Want>) {
        let RunStage::Paging(policy) = &self.stage else { return };
        let strict = policy.details.is_some_and(|details| details.missing_is_bad);
        let Some(group) = self.reader.phase.as_mut().and_then(|phase| phase.groups.pop_front()) else { return };
        self.reader.detail_counts.ids += group.len() as u32;
        let received = ids_in(&page);
        let matched = group.iter().filter(|one| received.contains(&one.id)).count();
        // The upstream names its records differently from the ids: as many came, and they cannot be matched.
        let renamed = matched == 0 && page.facts.items as usize >= group.len();
        if strict && matched == 0 && !renamed {
            let fault = Fault::new(Code::PartialFail, Level::L2, MISSING);
            let evidence = page.evidence;
            let refusal = PageFailure { fault, throttled: false, retry_after: None, evidence, offline: false };
            self.reader.detail_counts.gone += group.len() as u32;
            self.defer_refused(group, refusal, true, wants);
            return;
        }
        let mut marks = Vec::with_capacity(group.len());
        for candidate in group {
            let missing = strict && !renamed && !received.contains(&candidate.id);
            let bad = missing.then(|| MISSING.to_owned());
            marks.push(CandidateMark { candidate, bad });
        }
        self.reader.proved = true;
        self.reader.bad_in_a_row = 0;
        self.settle_refused(&mut marks);
        self.quarantine(&mut page, &marks);
        self.settle(page, marks, wants);
    }

    /// Handles a group that the upstream refuses as a whole: halve it until the bad id is alone, then defer that one.
    /// False when the refusal is not about the ids.
    pub(super) fn isolate(&mut self, refusal: &PageFailure, wants: &mut Vec<Want>) -> bool {
        let about_ids = matches!(refusal.evidence.status, 0 | 200 | 400 | 404 | 410 | 413 | 414 | 422 | 500..);
        let Some(phase) = self.reader.phase.as_mut().filter(|_| about_ids) else { return false };
        let Some(group) = phase.groups.pop_front() else { return false };
        if group.len() > 1 {
            let (first, second) = group.split_at(group.len() / 2);
            phase.groups.push_front(second.to_vec());
            phase.groups.push_front(first.to_vec());
            self.reader.again();
            self.proceed(wants);
            return true;
        }
        self.reader.detail_counts.ids += 1;
        let gone = matches!(refusal.evidence.status, 404 | 410);
        if gone && self.segment().is_some() {
            self.reader.detail_counts.gone += 1;
        } else if refusal.fault.level != Level::L1 {
            self.reader.detail_counts.refused += 1;
            self.reader.detail_counts.example = Some(refusal.fault.clone());
        }
        self.defer_refused(group, refusal.clone(), gone, wants);
        true
    }

    /// Defers ids whose details are apparently not available, until it is known that the ids are the cause: an
    /// upstream that refuses everything must not turn a window into quarantine.
    fn defer_refused(&mut self, group: Vec<DetailCandidate>, refusal: PageFailure, gone: bool, wants: &mut Vec<Want>) {
        self.reader.bad_in_a_row += group.len() as u32;
        // Stored records may have been deleted, one after the other.
        let hopeless = self.segment().is_none() || !self.reader.proved && self.reader.detail_counts.gone == 0;
        if self.reader.bad_in_a_row >= MAX_BAD_IN_A_ROW && hopeless {
            let reason = format!("no details for {} ids in a row: {}", self.reader.bad_in_a_row, refusal.fault.message);
            return self.unproven(Fault::new(refusal.fault.code, Level::L2, reason), refusal.evidence, wants);
        }
        let outage = refusal.fault.level == Level::L1;
        for candidate in group {
            let outage = outage && !self.reader.retried.contains(&candidate.id);
            self.reader.refused.push(RefusedId { candidate, reason: refusal.fault.to_string(), outage, gone });
        }
        self.settle(FetchedPage { evidence: refusal.evidence, ..FetchedPage::default() }, Vec::new(), wants);
    }

    /// A detail arrived: deferred ids are bad, except those that may have met an outage, which are requested once
    /// more. An UPDATE settles them with its last group, when it knows how many were refused.
    fn settle_refused(&mut self, marks: &mut Vec<CandidateMark>) {
        let update = self.bounds.ids.is_some();
        for refused in std::mem::take(&mut self.reader.refused) {
            match &mut self.reader.phase {
                Some(phase) if refused.outage => {
                    self.reader.retried.insert(refused.candidate.id.clone());
                    phase.groups.push_back(vec![refused.candidate]);
                }
                Some(_) if update => self.reader.refused.push(refused),
                _ => marks.push(CandidateMark { candidate: refused.candidate, bad: Some(refused.reason) }),
            }
        }
        marks.sort_by(|a, b| a.candidate.cmp(&b.candidate));
    }

    /// Adds a quarantine row for each bad id: its details are missing, and must not be forgotten.
    fn quarantine(&self, page: &mut FetchedPage, marks: &[CandidateMark]) {
        // An UPDATE keeps stored records, and its signal keeps the reason.
        if self.segment().is_some() {
            return;
        }
        for mark in marks {
            let Some(reason) = &mark.bad else { continue };
            page.rejected.push(RejectedRecord {
                index: page.facts.items,
                key: Some(mark.candidate.id.clone()),
                code: Code::PartialFail,
                reason: reason.clone(),
                sample: String::new(),
            });
            page.facts.items += 1;
        }
    }

    /// Commits a group and continues with the next, or after the page when it was the last. A page is not left while
    /// an outage may have withheld its details.
    fn settle(&mut self, mut page: FetchedPage, mut marks: Vec<CandidateMark>, wants: &mut Vec<Want>) {
        if self.reader.phase.as_ref().is_some_and(|phase| !phase.groups.is_empty()) {
            return self.stay(page, marks, wants);
        }
        let (refused, outage) = (self.reader.refused.len(), self.reader.refused.iter().find(|refused| refused.outage));
        if let Some(refused) = outage {
            let fault = Fault::new(Code::PlatformError, Level::L1, refused.reason.clone());
            return self.unproven(fault, page.evidence, wants);
        }
        if self.is_unproven() {
            let reason = format!("no details for any of {refused} ids: {}", self.reader.refused[0].reason);
            return self.unproven(Fault::new(Code::PlatformError, Level::L2, reason), page.evidence, wants);
        }
        let Some(phase) = self.reader.phase.take() else { return };
        let ending = match (self.too_many_refused(), self.reader.position().cloned()) {
            (Some(end), Some(here)) => {
                // The ids may be good: a later request must find them unchanged.
                let refused = self
                    .reader
                    .refused
                    .iter()
                    .filter(|refused| !refused.gone)
                    .map(|refused| refused.candidate.id.clone());
                self.reader.unresolved = refused.collect();
                PageEnding::Over { next: here, end }
            }
            _ => phase.ending,
        };
        let mut settled = Vec::new();
        self.settle_refused(&mut settled);
        self.quarantine(&mut page, &settled);
        marks.append(&mut settled);
        marks.sort_by(|a, b| a.candidate.cmp(&b.candidate));
        self.turn(page, marks, ending, wants);
    }

    /// No id had details, and nothing proves that the ids are the cause. A deleted record is a valid result of an
    /// UPDATE; but when many are missing and none is found, the address is probably wrong.
    fn is_unproven(&self) -> bool {
        let RunStage::Paging(policy) = &self.stage else { return false };
        let (refused, nobody_gone) = (self.reader.refused.len(), self.reader.detail_counts.gone == 0);
        if self.reader.proved {
            return false;
        }
        match self.segment() {
            None => refused > MAX_UNPROVEN,
            Some(_) if nobody_gone => refused > MAX_UNPROVEN,
            Some(_) => refused >= ENOUGH_IDS as usize && policy.limits.error_ratio < 1.0,
        }
    }

    /// So many ids are refused one by one that the requests must be wrong: received details are kept, and a person
    /// must look. An UPDATE that was refused every single id has done nothing, however few they were.
    fn too_many_refused(&mut self) -> Option<RunEnd> {
        let RunStage::Paging(policy) = &self.stage else { return None };
        let (ratio, tally) = (policy.limits.error_ratio, &mut self.reader.detail_counts);
        let share = f64::from(tally.refused) / f64::from(tally.ids.max(1));
        let all = self.bounds.ids.is_some() && tally.ids > 0 && tally.refused == tally.ids;
        if !all && (tally.ids < ENOUGH_IDS || share <= ratio) {
            return None;
        }
        let Fault { code, message, .. } = tally.example.take()?;
        let (refused, ids) = (tally.refused, tally.ids);
        let reason =
            format!("the details of {refused} of {ids} ids are refused (limits.error_ratio {ratio}): {message}");
        Some(RunEnd::Failed { error: Fault::new(code, Level::L2, reason) })
    }

    /// Ends the run before any deferred id counts as bad.
    fn unproven(&mut self, fault: Fault, evidence: ExchangeEvidence, wants: &mut Vec<Want>) {
        self.reader.refused.clear();
        self.give_up(self.end_by(&fault), fault, evidence, wants);
    }
}

/// All ids that a response has details for.
fn ids_in(page: &FetchedPage) -> BTreeSet<String> {
    let records = page.records.iter().map(|record| record.key.clone());
    let rejected = page.rejected.iter().filter_map(|rejected| rejected.key.clone());
    records.chain(rejected).chain(page.candidates.iter().map(|one| one.id.clone())).collect()
}

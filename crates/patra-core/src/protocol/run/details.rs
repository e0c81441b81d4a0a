//! Two-phase reading: a page names ids, their content is fetched in groups (ING-4.6). The page is committed first and
//! leads back to itself; each group is committed as a batch of its own, and only the last one leads on. So a run that
//! dies in between reads the page again, and what was fetched meanwhile is screened out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::page::{Evidence, Page, Refusal};
use super::reader::{Ending, State};
use super::{Run, Stage, Want};
use crate::error::{Code, Fault, Level};
use crate::paging::Position;
use crate::record::{Candidate, Marked, Rejected};
use crate::time::Ts;
use crate::tx::{RunEnd, TxError};

#[derive(Clone, Copy, Debug)]
pub struct Details {
    /// Ids per request.
    pub batch_size: u32,
    /// An id that the answer leaves out is bad; otherwise it counts as fetched.
    pub missing_is_bad: bool,
}

/// Ids in a row that cannot be had, with none that can: then it is not the ids that are bad.
const MAX_BAD_IN_A_ROW: u32 = 20;

/// Ids of a page that are taken for bad although no detail has come yet to prove that the far side gives any.
const MAX_UNPROVEN: usize = 2;

/// Why an id that the answer leaves out is bad.
const MISSING: &str = "the far side gave no detail for it";

/// How long to wait with a screening that the store did not answer.
const SCREEN_AGAIN: Duration = Duration::from_millis(500);

/// Ids after which the share of those that are refused says something.
const ENOUGH_IDS: u32 = 20;

/// The ids of one page on their way.
#[derive(Debug)]
pub(super) struct Phase {
    /// What follows once all details are there.
    ending: Ending,
    groups: VecDeque<Vec<Candidate>>,
    /// The page, until it is known which of its ids are new.
    page: Option<Box<Page>>,
}

/// An id whose details were refused.
#[derive(Debug)]
pub(super) struct Held {
    candidate: Candidate,
    reason: String,
    /// It may have been the far side, not the id.
    outage: bool,
    /// The far side says that it has no such record.
    gone: bool,
}

/// How the requests for details went in this run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    ids: u32,
    /// Ids that the far side refused as wrong (L2), asked for alone.
    refused: u32,
    /// Ids that it says it does not have; of an UPDATE they are not refused, for that is an answer.
    gone: u32,
    /// The last of these refusals.
    example: Option<Fault>,
}

impl Phase {
    /// Ids that need no screening.
    pub(super) fn of(ending: Ending, groups: VecDeque<Vec<Candidate>>) -> Phase {
        Phase { ending, groups, page: None }
    }

    /// The request at hand is for several ids.
    pub(super) fn is_group(&self) -> bool {
        self.groups.front().is_some_and(|group| group.len() > 1)
    }

    /// What the next request asks for.
    pub(super) fn position(&self, at: &Position) -> Option<Position> {
        let group = self.groups.front()?;
        Some(Position::Ids { at: Box::new(at.clone()), ids: group.iter().map(|one| one.id.clone()).collect() })
    }
}

impl Run {
    /// A page of ids: ask which of them are new.
    pub(super) fn screen(&mut self, page: Box<Page>, ending: Ending, wants: &mut Vec<Want>) {
        let Stage::Paging(policy) = &self.stage else { return };
        wants.push(Want::Screen(policy.stream.clone(), page.candidates.clone()));
        self.reader.state = State::Screening { again: Ts::MAX };
        self.reader.phase = Some(Phase { ending, groups: VecDeque::new(), page: Some(page) });
    }

    pub(super) fn screen_again(&mut self, now: Ts, wants: &mut Vec<Want>) {
        let (State::Screening { again }, Stage::Paging(policy)) = (&mut self.reader.state, &self.stage) else { return };
        if now < *again {
            return;
        }
        *again = Ts::MAX;
        if self.bounds.ids.is_some() {
            return self.ask_for_ids(wants);
        }
        if let Some(page) = self.reader.phase.as_ref().and_then(|phase| phase.page.as_ref()) {
            wants.push(Want::Screen(policy.stream.clone(), page.candidates.clone()));
        }
    }

    /// The store did not answer: ask again soon.
    pub(super) fn screen_later(&mut self, now: Ts) {
        self.reader.state = State::Screening { again: now + self.rng.around(SCREEN_AGAIN) };
    }

    pub(super) fn on_screened(&mut self, now: Ts, answer: Result<Vec<Candidate>, TxError>, wants: &mut Vec<Want>) {
        let (State::Screening { .. }, Stage::Paging(policy)) = (&self.reader.state, &self.stage) else { return };
        let wanted = match answer {
            Ok(wanted) => wanted,
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
        // What is fetched is counted where it arrives.
        page.facts.items = page.facts.items.saturating_sub(wanted.len() as u32);
        // One of each id: a page may name it twice, and content is what it is now.
        let ids: BTreeMap<_, _> = wanted.into_iter().map(|one| (one.id, one.version)).collect();
        let ids: Vec<_> = ids.into_iter().map(|(id, version)| Candidate { id, version }).collect();
        phase.groups = ids.chunks(size).map(<[Candidate]>::to_vec).collect();
        self.reader.state = State::Ready;
        if phase.groups.is_empty() {
            self.turn(*page, Vec::new(), phase.ending, wants);
        } else {
            self.reader.phase = Some(phase);
            self.stay(*page, Vec::new(), wants);
        }
    }

    /// The details of a group, or some of them.
    pub(super) fn on_details(&mut self, mut page: Page, wants: &mut Vec<Want>) {
        let Stage::Paging(policy) = &self.stage else { return };
        let strict = policy.details.is_some_and(|details| details.missing_is_bad);
        let Some(group) = self.reader.phase.as_mut().and_then(|phase| phase.groups.pop_front()) else { return };
        self.reader.tally.ids += group.len() as u32;
        let answered = answered(&page);
        let matched = group.iter().filter(|one| answered.contains(&one.id)).count();
        // A far side that calls its records otherwise than the ids: as many came, and none can be told apart.
        let renamed = matched == 0 && page.facts.items as usize >= group.len();
        if strict && matched == 0 && !renamed {
            let fault = Fault::new(Code::PartialFail, Level::L2, MISSING);
            let evidence = page.evidence;
            let refusal = Refusal { fault, throttled: false, retry_after: None, evidence, offline: false };
            self.reader.tally.gone += group.len() as u32;
            self.hold(group, refusal, true, wants);
            return;
        }
        let mut marks = Vec::with_capacity(group.len());
        for candidate in group {
            let missing = strict && !renamed && !answered.contains(&candidate.id);
            let bad = missing.then(|| MISSING.to_owned());
            marks.push(Marked { candidate, bad });
        }
        self.reader.proved = true;
        self.reader.bad_in_a_row = 0;
        self.release(&mut marks);
        self.set_aside(&mut page, &marks);
        self.settle(page, marks, wants);
    }

    /// A group that the far side refuses as a whole: halve it until the bad id is alone, then set that one aside. False
    /// when the refusal is not about the ids.
    pub(super) fn isolate(&mut self, refusal: &Refusal, wants: &mut Vec<Want>) -> bool {
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
        self.reader.tally.ids += 1;
        let gone = matches!(refusal.evidence.status, 404 | 410);
        if gone && self.segment().is_some() {
            self.reader.tally.gone += 1;
        } else if refusal.fault.level != Level::L1 {
            self.reader.tally.refused += 1;
            self.reader.tally.example = Some(refusal.fault.clone());
        }
        self.hold(group, refusal.clone(), gone, wants);
        true
    }

    /// Ids whose details cannot be had, or so it seems. They are held until it is known that it is the ids: a far side
    /// that refuses everything must not turn a window into quarantine.
    fn hold(&mut self, group: Vec<Candidate>, refusal: Refusal, gone: bool, wants: &mut Vec<Want>) {
        self.reader.bad_in_a_row += group.len() as u32;
        // Records that are stored may have gone, one after the other.
        let hopeless = self.segment().is_none() || !self.reader.proved && self.reader.tally.gone == 0;
        if self.reader.bad_in_a_row >= MAX_BAD_IN_A_ROW && hopeless {
            let reason = format!("no details for {} ids in a row: {}", self.reader.bad_in_a_row, refusal.fault.message);
            return self.unproven(Fault::new(refusal.fault.code, Level::L2, reason), refusal.evidence, wants);
        }
        let outage = refusal.fault.level == Level::L1;
        for candidate in group {
            let outage = outage && !self.reader.retried.contains(&candidate.id);
            self.reader.held.push(Held { candidate, reason: refusal.fault.to_string(), outage, gone });
        }
        self.settle(Page { evidence: refusal.evidence, ..Page::default() }, Vec::new(), wants);
    }

    /// Some detail came: what is held is bad, except what may have met an outage, which is asked for once more. An UPDATE tells
    /// of it with its last group, when it knows how much was refused.
    fn release(&mut self, marks: &mut Vec<Marked>) {
        let update = self.bounds.ids.is_some();
        for held in std::mem::take(&mut self.reader.held) {
            match &mut self.reader.phase {
                Some(phase) if held.outage => {
                    self.reader.retried.insert(held.candidate.id.clone());
                    phase.groups.push_back(vec![held.candidate]);
                }
                Some(_) if update => self.reader.held.push(held),
                _ => marks.push(Marked { candidate: held.candidate, bad: Some(held.reason) }),
            }
        }
        marks.sort_by(|a, b| a.candidate.cmp(&b.candidate));
    }

    /// A quarantine row for each id that is bad: its content is missing, and must not be forgotten.
    fn set_aside(&self, page: &mut Page, marks: &[Marked]) {
        // An UPDATE leaves what is stored as it is, and its signal keeps the reason.
        if self.segment().is_some() {
            return;
        }
        for mark in marks {
            let Some(reason) = &mark.bad else { continue };
            page.rejected.push(Rejected {
                index: page.facts.items,
                key: Some(mark.candidate.id.clone()),
                code: Code::PartialFail,
                reason: reason.clone(),
                sample: String::new(),
            });
            page.facts.items += 1;
        }
    }

    /// Commits what came of a group and goes on to the next, or on from the page when it was the last. A page is not left
    /// while an outage may have kept its details back.
    fn settle(&mut self, mut page: Page, mut marks: Vec<Marked>, wants: &mut Vec<Want>) {
        if self.reader.phase.as_ref().is_some_and(|phase| !phase.groups.is_empty()) {
            return self.stay(page, marks, wants);
        }
        let (held, outage) = (self.reader.held.len(), self.reader.held.iter().find(|held| held.outage));
        if let Some(held) = outage {
            let fault = Fault::new(Code::PlatformError, Level::L1, held.reason.clone());
            return self.unproven(fault, page.evidence, wants);
        }
        if self.is_unproven() {
            let reason = format!("no details for any of {held} ids: {}", self.reader.held[0].reason);
            return self.unproven(Fault::new(Code::PlatformError, Level::L2, reason), page.evidence, wants);
        }
        let Some(phase) = self.reader.phase.take() else { return };
        let ending = match (self.too_many_refused(), self.reader.position().cloned()) {
            (Some(end), Some(here)) => {
                // The ids may be as good as any: who asks for them again must find them as they were.
                let refused = self.reader.held.iter().filter(|held| !held.gone).map(|held| held.candidate.id.clone());
                self.reader.unanswered = refused.collect();
                Ending::Over { next: here, end }
            }
            _ => phase.ending,
        };
        let mut released = Vec::new();
        self.release(&mut released);
        self.set_aside(&mut page, &released);
        marks.append(&mut released);
        marks.sort_by(|a, b| a.candidate.cmp(&b.candidate));
        self.turn(page, marks, ending, wants);
    }

    /// None of the ids could be had, and nothing says that it is the ids. That a record has gone is an answer to an UPDATE;
    /// but when so many have gone and not one is there, it is rather the address that is wrong.
    fn is_unproven(&self) -> bool {
        let Stage::Paging(policy) = &self.stage else { return false };
        let (held, nobody_gone) = (self.reader.held.len(), self.reader.tally.gone == 0);
        if self.reader.proved {
            return false;
        }
        match self.segment() {
            None => held > MAX_UNPROVEN,
            Some(_) if nobody_gone => held > MAX_UNPROVEN,
            Some(_) => held >= ENOUGH_IDS as usize && policy.limits.error_ratio < 1.0,
        }
    }

    /// So many ids are refused one by one that the requests must be wrong: what came is kept, and somebody must look. An UPDATE
    /// that was refused every single id has done nothing, however few they were.
    fn too_many_refused(&mut self) -> Option<RunEnd> {
        let Stage::Paging(policy) = &self.stage else { return None };
        let (ratio, tally) = (policy.limits.error_ratio, &mut self.reader.tally);
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

    /// Ends the run before anything that is held counts as bad.
    fn unproven(&mut self, fault: Fault, evidence: Evidence, wants: &mut Vec<Want>) {
        self.reader.held.clear();
        self.give_up(self.end_by(&fault), fault, evidence, wants);
    }
}

/// The ids that an answer has something for, wanted or not.
fn answered(page: &Page) -> BTreeSet<String> {
    let records = page.records.iter().map(|record| record.key.clone());
    let rejected = page.rejected.iter().filter_map(|rejected| rejected.key.clone());
    records.chain(rejected).chain(page.candidates.iter().map(|one| one.id.clone())).collect()
}

//! Two-phase reading: a page names ids, their content is fetched in groups (ING-4.6). The page is committed first and
//! leads back to itself; each group is committed as a batch of its own, and only the last one leads on. So a run that
//! dies in between reads the page again, and what was fetched meanwhile is screened out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::page::{Page, Refusal};
use super::reader::{Ending, State};
use super::{Run, Stage, Want};
use crate::error::{Code, Fault, Level};
use crate::paging::Position;
use crate::record::{Candidate, Marked, Rejected};
use crate::time::Ts;
use crate::tx::TxError;

#[derive(Clone, Copy, Debug)]
pub struct Details {
    /// Ids per request.
    pub batch_size: u32,
    /// An id that the answer leaves out is bad; otherwise it counts as fetched.
    pub missing_is_bad: bool,
}

/// Ids in a row that cannot be had, with none that can: then it is not the ids that are bad.
const MAX_BAD_IN_A_ROW: u32 = 20;

/// How long to wait with a screening that the store did not answer.
const SCREEN_AGAIN: Duration = Duration::from_millis(500);

/// The ids of one page on their way.
#[derive(Debug)]
pub(super) struct Phase {
    /// What follows once all details are there.
    ending: Ending,
    groups: VecDeque<Vec<Candidate>>,
    /// The page, until it is known which of its ids are new.
    page: Option<Box<Page>>,
}

impl Phase {
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
        if let Some(page) = self.reader.phase.as_ref().and_then(|phase| phase.page.as_ref()) {
            wants.push(Want::Screen(policy.stream.clone(), page.candidates.clone()));
        }
    }

    pub(super) fn on_screened(&mut self, now: Ts, answer: Result<Vec<Candidate>, TxError>, wants: &mut Vec<Want>) {
        let (State::Screening { again }, Stage::Paging(policy)) = (&mut self.reader.state, &self.stage) else { return };
        let wanted = match answer {
            Ok(wanted) => wanted,
            Err(error) if error.is_transient() => {
                *again = now + self.rng.around(SCREEN_AGAIN);
                return;
            }
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
        let Some(group) = self.reader.phase.as_mut().and_then(|phase| phase.groups.pop_front()) else { return };
        let answered = page.records.len() + page.rejected.len();
        let keys: BTreeSet<&str> = page
            .records
            .iter()
            .map(|record| record.key.as_str())
            .chain(page.rejected.iter().filter_map(|rejected| rejected.key.as_deref()))
            .collect();
        let strict = policy.details.is_some_and(|details| details.missing_is_bad);
        let missing = |one: &Candidate| strict && answered < group.len() && !keys.contains(one.id.as_str());
        let marks: Vec<_> = group
            .iter()
            .map(|one| Marked {
                candidate: one.clone(),
                bad: missing(one).then(|| "the far side gave no detail for it".to_owned()),
            })
            .collect();
        self.reader.bad_in_a_row = if answered > 0 { 0 } else { self.reader.bad_in_a_row + 1 };
        for mark in &marks {
            page.facts.items += u32::from(mark.bad.is_some());
            page.rejected.extend(mark.bad.as_ref().map(|reason| set_aside(page.facts.items, &mark.candidate, reason)));
        }
        self.settle(page, marks, wants);
    }

    /// A group that the far side refuses as a whole: halve it until the bad id is alone, then set that one aside. True when
    /// the refusal is dealt with.
    pub(super) fn isolate(&mut self, refusal: &Refusal, wants: &mut Vec<Want>) -> bool {
        let Some(phase) = &mut self.reader.phase else { return false };
        let Some(group) = phase.groups.pop_front() else { return false };
        if group.len() > 1 {
            let (first, second) = group.split_at(group.len() / 2);
            phase.groups.push_front(second.to_vec());
            phase.groups.push_front(first.to_vec());
            self.reader.again();
            self.proceed(wants);
            return true;
        }
        self.reader.bad_in_a_row += 1;
        if self.reader.bad_in_a_row >= MAX_BAD_IN_A_ROW {
            return false;
        }
        let reason = refusal.fault.to_string();
        let mut page = Page { evidence: refusal.evidence.clone(), ..Page::default() };
        page.facts.items = 1;
        page.rejected = group.iter().map(|one| set_aside(1, one, &reason)).collect();
        let marks = group.into_iter().map(|candidate| Marked { candidate, bad: Some(reason.clone()) }).collect();
        self.settle(page, marks, wants);
        true
    }

    /// Commits what came of a group and goes on to the next, or on from the page when it was the last.
    fn settle(&mut self, page: Page, marks: Vec<Marked>, wants: &mut Vec<Want>) {
        match self.reader.phase.take() {
            Some(phase) if phase.groups.is_empty() => self.turn(page, marks, phase.ending, wants),
            phase => {
                self.reader.phase = phase;
                self.stay(page, marks, wants);
            }
        }
    }
}

/// A quarantine row for an id whose content cannot be had. `count` is one more than its place in the batch.
fn set_aside(count: u32, candidate: &Candidate, reason: &str) -> Rejected {
    Rejected {
        index: count.saturating_sub(1),
        key: Some(candidate.id.clone()),
        code: Code::PartialFail,
        reason: reason.to_owned(),
        sample: String::new(),
    }
}

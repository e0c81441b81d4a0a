//! The reading side of a run: where it stands, how often it has tried, when it may try again.

use std::collections::BTreeSet;

use super::details::{Held, Phase, Tally};
use super::limit::Reach;
use super::order::Track;
use super::page::{Page, Refusal, Settled};
use super::place::Place;
use super::{Run, Stage, Verdict, Want};
use crate::error::{Code, Fault, Level};
use crate::gate::Decision;
use crate::health::Advice;
use crate::id::RunId;
use crate::paging::{Position, Rule, Step, Walk};
use crate::record::Marked;
use crate::source::Validators;
use crate::time::Ts;
use crate::tx::{RateStats, RunEnd, SelfHealing};

/// One page to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    pub run: RunId,
    pub batch_no: u32,
    pub position: Position,
    pub page_size: u32,
    /// An unchanged answer is recognised by these, if they are for the URL that is asked.
    pub known: Option<Box<Validators>>,
}

impl Fetch {
    /// What the far side's log and ours can be joined by (ING-14.2-02).
    pub fn correlation(&self) -> String {
        format!("ing-{}-{}", self.run, self.batch_no)
    }
}

#[derive(Debug)]
pub(super) struct Reader {
    pub(super) state: State,
    /// The page that is being read, or read next; none at the end.
    position: Option<Position>,
    /// What the last request asked for.
    asked: Option<Position>,
    batch_no: u32,
    /// Nothing but a total says that this page exists: a 404 is the end then.
    pub(super) perhaps: bool,
    walk: Walk,
    /// The page size that the last request asked for.
    asked_size: u32,
    pub(super) track: Track,
    pages: u32,
    /// Begun at the first page of the slice, not behind what an earlier run read.
    from_the_start: bool,
    healing: SelfHealing,
    rate: RateStats,
    /// Failed tries of this page, refusals for pacing apart.
    pub(super) failures: u32,
    pub(super) throttles: u32,
    /// The last answer for this page was of another form.
    pub(super) strange: bool,
    /// The ids of the page at hand, while their details are fetched.
    pub(super) phase: Option<Phase>,
    pub(super) bad_in_a_row: u32,
    /// Some detail came in this run: the far side gives them.
    pub(super) proved: bool,
    pub(super) held: Vec<Held>,
    /// Ids of the group at hand that were refused together with too many others.
    pub(super) unanswered: BTreeSet<String>,
    /// Ids that were asked for once more after an outage.
    pub(super) retried: BTreeSet<String>,
    pub(super) tally: Tally,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum State {
    /// May ask for a permit.
    #[default]
    Ready,
    Asking,
    Sleeping(Ts),
    Fetching,
    /// Waiting for the answer which ids are new, or for the time to ask again.
    Screening {
        again: Ts,
    },
    Halted,
}

/// What follows a page.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Ending {
    Next {
        next: Position,
        perhaps: bool,
    },
    /// It was the last.
    End,
    /// There is more, but this run ends here.
    Over {
        next: Position,
        end: RunEnd,
    },
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            state: State::default(),
            position: None,
            asked: None,
            batch_no: 0,
            perhaps: false,
            walk: Walk::new(true),
            asked_size: 0,
            track: Track::default(),
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
            held: Vec::new(),
            unanswered: BTreeSet::new(),
            retried: BTreeSet::new(),
            tally: Tally::default(),
        }
    }
}

impl Reader {
    pub(super) fn begin(&mut self, position: Position, from_the_start: bool) {
        self.position = Some(position);
        self.batch_no = 1;
        self.walk = Walk::new(from_the_start);
        self.from_the_start = from_the_start;
    }

    /// Goes on behind what an earlier run read.
    pub(super) fn resume(&mut self, position: Position, total: Option<u64>) {
        self.begin(position, false);
        self.walk = Walk::resumed(total);
    }

    pub(super) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Between two groups of ids that the store names.
    pub(super) fn wants_ids(&self) -> bool {
        self.state == State::Ready && self.phase.is_none() && matches!(self.position, Some(Position::Keys { .. }))
    }

    /// Pages read by this run.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// The page at hand is the first of the slice, for the first time.
    pub(super) fn is_at_first(&self) -> bool {
        self.from_the_start && self.pages == 1
    }

    pub(super) fn halt(&mut self) {
        self.state = State::Halted;
    }

    /// Another page is asked for, or will be at once.
    pub(super) fn is_reading_on(&self) -> bool {
        self.position.is_some()
            && !self.wants_ids()
            && matches!(self.state, State::Ready | State::Asking | State::Fetching)
    }

    /// True when a permit should be asked for now; it is then counted as asked.
    pub(super) fn may_ask(&mut self) -> bool {
        let may = self.state == State::Ready && self.position.is_some();
        if may {
            self.state = State::Asking;
        }
        may
    }

    pub(super) fn permit(&self) -> Want {
        Want::Permit { details: self.phase.is_some() }
    }

    /// True when a sleep is over and a permit should be asked for.
    pub(super) fn wakes(&mut self, now: Ts) -> bool {
        let wakes = matches!(self.state, State::Sleeping(until) if now >= until);
        if wakes {
            self.state = State::Asking;
        }
        wakes
    }

    pub(super) fn wake_at(&self) -> Ts {
        if let State::Sleeping(until) | State::Screening { again: until } = self.state { until } else { Ts::MAX }
    }

    /// Asks for something else in the place of what was refused.
    pub(super) fn again(&mut self) {
        self.failures = 0;
        self.throttles = 0;
        self.strange = false;
        self.state = State::Ready;
    }

    /// Goes on to the page behind this one.
    fn step(&mut self, next: Option<Position>, perhaps: bool) {
        if let Some(token) = self.position.take().and_then(|position| position.token_key()) {
            self.walk.remember(&token);
        }
        self.position = next;
        self.perhaps = perhaps;
        self.batch_no += 1;
        self.again();
    }
}

impl Run {
    pub(super) fn on_permit(&mut self, now: Ts, decision: Decision, advice: Advice, wants: &mut Vec<Want>) {
        let (State::Asking, None) = (&self.reader.state, &self.verdict) else { return };
        self.advice = advice;
        self.reader.healing.add(advice.healing());
        // The run tells of it too when no batch comes of this.
        self.stats.heal(advice.healing());
        self.count(&advice.rate);
        match decision {
            Decision::Allow => {
                let (Some(run), Some(at), Stage::Paging(policy)) = (self.run, &self.reader.position, &self.stage)
                else {
                    return;
                };
                let details = self.reader.phase.as_ref().and_then(|phase| phase.position(at));
                let position = details.unwrap_or_else(|| at.clone());
                self.reader.asked = Some(position.clone());
                self.reader.state = State::Fetching;
                self.stats.req_count += 1;
                let page_size = self.page_size(policy);
                self.reader.asked_size = page_size;
                self.reader.healing.page_size_shrink |= page_size < policy.paging.page_size;
                let (batch_no, known) = (self.reader.batch_no, self.polling.known());
                wants.push(Want::Fetch(Fetch { run, batch_no, position, page_size, known }));
            }
            Decision::WaitUntil(until) => {
                let wait = until.since(now);
                // Whose own requests opened the circuit has used up an attempt; whoever only meets it has not (C-60).
                if advice.circuit_open && self.reader.failures > 0 && wait > self.options.inline_wait {
                    let error = Fault::new(Code::PlatformError, Level::L1, "the far side fails again and again");
                    let end = RunEnd::Requeue { delay: wait, error, counted: true };
                    self.verdict = Some(Verdict { end, failure: None });
                    self.reader.halt();
                    return self.proceed(wants);
                }
                let why = match advice.rate {
                    RateStats { quota_hard_hits: 1.., .. } => "the quota is used up until then",
                    RateStats { quota_soft_hits: 1.., .. } => {
                        "what is left of the quota is kept for HARVEST until then"
                    }
                    _ => "no request may be sent before then",
                };
                self.sleep_or_give_back(now, wait, why, wants);
            }
        }
    }

    /// For the batch, and for the run where no batch comes of it.
    pub(super) fn count(&mut self, rate: &RateStats) {
        self.reader.rate.add(rate);
        self.stats.rate.add(rate);
    }

    pub(super) fn on_fetched(&mut self, now: Ts, result: Result<Box<Page>, Box<Refusal>>, wants: &mut Vec<Want>) {
        if self.reader.state != State::Fetching {
            // A run that was stopped meanwhile still passes on that the far side wants silence: others would not keep it.
            if let Err(Refusal { throttled: true, retry_after: Some(silence), .. }) = result.map_err(|refusal| *refusal)
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

    fn on_page(&mut self, now: Ts, mut page: Box<Page>, wants: &mut Vec<Want>) {
        let (Stage::Paging(policy), Some(here)) = (&self.stage, self.reader.position.clone()) else { return };
        let policy = std::sync::Arc::clone(policy);
        self.reader.pages += 1;
        self.polling.on_page(&here, &mut page);
        let step = self.walk_on(&policy, &here, &page);
        // A page that is not committed brings the window no further.
        if let (Some(order), false) = (policy.order, matches!(step, Step::Broken(_))) {
            self.reader.track.page(order, &page.records);
        }
        let total = page.facts.total;
        let restarts = step == Step::Restart;
        let mut ending = match step {
            Step::Next { next, perhaps } => self.onward(&policy, now, next, total, perhaps),
            Step::Again => Ending::Next { next: here.clone(), perhaps: false },
            Step::Restart => {
                self.reader.track.give_up();
                Ending::Next { next: self.first(&policy), perhaps: false }
            }
            Step::End(_) => Ending::End,
            Step::TooMuch { next, total, at_most } => {
                Ending::Over { next, end: self.too_much(&policy, total, at_most) }
            }
            // The cap falls on the last page of a range: nothing is missing.
            Step::MaxPage { next, .. } if self.is_past_range(&policy, &next) => Ending::End,
            Step::MaxPage { next, pages } => Ending::Over { next, end: self.at_max_page(&policy, pages) },
            Step::Broken(fault) => {
                self.give_up(self.end_by(&fault), fault, page.evidence, wants);
                return;
            }
        };
        match self.limit.as_mut().map(|limit| limit.take(&mut page)) {
            None | Some(Reach::Below) => {}
            Some(Reach::Enough) if matches!(ending, Ending::Next { .. }) => self.awaits_news = true,
            Some(Reach::Enough | Reach::Full) => ending = Ending::End,
        }
        let resliced = matches!(&ending, Ending::Over { end: RunEnd::Split { .. } | RunEnd::Failed { .. }, .. });
        if (resliced || restarts) && policy.details.is_some() {
            // The narrower windows, or the pages that are read again, name these ids again. A run that dies before that
            // must not go on behind them.
            page.facts.items = 0;
            page.candidates.clear();
            if let Ending::Over { next, .. } = &mut ending {
                next.clone_from(&here);
            }
        }
        if page.candidates.is_empty() {
            self.turn(*page, Vec::new(), ending, wants);
        } else {
            self.screen(page, ending, wants);
        }
    }

    /// What the page at `here` means for the rest, by the size that was asked for.
    fn walk_on(&mut self, policy: &super::Policy, here: &Position, page: &Page) -> Step {
        let asked = self.reader.asked_size;
        let (facts, content, rejected) = (&page.facts, page.content, &page.rejected);
        if asked == policy.paging.page_size {
            return self.reader.walk.after(&policy.paging, here, facts, content, rejected);
        }
        let rule = Rule { page_size: asked, ..policy.paging.clone() };
        self.reader.walk.after(&rule, here, facts, content, rejected)
    }

    /// Commits a page and goes where its ending leads.
    pub(super) fn turn(&mut self, page: Page, marks: Vec<Marked>, ending: Ending, wants: &mut Vec<Want>) {
        let (next, perhaps, end) = match ending {
            Ending::Next { next, perhaps } => (Some(next), perhaps, None),
            Ending::End => (None, false, Some(RunEnd::Succeeded)),
            Ending::Over { next, end } => (Some(next), false, Some(end)),
        };
        self.verdict = end.map(|end| Verdict { end, failure: None });
        self.commit(page, marks, next.clone());
        self.reader.step(next, perhaps);
        self.proceed(wants);
    }

    /// Commits a part of what the page at hand leads to, and stays at it.
    pub(super) fn stay(&mut self, page: Page, marks: Vec<Marked>, wants: &mut Vec<Want>) {
        let here = self.reader.position.clone();
        self.commit(page, marks, here.clone());
        self.reader.step(here, self.reader.perhaps);
        self.proceed(wants);
    }

    fn commit(&mut self, page: Page, mut marks: Vec<Marked>, next: Option<Position>) {
        self.stats.observed_max =
            self.stats.observed_max.max(page.records.iter().map(|record| record.version.updated_at).max());
        let mut place = self.reader.place();
        place.taken = self.limit.as_ref().map(|limit| limit.taken() as u64);
        // A request for details that settled nothing has brought nothing further.
        place.progress &= !matches!(place.position, Position::Ids { .. }) || !marks.is_empty();
        let checked = self.checked(&page, &mut marks);
        let (Stage::Paging(policy), Some(run)) = (&self.stage, self.run) else { return };
        let settled = Settled { checked, marks, refresh: self.refreshes() };
        let batch = page.into_batch(&self.lease, run, policy, &place, settled, next);
        self.reader.healing = SelfHealing::default();
        self.reader.rate = RateStats::default();
        self.enqueue(batch);
    }
}

impl Reader {
    pub(super) fn place(&self) -> Place {
        let position = self.asked.clone().or_else(|| self.position.clone()).unwrap_or(Position::Time);
        // A source that answers with a token again is still at a new page: the ledger's key must differ (C-37).
        let before_token = position
            .token_key()
            .map(|token| if self.walk.may_have_read(&token) { format!("{token}#{}", self.batch_no) } else { token });
        let numbered = self.position.as_ref().is_some_and(|here| here.number().is_some());
        Place {
            batch_no: self.batch_no,
            before_token,
            position,
            total: self.walk.total().filter(|_| numbered),
            taken: None,
            page_size: self.asked_size,
            healing: self.healing,
            rate: self.rate,
            retries: self.failures + self.throttles,
            throttles: self.throttles,
            // A page of ids is no progress before its details are there, and neither is reading pages again.
            progress: !self.walk.is_restarted()
                && (self.phase.is_none() || matches!(self.asked, Some(Position::Ids { .. }))),
        }
    }
}

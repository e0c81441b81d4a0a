//! The reading side of a run: where it stands, how often it has tried, when it may try again.

use std::time::Duration;

use super::page::{Evidence, Page, Refusal};
use super::place::{Place, batch_key};
use super::{Run, Stage, Verdict, Want};
use crate::error::{Code, Fault, Level};
use crate::gate::Decision;
use crate::hash::content_hash;
use crate::id::RunId;
use crate::paging::{Kind, LoopGuard, Next, Position, Rule};
use crate::time::Ts;
use crate::tx::{BatchStats, Failure, RunEnd};

/// One page to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    pub run: RunId,
    pub batch_no: u32,
    pub position: Position,
    pub page_size: u32,
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    state: State,
    /// The page that is being read, or read next; none at the end.
    position: Option<Position>,
    batch_no: u32,
    /// Nothing but a total says that this page exists: a 404 is the end then.
    perhaps: bool,
    /// Every page of the slice so far was full. Not known behind a resume.
    all_full: bool,
    empty_pages: u32,
    tokens: TokensSeen,
    /// Failed tries of this page, refusals for pacing apart.
    failures: u32,
    throttles: u32,
    seen: LoopGuard,
    items: u64,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    /// May ask for a permit.
    #[default]
    Ready,
    Asking,
    Sleeping(Ts),
    Fetching,
    Halted,
}

impl Reader {
    pub(super) fn begin(&mut self, position: Position, from_the_start: bool) {
        self.position = Some(position);
        self.batch_no = 1;
        self.all_full = from_the_start;
    }

    pub(super) fn halt(&mut self) {
        self.state = State::Halted;
    }

    /// True when a permit should be asked for now; it is then counted as asked.
    pub(super) fn may_ask(&mut self) -> bool {
        let may = self.state == State::Ready && self.position.is_some();
        if may {
            self.state = State::Asking;
        }
        may
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
        if let State::Sleeping(until) = self.state { until } else { Ts::MAX }
    }

    /// Goes on to the page behind this one.
    fn step(&mut self, next: Option<Position>, perhaps: bool) {
        if let Some(token) = self.position.take().and_then(|position| position.token_key()) {
            self.tokens.remember(&token);
        }
        self.position = next;
        self.perhaps = perhaps;
        self.batch_no += 1;
        self.failures = 0;
        self.throttles = 0;
        self.state = State::Ready;
    }
}

impl Run {
    pub(super) fn on_permit(&mut self, now: Ts, decision: Decision, wants: &mut Vec<Want>) {
        let (State::Asking, None) = (&self.reader.state, &self.verdict) else { return };
        match decision {
            Decision::Allow => {
                let (Some(run), Some(position), Stage::Paging(policy)) =
                    (self.run, self.reader.position.clone(), &self.stage)
                else {
                    return;
                };
                self.reader.state = State::Fetching;
                self.stats.req_count += 1;
                let page_size = policy.paging.page_size;
                wants.push(Want::Fetch(Fetch { run, batch_no: self.reader.batch_no, position, page_size }));
            }
            Decision::WaitUntil(until) => {
                let wait = until.since(now);
                self.sleep_or_give_back(now, wait, "the rate gate has no permit before then", wants);
            }
        }
    }

    pub(super) fn on_fetched(&mut self, now: Ts, result: Result<Box<Page>, Box<Refusal>>, wants: &mut Vec<Want>) {
        if self.reader.state != State::Fetching {
            return;
        }
        match result {
            Ok(page) => self.on_page(*page, wants),
            Err(refusal) => self.on_refusal(now, *refusal, wants),
        }
    }

    fn on_page(&mut self, page: Page, wants: &mut Vec<Want>) {
        let (Stage::Paging(policy), Some(run), Some(here)) = (&self.stage, self.run, self.reader.position.clone())
        else {
            return;
        };
        let policy = std::sync::Arc::clone(policy);
        self.reader.items += u64::from(page.facts.items);
        let mut next = policy.paging.next(&here, &page.facts, self.reader.all_full);
        if page.facts.items > 0 && self.reader.seen.repeats(page.content) {
            next = repeated(&here, &policy.paging, page.facts.total, self.reader.items);
        }
        self.reader.all_full &= page.facts.items >= policy.paging.page_size;
        self.reader.empty_pages = if page.facts.items == 0 { self.reader.empty_pages + 1 } else { 0 };
        if self.reader.empty_pages > MAX_EMPTY_PAGES && matches!(next, Next::At(_)) {
            next = Next::Broken("one empty page after the other, each saying that there is more");
        }
        let perhaps = matches!(next, Next::Perhaps(_));
        let next = match next {
            Next::At(position) | Next::Perhaps(position) => Some(position),
            Next::End => None,
            Next::Broken(reason) => {
                let fault = Fault::new(Code::PlatformError, Level::L2, reason);
                self.give_up(RunEnd::Failed { error: fault.clone() }, fault, page.evidence, wants);
                return;
            }
        };
        let pages = self.reader.batch_no;
        if next.is_some() && policy.paging.max_page.is_some_and(|max| pages >= max) {
            let reason = format!("stopped after {pages} pages (max_page) while there is more");
            let error = Fault::new(Code::PartialFail, Level::L2, reason);
            self.verdict = Some(Verdict { end: RunEnd::Partial { error }, failure: None });
        } else if next.is_none() {
            self.verdict = Some(Verdict { end: RunEnd::Succeeded, failure: None });
        }
        self.stats.observed_max =
            self.stats.observed_max.max(page.records.iter().map(|record| record.version.updated_at).max());
        let batch = page.into_batch(&self.lease, run, &policy, &self.reader.place(), next.clone());
        self.queue.push_back(batch);
        self.reader.step(next, perhaps);
        self.proceed(wants);
    }

    fn on_refusal(&mut self, now: Ts, refusal: Refusal, wants: &mut Vec<Want>) {
        let Stage::Paging(policy) = &self.stage else { return };
        if self.reader.perhaps && refusal.evidence.status == 404 {
            self.verdict = Some(Verdict { end: RunEnd::Succeeded, failure: None });
            self.reader.halt();
            self.proceed(wants);
            return;
        }
        if refusal.fault.level != Level::L1 {
            let end = RunEnd::Failed { error: refusal.fault.clone() };
            self.give_up(end, refusal.fault, refusal.evidence, wants);
            return;
        }
        if refusal.throttled {
            self.reader.throttles += 1;
            let own = policy.retry.delay(self.reader.throttles, &mut self.rng);
            let wait = refusal.retry_after.map_or(own, |asked| asked.max(Duration::from_millis(1)));
            wants.push(Want::CoolDown(wait));
            if self.reader.throttles > self.options.max_throttles {
                let end = RunEnd::Requeue { delay: wait, error: refusal.fault.clone(), counted: false };
                self.give_up(end, refusal.fault, refusal.evidence, wants);
                return;
            }
            self.sleep_or_give_back(now, wait, "the far side asked for a longer pause", wants);
            return;
        }
        self.reader.failures += 1;
        if self.reader.failures >= policy.retry.max_attempts {
            let delay = requeue_delay(self.lease.attempts);
            let end = RunEnd::Requeue { delay, error: refusal.fault.clone(), counted: true };
            self.give_up(end, refusal.fault, refusal.evidence, wants);
            return;
        }
        let own = policy.retry.delay(self.reader.failures, &mut self.rng);
        let wait = refusal.retry_after.map_or(own, |asked| asked.max(own));
        self.sleep_or_give_back(now, wait, "the far side asked for a longer pause", wants);
    }

    /// Short waits keep the worker; long ones give it back (ING-15-04).
    fn sleep_or_give_back(&mut self, now: Ts, wait: Duration, why: &str, wants: &mut Vec<Want>) {
        if wait <= self.options.inline_wait {
            self.reader.state = State::Sleeping(now + wait);
            return;
        }
        let error = Fault::new(Code::RateLimited, Level::L1, why);
        self.verdict = Some(Verdict { end: RunEnd::Requeue { delay: wait, error, counted: false }, failure: None });
        self.reader.halt();
        self.proceed(wants);
    }

    /// Ends the run at the page that cannot be read, with a FAILED row in the ledger.
    fn give_up(&mut self, end: RunEnd, error: Fault, evidence: Evidence, wants: &mut Vec<Want>) {
        let (Stage::Paging(policy), Some(run)) = (&self.stage, self.run) else { return };
        let place = self.reader.place();
        let stats = BatchStats { retry_count: place.retries, throttled_count: place.throttles, ..evidence.stats() };
        self.stats.retry_count += place.retries;
        self.stats.throttled_count += place.throttles;
        let failure = Failure {
            batch_no: place.batch_no,
            expr_hash: self.lease.expr_hash.clone(),
            idempotent_key: batch_key(run, place.batch_no, &place.position),
            position: place.position,
            page_size: policy.paging.page_size,
            error,
            stats,
            request_digest: evidence.request_digest,
            response_digest: evidence.response_digest,
        };
        self.verdict = Some(Verdict { end, failure: Some(failure) });
        self.reader.halt();
        self.proceed(wants);
    }
}

impl Reader {
    pub(super) fn place(&self) -> Place {
        let position = self.position.clone().unwrap_or(Position::Time);
        // A source that answers with a token again is still at a new page: the ledger's key must differ (C-37).
        let before_token = position
            .token_key()
            .map(|token| if self.tokens.maybe_seen(&token) { format!("{token}#{}", self.batch_no) } else { token });
        Place {
            batch_no: self.batch_no,
            before_token,
            position,
            retries: self.failures + self.throttles,
            throttles: self.throttles,
        }
    }
}

/// The same page again. Numbered pages end there: some far sides answer every number beyond the last with the last page.
/// A token or URL that promises more and leads in a circle proves nothing about the end, unless the far side is known to
/// repeat its token; then, and whenever the total says so, records would be lost by calling it the end.
fn repeated(here: &Position, rule: &Rule, total: Option<u64>, items: u64) -> Next {
    let before = match (here, &rule.kind) {
        (Position::Offset(at), _) => Some(*at),
        (Position::Page(at), Kind::Page { base }) => Some(at.saturating_sub(*base) * u64::from(rule.page_size)),
        _ => None,
    };
    let all_seen = total.is_none_or(|total| before.unwrap_or(items) >= total);
    if (before.is_some() || rule.always_token) && all_seen {
        Next::End
    } else {
        Next::Broken("the far side serves the same page again and again")
    }
}

/// Empty pages in a row that are followed on the far side's word.
const MAX_EMPTY_PAGES: u32 = 10;

/// The tokens of a run, as far as they can be remembered in little room: beyond that, every token counts as seen, which
/// costs nothing but a longer name in the ledger.
#[derive(Debug, Default)]
struct TokensSeen {
    hashes: std::collections::BTreeSet<[u8; 16]>,
}

impl TokensSeen {
    const REMEMBERED: usize = 1_024;

    fn remember(&mut self, token: &str) {
        if self.hashes.len() < Self::REMEMBERED {
            self.hashes.insert(content_hash(token.as_bytes()));
        }
    }

    fn maybe_seen(&self, token: &str) -> bool {
        self.hashes.len() >= Self::REMEMBERED || self.hashes.contains(&content_hash(token.as_bytes()))
    }
}

/// How long a task whose retries are used up waits: 5 s, doubling, at most 5 minutes.
pub(super) fn requeue_delay(attempts: u32) -> Duration {
    Duration::from_secs((5u64 << attempts.saturating_sub(1).min(6)).min(300))
}

//! A request that brought no page: whether to try again, and when; or how the run ends.

use std::sync::Arc;
use std::time::Duration;

use super::page::{Evidence, Refusal};
use super::place::batch_key;
use super::poll::MAX_THROTTLES;
use super::reader::State;
use super::{Run, Stage, Verdict, Want};
use crate::error::{Code, Fault, Level};
use crate::time::Ts;
use crate::tx::{BatchStats, Failure, RateStats, RunEnd};

impl Run {
    /// How a run ends that cannot go on: what may pass is tried again later, and counted.
    pub(super) fn end_by(&self, fault: &Fault) -> RunEnd {
        let error = fault.clone();
        let nothing_came = self.stats.pages_visited == 0 && self.reader.pages() == 0;
        let last = self.lease.attempts >= self.options.max_attempts && nothing_came;
        match fault.level {
            // One broken answer is the line's fault. When nothing else has come in all attempts, it is the far side's form
            // (MAP-E-11).
            Level::L1 if last && fault.code == Code::ParseError => {
                let reason = format!("{}; so it was in all {} attempts", fault.message, self.lease.attempts);
                RunEnd::Failed { error: Fault::new(fault.code, Level::L4, reason) }
            }
            Level::L1 => RunEnd::Requeue { delay: requeue_delay(self.lease.attempts), error, counted: true },
            _ => RunEnd::Failed { error },
        }
    }

    pub(super) fn fail(&mut self, error: Fault, wants: &mut Vec<Want>) {
        self.verdict = Some(Verdict { end: RunEnd::Failed { error }, failure: None });
        self.reader.halt();
        self.proceed(wants);
    }

    pub(super) fn on_refusal(&mut self, now: Ts, refusal: Refusal, wants: &mut Vec<Want>) {
        let Stage::Paging(policy) = &self.stage else { return };
        let policy = Arc::clone(policy);
        let details = self.reader.phase.is_some();
        self.polling.on_refusal(&refusal);
        if self.reader.perhaps && !details && refusal.evidence.status == 404 {
            self.verdict = Some(Verdict { end: RunEnd::Succeeded, failure: None });
            self.reader.halt();
            self.proceed(wants);
            return;
        }
        let strange = refusal.fault.level == Level::L4 && refusal.fault.code == Code::ParseError;
        // An answer of another form may be a slip; two in a row are not (G-11). A group of ids is halved first.
        let may_slip = strange && !self.reader.phase.as_ref().is_some_and(super::details::Phase::is_group);
        let slip = may_slip && !std::mem::replace(&mut self.reader.strange, true);
        // An id that the far side does not know may make the answer another one, too.
        if details && !slip && (refusal.fault.level == Level::L2 || strange) && self.isolate(&refusal, wants) {
            return;
        }
        if refusal.fault.level != Level::L1 && !slip {
            let end = RunEnd::Failed { error: refusal.fault.clone() };
            self.give_up(end, refusal.fault, refusal.evidence, wants);
            return;
        }
        let (retry_after_hits, demote_events) =
            (u32::from(refusal.retry_after.is_some()), u32::from(refusal.lowers_rate()));
        self.count(&RateStats { retry_after_hits, demote_events, ..RateStats::default() });
        if refusal.throttled {
            self.reader.throttles += 1;
            let own = policy.retry.delay(self.reader.throttles, &mut self.rng);
            let wait = refusal.retry_after.map_or(own, |asked| asked.max(Duration::from_millis(1)));
            wants.push(Want::CoolDown(wait));
            let (most, end) = match self.lease.source {
                // It would ask its host again and again, far more often than its interval says, and nobody would hear of it.
                Some(_) => (MAX_THROTTLES, RunEnd::Failed { error: refusal.fault.clone() }),
                None => {
                    let end = RunEnd::Requeue { delay: wait, error: refusal.fault.clone(), counted: false };
                    (self.options.max_throttles, end)
                }
            };
            if self.reader.throttles > most {
                self.give_up(end, refusal.fault, refusal.evidence, wants);
                return;
            }
            self.sleep_or_give_back(now, wait, "the far side asked for a longer pause", wants);
            return;
        }
        self.reader.failures += 1;
        if self.reader.failures >= policy.retry.max_attempts {
            // One id can make a whole group fail; without an answer it is not the ids.
            if details && refusal.evidence.status >= 500 && self.isolate(&refusal, wants) {
                return;
            }
            self.give_up(self.end_by(&refusal.fault), refusal.fault, refusal.evidence, wants);
            return;
        }
        let own = policy.retry.delay(self.reader.failures, &mut self.rng);
        let wait = refusal.retry_after.map_or(own, |asked| asked.max(own));
        self.sleep_or_give_back(now, wait, "the far side asked for a longer pause", wants);
    }

    /// Short waits keep the worker; long ones give it back (ING-15-04).
    pub(super) fn sleep_or_give_back(&mut self, now: Ts, wait: Duration, why: &str, wants: &mut Vec<Want>) {
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
    pub(super) fn give_up(&mut self, end: RunEnd, error: Fault, evidence: Evidence, wants: &mut Vec<Want>) {
        let (Stage::Paging(_), Some(run)) = (&self.stage, self.run) else { return };
        let place = self.reader.place();
        let stats = BatchStats {
            retry_count: place.retries,
            throttled_count: place.throttles,
            self_healing: place.healing,
            rate: place.rate,
            ..evidence.stats()
        };
        self.stats.retry_count += place.retries;
        self.stats.throttled_count += place.throttles;
        self.stats.heal(place.healing);
        let failure = Failure {
            batch_no: place.batch_no,
            expr_hash: self.lease.expr_hash.clone(),
            idempotent_key: batch_key(run, place.batch_no, &place.position),
            position: place.position,
            page_size: place.page_size,
            error,
            stats,
            request_digest: evidence.request_digest,
            response_digest: evidence.response_digest,
            raw: evidence.raw,
        };
        self.verdict = Some(Verdict { end, failure: Some(failure) });
        self.reader.halt();
        self.proceed(wants);
    }
}

/// How long a task whose retries are used up waits: 5 s, doubling, at most 5 minutes.
fn requeue_delay(attempts: u32) -> Duration {
    Duration::from_secs((5u64 << attempts.saturating_sub(1).min(6)).min(300))
}

/// Asked to stop: the task goes back untouched by failure.
pub(super) fn give_back(why: &'static str) -> Verdict {
    let error = Fault::new(Code::InternalError, Level::L1, why);
    Verdict { end: RunEnd::Requeue { delay: Duration::ZERO, error, counted: false }, failure: None }
}

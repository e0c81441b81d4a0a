//! A request without a page: whether and when to retry, or how the run ends.

use std::sync::Arc;
use std::time::Duration;

use super::batch_context::batch_key;
use super::page::{ExchangeEvidence, PageFailure};
use super::poll::MAX_THROTTLES;
use super::reader::ReaderState;
use super::{PlannedEnd, RunMachine, RunPolicy, RunStage, Want};
use crate::error::{Code, Fault, Level};
use crate::paging::PageStep;
use crate::time::Ts;
use crate::tx::{BatchFailure, BatchStats, RateStats, RunEnd};

impl RunMachine {
    /// How a run ends that cannot continue: transient failures are retried later, and counted.
    pub(super) fn end_by(&self, fault: &Fault) -> RunEnd {
        let error = fault.clone();
        let nothing_came = self.stats.pages_visited == 0 && self.reader.pages() == 0;
        let last = self.lease.attempts >= self.options.max_attempts && nothing_came;
        match fault.level {
            // One broken response is the connection's fault. When all attempts brought nothing else, it is the
            // upstream's format (MAP-E-11).
            Level::L1 if last && fault.code == Code::ParseError => {
                let reason = format!("{}; so it was in all {} attempts", fault.message, self.lease.attempts);
                RunEnd::Failed { error: Fault::new(fault.code, Level::L4, reason) }
            }
            Level::L1 => RunEnd::Requeue { delay: requeue_delay(self.lease.attempts), error, counted: true },
            _ => RunEnd::Failed { error },
        }
    }

    pub(super) fn fail(&mut self, error: Fault, wants: &mut Vec<Want>) {
        self.planned_end = Some(PlannedEnd { end: RunEnd::Failed { error }, failure: None });
        self.reader.halt();
        self.proceed(wants);
    }

    pub(super) fn on_refusal(&mut self, now: Ts, refusal: PageFailure, wants: &mut Vec<Want>) {
        let RunStage::Paging(policy) = &self.stage else { return };
        let policy = Arc::clone(policy);
        let details = self.reader.phase.is_some();
        self.polling.on_refusal(&refusal);
        if self.reader.perhaps && !details && refusal.evidence.status == 404 {
            self.end_before_a_missing_page(&policy);
            self.proceed(wants);
            return;
        }
        // Some servers take only offsets that are multiples of the page size.
        if matches!(refusal.evidence.status, 400 | 416 | 422) && !details && self.reader.refuse_overlap() {
            self.proceed(wants);
            return;
        }
        let strange = refusal.fault.level == Level::L4 && refusal.fault.code == Code::ParseError;
        // One response of another format may be a glitch; two in a row are not (G-11). A group of ids is halved
        // first.
        let may_slip = strange && !self.reader.phase.as_ref().is_some_and(super::details::DetailPhase::is_group);
        let slip = may_slip && !std::mem::replace(&mut self.reader.strange, true);
        // An id that the upstream does not know may also change the response's format.
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
            let wait = refusal.retry_after.map_or(own, |requested| requested.max(Duration::from_millis(1)));
            wants.push(Want::CoolDown(wait));
            let (most, end) = match self.lease.source {
                // Otherwise it would poll its host again and again, far more often than its interval, and nobody
                // would notice.
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
            self.sleep_or_give_back(now, wait, "the upstream asked for a longer pause", wants);
            return;
        }
        self.reader.failures += 1;
        if self.reader.failures >= policy.retry.max_attempts {
            // One id can make a whole group fail; without a response it is not the ids.
            if details && refusal.evidence.status >= 500 && self.isolate(&refusal, wants) {
                return;
            }
            self.give_up(self.end_by(&refusal.fault), refusal.fault, refusal.evidence, wants);
            return;
        }
        let own = policy.retry.delay(self.reader.failures, &mut self.rng);
        let wait = refusal.retry_after.map_or(own, |requested| requested.max(own));
        self.sleep_or_give_back(now, wait, "the upstream asked for a longer pause", wants);
    }

    /// The page that only a total announced does not exist. This is judged like the end at an empty page.
    fn end_before_a_missing_page(&mut self, policy: &RunPolicy) {
        let end = match self.end_of_list(policy) {
            PageStep::Restart => {
                self.reader.track.give_up();
                let first = self.first(policy);
                self.reader.turn_back(first);
                return;
            }
            PageStep::Incomplete(error) => RunEnd::Partial { error },
            _ => {
                self.note_verification(policy);
                RunEnd::Succeeded
            }
        };
        self.planned_end = Some(PlannedEnd { end, failure: None });
        self.reader.halt();
    }

    /// Short waits keep the worker; long ones return the task (ING-15-04).
    pub(super) fn sleep_or_give_back(&mut self, now: Ts, wait: Duration, reason: &str, wants: &mut Vec<Want>) {
        if wait <= self.options.inline_wait {
            self.reader.state = ReaderState::Sleeping(now + wait);
            return;
        }
        let error = Fault::new(Code::RateLimited, Level::L1, reason);
        self.planned_end =
            Some(PlannedEnd { end: RunEnd::Requeue { delay: wait, error, counted: false }, failure: None });
        self.reader.halt();
        self.proceed(wants);
    }

    /// Ends the run at the page that cannot be read, with a FAILED row in the ledger.
    pub(super) fn give_up(&mut self, end: RunEnd, error: Fault, evidence: ExchangeEvidence, wants: &mut Vec<Want>) {
        let (RunStage::Paging(_), Some(run)) = (&self.stage, self.run) else { return };
        let context = self.reader.context();
        let stats = BatchStats {
            retry_count: context.retries,
            throttled_count: context.throttles,
            self_healing: context.healing,
            rate: context.rate,
            ..evidence.stats()
        };
        self.stats.retry_count += context.retries;
        self.stats.throttled_count += context.throttles;
        self.stats.heal(context.healing);
        let failure = BatchFailure {
            batch_no: context.batch_no,
            expr_hash: self.lease.expr_hash.clone(),
            idempotent_key: batch_key(run, context.batch_no, &context.position),
            position: context.position,
            page_size: context.page_size,
            error,
            stats,
            request_digest: evidence.request_digest,
            response_digest: evidence.response_digest,
            raw: evidence.raw,
        };
        self.planned_end = Some(PlannedEnd { end, failure: Some(failure) });
        self.reader.halt();
        self.proceed(wants);
    }
}

/// Delay of a task whose retries are used up: 5 s, doubling, at most 5 minutes.
fn requeue_delay(attempts: u32) -> Duration {
    Duration::from_secs((5u64 << attempts.saturating_sub(1).min(6)).min(300))
}

/// The run was stopped: the task is returned without counting a failure.
pub(super) fn give_back(reason: &'static str) -> PlannedEnd {
    let error = Fault::new(Code::InternalError, Level::L1, reason);
    PlannedEnd { end: RunEnd::Requeue { delay: Duration::ZERO, error, counted: false }, failure: None }
}

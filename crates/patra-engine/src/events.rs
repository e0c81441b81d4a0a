//! Events of the engine. One struct per event is the only place that logs and counts it; a listener may show it too.

use std::fmt;

use std::time::Duration;

use patra_core::credential::Credential;
use patra_core::gate::GateRefusal;
use patra_core::health::HealthAction;
use patra_core::protocol::run::{FetchedPage, PageFailure, RunOutcome, RunSummary};
use patra_core::state::{CookieStatus, TaskStatus};
use patra_core::tx::{BatchStats, ClaimedJob, Lease, LedgerArchived, PartitionKey, TxError};
use patra_core::{Fault, Level, Ts};

use crate::metrics::Metrics;
use crate::scrape;
use crate::shared::Shared;

/// Receives events, for example for a progress display. Called from the engine's tasks: return soon.
pub trait RunListener: fmt::Debug + Send + Sync {
    fn on(&self, event: &RunEvent<'_>) {
        let _ = event;
    }
}

/// Ignores every event.
impl RunListener for () {}

#[derive(Debug)]
pub enum RunEvent<'a> {
    /// A page is in the store.
    Committed {
        lease: &'a Lease,
        stats: &'a BatchStats,
        /// How long the store took.
        stored_in: Duration,
    },
    /// The gate has let a request through after a wait, or refused it.
    Admitted {
        lease: &'a Lease,
        admitted: Result<Duration, GateRefusal>,
    },
    /// A request is retried.
    Retried {
        lease: &'a Lease,
    },
    /// The upstream has responded, or has failed to.
    Answered {
        lease: &'a Lease,
        answer: Result<&'a FetchedPage, &'a PageFailure>,
    },
    Throttled {
        lease: &'a Lease,
        wait: Duration,
    },
    /// A transaction of the run failed and will be tried again.
    StoreFailed {
        lease: &'a Lease,
        error: &'a TxError,
    },
    Ended {
        lease: &'a Lease,
        ended: &'a RunSummary,
        duration: Duration,
        /// Whether no response has reported the fault before.
        is_news: bool,
    },
}

impl RunEvent<'_> {
    pub(crate) fn emit(&self, shared: &Shared) {
        match self {
            RunEvent::Committed { lease, stats, .. } => log_batch(lease, stats, shared.is_batch_logged()),
            RunEvent::Throttled { lease, wait } => tracing::info!(
                task_id = lease.task.0,
                source = %lease.provenance_code,
                endpoint = %lease.endpoint_name,
                wait_ms = wait.as_millis() as u64,
                "the upstream asked for a pause"
            ),
            RunEvent::Answered { lease, answer: Err(refusal) } if !refusal.throttled => log_refusal(lease, refusal),
            RunEvent::StoreFailed { lease, error } => tracing::warn!(
                task_id = lease.task.0,
                error = %error,
                "a transaction failed and will be tried again"
            ),
            RunEvent::Ended { lease, ended, duration, .. } if lease.source.is_some() => {
                log_poll(lease, ended, *duration);
            }
            RunEvent::Ended { lease, ended, .. } => log_end(lease, ended),
            RunEvent::Admitted { .. } | RunEvent::Retried { .. } | RunEvent::Answered { .. } => {}
        }
        shared.metrics.on(self, shared.ports.clock.now());
        shared.listener.on(self);
    }
}

/// Logs the summary of a batch: a sample at level info, the rest at debug (C-56).
fn log_batch(lease: &Lease, stats: &BatchStats, is_sampled: bool) {
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                task_id = lease.task.0,
                source = %lease.provenance_code,
                endpoint = %lease.endpoint_name,
                op = lease.operation.as_str(),
                items = stats.items_count,
                inserted = stats.inserted,
                updated = stats.updated,
                skipped = stats.skipped,
                failed = stats.failed,
                retries = stats.retry_count,
                latency_ms = stats.latency_ms,
                "batch committed"
            )
        };
    }
    if is_sampled { line!(info) } else { line!(debug) }
}

/// Logs a failed request, by the level of its fault, with a hash that identifies the response (ING-14.5-02).
fn log_refusal(lease: &Lease, refusal: &PageFailure) {
    let fault = &refusal.fault;
    let answer = serde_json::from_str::<serde_json::Value>(&refusal.evidence.response_digest).unwrap_or_default();
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                task_id = lease.task.0,
                source = %lease.provenance_code,
                endpoint = %lease.endpoint_name,
                op = lease.operation.as_str(),
                code = fault.code.as_str(),
                error.level = fault.level.as_str(),
                http_status = refusal.evidence.status,
                body_hash = answer["bodyHash"].as_str(),
                error = fault.message,
                "a request failed"
            )
        };
    }
    match fault.level {
        Level::L1 => line!(info),
        Level::L2 | Level::L3 => line!(warn),
        Level::L4 => line!(error),
    }
}

/// Logs a claim. Polls are many and short, so they are logged at debug.
pub(crate) fn task_claimed(lease: &Lease, slot: usize) {
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                source = %lease.provenance_code,
                endpoint = %lease.endpoint_name,
                op = lease.operation.as_str(),
                task_id = lease.task.0,
                leased_until = %lease.until,
                attempts = lease.attempts,
                slot,
                "task claimed"
            )
        };
    }
    if lease.source.is_some() { line!(debug) } else { line!(info) }
}

/// Logs one line for each collection (COLL-41).
fn log_poll(lease: &Lease, ended: &RunSummary, duration: Duration) {
    #[derive(serde::Deserialize, Default)]
    struct Named {
        #[serde(default)]
        source: Known,
    }
    #[derive(serde::Deserialize, Default)]
    struct Known {
        name: String,
        r#type: String,
    }
    let Known { name, r#type } = serde_json::from_str::<Named>(&lease.params).unwrap_or_default().source;
    let (id, stats) = (lease.source.map_or(0, |id| id.0), &ended.stats);
    let duration_ms = duration.as_millis() as u64;
    match &ended.outcome {
        RunOutcome::Closed(TaskStatus::Succeeded | TaskStatus::Partial, _) => tracing::info!(
            source.id = id,
            task_id = lease.task.0,
            name,
            r#type,
            fetched = stats.ret_count,
            inserted = stats.inserted,
            skipped = stats.updated + stats.skipped,
            errors = stats.failed,
            duration_ms,
            "collected"
        ),
        RunOutcome::Closed(TaskStatus::Queued, Some(error)) => {
            tracing::info!(source.id = id, name, r#type, reason = error.message, duration_ms, "put off");
        }
        RunOutcome::Closed(_, Some(error)) => tracing::warn!(
            source.id = id,
            task_id = lease.task.0,
            name,
            r#type,
            fetched = stats.ret_count,
            inserted = stats.inserted,
            skipped = stats.updated + stats.skipped,
            errors = stats.failed + 1,
            code = error.code.as_str(),
            error.level = error.level.as_str(),
            error = error.message,
            duration_ms,
            "not collected"
        ),
        outcome => tracing::warn!(source.id = id, name, r#type, outcome = ?outcome, duration_ms, "not collected"),
    }
}

/// Logs one line with the report of each scrape that has ended (TWEET-68).
pub(crate) fn scraped(status: &scrape::ScrapeStatus, report: &serde_json::Value) {
    let number = |name: &str| report[name].as_u64().unwrap_or_default();
    tracing::info!(
        task_id = status.task_id,
        status = status.status,
        users = number("total_users"),
        successful = number("successful_users"),
        failed = number("failed_users"),
        fetched = number("total_tweets"),
        new = number("new_tweets"),
        skipped = number("skipped_tweets"),
        errors = number("total_errors"),
        elapsed_seconds = report["elapsed_seconds"].as_f64(),
        "a scrape has ended"
    );
}

fn log_end(lease: &Lease, ended: &RunSummary) {
    let stats = &ended.stats;
    macro_rules! line {
        ($level:ident, $message:literal $(, $($name:ident).+ = $value:expr)*) => {
            tracing::$level!(
                task_id = lease.task.0,
                plan_id = lease.lineage.plan.0,
                source = %lease.provenance_code,
                endpoint = %lease.endpoint_name,
                op = lease.operation.as_str(),
                pages = stats.pages_visited,
                inserted = stats.inserted,
                updated = stats.updated,
                skipped = stats.skipped,
                failed = stats.failed,
                $($($name).+ = $value,)*
                $message
            )
        };
    }
    match &ended.outcome {
        RunOutcome::Closed(TaskStatus::Succeeded, _) => line!(info, "task succeeded"),
        RunOutcome::Closed(TaskStatus::Queued, Some(error)) => {
            line!(info, "task returned to the queue", code = error.code.as_str());
        }
        RunOutcome::Closed(status, Some(error)) => {
            line!(
                warn,
                "task ended short",
                status = status.as_str(),
                code = error.code.as_str(),
                error.level = error.level.as_str(),
                error = error.message
            );
        }
        RunOutcome::Closed(status, None) => line!(info, "task closed", status = status.as_str()),
        RunOutcome::Split(parts) => {
            line!(
                info,
                "the rest was cut into smaller slices",
                self_heal = "reslice",
                parts = parts,
                why = stats.remarks
            );
        }
        RunOutcome::Cancelled => line!(info, "task cancelled with its plan"),
        RunOutcome::Lost => line!(warn, "lease lost, run stopped"),
        RunOutcome::Stuck(error) => line!(error, "the store refused to close a run", error = error.to_string()),
    }
}

/// Logs and counts an action of self-healing, or its end (ING-14.5-02).
pub(crate) fn healed(metrics: &Metrics, who: &PartitionKey, action: &HealthAction, now: Ts) {
    metrics.healed(action);
    let (source, endpoint, op) = (&who.provenance_code, &who.endpoint_name, who.operation.as_str());
    macro_rules! line {
        ($level:ident, $type:literal, $message:literal $(, $name:ident = $value:expr)*) => {
            tracing::$level!(%source, %endpoint, op, self_heal = $type, $($name = $value,)* $message)
        };
    }
    match action {
        HealthAction::RateDown { percent } => line!(warn, "qpsDownshift", "the rate is lowered", percent = percent),
        HealthAction::RateUp { percent } => line!(info, "qpsUpshift", "the rate is raised again", percent = percent),
        HealthAction::TasksDown { percent } => line!(warn, "concurrencyDown", "fewer tasks at once", percent = percent),
        HealthAction::TasksUp { percent } => {
            line!(info, "concurrencyUp", "more tasks at once again", percent = percent);
        }
        HealthAction::PagesDown { percent } => {
            line!(warn, "pageSizeShrink", "smaller pages are requested", percent = percent);
        }
        HealthAction::PagesUp { percent } => line!(info, "pageSizeGrow", "larger pages again", percent = percent),
        HealthAction::CircuitOpened { until } => {
            let open_ms = until.since(now).as_millis() as u64;
            line!(warn, "circuitOpen", "the circuit is open: no request is sent for a while", open_ms = open_ms);
        }
        HealthAction::CircuitClosed => {
            line!(info, "circuitClosed", "the upstream responds again: the circuit is closed");
        }
    }
}

/// Logs that storing pages has become slow, or normal again.
pub(crate) fn store_strained(action: &HealthAction) {
    match action {
        HealthAction::TasksDown { percent } => {
            tracing::warn!(self_heal = "concurrencyDown", percent, "the store is slow: this process takes fewer tasks");
        }
        HealthAction::TasksUp { percent } => {
            tracing::info!(self_heal = "concurrencyUp", percent, "the store keeps up: more tasks at once again");
        }
        _ => {}
    }
}

/// Logs a trigger that cannot be planned: nothing is collected until a person fixes it (ING-5.3-03).
pub(crate) fn plan_refused(metrics: &Metrics, trigger: &ClaimedJob, reason: &str) {
    metrics.plan_refused(&trigger.inventory());
    tracing::error!(
        schedule_instance_id = trigger.job.0,
        source = %trigger.provenance_code,
        endpoint = %trigger.endpoint_name,
        op = trigger.operation.as_str(),
        reason,
        "no plan could be made"
    );
}

/// Logs a failed transaction of a part, which tries again.
pub(crate) fn store_failed(part: &'static str, operation: &'static str, error: &TxError) {
    tracing::warn!(part, operation, error = %error, "a transaction failed and will be tried again");
}

/// Logs an unreadable rate header: the rate then follows refusals alone.
pub(crate) fn unreadable_pace(lease: &Lease, problem: &str) {
    tracing::warn!(
        provenance = %lease.provenance_code,
        endpoint = %lease.endpoint_name,
        problem,
        "the upstream's own count is not heeded"
    );
}

/// Logs the rows that were archived.
pub(crate) fn archived(done: &LedgerArchived) {
    if done.most() > 0 {
        let LedgerArchived { batches, events, raw, settled } = *done;
        tracing::info!(batches, events, raw, settled, "old rows left the ledger");
    }
}

/// Logs leases that the sweeper took back.
pub(crate) fn swept(requeued: usize, failed: usize) {
    tracing::warn!(requeued, failed, "took back tasks whose lease had expired");
}

/// Logs whether the upstream accepted a credential.
pub(crate) fn credential_judged(credential: &Credential, rejected: Option<&str>) {
    let (id, alias) = (credential.id.0, &credential.binding.alias);
    match rejected {
        Some(reason) => {
            tracing::warn!(credential.id = id, credential.alias = alias, reason, "a credential was rejected");
        }
        None => tracing::info!(credential.id = id, credential.alias = alias, "a credential works again"),
    }
}

/// Logs a change of a cookie's status after a request.
pub(crate) fn cookie_judged(
    name: &str,
    error: Option<&str>,
    before: Option<CookieStatus>,
    after: Option<CookieStatus>,
) {
    let (Some(before), Some(after)) = (before, after) else { return };
    match error {
        Some(reason) if before != after => {
            tracing::warn!(cookie = name, reason, before = before.as_str(), after = after.as_str(), "a cookie is worn");
        }
        Some(reason) => tracing::warn!(cookie = name, reason, status = after.as_str(), "a cookie was refused"),
        None => tracing::info!(cookie = name, status = after.as_str(), "a cookie works again"),
    }
}

/// Logs the result of a request for a token.
pub(crate) fn token_asked(credential: &Credential, answer: Result<Option<Ts>, &Fault>) {
    let (id, alias) = (credential.id.0, &credential.binding.alias);
    match answer {
        Ok(end) => {
            let expires_at = end.map(Ts::to_short_text);
            tracing::info!(credential.id = id, credential.alias = alias, expires_at, "got a new token");
        }
        Err(fault) => tracing::warn!(
            credential.id = id,
            credential.alias = alias,
            code = fault.code.as_str(),
            error.level = fault.level.as_str(),
            error = fault.message,
            "no new token"
        ),
    }
}

//! What stops requests to a platform before they use a cookie: a pause by a person, a halt after a fatal error, and the
//! circuit breaker of the endpoint, which runs share with the crawler.

use std::sync::Arc;
use std::time::Duration;

use patra_core::gate::GateDecision;
use patra_core::health::RequestOutcome;
use patra_core::port::{BoardQueries, Clock, Store};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::state::PauseKind;
use patra_core::tx::PartitionKey;
use patra_core::{Code, Level, Ts};
use patra_spec::{Operation, Snapshot};

use super::{CrawlFailure, CrawlTimes};
use crate::health::HealthRegistry;
use crate::metrics::Metrics;

#[derive(Debug)]
pub(super) struct Admission {
    boards: Arc<dyn BoardQueries>,
    health: Arc<HealthRegistry>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    /// A request without a response after this time counts as failed when the caller gives it up.
    patience: Duration,
}

/// A request that may be sent. Its outcome is reported to the circuit breaker.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    admission: &'a Admission,
    partition: PartitionKey,
    since: Ts,
    /// A failure counts. One note that cannot be read must not stop the others (CRAWL-72), so failures of notes count
    /// only while the circuit is open.
    failure_counts: bool,
    is_open: bool,
}

impl Admission {
    pub(super) fn new(
        store: &Arc<dyn Store>,
        (health, metrics): (Arc<HealthRegistry>, Arc<Metrics>),
        clock: Arc<dyn Clock>,
        times: CrawlTimes,
    ) -> Admission {
        let patience = times.search.min(times.detail).min(times.validate);
        Admission { boards: Arc::clone(store) as Arc<dyn BoardQueries>, health, metrics, clock, patience }
    }

    /// Admits a request to an endpoint, or says why not.
    pub(super) async fn admit(&self, spec: &Snapshot, is_note: bool) -> Result<Admitted<'_>, CrawlFailure> {
        let (platform, endpoint) = (&spec.provenance_code, &spec.endpoint_code);
        let pauses =
            self.boards.active_pauses().await.map_err(|error| {
                CrawlFailure::new(Code::InternalError, format!("the pauses cannot be read: {error}"))
            })?;
        let stops = pauses.into_iter().find(|pause| {
            pause.kind != PauseKind::Advisory && pause.subject.covers(platform, endpoint, Operation::Harvest)
        });
        if let Some(pause) = stops {
            let message = format!("{platform} is paused: {}; `patra resume source {platform}`", pause.reason);
            return Err(CrawlFailure::new(Code::NotConfigured, message)
                .detail("paused", true.into())
                .detail("reason", pause.reason.into())
                .detail("since", serde_json::json!(pause.created_at)));
        }
        let partition = PartitionKey {
            provenance_code: platform.clone(),
            endpoint_name: endpoint.clone(),
            operation: Operation::Harvest,
        };
        let now = self.clock.steady();
        let (decision, advice) = self.health.permit(&partition, spec.thresholds(), spec.limits.concurrency, now);
        if let GateDecision::WaitUntil(until) = decision {
            let wait = until.since(now).as_secs().max(1);
            let message = format!(
                "{platform}/{endpoint} failed several times in a row: no request is sent for {wait} s (circuit open)"
            );
            return Err(CrawlFailure::new(Code::PlatformError, message).detail("retry_after_seconds", wait.into()));
        }
        let failure_counts = !is_note || advice.circuit_open;
        Ok(Admitted { admission: self, partition, since: now, failure_counts, is_open: true })
    }

    fn report(&self, partition: &PartitionKey, outcome: &RequestOutcome) {
        self.health.on(&self.metrics, partition, self.clock.steady(), outcome);
    }
}

impl Admitted<'_> {
    /// The request was refused before it left.
    pub(super) fn not_sent(mut self) {
        self.is_open = false;
    }

    pub(super) fn ended(mut self, result: &Result<Box<FetchedPage>, Box<PageFailure>>) {
        self.is_open = false;
        let outcome = match result {
            Ok(page) => RequestOutcome {
                latency: Duration::from_millis(u64::from(page.evidence.latency_ms)),
                ..RequestOutcome::default()
            },
            Err(failure) => RequestOutcome {
                throttled: failure.throttled,
                failed: !failure.throttled
                    && failure.fault.level == Level::L1
                    && failure.fault.code != Code::CookieInvalid,
                latency: Duration::from_millis(u64::from(failure.evidence.latency_ms)),
                ..RequestOutcome::default()
            },
        };
        if !outcome.failed || self.failure_counts {
            self.admission.report(&self.partition, &outcome);
        }
    }
}

impl Drop for Admitted<'_> {
    /// The caller gave up. After a long wait, the platform does not respond.
    fn drop(&mut self) {
        let waited = self.admission.clock.steady().since(self.since);
        if self.is_open && self.failure_counts && waited >= self.admission.patience {
            let outcome = RequestOutcome { failed: true, latency: waited, ..RequestOutcome::default() };
            self.admission.report(&self.partition, &outcome);
        }
    }
}

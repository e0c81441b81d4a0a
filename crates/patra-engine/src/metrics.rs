//! Metrics of this process since its start, under the names of ING-14.4. Events count themselves, see
//! [`crate::events`]; in addition, [`Metrics::text`] shows the state of the store.
//!
//! Labels come from closed sets and from the partitions of the registry: never a URL, a key or a text of an upstream.

mod labels;
mod text;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use patra_core::gate::GateRefusal;
use patra_core::health::HealthAction;
use patra_core::protocol::run::{FetchedPage, PageFailure, RunOutcome, RunSummary};
use patra_core::tx::{BatchStats, ClaimedTasks, Done, Lease, PartitionKey, TxError};
use patra_core::{Fault, Level, Ts};

use crate::events::RunEvent;
use crate::gate;
use crate::shared::lock;

use self::labels::{
    Acted, Closed, Coded, Directed, Ended as EndedAs, Graded, Healed, Hit, Outcome as HadOutcome, PartitionLabels,
    Refused, Spent,
};

/// Most partitions that are shown by name. Further ones are counted together, as [`labels::OTHER`].
pub const MAX_PARTITIONS: usize = 500;

type PartitionCounters = Family<PartitionLabels, Counter>;
type Histograms = Family<PartitionLabels, Histogram, fn() -> Histogram>;

/// Declares each family once: its field, its type, its name and its help text.
macro_rules! families {
    ($($field:ident: $kind:ty = $make:expr, $name:literal, $help:literal;)*) => {
        #[derive(Debug)]
        struct Families {
            $($field: $kind,)*
        }

        impl Families {
            fn registered(registry: &mut Registry) -> Families {
                let families = Families { $($field: $make,)* };
                $(registry.register($name, $help, families.$field.clone());)*
                families
            }
        }
    };
}

// Counters get the suffix `_total` when they are shown.
families! {
    batches: PartitionCounters = Family::default(), "patra_ingest_batches", "Batches that were committed";
    items: Family<Acted, Counter> = Family::default(), "patra_ingest_items", "Records, by what became of them";
    late_items: PartitionCounters = Family::default(), "patra_ingest_late_items",
        "Records that came behind the cursor";
    missing: PartitionCounters = Family::default(), "patra_ingest_missing_items",
        "Records that were marked as missing from their list";
    batch_latency: Histograms = milliseconds(), "patra_ingest_batch_latency_ms",
        "Time of a batch from its request to its commit";
    http_latency: Histograms = milliseconds(), "patra_ingest_http_latency_ms", "Time of a request to the upstream";
    errors: Family<Graded, Counter> = Family::default(), "patra_ingest_errors", "What went wrong, by level";
    throttled: PartitionCounters = Family::default(), "patra_ingest_429", "Responses that asked for fewer requests";
    retries: PartitionCounters = Family::default(), "patra_ingest_retries", "Requests that were made again";
    healed: Family<Healed, Counter> = Family::default(), "patra_ingest_self_heal_events",
        "What was done about upstreams in trouble";
    advances: Family<Directed, Counter> = Family::default(), "patra_ingest_cursor_advance_events",
        "Advances of cursors";
    consecutive_failures: Family<PartitionLabels, Gauge> = Family::default(), "patra_ingest_consecutive_failures",
        "Requests since the last good response that were refused or failed";
    last_fatal: Family<Coded, Gauge> = Family::default(), "patra_ingest_last_fatal_timestamp_seconds",
        "When something fatal (L4) happened last";
    plans_refused: PartitionCounters = Family::default(), "patra_ingest_plans_refused",
        "Triggers of which no plan could be made";
    idempotent: Family<Hit, Counter> = Family::default(), "patra_ingest_idempotent",
        "Tasks and batches, by whether they were there already";
    gate_wait: Histograms = milliseconds(), "patra_ingest_gate_wait_ms", "Time that a request waited for its permit";
    quota_hits: Family<Spent, Counter> = Family::default(), "patra_ingest_quota_hits",
        "Requests that a quota stopped";
    claims: Family<HadOutcome, Counter> = Family::default(), "patra_ingest_claims", "Looks at the queue";
    queue_wait: Histograms = milliseconds(), "patra_ingest_queue_wait_ms",
        "Time from when a task could have been claimed to when it was";
    runs: Family<EndedAs, Counter> = Family::default(), "patra_ingest_task_runs", "Runs that have ended, by how";
    run_duration: Histograms = milliseconds(), "patra_ingest_run_duration_ms", "Time from the start of a run to its end";
    http_refused: Family<Refused, Counter> = Family::default(), "patra_http_auth_failures",
        "Requests and logins without a valid key";
    http_closed: Family<Closed, Counter> = Family::default(), "patra_http_connections_closed",
        "Connections that were closed or refused because the server was full";
    overflow: Counter = Counter::default(), "patra_metrics_overflow",
        "Events that were counted under another partition's name because there are too many";
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Families,
    /// Partitions that are shown by name.
    known: Mutex<BTreeSet<PartitionKey>>,
    gate: Arc<gate::RateGate>,
}

impl Metrics {
    /// The gate whose budgets are shown.
    pub fn new(gate: Arc<gate::RateGate>) -> Metrics {
        let mut registry = Registry::default();
        let families = Families::registered(&mut registry);
        for kind in Healed::ALL {
            drop(families.healed.get_or_create(&kind));
        }
        Metrics { registry, families, known: Mutex::default(), gate }
    }

    /// Counts a request or a login without a valid key.
    pub fn auth_failed(&self, kind: &'static str) {
        self.families.http_refused.get_or_create(&Refused { kind }).inc();
    }

    /// Counts a connection that was closed or refused because the server was full.
    pub fn connection_closed(&self, reason: &'static str) {
        self.families.http_closed.get_or_create(&Closed { reason }).inc();
    }

    /// Counts the events of a run.
    pub(crate) fn on(&self, event: &RunEvent<'_>, now: Ts) {
        match event {
            RunEvent::Committed { lease, stats, stored_in, .. } => self.committed(lease, stats, *stored_in),
            RunEvent::Answered { lease, answer } => self.answered(lease, *answer, now),
            RunEvent::Admitted { lease, admitted } => self.admitted(lease, *admitted),
            RunEvent::Retried { lease } => {
                self.families.retries.get_or_create(&self.of(lease)).inc();
            }
            RunEvent::Ended { lease, ended, duration, is_news } => self.ended(lease, ended, *duration, *is_news, now),
            RunEvent::Throttled { .. } | RunEvent::StoreFailed { .. } => {}
        }
    }

    /// Counts the result of a transaction.
    pub(crate) fn stored(&self, done: &Done) {
        let hits = |kind, hit: u64, new: u64| {
            self.families.idempotent.get_or_create(&Hit { kind, result: "hit" }).inc_by(hit);
            self.families.idempotent.get_or_create(&Hit { kind, result: "new" }).inc_by(new);
        };
        match done {
            Done::SavePlan(saved) => hits("task", saved.existing.into(), saved.created.into()),
            Done::CommitBatch(_) | Done::CommitBatches(_) => {
                let pages = done.committed();
                let old = pages.iter().filter(|page| page.replayed).count() as u64;
                hits("batch", old, pages.len() as u64 - old);
            }
            // The cursor value follows in a transaction of its own.
            Done::RecordAdvance(advance) if advance.target.is_some() && advance.target != advance.value => {
                self.families.advances.get_or_create(&Directed { direction: advance.direction.as_str() }).inc();
            }
            _ => {}
        }
    }

    pub(crate) fn claimed(&self, answer: &Result<ClaimedTasks, TxError>) {
        let outcome = match answer {
            Ok(claimed) if claimed.leases.is_empty() => "empty",
            Ok(_) => "success",
            Err(_) => "failure",
        };
        self.families.claims.get_or_create(&HadOutcome { outcome }).inc();
        if let Ok(claimed) = answer {
            for lease in &claimed.leases {
                let waited = claimed.now.since(lease.scheduled_at);
                self.families.queue_wait.get_or_create(&self.of(lease)).observe(millis(waited));
            }
        }
    }

    pub(crate) fn plan_refused(&self, who: &PartitionKey) {
        self.families.plans_refused.get_or_create(&self.partition(who)).inc();
    }

    /// Counts only the actions that dashboards use (ING-14.4-04); the log has the rest.
    pub(crate) fn healed(&self, action: &HealthAction) {
        match action {
            HealthAction::RateDown { .. } => self.heal("qpsDownshift"),
            HealthAction::CircuitOpened { .. } => self.heal("circuitOpen"),
            _ => {}
        }
    }

    fn heal(&self, kind: &'static str) {
        self.families.healed.get_or_create(&Healed { r#type: kind }).inc();
    }

    fn committed(&self, lease: &Lease, stats: &BatchStats, stored_in: Duration) {
        let partition = self.of(lease);
        self.families.batches.get_or_create(&partition).inc();
        self.families.late_items.get_or_create(&partition).inc_by(stats.late.into());
        let latency = f64::from(stats.latency_ms) + millis(stored_in);
        self.families.batch_latency.get_or_create(&partition).observe(latency);
        let counts =
            [("insert", stats.inserted), ("update", stats.updated), ("skip", stats.skipped), ("fail", stats.failed)];
        for (action, count) in counts {
            let acted = Acted { partition: partition.clone(), action };
            self.families.items.get_or_create(&acted).inc_by(count.into());
        }
        // Each record in quarantine is an error of its own (C-58).
        self.graded(partition, Level::L3).inc_by(stats.failed.into());
    }

    fn answered(&self, lease: &Lease, answer: Result<&FetchedPage, &PageFailure>, now: Ts) {
        let partition = self.of(lease);
        let evidence = answer.map_or_else(|refusal| &refusal.evidence, |page| &page.evidence);
        self.families.http_latency.get_or_create(&partition).observe(f64::from(evidence.latency_ms));
        let failures = self.families.consecutive_failures.get_or_create(&partition).clone();
        match answer {
            Ok(_) => {
                failures.set(0);
            }
            Err(refusal) => {
                if refusal.throttled {
                    self.families.throttled.get_or_create(&partition).inc();
                }
                if refusal.fault.level == Level::L1 {
                    failures.inc();
                }
                self.failed(partition, &refusal.fault, now);
            }
        }
    }

    fn admitted(&self, lease: &Lease, admitted: Result<Duration, GateRefusal>) {
        let partition = self.of(lease);
        let kind = match admitted {
            Ok(waited) => {
                self.families.gate_wait.get_or_create(&partition).observe(millis(waited));
                return;
            }
            Err(GateRefusal::QuotaSoft) => "soft",
            Err(GateRefusal::QuotaHard) => "hard",
            Err(GateRefusal::OverDeadline | GateRefusal::Cooldown | GateRefusal::Provider) => return,
        };
        self.families.quota_hits.get_or_create(&Spent { partition, kind }).inc();
    }

    fn ended(&self, lease: &Lease, ended: &RunSummary, duration: Duration, is_news: bool, now: Ts) {
        let partition = self.of(lease);
        self.families.run_duration.get_or_create(&partition).observe(millis(duration));
        if ended.stats.missing > 0 {
            self.families.missing.get_or_create(&partition).inc_by(ended.stats.missing);
        }
        let status = match &ended.outcome {
            RunOutcome::Closed(status, fault) => {
                if let Some(fault) = fault.as_ref().filter(|fault| is_news && fault.level == Level::L4) {
                    self.failed(partition.clone(), fault, now);
                }
                status.as_str()
            }
            RunOutcome::Split(_) => {
                self.heal("reslice");
                "SPLIT"
            }
            RunOutcome::Cancelled => "CANCELLED",
            RunOutcome::Lost => "LOST",
            RunOutcome::Stuck(_) => "STUCK",
        };
        self.families.runs.get_or_create(&EndedAs { partition, status }).inc();
    }

    fn failed(&self, partition: PartitionLabels, fault: &Fault, now: Ts) {
        if fault.level == Level::L4 {
            let coded = Coded { partition: partition.clone(), code: fault.code.as_str() };
            self.families.last_fatal.get_or_create(&coded).set(now.micros() / 1_000_000);
        }
        self.graded(partition, fault.level).inc();
    }

    fn graded(&self, partition: PartitionLabels, level: Level) -> Counter {
        self.families.errors.get_or_create(&Graded { level: level.as_str(), partition }).clone()
    }

    fn of(&self, lease: &Lease) -> PartitionLabels {
        self.partition(&lease.inventory())
    }

    /// The label of a partition.
    fn partition(&self, who: &PartitionKey) -> PartitionLabels {
        let partition = self.shown(who);
        if partition.is_other() {
            self.families.overflow.inc();
        }
        partition
    }

    /// The partition's own name, while there is room for one more.
    fn shown(&self, who: &PartitionKey) -> PartitionLabels {
        let is_new = {
            let mut known = lock(&self.known);
            if !known.contains(who) && known.len() >= MAX_PARTITIONS {
                return PartitionLabels::other(who.operation);
            }
            known.insert(who.clone())
        };
        let partition = PartitionLabels::of(who);
        if is_new {
            self.begin(&partition);
        }
        partition
    }

    /// Creates the series of alerts at 0 from the start: rates need a first value.
    fn begin(&self, partition: &PartitionLabels) {
        let families = &self.families;
        for family in [&families.batches, &families.throttled, &families.retries, &families.plans_refused] {
            drop(family.get_or_create(partition));
        }
        for level in [Level::L1, Level::L2, Level::L3, Level::L4] {
            self.graded(partition.clone(), level);
        }
        for kind in ["soft", "hard"] {
            drop(families.quota_hits.get_or_create(&Spent { partition: partition.clone(), kind }));
        }
        for status in ["SUCCEEDED", "FAILED"] {
            drop(families.runs.get_or_create(&EndedAs { partition: partition.clone(), status }));
        }
        drop(families.consecutive_failures.get_or_create(partition));
        drop(families.gate_wait.get_or_create(partition));
    }
}

/// Buckets from a commit on a fast disk to the longest exchange that is allowed.
fn milliseconds() -> Histograms {
    const BUCKETS: [f64; 13] =
        [5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0, 120_000.0];
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests;

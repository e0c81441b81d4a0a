//! The exposition: the counts of this process, and the state of the store, which is the same in every process.

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use std::sync::atomic::AtomicU64;

use patra_core::port::Store;
use patra_core::port::load::StoreLoad;
use patra_core::protocol::planner;
use patra_core::tx::TxError;

use super::Metrics;
use super::labels::{AlertLabels, CookieLabels, CrawlLabels, Namespace, PartitionLabels};
use crate::shared::lock;

type PartitionGauges = Family<PartitionLabels, Gauge>;

impl Metrics {
    /// The media type of [`Metrics::text`].
    pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// The whole exposition, in the text form of OpenMetrics.
    pub async fn text(&self, store: &dyn Store) -> Result<String, TxError> {
        let mut registry = Registry::default();
        self.load(&mut registry, &store.load().await?);
        self.budgets(&mut registry);
        crawls(&mut registry, store).await?;
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode_registry(&mut text, &self.registry);
        let _ = encode_registry(&mut text, &registry);
        let _ = encode_eof(&mut text);
        Ok(text)
    }

    fn load(&self, registry: &mut Registry, load: &StoreLoad) {
        let queued = PartitionGauges::default();
        registry.register("patra_ingest_tasks_queued", "Tasks that wait", queued.clone());
        let held = PartitionGauges::default();
        registry.register("patra_ingest_executor_concurrency", "Running tasks, in any process", held.clone());
        let oldest = PartitionGauges::default();
        registry.register("patra_ingest_queue_oldest_seconds", "For how long the oldest task waits", oldest.clone());
        // Partitions that this process has seen stay, at 0.
        let known: Vec<_> = lock(&self.known).iter().cloned().collect();
        for partition in known.iter().map(PartitionLabels::of) {
            for gauges in [&queued, &held, &oldest] {
                drop(gauges.get_or_create(&partition));
            }
        }
        for queue in &load.queues {
            let partition = self.shown(&queue.partition);
            queued.get_or_create(&partition).inc_by(whole(queue.queued));
            held.get_or_create(&partition).inc_by(whole(queue.active));
            let waits = queue.oldest.map_or(0, |oldest| whole(load.now.since(oldest).as_secs()));
            let longest = oldest.get_or_create(&partition);
            longest.set(longest.get().max(waits));
        }
        let lag = Family::<Namespace, Gauge>::default();
        registry.register("patra_ingest_cursor_lag_seconds", "How far the last namespace is behind now", lag.clone());
        for reached in &load.reached {
            let partition = self.shown(&reached.partition);
            let behind = lag.get_or_create(&Namespace { partition, ns: reached.scope.as_str() }).clone();
            behind.set(behind.get().max(whole(load.now.since(reached.instant).as_secs())));
        }
        let scheduled = PartitionGauges::default();
        registry.register("patra_ingest_scheduled", "Whether a schedule fires it", scheduled.clone());
        for who in &load.scheduled {
            scheduled.get_or_create(&self.shown(who)).set(1);
        }
        let limit = i64::from(planner::Options::new("").inventory);
        let waits = load.outbox.oldest.map_or(0, |oldest| whole(load.now.since(oldest).as_secs()));
        for (name, help, value) in [
            ("patra_ingest_tasks_queued_limit", "Queued tasks of a partition that stop planning", limit),
            ("patra_outbox_oldest_seconds", "For how long the oldest event waits for delivery", waits),
            ("patra_outbox_failed", "Events that were given up", whole(load.outbox.failed)),
        ] {
            let gauge: Gauge = Gauge::default();
            gauge.set(value);
            registry.register(name, help, gauge);
        }
    }

    /// Budgets by the last reply of the gate.
    fn budgets(&self, registry: &mut Registry) {
        let remaining = PartitionGauges::default();
        registry.register(
            "patra_ingest_budget_remaining",
            "Requests that the tightest quota still allows",
            remaining.clone(),
        );
        let limit = PartitionGauges::default();
        registry.register("patra_ingest_budget_limit", "Requests that the tightest quota allows", limit.clone());
        let rate = Family::<PartitionLabels, Gauge<f64, AtomicU64>>::default();
        registry.register("patra_ingest_qps_effective", "Requests a second that the gate lets through", rate.clone());
        for (who, view) in self.gate.views() {
            let partition = self.shown(&who);
            rate.get_or_create(&partition).set(view.rate);
            let Some(budget) = view.budget() else { continue };
            remaining.get_or_create(&partition).set(whole(budget.remaining));
            if let Some(most) = budget.limit {
                limit.get_or_create(&partition).set(whole(most));
            }
        }
    }
}

/// The alerts of CRAWL and TWEET, and their current values.
async fn crawls(registry: &mut Registry, store: &dyn Store) -> Result<(), TxError> {
    let firing = Family::<AlertLabels, Gauge>::default();
    registry.register("patra_alert_firing", "Whether an alert is firing", firing.clone());
    for view in store.alerts().await? {
        let labels = AlertLabels { alert: view.alert, subject: view.subject, level: view.level.as_str() };
        firing.get_or_create(&labels).set(view.state.firing.into());
    }
    let by_status = Family::<CookieLabels, Gauge>::default();
    registry.register("patra_cookies", "Cookies by platform and status", by_status.clone());
    let (cookies, _) = store.cookie_totals(None).await?;
    for (platform, totals) in cookies {
        for (status, count) in totals.counts.named() {
            by_status.get_or_create(&CookieLabels { platform: platform.clone(), status }).set(count.into());
        }
    }
    let recent = Family::<CrawlLabels, Gauge>::default();
    registry.register("patra_crawl_requests_recent", "Crawl requests of the last ten minutes", recent.clone());
    for crawled in store.crawled().await? {
        for (outcome, count) in [("succeeded", crawled.succeeded), ("failed", crawled.failed)] {
            recent.get_or_create(&CrawlLabels { platform: crawled.platform.clone(), outcome }).set(whole(count));
        }
    }
    let pending: Gauge = Gauge::default();
    pending.set(whole(store.backlog().await?));
    registry.register("patra_crawl_candidates_pending", "Notes that wait to be fetched", pending);
    Ok(())
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

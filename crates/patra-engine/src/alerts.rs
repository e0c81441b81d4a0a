//! Evaluates the alert rules of all products on the state of the store, and notifies when an alert begins and ends. The
//! rules are in [`patra_core::alert`]; any number of processes may do this at once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use patra_core::alert::{
    AlertEvent, AlertRule, AlertSettings, AlertView, BACKLOG, COOKIES_EXHAUSTED, CREDENTIAL_REFUSED, ENDPOINT_FAILING,
    EVENTS_BEHIND, FAILURE_WINDOW, LOW_SUCCESS_RATE, MIN_REQUESTS, PLAN_REFUSED, QUEUE_STANDS, RULES, SOURCE_GONE,
    SOURCE_PAUSED, SOURCE_SILENT, UPSTREAM_REFUSED, UPSTREAM_THROTTLES, WORK_HALTED,
};
use patra_core::port::board::WorkFilter;
use patra_core::port::crawl::PlatformTotals;
use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};
use patra_core::port::source::{SourceFilter, StoredSource};
use patra_core::port::{CommandsExt as _, Notifier, Store};
use patra_core::source::MIN_SILENCE;
use patra_core::state::{JobStatus, PauseKind, PausedReason};
use patra_core::tx::{AlertWatched, PartitionKey, TxError, WatchAlert};
use patra_core::{Ts, Window};

use crate::maintenance::MaintenanceOptions;
use crate::operations;

/// Rules whose conditions are reported by the work itself, when it happens.
const REPORTED: [AlertRule; 2] = [UPSTREAM_REFUSED, UPSTREAM_THROTTLES];

/// The condition of a rule for one subject.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AlertCondition {
    pub(crate) rule: AlertRule,
    pub(crate) subject: String,
    pub(crate) is_met: bool,
    pub(crate) value: f64,
    /// The subject's name and the last error, for people.
    pub(crate) detail: String,
}

/// Checks every alert once.
pub async fn watch(store: &dyn Store, options: &MaintenanceOptions) -> Result<(), TxError> {
    let mut settings = options.alerts.clone();
    settings.config(&store.settings().await?);
    let (cookies, now) = store.cookie_totals(None).await?;
    let mut watcher = AlertWatcher { store, settings, now, conditions: Vec::new() };
    watcher.crawler(cookies).await?;
    watcher.sources().await?;
    watcher.endpoints().await?;
    watcher.queues().await?;
    watcher.halts().await?;
    watcher.plans().await?;
    watcher.events().await?;
    let AlertWatcher { mut conditions, settings, .. } = watcher;
    let known = store.alerts().await?;
    let begun: Vec<_> = known.iter().filter(|view| view.state.since.is_some()).collect();
    let is_of = |condition: &AlertCondition, view: &AlertView| {
        condition.rule.name == view.alert && condition.subject == view.subject
    };
    // An alert is no longer met when its subject is gone or its rule is off.
    for view in &begun {
        let reported = REPORTED.iter().any(|rule| rule.name == view.alert && settings.apply(rule).is_some());
        if !reported && !conditions.iter().any(|condition| is_of(condition, view)) {
            let rule = RULES.iter().find(|rule| rule.name == view.alert);
            conditions.extend(rule.map(|rule| AlertCondition {
                rule: *rule,
                subject: view.subject.clone(),
                is_met: false,
                value: 0.0,
                detail: view.detail.clone(),
            }));
        }
    }
    for condition in conditions {
        let before = begun.iter().find(|view| is_of(&condition, view));
        if is_news(&condition, before.copied(), now) {
            update(store, options.notifier.as_deref(), condition).await?;
        }
    }
    Ok(())
}

/// Whether the stored state changes: most alerts that are firing stay as they are, and need no write.
fn is_news(condition: &AlertCondition, before: Option<&AlertView>, now: Ts) -> bool {
    let Some(view) = before else { return condition.is_met };
    let AlertCondition { rule, is_met, value, detail, .. } = condition;
    let (after, event) = view.state.watched(*is_met, rule.delay, rule.repeat(), now);
    event.is_some() || after != view.state || view.detail != *detail || (view.value - value).abs() > f64::EPSILON
}

struct AlertWatcher<'a> {
    store: &'a dyn Store,
    settings: AlertSettings,
    now: Ts,
    conditions: Vec<AlertCondition>,
}

impl AlertWatcher<'_> {
    /// Adds a condition, unless its rule is switched off. `is_met` compares with the threshold in force.
    fn add(&mut self, rule: &AlertRule, subject: String, value: f64, is_met: impl Fn(f64) -> bool, detail: String) {
        if let Some(rule) = self.settings.apply(rule) {
            let is_met = is_met(rule.threshold);
            self.conditions.push(AlertCondition { rule, subject, is_met, value, detail });
        }
    }

    async fn crawler(&mut self, cookies: PlatformTotals) -> Result<(), TxError> {
        let off = operations::paused_sources(self.store).await?;
        for (platform, totals) in cookies {
            let (count, is_off) = (f64::from(totals.counts.active), off.contains(&platform));
            self.add(&COOKIES_EXHAUSTED, platform, count, |least| count < least && !is_off, String::new());
        }
        for crawled in self.store.crawled().await? {
            let total = crawled.succeeded + crawled.failed;
            let rate = if total == 0 { 1.0 } else { crawled.succeeded as f64 / total as f64 };
            let is_met = |least| total >= MIN_REQUESTS && rate < least;
            self.add(&LOW_SUCCESS_RATE, crawled.platform, rate, is_met, String::new());
        }
        let pending = self.store.backlog().await? as f64;
        self.add(&BACKLOG, String::new(), pending, |most| pending > most, String::new());
        Ok(())
    }

    /// Sources that fail, are gone, or are silent (COLL-54, COLL-128).
    async fn sources(&mut self) -> Result<(), TxError> {
        let now = self.now;
        let filter = SourceFilter { troubled: Some(now - MIN_SILENCE), ..SourceFilter::default() };
        for source in self.store.sources(filter).await? {
            let subject = format!("source {}", source.id);
            let detail = about(&source);
            let failures = f64::from(source.state.fetch_error_count);
            match source.state.paused {
                Some(PausedReason::User) => {}
                Some(PausedReason::Gone) => self.add(&SOURCE_GONE, subject, 1.0, |_| true, detail),
                Some(PausedReason::Error) => self.add(&SOURCE_PAUSED, subject, failures, |_| true, detail),
                None => {
                    self.add(&SOURCE_PAUSED, subject.clone(), failures, |most| failures >= most, detail);
                    if let Some(times) = source.state.arrivals.silence(now) {
                        let last = source.state.arrivals.last_at.unwrap_or(now);
                        let detail = format!("{}: nothing new since {last}", source.name);
                        // Whole times: the value changes rarely.
                        self.add(&SOURCE_SILENT, subject, times.floor(), |most| times >= most, detail);
                    }
                }
            }
        }
        Ok(())
    }

    /// Endpoints whose runs fail and never succeed.
    async fn endpoints(&mut self) -> Result<(), TxError> {
        let window = Window { from: self.now - FAILURE_WINDOW, to: self.now };
        for (partition, counts) in self.store.counts(WorkFilter::default(), window).await? {
            let failed = counts.failed.max(counts.batches_failed) as f64;
            let none_succeeded = counts.succeeded + counts.partial + counts.batches == 0;
            if failed == 0.0 {
                continue;
            }
            let detail = match self.settings.apply(&ENDPOINT_FAILING) {
                Some(rule) if none_succeeded && failed >= rule.threshold => self.last_error(&partition, window).await?,
                _ => String::new(),
            };
            let is_met = |most| none_succeeded && failed >= most;
            self.add(&ENDPOINT_FAILING, partition_name(&partition), failed, is_met, detail);
        }
        Ok(())
    }

    async fn last_error(&self, partition: &PartitionKey, window: Window) -> Result<String, TxError> {
        let filter = WorkFilter {
            provenance_code: Some(partition.provenance_code.clone()),
            endpoint_name: Some(partition.endpoint_name.clone()),
            operation: Some(partition.operation),
            ..WorkFilter::default()
        };
        let errors = self.store.errors(filter, None, window, 1).await?;
        Ok(errors.first().map(|error| format!("{} {}", error.code, error.message)).unwrap_or_default())
    }

    /// Queues with due tasks that nobody executes. Queues that a person or a fatal error stopped are left out; an
    /// advisory pause stops only planning.
    async fn queues(&mut self) -> Result<(), TxError> {
        let stopped = self.store.active_pauses().await?;
        let (queues, now) = self.store.queued(WorkFilter::default()).await?;
        for queue in queues {
            let partition = &queue.partition;
            let PartitionKey { provenance_code, endpoint_name, operation } = partition;
            let is_stopped = stopped.iter().any(|pause| {
                pause.kind != PauseKind::Advisory && pause.subject.covers(provenance_code, endpoint_name, *operation)
            });
            let Some(oldest) = queue.oldest_at.filter(|_| queue.active == 0 && !is_stopped) else { continue };
            let waits = now.since(oldest).as_secs_f64();
            let detail = format!("{} tasks are due, the oldest since {oldest}", queue.due);
            // Whole minutes: the value changes rarely.
            let shown = (waits / 60.0).floor() * 60.0;
            self.add(&QUEUE_STANDS, partition_name(partition), shown, |most| waits > most, detail);
        }
        Ok(())
    }

    /// Work that fatal errors halted (ING-12.6-01, ING-14.8-01).
    async fn halts(&mut self) -> Result<(), TxError> {
        let filter = ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() };
        let mut seen = BTreeSet::new();
        for row in self.store.list(View::Holds, filter).await? {
            let cell = |column| View::Holds.cell(&row, column).unwrap_or(Cell::Null);
            if cell("released_at") != Cell::Null || cell("kind_code") != Cell::Text("BREAK".into()) {
                continue;
            }
            let rule = if cell("credential_id") == Cell::Null { WORK_HALTED } else { CREDENTIAL_REFUSED };
            let (subject, reason) = (text(View::Holds, &row, "subject"), text(View::Holds, &row, "reason"));
            if seen.insert(subject.clone()) {
                self.add(&rule, subject, 1.0, |_| true, reason);
            }
        }
        Ok(())
    }

    /// Jobs that could not be planned (ING-3.6-01, ING-5.3-03), by endpoint and operation.
    async fn plans(&mut self) -> Result<(), TxError> {
        let filter = ViewFilter {
            status: Some(JobStatus::Failed.to_string()),
            from: Some(self.now - FAILURE_WINDOW),
            limit: ViewFilter::MAX_LIMIT,
            ..ViewFilter::default()
        };
        let mut refused = BTreeMap::<String, (f64, String)>::new();
        for row in self.store.list(View::Jobs, filter).await? {
            let [provenance, endpoint, operation] =
                ["provenance_code", "endpoint_name", "operation_code"].map(|column| text(View::Jobs, &row, column));
            // Background jobs have neither an endpoint nor a plan.
            if endpoint.is_empty() {
                continue;
            }
            let (count, reason) = refused.entry(format!("{provenance}/{endpoint} {operation}")).or_default();
            *count += 1.0;
            // The newest job comes first.
            if reason.is_empty() {
                *reason = refusal(&row);
            }
        }
        for (subject, (count, reason)) in refused {
            self.add(&PLAN_REFUSED, subject, count, |most| count >= most, reason);
        }
        Ok(())
    }

    /// Record events that wait for their webhook.
    async fn events(&mut self) -> Result<(), TxError> {
        let load = self.store.load().await?;
        let waits = load.outbox.oldest.map_or(0.0, |oldest| load.now.since(oldest).as_secs_f64());
        // Whole minutes: the value changes rarely.
        let shown = (waits / 60.0).floor() * 60.0;
        let oldest = load.outbox.oldest.map_or_else(String::new, |oldest| format!("the oldest waits since {oldest}"));
        self.add(&EVENTS_BEHIND, String::new(), shown, |most| waits > most, oldest);
        Ok(())
    }
}

/// Why a job could not be planned.
fn refusal(row: &ViewRow) -> String {
    let Some(Cell::Json(remarks)) = View::Jobs.cell(row, "record_remarks") else { return String::new() };
    let remarks: serde_json::Value = serde_json::from_str(&remarks).unwrap_or_default();
    remarks["error"].as_str().unwrap_or_default().to_owned()
}

fn text(view: View, row: &ViewRow, column: &str) -> String {
    match view.cell(row, column) {
        Some(Cell::Text(text)) => text,
        _ => String::new(),
    }
}

/// The name of a source and its last error.
fn about(source: &StoredSource) -> String {
    let error = source.state.last_error.as_deref().unwrap_or("no error is known");
    format!("{}: {error}", source.name)
}

fn partition_name(partition: &PartitionKey) -> String {
    let PartitionKey { provenance_code, endpoint_name, operation } = partition;
    format!("{provenance_code}/{endpoint_name} {operation}")
}

/// Stores the state of an alert and notifies when it begins, goes on for long, or ends.
pub(crate) async fn update(
    store: &dyn Store,
    notifier: Option<&dyn Notifier>,
    condition: AlertCondition,
) -> Result<(), TxError> {
    let AlertCondition { rule, subject, is_met, value, detail } = condition;
    let (level, threshold) = (rule.level, rule.threshold);
    let watch = WatchAlert {
        alert: rule.name.to_owned(),
        subject: subject.clone(),
        level,
        is_met,
        value,
        threshold,
        detail: detail.clone(),
        delay: rule.delay,
        repeat: rule.repeat(),
    };
    let AlertWatched { since, notify: Some(event), .. } = store.run(watch).await? else { return Ok(()) };
    let since = since.map(|since| since.to_string());
    let level_name = level.as_str();
    macro_rules! log {
        ($as:ident, $message:literal) => {
            tracing::$as!(alert = rule.name, subject, level = level_name, value, threshold, since, detail, $message)
        };
    }
    match event {
        AlertEvent::Firing => log!(error, "alert firing"),
        AlertEvent::Resolved => log!(info, "alert resolved"),
    }
    let Some(notifier) = notifier else { return Ok(()) };
    let message = json!({
        "alert": rule.name, "subject": subject, "level": level, "state": event, "value": value, "threshold": threshold,
        "detail": detail, "since": since,
        "request_id": format!("alert-{}-{}", rule.name, since.as_deref().unwrap_or("now")),
    });
    if let Err(reason) = notifier.notify(message.to_string()).await {
        tracing::warn!(alert = rule.name, reason, "the webhook did not accept an alert");
    }
    Ok(())
}

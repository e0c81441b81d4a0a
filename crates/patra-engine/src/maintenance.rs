//! Maintenance of the crawler: takes back the locks of dead processes (CRAWL-129..132), counts crawls, and watches the
//! alerts (CRAWL-156..164). Any number of processes may do it at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use patra_core::alert::{AlertEvent, AlertRule, BACKLOG, COOKIES_EXHAUSTED, LOW_SUCCESS_RATE, MIN_REQUESTS};
use patra_core::crawl::{LOCK_TIMEOUT, RECOVERY_INTERVAL};
use patra_core::port::{CommandsExt as _, Notifier, Store};
use patra_core::state::CookieStatus;
use patra_core::tx::{AlertWatched, CountCrawls, Recover, Recovered, TxError, WatchAlert};

use crate::crawler::Crawler;
use crate::shared::Shared;
use crate::{events, operations};

/// Interval of storing the crawl counts, and of watching the alerts.
const COUNT_EVERY: Duration = Duration::from_secs(5);
const WATCH_EVERY: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct MaintenanceOptions {
    pub lock_timeout: Duration,
    pub recover_every: Duration,
    /// Receives alerts, in addition to the log.
    pub notifier: Option<Arc<dyn Notifier>>,
}

impl Default for MaintenanceOptions {
    fn default() -> MaintenanceOptions {
        MaintenanceOptions { lock_timeout: LOCK_TIMEOUT, recover_every: RECOVERY_INTERVAL, notifier: None }
    }
}

pub(crate) async fn serve(shared: Arc<Shared>, crawler: Crawler) {
    let (store, options) = (&shared.ports.store, &shared.options.maintenance);
    let mut recovery = tokio::time::interval(options.recover_every);
    let mut counting = tokio::time::interval(COUNT_EVERY);
    let mut watching = tokio::time::interval(WATCH_EVERY);
    loop {
        let (what, result) = tokio::select! {
            () = shared.drain.cancelled() => break,
            _ = recovery.tick() => ("Recover", recover(&**store, options.lock_timeout).await.map(|_| ())),
            _ = counting.tick() => ("CountCrawls", count(&**store, &crawler).await),
            _ = watching.tick() => ("WatchAlert", watch(&**store, options.notifier.as_deref()).await),
        };
        if let Err(error) = result {
            events::store_failed("maintenance", what, &error);
        }
    }
    if let Err(error) = count(&**store, &crawler).await {
        events::store_failed("maintenance", "CountCrawls", &error);
    }
}

/// Takes back the locks of dead processes.
pub async fn recover(store: &dyn Store, timeout: Duration) -> Result<Recovered, TxError> {
    let recovered = store.run(Recover { timeout }).await?;
    if recovered != Recovered::default() {
        tracing::info!(?recovered, "locks of dead processes were taken back");
    }
    Ok(recovered)
}

async fn count(store: &dyn Store, crawler: &Crawler) -> Result<(), TxError> {
    for (platform, (succeeded, failed)) in crawler.take_tally() {
        store.run(CountCrawls { platform, succeeded, failed }).await?;
    }
    Ok(())
}

/// Checks every alert once.
pub async fn watch(store: &dyn Store, notifier: Option<&dyn Notifier>) -> Result<(), TxError> {
    let off = operations::paused_sources(store).await?;
    let (cookies, now) = store.cookies(None).await?;
    let mut active: BTreeMap<String, u32> = BTreeMap::new();
    for cookie in cookies {
        let usable = cookie.usage.after_cooling(now).status == CookieStatus::Active;
        *active.entry(cookie.platform).or_default() += u32::from(usable);
    }
    let mut checked: Vec<(AlertRule, String, bool, f64)> = Vec::new();
    for (platform, count) in active {
        let holds = count < 1 && !off.contains(&platform);
        checked.push((COOKIES_EXHAUSTED, platform, holds, f64::from(count)));
    }
    for crawled in store.crawled().await? {
        let total = crawled.succeeded + crawled.failed;
        let rate = if total == 0 { 1.0 } else { crawled.succeeded as f64 / total as f64 };
        let holds = total >= MIN_REQUESTS && rate < LOW_SUCCESS_RATE.threshold;
        checked.push((LOW_SUCCESS_RATE, crawled.platform, holds, rate));
    }
    let pending = store.backlog().await? as f64;
    checked.push((BACKLOG, String::new(), pending > BACKLOG.threshold, pending));
    // An alert whose subject is gone, such as a platform without requests or cookies, is no longer met.
    let known = store.alerts().await?;
    let begun: Vec<_> = known.iter().filter(|view| view.state.since.is_some()).collect();
    for view in &begun {
        let is_it =
            |(rule, subject, ..): &(AlertRule, String, bool, f64)| rule.name == view.alert && *subject == view.subject;
        if !checked.iter().any(is_it) {
            let rule = [COOKIES_EXHAUSTED, LOW_SUCCESS_RATE, BACKLOG].into_iter().find(|rule| rule.name == view.alert);
            checked.extend(rule.map(|rule| (rule, view.subject.clone(), false, 0.0)));
        }
    }
    // An alert that is not met and was not met needs no write.
    checked.retain(|(rule, subject, holds, _)| {
        *holds || begun.iter().any(|view| rule.name == view.alert && *subject == view.subject)
    });
    for (rule, subject, holds, value) in checked {
        update_alert(store, notifier, rule, subject, holds, value).await?;
    }
    Ok(())
}

pub(crate) async fn update_alert(
    store: &dyn Store,
    notifier: Option<&dyn Notifier>,
    rule: AlertRule,
    subject: String,
    holds: bool,
    value: f64,
) -> Result<(), TxError> {
    let (level, threshold) = (rule.level, rule.threshold);
    let watch = WatchAlert {
        alert: rule.name.to_owned(),
        subject: subject.clone(),
        level,
        is_met: holds,
        value,
        threshold,
        delay: rule.delay,
        repeat: rule.repeat(),
    };
    let AlertWatched { since, notify: Some(event), .. } = store.run(watch).await? else { return Ok(()) };
    let since = since.map(|since| since.to_string());
    match event {
        AlertEvent::Firing => {
            tracing::error!(
                alert = rule.name,
                subject,
                level = level.as_str(),
                value,
                threshold,
                since,
                "alert firing"
            );
        }
        AlertEvent::Resolved => {
            tracing::info!(
                alert = rule.name,
                subject,
                level = level.as_str(),
                value,
                threshold,
                since,
                "alert resolved"
            );
        }
    }
    let Some(notifier) = notifier else { return Ok(()) };
    let message = json!({
        "alert": rule.name, "subject": subject, "level": level, "state": event, "value": value, "threshold": threshold,
        "since": since, "request_id": format!("alert-{}-{}", rule.name, since.as_deref().unwrap_or("now")),
    });
    if let Err(reason) = notifier.notify(message.to_string()).await {
        tracing::warn!(alert = rule.name, reason, "the webhook did not accept an alert");
    }
    Ok(())
}

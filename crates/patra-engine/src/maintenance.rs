//! Maintenance: takes back the locks of dead processes (CRAWL-129..132), counts crawls, and watches the alerts. Any number
//! of processes may do it at once.

use std::sync::Arc;
use std::time::Duration;

use patra_core::alert::AlertSettings;
use patra_core::crawl::{LOCK_TIMEOUT, RECOVERY_INTERVAL};
use patra_core::port::{CommandsExt as _, Notifier, Store};
use patra_core::tx::{CountCrawls, Recover, Recovered, TxError};

use crate::crawler::Crawler;
use crate::shared::Shared;
use crate::{alerts, events};

/// Interval of storing the crawl counts, and of watching the alerts.
const COUNT_EVERY: Duration = Duration::from_secs(5);
const WATCH_EVERY: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct MaintenanceOptions {
    pub lock_timeout: Duration,
    pub recover_every: Duration,
    /// Receives alerts, in addition to the log.
    pub notifier: Option<Arc<dyn Notifier>>,
    /// Changed rules of alerts.
    pub alerts: AlertSettings,
}

impl Default for MaintenanceOptions {
    fn default() -> MaintenanceOptions {
        MaintenanceOptions {
            lock_timeout: LOCK_TIMEOUT,
            recover_every: RECOVERY_INTERVAL,
            notifier: None,
            alerts: AlertSettings::default(),
        }
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
            _ = watching.tick() => ("WatchAlert", alerts::watch(&**store, options).await),
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

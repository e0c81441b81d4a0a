//! Service of the collector: queues the poll of each source at every tick and whenever a source becomes due; the
//! executor of polls does the rest. All state is in the store: two collectors, or one that is killed, lose and repeat
//! nothing.

mod queue;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use patra_core::port::source::{DueSources, SourceFilter};
use patra_core::port::{CommandsExt as _, Store};
use patra_core::source::Intervals;
use patra_core::state::TriggerType;
use patra_core::tx::{
    ExpiredPurged, Heartbeat, MAX_SOURCES, PurgeExpired, SaveSetting, SourceTypeRow, SyncTypes, TxError,
};
use patra_core::{SourceId, Ts};

use crate::shared::{Shared, sleep_until};
use crate::{crash, events, scrape, sources};

use queue::PollQueue;
pub use queue::{PollRequested, check_source, poll_now, poll_now_from};
pub(crate) use queue::{UnfitSource, poll_job};

/// Options of the collector.
#[derive(Clone, Debug)]
pub struct CollectorOptions {
    /// Interval between two checks for due sources.
    pub tick: Duration,
    /// Sources collected at the same time.
    pub concurrency: u32,
    /// Defaults and environment; the configuration table overrides them.
    pub intervals: Intervals,
    /// How long articles are kept; `None`: for ever.
    pub keep_items: Option<Duration>,
    /// How long polls stay in the ledger.
    pub keep_ledger: Duration,
    /// How long requested jobs stay in the ledger (TWEET-98).
    pub keep_jobs: Duration,
}

impl Default for CollectorOptions {
    fn default() -> CollectorOptions {
        const DAY: Duration = Duration::from_secs(86_400);
        CollectorOptions {
            tick: Duration::from_secs(60),
            concurrency: 5,
            intervals: Intervals::default(),
            keep_items: Some(DAY * 30),
            keep_ledger: DAY * 3,
            keep_jobs: DAY * 90,
        }
    }
}

/// Most sources that one tick queues.
const MAX_DUE: u32 = 200_000;
/// Shortest sleep, however soon the next source is due.
const SHORTEST_SLEEP: Duration = Duration::from_millis(200);
/// Interval of cleaning (COLL-43).
const CLEAN_EVERY: Duration = Duration::from_secs(3_600);
/// Time of the last cleaning, in the configuration table, so that many or short-lived processes clean no more often.
const CLEANED_AT: &str = "collector.cleaned_at";
/// Setting that switches the collection of tweets off (TWEET-115).
pub const SCRAPER_ENABLED: &str = "scraper.enabled";
/// Rows of one cleaning transaction.
const CLEAN_AT_ONCE: u32 = 500;

pub(crate) async fn serve(shared: Arc<Shared>) {
    let mut collector = CollectorService::new(Arc::clone(&shared));
    collector.announce();
    let clock = &shared.ports.clock;
    let mut next_clean = clock.steady() + CLEAN_EVERY / 60;
    loop {
        let next_due = match collector.tick_and_beat().await {
            // At least the shortest sleep: sources that were just queued are not due again at once.
            Ok(due) => due.next.map(|next| clock.steady() + next.since(due.now).max(SHORTEST_SLEEP)),
            Err(error) => {
                events::store_failed("collector", "tick", &error);
                None
            }
        };
        if clock.steady() >= next_clean {
            next_clean = clock.steady() + CLEAN_EVERY;
            collector.clean().await;
        }
        let tick = clock.steady() + shared.options.collector.tick;
        let wake = next_due.map_or(tick, |due| tick.min(due));
        tokio::select! {
            () = shared.drain.cancelled() => break,
            () = shared.collector_nudge.notified() => {}
            () = sleep_until(clock.steady(), wake) => {}
        }
    }
    let _ = shared.ports.store.run(collector.beat(true)).await;
}

/// Queues the polls of due sources.
#[derive(Debug)]
struct CollectorService {
    shared: Arc<Shared>,
    queue: PollQueue,
    /// The types as last stored.
    stored_types: Vec<SourceTypeRow>,
}

impl CollectorService {
    fn new(shared: Arc<Shared>) -> CollectorService {
        let queue = PollQueue::new(Arc::clone(&shared.ports.store));
        CollectorService { shared, queue, stored_types: Vec::new() }
    }

    fn announce(&self) {
        let options = &self.shared.options.collector;
        let intervals: BTreeMap<_, _> = options.intervals.iter().map(|(name, at)| (name, at.minutes)).collect();
        tracing::info!(
            tick_seconds = options.tick.as_secs(),
            concurrency = options.concurrency,
            intervals_in_minutes = ?intervals,
            "the collector has started"
        );
    }

    fn beat(&self, leaving: bool) -> Heartbeat {
        let options = &self.shared.options;
        Heartbeat {
            owner: options.owner.clone(),
            tick: options.collector.tick,
            concurrency: options.collector.concurrency,
            leaving,
        }
    }

    /// One round of a running collector.
    async fn tick_and_beat(&mut self) -> Result<DueSources, TxError> {
        let due = self.tick().await?;
        crash::point("after-tick");
        self.shared.ports.store.run(self.beat(false)).await?;
        Ok(due)
    }

    /// Queues the polls of due sources, and returns these sources.
    async fn tick(&mut self) -> Result<DueSources, TxError> {
        self.sync_types().await?;
        let store = Arc::clone(&self.shared.ports.store);
        let by_clock = self.scrape().await?;
        let mut due = store.due(MAX_DUE).await?;
        due.next = due.next.into_iter().chain(by_clock).min();
        if !due.sources.is_empty() {
            tracing::info!("{} source(s) due", due.sources.len());
        }
        for some in due.sources.chunks(MAX_SOURCES) {
            if self.shared.drain.is_cancelled() {
                return Ok(due);
            }
            let ids = some.iter().map(|id| id.0).collect();
            let mut sources = store.sources(SourceFilter { ids: Some(ids), ..SourceFilter::default() }).await?;
            // Restores the order in which they are due.
            let order: BTreeMap<_, _> = some.iter().enumerate().map(|(index, id)| (*id, index)).collect();
            sources.sort_by_key(|source| order.get(&source.id).copied());
            self.queue.add(&sources, TriggerType::Schedule, due.now).await?;
            self.shared.poll_nudge.notify_one();
        }
        Ok(due)
    }

    /// Begins the scheduled scrape if it is due, and returns when the next one is.
    async fn scrape(&self) -> Result<Option<Ts>, TxError> {
        let store = &self.shared.ports.store;
        let settings = store.settings().await?;
        if scrape::switched_off(&**store, &settings).await?.is_some() {
            return Ok(None);
        }
        scrape::schedule::fire(store, &settings, self.shared.ports.clock.now()).await
    }

    /// Stores the source types when they have changed.
    async fn sync_types(&mut self) -> Result<(), TxError> {
        let store = &self.shared.ports.store;
        let types = types(&**store, &self.shared.options.collector.intervals).await?;
        if types != self.stored_types {
            let moved = store.run(SyncTypes { types: types.clone() }).await?.moved;
            if moved > 0 {
                tracing::info!(moved, "sources follow another interval");
            }
            self.stored_types = types;
        }
        Ok(())
    }

    /// Empties old articles and forgets old polls, unless any process has done so within the hour (COLL-43).
    async fn clean(&self) {
        match self.is_to_clean().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return events::store_failed("collector", "PurgeExpired", &error),
        }
        let options = &self.shared.options.collector;
        let mut sum = ExpiredPurged::default();
        loop {
            let clean = PurgeExpired {
                keep: options.keep_items,
                keep_ledger: options.keep_ledger,
                keep_jobs: options.keep_jobs,
                limit: CLEAN_AT_ONCE,
            };
            match self.shared.ports.store.run(clean).await {
                Ok(ExpiredPurged { items: 0, polls: 0, jobs: 0 }) => break,
                Ok(some) => {
                    sum.items += some.items;
                    sum.polls += some.polls;
                    sum.jobs += some.jobs;
                }
                Err(error) => {
                    events::store_failed("collector", "PurgeExpired", &error);
                    break;
                }
            }
            if self.shared.drain.is_cancelled() {
                break;
            }
        }
        if sum != ExpiredPurged::default() {
            tracing::info!(
                items = sum.items,
                polls = sum.polls,
                jobs = sum.jobs,
                "old items, polls and jobs were removed"
            );
        }
    }
}

impl CollectorService {
    async fn is_to_clean(&self) -> Result<bool, TxError> {
        let (store, now) = (&self.shared.ports.store, self.shared.ports.clock.now());
        let settings = store.settings().await?;
        let last = settings.into_iter().find(|(key, _)| key == CLEANED_AT);
        // A time in the future was written by a wrong clock.
        let last = last.and_then(|(_, at)| at.parse::<Ts>().ok()).filter(|at| *at <= now);
        if last.is_some_and(|at| now.since(at) < CLEAN_EVERY) {
            return Ok(false);
        }
        store.run(SaveSetting { key: CLEANED_AT.to_owned(), value: Some(now.to_string()) }).await?;
        Ok(true)
    }
}

/// Stores the source types and queues the polls of all due sources once, for a process without a running collector.
/// Returns the due sources.
pub(crate) async fn poll_due(shared: &Arc<Shared>) -> Result<Vec<SourceId>, TxError> {
    Ok(CollectorService::new(Arc::clone(shared)).tick().await?.sources)
}

/// Removes expired items, polls and jobs, if that is due.
pub(crate) async fn clean(shared: &Arc<Shared>) {
    CollectorService::new(Arc::clone(shared)).clean().await;
}

/// Stores the types where no collector has run yet, so that new sources become due.
pub async fn introduce_types(store: &dyn Store, intervals: &Intervals) -> Result<(), TxError> {
    if store.source_types().await?.is_empty() {
        let types = types(store, intervals).await?;
        store.run(SyncTypes { types }).await?;
    }
    Ok(())
}

/// Rows of the source types: the intervals in force, and why a type is not supported.
async fn types(store: &dyn Store, intervals: &Intervals) -> Result<Vec<SourceTypeRow>, TxError> {
    let settings = store.settings().await?;
    let mut intervals = intervals.clone();
    intervals.config(settings.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let no_tweets = scrape::switched_off(store, &settings).await?;
    let by_clock = scrape::schedule::instead_of_interval(&settings);
    let row = |(name, interval): (&str, _)| SourceTypeRow {
        r#type: name.to_owned(),
        interval,
        unsupported: sources::unsupported(name)
            .or(no_tweets.clone().filter(|_| sources::is_of_tweets(name)))
            .or(by_clock.clone().filter(|_| name == sources::TWITTER_FEED)),
    };
    Ok(intervals.iter().map(row).collect())
}

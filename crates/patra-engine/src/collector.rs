//! The collector's service: at every tick, and whenever a source falls due, its poll is queued; the executor of polls does
//! the rest. What must survive is in the store: two collectors, or one that was killed, lose and repeat nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use patra_core::port::source::{Due, Source, SourceFilter};
use patra_core::port::{CommandsExt as _, Store};
use patra_core::source::{Intervals, Turns};
use patra_core::state::{Operation, TriggerType};
use patra_core::tx::{
    Beat, Clean, Cleaned, Configure, HurryPoll, MAX_SOURCES, NewPoll, Poll, SyncTypes, TxError, TypeRow, UnfitPoll,
};
use patra_core::{SourceId, TaskId, Ts, hash, params};

use crate::compile::{Compiler, Frozen};
use crate::credentials::credential_for;
use crate::shared::{Shared, sleep_until};
use crate::sources::{self, Target};
use crate::{crash, events};

/// How a collector goes about it.
#[derive(Clone, Debug)]
pub struct CollectorOptions {
    /// Between two looks at what is due.
    pub tick: Duration,
    /// Sources collected at the same time.
    pub concurrency: u32,
    /// By default and by environment; the configuration table comes on top.
    pub intervals: Intervals,
    /// How long articles are kept; `None`: for ever.
    pub keep_items: Option<Duration>,
    /// How long the ledger knows of a poll.
    pub keep_ledger: Duration,
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
        }
    }
}

/// Most sources that one tick queues.
const MAX_DUE: u32 = 200_000;
/// However soon the next source is due.
const SHORTEST_SLEEP: Duration = Duration::from_millis(200);
/// How often what is old is cleaned away (COLL-43).
const CLEAN_EVERY: Duration = Duration::from_secs(3_600);
/// When that was last done, in the configuration table: not more often by many processes, or by many that live for a moment.
const CLEANED_AT: &str = "collector.cleaned_at";
/// Of one cleaning transaction.
const CLEAN_AT_ONCE: u32 = 500;

pub(crate) async fn serve(shared: Arc<Shared>) {
    let mut collector = Collector::new(Arc::clone(&shared));
    collector.announce();
    let clock = &shared.ports.clock;
    let mut next_clean = clock.steady() + CLEAN_EVERY / 60;
    loop {
        let next_due = match collector.tick().await {
            // At once again would be too soon: what is queued now is due once more only when somebody says so.
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

/// Queues the polls of what is due.
#[derive(Debug)]
struct Collector {
    shared: Arc<Shared>,
    queue: Queue,
    /// What the store was last told of the types.
    told: Vec<TypeRow>,
}

/// Makes polls of sources.
#[derive(Debug)]
struct Queue {
    store: Arc<dyn Store>,
    compiler: Compiler,
    turns: Turns,
    /// Types that were warned of (COLL-30).
    warned: BTreeSet<String>,
}

impl Collector {
    fn new(shared: Arc<Shared>) -> Collector {
        let queue = Queue::new(Arc::clone(&shared.ports.store));
        Collector { shared, queue, told: Vec::new() }
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

    fn beat(&self, leaving: bool) -> Beat {
        let options = &self.shared.options;
        Beat {
            owner: options.owner.clone(),
            tick: options.collector.tick,
            concurrency: options.collector.concurrency,
            leaving,
        }
    }

    /// Queues what is due, and tells what that was.
    async fn tick(&mut self) -> Result<Due, TxError> {
        self.sync_types().await?;
        let store = Arc::clone(&self.shared.ports.store);
        let due = store.due(MAX_DUE).await?;
        if !due.sources.is_empty() {
            tracing::info!("{} source(s) due", due.sources.len());
        }
        for some in due.sources.chunks(MAX_SOURCES) {
            if self.shared.drain.is_cancelled() {
                return Ok(due);
            }
            let ids = some.iter().map(|id| id.0).collect();
            let mut sources = store.sources(SourceFilter { ids: Some(ids), ..SourceFilter::default() }).await?;
            // In the order in which they are due, which the answer has forgotten.
            let place: BTreeMap<_, _> = some.iter().enumerate().map(|(place, id)| (*id, place)).collect();
            sources.sort_by_key(|source| place.get(&source.id).copied());
            self.queue.add(&sources, TriggerType::Schedule, due.now).await?;
            self.shared.poll_nudge.notify_one();
        }
        crash::point("after-tick");
        store.run(self.beat(false)).await?;
        Ok(due)
    }

    /// Tells the store what is known of the types, when that has changed.
    async fn sync_types(&mut self) -> Result<(), TxError> {
        let store = &self.shared.ports.store;
        let types = types(&**store, &self.shared.options.collector.intervals).await?;
        if types != self.told {
            let moved = store.run(SyncTypes { types: types.clone() }).await?.moved;
            if moved > 0 {
                tracing::info!(moved, "sources follow another interval");
            }
            self.told = types;
        }
        Ok(())
    }

    /// Empties old articles and forgets old polls, unless somebody has done so within the hour (COLL-43).
    async fn clean(&self) {
        match self.is_to_clean().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return events::store_failed("collector", "Clean", &error),
        }
        let options = &self.shared.options.collector;
        let mut sum = Cleaned::default();
        loop {
            let clean = Clean { keep: options.keep_items, keep_ledger: options.keep_ledger, limit: CLEAN_AT_ONCE };
            match self.shared.ports.store.run(clean).await {
                Ok(Cleaned { items: 0, polls: 0 }) => break,
                Ok(some) => {
                    sum.items += some.items;
                    sum.polls += some.polls;
                }
                Err(error) => {
                    events::store_failed("collector", "Clean", &error);
                    break;
                }
            }
            if self.shared.drain.is_cancelled() {
                break;
            }
        }
        if sum != Cleaned::default() {
            tracing::info!(items = sum.items, polls = sum.polls, "old items and polls were cleaned away");
        }
    }
}

impl Collector {
    async fn is_to_clean(&self) -> Result<bool, TxError> {
        let (store, now) = (&self.shared.ports.store, self.shared.ports.clock.now());
        let settings = store.settings().await?;
        let last = settings.into_iter().find(|(key, _)| key == CLEANED_AT);
        // One that is yet to come was written by a clock that was wrong.
        let last = last.and_then(|(_, at)| at.parse::<Ts>().ok()).filter(|at| *at <= now);
        if last.is_some_and(|at| now.since(at) < CLEAN_EVERY) {
            return Ok(false);
        }
        store.run(Configure { key: CLEANED_AT.to_owned(), value: Some(now.to_string()) }).await?;
        Ok(true)
    }
}

impl Queue {
    fn new(store: Arc<dyn Store>) -> Queue {
        Queue { store, compiler: Compiler::default(), turns: Turns::default(), warned: BTreeSet::new() }
    }

    /// Queues polls of these sources; of which the tasks, in their order.
    async fn add(
        &mut self,
        sources: &[Source],
        trigger_type: TriggerType,
        now: Ts,
    ) -> Result<Vec<Option<TaskId>>, TxError> {
        let (mut polls, mut snapshots) = (Vec::new(), BTreeMap::new());
        let (mut places, mut unfit) = (Vec::new(), Vec::new());
        for (place, source) in sources.iter().enumerate() {
            if let Some(why) = &source.unsupported {
                self.warn(&source.r#type, why);
                continue;
            }
            match self.poll(source, trigger_type, now, &mut snapshots).await {
                Ok(poll) => {
                    places.push(place);
                    polls.push(poll);
                }
                Err(Unfit::Store(error)) => return Err(error),
                // Its config was checked when it was stored; what it names has gone since. That is a failure like any other
                // (COLL-50), or else it would be due for ever and nobody would know why it brings nothing.
                Err(Unfit::Refused(reason)) => {
                    tracing::warn!(source = source.id.0, name = source.name, "cannot be polled: {reason}");
                    unfit.push(UnfitPoll { source: source.id, poll_count: source.poll_count, reason });
                }
            }
        }
        let mut tasks = vec![None; sources.len()];
        if !polls.is_empty() || !unfit.is_empty() {
            let poll = Poll { polls, unfit, snapshots: snapshots.into_iter().collect() };
            let queued = self.store.run(Arc::new(poll)).await?;
            for (place, task) in places.into_iter().zip(queued.tasks) {
                tasks[place] = task;
            }
        }
        Ok(tasks)
    }

    async fn poll(
        &mut self,
        source: &Source,
        trigger_type: TriggerType,
        now: Ts,
        snapshots: &mut BTreeMap<String, String>,
    ) -> Result<NewPoll, Unfit> {
        let config: Value = serde_json::from_str(&source.config).map_err(|error| error.to_string())?;
        let mut target = sources::target(&source.r#type, &config)?;
        let store = Arc::clone(&self.store);
        // Reddit tells more to those who say who they are.
        if target.endpoint_name == "reddit" {
            let with_scores = Target { endpoint_name: "reddit_posts".to_owned(), ..target.clone() };
            let frozen = self.compiler.endpoint(&*store, &with_scores).await?;
            let credential =
                credential_for(&*store, &with_scores.provenance_code, "reddit_posts", &frozen.snapshot.auth);
            if credential.await.is_ok_and(|credential| credential.is_some()) {
                target = with_scores;
            }
        }
        let (frozen, resolved) = resolved(&mut self.compiler, &*store, &target).await?;
        let snapshot = &frozen.snapshot;
        let credential =
            credential_for(&*store, &target.provenance_code, &target.endpoint_name, &snapshot.auth).await?;
        let url = match &snapshot.http.url_param {
            Some(param) => resolved.get(param).cloned().unwrap_or_default(),
            None => snapshot.http.base_url.clone(),
        };
        let host = patra_spec::host_key(&url).trim_start_matches("host:").to_owned();
        let hash = &snapshot.spec_fingerprint;
        snapshots.entry(hash.clone()).or_insert_with(|| frozen.body.clone());
        let text = params::to_text(&resolved);
        Ok(NewPoll {
            source: source.id,
            poll_count: source.poll_count,
            trigger_type,
            provenance_code: target.provenance_code,
            endpoint_name: target.endpoint_name,
            at: if trigger_type == TriggerType::Schedule { self.turns.take(&host, now) } else { now },
            host,
            snapshot_hash: hash.clone(),
            credential,
            expr_hash: hash::digest(&["poll", hash, &text]),
            params: task_params(source, &text),
            priority: Operation::Harvest.priority(),
        })
    }

    fn warn(&mut self, r#type: &str, why: &str) {
        if self.warned.insert(r#type.to_owned()) {
            tracing::warn!(r#type, "sources of this type are skipped: {why}");
        }
    }
}

/// The endpoint of a target, and the params that it is asked with.
async fn resolved(
    compiler: &mut Compiler,
    store: &dyn Store,
    target: &Target,
) -> Result<(Arc<Frozen>, params::Params), Unfit> {
    let frozen = compiler.endpoint(store, target).await?;
    if !frozen.snapshot.polled {
        let place = format!("{}/{}", target.provenance_code, target.endpoint_name);
        return Err(format!("{place} is not for sources: its manifest does not say `polled: true`").into());
    }
    let resolved = frozen.snapshot.resolve_params(&target.params).map_err(|fault| fault.message)?;
    Ok((frozen, resolved))
}

/// Whether polls of a source with this config can be made: what it names must be there and take its params. The inner error is
/// a sentence about what is wrong. Of what nobody fetches nothing is known.
pub async fn check_source(store: &dyn Store, r#type: &str, config: &str) -> Result<Result<(), String>, TxError> {
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    if sources::unsupported(r#type).is_some() {
        return Ok(Ok(()));
    }
    let target = match sources::target(r#type, &config) {
        Ok(target) => target,
        Err(reason) => return Ok(Err(reason)),
    };
    match resolved(&mut Compiler::default(), store, &target).await {
        Ok(_) => Ok(Ok(())),
        Err(Unfit::Refused(reason)) => Ok(Err(reason)),
        Err(Unfit::Store(error)) => Err(error),
    }
}

/// `ing_task.params`: what the templates read, and by what people know the source.
fn task_params(source: &Source, params: &str) -> String {
    let known = serde_json::json!({ "id": source.id, "name": source.name, "type": source.r#type });
    format!("{{\"params\":{params},\"source\":{known}}}")
}

/// Why a source cannot be polled.
enum Unfit {
    Refused(String),
    Store(TxError),
}

impl From<String> for Unfit {
    fn from(reason: String) -> Unfit {
        Unfit::Refused(reason)
    }
}

impl From<patra_core::protocol::planner::NotCompiled> for Unfit {
    fn from(error: patra_core::protocol::planner::NotCompiled) -> Unfit {
        match error {
            patra_core::protocol::planner::NotCompiled::Refused(reason) => Unfit::Refused(reason),
            patra_core::protocol::planner::NotCompiled::Away(error) => Unfit::Store(error),
        }
    }
}

impl From<TxError> for Unfit {
    fn from(error: TxError) -> Unfit {
        Unfit::Store(error)
    }
}

/// What came of the wish to poll a source now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The poll that was queued, or hurried, or is under way.
    Task(TaskId),
    /// Nobody can fetch it, and why.
    Skipped(String),
    /// There is no such source, or it cannot be polled: a sentence about why.
    Refused(String),
}

/// Queues a poll of one source at once, whatever its interval and also while it is paused (COLL-45).
pub async fn poll_now(store: &Arc<dyn Store>, id: SourceId, by: TriggerType) -> Result<Asked, TxError> {
    // Twice: a poll may end, or another may be queued, in between.
    for _ in 0..2 {
        let filter = SourceFilter { ids: Some(vec![id.0]), ..SourceFilter::default() };
        let Some(source) = store.sources(filter).await?.pop() else {
            return Ok(Asked::Refused(format!("there is no source {id}")));
        };
        if let Some(why) = sources::unsupported(&source.r#type) {
            return Ok(Asked::Skipped(why));
        }
        if let Some(task) = store.run(HurryPoll { source: id }).await?.task {
            return Ok(Asked::Task(task));
        }
        let mut queue = Queue::new(Arc::clone(store));
        let (mut snapshots, now) = (BTreeMap::new(), Ts::from_secs(0));
        match queue.poll(&source, by, now, &mut snapshots).await {
            Err(Unfit::Refused(reason)) => return Ok(Asked::Refused(reason)),
            Err(Unfit::Store(error)) => return Err(error),
            Ok(poll) => {
                let snapshots = snapshots.into_iter().collect();
                let poll = Poll { polls: vec![poll], unfit: Vec::new(), snapshots };
                if let Some(task) = store.run(Arc::new(poll)).await?.tasks.into_iter().next().flatten() {
                    return Ok(Asked::Task(task));
                }
            }
        }
    }
    Ok(Asked::Refused(format!("source {id} is being changed; try again")))
}

/// Tells what is known of the types and queues all that is due, once. What was due.
pub(crate) async fn poll_due(shared: &Arc<Shared>) -> Result<Vec<SourceId>, TxError> {
    Ok(Collector::new(Arc::clone(shared)).tick().await?.sources)
}

/// Cleans away what is old, if that is due.
pub(crate) async fn clean(shared: &Arc<Shared>) {
    Collector::new(Arc::clone(shared)).clean().await;
}

/// Makes the types known where no collector has run yet, so that sources that are added are due.
pub async fn introduce_types(store: &dyn Store, intervals: &Intervals) -> Result<(), TxError> {
    if store.source_types().await?.is_empty() {
        let types = types(store, intervals).await?;
        store.run(SyncTypes { types }).await?;
    }
    Ok(())
}

/// What is known of the types: the intervals in force, and who can be fetched.
async fn types(store: &dyn Store, intervals: &Intervals) -> Result<Vec<TypeRow>, TxError> {
    let settings = store.settings().await?;
    let mut intervals = intervals.clone();
    intervals.config(settings.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let row = |(name, interval): (&str, _)| TypeRow {
        r#type: name.to_owned(),
        interval,
        unsupported: sources::unsupported(name),
    };
    Ok(intervals.iter().map(row).collect())
}

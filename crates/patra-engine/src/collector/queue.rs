//! Makes polls of sources: for due sources, for one source on request, and for many as one job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use patra_core::port::source::{SourceFilter, StoredSource};
use patra_core::port::{CommandsExt as _, Store};
use patra_core::source::{FETCH_NOW_PRIORITY, FIRST_FETCH_PRIORITY, HostSpacing};
use patra_core::state::{Operation, TriggerType};
use patra_core::tweet::{FetchStats, MAX_LIMIT};
use patra_core::tx::{HurryPoll, NewPoll, QueuePolls, ScrapeConflict, ScrapeJob, TxError, UnfitPoll};
use patra_core::{SourceId, TaskId, Ts, hash, params};

use crate::compile::{Compiler, FrozenSpec};
use crate::credentials::credential_for;
use crate::scrape;
use crate::sources::{self, PollTarget, TweetUpstream};

/// Queues polls of sources.
#[derive(Debug)]
pub(super) struct PollQueue {
    store: Arc<dyn Store>,
    compiler: Compiler,
    turns: HostSpacing,
    /// First polls do not wait for the turns of the regular ones.
    first_turns: HostSpacing,
    /// Types that a warning was logged for (COLL-30).
    warned: BTreeSet<String>,
}

impl PollQueue {
    /// A queue with another upstream of tweets than the settings say.
    fn with_upstream(store: Arc<dyn Store>, tweets: TweetUpstream) -> PollQueue {
        PollQueue { compiler: Compiler::with_tweets(tweets), ..PollQueue::new(store) }
    }

    pub(super) fn new(store: Arc<dyn Store>) -> PollQueue {
        let (turns, first_turns) = (HostSpacing::default(), HostSpacing::default());
        PollQueue { store, compiler: Compiler::default(), turns, first_turns, warned: BTreeSet::new() }
    }

    /// Queues polls of these sources; returns their tasks in the same order.
    pub(super) async fn add(
        &mut self,
        sources: &[StoredSource],
        trigger_type: TriggerType,
        now: Ts,
    ) -> Result<Vec<Option<TaskId>>, TxError> {
        let (mut polls, mut snapshots) = (Vec::new(), BTreeMap::new());
        let (mut places, mut unfit) = (Vec::new(), Vec::new());
        let reach = reach(&*self.store, sources).await?;
        for (place, source) in sources.iter().enumerate() {
            if let Some(why) = &source.unsupported {
                self.warn(&source.r#type, why);
                continue;
            }
            match self.poll(source, reach.get(&source.id), trigger_type, now, &mut snapshots).await {
                Ok(poll) => {
                    places.push(place);
                    polls.push(poll);
                }
                Err(UnfitSource::Store(error)) => return Err(error),
                // The config was valid when it was stored, but its provenance or endpoint is gone. This counts as a
                // failed poll (COLL-50); otherwise the source would stay due for ever without an error.
                Err(UnfitSource::Refused(reason)) => {
                    tracing::warn!(source = source.id.0, name = source.name, "cannot be polled: {reason}");
                    unfit.push(UnfitPoll { source: source.id, poll_count: source.poll_count, reason });
                }
            }
        }
        let mut tasks = vec![None; sources.len()];
        if !polls.is_empty() || !unfit.is_empty() {
            let poll = QueuePolls { polls, unfit, snapshots: snapshots.into_iter().collect(), job: None };
            let queued = self.store.run(Arc::new(poll)).await?;
            for (place, task) in places.into_iter().zip(queued.tasks) {
                tasks[place] = task;
            }
        }
        Ok(tasks)
    }

    async fn poll(
        &mut self,
        source: &StoredSource,
        reach: Option<&TweetReach>,
        trigger_type: TriggerType,
        now: Ts,
        snapshots: &mut BTreeMap<String, String>,
    ) -> Result<NewPoll, UnfitSource> {
        let config: Value = serde_json::from_str(&source.config).map_err(|error| error.to_string())?;
        let mut target = sources::target(&source.r#type, &config)?;
        let store = Arc::clone(&self.store);
        if let Some(reach) = reach {
            target.params.insert("limit".to_owned(), reach.limit.to_string());
            if trigger_type == TriggerType::Schedule {
                target.params.insert("limit_max".to_owned(), MAX_LIMIT.to_string());
                let paging = self.compiler.endpoint(&*store, &target).await?.snapshot.pagination.clone();
                let until = paging.and_then(|paging| paging.until_param);
                target.params.extend(until.zip(reach.newest_id.clone()));
            }
        }
        // Reddit returns more to authenticated clients.
        if target.endpoint_name == "reddit" {
            let with_scores = PollTarget { endpoint_name: "reddit_posts".to_owned(), ..target.clone() };
            let frozen = self.compiler.endpoint(&*store, &with_scores).await?;
            let credential =
                credential_for(&*store, &with_scores.provenance_code, "reddit_posts", &frozen.snapshot.auth);
            if credential.await.is_ok_and(|credential| credential.is_some()) {
                target = with_scores;
            }
        }
        let (frozen, resolved) = resolved(&mut self.compiler, &*store, &target).await?;
        frozen.check_project(&target.provenance_code, &source.project_key)?;
        let snapshot = &frozen.snapshot;
        let credential =
            credential_for(&*store, &target.provenance_code, &target.endpoint_name, &snapshot.auth).await?;
        let url = match &snapshot.http.url_param {
            Some(param) => resolved.get(param).cloned().unwrap_or_default(),
            None => snapshot.http.base_url.clone(),
        };
        // A rate key limits the requests already, so polls need no limit per host.
        let host = match sources::is_of_tweets(&source.r#type) {
            true => format!("{}#{}", target.provenance_code, source.id),
            false => patra_spec::host_key(&url).trim_start_matches("host:").to_owned(),
        };
        let hash = &snapshot.spec_fingerprint;
        snapshots.entry(hash.clone()).or_insert_with(|| frozen.body.clone());
        let text = params::to_text(&resolved);
        let state = &source.state;
        let is_first = state.last_fetched_at.is_none() && state.last_error.is_none();
        let (at, priority) = match trigger_type {
            TriggerType::Schedule if is_first => (self.first_turns.take(&host, now), FIRST_FETCH_PRIORITY),
            TriggerType::Schedule => (self.turns.take(&host, now), Operation::Harvest.priority()),
            _ => (now, FETCH_NOW_PRIORITY),
        };
        Ok(NewPoll {
            source: source.id,
            poll_count: source.poll_count,
            trigger_type,
            provenance_code: target.provenance_code,
            endpoint_name: target.endpoint_name,
            at,
            host,
            snapshot_hash: hash.clone(),
            credential,
            expr_hash: hash::digest(&["poll", hash, &text]),
            params: task_params(source, &text),
            priority,
        })
    }

    fn warn(&mut self, r#type: &str, why: &str) {
        if self.warned.insert(r#type.to_owned()) {
            tracing::warn!(r#type, "sources of this type are skipped: {why}");
        }
    }
}

/// The endpoint of a target, and the params of its requests.
async fn resolved(
    compiler: &mut Compiler,
    store: &dyn Store,
    target: &PollTarget,
) -> Result<(Arc<FrozenSpec>, params::Params), UnfitSource> {
    let frozen = compiler.endpoint(store, target).await?;
    if !frozen.snapshot.polled {
        let place = format!("{}/{}", target.provenance_code, target.endpoint_name);
        return Err(format!("{place} is not for sources: its manifest does not say `polled: true`").into());
    }
    let resolved = frozen.snapshot.resolve_params(&target.params).map_err(|fault| fault.message)?;
    Ok((frozen, resolved))
}

/// Checks a config: the provenance and endpoint must exist and accept the params. The inner error is a sentence about
/// the problem. Unsupported types are not checked.
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
        Err(UnfitSource::Refused(reason)) => Ok(Err(reason)),
        Err(UnfitSource::Store(error)) => Err(error),
    }
}

/// `ing_task.params`: values for the templates, and the name of the source.
fn task_params(source: &StoredSource, params: &str) -> String {
    let known = serde_json::json!({ "id": source.id, "name": source.name, "type": source.r#type });
    format!("{{\"params\":{params},\"source\":{known}}}")
}

/// Why a source cannot be polled.
pub(crate) enum UnfitSource {
    Refused(String),
    Store(TxError),
}

impl From<String> for UnfitSource {
    fn from(reason: String) -> UnfitSource {
        UnfitSource::Refused(reason)
    }
}

impl From<patra_core::protocol::planner::CompileError> for UnfitSource {
    fn from(error: patra_core::protocol::planner::CompileError) -> UnfitSource {
        match error {
            patra_core::protocol::planner::CompileError::Refused(reason) => UnfitSource::Refused(reason),
            patra_core::protocol::planner::CompileError::Away(error) => UnfitSource::Store(error),
        }
    }
}

impl From<TxError> for UnfitSource {
    fn from(error: TxError) -> UnfitSource {
        UnfitSource::Store(error)
    }
}

/// Result of a request to poll a source now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PollRequested {
    /// The poll that was queued, moved forward, or is in progress.
    Task(TaskId),
    /// The source cannot be fetched: the reason.
    Skipped(String),
    /// The source does not exist or cannot be polled: a sentence with the reason.
    Refused(String),
}

/// Queues a poll of one source at once, whatever its interval and also while it is paused (COLL-45).
pub async fn poll_now(store: &Arc<dyn Store>, id: SourceId, by: TriggerType) -> Result<PollRequested, TxError> {
    poll_now_from(store, id, by, &TweetUpstream::default()).await
}

/// Queues a poll of one source at once, with another upstream of tweets than the settings say.
pub async fn poll_now_from(
    store: &Arc<dyn Store>,
    id: SourceId,
    by: TriggerType,
    upstream: &TweetUpstream,
) -> Result<PollRequested, TxError> {
    // Two attempts: a poll may end, or another may be queued, in between.
    for _ in 0..2 {
        let filter = SourceFilter { ids: Some(vec![id.0]), ..SourceFilter::default() };
        let Some(source) = store.sources(filter).await?.pop() else {
            return Ok(PollRequested::Refused(format!("there is no source {id}")));
        };
        let no_tweets = match sources::is_of_tweets(&source.r#type) {
            true => scrape::not_configured(&**store).await?,
            false => None,
        };
        if let Some(why) = sources::unsupported(&source.r#type).or(no_tweets) {
            return Ok(PollRequested::Skipped(why));
        }
        if let Some(task) = store.run(HurryPoll { source: id }).await?.task {
            return Ok(PollRequested::Task(task));
        }
        let mut queue = PollQueue::with_upstream(Arc::clone(store), upstream.clone());
        let (mut snapshots, now) = (BTreeMap::new(), Ts::from_secs(0));
        let reach = reach(&**store, std::slice::from_ref(&source)).await?;
        match queue.poll(&source, reach.get(&id), by, now, &mut snapshots).await {
            Err(UnfitSource::Refused(reason)) => return Ok(PollRequested::Refused(reason)),
            Err(UnfitSource::Store(error)) => return Err(error),
            Ok(poll) => {
                let snapshots = snapshots.into_iter().collect();
                let poll = QueuePolls { polls: vec![poll], unfit: Vec::new(), snapshots, job: None };
                if let Some(task) = store.run(Arc::new(poll)).await?.tasks.into_iter().next().flatten() {
                    return Ok(PollRequested::Task(task));
                }
            }
        }
    }
    Ok(PollRequested::Refused(format!("source {id} is being changed; try again")))
}

/// How far a poll of tweets reads.
#[derive(Clone, PartialEq, Debug)]
struct TweetReach {
    limit: u32,
    /// A scheduled poll ends at this tweet: it and the older ones are stored.
    newest_id: Option<String>,
}

impl Default for TweetReach {
    fn default() -> TweetReach {
        FetchStats::default().into()
    }
}

impl From<FetchStats> for TweetReach {
    fn from(stats: FetchStats) -> TweetReach {
        TweetReach { limit: stats.limit(), newest_id: stats.newest_id }
    }
}

/// How far the polls of users read, by how earlier fetches went (TWEET-72).
async fn reach(store: &dyn Store, sources: &[StoredSource]) -> Result<BTreeMap<SourceId, TweetReach>, TxError> {
    let feeds: Vec<_> =
        sources.iter().filter(|source| source.r#type == sources::TWITTER_FEED).map(|source| source.id).collect();
    if feeds.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut known: BTreeMap<_, _> = store.fetch_stats(&feeds).await?.into_iter().collect();
    Ok(feeds.into_iter().map(|id| (id, known.remove(&id).unwrap_or_default().into())).collect())
}

/// Queues polls of these sources as one job. Returns the sources that a scheduled job leaves out; or, when no poll was
/// queued, the job that already polls one of them.
pub(crate) async fn poll_job(
    store: &Arc<dyn Store>,
    sources: &[StoredSource],
    limit: Option<u32>,
    job: ScrapeJob,
    upstream: &TweetUpstream,
) -> Result<Result<Vec<SourceId>, ScrapeConflict>, UnfitSource> {
    let mut queue = PollQueue::with_upstream(Arc::clone(store), upstream.clone());
    let (mut snapshots, now) = (BTreeMap::new(), Ts::from_secs(0));
    let mut reach = reach(&**store, sources).await?;
    let mut polls = Vec::with_capacity(sources.len());
    for source in sources {
        let mut reach = reach.remove(&source.id).unwrap_or_default();
        reach.limit = limit.unwrap_or(reach.limit);
        polls.push(queue.poll(source, Some(&reach), job.trigger_type, now, &mut snapshots).await?);
    }
    let snapshots = snapshots.into_iter().collect();
    let poll = QueuePolls { polls, unfit: Vec::new(), snapshots, job: Some(job) };
    let queued = store.run(Arc::new(poll)).await?;
    if let Some(conflict) = queued.busy {
        return Ok(Err(conflict));
    }
    let left_out = sources.iter().zip(queued.tasks).filter(|(_, task)| task.is_none());
    Ok(Ok(left_out.map(|(source, _)| source.id).collect()))
}

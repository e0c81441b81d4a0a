//! Scrapes tweets of users on request: a job that polls one source for each of them. A followed user has a source of
//! type `twitter_feed` already; for others one is made that is not collected by itself.

pub(crate) mod existence;
pub(crate) mod schedule;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use patra_core::alert::{AlertRule, UPSTREAM_REFUSED, UPSTREAM_THROTTLES};
use patra_core::port::pool::JobPoll;
use patra_core::port::query::{Cell, JobProgress, View, ViewFilter, ViewRow};
use patra_core::port::source::{SourceFilter, StoredSource};
use patra_core::port::{CommandsExt as _, Queries, Store};
use patra_core::protocol::run::{RunOutcome, RunSummary};
use patra_core::state::{TaskStatus, TriggerType};
use patra_core::tx::{CancelSubject, CancelWork, Lease, SaveSources, SavedSource, ScrapeConflict, ScrapeJob, TxError};
use patra_core::{Code, SourceId, Ts};

use crate::alerts::{self, AlertCondition};
use crate::shared::{Shared, lock};
use crate::sources::{self, SourceDraft, TWITTER, TWITTER_FEED, TweetUpstream};
use crate::{collector, events};

pub use schedule::SCRAPER_CRON;

/// Job type of scrapes in the ledger.
pub const JOB_TYPE: &str = "tweet_scrape";
/// Most users of one job.
pub const MAX_USERS: usize = 1_000;

/// Parameters of a scrape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrapeRequest {
    pub public_id: String,
    pub project_key: String,
    /// Names in the form of [`patra_core::tweet::usernames`].
    pub usernames: Vec<String>,
    /// Tweets per user; by fetch statistics when not given (TWEET-72).
    pub limit: Option<u32>,
    pub trigger_type: TriggerType,
    pub request_id: Option<String>,
    /// Where this scrape reads, if it differs from the settings.
    pub upstream: TweetUpstream,
}

/// Why a scrape was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    NotConfigured(String),
    #[error("a scrape of {} is already running", usernames.join(", "))]
    Conflict { public_id: String, usernames: Vec<String> },
    #[error("the sources of these users are being changed; try again")]
    Changed,
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] TxError),
}

/// Why the upstream cannot be used, if so: a sentence that says what to do.
pub async fn not_configured(queries: &dyn Queries) -> Result<Option<String>, TxError> {
    let of = |status: &str| ViewFilter {
        provenance_code: Some(TWITTER.to_owned()),
        status: Some(status.to_owned()),
        limit: 1,
        ..ViewFilter::default()
    };
    if queries.list(View::Credentials, of("ACTIVE")).await?.is_empty() {
        return Ok(Some(
            "no API key for TwitterAPI.io is configured: set TWITTER_API_KEY, or `patra credential add`".to_owned(),
        ));
    }
    Ok(None)
}

/// Why scheduled collection of tweets is off, if so (TWEET-115).
pub(crate) async fn switched_off(
    queries: &dyn Queries,
    settings: &[(String, String)],
) -> Result<Option<String>, TxError> {
    match settings.iter().any(|(key, value)| key == collector::SCRAPER_ENABLED && value == "false") {
        true => Ok(Some("scheduled scraping is switched off by SCRAPER_ENABLED".to_owned())),
        false => not_configured(queries).await,
    }
}

/// Why scheduled collection of tweets is off, or that no user is followed.
pub async fn off(store: &dyn Store) -> Result<Option<String>, TxError> {
    if let Some(why) = switched_off(store, &store.settings().await?).await? {
        return Ok(Some(why));
    }
    let sources = store.sources(SourceFilter::default()).await?;
    let is_followed = |source: &StoredSource| source.r#type == TWITTER_FEED && source.state.paused.is_none();
    Ok((!sources.iter().any(is_followed))
        .then(|| "nobody is followed: set SCRAPER_USERNAMES, or `patra source add twitter_feed`".to_owned()))
}

/// Queues one poll for each user, as one job.
pub async fn begin(store: &Arc<dyn Store>, request: &ScrapeRequest) -> Result<(), Error> {
    if let Some(why) = not_configured(&**store).await? {
        return Err(Error::NotConfigured(why));
    }
    if let Some(hold) = stopped(&**store).await? {
        return Err(Error::NotConfigured(format!("TwitterAPI.io is stopped: {hold}")));
    }
    // Two attempts: a poll may end, or begin, in between.
    for _ in 0..2 {
        let sources = feeds(&**store, request).await?;
        match queue(store, request, &sources).await {
            Err(Error::Changed) => {}
            done => return done.map(|_| ()),
        }
    }
    Err(Error::Changed)
}

/// Returns the users that a scheduled scrape leaves out, because they are being scraped already.
async fn queue(
    store: &Arc<dyn Store>,
    request: &ScrapeRequest,
    sources: &[StoredSource],
) -> Result<Vec<String>, Error> {
    let names = |busy: &[SourceId]| -> Vec<String> {
        let name = |source: &StoredSource| busy.contains(&source.id).then(|| username(&source.config)).flatten();
        sources.iter().filter_map(name).collect()
    };
    match collector::poll_job(store, sources, request.limit, job(request), &request.upstream).await {
        Ok(Ok(left_out)) => Ok(names(&left_out)),
        Ok(Err(ScrapeConflict { public_id, .. })) if public_id.is_empty() => Err(Error::Changed),
        Ok(Err(ScrapeConflict { public_id, sources: busy })) => {
            Err(Error::Conflict { public_id, usernames: names(&busy) })
        }
        Err(collector::UnfitSource::Refused(reason)) => Err(Error::Refused(reason)),
        Err(collector::UnfitSource::Store(error)) => Err(error.into()),
    }
}

fn job(request: &ScrapeRequest) -> ScrapeJob {
    ScrapeJob {
        public_id: request.public_id.clone(),
        project_key: request.project_key.clone(),
        job_type: JOB_TYPE.to_owned(),
        trigger_type: request.trigger_type,
        provenance_code: TWITTER.to_owned(),
        endpoint_name: TWITTER_FEED.to_owned(),
        params: json!({ "usernames": request.usernames, "limit": request.limit }).to_string(),
        request_id: request.request_id.clone(),
    }
}

/// The pause that stops the connector.
struct ScrapeStop {
    id: i64,
    reason: String,
}

impl fmt::Display for ScrapeStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; fix that, then `patra resume hold {}`", self.reason, self.id)
    }
}

/// Why the connector is stopped, if it is: by a pause of it, or of every key that it has.
async fn stopped(queries: &dyn Queries) -> Result<Option<ScrapeStop>, TxError> {
    let active = ViewFilter {
        provenance_code: Some(TWITTER.to_owned()),
        status: Some("ACTIVE".to_owned()),
        limit: ViewFilter::MAX_LIMIT,
        ..ViewFilter::default()
    };
    let keys: Vec<_> = queries
        .list(View::Credentials, active)
        .await?
        .iter()
        .filter_map(|row| View::Credentials.cell(row, "id")?.as_int())
        .collect();
    let holds = queries.list(View::Holds, ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() }).await?;
    let cell = |row: &ViewRow, column| View::Holds.cell(row, column).unwrap_or(Cell::Null);
    let open: Vec<_> = holds
        .iter()
        .filter(|row| cell(row, "released_at") == Cell::Null && cell(row, "kind_code") != Cell::Text("ADVISORY".into()))
        .collect();
    let stop = |row: &ViewRow| ScrapeStop {
        id: cell(row, "id").as_int().unwrap_or_default(),
        reason: match cell(row, "reason") {
            Cell::Text(reason) => reason,
            _ => String::new(),
        },
    };
    let is_ours = |row: &&&ViewRow| {
        let endpoint = cell(row, "endpoint_name");
        cell(row, "provenance_code") == Cell::Text(TWITTER.to_owned())
            && (endpoint == Cell::Null || endpoint == Cell::Text(TWITTER_FEED.to_owned()))
    };
    if let Some(row) = open.iter().find(is_ours) {
        return Ok(Some(stop(row)));
    }
    let paused = |id: &i64| open.iter().find(|row| cell(row, "credential_id") == Cell::Int(*id));
    let all: Option<Vec<_>> = keys.iter().map(paused).collect();
    Ok(all.and_then(|rows| rows.last().map(|row| stop(row))))
}

/// The sources of the users, in their order.
async fn feeds(store: &dyn Store, request: &ScrapeRequest) -> Result<Vec<StoredSource>, Error> {
    let saved = save(store, &request.project_key, &request.usernames, false).await?;
    let ids: Vec<_> = saved.iter().map(|saved| saved.id.0).collect();
    let found = store.sources(SourceFilter { ids: Some(ids.clone()), ..SourceFilter::default() }).await?;
    let mut found: BTreeMap<_, _> = found.into_iter().map(|source| (source.id.0, source)).collect();
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

fn username(config: &str) -> Option<String> {
    let config: Value = serde_json::from_str(config).ok()?;
    Some(config["username"].as_str()?.to_owned())
}

/// State of a scrape (TWEET-108).
#[derive(Clone, PartialEq, Debug)]
pub struct ScrapeStatus {
    pub task_id: String,
    pub status: &'static str,
    pub result: Option<Value>,
    pub error: Option<Value>,
    /// Users whose polls have ended, and all users.
    pub current: usize,
    pub total: usize,
    pub created_at: Ts,
    pub updated_at: Ts,
    /// Sums for a progress bar.
    pub fetched: u64,
    pub new: u64,
}

impl ScrapeStatus {
    pub fn is_finished(&self) -> bool {
        self.result.is_some()
    }

    pub fn to_json(&self) -> Value {
        let percentage = if self.total == 0 { 0.0 } else { self.current as f64 * 100.0 / self.total as f64 };
        json!({
            "task_id": self.task_id, "status": self.status, "result": self.result, "error": self.error,
            "progress": {
                "current": self.current, "total": self.total, "percentage": (percentage * 10.0).round() / 10.0,
            },
            "created_at": self.created_at, "updated_at": self.updated_at,
        })
    }
}

/// State of the scrape with this id, if the project has one.
pub async fn status(
    store: &dyn Store,
    project: Option<&str>,
    public_id: &str,
) -> Result<Option<ScrapeStatus>, TxError> {
    let Some(progress) = store.progress(public_id).await? else { return Ok(None) };
    if progress.job_type != JOB_TYPE || project.is_some_and(|key| key != progress.project_key) {
        return Ok(None);
    }
    let polls = store.polls_of_job(progress.job.0).await?;
    Ok(Some(scrape_status(public_id, &progress, &polls)))
}

fn scrape_status(public_id: &str, progress: &JobProgress, polls: &[JobPoll]) -> ScrapeStatus {
    let ended = polls.iter().filter(|poll| poll.status.is_final());
    let finished = ended.clone().count() == polls.len();
    let current = ended.clone().filter(|poll| poll.status != TaskStatus::Cancelled).count();
    let good = |poll: &&JobPoll| matches!(poll.status, TaskStatus::Succeeded | TaskStatus::Partial);
    let successful = ended.clone().filter(good).count();
    let has_begun = polls.iter().any(|poll| poll.status != TaskStatus::Queued);
    let stop = polls.iter().find_map(stopping).or_else(|| cancelled(polls));
    let status = match (finished, has_begun) {
        (true, _) if successful > 0 && stop.is_none() => "completed",
        (true, _) => "failed",
        (false, true) => "running",
        (false, false) => "pending",
    };
    let times = polls.iter().flat_map(|poll| [poll.started_at, poll.finished_at]).flatten();
    let updated_at = times.max().unwrap_or(progress.created_at).max(progress.created_at);
    let (fetched, new) = (polls.iter().map(fetched).sum(), polls.iter().map(|poll| poll.inserted).sum());
    let result = finished.then(|| {
        // A scrape that a refusal stopped at once lists no users.
        let users: Vec<_> =
            if stop.is_some() && successful == 0 { Vec::new() } else { polls.iter().map(user).collect() };
        let errors = |poll: &JobPoll| poll.rejected + u64::from(poll.status == TaskStatus::Failed);
        let elapsed = updated_at.since(progress.created_at).as_secs_f64();
        json!({
            "total_users": polls.len(), "successful_users": successful, "failed_users": polls.len() - successful,
            "total_tweets": fetched, "new_tweets": new, "skipped_tweets": fetched - new,
            "total_errors": polls.iter().map(errors).sum::<u64>(),
            "elapsed_seconds": (elapsed * 100.0).round() / 100.0, "users": users,
        })
    });
    let error = (status == "failed").then(|| stop.unwrap_or_else(|| last_error(polls)));
    ScrapeStatus {
        task_id: public_id.to_owned(),
        status,
        result,
        error,
        current,
        total: polls.len(),
        created_at: progress.created_at,
        updated_at,
        fetched,
        new,
    }
}

fn fetched(poll: &JobPoll) -> u64 {
    poll.inserted + poll.updated + poll.skipped
}

fn fault(poll: &JobPoll) -> Option<Value> {
    serde_json::from_str(poll.error.as_deref()?).ok()
}

/// A refusal that concerns the key and not one user: it ends the whole scrape (TWEET-GAP-05).
fn stopping(poll: &JobPoll) -> Option<Value> {
    let fault = fault(poll)?;
    let code = fault["code"].as_str()?;
    let concerns_all = [Code::UpstreamAuthFailed, Code::QuotaExhausted].iter().any(|known| known.as_str() == code);
    concerns_all.then(|| json!({ "code": code, "message": fault["message"], "retryable": false }))
}

/// The error of a scrape that was cancelled (MAP-S-06).
fn cancelled(polls: &[JobPoll]) -> Option<Value> {
    let is_cancelled = polls.iter().any(|poll| poll.status == TaskStatus::Cancelled);
    is_cancelled.then(|| json!({ "code": "CANCELLED", "message": "the scrape was cancelled", "retryable": true }))
}

fn last_error(polls: &[JobPoll]) -> Value {
    match polls.iter().filter_map(fault).next_back() {
        Some(fault) => {
            json!({ "code": fault["code"], "message": fault["message"], "retryable": fault["level"] == "L1" })
        }
        None => json!({ "code": Code::InternalError, "message": "no user could be scraped", "retryable": true }),
    }
}

fn user(poll: &JobPoll) -> Value {
    let success = matches!(poll.status, TaskStatus::Succeeded | TaskStatus::Partial);
    let params: Value = serde_json::from_str(&poll.params).unwrap_or_default();
    let limit = params["params"]["limit"].as_str().and_then(|limit| limit.parse::<u32>().ok());
    let code = match poll.status {
        TaskStatus::Cancelled => Some(json!("CANCELLED")),
        TaskStatus::Failed => fault(poll).map(|fault| fault["code"].clone()),
        _ => None,
    };
    json!({
        "username": username(&poll.config), "success": success, "limit": limit, "fetched": fetched(poll),
        "new": poll.inserted, "skipped": poll.updated + poll.skipped,
        "errors": poll.rejected + u64::from(poll.status == TaskStatus::Failed), "error_code": code,
    })
}

/// Follows users (TWEET-97): adds a source for each user who has none.
pub async fn follow(store: &dyn Store, project_key: &str, usernames: &[String]) -> Result<Vec<SourceId>, Error> {
    let saved = save(store, project_key, usernames, true).await?;
    Ok(saved.iter().filter(|saved| !saved.existed).map(|saved| saved.id).collect())
}

/// Adds a source for each user who has none; existing sources stay unchanged.
async fn save(
    store: &dyn Store,
    project_key: &str,
    usernames: &[String],
    follow: bool,
) -> Result<Vec<SavedSource>, Error> {
    let of = |name: &String| SourceDraft {
        r#type: TWITTER_FEED.to_owned(),
        name: Some(format!("@{name}")),
        config: json!({ "username": name }),
        is_active: Some(follow),
        ..SourceDraft::default()
    };
    let new =
        usernames.iter().map(|name| sources::checked(of(name))).collect::<Result<_, _>>().map_err(Error::Refused)?;
    let save = SaveSources { project_key: project_key.to_owned(), sources: new };
    Ok(store.run(Arc::new(save)).await?.sources)
}

/// Handles the end of a poll beyond its source. A refused key or an exhausted balance ends the whole scrape and raises
/// an alert; so does an upstream that still throttles after the last try (TWEET-29, 30, 33). The last poll of a job
/// logs its report.
pub(crate) async fn after(shared: &Shared, lease: &Lease, ended: &RunSummary) {
    if lease.provenance_code != TWITTER || lease.source.is_none() {
        return;
    }
    let done = match &ended.outcome {
        RunOutcome::Closed(TaskStatus::Succeeded | TaskStatus::Partial, _) => update_alerts(shared, None).await,
        RunOutcome::Closed(TaskStatus::Failed, Some(fault)) => match fault.code {
            Code::UpstreamAuthFailed | Code::QuotaExhausted => {
                let updated = update_alerts(shared, Some(UPSTREAM_REFUSED)).await;
                updated.and(stop(&*shared.ports.store, lease, &fault.message).await)
            }
            Code::RateLimited => update_alerts(shared, Some(UPSTREAM_THROTTLES)).await,
            _ => Ok(()),
        },
        _ => Ok(()),
    };
    if let Err(error) = done.and(report(&*shared.ports.store, lease).await) {
        events::store_failed("scrape", "after", &error);
    }
}

/// Reports the result of the job whose last poll this was (TWEET-68).
async fn report(store: &dyn Store, lease: &Lease) -> Result<(), TxError> {
    let Some(public_id) = job_of(store, lease).await? else { return Ok(()) };
    let Some(progress) = store.progress(&public_id).await?.filter(JobProgress::is_finished) else { return Ok(()) };
    let polls = store.polls_of_job(progress.job.0).await?;
    // Of polls that end together, one counts as the last.
    let last = polls.iter().max_by_key(|poll| (poll.finished_at, poll.source)).map(|poll| poll.source);
    let status = scrape_status(&public_id, &progress, &polls);
    if let (true, Some(result)) = (last == lease.source, &status.result) {
        events::scraped(&status, result);
    }
    Ok(())
}

/// Raises one alert, or resolves both. A success resolves them once, and later ones write nothing.
async fn update_alerts(shared: &Shared, raised: Option<AlertRule>) -> Result<(), TxError> {
    let (store, notifier) = (&*shared.ports.store, shared.options.maintenance.notifier.as_deref());
    for rule in [UPSTREAM_REFUSED, UPSTREAM_THROTTLES] {
        let holds = raised.is_some_and(|raised| raised.name == rule.name);
        let Some(rule) = shared.options.maintenance.alerts.apply(&rule) else { continue };
        let is_news = match holds {
            true => {
                lock(&shared.quiet).remove(rule.name);
                true
            }
            false => raised.is_none() && lock(&shared.quiet).insert(rule.name),
        };
        if is_news {
            let value = f64::from(u8::from(holds));
            let (subject, detail) = (TWITTER.to_owned(), String::new());
            let condition = AlertCondition { rule, subject, is_met: holds, value, detail };
            alerts::update(store, notifier, condition).await?;
        }
    }
    Ok(())
}

/// Cancels the rest of the job of a poll.
async fn stop(store: &dyn Store, lease: &Lease, reason: &str) -> Result<(), TxError> {
    if let Some(public_id) = job_of(store, lease).await? {
        let (target, by) = (CancelSubject::Job(public_id), format!("task {}", lease.task));
        store.run(CancelWork { target, reason: reason.to_owned(), by }).await?;
    }
    Ok(())
}

/// The job type for capturing the URLs of a lease (POOL-89). An error here does not stop the collection of tweets.
pub(crate) async fn job_type_of(queries: &dyn Queries, lease: &Lease) -> &'static str {
    match job_of(queries, lease).await {
        Ok(Some(_)) => JOB_TYPE,
        Ok(None) => TWITTER_FEED,
        Err(error) => {
            events::store_failed("scrape", "job_type_of", &error);
            TWITTER_FEED
        }
    }
}

/// The public id of the job that a poll belongs to, if any.
async fn job_of(queries: &dyn Queries, lease: &Lease) -> Result<Option<String>, TxError> {
    let of = |id: i64| ViewFilter { id: Some(id), limit: 1, ..ViewFilter::default() };
    let poll = queries.list(View::Jobs, of(lease.lineage.job.0)).await?;
    let parent = poll.first().and_then(|row| View::Jobs.cell(row, "parent_id")).and_then(|id| id.as_int());
    let Some(parent) = parent else { return Ok(None) };
    let job = queries.list(View::Jobs, of(parent)).await?;
    match job.first().and_then(|row| View::Jobs.cell(row, "public_id")) {
        Some(Cell::Text(public_id)) => Ok(Some(public_id)),
        _ => Ok(None),
    }
}

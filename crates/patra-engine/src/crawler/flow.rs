//! The built-in orchestrator (CRAWL-133): search, candidates, claim, detail, write, release. It takes the same locks as
//! external orchestrators, so both can run side by side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use patra_core::crawl::{CandidateAttempt, CrawlCandidate};
use patra_core::hash::content_hash;
use patra_core::port::crawl::CrawlFilter;
use patra_core::port::{CommandsExt as _, CrawlQueries, Store};
use patra_core::secret::Secret;
use patra_core::state::ExecutionStatus;
use patra_core::tx::{
    AcquireExecution, AddCandidates, CandidatesClaimed, ClaimCandidates, EndExecution, ExecutionAcquired,
    ExecutionKept, FailCandidate, KeepExecution, NewCandidate, NewNote, NoteWritten, TxError, WriteNote,
};
use patra_core::vault::VaultCell;
use patra_core::{Code, Ts};

use super::{CrawlContext, CrawlFailure, Crawler, NoteRequest, SearchRequest};
use crate::crawler::FoundNote;
use crate::maintenance;
use crate::pool::capture_note;

/// Waits before the first, second and third retry (CRAWL-173).
pub const BACKOFF: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(45)];

/// Number of retries by error code (CRAWL-75..81).
pub fn max_retries(code: Code) -> usize {
    match code {
        Code::CookieInvalid | Code::NetworkError => 3,
        Code::PlatformError | Code::TimeoutError | Code::PartialFail => 2,
        _ => 0,
    }
}

/// Parameters of one run of the flow.
#[derive(Clone, Debug)]
pub struct CrawlFlow {
    pub project_key: String,
    pub workflow_name: String,
    /// Unique: names the lock.
    pub execution_id: String,
    /// `wf-{epoch}-{random}`.
    pub trace_id: String,
    pub platform: String,
    pub keyword: String,
    /// Pages of the search, at most.
    pub max_pages: u64,
    pub batch_size: u32,
    pub lock_timeout: Duration,
    pub backoff: [Duration; 3],
    /// Most retries, whatever the code would allow.
    pub max_retry: usize,
}

#[derive(Clone, Debug, Default, serde::Serialize, PartialEq, Eq)]
pub struct FlowReport {
    /// False: another execution has the lock, and nothing was done.
    pub locked: bool,
    pub found: u64,
    pub created: u64,
    pub collected: u64,
    pub skipped: u64,
    pub failed: u64,
    pub requests: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    #[error("{}: {}", .0.code, .0.message)]
    Crawl(CrawlFailure),
    #[error("the lock was lost: another execution may run now")]
    LockLost,
    #[error(transparent)]
    Store(#[from] TxError),
    #[error("{0}")]
    Tokens(String),
    #[error("stopped before all was done; the next run goes on")]
    Stopped,
}

impl From<CrawlFailure> for FlowError {
    fn from(trouble: CrawlFailure) -> FlowError {
        FlowError::Crawl(trouble)
    }
}

/// The tokens of a candidate as they are stored: in plaintext, or sealed for their row.
pub fn store_tokens(
    vault: &VaultCell,
    secret: bool,
    platform: &str,
    note_id: &str,
    tokens: &BTreeMap<String, String>,
) -> Result<String, String> {
    let text = json!(tokens).to_string();
    if !secret || tokens.is_empty() {
        return Ok(text);
    }
    let vault = vault.get().ok_or("the tokens of this platform are secret, and COOKIE_MASTER_KEY is not set")?;
    vault.seal_text(&record(platform, note_id), &Secret::new(text)).map_err(|error| error.to_string())
}

/// Reads the tokens of a candidate as [`store_tokens`] writes them.
pub fn read_tokens(vault: &VaultCell, candidate: &CrawlCandidate) -> Result<BTreeMap<String, String>, String> {
    let stored = &candidate.tokens;
    let text = if stored.starts_with('{') {
        stored.clone()
    } else {
        let vault = vault.get().ok_or("the tokens are sealed, and COOKIE_MASTER_KEY is not set")?;
        let opened = vault.open_text(&record(&candidate.platform, &candidate.note_id), stored);
        opened.map_err(|error| error.to_string())?.expose().to_owned()
    };
    serde_json::from_str(&text).map_err(|_| "the tokens of the candidate are damaged".to_owned())
}

/// The request for a note: with the tokens of its candidate, where none are given (CRAWL-195).
pub async fn note_request(
    crawls: &dyn CrawlQueries,
    vault: &VaultCell,
    project_key: &str,
    platform: &str,
    note_id: String,
    mut tokens: BTreeMap<String, String>,
) -> Result<NoteRequest, FlowError> {
    if tokens.is_empty() {
        let filter = CrawlFilter {
            project_key: project_key.to_owned(),
            platform: Some(platform.to_owned()),
            note_id: Some(note_id.clone()),
            limit: 1,
            ..CrawlFilter::default()
        };
        if let Some(candidate) = crawls.candidates(filter).await?.first() {
            tokens = read_tokens(vault, candidate).map_err(FlowError::Tokens)?;
        }
    }
    Ok(NoteRequest { note_id, tokens })
}

fn record(platform: &str, note_id: &str) -> String {
    json!(["candidate", platform, note_id]).to_string()
}

/// Runs the flow once, or until `stop` is cancelled; the lock is given back in any case.
pub async fn run(
    store: &Arc<dyn Store>,
    crawler: &Crawler,
    vault: &VaultCell,
    flow: &CrawlFlow,
    stop: &CancellationToken,
) -> Result<FlowReport, FlowError> {
    maintenance::recover(&**store, flow.lock_timeout).await?;
    let acquire = AcquireExecution {
        project_key: flow.project_key.clone(),
        workflow_name: flow.workflow_name.clone(),
        execution_id: flow.execution_id.clone(),
        timeout: flow.lock_timeout,
    };
    if let ExecutionAcquired::Held(holder) = store.run(acquire).await? {
        tracing::info!(workflow = flow.workflow_name, holder = holder.execution_id, "another execution is running");
        return Ok(FlowReport::default());
    }
    let mut work =
        FlowRun { store, crawler, vault, flow, report: FlowReport { locked: true, ..FlowReport::default() } };
    let result = tokio::select! {
        result = work.all() => result,
        () = stop.cancelled() => Err(FlowError::Stopped),
    };
    let status = if result.is_ok() { ExecutionStatus::Completed } else { ExecutionStatus::Failed };
    let report = work.report.clone();
    let end = EndExecution {
        project_key: Some(flow.project_key.clone()),
        execution_id: flow.execution_id.clone(),
        status,
        items_processed: Some(report.collected + report.skipped),
        items_failed: Some(report.failed),
        timeout: flow.lock_timeout,
    };
    let ended = store.run(end).await;
    result?;
    match ended? {
        ExecutionKept::Kept(_) => Ok(report),
        ExecutionKept::Lost(_) | ExecutionKept::Unknown => Err(FlowError::LockLost),
    }
}

struct FlowRun<'a> {
    store: &'a Arc<dyn Store>,
    crawler: &'a Crawler,
    vault: &'a VaultCell,
    flow: &'a CrawlFlow,
    report: FlowReport,
}

impl FlowRun<'_> {
    async fn all(&mut self) -> Result<(), FlowError> {
        self.search().await?;
        loop {
            let claim = ClaimCandidates {
                project_key: Some(self.flow.project_key.clone()),
                execution_id: self.flow.execution_id.clone(),
                limit: self.flow.batch_size,
                platform: Some(self.flow.platform.clone()),
                timeout: self.flow.lock_timeout,
            };
            let records = match self.store.run(claim).await? {
                CandidatesClaimed::Claimed(records) => records,
                CandidatesClaimed::Lost(_) | CandidatesClaimed::Unknown => return Err(FlowError::LockLost),
            };
            if records.is_empty() {
                return Ok(());
            }
            self.details(records).await?;
            self.beat().await?;
        }
    }

    /// Searches, and stores the candidates of every page, the last one too (CRAWL-197).
    async fn search(&mut self) -> Result<(), FlowError> {
        let mut search = SearchRequest {
            platform: self.flow.platform.clone(),
            keyword: self.flow.keyword.clone(),
            page: 1,
            ..SearchRequest::default()
        };
        let secret = self.crawler.has_secret_tokens(&self.flow.platform, Some(&self.flow.project_key)).await?;
        loop {
            let found = self.search_page(&search).await?;
            self.report.found += found.notes.len() as u64;
            let candidate = |note: FoundNote| {
                let text = |name: &str| note.fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                let tokens = store_tokens(self.vault, secret, &search.platform, &note.note_id, &note.tokens);
                Ok(NewCandidate {
                    note_url: text("note_url"),
                    source_keyword: Some(search.keyword.clone()),
                    tokens: tokens.map_err(FlowError::Tokens)?,
                    note_id: note.note_id,
                })
            };
            let candidates = found.notes.into_iter().map(candidate).collect::<Result<Vec<_>, FlowError>>()?;
            let (project_key, platform) = (self.flow.project_key.clone(), search.platform.clone());
            let added = self.store.run(Arc::new(AddCandidates { project_key, platform, candidates })).await?;
            self.report.created += added.created;
            if !found.has_more || search.page >= self.flow.max_pages {
                return Ok(());
            }
            self.beat().await?;
            search.page += 1;
            search.search_id = found.search_id;
        }
    }

    async fn search_page(&mut self, search: &SearchRequest) -> Result<super::SearchResult, FlowError> {
        let mut behalf = self.behalf("search");
        for tries in 0.. {
            self.report.requests += 1;
            let crawled = self.crawler.search(search.clone(), &behalf).await;
            let trouble = match crawled.result {
                Ok(found) => return Ok(found),
                Err(trouble) => trouble,
            };
            if tries >= self.retries(trouble.code) {
                return Err(trouble.into());
            }
            switch(&mut behalf, &trouble, crawled.cookie_used);
            tokio::time::sleep(self.flow.backoff[tries.min(2)]).await;
        }
        Err(FlowError::LockLost)
    }

    /// Fetches the details of candidates. Results are written at once, and failed items are retried.
    async fn details(&mut self, mut records: Vec<CrawlCandidate>) -> Result<(), FlowError> {
        let mut behalf = self.behalf("detail");
        for tries in 0.. {
            let requests = records.iter().map(|record| {
                Ok(NoteRequest { note_id: record.note_id.clone(), tokens: read_tokens(self.vault, record)? })
            });
            let requests = requests.collect::<Result<Vec<_>, String>>().map_err(FlowError::Tokens)?;
            self.report.requests += requests.len() as u64;
            let batch = self.crawler.details(&self.flow.platform, requests, &behalf).await?;
            let mut again = Vec::new();
            let mut worst = None;
            for (record, (_, result)) in records.into_iter().zip(batch.result) {
                match result {
                    Ok(note) => self.write(&record, note, &behalf.request_id).await?,
                    Err(trouble) if tries < self.retries(trouble.code) => {
                        worst = Some(trouble);
                        again.push(record);
                    }
                    Err(trouble) => {
                        self.fail(&record, &trouble, &behalf.request_id).await?;
                        if trouble.code == Code::CookieExhausted {
                            worst = Some(trouble);
                        }
                    }
                }
            }
            match worst {
                Some(trouble) if trouble.code == Code::CookieExhausted => {
                    for record in &again {
                        self.fail(record, &trouble, &behalf.request_id).await?;
                    }
                    return Err(trouble.into());
                }
                Some(trouble) => switch(&mut behalf, &trouble, batch.cookie_used),
                None => return Ok(()),
            }
            records = again;
            tokio::time::sleep(self.flow.backoff[tries.min(2)]).await;
        }
        Ok(())
    }

    async fn write(&mut self, record: &CrawlCandidate, note: Value, request_id: &str) -> Result<(), FlowError> {
        let mut write =
            new_note(&self.flow.project_key, &record.platform, &record.note_id, None, &note, self.tried(request_id));
        capture_note(&**self.store, &mut write).await?;
        let NoteWritten { created, .. } = self.store.run(Arc::new(write)).await?;
        let count = if created { &mut self.report.collected } else { &mut self.report.skipped };
        *count += 1;
        Ok(())
    }

    async fn fail(
        &mut self,
        record: &CrawlCandidate,
        trouble: &CrawlFailure,
        request_id: &str,
    ) -> Result<(), FlowError> {
        let fail = FailCandidate {
            project_key: self.flow.project_key.clone(),
            execution_id: self.flow.execution_id.clone(),
            platform: record.platform.clone(),
            note_id: record.note_id.clone(),
            error_code: trouble.code.as_str().to_owned(),
            attempt: self.tried(request_id),
        };
        self.store.run(fail).await?;
        self.report.failed += 1;
        Ok(())
    }

    async fn beat(&self) -> Result<(), FlowError> {
        let keep = KeepExecution {
            project_key: Some(self.flow.project_key.clone()),
            execution_id: self.flow.execution_id.clone(),
            items_processed: Some(self.report.collected + self.report.skipped),
            items_failed: Some(self.report.failed),
            timeout: self.flow.lock_timeout,
        };
        match self.store.run(keep).await? {
            ExecutionKept::Kept(_) => Ok(()),
            ExecutionKept::Lost(_) | ExecutionKept::Unknown => Err(FlowError::LockLost),
        }
    }

    fn retries(&self, code: Code) -> usize {
        max_retries(code).min(self.flow.max_retry)
    }

    fn tried(&self, request_id: &str) -> CandidateAttempt {
        tried(request_id, "{}", self.crawler.inner.clock.now())
    }

    fn behalf(&self, step: &str) -> CrawlContext {
        let project_key = Some(self.flow.project_key.clone());
        CrawlContext { request_id: format!("{}-{step}", self.flow.trace_id), project_key, ..CrawlContext::default() }
    }
}

/// Excludes a cookie that was rejected.
fn switch(behalf: &mut CrawlContext, trouble: &CrawlFailure, used: Option<String>) {
    if trouble.code == Code::CookieInvalid {
        behalf.exclude_cookies.extend(used);
    }
}

/// Metadata of an attempt; `meta` is the caller's own JSON object.
pub fn tried(request_id: &str, meta: &str, now: Ts) -> CandidateAttempt {
    let request_id = Some(request_id.to_owned()).filter(|id| !id.is_empty());
    CandidateAttempt { meta: meta.to_owned(), request_id, crawled_at: now }
}

/// A result as every orchestrator stores it.
pub fn new_note(
    project_key: &str,
    platform: &str,
    note_id: &str,
    note_url: Option<String>,
    result: &Value,
    tried: CandidateAttempt,
) -> WriteNote {
    let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
    let fields: serde_json::Map<String, Value> = ["title", "content", "author", "published_at"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), result.get(name).filter(|value| !value.is_null())?.clone())))
        .collect();
    let payload = result.to_string();
    WriteNote {
        project_key: project_key.to_owned(),
        platform: platform.to_owned(),
        note: NewNote {
            note_id: note_id.to_owned(),
            note_url: note_url.or_else(|| text("note_url")),
            published_at: text("published_at").and_then(|at| at.parse().ok()),
            fields: Value::Object(fields).to_string(),
            content_hash: content_hash(payload.as_bytes()),
            payload,
        },
        attempt: tried,
        capture: None,
    }
}

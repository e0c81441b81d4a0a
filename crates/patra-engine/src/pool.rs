//! The URL pool: URLs from documents and from the results of tasks, each stored once in a library.

mod background_jobs;
mod capture;

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use patra_connectors::links::{LinkFinder, LinkOptions, NormalisedLink, normalise};
use patra_core::Ts;
use patra_core::hash::id_hash;
use patra_core::port::pool::{DocumentFilter, DocumentRow, EndedJob, JobFilter};
use patra_core::port::{CommandsExt as _, Store};
use patra_core::project::Library;
use patra_core::tx::{AddUrls, FoundUrl, MAX_URLS, TxError, UrlSource};

pub(crate) use background_jobs::serve;
pub use background_jobs::{CAPTURE_TASKS, EXTRACT_DOCUMENTS, enqueue};
pub(crate) use capture::{CaptureRules, capture};
pub use capture::{capture_note, job_types};

/// Documents of one call: default and maximum (POOL-33).
pub const DOCUMENTS: (u32, u32) = (500, 5_000);
/// Tasks of one call: default and maximum (POOL-76).
pub const TASKS: (u32, u32) = (100, 500);
/// Most distinct URLs of one call; the rest is left out, and the result says so.
pub const MAX_CALL_URLS: usize = 1_000_000;
/// Documents or items in memory at once.
const AT_ONCE: u32 = 20;

/// Selects the documents to search, and the library for their URLs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExtractRequest {
    pub project_key: String,
    pub library: Library,
    pub doc_types: Vec<String>,
    pub states: Vec<String>,
    /// Searches exactly these documents.
    pub document_ids: Option<Vec<i64>>,
    pub limit: u32,
    /// Searches only documents with a smaller id: the rest of an earlier search.
    #[serde(default)]
    pub before: Option<i64>,
    /// Includes the documents' own addresses (POOL-125).
    pub include_uri: bool,
}

/// Selects the ended jobs to search, and the library for their URLs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LookBackRequest {
    pub project_key: String,
    pub library: Library,
    pub task_ids: Option<Vec<String>>,
    pub job_type: Option<String>,
    pub since: Option<Ts>,
    pub limit: u32,
}

/// Result of a search for URLs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtractReport {
    /// Documents or tasks that were searched.
    pub scanned: u64,
    /// Distinct normalised URLs.
    pub extracted: u64,
    pub new: u64,
    /// URLs that were left out because they are too long.
    pub too_long: u64,
    /// There were more URLs than one document, or one call, may give.
    pub partial: bool,
    /// Documents with a smaller id were not searched, because the limit was reached.
    pub next_before: Option<i64>,
}

impl ExtractReport {
    /// The report as the API returns it (POOL-36, POOL-78).
    pub fn to_json(&self, scanned: &str, library: Library) -> Value {
        let mut result = json!({
            scanned: self.scanned, "urls_extracted": self.extracted, "urls_new": self.new,
            "urls_duplicate": self.extracted - self.new, "scope": library.as_str(),
        });
        if self.too_long > 0 {
            result["warnings"] = json!([format!("{} URLs were left out: they are too long", self.too_long)]);
            result["urls_too_long"] = self.too_long.into();
        }
        if self.partial {
            result["partial"] = true.into();
        }
        if let Some(next) = self.next_before {
            result["next_before_id"] = next.into();
        }
        result
    }
}

/// Why a search was refused.
#[derive(Debug, thiserror::Error)]
pub enum PoolRefusal {
    /// Named documents or tasks do not exist in the project; nothing was written.
    #[error("NOT_FOUND: not there: {}", serde_json::json!(.0))]
    Missing(Vec<Value>),
    #[error(transparent)]
    Store(#[from] TxError),
}

/// Setting that removes tracking parameters from URLs (POOL-124).
pub const REMOVE_TRACKING: &str = "pool.remove_tracking";

/// Link options by the settings.
async fn options(store: &dyn Store) -> Result<LinkOptions, TxError> {
    let settings = store.settings().await?;
    Ok(LinkOptions { remove_tracking: settings.iter().any(|(key, value)| key == REMOVE_TRACKING && value == "true") })
}

/// Puts the URLs of documents into a library. Running it again changes nothing.
pub async fn extract(store: &dyn Store, request: &ExtractRequest) -> Result<ExtractReport, PoolRefusal> {
    let filter = DocumentFilter {
        project_key: request.project_key.clone(),
        ids: request.document_ids.clone(),
        doc_types: request.doc_types.clone(),
        states: request.states.clone(),
        before: request.before,
        limit: AT_ONCE,
    };
    if let Some(wanted) = &request.document_ids {
        let mut there = HashSet::new();
        let mut page = DocumentFilter { before: None, ..filter.clone() };
        loop {
            let found = store.documents(page.clone()).await?;
            let Some(last) = found.last() else { break };
            page.before = Some(last.id);
            there.extend(found.iter().map(|document| document.id));
        }
        let missing: Vec<_> = wanted.iter().filter(|id| !there.contains(*id)).map(|id| json!(id)).collect();
        if !missing.is_empty() {
            return Err(PoolRefusal::Missing(missing));
        }
    }
    let options = options(store).await?;
    let mut run = ExtractRun::new(store, &request.project_key, request.library, UrlSource::Document, options);
    let mut page = filter;
    while run.tally.scanned < u64::from(request.limit) && !run.is_full() {
        page.limit = AT_ONCE.min(request.limit - run.tally.scanned as u32);
        let found = store.documents(page.clone()).await?;
        if found.is_empty() {
            return Ok(run.finish().await?);
        }
        for document in &found {
            let source_ref = json!({ "document_id": document.id }).to_string();
            run.add(&source_ref, |finder| search(document, request.include_uri, options, finder)).await?;
            // The document that reached the limit of URLs may have more: the next search begins with it.
            page.before = Some(if run.is_full() { document.id.saturating_add(1) } else { document.id });
            if run.is_full() {
                break;
            }
        }
    }
    page.limit = 1;
    if !store.documents(page.clone()).await?.is_empty() {
        run.tally.next_before = page.before;
    }
    Ok(run.finish().await?)
}

/// Searches a document: its `content` and `extracted_data`; of a collected item, the content and the original record.
/// That record holds its own address too, which is no link: it is returned.
fn search(document: &DocumentRow, include_uri: bool, options: LinkOptions, finder: &mut LinkFinder) -> Option<String> {
    let fields: Value = serde_json::from_str(&document.fields).unwrap_or_default();
    if let Some(content) = fields["content"].as_str() {
        finder.text(content);
    }
    let own = fields["uri"].as_str().or(fields["url"].as_str()).and_then(|own| normalise(own, options).ok());
    let is_put = document.kind == "document";
    if is_put {
        finder.value(&fields["extracted_data"]);
    } else {
        finder.json(&document.payload);
    }
    if let (true, Some(own)) = (include_uri, &own) {
        finder.text(&own.url);
    }
    own.filter(|_| !include_uri && !is_put).map(|own| own.url)
}

/// Puts the URLs of ended jobs into a library: URLs in their params, their results and the items they stored (POOL-82).
pub async fn look_back(store: &dyn Store, request: &LookBackRequest) -> Result<ExtractReport, PoolRefusal> {
    let jobs = store
        .ended_jobs(JobFilter {
            project_key: request.project_key.clone(),
            public_ids: request.task_ids.clone(),
            job_type: request.job_type.clone(),
            since: request.since,
            limit: request.limit,
        })
        .await?;
    if let Some(wanted) = &request.task_ids {
        // A job that exists but does not match the other filters is not missing.
        let known = store
            .ended_jobs(JobFilter {
                project_key: request.project_key.clone(),
                public_ids: Some(wanted.clone()),
                limit: u32::try_from(wanted.len()).unwrap_or(u32::MAX),
                ..JobFilter::default()
            })
            .await?;
        let is_there = |id: &&String| known.iter().any(|job| job.public_id == **id);
        let missing: Vec<_> = wanted.iter().filter(|id| !is_there(id)).map(|id| json!(id)).collect();
        if !missing.is_empty() {
            return Err(PoolRefusal::Missing(missing));
        }
    }
    let options = options(store).await?;
    let mut run = ExtractRun::new(store, &request.project_key, request.library, UrlSource::Task, options);
    for job in &jobs {
        if run.is_full() {
            break;
        }
        add_job(store, job, &mut run).await?;
    }
    Ok(run.finish().await?)
}

async fn add_job(store: &dyn Store, job: &EndedJob, run: &mut ExtractRun<'_>) -> Result<(), TxError> {
    let source_ref = json!({ "task_id": job.public_id, "job_type": job.job_type }).to_string();
    run.add(&source_ref, |finder| {
        finder.json(&job.params);
        if let Some(result) = &job.result {
            finder.json(result);
        }
        None
    })
    .await?;
    let mut after = 0;
    while !run.is_full() {
        let items = store.items_of_job(job.job, after, AT_ONCE).await?;
        let Some((last, ..)) = items.last() else { return Ok(()) };
        after = *last;
        for (_, fields, payload) in &items {
            run.search(&source_ref, |finder| {
                finder.json(fields);
                finder.json(payload);
                None
            })
            .await?;
        }
    }
    Ok(())
}

/// Stores found URLs in a library, one transaction per batch.
struct ExtractRun<'a> {
    store: &'a dyn Store,
    library: Library,
    project_key: &'a str,
    source: UrlSource,
    options: LinkOptions,
    /// Hashes of the URLs of this call.
    seen: HashSet<[u8; 16]>,
    waiting: Vec<FoundUrl>,
    tally: ExtractReport,
}

impl<'a> ExtractRun<'a> {
    fn new(
        store: &'a dyn Store,
        project_key: &'a str,
        library: Library,
        source: UrlSource,
        options: LinkOptions,
    ) -> ExtractRun<'a> {
        let (seen, waiting, tally) = (HashSet::new(), Vec::new(), ExtractReport::default());
        ExtractRun { store, library, project_key, source, options, seen, waiting, tally }
    }

    /// Searches one document or task.
    async fn add(
        &mut self,
        source_ref: &str,
        search: impl FnOnce(&mut LinkFinder) -> Option<String>,
    ) -> Result<(), TxError> {
        self.tally.scanned += 1;
        self.search(source_ref, search).await
    }

    /// Adds the URLs that `search` finds, except the one that it returns.
    async fn search(
        &mut self,
        source_ref: &str,
        search: impl FnOnce(&mut LinkFinder) -> Option<String>,
    ) -> Result<(), TxError> {
        let mut finder = LinkFinder::new(self.options);
        let own = search(&mut finder);
        let found = finder.finish();
        self.tally.too_long += found.too_long as u64;
        self.tally.partial |= found.partial;
        for NormalisedLink { url, domain } in found.links {
            if own.as_ref() == Some(&url) || self.seen.contains(&id_hash(url.as_bytes())) {
                continue;
            }
            if self.is_full() {
                self.tally.partial = true;
                break;
            }
            self.seen.insert(id_hash(url.as_bytes()));
            self.waiting.push(FoundUrl { url, domain, source_ref: source_ref.to_owned() });
            if self.waiting.len() == MAX_URLS {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Whether the call has reached its limit of URLs.
    fn is_full(&self) -> bool {
        self.seen.len() >= MAX_CALL_URLS
    }

    async fn flush(&mut self) -> Result<(), TxError> {
        let urls = std::mem::take(&mut self.waiting);
        if urls.is_empty() {
            return Ok(());
        }
        let (library, source) = (self.library, self.source);
        let add = AddUrls { library, project_key: self.project_key.to_owned(), source, urls };
        self.tally.new += u64::from(self.store.run(Arc::new(add)).await?.new);
        Ok(())
    }

    async fn finish(mut self) -> Result<ExtractReport, TxError> {
        self.flush().await?;
        self.tally.extracted = self.seen.len() as u64;
        Ok(self.tally)
    }
}

//! The crawler: sends one request to a platform and returns its result. It renders, signs and paces like every request,
//! takes its cookies from the pool, and cannot write: storing results is up to the orchestrator.

mod admission;
mod failure;
pub mod flow;
mod platform;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Map, Value};

use patra_connectors::PageRequest;
use patra_core::paging::{NextPage, PagingRule, Position};
use patra_core::params::Params;
use patra_core::port::crawl::CookieFilter;
use patra_core::port::{Clock, CrawlQueries, Queries, Store};
use patra_core::protocol::run::FetchedPage;
use patra_core::{Code, Ts, Window};

use crate::credentials::{CookieChoice, Credentials, GatePass, OutgoingRequest, noting};
use crate::decoding::Received;
use crate::gate::{GateFeedback, RateGate};
use crate::health::HealthRegistry;
use crate::metrics::Metrics;
use crate::shared::lock;

use admission::Admission;
pub use failure::CrawlFailure;
pub(crate) use platform::Platform;
use platform::{PlatformEndpoint, Platforms};

/// Most notes in one batch (CRAWL-74).
pub const MAX_BATCH: usize = 20;
/// Longest keyword.
pub const MAX_KEYWORD: usize = 200;
/// Notes of a batch that are fetched at once: ten that take 15 s each fit into a minute (CRAWL-176).
const AT_ONCE: usize = 10;

/// Time limits of the operations (CRAWL-170, 171).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrawlTimes {
    pub search: Duration,
    pub detail: Duration,
    pub batch: Duration,
    pub validate: Duration,
}

impl Default for CrawlTimes {
    fn default() -> CrawlTimes {
        CrawlTimes {
            search: Duration::from_secs(30),
            detail: Duration::from_secs(15),
            batch: Duration::from_secs(60),
            validate: Duration::from_secs(10),
        }
    }
}

/// The caller of an operation, and the cookies that it may use.
#[derive(Clone, Debug, Default)]
pub struct CrawlContext {
    pub request_id: String,
    /// The project that asks; `None`: an administrator.
    pub project_key: Option<String>,
    /// Uses only this cookie.
    pub cookie_name: Option<String>,
    pub exclude_cookies: Vec<String>,
    /// A person checks the named cookie: it may be cooling or paused.
    pub check: bool,
}

#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    pub platform: String,
    pub keyword: String,
    /// Page number, from 1 on.
    pub page: u64,
    pub page_size: Option<u32>,
    /// Shared by all pages of one search (CRAWL-197).
    pub search_id: Option<String>,
    /// Further parameters of the platform's search.
    pub params: BTreeMap<String, String>,
}

/// A note in the result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundNote {
    pub note_id: String,
    pub fields: Map<String, Value>,
    /// Tokens that the platform requires for the details (CRAWL-195).
    pub tokens: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub struct SearchResult {
    pub page_size: u32,
    pub has_more: bool,
    pub search_id: Option<String>,
    pub notes: Vec<FoundNote>,
}

/// A request for the details of a note.
#[derive(Clone, Debug)]
pub struct NoteRequest {
    pub note_id: String,
    pub tokens: BTreeMap<String, String>,
}

/// Result of an operation, and the last cookie that it used.
#[derive(Debug)]
pub struct CrawlReply<T> {
    pub result: T,
    pub cookie_used: Option<String>,
}

/// Handle to the crawler. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Crawler {
    inner: Arc<CrawlerInner>,
}

#[derive(Debug)]
struct CrawlerInner {
    credentials: Credentials,
    gate: Arc<RateGate>,
    clock: Arc<dyn Clock>,
    queries: Arc<dyn Queries>,
    crawls: Arc<dyn CrawlQueries>,
    platforms: Platforms,
    admission: Admission,
    times: CrawlTimes,
    /// Successful and failed requests by platform, not yet counted in the store.
    tally: Mutex<HashMap<String, (u64, u64)>>,
}

impl Crawler {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        credentials: Credentials,
        gate: Arc<RateGate>,
        clock: Arc<dyn Clock>,
        times: CrawlTimes,
        health: (Arc<HealthRegistry>, Arc<Metrics>),
    ) -> Crawler {
        let admission = Admission::new(store, health, Arc::clone(&clock), times);
        Crawler {
            inner: Arc::new(CrawlerInner {
                credentials,
                gate,
                clock,
                queries: Arc::clone(store) as Arc<dyn Queries>,
                crawls: Arc::clone(store) as Arc<dyn CrawlQueries>,
                platforms: Platforms::default(),
                admission,
                times,
                tally: Mutex::default(),
            }),
        }
    }

    /// Whether a platform can be crawled.
    pub async fn platform(&self, code: &str) -> Result<(), CrawlFailure> {
        self.find(code, None).await.map(|_| ())
    }

    /// Members of the tokens of a platform that must not be stored in plaintext.
    pub async fn has_secret_tokens(&self, code: &str, project: Option<&str>) -> Result<bool, CrawlFailure> {
        let platform = self.find(code, project).await?;
        Ok(platform.detail.spec.params.values().any(|param| param.secret))
    }

    pub async fn search(
        &self,
        search: SearchRequest,
        behalf: &CrawlContext,
    ) -> CrawlReply<Result<SearchResult, CrawlFailure>> {
        let work = async {
            let platform = self.find(&search.platform, behalf.project_key.as_deref()).await?;
            let side = &platform.search;
            let rule = side.spec.paging();
            let wrong = |message: String| CrawlFailure::new(Code::InvalidInput, message);
            let length = search.keyword.trim().chars().count();
            if !(1..=MAX_KEYWORD).contains(&length) || search.keyword.chars().any(char::is_control) {
                return Err(wrong(format!(
                    "keyword must have 1 to {MAX_KEYWORD} characters, none of them a control character"
                )));
            }
            let largest = side.spec.pagination.as_ref().and_then(|paging| paging.max_page_size);
            let page_size = search.page_size.unwrap_or(rule.page_size);
            if let Some(largest) = largest.filter(|largest| page_size > *largest) {
                return Err(wrong(format!("page_size is at most {largest} for {}", search.platform)));
            }
            let paged = PagingRule { page_size, ..rule };
            let position = paged.nth(search.page.saturating_sub(1));
            if search.page > 1 && position == paged.first() {
                return Err(wrong(format!("{} has no pages by number", search.platform)));
            }
            let (params, search_id) = search_params(side, &search, &behalf.request_id)?;
            let read = self.send(side, &position, page_size, &params, behalf).await?;
            let has_more = matches!(paged.next(&position, &read.facts, true), NextPage::At(_) | NextPage::Perhaps(_));
            let notes = read.records.iter().map(|record| platform.found(record)).collect();
            Ok(SearchResult { page_size, has_more, search_id, notes })
        };
        let crawled = self.within(self.inner.times.search, work).await;
        self.count(&search.platform, crawled.result.as_ref().err());
        crawled
    }

    /// The details of one note.
    pub async fn detail(
        &self,
        code: &str,
        request: &NoteRequest,
        behalf: &CrawlContext,
    ) -> CrawlReply<Result<Value, CrawlFailure>> {
        let work = async {
            let platform = self.find(code, behalf.project_key.as_deref()).await?;
            self.note(&platform, request, behalf).await
        };
        let crawled = self.within(self.inner.times.detail, work).await;
        self.count(code, crawled.result.as_ref().err());
        crawled
    }

    /// The details of several notes: a failure of one does not affect the others (CRAWL-72). Results are in the order
    /// of the requests.
    pub async fn details(
        &self,
        code: &str,
        requests: Vec<NoteRequest>,
        behalf: &CrawlContext,
    ) -> Result<CrawlReply<Vec<(String, Result<Value, CrawlFailure>)>>, CrawlFailure> {
        let platform = self.find(code, behalf.project_key.as_deref()).await?;
        let end = tokio::time::Instant::now() + self.inner.times.batch;
        let last = Mutex::new(None);
        let sticky = Mutex::new(behalf.clone());
        let one = |request: NoteRequest| {
            let (platform, last, sticky) = (&platform, &last, &sticky);
            async move {
                let work = async {
                    let with = lock(sticky).clone();
                    let crawled = self.within(self.inner.times.detail, self.note(platform, &request, &with)).await;
                    let trouble = match &crawled.result {
                        Err(trouble) if trouble.code == Code::CookieInvalid && behalf.cookie_name.is_none() => trouble,
                        _ => {
                            // One account for the whole batch, unless it becomes unusable (CRAWL-62).
                            lock(sticky).cookie_name = crawled.cookie_used.clone().or(with.cookie_name);
                            return crawled;
                        }
                    };
                    // The cookie is unusable: the rest of the batch does not use it.
                    let mut others = behalf.clone();
                    others.exclude_cookies.extend(crawled.cookie_used.clone());
                    lock(sticky).clone_from(&others);
                    match trouble.unusable && crawled.cookie_used.is_none() {
                        true => self.within(self.inner.times.detail, self.note(platform, &request, &others)).await,
                        false => crawled,
                    }
                };
                let crawled = tokio::time::timeout_at(end, work).await.unwrap_or_else(|_| CrawlReply {
                    result: Err(CrawlFailure::late(self.inner.times.batch)),
                    cookie_used: None,
                });
                self.count(&platform.code, crawled.result.as_ref().err());
                if crawled.cookie_used.is_some() {
                    *lock(last) = crawled.cookie_used;
                }
                (request.note_id, crawled.result)
            }
        };
        let mut seen = HashSet::new();
        let distinct = requests.into_iter().filter(|request| seen.insert(request.note_id.clone()));
        let mut distinct = distinct.map(one);
        // The first goes alone: a dead account costs one error, not ten.
        let mut results = Vec::new();
        if let Some(first) = distinct.next() {
            results.push(first.await);
        }
        results.extend(futures_util::stream::iter(distinct).buffered(AT_ONCE).collect::<Vec<_>>().await);
        let cookie_used = lock(&last).take();
        Ok(CrawlReply { result: results, cookie_used })
    }

    /// Checks a cookie with the endpoint `check` of the platform's manifest (CRAWL-107).
    pub async fn validate(&self, code: &str, behalf: &CrawlContext) -> CrawlReply<Result<(), CrawlFailure>> {
        let work = async {
            let platform = self.find(code, behalf.project_key.as_deref()).await?;
            let Some(side) = &platform.check else {
                let message = format!("the manifest of {code} has no endpoint `check` to show a cookie to");
                return Err(CrawlFailure::new(Code::InvalidInput, message));
            };
            let rule = side.spec.paging();
            self.send(side, &rule.first(), rule.page_size, &Params::new(), behalf).await.map(|_| ())
        };
        self.within(self.inner.times.validate, work).await
    }

    /// Takes the counts since the last call.
    pub(crate) fn take_tally(&self) -> Vec<(String, (u64, u64))> {
        lock(&self.inner.tally).drain().collect()
    }

    async fn find(&self, code: &str, project: Option<&str>) -> Result<Arc<Platform>, CrawlFailure> {
        self.inner.platforms.get(&*self.inner.queries, code, project, self.inner.clock.steady()).await
    }

    async fn note(
        &self,
        platform: &Platform,
        request: &NoteRequest,
        behalf: &CrawlContext,
    ) -> Result<Value, CrawlFailure> {
        let side = &platform.detail;
        let known = |(name, _): &(&String, &String)| side.spec.params.contains_key(name.as_str());
        let given: Params = request.tokens.iter().filter(known).map(|(n, v)| (n.clone(), v.clone())).collect();
        let params = side.spec.resolve_params(&given).map_err(CrawlFailure::from)?;
        let position = Position::Ids { at: Box::new(Position::Time), ids: vec![request.note_id.clone()] };
        let page = self.send(side, &position, 1, &params, behalf).await?;
        platform.note(&page, &request.note_id)
    }

    /// Sends one request and reads its page.
    async fn send(
        &self,
        side: &PlatformEndpoint,
        position: &Position,
        page_size: u32,
        params: &Params,
        behalf: &CrawlContext,
    ) -> Result<Box<FetchedPage>, CrawlFailure> {
        let inner = &self.inner;
        let now = inner.clock.now();
        let window = Window { from: Ts::from_secs(0), to: now };
        let page_request = PageRequest { position, window, page_size, params, now };
        let mut exchange = side.pager.request(&page_request).map_err(|refusal| CrawlFailure::from(refusal.fault))?;
        let correlation = ("X-Ingest-Correlation-Id".to_owned(), behalf.request_id.clone());
        exchange.request.headers.extend((!correlation.1.is_empty()).then_some(correlation));
        let outgoing = OutgoingRequest {
            authoriser: Arc::clone(side.pager.authoriser(&exchange)),
            pinned: None,
            request: exchange.request.clone(),
            permits: Arc::new(GatePass::new(Arc::clone(&inner.gate), side.lane.clone(), true, None)),
            // Only the orchestrator retries, so that retries do not multiply (CRAWL-83).
            pool: CookieChoice {
                name: behalf.cookie_name.clone(),
                exclude: behalf.exclude_cookies.clone(),
                tries: 1,
                check: behalf.check,
            },
        };
        let admitted = inner.admission.admit(&side.spec, matches!(position, Position::Ids { .. })).await?;
        let left = inner.clock.steady();
        let sent = match inner.credentials.send(&outgoing).await {
            Ok(sent) => sent,
            Err(refused) => {
                admitted.not_sent();
                return Err(self.refused(side, refused.fault, behalf).await);
            }
        };
        let latency = inner.clock.steady().since(left);
        let received = Received { exchange, answer: sent.answer, latency, now: inner.clock.now() };
        let result = received.read(&side.pager).await;
        admitted.ended(&result);
        inner.credentials.record_outcome(sent.cookie, &result).await;
        result.map_err(|refusal| {
            if refusal.throttled || refusal.lowers_rate() {
                let feedback = GateFeedback { refused: true, retry_after: refusal.retry_after, remaining: None };
                inner.gate.feedback(&side.lane, left, &feedback);
            }
            CrawlFailure::upstream(refusal.fault)
        })
    }

    /// Adds the state of the cookie pool to a refusal that a missing or unusable cookie caused.
    async fn refused(&self, side: &PlatformEndpoint, fault: patra_core::Fault, behalf: &CrawlContext) -> CrawlFailure {
        let (platform, mut trouble) = (&side.spec.provenance_code, CrawlFailure::from(fault));
        let empty = trouble.code == Code::NotConfigured && behalf.cookie_name.is_none() && side.wants_cookie();
        if !empty && !matches!(trouble.code, Code::CookieExhausted | Code::CookieInvalid) {
            return trouble;
        }
        if let (Code::CookieInvalid, Some(name)) = (trouble.code, &behalf.cookie_name) {
            let filter =
                CookieFilter { platform: Some(platform.clone()), name: Some(name.clone()), ..CookieFilter::default() };
            let Ok((cookies, now)) = self.inner.crawls.cookies(filter).await else { return trouble };
            let status = cookies.first().map(|cookie| cookie.usage.after_cooling(now).status);
            return trouble.detail("cookie_name", name.clone().into()).detail("status", serde_json::json!(status));
        }
        if trouble.code == Code::CookieInvalid {
            return trouble;
        }
        let Ok((totals, _)) = self.inner.crawls.cookie_totals(Some(platform.clone())).await else { return trouble };
        if empty && !totals.is_empty() {
            return trouble;
        }
        if empty {
            let message = format!("no usable cookie for platform {platform}: none is stored");
            trouble = CrawlFailure::new(Code::CookieExhausted, message);
        }
        let totals = totals.first().map(|(_, totals)| *totals).unwrap_or_default();
        trouble = trouble.detail("platform", platform.clone().into());
        for (name, count) in totals.counts.named() {
            trouble = trouble.detail(name, count.into());
        }
        trouble.detail("next_active_at", serde_json::json!(totals.next_active_at))
    }

    /// Runs an operation within a time limit, and records which cookie it used.
    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, CrawlFailure>>,
    ) -> CrawlReply<Result<T, CrawlFailure>> {
        let (result, cookie_used) = noting(tokio::time::timeout(limit, work)).await;
        CrawlReply { result: result.unwrap_or_else(|_| Err(CrawlFailure::late(limit))), cookie_used }
    }

    fn count(&self, platform: &str, trouble: Option<&CrawlFailure>) {
        let mut tally = lock(&self.inner.tally);
        // Errors of the caller say nothing about the platform.
        match trouble.map(|trouble| trouble.code) {
            Some(Code::InvalidInput | Code::NotConfigured | Code::NotFound) => {}
            Some(_) => tally.entry(platform.to_owned()).or_default().1 += 1,
            None => tally.entry(platform.to_owned()).or_default().0 += 1,
        }
    }
}

fn search_params(
    side: &PlatformEndpoint,
    search: &SearchRequest,
    request_id: &str,
) -> Result<(Params, Option<String>), CrawlFailure> {
    let declared = &side.spec.params;
    let mut given: Params = search.params.clone().into_iter().collect();
    given.insert("keyword".to_owned(), search.keyword.clone());
    let search_id = declared.contains_key("search_id").then(|| {
        let fresh =
            || patra_core::hash::sha256_hex(format!("{request_id}:{}", search.keyword).as_bytes())[..21].to_owned();
        search.search_id.clone().unwrap_or_else(fresh)
    });
    given.extend(search_id.clone().map(|id| ("search_id".to_owned(), id)));
    Ok((side.spec.resolve_params(&given).map_err(CrawlFailure::from)?, search_id))
}

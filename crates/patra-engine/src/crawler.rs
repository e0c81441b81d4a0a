//! The crawler: one question to a platform, answered at once. It renders, signs and paces like everything that leaves, takes
//! its cookies from the pool, and is given no way to write what it finds: that is the orchestrator's.

mod failure;
pub mod flow;
mod platform;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Map, Value};

use patra_connectors::PageRequest;
use patra_core::cookie::CookieCounts;
use patra_core::paging::{NextPage, PagingRule, Position};
use patra_core::params::Params;
use patra_core::port::{Clock, CrawlQueries, Queries, Store};
use patra_core::protocol::run::FetchedPage;
use patra_core::{Code, Ts, Window};

use crate::credentials::{CookieChoice, Credentials, GatePass, OutgoingRequest, noting};
use crate::gate::{GateFeedback, RateGate};
use crate::shared::lock;

pub use failure::CrawlFailure;
pub(crate) use platform::Platform;
use platform::{PlatformEndpoint, Platforms};

/// Notes in one batch, at most (CRAWL-74).
pub const MAX_BATCH: usize = 20;
/// Longest keyword.
pub const MAX_KEYWORD: usize = 200;
/// Notes of a batch that are fetched at once: ten that take 15 s each fit into a minute (CRAWL-176).
const AT_ONCE: usize = 10;

/// How long an answer may take (CRAWL-170, 171).
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

/// Which cookie, and on whose behalf.
#[derive(Clone, Debug, Default)]
pub struct CrawlContext {
    pub request_id: String,
    /// The project that asks; `None`: whoever runs the house.
    pub project_key: Option<String>,
    /// Only this one.
    pub cookie_name: Option<String>,
    pub exclude_cookies: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    pub platform: String,
    pub keyword: String,
    /// From 1 on.
    pub page: u64,
    pub page_size: Option<u32>,
    /// Shared by all pages of one search (CRAWL-197).
    pub search_id: Option<String>,
    /// Further parameters of the platform's search.
    pub params: BTreeMap<String, String>,
}

/// A note that a search names.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundNote {
    pub note_id: String,
    pub fields: Map<String, Value>,
    /// What the platform demands for the details (CRAWL-195).
    pub tokens: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub struct SearchResult {
    pub page_size: u32,
    pub has_more: bool,
    pub search_id: Option<String>,
    pub notes: Vec<FoundNote>,
}

/// A note whose details are wanted.
#[derive(Clone, Debug)]
pub struct NoteRequest {
    pub note_id: String,
    pub tokens: BTreeMap<String, String>,
}

/// What came of a question, and the last cookie that it went out with.
#[derive(Debug)]
pub struct CrawlReply<T> {
    pub result: T,
    pub cookie_used: Option<String>,
}

/// Cheap to clone.
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
    times: CrawlTimes,
    /// Requests that worked and that did not, by platform, not yet counted in the store.
    tally: Mutex<HashMap<String, (u64, u64)>>,
}

impl Crawler {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        credentials: Credentials,
        gate: Arc<RateGate>,
        clock: Arc<dyn Clock>,
        times: CrawlTimes,
    ) -> Crawler {
        Crawler {
            inner: Arc::new(CrawlerInner {
                credentials,
                gate,
                clock,
                queries: Arc::clone(store) as Arc<dyn Queries>,
                crawls: Arc::clone(store) as Arc<dyn CrawlQueries>,
                platforms: Platforms::default(),
                times,
                tally: Mutex::default(),
            }),
        }
    }

    /// Whether a platform is one that can be crawled.
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
                return Err(wrong(format!("{} cannot be asked for a page by its number", search.platform)));
            }
            let (params, search_id) = search_params(side, &search, &behalf.request_id)?;
            let read = self.ask(side, &position, page_size, &params, behalf).await?;
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
        wish: &NoteRequest,
        behalf: &CrawlContext,
    ) -> CrawlReply<Result<Value, CrawlFailure>> {
        let work = async {
            let platform = self.find(code, behalf.project_key.as_deref()).await?;
            self.note(&platform, wish, behalf).await
        };
        let crawled = self.within(self.inner.times.detail, work).await;
        self.count(code, crawled.result.as_ref().err());
        crawled
    }

    /// The details of many: what one lacks costs the others nothing (CRAWL-72). In the order of the wishes.
    pub async fn details(
        &self,
        code: &str,
        wishes: Vec<NoteRequest>,
        behalf: &CrawlContext,
    ) -> Result<CrawlReply<Vec<(String, Result<Value, CrawlFailure>)>>, CrawlFailure> {
        let platform = self.find(code, behalf.project_key.as_deref()).await?;
        let end = tokio::time::Instant::now() + self.inner.times.batch;
        let last = Mutex::new(None);
        let sticky = Mutex::new(behalf.clone());
        let one = |wish: NoteRequest| {
            let (platform, last, sticky) = (&platform, &last, &sticky);
            async move {
                let work = async {
                    let with = lock(sticky).clone();
                    let crawled = self.within(self.inner.times.detail, self.note(platform, &wish, &with)).await;
                    let trouble = match &crawled.result {
                        Err(trouble) if trouble.code == Code::CookieInvalid && behalf.cookie_name.is_none() => trouble,
                        _ => {
                            // One account for the whole batch, unless it gives out (CRAWL-62).
                            lock(sticky).cookie_name = crawled.cookie_used.clone().or(with.cookie_name);
                            return crawled;
                        }
                    };
                    // It has given out: the rest of the batch spares it.
                    let mut others = behalf.clone();
                    others.exclude_cookies.extend(crawled.cookie_used.clone());
                    lock(sticky).clone_from(&others);
                    match trouble.unusable && crawled.cookie_used.is_none() {
                        true => self.within(self.inner.times.detail, self.note(platform, &wish, &others)).await,
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
                (wish.note_id, crawled.result)
            }
        };
        let mut seen = HashSet::new();
        let distinct = wishes.into_iter().filter(|wish| seen.insert(wish.note_id.clone()));
        let mut distinct = distinct.map(one);
        // The first goes alone: a dead account is found out by one error, not by ten.
        let mut results = Vec::new();
        if let Some(first) = distinct.next() {
            results.push(first.await);
        }
        results.extend(futures_util::stream::iter(distinct).buffered(AT_ONCE).collect::<Vec<_>>().await);
        let cookie_used = lock(&last).take();
        Ok(CrawlReply { result: results, cookie_used })
    }

    /// Shows a cookie to the platform: the endpoint `check` of its manifest says whether it is good (CRAWL-107).
    pub async fn validate(&self, code: &str, behalf: &CrawlContext) -> CrawlReply<Result<(), CrawlFailure>> {
        let work = async {
            let platform = self.find(code, behalf.project_key.as_deref()).await?;
            let Some(side) = &platform.check else {
                let message = format!("the manifest of {code} has no endpoint `check` to show a cookie to");
                return Err(CrawlFailure::new(Code::InvalidInput, message));
            };
            let rule = side.spec.paging();
            self.ask(side, &rule.first(), rule.page_size, &Params::new(), behalf).await.map(|_| ())
        };
        self.within(self.inner.times.validate, work).await
    }

    /// What was counted since the last time.
    pub(crate) fn take_tally(&self) -> Vec<(String, (u64, u64))> {
        lock(&self.inner.tally).drain().collect()
    }

    async fn find(&self, code: &str, project: Option<&str>) -> Result<Arc<Platform>, CrawlFailure> {
        self.inner.platforms.get(&*self.inner.queries, code, project, self.inner.clock.steady()).await
    }

    async fn note(
        &self,
        platform: &Platform,
        wish: &NoteRequest,
        behalf: &CrawlContext,
    ) -> Result<Value, CrawlFailure> {
        let side = &platform.detail;
        let known = |(name, _): &(&String, &String)| side.spec.params.contains_key(name.as_str());
        let given: Params = wish.tokens.iter().filter(known).map(|(n, v)| (n.clone(), v.clone())).collect();
        let params = side.spec.resolve_params(&given).map_err(CrawlFailure::from)?;
        let position = Position::Ids { at: Box::new(Position::Time), ids: vec![wish.note_id.clone()] };
        let page = self.ask(side, &position, 1, &params, behalf).await?;
        platform.note(&page, &wish.note_id)
    }

    /// One exchange.
    async fn ask(
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
        let ask = PageRequest { position, window, page_size, params, now };
        let mut exchange = side.pager.request(&ask).map_err(|refusal| CrawlFailure::from(refusal.fault))?;
        let correlation = ("X-Ingest-Correlation-Id".to_owned(), behalf.request_id.clone());
        exchange.request.headers.extend((!correlation.1.is_empty()).then_some(correlation));
        let errand = OutgoingRequest {
            authoriser: Arc::clone(side.pager.authoriser(&exchange)),
            pinned: None,
            request: exchange.request.clone(),
            permits: Arc::new(GatePass::new(Arc::clone(&inner.gate), side.lane.clone(), true, None)),
            // Retries are the orchestrator's, so that they are not multiplied (CRAWL-83).
            pool: CookieChoice { name: behalf.cookie_name.clone(), exclude: behalf.exclude_cookies.clone(), tries: 1 },
        };
        let left = inner.clock.steady();
        let sent = match inner.credentials.send(&errand).await {
            Ok(sent) => sent,
            Err(refused) => return Err(self.refused(side, refused.fault, behalf).await),
        };
        let latency = inner.clock.steady().since(left);
        let result = side.pager.read(exchange, sent.answer, latency, inner.clock.now());
        inner.credentials.seen(sent.cookie, &result).await;
        result.map_err(|refusal| {
            if refusal.throttled || refusal.lowers_rate() {
                let feedback = GateFeedback { refused: true, retry_after: refusal.retry_after, remaining: None };
                inner.gate.feedback(&side.lane, left, &feedback);
            }
            CrawlFailure::upstream(refusal.fault)
        })
    }

    /// No request left, or no cookie was good enough for one: with what a person wants to know of the pool.
    async fn refused(&self, side: &PlatformEndpoint, fault: patra_core::Fault, behalf: &CrawlContext) -> CrawlFailure {
        let (platform, mut trouble) = (&side.spec.provenance_code, CrawlFailure::from(fault));
        let empty = trouble.code == Code::NotConfigured && behalf.cookie_name.is_none() && side.wants_cookie();
        if !empty && !matches!(trouble.code, Code::CookieExhausted | Code::CookieInvalid) {
            return trouble;
        }
        let Ok((cookies, now)) = self.inner.crawls.cookies(Some(platform.clone())).await else { return trouble };
        if empty && !cookies.is_empty() {
            return trouble;
        }
        if empty {
            let message = format!("no usable cookie for platform {platform}: none is stored");
            trouble = CrawlFailure::new(Code::CookieExhausted, message);
        }
        match (trouble.code, &behalf.cookie_name) {
            (Code::CookieInvalid, Some(name)) => {
                let found = cookies.iter().find(|cookie| cookie.cookie_name == *name);
                let status = found.map(|cookie| cookie.usage.after_cooling(now).status);
                trouble.detail("cookie_name", name.clone().into()).detail("status", serde_json::json!(status))
            }
            (Code::CookieInvalid, None) => trouble,
            _ => {
                let mut counts = CookieCounts::default();
                let rested: Vec<_> = cookies.iter().map(|cookie| cookie.usage.after_cooling(now)).collect();
                rested.iter().for_each(|wear| counts.add(wear.status));
                let next = rested.iter().filter_map(|wear| wear.cooling_until).min();
                trouble
                    .detail("platform", platform.clone().into())
                    .detail("active", counts.active.into())
                    .detail("cooling", counts.cooling.into())
                    .detail("invalid", counts.invalid.into())
                    .detail("banned", counts.banned.into())
                    .detail("next_active_at", serde_json::json!(next))
            }
        }
    }

    /// Runs a question, notes which cookie it used, and gives up in time.
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
        // What the caller did wrong says nothing about the platform.
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

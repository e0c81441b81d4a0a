//! A store that refuses to write, for replays and the crawler.

mod board;

use std::sync::Arc;

use patra_core::Ts;
use patra_core::alert;
use patra_core::crawl::{CrawlCandidate as WaitingNote, CrawlNote, Execution};
use patra_core::credential::Credential;
use patra_core::id::{PlanId, RunId, SourceId};
use patra_core::port::crawl;
use patra_core::port::credential::CredentialFilter;
use patra_core::port::load::StoreLoad;
use patra_core::port::next_due::NextDue;
use patra_core::port::pool::{
    CaptureRule, DocumentFilter, DocumentRow, EndedJob, JobFilter, JobPoll, ProjectRow, StoredTweet, TweetFilter,
    UrlFilter, UrlPage,
};
use patra_core::port::query::{
    BatchEvidence, BatchPage, JobProgress, PlanLineage, RegisteredProvenance, StoredApiKey, StoredRawResponse,
    StoredVersion, View, ViewFilter, ViewRow,
};
use patra_core::port::source::{
    CollectorStats, DueSources, ItemFilter, ItemStats, RawItem, SourceFilter, StoredSource,
};
use patra_core::port::{
    BoxFuture, Commands, CrawlQueries, CredentialQueries, PoolQueries, Queries, SourceQueries, Store,
};
use patra_core::record::{DetailCandidate, RecordStream};
use patra_core::registry::DictType;
use patra_core::tweet::FetchStats;
use patra_core::tx::{Done, IdRange, RefreshCriteria, SourceTypeRow, Tx, TxError};

/// Delegates all reads to a store.
#[derive(Clone, Debug)]
pub struct ReadOnlyStore {
    queries: Arc<dyn Queries>,
    credentials: Arc<dyn CredentialQueries>,
    /// Transactions that are allowed nevertheless.
    commands: Option<(Arc<dyn Commands>, AllowedTx)>,
}

/// Decides whether a transaction is allowed.
type AllowedTx = fn(&Tx) -> bool;

/// Allows the transactions of the cookie pool: a request uses a cookie and records its outcome.
fn spends(tx: &Tx) -> bool {
    matches!(tx, Tx::PickCookie(_) | Tx::ReleaseCookie(_) | Tx::RecordCookieOutcome(_))
}

impl ReadOnlyStore {
    /// A store that allows no transaction. Both arguments are views of one store.
    pub fn new(queries: Arc<dyn Queries>, credentials: Arc<dyn CredentialQueries>) -> ReadOnlyStore {
        ReadOnlyStore { queries, credentials, commands: None }
    }

    pub fn of(store: &Arc<dyn Store>) -> ReadOnlyStore {
        ReadOnlyStore {
            queries: Arc::clone(store) as Arc<dyn Queries>,
            credentials: Arc::clone(store) as Arc<dyn CredentialQueries>,
            commands: Some((Arc::clone(store) as Arc<dyn Commands>, spends)),
        }
    }

    /// A read-only store that renews tokens, for work that is no replay.
    pub(crate) fn renewing(store: &Arc<dyn Store>) -> ReadOnlyStore {
        let renews = |tx: &Tx| {
            let token = matches!(tx, Tx::LeaseRefresh(_) | Tx::StoreToken(_) | Tx::FailRefresh(_));
            token || matches!(tx, Tx::MarkCredential(_)) || spends(tx)
        };
        ReadOnlyStore { commands: Some((Arc::clone(store) as Arc<dyn Commands>, renews)), ..ReadOnlyStore::of(store) }
    }
}

impl Commands for ReadOnlyStore {
    fn execute(&self, tx: Tx) -> BoxFuture<'_, Result<Done, TxError>> {
        if let Some((commands, _)) = self.commands.as_ref().filter(|(_, may)| may(&tx)) {
            return commands.execute(tx);
        }
        let refused = TxError::Refused(format!("a read-only store refuses {}", tx.name()));
        Box::pin(std::future::ready(Err(refused)))
    }
}

impl CredentialQueries for ReadOnlyStore {
    fn credentials(&self, ask: CredentialFilter) -> BoxFuture<'_, Result<Vec<Credential>, TxError>> {
        self.credentials.credentials(ask)
    }
}

/// Replays and the crawler use no sources and none of the crawler's tables.
impl CrawlQueries for ReadOnlyStore {
    fn executions(&self, _wanted: crawl::CrawlFilter) -> BoxFuture<'_, Result<Vec<(i64, Execution)>, TxError>> {
        no_crawls()
    }

    fn candidates(&self, _wanted: crawl::CrawlFilter) -> BoxFuture<'_, Result<Vec<WaitingNote>, TxError>> {
        no_crawls()
    }

    fn notes(&self, _wanted: crawl::CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlNote>, TxError>> {
        no_crawls()
    }

    fn cookies(&self, _wanted: crawl::CookieFilter) -> BoxFuture<'_, Result<(Vec<crawl::CookieView>, Ts), TxError>> {
        no_crawls()
    }

    fn cookie_totals(&self, _platform: Option<String>) -> BoxFuture<'_, Result<(crawl::PlatformTotals, Ts), TxError>> {
        no_crawls()
    }

    fn backlog(&self) -> BoxFuture<'_, Result<u64, TxError>> {
        no_crawls()
    }

    fn crawled(&self) -> BoxFuture<'_, Result<Vec<crawl::CrawlRequestCounts>, TxError>> {
        no_crawls()
    }

    fn alerts(&self) -> BoxFuture<'_, Result<Vec<alert::AlertView>, TxError>> {
        no_crawls()
    }
}

fn no_crawls<T: Send + 'static>() -> BoxFuture<'static, Result<T, TxError>> {
    let refused = TxError::Refused("a replay cannot read the tables of the crawler".to_owned());
    Box::pin(std::future::ready(Err(refused)))
}

impl SourceQueries for ReadOnlyStore {
    fn due(&self, _limit: u32) -> BoxFuture<'_, Result<DueSources, TxError>> {
        no_sources()
    }

    fn sources(&self, _ask: SourceFilter) -> BoxFuture<'_, Result<Vec<StoredSource>, TxError>> {
        no_sources()
    }

    fn source_types(&self) -> BoxFuture<'_, Result<Vec<SourceTypeRow>, TxError>> {
        no_sources()
    }

    fn settings(&self) -> BoxFuture<'_, Result<Vec<(String, String)>, TxError>> {
        no_sources()
    }

    fn raw_items(&self, _ask: ItemFilter) -> BoxFuture<'_, Result<Vec<RawItem>, TxError>> {
        no_sources()
    }

    fn raw_item_stats(&self, _project_key: &str) -> BoxFuture<'_, Result<Vec<ItemStats>, TxError>> {
        no_sources()
    }

    fn collector_stats(&self, _project_key: &str) -> BoxFuture<'_, Result<CollectorStats, TxError>> {
        no_sources()
    }
}

impl PoolQueries for ReadOnlyStore {
    fn projects(&self) -> BoxFuture<'_, Result<Vec<ProjectRow>, TxError>> {
        no_sources()
    }

    fn pool_urls(&self, _ask: UrlFilter) -> BoxFuture<'_, Result<UrlPage, TxError>> {
        no_sources()
    }

    fn capture_rules(&self, _project_key: Option<&str>) -> BoxFuture<'_, Result<Vec<CaptureRule>, TxError>> {
        no_sources()
    }

    fn documents(&self, _ask: DocumentFilter) -> BoxFuture<'_, Result<Vec<DocumentRow>, TxError>> {
        no_sources()
    }

    fn ended_jobs(&self, _ask: JobFilter) -> BoxFuture<'_, Result<Vec<EndedJob>, TxError>> {
        no_sources()
    }

    fn items_of_job(
        &self,
        _instance: i64,
        _after: i64,
        _limit: u32,
    ) -> BoxFuture<'_, Result<Vec<(i64, String, String)>, TxError>> {
        no_sources()
    }

    fn polls_of_job(&self, _instance: i64) -> BoxFuture<'_, Result<Vec<JobPoll>, TxError>> {
        no_sources()
    }

    fn fetch_stats(&self, _sources: &[SourceId]) -> BoxFuture<'_, Result<Vec<(SourceId, FetchStats)>, TxError>> {
        no_sources()
    }

    fn tweets(&self, _ask: TweetFilter) -> BoxFuture<'_, Result<Vec<StoredTweet>, TxError>> {
        no_sources()
    }

    fn job_types(&self, _: &str) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        no_sources()
    }
}

fn no_sources<T: Send + 'static>() -> BoxFuture<'static, Result<T, TxError>> {
    let refused = TxError::Refused("a replay looks at no sources".to_owned());
    Box::pin(std::future::ready(Err(refused)))
}

impl Queries for ReadOnlyStore {
    fn registry(&self, provenance_code: &str) -> BoxFuture<'_, Result<Option<RegisteredProvenance>, TxError>> {
        self.queries.registry(provenance_code)
    }

    fn dictionary(&self) -> BoxFuture<'_, Result<Vec<DictType>, TxError>> {
        self.queries.dictionary()
    }

    fn snapshot(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, TxError>> {
        self.queries.snapshot(hash)
    }

    fn screen(
        &self,
        stream: &RecordStream,
        candidates: &[DetailCandidate],
    ) -> BoxFuture<'_, Result<Vec<DetailCandidate>, TxError>> {
        self.queries.screen(stream, candidates)
    }

    fn ids_to_refresh(
        &self,
        stream: &RecordStream,
        wanted: &RefreshCriteria,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        self.queries.ids_to_refresh(stream, wanted, range, after, limit)
    }

    fn stored(&self, stream: &RecordStream, keys: &[String]) -> BoxFuture<'_, Result<Vec<StoredVersion>, TxError>> {
        self.queries.stored(stream, keys)
    }

    fn evidence(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<BatchEvidence>, TxError>> {
        self.queries.evidence(run, batch_no)
    }

    fn raw(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<StoredRawResponse>, TxError>> {
        self.queries.raw(run, batch_no)
    }

    fn lineage(&self, plan: PlanId, batches: BatchPage) -> BoxFuture<'_, Result<Option<PlanLineage>, TxError>> {
        self.queries.lineage(plan, batches)
    }

    fn progress(&self, public_id: &str) -> BoxFuture<'_, Result<Option<JobProgress>, TxError>> {
        self.queries.progress(public_id)
    }

    fn key(&self, prefix: &str) -> BoxFuture<'_, Result<Option<StoredApiKey>, TxError>> {
        self.queries.key(prefix)
    }

    fn list(&self, view: View, filter: ViewFilter) -> BoxFuture<'_, Result<Vec<ViewRow>, TxError>> {
        self.queries.list(view, filter)
    }

    fn load(&self) -> BoxFuture<'_, Result<StoreLoad, TxError>> {
        self.queries.load()
    }

    fn next_due(&self) -> BoxFuture<'_, Result<NextDue, TxError>> {
        self.queries.next_due()
    }

    fn ping(&self) -> BoxFuture<'_, Result<u32, TxError>> {
        self.queries.ping()
    }
}

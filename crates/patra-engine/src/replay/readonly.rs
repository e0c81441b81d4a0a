//! A store that refuses to write: what replays and the crawler are given, so that none can change anything by accident.

mod board;

use std::sync::Arc;

use patra_core::Ts;
use patra_core::alert;
use patra_core::crawl::{Candidate as WaitingNote, Execution, Note};
use patra_core::credential::Credential;
use patra_core::id::{PlanId, RunId, SourceId};
use patra_core::port::ahead::Ahead;
use patra_core::port::crawl;
use patra_core::port::credential::Ask;
use patra_core::port::load::Load;
use patra_core::port::pool::{
    CaptureRule, Document, DocumentFilter, EndedJob, JobFilter, JobPoll, Project, StoredTweet, TweetFilter, UrlFilter,
    UrlPage,
};
use patra_core::port::query::{
    BatchPage, Evidence, Filter, Key, Lineage, Progress, RawKept, Registered, Row, StoredVersion, View,
};
use patra_core::port::source::{Collecting, Due, ItemFilter, ItemStats, RawItem, Source, SourceFilter};
use patra_core::port::{Boxed, Commands, Crawls, Credentials, Pool, Queries, Sources, Store};
use patra_core::record::{Candidate, Stream};
use patra_core::registry::DictType;
use patra_core::tweet::FetchStats;
use patra_core::tx::{Done, IdRange, Tx, TxError, TypeRow, Wanted};

/// Reads as the store behind it does.
#[derive(Clone, Debug)]
pub struct ReadOnly {
    queries: Arc<dyn Queries>,
    credentials: Arc<dyn Credentials>,
    /// What may be written nevertheless.
    commands: Option<(Arc<dyn Commands>, Allowed)>,
}

/// Whether an operation may be done.
type Allowed = fn(&Tx) -> bool;

/// Whoever asks the far side spends an account, and learns what it is worth.
fn spends(tx: &Tx) -> bool {
    matches!(tx, Tx::PickCookie(_) | Tx::JudgeCookie(_))
}

impl ReadOnly {
    /// Both are ways into one store.
    pub fn new(queries: Arc<dyn Queries>, credentials: Arc<dyn Credentials>) -> ReadOnly {
        ReadOnly { queries, credentials, commands: None }
    }

    pub fn of(store: &Arc<dyn Store>) -> ReadOnly {
        ReadOnly {
            queries: Arc::clone(store) as Arc<dyn Queries>,
            credentials: Arc::clone(store) as Arc<dyn Credentials>,
            commands: Some((Arc::clone(store) as Arc<dyn Commands>, spends)),
        }
    }

    /// The same, with tokens that are renewed: for work that is no replay.
    pub(crate) fn renewing(store: &Arc<dyn Store>) -> ReadOnly {
        let renews = |tx: &Tx| {
            let token = matches!(tx, Tx::LeaseRefresh(_) | Tx::StoreToken(_) | Tx::FailRefresh(_));
            token || matches!(tx, Tx::MarkCredential(_)) || spends(tx)
        };
        ReadOnly { commands: Some((Arc::clone(store) as Arc<dyn Commands>, renews)), ..ReadOnly::of(store) }
    }
}

impl Commands for ReadOnly {
    fn execute(&self, tx: Tx) -> Boxed<'_, Result<Done, TxError>> {
        if let Some((commands, _)) = self.commands.as_ref().filter(|(_, may)| may(&tx)) {
            return commands.execute(tx);
        }
        let refused = TxError::Refused(format!("whoever only looks writes nothing, and {} would", tx.name()));
        Box::pin(std::future::ready(Err(refused)))
    }
}

impl Credentials for ReadOnly {
    fn credentials(&self, ask: Ask) -> Boxed<'_, Result<Vec<Credential>, TxError>> {
        self.credentials.credentials(ask)
    }
}

/// A replay is of one batch; it has no business with sources, nor with what the crawler keeps.
impl Crawls for ReadOnly {
    fn executions(&self, _wanted: crawl::Wanted) -> Boxed<'_, Result<Vec<(i64, Execution)>, TxError>> {
        no_crawls()
    }

    fn candidates(&self, _wanted: crawl::Wanted) -> Boxed<'_, Result<Vec<WaitingNote>, TxError>> {
        no_crawls()
    }

    fn notes(&self, _wanted: crawl::Wanted) -> Boxed<'_, Result<Vec<Note>, TxError>> {
        no_crawls()
    }

    fn cookies(&self, _platform: Option<String>) -> Boxed<'_, Result<(Vec<crawl::CookieView>, Ts), TxError>> {
        no_crawls()
    }

    fn backlog(&self) -> Boxed<'_, Result<u64, TxError>> {
        no_crawls()
    }

    fn crawled(&self) -> Boxed<'_, Result<Vec<crawl::Crawled>, TxError>> {
        no_crawls()
    }

    fn alerts(&self) -> Boxed<'_, Result<Vec<alert::View>, TxError>> {
        no_crawls()
    }
}

fn no_crawls<T: Send + 'static>() -> Boxed<'static, Result<T, TxError>> {
    let refused = TxError::Refused("whoever only reads a batch looks at nothing of the crawler".to_owned());
    Box::pin(std::future::ready(Err(refused)))
}

impl Sources for ReadOnly {
    fn due(&self, _limit: u32) -> Boxed<'_, Result<Due, TxError>> {
        no_sources()
    }

    fn sources(&self, _ask: SourceFilter) -> Boxed<'_, Result<Vec<Source>, TxError>> {
        no_sources()
    }

    fn source_types(&self) -> Boxed<'_, Result<Vec<TypeRow>, TxError>> {
        no_sources()
    }

    fn settings(&self) -> Boxed<'_, Result<Vec<(String, String)>, TxError>> {
        no_sources()
    }

    fn raw_items(&self, _ask: ItemFilter) -> Boxed<'_, Result<Vec<RawItem>, TxError>> {
        no_sources()
    }

    fn raw_item_stats(&self, _project_key: &str) -> Boxed<'_, Result<Vec<ItemStats>, TxError>> {
        no_sources()
    }

    fn collecting(&self, _project_key: &str) -> Boxed<'_, Result<Collecting, TxError>> {
        no_sources()
    }
}

impl Pool for ReadOnly {
    fn projects(&self) -> Boxed<'_, Result<Vec<Project>, TxError>> {
        no_sources()
    }

    fn pool_urls(&self, _ask: UrlFilter) -> Boxed<'_, Result<UrlPage, TxError>> {
        no_sources()
    }

    fn capture_rules(&self, _project_key: Option<&str>) -> Boxed<'_, Result<Vec<CaptureRule>, TxError>> {
        no_sources()
    }

    fn documents(&self, _ask: DocumentFilter) -> Boxed<'_, Result<Vec<Document>, TxError>> {
        no_sources()
    }

    fn ended_jobs(&self, _ask: JobFilter) -> Boxed<'_, Result<Vec<EndedJob>, TxError>> {
        no_sources()
    }

    fn items_of_job(
        &self,
        _instance: i64,
        _after: i64,
        _limit: u32,
    ) -> Boxed<'_, Result<Vec<(i64, String, String)>, TxError>> {
        no_sources()
    }

    fn polls_of_job(&self, _instance: i64) -> Boxed<'_, Result<Vec<JobPoll>, TxError>> {
        no_sources()
    }

    fn fetch_stats(&self, _sources: &[SourceId]) -> Boxed<'_, Result<Vec<(SourceId, FetchStats)>, TxError>> {
        no_sources()
    }

    fn tweets(&self, _ask: TweetFilter) -> Boxed<'_, Result<Vec<StoredTweet>, TxError>> {
        no_sources()
    }

    fn job_types(&self, _: &str) -> Boxed<'_, Result<Vec<String>, TxError>> {
        no_sources()
    }
}

fn no_sources<T: Send + 'static>() -> Boxed<'static, Result<T, TxError>> {
    let refused = TxError::Refused("a replay looks at no sources".to_owned());
    Box::pin(std::future::ready(Err(refused)))
}

impl Queries for ReadOnly {
    fn registry(&self, provenance_code: &str) -> Boxed<'_, Result<Option<Registered>, TxError>> {
        self.queries.registry(provenance_code)
    }

    fn dictionary(&self) -> Boxed<'_, Result<Vec<DictType>, TxError>> {
        self.queries.dictionary()
    }

    fn snapshot(&self, hash: &str) -> Boxed<'_, Result<Option<String>, TxError>> {
        self.queries.snapshot(hash)
    }

    fn screen(&self, stream: &Stream, candidates: &[Candidate]) -> Boxed<'_, Result<Vec<Candidate>, TxError>> {
        self.queries.screen(stream, candidates)
    }

    fn wanted(
        &self,
        stream: &Stream,
        wanted: &Wanted,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> Boxed<'_, Result<Vec<String>, TxError>> {
        self.queries.wanted(stream, wanted, range, after, limit)
    }

    fn stored(&self, stream: &Stream, keys: &[String]) -> Boxed<'_, Result<Vec<StoredVersion>, TxError>> {
        self.queries.stored(stream, keys)
    }

    fn evidence(&self, run: RunId, batch_no: u32) -> Boxed<'_, Result<Option<Evidence>, TxError>> {
        self.queries.evidence(run, batch_no)
    }

    fn raw(&self, run: RunId, batch_no: u32) -> Boxed<'_, Result<Option<RawKept>, TxError>> {
        self.queries.raw(run, batch_no)
    }

    fn lineage(&self, plan: PlanId, batches: BatchPage) -> Boxed<'_, Result<Option<Lineage>, TxError>> {
        self.queries.lineage(plan, batches)
    }

    fn progress(&self, public_id: &str) -> Boxed<'_, Result<Option<Progress>, TxError>> {
        self.queries.progress(public_id)
    }

    fn key(&self, prefix: &str) -> Boxed<'_, Result<Option<Key>, TxError>> {
        self.queries.key(prefix)
    }

    fn list(&self, view: View, filter: Filter) -> Boxed<'_, Result<Vec<Row>, TxError>> {
        self.queries.list(view, filter)
    }

    fn load(&self) -> Boxed<'_, Result<Load, TxError>> {
        self.queries.load()
    }

    fn ahead(&self) -> Boxed<'_, Result<Ahead, TxError>> {
        self.queries.ahead()
    }

    fn ping(&self) -> Boxed<'_, Result<u32, TxError>> {
        self.queries.ping()
    }
}

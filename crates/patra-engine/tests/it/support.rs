//! Test world for the engine: in-memory store, virtual clock, mock API.

mod board;
mod pool;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use patra_core::crawl::{CrawlCandidate as WaitingNote, CrawlNote, Execution};
use patra_core::credential::Credential;
use patra_core::port::crawl;
use patra_core::port::credential::CredentialFilter;
use patra_core::port::load::StoreLoad;
use patra_core::port::next_due::NextDue;
use patra_core::port::query::{
    BatchEvidence, BatchPage, JobProgress, PlanLineage, RegisteredProvenance, StoredApiKey, StoredRawResponse,
    StoredVersion, View, ViewFilter, ViewRow,
};
use patra_core::port::source::{
    CollectorStats, DueSources, ItemFilter, ItemStats, RawItem, SourceFilter, StoredSource,
};
use patra_core::port::transport::{Error, HttpRequest, HttpResponse};
use patra_core::port::{
    BoxFuture, Clock, Commands, CommandsExt, CrawlQueries, CredentialQueries, Queries, SourceQueries, Store, Transport,
};
use patra_core::protocol::run;
use patra_core::record::{DetailCandidate, RecordStream};
use patra_core::registry::DictType;
use patra_core::rng::Rng;
use patra_core::state::{Operation, TriggerType};
use patra_core::tx::{Done, IdRange, RefreshCriteria, RequestJob, SourceTypeRow, Tx, TxError};
use patra_core::{PlanId, RunId, Ts};
use patra_engine::gate::RateGate;
use patra_engine::{Engine, EngineRole, Options, Ports};
use patra_testkit::memory::SharedMem;

/// The window that the tests harvest: 1970-01-01T00:00 to 00:02, in two slices.
pub(crate) const END: Ts = Ts::from_secs(120);

pub(crate) const MANIFEST: &str = r#"
provenance: far
allow_http: true
defaults: { rate_limit: { refill_rate_per_sec: 1000, burst: 1000 } }
endpoints:
  records:
    http: { base_url: "http://far.example", path: / }
    query: { offset: "${ page.offset }", from: "${ window.from | epoch }", to: "${ window.to | epoch }" }
    pagination: { type: offset, page_size: 10 }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, max_window: PT1M, initial: 1970-01-01 }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
"#;

pub(crate) struct World {
    pub(crate) store: SharedMem,
    pub(crate) transport: Arc<MockApi>,
    pub(crate) clock: Arc<TokioClock>,
    port: Arc<dyn Store>,
    run: run::Options,
}

impl World {
    pub(crate) fn new(api: MockApi) -> World {
        let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
        let store = SharedMem::new(clock.clone());
        World { port: Arc::new(store.clone()), store, transport: Arc::new(api), clock, run: run::Options::default() }
    }

    pub(crate) fn with_flaky_store(self, seed: u64) -> World {
        World { port: flaky(&self.store, seed), run: patient(), ..self }
    }

    /// The first reads of manifests and snapshots fail.
    pub(crate) fn with_blind_store(self, reads: u64) -> World {
        let port = Arc::new(Flaky { blind: AtomicU64::new(reads), ..Flaky::new(&self.store) });
        World { port, ..self }
    }

    /// Counts how often the registry is read.
    pub(crate) fn with_watched_store(self) -> (World, Arc<AtomicU64>) {
        let registry_reads = Arc::<AtomicU64>::default();
        let flaky = Flaky { registry_reads: Arc::clone(&registry_reads), ..Flaky::new(&self.store) };
        (World { port: Arc::new(flaky), ..self }, registry_reads)
    }

    /// A store that can be switched off.
    pub(crate) fn with_switch(self) -> (World, Arc<Switch>) {
        let switch = Arc::<Switch>::default();
        let flaky = Flaky { switch: Arc::clone(&switch), ..Flaky::new(&self.store) };
        (World { port: Arc::new(flaky), ..self }, switch)
    }

    pub(crate) fn gate(&self, owner: &str) -> Arc<RateGate> {
        RateGate::new(Arc::clone(&self.port), self.clock.clone(), owner, 1)
    }

    pub(crate) async fn start(&self, owner: &str) -> Engine {
        self.start_as(owner, &[EngineRole::Planner, EngineRole::Executor]).await
    }

    pub(crate) async fn start_as(&self, owner: &str, roles: &[EngineRole]) -> Engine {
        self.start_with(owner, roles, 2).await
    }

    pub(crate) async fn start_with(&self, owner: &str, roles: &[EngineRole], concurrency: u32) -> Engine {
        let ports =
            Ports { store: Arc::clone(&self.port), transport: self.transport.clone(), clock: self.clock.clone() };
        let (lease, roles, run) = (Duration::from_secs(10), roles.to_vec(), self.run);
        let options = Options { lease, concurrency, roles, run, ..Options::new(owner) };
        Engine::start(ports, options, Arc::new(())).await.unwrap()
    }

    pub(crate) async fn fire(&self, public_id: &str) {
        self.apply(MANIFEST).await;
        self.ask(public_id).await;
    }

    pub(crate) async fn apply(&self, yaml: &str) {
        let manifest = patra_spec::read("far.yaml", yaml).unwrap();
        patra_engine::registry::apply(&self.store, &manifest).await.unwrap();
    }

    /// Requests a harvest of the applied manifest.
    pub(crate) async fn ask(&self, public_id: &str) {
        self.store.run(fire(public_id)).await.unwrap();
    }

    /// Waits until the job has ended; virtual time passes as fast as it can.
    pub(crate) async fn finished(&self, public_id: &str) -> JobProgress {
        for _ in 0..100_000 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let progress = self.store.progress(public_id).await.unwrap().unwrap();
            if progress.is_finished() {
                // The cursor moves just after the last task ends.
                tokio::time::sleep(Duration::from_secs(1)).await;
                return progress;
            }
        }
        panic!("the job does not end: {:?}", self.store.progress(public_id).await);
    }

    pub(crate) fn items(&self) -> usize {
        self.store.lock().items.len()
    }

    pub(crate) fn cursor(&self) -> Option<Ts> {
        self.store.lock().cursors.first().and_then(|cursor| cursor.value.as_ref()?.instant())
    }
}

/// A harvest up to [`END`].
pub(crate) fn fire(public_id: &str) -> RequestJob {
    RequestJob {
        public_id: public_id.into(),
        trigger_type: TriggerType::Manual,
        project_key: "default".into(),
        provenance_code: "far".into(),
        endpoint_name: "records".into(),
        operation: Operation::Harvest,
        reason: None,
        activity: None,
        window_from: None,
        window_to: Some(END),
        priority: 0,
        params: "{}".into(),
        overrides: "{}".into(),
    }
}

pub(crate) async fn stop(engine: Engine) {
    engine.stop(CancellationToken::new()).await;
}

/// The wall clock in step with tokio's virtual time.
#[derive(Debug)]
pub(crate) struct TokioClock(pub(crate) tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Ts {
        Ts::from_secs(1_000_000) + self.0.elapsed()
    }
}

/// Mock API with `records` records, one a second; responds by offset within a window, or by ids.
#[derive(Debug, Default)]
pub(crate) struct MockApi {
    pub(crate) records: u64,
    pub(crate) latency: Duration,
    /// Every n-th request fails with 500.
    pub(crate) fail_every: u64,
    /// Every n-th request is refused with 429.
    pub(crate) throttle_every: u64,
    /// The offset in the first slice at which the response is always 404.
    pub(crate) poison: Option<u64>,
    pub(crate) panics: bool,
    /// Index of the record that is not visible yet; 0 for none.
    pub(crate) hidden: AtomicU64,
    pub(crate) requests: AtomicU64,
}

impl MockApi {
    pub(crate) fn with(records: u64) -> MockApi {
        MockApi { records, ..MockApi::default() }
    }

    fn answer(&self, url: &str, number: u64) -> (u16, String) {
        let query = url.split_once('?').unwrap().1;
        if let Some(ids) = query.strip_prefix("ids=") {
            let one = |id: &str| format!(r#"{{"id":"{id}","at":{}}}"#, id.trim_start_matches('r'));
            let items: Vec<_> = ids.split("%2C").map(one).collect();
            return (200, format!(r#"{{"items":[{}]}}"#, items.join(",")));
        }
        let get = |name: &str| -> u64 {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            pair.unwrap().parse::<i64>().unwrap().max(0) as u64
        };
        let (offset, from, to) = (get("offset"), get("from"), get("to"));
        if from == 0 && self.poison == Some(offset) {
            return (404, String::new());
        }
        if self.throttle_every > 0 && number.is_multiple_of(self.throttle_every) {
            return (429, String::new());
        }
        if self.fail_every > 0 && number.is_multiple_of(self.fail_every) {
            return (500, String::new());
        }
        let hidden = self.hidden.load(Relaxed);
        let items: Vec<_> = (from..to.min(self.records))
            .filter(|at| hidden == 0 || *at != hidden)
            .skip(offset as usize)
            .take(10)
            .map(|at| format!(r#"{{"id":"r{at}","at":{at}}}"#))
            .collect();
        (200, format!(r#"{{"items":[{}]}}"#, items.join(",")))
    }
}

impl Transport for MockApi {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, Error>> {
        let number = self.requests.fetch_add(1, Relaxed) + 1;
        Box::pin(async move {
            assert!(!self.panics, "an upstream that kills whoever asks");
            tokio::time::sleep(self.latency).await;
            let (status, body) = self.answer(&request.url, number);
            Ok(HttpResponse { status, headers: Vec::new(), body: Bytes::from(body), redirected: None })
        })
    }
}

/// A store in which four in ten transactions fail.
pub(crate) fn flaky(store: &SharedMem, seed: u64) -> Arc<dyn Store> {
    Arc::new(Flaky { rng: std::sync::Mutex::new(Rng::new(seed)), odds: 4, ..Flaky::new(store) })
}

/// Options with many attempts: one claim in seven loses its reply, and a task would fail after five of them in a row.
pub(crate) fn patient() -> run::Options {
    run::Options { max_attempts: 50, ..run::Options::default() }
}

/// Behaviour of a store, and counts of its requests.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    pub(crate) transactions: AtomicU64,
    /// Calls of `next_due`.
    pub(crate) looks: AtomicU64,
    /// Every call fails.
    pub(crate) away: AtomicBool,
    /// Requests of the gate get no reply.
    pub(crate) mute: AtomicBool,
    /// Requests of the gate panic.
    pub(crate) deadly: AtomicBool,
    /// Transactions of cursors are slow.
    pub(crate) thoughtful: AtomicBool,
    /// Number of `RecordAdvance` transactions.
    pub(crate) cursor_asked: AtomicU64,
    pub(crate) asked: AtomicU64,
    /// Gate requests that carried signals.
    pub(crate) signalled: AtomicU64,
}

/// A store that is sometimes busy, sometimes down, and sometimes commits and loses the reply.
#[derive(Debug)]
struct Flaky {
    store: SharedMem,
    rng: std::sync::Mutex<Rng>,
    /// Transactions in ten that fail.
    odds: u64,
    /// Number of reads that will fail.
    blind: AtomicU64,
    registry_reads: Arc<AtomicU64>,
    switch: Arc<Switch>,
}

impl Flaky {
    fn new(store: &SharedMem) -> Flaky {
        Flaky {
            store: store.clone(),
            rng: std::sync::Mutex::new(Rng::new(0)),
            odds: 0,
            blind: AtomicU64::new(0),
            registry_reads: Arc::default(),
            switch: Arc::default(),
        }
    }

    /// A random number; below four a transaction fails.
    fn dice(&self) -> u64 {
        self.rng.lock().unwrap().below(10) + 4 - self.odds
    }

    fn blinded(&self) -> bool {
        self.blind.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

fn away<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, TxError>> {
    Box::pin(async { Err(TxError::Busy) })
}

impl Commands for Flaky {
    fn execute(&self, tx: Tx) -> BoxFuture<'_, Result<Done, TxError>> {
        self.switch.transactions.fetch_add(1, Relaxed);
        let dice = self.dice();
        Box::pin(async move {
            if self.switch.away.load(Relaxed) {
                return Err(TxError::Unavailable("away".into()));
            }
            if let Tx::RecordAdvance(_) | Tx::AdvanceCursor(_) = &tx
                && self.switch.thoughtful.load(Relaxed)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            if let Tx::RecordAdvance(_) = &tx {
                self.switch.cursor_asked.fetch_add(1, Relaxed);
            }
            if let Tx::RequestPermits(question) = &tx {
                self.switch.asked.fetch_add(1, Relaxed);
                self.switch.signalled.fetch_add(u64::from(!question.request.signals.is_empty()), Relaxed);
                assert!(!self.switch.deadly.load(Relaxed), "a store that kills whoever asks");
                if self.switch.mute.load(Relaxed) {
                    return std::future::pending().await;
                }
            }
            match dice {
                0 => Err(TxError::Busy),
                1 => Err(TxError::Unavailable("away".into())),
                2 => Err(TxError::Unknown("lost before".into())),
                3 => {
                    let _ = self.store.execute(tx).await;
                    Err(TxError::Unknown("lost after".into()))
                }
                _ => self.store.execute(tx).await,
            }
        })
    }
}

impl Queries for Flaky {
    fn registry(&self, provenance_code: &str) -> BoxFuture<'_, Result<Option<RegisteredProvenance>, TxError>> {
        self.registry_reads.fetch_add(1, Relaxed);
        if self.blinded() { away() } else { self.store.registry(provenance_code) }
    }
    fn dictionary(&self) -> BoxFuture<'_, Result<Vec<DictType>, TxError>> {
        self.store.dictionary()
    }
    fn snapshot(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, TxError>> {
        if self.blinded() { away() } else { self.store.snapshot(hash) }
    }
    fn screen(
        &self,
        stream: &RecordStream,
        candidates: &[DetailCandidate],
    ) -> BoxFuture<'_, Result<Vec<DetailCandidate>, TxError>> {
        self.store.screen(stream, candidates)
    }
    fn ids_to_refresh(
        &self,
        stream: &RecordStream,
        wanted: &RefreshCriteria,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        self.store.ids_to_refresh(stream, wanted, range, after, limit)
    }
    fn stored(&self, stream: &RecordStream, keys: &[String]) -> BoxFuture<'_, Result<Vec<StoredVersion>, TxError>> {
        self.store.stored(stream, keys)
    }
    fn evidence(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<BatchEvidence>, TxError>> {
        self.store.evidence(run, batch_no)
    }
    fn raw(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<StoredRawResponse>, TxError>> {
        self.store.raw(run, batch_no)
    }
    fn lineage(&self, plan: PlanId, batches: BatchPage) -> BoxFuture<'_, Result<Option<PlanLineage>, TxError>> {
        self.store.lineage(plan, batches)
    }
    fn progress(&self, public_id: &str) -> BoxFuture<'_, Result<Option<JobProgress>, TxError>> {
        self.store.progress(public_id)
    }
    fn key(&self, prefix: &str) -> BoxFuture<'_, Result<Option<StoredApiKey>, TxError>> {
        self.store.key(prefix)
    }
    fn list(&self, view: View, filter: ViewFilter) -> BoxFuture<'_, Result<Vec<ViewRow>, TxError>> {
        self.store.list(view, filter)
    }
    fn load(&self) -> BoxFuture<'_, Result<StoreLoad, TxError>> {
        self.store.load()
    }

    fn next_due(&self) -> BoxFuture<'_, Result<NextDue, TxError>> {
        self.switch.looks.fetch_add(1, Relaxed);
        if self.switch.away.load(Relaxed) || self.dice() < 4 {
            return away();
        }
        self.store.next_due()
    }
    fn ping(&self) -> BoxFuture<'_, Result<u32, TxError>> {
        self.store.ping()
    }
}

impl CredentialQueries for Flaky {
    fn credentials(&self, ask: CredentialFilter) -> BoxFuture<'_, Result<Vec<Credential>, TxError>> {
        self.store.credentials(ask)
    }
}

impl CrawlQueries for Flaky {
    fn executions(&self, wanted: crawl::CrawlFilter) -> BoxFuture<'_, Result<Vec<(i64, Execution)>, TxError>> {
        self.store.executions(wanted)
    }
    fn candidates(&self, wanted: crawl::CrawlFilter) -> BoxFuture<'_, Result<Vec<WaitingNote>, TxError>> {
        self.store.candidates(wanted)
    }
    fn notes(&self, wanted: crawl::CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlNote>, TxError>> {
        self.store.notes(wanted)
    }
    fn cookies(&self, wanted: crawl::CookieFilter) -> BoxFuture<'_, Result<(Vec<crawl::CookieView>, Ts), TxError>> {
        self.store.cookies(wanted)
    }
    fn cookie_totals(&self, platform: Option<String>) -> BoxFuture<'_, Result<(crawl::PlatformTotals, Ts), TxError>> {
        self.store.cookie_totals(platform)
    }
    fn backlog(&self) -> BoxFuture<'_, Result<u64, TxError>> {
        self.store.backlog()
    }
    fn crawled(&self) -> BoxFuture<'_, Result<Vec<crawl::CrawlRequestCounts>, TxError>> {
        self.store.crawled()
    }
    fn alerts(&self) -> BoxFuture<'_, Result<Vec<patra_core::alert::AlertView>, TxError>> {
        self.store.alerts()
    }
}

impl SourceQueries for Flaky {
    fn due(&self, limit: u32) -> BoxFuture<'_, Result<DueSources, TxError>> {
        self.store.due(limit)
    }
    fn sources(&self, ask: SourceFilter) -> BoxFuture<'_, Result<Vec<StoredSource>, TxError>> {
        self.store.sources(ask)
    }
    fn source_types(&self) -> BoxFuture<'_, Result<Vec<SourceTypeRow>, TxError>> {
        self.store.source_types()
    }
    fn settings(&self) -> BoxFuture<'_, Result<Vec<(String, String)>, TxError>> {
        self.store.settings()
    }
    fn raw_items(&self, ask: ItemFilter) -> BoxFuture<'_, Result<Vec<RawItem>, TxError>> {
        self.store.raw_items(ask)
    }
    fn raw_item_stats(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<ItemStats>, TxError>> {
        self.store.raw_item_stats(project_key)
    }
    fn collector_stats(&self, project_key: &str) -> BoxFuture<'_, Result<CollectorStats, TxError>> {
        self.store.collector_stats(project_key)
    }
}

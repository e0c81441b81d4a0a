//! `crawl`: searches platforms, runs the built-in workflow, and lists what it shares with other workflows.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use patra_core::Code;
use patra_core::crawl::execution_id;
use patra_core::port::crawl::{CookieFilter, CrawlFilter};
use patra_core::port::{Clock as _, CommandsExt as _, Store};
use patra_core::project::DEFAULT;
use patra_core::tx::RequeueCandidates;
use patra_core::vault::VaultCell;
use patra_engine::crawler::flow::{self, BACKOFF, CrawlFlow, FlowError, FlowReport};
use patra_engine::crawler::{CrawlContext, CrawlFailure, Crawler, SearchRequest};
use patra_engine::{Engine, maintenance};
use patra_spec::suggest;

use crate::cli::{self, Crawl, CrawlList, CrawlRun, Global};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::settings::Environment;
use crate::signals::Signals;
use crate::{host, output, store};

pub(crate) async fn run(global: &Global, command: &Crawl) -> Result<Exit, Error> {
    match command {
        Crawl::Run(args) => flows(global, args).await,
        Crawl::Search { platform, keyword, page, cookie } => {
            let open = Open::new(global).await?;
            let search = SearchRequest {
                platform: platform.clone(),
                keyword: keyword.clone(),
                page: *page,
                ..SearchRequest::default()
            };
            let crawled = open.crawler.search(search, &behalf("search", cookie.as_deref())?).await;
            open.close().await;
            let found = crawled.result.map_err(refused)?;
            let items: Vec<_> = found
                .notes
                .into_iter()
                .map(|note| json!({ "note_id": note.note_id, "fields": note.fields, "tokens": note.tokens }))
                .collect();
            if global.output == cli::Output::Table {
                let text = |item: &Value, name: &str| item["fields"][name].as_str().unwrap_or_default().to_owned();
                let row = |item: &Value| {
                    vec![
                        item["note_id"].as_str().unwrap_or_default().to_owned(),
                        text(item, "author"),
                        text(item, "title"),
                    ]
                };
                output::grid(&["note_id", "author", "title"], items.iter().map(row))?;
                say(&format!(
                    "{}; cookie {}",
                    if found.has_more { "there are more pages" } else { "this is the last page" },
                    used(crawled.cookie_used)
                ));
                return Ok(Exit::Ok);
            }
            let value = json!({ "has_more": found.has_more, "search_id": found.search_id, "items": items });
            output::result(global.output, "", &value)?;
            Ok(Exit::Ok)
        }
        Crawl::Detail { platform, note_ids, tokens, cookie } => {
            details(global, platform, note_ids, tokens, cookie.as_deref()).await
        }
        Crawl::List { what, status, platform, limit } => {
            list(global, *what, status.as_deref(), platform.clone(), *limit).await
        }
        Crawl::Recover => {
            let opened = store::open(global).await?;
            let recovered =
                maintenance::recover(&*opened.store, Environment::read().maintenance()?.lock_timeout).await?;
            let text = format!(
                "{} execution(s) timed out, {} record(s) pending again, {} failed, {} cookie(s) active again",
                recovered.executions_timed_out,
                recovered.records_requeued,
                recovered.records_failed,
                recovered.cookies_reactivated
            );
            output::result(global.output, &text, &json!(recovered))?;
            Ok(Exit::Ok)
        }
        Crawl::Requeue { platform, note_id, keyword } => {
            let opened = store::open(global).await?;
            let requeue = RequeueCandidates {
                project_key: store::project(global, &*opened.store).await?,
                platform: platform.clone(),
                note_id: note_id.clone(),
                source_keyword: keyword.clone(),
            };
            let requeued = opened.store.run(requeue).await?.requeued;
            output::result(
                global.output,
                &format!("{requeued} candidate(s) pending again"),
                &json!({ "requeued": requeued }),
            )?;
            Ok(Exit::Ok)
        }
    }
}

/// A store, an engine without roles, and its crawler.
struct Open {
    store: Arc<dyn Store>,
    engine: Engine,
    crawler: Crawler,
    vault: VaultCell,
}

impl Open {
    async fn new(global: &Global) -> Result<Open, Error> {
        let opened = store::open(global).await?;
        let settings = cli::Engine { concurrency: 1, lease_secs: 60, retention_days: 0 };
        let store = Arc::clone(&opened.store);
        let engine = host::engine(global, settings, Vec::new(), opened.store, false, Arc::new(())).await?;
        Ok(Open { store, crawler: engine.crawler(), vault: engine.vault(), engine })
    }

    async fn close(self) {
        self.engine.stop(tokio_util::sync::CancellationToken::new()).await;
    }
}

fn used(cookie: Option<String>) -> String {
    cookie.unwrap_or_else(|| "none".to_owned())
}

fn behalf(step: &str, cookie: Option<&str>) -> Result<CrawlContext, Error> {
    let request_id = format!("{}-{step}", trace_id()?);
    Ok(CrawlContext { request_id, cookie_name: cookie.map(str::to_owned), ..CrawlContext::default() })
}

fn trace_id() -> Result<String, Error> {
    Ok(format!("wf-{}-{}", SystemClock.now().micros() / 1_000_000, host::random_hex::<3>()?))
}

fn refused(trouble: CrawlFailure) -> Error {
    let is_unknown = trouble.message.starts_with("there is no platform");
    let error = match trouble.code {
        Code::InvalidInput => Error::usage(trouble.message),
        Code::NotConfigured => Error::configuration(trouble.message),
        Code::NotFound => Error::not_found(trouble.message),
        code => Error::failed(format!("{code}: {}", trouble.message)),
    };
    match trouble.code {
        Code::CookieExhausted => {
            error.hint("`patra crawl list cookies` shows them; `patra credential add NAME --type cookie --provenance PLATFORM` adds one")
        }
        _ if is_unknown => error.hint("`patra apply -f FILE` adds one; `patra get provenances` lists them"),
        _ => error,
    }
}

async fn details(
    global: &Global,
    platform: &str,
    note_ids: &[String],
    tokens: &[(String, String)],
    cookie: Option<&str>,
) -> Result<Exit, Error> {
    let open = Open::new(global).await?;
    let mut requests = Vec::new();
    for note_id in note_ids {
        let tokens = tokens.iter().cloned().collect();
        let request = flow::note_request(
            &*open.store,
            &open.vault,
            global.project.as_deref().unwrap_or(DEFAULT),
            platform,
            note_id.clone(),
            tokens,
        )
        .await;
        requests.push(request.map_err(|error| Error::configuration(error.to_string()))?);
    }
    let batch = open.crawler.details(platform, requests, &behalf("detail", cookie)?).await;
    open.close().await;
    let batch = batch.map_err(refused)?;
    let failed = batch.result.iter().filter(|(_, result)| result.is_err()).count();
    for (id, result) in batch.result {
        match result {
            Ok(note) => output::line(&note.to_string())?,
            Err(trouble) => say(&format!("{id}: {}: {}", trouble.code, trouble.message)),
        }
    }
    Ok(if failed > 0 { Exit::Failures } else { Exit::Ok })
}

fn filter(global: &Global, limit: u32) -> CrawlFilter {
    let project_key = global.project.clone().unwrap_or_else(|| DEFAULT.to_owned());
    CrawlFilter { project_key, limit, ..CrawlFilter::default() }
}

async fn list(
    global: &Global,
    what: CrawlList,
    status: Option<&str>,
    platform: Option<String>,
    limit: u32,
) -> Result<Exit, Error> {
    let store = store::open_crawls(global).await?;
    let unknown = |words: &str| unknown_status(status.unwrap_or_default(), words);
    let rows: Vec<Value> = match what {
        CrawlList::Executions => {
            let words = "running, completed, failed, timeout";
            let execution = status.map(str::parse).transpose().map_err(|_| unknown(words))?;
            let rows = store.executions(CrawlFilter { execution, ..filter(global, limit) }).await?;
            rows.into_iter().map(|(_, execution)| json!(execution)).collect()
        }
        CrawlList::Candidates => {
            let words = "pending, processing, collected, failed";
            let candidate = status.map(str::parse).transpose().map_err(|_| unknown(words))?;
            let rows = store.candidates(CrawlFilter { candidate, platform, ..filter(global, limit) }).await?;
            let shown = rows.into_iter().map(|row| {
                json!({
                    "note_id": row.note_id, "platform": row.platform, "status": row.status, "retry_count": row.retry_count,
                    "source_keyword": row.source_keyword, "last_error_code": row.last_error_code,
                    "processing_lock": row.processing_lock, "created_at": row.created_at,
                })
            });
            shown.collect()
        }
        CrawlList::Notes => {
            let rows = store.notes(CrawlFilter { platform, ..filter(global, limit) }).await?;
            let shown = rows.into_iter().map(|row| {
                json!({
                    "id": row.id, "platform": row.platform, "note_id": row.note_id, "title": row.title, "author": row.author,
                    "published_at": row.published_at, "fetched_at": row.fetched_at,
                })
            });
            shown.collect()
        }
        CrawlList::Cookies => {
            let (rows, now) = store.cookies(CookieFilter { platform, limit, ..CookieFilter::default() }).await?;
            let shown = rows.into_iter().map(|row| {
                let usage = row.usage.after_cooling(now);
                json!({
                    "cookie_name": row.cookie_name, "platform": row.platform, "status": usage.status, "priority": row.priority,
                    "daily_used": usage.daily_used, "daily_limit": usage.daily_limit,
                    "consecutive_errors": usage.consecutive_errors, "total_errors": usage.total_errors,
                    "cooling_until": usage.cooling_until, "paused_at": usage.paused_at, "expires_at": usage.expires_at,
                    "max_parallel": usage.max_parallel, "in_use": usage.in_use, "encryption_key_id": row.encryption_key_id,
                })
            });
            shown.filter(|row| status.is_none_or(|status| row["status"] == status)).collect()
        }
        CrawlList::Alerts => {
            let shown = store.alerts().await?.into_iter().map(|row| {
                json!({
                    "alert": row.alert, "subject": row.subject, "level": row.level, "firing": row.state.firing,
                    "value": row.value, "threshold": row.threshold, "since": row.state.since,
                    "detail": row.detail,
                })
            });
            shown.collect()
        }
    };
    output::values(global.output, &rows)?;
    Ok(Exit::Ok)
}

fn unknown_status(status: &str, words: &str) -> Error {
    let known: Vec<_> = words.split(", ").collect();
    let error = Error::usage(format!("there is no status `{status}` here"));
    error.hint(suggest::suggest(status, &known).unwrap_or_default())
}

async fn flows(global: &Global, args: &CrawlRun) -> Result<Exit, Error> {
    let signals = Signals::listen()?;
    let open = Open::new(global).await?;
    let mut exit;
    loop {
        exit = Exit::Ok;
        for keyword in &args.keywords {
            if signals.stop.is_cancelled() {
                break;
            }
            exit = worst(exit, one(global, args, &open, keyword, &signals).await?);
        }
        let Some(minutes) = args.every.filter(|_| !signals.stop.is_cancelled()) else { break };
        tokio::select! {
            () = signals.stop.cancelled() => break,
            () = tokio::time::sleep(Duration::from_secs(minutes * 60)) => {}
        }
    }
    open.close().await;
    Ok(exit)
}

fn worst(one: Exit, other: Exit) -> Exit {
    if matches!(one, Exit::Ok) { other } else { one }
}

async fn one(global: &Global, args: &CrawlRun, open: &Open, keyword: &str, signals: &Signals) -> Result<Exit, Error> {
    let environment = Environment::read();
    let flow = CrawlFlow {
        project_key: global.project.clone().unwrap_or_else(|| DEFAULT.to_owned()),
        workflow_name: args.workflow.clone(),
        execution_id: execution_id(SystemClock.now(), &host::random_hex::<6>()?),
        trace_id: trace_id()?,
        platform: args.platform.clone(),
        keyword: keyword.to_owned(),
        max_pages: args.max_pages,
        batch_size: args.batch_size,
        lock_timeout: environment.maintenance()?.lock_timeout,
        backoff: environment.backoff()?.unwrap_or(BACKOFF),
        max_retry: environment.max_retry()?,
    };
    match flow::run(&open.store, &open.crawler, &open.vault, &flow, &signals.stop).await {
        Ok(report) if !report.locked => {
            say("another execution holds the lock: nothing was done");
            Ok(Exit::Ok)
        }
        Ok(report) => {
            print_report(global, keyword, &report)?;
            Ok(if report.failed > 0 { Exit::Failures } else { Exit::Ok })
        }
        Err(FlowError::Crawl(trouble)) => Err(refused(trouble)),
        Err(FlowError::Store(error)) => Err(error.into()),
        Err(error) => Err(Error::failed(error.to_string())),
    }
}

fn print_report(global: &Global, keyword: &str, report: &FlowReport) -> Result<(), Error> {
    let text = format!(
        "{keyword}: {} found ({} new), {} collected, {} known, {} failure(s), {} request(s)",
        report.found, report.created, report.collected, report.skipped, report.failed, report.requests
    );
    output::result(global.output, &text, &json!({ "keyword": keyword, "report": report }))
}

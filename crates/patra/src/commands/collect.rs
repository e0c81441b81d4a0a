//! `collect`: collects the sources that are due, once or continuously, or one source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};
use patra_core::port::source::{SourceFilter, StoredSource};
use patra_core::port::{Clock as _, Store};
use patra_core::state::{TaskStatus, TriggerType};
use patra_core::{JobId, SourceId};
use patra_engine::{Engine, EngineRole, PollRequested, poll_now_from};

use crate::cli::{Collect, Global};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::signals::Signals;
use crate::{host, output, store, tweets};

/// Polls that can start within this time are waited for, whatever delayed them.
const SOON: Duration = Duration::from_secs(5);

pub(crate) async fn run(global: &Global, args: &Collect) -> Result<Exit, Error> {
    match args.source {
        Some(id) => one(global, id).await,
        None if args.r#loop => continuously(global).await,
        None => due(global).await,
    }
}

async fn continuously(global: &Global) -> Result<Exit, Error> {
    let signals = Signals::listen()?;
    let opened = store::open(global).await?;
    tweets::apply_settings(global, &opened.store, tweets::Takeover::Full).await?;
    let engine = host::collector(global, vec![EngineRole::Collector], opened.store, opened.alone).await?;
    let signal = signals.stopped().await;
    tracing::info!("{signal} received: waiting for running collections");
    stop(engine, &signals).await
}

/// Lets running collections finish; the exit code says whether they did (COLL-59, COLL-60).
pub(crate) async fn stop(engine: Engine, signals: &Signals) -> Result<Exit, Error> {
    if engine.stop(signals.hurry.clone()).await {
        tracing::info!("all running collections are done");
        return Ok(Exit::Ok);
    }
    tracing::warn!("stopped before all collections were done; the rest is due again at the next start");
    Ok(Exit::Failures)
}

/// Collects everything that is due, once.
async fn due(global: &Global) -> Result<Exit, Error> {
    let signals = Signals::listen()?;
    let opened = store::open(global).await?;
    tweets::apply_settings(global, &opened.store, tweets::Takeover::Full).await?;
    let store = Arc::clone(&opened.store);
    let engine = host::collector(global, vec![EngineRole::Polls], opened.store, opened.alone).await?;
    let mut due = engine.poll_due().await?;
    due.extend(in_progress(&*store, &due).await?);
    engine.nudge();
    let left = wait(&*store, &due, &signals).await;
    // Without a running collector nobody else would clean up.
    if !signals.stop.is_cancelled() {
        engine.clean().await;
    }
    let exit = stop(engine, &signals).await?;
    left?;
    let results = results(&*store, &due).await?;
    let failed = results.iter().filter(|result| result["status"] == "error").count();
    let put_off = results.iter().filter(|result| result["status"] == "skipped").count();
    let inserted: i64 = results.iter().filter_map(|result| result["inserted"].as_i64()).sum();
    let text = match due.len() {
        0 => "no source is due".to_owned(),
        many => {
            let later = if put_off > 0 { format!(", {put_off} put off") } else { String::new() };
            let collected = many - put_off;
            let sources = if collected == 1 { "source" } else { "sources" };
            let items = if inserted == 1 { "item" } else { "items" };
            format!("{collected} {sources} collected: {inserted} new {items}, {failed} failed{later}")
        }
    };
    let value =
        json!({ "due": due.len(), "inserted": inserted, "failed": failed, "put_off": put_off, "sources": results });
    output::result(global.output, &text, &value)?;
    if exit != Exit::Ok {
        return Ok(exit);
    }
    for result in results.iter().filter(|result| result["status"] == "error").take(10) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, reason) = (text(&result["name"]), text(&result["error"]["message"]));
        say(&format!("  source {}, {name}: {reason}", result["source_id"]));
    }
    Ok(if failed > 0 { Exit::Failures } else { Exit::Ok })
}

/// Polls that a stopped process left, or that another process runs: no longer due and not yet done (COLL-62).
async fn in_progress(store: &dyn Store, due: &[SourceId]) -> Result<Vec<SourceId>, Error> {
    let known: BTreeSet<_> = due.iter().collect();
    let filter = SourceFilter { polling_only: true, ..SourceFilter::default() };
    let sources = store.sources(filter).await?;
    Ok(sources.into_iter().map(|source| source.id).filter(|id| !known.contains(id)).collect())
}

/// Waits until the polls of these sources have ended, except for those that the server wants later: a command that runs
/// every hour must not take a day.
async fn wait(store: &dyn Store, ids: &[SourceId], signals: &Signals) -> Result<(), Error> {
    let mut left: Vec<i64> = ids.iter().map(|id| id.0).collect();
    // Polls of one host take turns: each delay is looked up once.
    let mut turns = BTreeMap::new();
    while !left.is_empty() && !signals.stop.is_cancelled() {
        let mut still = Vec::new();
        for some in left.chunks(1_000) {
            let filter = SourceFilter { ids: Some(some.to_vec()), ..SourceFilter::default() };
            let sources = store.sources(filter).await?;
            for source in sources {
                let Some(at) = source.polling else { continue };
                let is_later = at > SystemClock.now() + SOON && turns.insert(source.id, at) != Some(at);
                if !is_later || put_off(store, &source).await?.is_none() {
                    still.push(source.id.0);
                }
            }
        }
        left = still;
        let pause = Duration::from_millis(if left.len() > 1_000 { 1_000 } else { 50 });
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// Why the server delays the poll of a source, and until when.
async fn put_off(store: &dyn Store, source: &StoredSource) -> Result<Option<String>, Error> {
    let (Some(at), Some(progress)) = (source.polling, store.progress(&last_poll(source)).await?) else {
        return Ok(None);
    };
    let task = task(store, progress.job).await?;
    let queued = Cell::Text(TaskStatus::Queued.as_str().to_owned());
    Ok(task.filter(|task| View::Tasks.cell(task, "status_code") == Some(queued)).and_then(|task| {
        let Some(Cell::Json(error)) = View::Tasks.cell(&task, "error") else { return None };
        let error: Value = serde_json::from_str(&error).unwrap_or_default();
        Some(format!("put off until {at}: {}", error["message"].as_str().unwrap_or_default()))
    }))
}

fn last_poll(source: &StoredSource) -> String {
    format!("source-{}-{}", source.id, source.poll_count - 1)
}

async fn results(store: &dyn Store, ids: &[SourceId]) -> Result<Vec<Value>, Error> {
    let mut results = Vec::with_capacity(ids.len());
    for some in ids.chunks(1_000) {
        let ids = some.iter().map(|id| id.0).collect();
        for source in store.sources(SourceFilter { ids: Some(ids), ..SourceFilter::default() }).await? {
            results.push(result(store, &source).await?);
        }
    }
    Ok(results)
}

/// Collects one source now. The exit code is 0 on success or skip, 1 on error, 2 for an unknown id (COLL-111).
async fn one(global: &Global, id: i64) -> Result<Exit, Error> {
    let signals = Signals::listen()?;
    let opened = store::open(global).await?;
    tweets::apply_settings(global, &opened.store, tweets::Takeover::KeyOnly).await?;
    let store = Arc::clone(&opened.store);
    let source = SourceId(id);
    let is_mine = |source: &StoredSource| global.project.as_ref().is_none_or(|key| source.project_key == *key);
    let Some(known) = read(&*store, id).await?.filter(is_mine) else {
        return Err(Error::unknown(format!("there is no source {id}")).hint("`patra source list` shows them"));
    };
    let value = match poll_now_from(&store, source, TriggerType::Manual, &tweets::upstream()?).await? {
        PollRequested::Skipped(reason) => {
            json!({ "source_id": id, "name": known.name, "type": known.r#type, "status": "skipped", "reason": reason })
        }
        PollRequested::Refused(reason) => {
            return Err(Error::configuration(format!("source {id} cannot be polled: {reason}")));
        }
        PollRequested::Task(_) => {
            let engine = host::collector(global, vec![EngineRole::Polls], opened.store, opened.alone).await?;
            engine.nudge();
            wait(&*store, &[source], &signals).await?;
            stop(engine, &signals).await?;
            match read(&*store, id).await? {
                Some(source) => result(&*store, &source).await?,
                None => return Err(Error::unexpected(format!("source {id} was deleted in the meantime"))),
            }
        }
    };
    output::line(&value.to_string())?;
    Ok(if value["status"] == "error" { Exit::Failures } else { Exit::Ok })
}

async fn read(store: &dyn Store, id: i64) -> Result<Option<StoredSource>, Error> {
    Ok(store.sources(SourceFilter { ids: Some(vec![id]), ..SourceFilter::default() }).await?.pop())
}

/// The result of the last poll of a source.
async fn result(store: &dyn Store, source: &StoredSource) -> Result<Value, Error> {
    let mut value = json!({ "source_id": source.id, "name": source.name, "type": source.r#type });
    let Some(progress) = store.progress(&last_poll(source)).await? else {
        if let Some(reason) = &source.state.last_error {
            value["status"] = "error".into();
            value["error"] = json!({ "code": "CONFIG_ERROR", "message": reason, "level": "L4" });
            value["fetch_error_count"] = source.state.fetch_error_count.into();
            value["paused"] = source.state.paused.is_some().into();
            return Ok(value);
        }
        value["status"] = "skipped".into();
        value["reason"] = "it was not polled".into();
        return Ok(value);
    };
    let task = task(store, progress.job).await?;
    if progress.tasks_failed == 0 && progress.is_finished() {
        value["status"] = "ok".into();
        value["fetched"] = (progress.inserted + progress.updated + progress.skipped + progress.rejected).into();
        value["inserted"] = progress.inserted.into();
        value["duration_ms"] = task.as_ref().map_or(0, duration_ms).into();
        // It was read only in part.
        if let Some(reason) = &source.state.last_error {
            value["warning"] = reason.as_str().into();
        }
        return Ok(value);
    }
    if let Some(reason) = put_off(store, source).await? {
        value["status"] = "skipped".into();
        value["reason"] = reason.into();
        return Ok(value);
    }
    let unfinished = json!({ "code": "INTERNAL_ERROR", "message": "it has not ended", "level": "L1" });
    value["status"] = "error".into();
    value["error"] = task.as_ref().and_then(fault).unwrap_or(unfinished);
    value["fetch_error_count"] = source.state.fetch_error_count.into();
    value["paused"] = source.state.paused.is_some().into();
    Ok(value)
}

/// The task of a poll, by its job.
async fn task(store: &dyn Store, instance: JobId) -> Result<Option<ViewRow>, Error> {
    let plan = ViewFilter { job: Some(instance.0), limit: 1, ..ViewFilter::default() };
    let plan = store.list(View::Plans, plan).await?.pop().and_then(|row| View::Plans.cell(&row, "id")?.as_int());
    let Some(plan) = plan else { return Ok(None) };
    Ok(store.list(View::Tasks, ViewFilter { plan: Some(plan), limit: 1, ..ViewFilter::default() }).await?.pop())
}

fn duration_ms(task: &ViewRow) -> u64 {
    let at = |name| match View::Tasks.cell(task, name) {
        Some(Cell::Time(at)) => Some(at),
        _ => None,
    };
    let spent = at("started_at").zip(at("finished_at")).map(|(from, to)| to.since(from));
    spent.map_or(0, |spent| spent.as_millis() as u64)
}

/// Why the task failed; a delayed task has not failed.
fn fault(task: &ViewRow) -> Option<Value> {
    let failed = Cell::Text(TaskStatus::Failed.as_str().to_owned());
    match (View::Tasks.cell(task, "status_code")?, View::Tasks.cell(task, "error")?) {
        (status, Cell::Json(text)) if status == failed => serde_json::from_str(&text).ok(),
        _ => None,
    }
}

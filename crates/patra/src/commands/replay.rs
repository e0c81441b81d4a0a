//! `replay`: reads a batch again, from its stored response or from the API, and compares, without writing; or, with
//! `--redrive`, runs it again in production.

mod redrive;
mod show;

use std::sync::Arc;

use patra_core::RunId;
use patra_core::port::Clock;
use patra_core::port::query::View;
use patra_engine::replay::{self, LiveReplay, ReadOnlyStore, Recording, ReplayReport, ReplayVerdict};

use super::bundle;
use crate::cli::{Global, Output, Replay};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::{host, output, store};

pub(crate) async fn run(global: &Global, args: &Replay) -> Result<Exit, Error> {
    if args.redrive {
        return redrive::run(global, args).await;
    }
    let report = match (&args.file, args.run, args.batch) {
        (Some(file), _, _) => {
            let bundle = bundle::open(global, file)?;
            replay::from_archive(&bundle.recording, None).await.map_err(refused)?
        }
        (None, Some(run), Some(batch)) => one(global, RunId(run), batch, args.live).await?,
        (None, _, _) => {
            return Err(Error::usage("name the run and the batch, or a bundle with --file")
                .hint("`patra get batches` shows both numbers"));
        }
    };
    show(global, &report)
}

async fn one(global: &Global, run: RunId, batch: u32, live: bool) -> Result<ReplayReport, Error> {
    let opened = store::open_read_only(global).await?;
    let queries = Arc::clone(&opened.queries);
    store::check_project(global, &*queries, View::Runs, run.0, &format!("run {run}")).await?;
    let recording = Recording::load(&*queries, run, batch).await.map_err(refused)?;
    if !live {
        return replay::from_archive(&recording, Some(&*queries)).await.map_err(refused);
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = ReadOnlyStore::new(opened.queries, opened.credentials);
    let gate = store::shared_gate(global, &clock).await?;
    let options = host::credentials(global, &*opened.sources).await?;
    let live = LiveReplay::new(store, host::transport(global)?, clock, options, host::owner()?);
    let live = match &gate {
        Some(gate) => live.through(Arc::clone(gate)),
        None => live,
    };
    let report = replay::live(&recording, &*queries, &live).await;
    if let Some(gate) = &gate {
        gate.close().await;
    }
    report.map_err(refused)
}

fn show(global: &Global, report: &ReplayReport) -> Result<Exit, Error> {
    let value = serde_json::to_value(report).unwrap_or_default();
    match global.output {
        Output::Table => show::table(report)?,
        Output::Json | Output::Ndjson => output::result(global.output, "", &value)?,
    }
    Ok(if report.verdict == ReplayVerdict::Same { Exit::Ok } else { Exit::Failures })
}

/// Adds exit codes and hints.
pub(crate) fn refused(error: replay::Error) -> Error {
    let message = error.to_string();
    match error {
        replay::Error::Store(error) => error.into(),
        replay::Error::NotFound { .. } => Error::not_found(message).hint("`patra get batches` shows what there is"),
        replay::Error::NotKept(_) => Error::not_found(message)
            .hint("--live sends the request again; `raw: { keep: P7D }` in the manifest keeps responses from now on"),
        replay::Error::NotPacked(_) => Error::not_found(message)
            .hint("`patra bundle export RUN BATCH --with-raw` includes the response, as long as it is kept"),
        replay::Error::Damaged(_) => Error::unexpected(message),
        replay::Error::NotSent(_) => Error::failed(message).hint("try again later"),
    }
}

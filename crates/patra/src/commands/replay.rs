//! `replay`: a batch once more. From its kept answer or from the far side, and then nothing is written; or, with `--redrive`,
//! in production.

mod redrive;
mod show;

use std::sync::Arc;

use patra_core::RunId;
use patra_core::port::Clock;
use patra_core::port::query::View;
use patra_engine::replay::{self, Live, ReadOnly, Recording, Report, Verdict};

use super::blackbox;
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
            let package = blackbox::open(global, file)?;
            replay::from_archive(&package.recording, None).await.map_err(refused)?
        }
        (None, Some(run), Some(batch)) => one(global, RunId(run), batch, args.live).await?,
        (None, _, _) => {
            return Err(Error::usage("name the run and the batch, or a package with --file")
                .hint("`patra get batches` shows both numbers"));
        }
    };
    show(global, &report)
}

async fn one(global: &Global, run: RunId, batch: u32, live: bool) -> Result<Report, Error> {
    let looking = store::open_to_look(global).await?;
    let queries = Arc::clone(&looking.queries);
    store::mine(global, &*queries, View::Runs, run.0, &format!("run {run}")).await?;
    let recording = Recording::load(&*queries, run, batch).await.map_err(refused)?;
    if !live {
        return replay::from_archive(&recording, Some(&*queries)).await.map_err(refused);
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = ReadOnly::new(looking.queries, looking.credentials);
    let gate = store::shared_gate(global, &clock).await?;
    let options = host::credentials(global, &*looking.sources).await?;
    let live = Live::new(store, host::transport(global)?, clock, options, host::owner()?);
    let live = match gate {
        Some(gate) => live.through(gate),
        None => live,
    };
    replay::live(&recording, &*queries, &live).await.map_err(refused)
}

fn show(global: &Global, report: &Report) -> Result<Exit, Error> {
    let value = serde_json::to_value(report).unwrap_or_default();
    match global.output {
        Output::Table => show::table(report)?,
        Output::Json | Output::Ndjson => output::result(global.output, "", &value)?,
    }
    Ok(if report.verdict == Verdict::Same { Exit::Ok } else { Exit::Failures })
}

/// As people see it.
pub(crate) fn refused(error: replay::Error) -> Error {
    let message = error.to_string();
    match error {
        replay::Error::Store(error) => error.into(),
        replay::Error::NotFound { .. } => Error::not_found(message).hint("`patra get batches` shows what there is"),
        replay::Error::NotKept(_) => Error::not_found(message)
            .hint("--live asks the far side once more; `raw: { keep: P7D }` in the manifest keeps answers from now on"),
        replay::Error::NotPacked(_) => Error::not_found(message)
            .hint("`patra blackbox export RUN BATCH --with-raw` makes one with the answer, as long as that is kept"),
        replay::Error::Damaged(_) => Error::unexpected(message),
        replay::Error::NotAsked(_) => Error::failed(message).hint("try again later"),
    }
}

//! `replay --redrive`: runs a batch or a task again in production, and waits for it with `--wait`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use patra_core::paging::Position;
use patra_core::port::Store;
use patra_core::port::query::{Cell, View, ViewFilter};
use patra_core::state::TaskStatus;
use patra_core::tx::{RedriveTarget, Redriven};
use patra_core::{RunId, TaskId};
use patra_engine::EngineRole;
use patra_engine::replay::redrive::{self, redrive};

use crate::cli::{Global, Replay};
use crate::commands::run::skipped;
use crate::error::{Error, Exit};
use crate::progress::Counts;
use crate::signals::Signals;
use crate::{host, output, store};

/// Interval between two checks of the task.
const CHECK_EVERY: Duration = Duration::from_millis(100);

pub(super) async fn run(global: &Global, args: &Replay) -> Result<Exit, Error> {
    let what = match (args.task, args.run, args.batch) {
        (Some(task), _, _) => RedriveTarget::Task(TaskId(task)),
        (None, Some(run), Some(batch_no)) => RedriveTarget::Batch { run: RunId(run), batch_no },
        (None, _, _) => return Err(Error::usage("name the run and the batch, or a task with --task")),
    };
    let request = match &args.request {
        Some(request) => request.clone(),
        None => format!("redrive-{}", host::random_hex::<8>()?),
    };
    let signals = Signals::listen()?;
    let opened = store::open(global).await?;
    match &what {
        RedriveTarget::Task(task) => {
            store::check_project(global, &*opened.store, View::Tasks, task.0, &format!("task {task}")).await?;
        }
        RedriveTarget::Batch { run, .. } => {
            store::check_project(global, &*opened.store, View::Runs, run.0, &format!("run {run}")).await?;
        }
    }
    match redrive(&*opened.store, what, &request, &args.by).await.map_err(refused)? {
        Redriven::NotFound => Err(refused(redrive::Error::NotFound)),
        Redriven::ReadBack { batch, stats, next } => {
            let text = format!(
                "already done, nothing was written: {} records, {} new, {} changed, {} unchanged, {} rejected{}; {}",
                stats.items_count,
                stats.inserted,
                stats.updated,
                stats.skipped.saturating_sub(stats.skipped_by.total()),
                stats.failed,
                skipped(stats.skipped_by.out_of_window.into(), stats.skipped_by.filtered.into()),
                next.as_ref().map_or("it was the last of its slice".to_owned(), next_text)
            );
            let value = json!({ "outcome": "READ_BACK", "batch": batch, "stats": stats, "next": next });
            output::result(global.output, &text, &value)?;
            Ok(Exit::Ok)
        }
        Redriven::Queued { task, existed } if args.wait => wait(global, args, opened, task, existed, &signals).await,
        Redriven::Queued { task, existed } => {
            let word = if existed { "was queued by this request before" } else { "is queued" };
            let text = format!("task {task} {word}; `patra get runs --task {task}` shows its progress");
            let value = json!({ "outcome": "QUEUED", "task": task, "existed": existed, "request": request });
            output::result(global.output, &text, &value)?;
            Ok(Exit::Ok)
        }
    }
}

fn next_text(next: &Position) -> String {
    format!("the next position was {}", serde_json::to_string(next).unwrap_or_default())
}

async fn wait(
    global: &Global,
    args: &Replay,
    opened: store::Opened,
    task: TaskId,
    existed: bool,
    signals: &Signals,
) -> Result<Exit, Error> {
    let counts = Arc::new(Counts::default());
    let store = Arc::clone(&opened.store);
    let roles = vec![EngineRole::Executor];
    let engine = host::engine(global, args.engine, roles, opened.store, opened.alone, counts).await?;
    engine.nudge();
    let ended = until_ended(&*store, task, signals).await;
    engine.stop(signals.hurry.clone()).await;
    let Some((status, error)) = ended? else {
        return Err(Error::failed(format!("stopped before task {task} was done"))
            .hint("it stays queued: a server, or the same command again, finishes it"));
    };
    let value = json!({ "outcome": "QUEUED", "task": task, "existed": existed, "status": status.as_str() });
    output::result(global.output, &format!("task {task} {}", status.as_str()), &value)?;
    match status {
        TaskStatus::Succeeded => Ok(Exit::Ok),
        _ => Err(Error::failed(format!("task {task} ended as {}{error}", status.as_str()))
            .hint(format!("`patra get runs --task {task} -o json` shows why"))),
    }
}

async fn until_ended(
    store: &dyn Store,
    task: TaskId,
    signals: &Signals,
) -> Result<Option<(TaskStatus, String)>, Error> {
    loop {
        if signals.stop.is_cancelled() {
            return Ok(None);
        }
        if let Some((status, error)) = read(store, task).await?
            && status.is_final()
        {
            return Ok(Some((status, error)));
        }
        tokio::select! {
            () = signals.stop.cancelled() => {}
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
    }
}

/// The state of one task. The list is cut after its id and has one row.
async fn read(store: &dyn Store, task: TaskId) -> Result<Option<(TaskStatus, String)>, Error> {
    let filter = ViewFilter { before_id: Some(task.0 + 1), limit: 1, ..ViewFilter::default() };
    let rows = store.list(View::Tasks, filter).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let cell = |column| View::Tasks.cell(row, column).unwrap_or(Cell::Null);
    let (Cell::Text(status), Some(id)) = (cell("status_code"), cell("id").as_int()) else { return Ok(None) };
    let error = match cell("error") {
        Cell::Json(error) => serde_json::from_str::<serde_json::Value>(&error).unwrap_or_default(),
        _ => serde_json::Value::Null,
    };
    let error = error["message"].as_str().map(|message| format!(": {message}")).unwrap_or_default();
    Ok(status.parse().ok().filter(|_| id == task.0).map(|status| (status, error)))
}

fn refused(error: redrive::Error) -> Error {
    let message = error.to_string();
    match error {
        redrive::Error::Invalid(_) => Error::usage(message),
        redrive::Error::NotFound => Error::not_found(message).hint("`patra get batches` shows what there is"),
        redrive::Error::NotEnded => {
            Error::failed(message).hint("`patra get tasks` shows its state; wait, or cancel it")
        }
        redrive::Error::Refused(_) => Error::failed(message),
        redrive::Error::Store(error) => error.into(),
    }
}

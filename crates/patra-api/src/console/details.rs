//! Detail pages, from a job down to a batch: state, results and failures.

mod batch;
mod plan;

use axum::Extension;
use axum::response::Response;
use serde_json::Value;

use patra_core::RunId;
use patra_core::port::query::{BatchPage, Cell, JobProgress, View, ViewFilter, ViewRow};
use patra_core::tx::KeyScope;

use super::context::ConsoleContext;
use super::lists::{self, encoded, name, number, shown, title, whole};
use super::page::{Action, Actions, Code, Facts, Note, Page, Shown, Step, Strip, Table, Tone};
use crate::envelope::Failure;
use crate::routes::input::{PathText, path_text};
use crate::routes::{jobs, views};

pub(super) use crate::routes::replay::BatchPath;
pub(super) use batch::batch;
pub(super) use plan::plan;

/// Most batches on a page.
const MOST_BATCHES: u32 = 200;
/// Most rows of a table that is part of a page.
const MOST_ROWS: u32 = 50;

pub(super) async fn job(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let (id, progress) = jobs::named(&ctx.api, &ctx.tenant, &path_text(id)?).await?;
        let at = format!("/jobs/{}", encoded(&id));
        let mut page = Page::new(format!("Job {id}")).under("Jobs", "/jobs").live().with(progressed(&progress));
        if ctx.is(KeyScope::Write) && !progress.is_finished() {
            let cancel = Action::new("Cancel", format!("{at}/cancel"), format!("patra cancel job {id}")).final_();
            page = page.with(Actions(vec![cancel]));
        }
        if let Some(fault) = progress.fault.as_ref().filter(|_| progress.status_word() == "failed") {
            page = page.with(Code::json("Newest error", fault));
        }
        for (word, text) in [("Remarks", &progress.remarks), ("Result", &progress.result)] {
            if let Some(value) = text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
                page = page.with(Code::json(word, &value));
            }
        }
        let filter = ViewFilter { job: Some(progress.job.0), limit: MOST_ROWS, ..ViewFilter::default() };
        Ok(page.with(part(&ctx, View::Plans, "Plans", filter, String::new()).await?))
    };
    ctx.show(page.await)
}

fn progressed(progress: &JobProgress) -> Facts {
    let word = if progress.is_partial() { "failed in part" } else { progress.status_word() };
    let mut facts = vec![
        ("status".to_owned(), Shown::status(progress.job_status.as_str())),
        ("work".to_owned(), Shown::text(word)),
        ("type".to_owned(), Shown::text(progress.job_type.as_str())),
        ("project".to_owned(), Shown::text(progress.project_key.as_str())),
        ("requested".to_owned(), Shown::time(progress.created_at)),
        ("began".to_owned(), Shown::maybe_time(progress.started_at)),
        ("ended".to_owned(), Shown::maybe_time(progress.finished_at)),
    ];
    let counts = [
        ("tasks queued", progress.tasks_queued),
        ("tasks active", progress.tasks_active),
        ("tasks succeeded", progress.tasks_succeeded),
        ("of these unverified", progress.tasks_unverified),
        ("tasks partial", progress.tasks_partial),
        ("tasks failed", progress.tasks_failed),
        ("tasks cancelled", progress.tasks_cancelled),
        ("partitions", progress.partitions),
        ("batches", progress.batches),
        ("inserted", progress.inserted),
        ("updated", progress.updated),
        ("unchanged", progress.unchanged()),
        ("outside their window", progress.out_of_window),
        ("filtered out", progress.filtered),
        ("rejected", progress.rejected),
        ("retries", progress.retries),
        ("throttled", progress.throttled),
    ];
    facts.extend(counts.map(|(word, count)| (word.to_owned(), Shown::number(count))));
    Facts { title: String::new(), facts }
}

pub(super) async fn slice(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let id = number(id)?;
        let row = lists::one(&ctx, View::Slices, id).await?;
        let plan = int(View::Slices, &row, "plan_id");
        let lineage = ctx.store().lineage(patra_core::PlanId(plan), BatchPage::default()).await?;
        let tasks = lineage.map(|lineage| lineage.tasks).unwrap_or_default();
        let tasks = tasks.iter().filter(|task| task["slice_id"].as_i64() == Some(id)).map(|task| task["id"].as_i64());
        let mut table = Table::new("Tasks", &["task"], "It has none.");
        for task in tasks.flatten() {
            table.row(Tone::Plain, vec![Shown::number(task).to(format!("/tasks/{task}"))]);
        }
        let page = Page::new(name(View::Slices, &row)).under("Plans", "/plans");
        let page = page.under(format!("Plan {plan}"), format!("/plans/{plan}")).with_all(whole(View::Slices, &row));
        Ok(page.with_all(work(&ctx, "slice", id, &row, View::Slices)).with(table))
    };
    ctx.show(page.await)
}

pub(super) async fn task(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let id = number(id)?;
        let row = lists::one(&ctx, View::Tasks, id).await?;
        let plan = int(View::Tasks, &row, "plan_id");
        let of_task = ViewFilter { task: Some(id), ..ViewFilter::default() };
        let runs = ViewFilter { limit: MOST_ROWS, ..of_task.clone() };
        let page = Page::new(name(View::Tasks, &row))
            .under("Plans", "/plans")
            .under(format!("Plan {plan}"), format!("/plans/{plan}"))
            .live()
            .with_all(failed(View::Tasks, &row))
            .with_all(work(&ctx, "task", id, &row, View::Tasks));
        let page = page
            .with(strip(&ctx, "Batches", of_task.clone()).await?)
            .with(part(&ctx, View::Runs, "Runs", runs, format!("/runs?task={id}")).await?)
            .with_all(whole(View::Tasks, &row));
        let rejected = ViewFilter { limit: MOST_ROWS, ..of_task };
        let rejected =
            part(&ctx, View::Quarantine, "Records set aside", rejected, format!("/quarantine?task={id}")).await?;
        Ok(if rejected.rows.is_empty() { page } else { page.with(rejected) })
    };
    ctx.show(page.await)
}

pub(super) async fn run(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let id = number(id)?;
        let row = lists::one(&ctx, View::Runs, id).await?;
        let (plan, task) = (int(View::Runs, &row, "plan_id"), int(View::Runs, &row, "task_id"));
        let of_run = ViewFilter { run: Some(id), ..ViewFilter::default() };
        let batches = ViewFilter { limit: MOST_ROWS, ..of_run.clone() };
        let page = Page::new(name(View::Runs, &row))
            .under(format!("Plan {plan}"), format!("/plans/{plan}"))
            .under(format!("Task {task}"), format!("/tasks/{task}"))
            .live()
            .with_all(failed(View::Runs, &row))
            .with_all(unverified(&row));
        let page = page
            .with(strip(&ctx, "Timeline", of_run).await?)
            .with(statuses(&ctx, id).await?)
            .with(part(&ctx, View::Batches, "Batches", batches, format!("/batches?run={id}")).await?)
            .with_all(whole(View::Runs, &row));
        Ok(page)
    };
    ctx.show(page.await)
}

pub(super) async fn quarantined(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let (view, id) = (View::Quarantine, number(id)?);
        let row = lists::one(&ctx, view, id).await?;
        let text = |column| text(view, &row, column);
        let mut page = Page::new(name(view, &row)).under(title(view), "/quarantine");
        page = page.with(Note::new(Tone::Bad, format!("{} {}", text("error_code"), text("reason"))));
        if ctx.is(KeyScope::Write) && matches!(text("status_code").as_str(), "OPEN" | "SIGNALLED") {
            page = page.with(Actions(rejected_actions(
                id,
                &text("provenance_code"),
                &text("endpoint_name"),
                &text("dedup_key"),
            )));
        }
        Ok(page.with_all(whole(view, &row)))
    };
    ctx.show(page.await)
}

/// A run that read its list to the end, without a sign whether records moved meanwhile.
fn unverified(row: &ViewRow) -> Option<Note> {
    let Some(Cell::Json(stats)) = View::Runs.cell(row, "stats") else { return None };
    let stats: Value = serde_json::from_str(&stats).ok()?;
    (stats["verification"] == "unverified").then(|| {
        let text = "Unverified: nothing shows that all records were read. They may have moved between two pages, or the \
                    pages do not show where the list ends.";
        Note::new(Tone::Warn, text)
    })
}

/// HTTP statuses of the responses of a run.
async fn statuses(ctx: &ConsoleContext, run: i64) -> Result<Table, Failure> {
    let mut table = Table::new("HTTP statuses", &["status", "batches"], "No page was read.");
    for of in ctx.api.store.statuses(RunId(run)).await? {
        let (word, tone) = match of.status {
            0 => ("no response".to_owned(), Tone::Bad),
            status => (status.to_string(), if status >= 400 { Tone::Bad } else { Tone::Plain }),
        };
        table.row(tone, vec![Shown::amount(word), Shown::number(of.batches)]);
    }
    Ok(table)
}

/// Actions for a quarantined record.
pub(super) fn rejected_actions(id: i64, provenance: &str, endpoint: &str, key: &str) -> Vec<Action> {
    let mut actions = Vec::new();
    if !key.is_empty() {
        let twin = format!("patra signal {provenance} {endpoint} --id {key}");
        actions.push(Action::new("Fetch again", format!("/quarantine/{id}/retry"), twin));
    }
    let twin = format!("patra quarantine abandon {id}");
    actions.push(Action::new("Give up", format!("/quarantine/{id}/abandon"), twin).final_());
    actions
}

pub(super) async fn pause(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let (view, id) = (View::Holds, number(id)?);
        let row = lists::one(&ctx, view, id).await?;
        let mut page = Page::new(name(view, &row)).under(title(view), "/holds");
        if ctx.is(KeyScope::Write) && view.cell(&row, "released_at") == Some(Cell::Null) {
            let resume = Action::new("Resume", format!("/holds/{id}/release"), format!("patra resume hold {id}"));
            page = page.with(Actions(vec![resume]));
        }
        Ok(page.with_all(whole(view, &row)))
    };
    ctx.show(page.await)
}

/// Actions for work: pause, resume and cancel or, for a task that has ended, run it again.
fn work(ctx: &ConsoleContext, level: &'static str, id: i64, row: &ViewRow, view: View) -> Option<Actions> {
    if !ctx.is(KeyScope::Write) {
        return None;
    }
    let action =
        |label, word: &str| Action::new(label, format!("/{level}s/{id}/{word}"), format!("patra {word} {level} {id}"));
    let ended = matches!(text(view, row, "status_code").as_str(), "SUCCEEDED" | "PARTIAL" | "FAILED" | "CANCELLED");
    let mut actions = Vec::new();
    if level == "task" && ended {
        let twin = format!("patra replay --task {id} --redrive");
        actions.push(Action::new("Run again", format!("/tasks/{id}/redrive"), twin));
    }
    if level != "task" || !ended {
        if ctx.tenant.is_operator().is_ok() {
            actions.extend([action("Pause", "pause"), action("Resume", "resume")]);
        }
        actions.push(action("Cancel", "cancel").final_());
    }
    Some(Actions(actions))
}

/// A note with the error of a row that failed.
fn failed(view: View, row: &ViewRow) -> Option<Note> {
    match view.cell(row, "error") {
        Some(Cell::Json(error)) => {
            let status = text(view, row, "status_code");
            let tone = if Tone::of(&status) == Tone::Bad { Tone::Bad } else { Tone::Warn };
            Some(Note::new(tone, lists::cause(&error)))
        }
        _ => None,
    }
}

/// A table of rows that belong to the page's subject, at most [`MOST_ROWS`] of them.
async fn part(
    ctx: &ConsoleContext,
    view: View,
    heading: &str,
    filter: ViewFilter,
    more: String,
) -> Result<Table, Failure> {
    let table = lists::rows(ctx, view, filter).await?;
    let more = table.next.as_ref().map(|_| more).filter(|more| !more.is_empty());
    Ok(Table { title: heading.to_owned(), next: None, more, ..table })
}

/// Batches in order; failed ones are red.
async fn strip(ctx: &ConsoleContext, heading: &str, filter: ViewFilter) -> Result<Strip, Failure> {
    let filter = ViewFilter { limit: MOST_BATCHES, ..filter };
    let (rows, next) = views::query(&ctx.api, &ctx.tenant, View::Batches, filter).await?;
    let steps = rows.iter().rev().map(|row| {
        let view = View::Batches;
        let (run, no) = (int(view, row, "run_id"), int(view, row, "batch_no"));
        let (status, cause) = (text(view, row, "status_code"), shown(view, row, "error").text);
        let latency = int(view, row, "latency_ms");
        step(run, no, &status, &format!("{latency} ms {}", cause.trim_matches('–')))
    });
    Ok(Strip { title: heading.to_owned(), steps: steps.collect(), left_out: u64::from(next.is_some()) })
}

fn step(run: i64, no: i64, status: &str, says: &str) -> Step {
    let says = format!("run {run} batch {no} {status} {}", says.trim());
    Step { word: no.to_string(), says, href: lists::batch_at(run, no), tone: Tone::of(status) }
}

fn int(view: View, row: &ViewRow, column: &str) -> i64 {
    view.cell(row, column).and_then(|cell| cell.as_int()).unwrap_or_default()
}

fn text(view: View, row: &ViewRow, column: &str) -> String {
    match view.cell(row, column) {
        Some(Cell::Text(text)) => text,
        _ => String::new(),
    }
}

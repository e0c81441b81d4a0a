//! A plan: its slices, and below each the task, its runs and their batches.

use std::collections::BTreeMap;

use axum::Extension;
use axum::response::Response;
use serde_json::Value;

use patra_core::PlanId;
use patra_core::port::query::{BatchPage, PlanLineage, View};

use super::{MOST_BATCHES, step, work};
use crate::console::context::ConsoleContext;
use crate::console::lists::{self, encoded, name, number, whole};
use crate::console::page::{Page, Shown, Strip, Table, Tone};
use crate::routes::input::PathText;

/// Most slices on the page; failed ones come first.
const MOST_SLICES: usize = 60;

pub(in crate::console) async fn plan(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let id = number(id)?;
        let row = lists::one(&ctx, View::Plans, id).await?;
        let lineage = ctx.store().lineage(PlanId(id), BatchPage::default()).await?;
        let mut page = Page::new(name(View::Plans, &row)).under("Plans", "/plans").live();
        if let Some(job) = lineage.as_ref().and_then(|lineage| lineage.job["public_id"].as_str()) {
            page = page.under(format!("Job {job}"), format!("/jobs/{}", encoded(job)));
        }
        page = page.with_all(work(&ctx, "plan", id, &row, View::Plans));
        if let Some(lineage) = &lineage {
            page = page.with(slices(lineage)).with_all(timelines(lineage));
        }
        Ok(page.with_all(whole(View::Plans, &row)))
    };
    ctx.show(page.await)
}

fn slices(lineage: &PlanLineage) -> Table {
    let head = ["slice", "window from", "to", "task", "status", "runs", "attempts", "cause"];
    let mut table = Table::new("Slices and their tasks", &head, "Nothing was missing: the plan has no slices.");
    let mut tasks: Vec<_> = lineage.tasks.iter().collect();
    tasks.sort_by_key(|task| (tone(task) != Tone::Bad, number_of(task, "id")));
    for task in tasks.iter().take(MOST_SLICES) {
        let (id, slice) = (number_of(task, "id"), number_of(task, "slice_id"));
        let runs = lineage.runs.iter().filter(|run| number_of(run, "task_id") == id).count();
        let tone = Some(tone(task)).filter(|tone| matches!(tone, Tone::Bad | Tone::Warn)).unwrap_or_default();
        let cells = vec![
            Shown::number(slice).to(format!("/slices/{slice}")),
            Shown::text(minute(task, "window_from")),
            Shown::text(minute(task, "window_to")),
            Shown::number(id).to(format!("/tasks/{id}")),
            Shown::status(text(task, "status_code")),
            Shown::number(runs),
            Shown::number(number_of(task, "attempt_count")),
            Shown::text(lists::cause(&task["error"].to_string())),
        ];
        table.row(tone, cells);
    }
    if tasks.len() > MOST_SLICES {
        table.more = Some(format!("/tasks?plan={}", number_of(&lineage.plan, "id")));
    }
    table
}

/// One strip of batches per run; runs with failures come first.
fn timelines(lineage: &PlanLineage) -> Vec<Strip> {
    let mut runs: BTreeMap<(bool, i64), Vec<&Value>> = BTreeMap::new();
    let failing =
        |run| lineage.batches.iter().any(|batch| number_of(batch, "run_id") == run && tone(batch) == Tone::Bad);
    let ids: BTreeMap<i64, bool> =
        lineage.runs.iter().map(|run| number_of(run, "id")).map(|id| (id, !failing(id))).collect();
    for batch in &lineage.batches {
        let run = number_of(batch, "run_id");
        runs.entry((ids.get(&run).copied().unwrap_or(true), run)).or_default().push(batch);
    }
    let (mut room, mut strips) = (MOST_BATCHES as usize, Vec::new());
    for ((_, run), batches) in runs {
        if room == 0 {
            break;
        }
        let task = batches.first().map(|batch| number_of(batch, "task_id")).unwrap_or_default();
        let shown = batches.len().min(room);
        room -= shown;
        let steps = batches.iter().take(shown).map(|batch| {
            let cause = lists::cause(&batch["error"].to_string());
            step(run, number_of(batch, "batch_no"), text(batch, "status_code"), &cause)
        });
        let left_out = (batches.len() - shown) as u64;
        strips.push(Strip { title: format!("Task {task}, run {run}"), steps: steps.collect(), left_out });
    }
    strips
}

fn tone(row: &Value) -> Tone {
    Tone::of(text(row, "status_code"))
}

fn number_of(row: &Value, column: &str) -> i64 {
    row[column].as_i64().unwrap_or_default()
}

fn text<'r>(row: &'r Value, column: &str) -> &'r str {
    row[column].as_str().unwrap_or_default()
}

fn minute(row: &Value, column: &str) -> String {
    text(row, column).get(..16).unwrap_or("–").replace('T', " ")
}

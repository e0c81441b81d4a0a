//! `get lineage`: a plan with its slices, tasks, runs and batches, as a tree.

use serde_json::{Value, json};

use patra_core::PlanId;
use patra_core::port::Queries;
use patra_core::port::query::{BatchPage, PlanLineage, View};

use super::run::skipped;
use crate::cli::{Global, Output};
use crate::error::Error;
use crate::{output, store};

pub(crate) async fn show(global: &Global, queries: &dyn Queries, plan: i64, batches: bool) -> Result<(), Error> {
    store::check_project(global, queries, View::Plans, plan, &format!("plan {plan}")).await?;
    let page = |after| queries.lineage(PlanId(plan), BatchPage { after, ..BatchPage::default() });
    let mut lineage = page(0).await?.ok_or_else(|| Error::not_found(format!("there is no plan {plan}")))?;
    // Batches are read page by page.
    while let Some(after) = lineage.next_after()
        && let Some(next) = page(after).await?
    {
        lineage.batches.extend(next.batches);
        lineage.batches_left_out = next.batches_left_out;
    }
    if global.output != Output::Table {
        return output::result(global.output, "", &json!(lineage));
    }
    for line in tree(&lineage, batches) {
        output::line(&line)?;
    }
    Ok(())
}

/// One line per row, each level indented further.
fn tree(lineage: &PlanLineage, batches: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let job = &lineage.job;
    lines.push(format!("job {} {}", text(job, "public_id"), text(job, "trigger_type_code")));
    lines.push(format!(
        "└─ plan {} {} {} {}{}",
        text(&lineage.plan, "id"),
        text(&lineage.plan, "operation_code"),
        text(&lineage.plan, "status_code"),
        text(&lineage.plan, "plan_strategy"),
        window(&lineage.plan)
    ));
    for slice in &lineage.slices {
        lines.push(format!("   └─ slice {} {}{}", text(slice, "id"), text(slice, "status_code"), window(slice)));
        for task in children(&lineage.tasks, "slice_id", slice) {
            let replaced = replaced(task, &lineage.tasks);
            lines.push(format!("      └─ task {} {}{replaced}", text(task, "id"), text(task, "status_code")));
            for run in children(&lineage.runs, "task_id", task) {
                let of_run: Vec<_> = children(&lineage.batches, "run_id", run).collect();
                lines.push(format!("         └─ run {}", describe(run, of_run.len())));
                if batches {
                    lines.extend(of_run.iter().map(|batch| format!("            └─ {}", batch_line(batch))));
                }
            }
        }
    }
    lines
}

/// Names the task that replaced this one.
fn replaced(task: &Value, all: &[Value]) -> String {
    let successor = all.iter().find(|other| !task["id"].is_null() && other["redrive_of"] == task["id"]);
    match (task["replaced"] == 1, successor) {
        (false, _) => String::new(),
        (true, Some(successor)) => format!(" (run again as task {})", text(successor, "id")),
        (true, None) => " (split into narrower windows)".to_owned(),
    }
}

fn describe(run: &Value, batches: usize) -> String {
    let stats = &run["stats"];
    let count = |name: &str| stats[name].as_u64().unwrap_or(0);
    let left_out = |reason: &str| stats["skippedBy"][reason].as_u64().unwrap_or(0);
    let mut line = format!(
        "{} attempt {} {}: {batches} batches, {} inserted, {} updated, {} unchanged, {} failed{}",
        text(run, "id"),
        text(run, "attempt_no"),
        text(run, "status_code"),
        count("inserted"),
        count("updated"),
        count("skipped").saturating_sub(left_out("outOfWindow") + left_out("filtered")),
        count("failed"),
        skipped(left_out("outOfWindow"), left_out("filtered")),
    );
    if let Some(error) = run["error"]["message"].as_str() {
        line.push_str(&format!(" — {error}"));
    }
    line
}

fn batch_line(batch: &Value) -> String {
    let stats = &batch["stats"];
    let items = stats["itemsCount"].as_u64().unwrap_or(0);
    format!("batch {} {} {items} items", text(batch, "batch_no"), text(batch, "status_code"))
}

fn children<'a>(rows: &'a [Value], column: &'a str, parent: &'a Value) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row[column] == parent["id"])
}

fn window(row: &Value) -> String {
    match (row["window_from"].as_str(), row["window_to"].as_str()) {
        (Some(from), Some(to)) => format!(" [{from}, {to})"),
        _ => String::new(),
    }
}

fn text(row: &Value, column: &str) -> String {
    match &row[column] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

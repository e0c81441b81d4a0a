//! What a changed manifest means for cursors that exist: which start again and what that costs, and which changed
//! settings have no effect.

use std::collections::BTreeMap;

use serde::Serialize;

use patra_core::Ts;
use patra_core::port::Queries;
use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};
use patra_core::state::Operation;
use patra_spec::{Manifest, Overrides, Snapshot};

use super::Error;

/// An effect on the harvests of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApplyEffect {
    pub endpoint: String,
    /// Cursors that start again; 0 if a setting has no effect.
    pub cursors: usize,
    /// The time that is read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Ts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Ts>,
    /// Estimate from the newest runs; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// A sentence for the person who applies the manifest.
    pub message: String,
}

/// The effects of replacing one manifest by another.
pub(super) async fn of_change(
    queries: &dyn Queries,
    before: &Manifest,
    after: &Manifest,
) -> Result<Vec<ApplyEffect>, Error> {
    let mut effects = Vec::new();
    for name in after.endpoints.keys().filter(|name| before.endpoints.contains_key(*name)) {
        let none = Overrides::default();
        let snapshot = |manifest| patra_spec::inspect(manifest, name, Operation::Harvest, &none);
        let (Ok(old), Ok(new)) = (snapshot(before), snapshot(after)) else { continue };
        let (old, new) = (old.snapshot, new.snapshot);
        let restarts =
            old.selection_hash() != new.selection_hash() || old.window.watermark_key != new.window.watermark_key;
        if !restarts && old.window.initial == new.window.initial {
            continue;
        }
        let cursors = cursors(queries, &after.provenance, &old).await?;
        let Some(furthest) = cursors.iter().copied().max() else { continue };
        effects.extend(match restarts {
            true => restart(queries, &after.provenance, name, &new, cursors.len(), furthest).await?,
            false => Some(idle_initial(name, &new, cursors.len(), furthest)),
        });
    }
    Ok(effects)
}

/// Where the harvests of the old query stand, one per cursor.
async fn cursors(queries: &dyn Queries, provenance: &str, old: &Snapshot) -> Result<Vec<Ts>, Error> {
    let view = View::Cursors;
    let rows = newest(queries, view, provenance, &old.endpoint_code).await?;
    let namespace = format!("{}:{}", old.endpoint_code, old.selection_hash());
    let own = |row: &&ViewRow| {
        let text = |column| match view.cell(row, column) {
            Some(Cell::Text(text)) => text,
            _ => String::new(),
        };
        text("operation_code") == Operation::Harvest.as_str() && text("namespace_key").starts_with(&namespace)
    };
    let at =
        |row: &ViewRow| if let Some(Cell::Time(at)) = view.cell(row, "normalized_instant") { Some(at) } else { None };
    Ok(rows.iter().filter(own).filter_map(at).collect())
}

async fn newest(queries: &dyn Queries, view: View, provenance: &str, endpoint: &str) -> Result<Vec<ViewRow>, Error> {
    let filter = ViewFilter {
        provenance_code: Some(provenance.to_owned()),
        endpoint_name: Some(endpoint.to_owned()),
        limit: ViewFilter::MAX_LIMIT,
        ..ViewFilter::default()
    };
    Ok(queries.list(view, filter).await?)
}

async fn restart(
    queries: &dyn Queries,
    provenance: &str,
    name: &str,
    new: &Snapshot,
    cursors: usize,
    furthest: Ts,
) -> Result<Option<ApplyEffect>, Error> {
    let Some(from) = new.initial().filter(|from| *from < furthest) else { return Ok(None) };
    let pace = pace(queries, provenance, name).await?;
    let requests = pace.map(|(requests, micros)| {
        let micros_again = furthest.since(from).as_micros() as f64;
        (requests as f64 / micros as f64 * micros_again * cursors as f64).ceil() as u64
    });
    let cost = requests.map_or_else(
        || "the number of requests is not known yet".to_owned(),
        |requests| format!("about {requests} requests by the pace of the newest runs"),
    );
    let what = if cursors == 1 { "the cursor starts".to_owned() } else { format!("{cursors} cursors start") };
    let message = format!(
        "endpoints.{name}: the query changes, so {what} again: everything from {} to {} is read again, {cost}",
        from.to_short_text(),
        furthest.to_short_text()
    );
    let (from, to) = (Some(from), Some(furthest));
    Ok(Some(ApplyEffect { endpoint: name.to_owned(), cursors, from, to, requests, message }))
}

fn idle_initial(name: &str, new: &Snapshot, cursors: usize, furthest: Ts) -> ApplyEffect {
    let initial = new.initial().map(Ts::to_short_text).unwrap_or_default();
    let subject = if cursors == 1 { "the cursor stands" } else { "the cursors stand" };
    let message = format!(
        "endpoints.{name}: the changed window.initial ({initial}) has no effect: {subject} at {} already; `patra run \
         {} {name} --operation backfill --from TIME --to TIME` reads older records",
        furthest.to_short_text(),
        new.provenance_code
    );
    ApplyEffect { endpoint: name.to_owned(), cursors: 0, from: None, to: None, requests: None, message }
}

/// Requests of the newest runs, and the microseconds of the windows that they read.
async fn pace(queries: &dyn Queries, provenance: &str, name: &str) -> Result<Option<(u64, u64)>, Error> {
    let (tasks, runs) = (View::Tasks, View::Runs);
    let mut widths = BTreeMap::new();
    for row in newest(queries, tasks, provenance, name).await? {
        let time = |column| if let Some(Cell::Time(at)) = tasks.cell(&row, column) { Some(at) } else { None };
        let id = tasks.cell(&row, "id").and_then(|id| id.as_int());
        let harvested = tasks.cell(&row, "operation_code") == Some(Cell::Text(Operation::Harvest.as_str().to_owned()));
        let done = tasks.cell(&row, "status_code") == Some(Cell::Text("SUCCEEDED".to_owned()));
        if let (Some(id), Some(from), Some(to), true) = (id, time("window_from"), time("window_to"), harvested && done)
        {
            widths.insert(id, u64::try_from(to.since(from).as_micros()).unwrap_or(u64::MAX));
        }
    }
    let (mut requests, mut micros) = (0u64, 0u64);
    for row in newest(queries, runs, provenance, name).await? {
        let task = runs.cell(&row, "task_id").and_then(|id| id.as_int());
        let Some(width) = task.and_then(|task| widths.remove(&task)) else { continue };
        let Some(Cell::Json(stats)) = runs.cell(&row, "stats") else { continue };
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap_or_default();
        requests += stats["reqCount"].as_u64().unwrap_or(0);
        micros = micros.saturating_add(width);
    }
    Ok((micros > 0 && requests > 0).then_some((requests, micros)))
}

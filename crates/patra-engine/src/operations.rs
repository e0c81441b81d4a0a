//! What both doors do beside asking for work: signals, and tidying the ledger.

use std::time::Duration;

use patra_core::Ts;
use patra_core::gate::State;
use patra_core::port::query::{Cell, Filter, Row, View};
use patra_core::port::{Clock, Commands, CommandsExt, Queries};
use patra_core::state::{Operation, TaskStatus};
use patra_core::tx::{Archive, Archived, MAX_SIGNAL_KEYS, Signal, TxError};

use crate::registry::{self, Error};

/// Rows of a kind that one transaction of the archive moves: short, so that nobody waits for it (ING-13.8-02).
const AT_ONCE: u32 = 500;

/// The shortest time that batches and events stay: replays and audits look for them.
pub const MIN_RETENTION: Duration = Duration::from_secs(24 * 3_600);

/// A signal, once it is certain that there is such an endpoint and that it says something.
pub async fn signal(
    queries: &dyn Queries,
    provenance: &str,
    endpoint: &str,
    mut keys: Vec<String>,
    reason: String,
    by: String,
) -> Result<Signal, Error> {
    let (provenance, endpoint) = (provenance.trim().to_lowercase(), endpoint.trim().to_lowercase());
    registry::endpoint(queries, &provenance, &endpoint).await?;
    keys.sort();
    keys.dedup();
    let wrong = |key: &String| key.is_empty() || key.len() > patra_core::record::MAX_KEY_BYTES || key.contains('\0');
    if keys.is_empty() || keys.len() > MAX_SIGNAL_KEYS || keys.iter().any(wrong) {
        let most = patra_core::record::MAX_KEY_BYTES;
        let message = format!("expected 1 to {MAX_SIGNAL_KEYS} ids of 1 to {most} bytes, without NUL");
        return Err(registry::problem("signal.ids", message));
    }
    Ok(Signal { project_key: "default".into(), provenance_code: provenance, endpoint_name: endpoint, keys, reason, by })
}

/// A hold that work of an endpoint waits for.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Held {
    pub hold: i64,
    pub kind: String,
    pub subject: String,
    pub reason: String,
    pub by: String,
}

/// What holds work of this endpoint and operation now, newest first. A credential that is held counts: some of the work may be
/// its. A plan, slice or task counts when some of it waits.
pub async fn holds(
    queries: &dyn Queries,
    provenance: &str,
    endpoint: &str,
    operation: Operation,
) -> Result<Vec<Held>, TxError> {
    let view = View::Holds;
    let rows = queries.list(view, Filter { limit: Filter::MAX_LIMIT, ..Filter::default() }).await?;
    let text = |row: &Row, column| match view.cell(row, column) {
        Some(Cell::Text(text)) => Some(text),
        _ => None,
    };
    let meets = |row: &Row, column, wanted: &str| text(row, column).is_none_or(|value| value == wanted);
    let lasts = |row: &&Row| {
        view.cell(row, "released_at") == Some(Cell::Null)
            && meets(row, "provenance_code", provenance)
            && meets(row, "endpoint_name", endpoint)
            && meets(row, "operation_code", operation.as_str())
    };
    let int = |view: View, row: &Row, column| view.cell(row, column).and_then(|id| id.as_int());
    let narrow = [("plan_id", "plan_id"), ("slice_id", "slice_id"), ("task_id", "id")];
    let is_narrow = |row: &Row| narrow.iter().any(|(column, _)| int(view, row, column).is_some());
    let waiting = match rows.iter().any(is_narrow) {
        false => Vec::new(),
        true => {
            let filter = Filter {
                provenance_code: Some(provenance.to_owned()),
                endpoint_name: Some(endpoint.to_owned()),
                status: Some(TaskStatus::Queued.as_str().to_owned()),
                limit: Filter::MAX_LIMIT,
                ..Filter::default()
            };
            queries.list(View::Tasks, filter).await?
        }
    };
    let concerns = |row: &&Row| {
        let named = |(held, column): &(&'static str, &'static str)| {
            let id = int(view, row, held);
            id.is_none() || waiting.iter().any(|task| int(View::Tasks, task, column) == id)
        };
        narrow.iter().all(named)
    };
    let held = |row: &Row| Held {
        hold: view.cell(row, "id").and_then(|id| id.as_int()).unwrap_or_default(),
        kind: text(row, "kind_code").unwrap_or_default(),
        subject: text(row, "subject").unwrap_or_default(),
        reason: text(row, "reason").unwrap_or_default(),
        by: text(row, "created_by").unwrap_or_default(),
    };
    Ok(rows.iter().filter(lasts).filter(concerns).map(held).collect())
}

/// A key of the rate gate, for people.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateShown {
    pub rate_key: String,
    #[serde(flatten)]
    pub view: patra_core::gate::View,
    pub updated_at: Ts,
}

/// Every key that requests have left by: the rate of now, what is left of its quotas, who asked lately and who got nothing.
pub async fn gates(queries: &dyn Queries, clock: &dyn Clock) -> Result<Vec<GateShown>, TxError> {
    let (view, now, mut shown) = (View::Gates, clock.now(), Vec::new());
    let mut filter = Filter { limit: Filter::MAX_LIMIT, ..Filter::default() };
    loop {
        let rows = queries.list(view, filter.clone()).await?;
        for row in &rows {
            let (Some(Cell::Text(rate_key)), Some(Cell::Json(state)), Some(Cell::Time(updated_at))) =
                (view.cell(row, "rate_key"), view.cell(row, "state"), view.cell(row, "updated_at"))
            else {
                continue;
            };
            let state = State::read(&state)
                .map_err(|error| TxError::Refused(format!("ing_gate.state of {rate_key}: {error}")))?;
            shown.push(GateShown { rate_key, view: state.view(now), updated_at });
        }
        if rows.len() < Filter::MAX_LIMIT as usize {
            break;
        }
        filter.before_id = rows.last().and_then(|row| view.cell(row, "id")).and_then(|id| id.as_int());
    }
    shown.sort_by(|a, b| a.rate_key.cmp(&b.rate_key));
    Ok(shown)
}

/// Moves everything that is older than `age` out of the ledger, in short transactions. What is kept by its own time goes when
/// that is over.
pub async fn archive(store: &dyn Commands, clock: &dyn Clock, age: Duration) -> Result<Archived, TxError> {
    let before = clock.now() - age.max(MIN_RETENTION);
    let mut sum = Archived::default();
    loop {
        let done = store.run(Archive { before, limit: AT_ONCE }).await?;
        sum.batches += done.batches;
        sum.events += done.events;
        sum.raw += done.raw;
        sum.settled += done.settled;
        if done.most() < AT_ONCE {
            return Ok(sum);
        }
        tokio::task::yield_now().await;
    }
}

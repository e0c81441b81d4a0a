//! Operations of the command line and the API other than requesting jobs: signals, and archiving the ledger.

mod gap;
mod waiting;

use std::time::Duration;

use patra_core::Ts;
use patra_core::gate::{GateLimits, GateState};
use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};
use patra_core::port::{Clock, Commands, CommandsExt, Queries, Store};
use patra_core::state::{Operation, PauseKind, TaskStatus};
use patra_core::tx::{
    ADVISORY_TTL, ArchiveLedger, LedgerArchived, MAX_SIGNAL_KEYS, PauseSubject, RETRY_BATCH, RetryEvents,
    SignalRecords, TxError,
};
use patra_spec::Overrides;

use crate::registry::{self, Error, SpecRequest};

pub use gap::{AcceptedGap, GapRequest, accept_gap};
pub(crate) use waiting::closed;
pub use waiting::{WaitReason, waits};

/// Rows of a kind that one transaction of the archive moves: few, so that it is short (ING-13.8-02).
const AT_ONCE: u32 = 500;

/// Shortest retention of batches and events: replays and audits need them.
pub const MIN_RETENTION: Duration = Duration::from_secs(24 * 3_600);

/// Sends a signal after checking that the endpoint exists, that its records can be fetched again, and that the signal
/// is not empty.
pub async fn signal(
    queries: &dyn Queries,
    project_key: &str,
    provenance: &str,
    endpoint: &str,
    mut keys: Vec<String>,
    reason: String,
    by: String,
) -> Result<SignalRecords, Error> {
    let (provenance, endpoint) = (provenance.trim().to_lowercase(), endpoint.trim().to_lowercase());
    let overrides = Overrides::default();
    let asked = SpecRequest {
        project: Some(project_key),
        provenance: &provenance,
        endpoint: &endpoint,
        operation: Operation::Update,
        overrides: &overrides,
    };
    // Without a detail endpoint there is no such spec, and the records cannot be fetched.
    registry::spec(queries, &asked).await?;
    keys.sort();
    keys.dedup();
    let wrong = |key: &String| key.is_empty() || key.len() > patra_core::record::MAX_KEY_BYTES || key.contains('\0');
    if keys.is_empty() || keys.len() > MAX_SIGNAL_KEYS || keys.iter().any(wrong) {
        let most = patra_core::record::MAX_KEY_BYTES;
        let message = format!("expected 1 to {MAX_SIGNAL_KEYS} ids of 1 to {most} bytes, without NUL");
        return Err(registry::problem("signal.ids", message));
    }
    let project_key = project_key.to_owned();
    Ok(SignalRecords { project_key, provenance_code: provenance, endpoint_name: endpoint, keys, reason, by })
}

/// A pause of an endpoint's work.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct PausedView {
    pub hold: i64,
    pub kind: String,
    pub subject: String,
    pub reason: String,
    pub by: String,
}

/// Checks that the subject of a pause exists: in the registry, or in a plan that was made before it was removed there.
pub async fn check_pause_subject(queries: &dyn Queries, subject: &PauseSubject) -> Result<(), Error> {
    let PauseSubject { provenance_code, endpoint_name, plan, slice, task, .. } = subject;
    let known = match (provenance_code, endpoint_name) {
        (None, _) => Ok(()),
        (Some(provenance), Some(endpoint)) => registry::endpoint(queries, provenance, endpoint).await,
        (Some(provenance), None) => registry::manifest(queries, None, provenance).await.map(|_| ()),
    };
    match known {
        Err(unknown @ Error::NotFound(..)) => {
            let filter = ViewFilter {
                provenance_code: provenance_code.clone(),
                endpoint_name: endpoint_name.clone(),
                limit: 1,
                ..ViewFilter::default()
            };
            if queries.list(View::Plans, filter).await?.is_empty() {
                return Err(unknown);
            }
        }
        Err(error @ Error::Store(_)) => return Err(error),
        // A manifest that is not readable any more can still be paused.
        Err(Error::Problems(_)) | Ok(()) => {}
    }
    let numbered = [
        (View::Plans, "plan", plan.map(|id| id.0)),
        (View::Slices, "slice", slice.map(|id| id.0)),
        (View::Tasks, "task", task.map(|id| id.0)),
    ];
    for (view, word, id) in numbered {
        let Some(id) = id else { continue };
        // `before_id` with a limit of 1 selects one row.
        let filter = ViewFilter { before_id: Some(id.saturating_add(1)), limit: 1, ..ViewFilter::default() };
        let rows = queries.list(view, filter).await?;
        if rows.first().and_then(|row| view.cell(row, "id")).and_then(|id| id.as_int()) != Some(id) {
            let hint = format!("`patra get {}` shows what there is", view.as_str());
            return Err(Error::NotFound(format!("there is no {word} {id}"), hint));
        }
    }
    Ok(())
}

/// Sources that are paused as a whole.
pub async fn paused_sources(queries: &dyn Queries) -> Result<Vec<String>, TxError> {
    let view = View::Holds;
    let rows = queries.list(view, ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() }).await?;
    let is = |row: &ViewRow, column, cell: Cell| view.cell(row, column) == Some(cell);
    let narrower = ["endpoint_name", "operation_code", "credential_id", "plan_id", "slice_id", "task_id"];
    let whole = rows.iter().filter(|row| {
        is(row, "kind_code", Cell::Text(PauseKind::Pause.as_str().to_owned()))
            && is(row, "released_at", Cell::Null)
            && narrower.iter().all(|column| is(row, column, Cell::Null))
    });
    let source = |row| match view.cell(row, "provenance_code") {
        Some(Cell::Text(code)) => Some(code),
        _ => None,
    };
    Ok(whole.filter_map(source).collect())
}

/// Active pauses of this endpoint and operation, newest first. A paused credential counts, because some of the work may
/// use it. A paused plan, slice or task counts when some of its tasks wait.
pub async fn pauses_of(
    queries: &dyn Queries,
    clock: &dyn Clock,
    provenance: &str,
    endpoint: &str,
    operation: Operation,
) -> Result<Vec<PausedView>, TxError> {
    let view = View::Holds;
    let rows = queries.list(view, ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() }).await?;
    let text = |row: &ViewRow, column| match view.cell(row, column) {
        Some(Cell::Text(text)) => Some(text),
        _ => None,
    };
    let meets = |row: &ViewRow, column, wanted: &str| text(row, column).is_none_or(|value| value == wanted);
    // The next check of a planner ends an advisory pause of this age.
    let old = |row: &ViewRow| match (text(row, "kind_code"), view.cell(row, "created_at")) {
        (Some(kind), Some(Cell::Time(at))) => kind == PauseKind::Advisory.as_str() && at + ADVISORY_TTL <= clock.now(),
        _ => false,
    };
    let lasts = |row: &&ViewRow| {
        view.cell(row, "released_at") == Some(Cell::Null)
            && !old(row)
            && meets(row, "provenance_code", provenance)
            && meets(row, "endpoint_name", endpoint)
            && meets(row, "operation_code", operation.as_str())
    };
    let int = |view: View, row: &ViewRow, column| view.cell(row, column).and_then(|id| id.as_int());
    let narrow = [("plan_id", "plan_id"), ("slice_id", "slice_id"), ("task_id", "id")];
    let is_narrow = |row: &ViewRow| narrow.iter().any(|(column, _)| int(view, row, column).is_some());
    let waiting = match rows.iter().any(is_narrow) {
        false => Vec::new(),
        true => {
            let filter = ViewFilter {
                provenance_code: Some(provenance.to_owned()),
                endpoint_name: Some(endpoint.to_owned()),
                status: Some(TaskStatus::Queued.as_str().to_owned()),
                limit: ViewFilter::MAX_LIMIT,
                ..ViewFilter::default()
            };
            queries.list(View::Tasks, filter).await?
        }
    };
    let concerns = |row: &&ViewRow| {
        let named = |(held, column): &(&'static str, &'static str)| {
            let id = int(view, row, held);
            id.is_none() || waiting.iter().any(|task| int(View::Tasks, task, column) == id)
        };
        narrow.iter().all(named)
    };
    let held = |row: &ViewRow| PausedView {
        hold: view.cell(row, "id").and_then(|id| id.as_int()).unwrap_or_default(),
        kind: text(row, "kind_code").unwrap_or_default(),
        subject: text(row, "subject").unwrap_or_default(),
        reason: text(row, "reason").unwrap_or_default(),
        by: text(row, "created_by").unwrap_or_default(),
    };
    Ok(rows.iter().filter(lasts).filter(concerns).map(held).collect())
}

/// State of a rate key.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateKeyStatus {
    pub rate_key: String,
    #[serde(flatten)]
    pub view: patra_core::gate::GateView,
    pub updated_at: Ts,
}

/// Every rate key in use: its current rate, the rest of its quotas, its recent members, and those without permits.
pub async fn gates(queries: &dyn Queries, clock: &dyn Clock) -> Result<Vec<RateKeyStatus>, TxError> {
    let (view, now, mut shown) = (View::Gates, clock.now(), Vec::new());
    let mut filter = ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() };
    loop {
        let rows = queries.list(view, filter.clone()).await?;
        for row in &rows {
            let (Some(Cell::Text(rate_key)), Some(Cell::Json(state)), Some(Cell::Time(updated_at))) =
                (view.cell(row, "rate_key"), view.cell(row, "state"), view.cell(row, "updated_at"))
            else {
                continue;
            };
            // An unreadable key grants nothing; the next request writes it again.
            let (state, _) = GateState::read_or_spent(&state, GateLimits::default(), now);
            shown.push(RateKeyStatus { rate_key, view: state.view(now), updated_at });
        }
        if rows.len() < ViewFilter::MAX_LIMIT as usize {
            break;
        }
        filter.before_id = rows.last().and_then(|row| view.cell(row, "id")).and_then(|id| id.as_int());
    }
    shown.sort_by(|a, b| a.rate_key.cmp(&b.rate_key));
    Ok(shown)
}

/// Archives everything in the ledger that is older than `age`, in short transactions. Rows with an expiry of their own
/// go when that has passed.
pub async fn archive(store: &dyn Commands, clock: &dyn Clock, age: Duration) -> Result<LedgerArchived, TxError> {
    let before = clock.now() - age.max(MIN_RETENTION);
    let mut sum = LedgerArchived::default();
    loop {
        let done = store.run(ArchiveLedger { before, limit: AT_ONCE }).await?;
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

/// Queues given-up events for delivery again: one event, or all events of a project or of all projects. Returns how
/// many, or `None` when there is no such event.
pub async fn retry_events(
    store: &dyn Store,
    project_key: Option<&str>,
    event: Option<i64>,
) -> Result<Option<u64>, TxError> {
    let project_key = project_key.map(str::to_owned);
    if event.is_some() {
        let filter = ViewFilter { project_key: project_key.clone(), id: event, limit: 1, ..ViewFilter::default() };
        if store.list(View::Outbox, filter).await?.is_empty() {
            return Ok(None);
        }
    }
    let mut events = 0;
    loop {
        let done = store.run(RetryEvents { project_key: project_key.clone(), event }).await?;
        events += u64::from(done.events);
        if done.events < RETRY_BATCH {
            return Ok(Some(events));
        }
        tokio::task::yield_now().await;
    }
}

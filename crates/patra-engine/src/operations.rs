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

/// Work of an endpoint, as pauses see it.
#[derive(Clone, Copy, Debug)]
pub struct EndpointWork<'a> {
    pub provenance: &'a str,
    pub endpoint: &'a str,
    pub operation: Operation,
}

/// Active pauses of this endpoint and operation, newest first. A pause of a credential, plan, slice or task counts when
/// some of the tasks that wait use it or belong to it: all other work goes on.
pub async fn pauses_of(
    queries: &dyn Queries,
    clock: &dyn Clock,
    work: EndpointWork<'_>,
) -> Result<Vec<PausedView>, TxError> {
    let (pauses, tasks) = pauses_and_tasks(queries, clock, work, TaskStatus::Queued).await?;
    Ok(pauses
        .iter()
        .filter(|pause| !pause.is_narrow() || tasks.iter().any(|task| pause.names(task)))
        .map(view)
        .collect())
}

/// The pause of the credential, plan or slice of the endpoint's newest failed task: what stops similar work since.
pub async fn pause_after_failure(
    queries: &dyn Queries,
    clock: &dyn Clock,
    work: EndpointWork<'_>,
) -> Result<Option<PausedView>, TxError> {
    let (pauses, tasks) = pauses_and_tasks(queries, clock, work, TaskStatus::Failed).await?;
    let newest = tasks.first();
    Ok(pauses.iter().find(|pause| !pause.is_narrow() || newest.is_some_and(|task| pause.names(task))).map(view))
}

/// The pause because of which nothing of this endpoint goes on: one of the endpoint as a whole, or `None` as long as
/// one of the tasks that wait is free. Without any task that waits, only a pause of the endpoint counts: a pause of a
/// credential does not stop planning. `has_tasks` says that the caller's job has tasks in the queue, so that its own
/// work is among those that wait.
pub async fn blocking_pause(
    queries: &dyn Queries,
    clock: &dyn Clock,
    work: EndpointWork<'_>,
    has_tasks: bool,
) -> Result<Option<PausedView>, TxError> {
    let (pauses, tasks) = pauses_and_tasks(queries, clock, work, TaskStatus::Queued).await?;
    if let Some(whole) = pauses.iter().find(|pause| !pause.is_narrow()) {
        return Ok(Some(view(whole)));
    }
    let stops = |task: &ViewRow| pauses.iter().find(|pause| pause.stops && pause.names(task));
    let all_stopped = tasks.iter().all(|task| stops(task).is_some());
    let is_known = has_tasks || tasks.len() == ViewFilter::MAX_LIMIT as usize;
    Ok(tasks.first().filter(|_| all_stopped && is_known).and_then(stops).map(view))
}

/// A pause that lasts and covers this endpoint and operation, or some of its tasks.
struct ActivePause {
    row: ViewRow,
    /// PAUSE and BREAK stop tasks; ADVISORY stops only planning.
    stops: bool,
}

impl ActivePause {
    /// Columns of a pause that select tasks, and the columns of these tasks.
    const NARROW: [(&str, &str); 4] =
        [("credential_id", "credential_id"), ("plan_id", "plan_id"), ("slice_id", "slice_id"), ("task_id", "id")];

    fn narrowed(&self) -> impl Iterator<Item = (i64, &'static str)> {
        let id = |column| View::Holds.cell(&self.row, column).and_then(|id| id.as_int());
        Self::NARROW.into_iter().filter_map(move |(column, of_task)| Some((id(column)?, of_task)))
    }

    fn is_narrow(&self) -> bool {
        self.narrowed().next().is_some()
    }

    fn names(&self, task: &ViewRow) -> bool {
        self.narrowed().all(|(id, column)| View::Tasks.cell(task, column).and_then(|id| id.as_int()) == Some(id))
    }
}

/// The pauses that last and may concern this work, newest first, and the endpoint's tasks in a status where a pause
/// selects tasks.
async fn pauses_and_tasks(
    queries: &dyn Queries,
    clock: &dyn Clock,
    work: EndpointWork<'_>,
    status: TaskStatus,
) -> Result<(Vec<ActivePause>, Vec<ViewRow>), TxError> {
    let view = View::Holds;
    let rows = queries.list(view, ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() }).await?;
    let meets = |row: &ViewRow, column, wanted: &str| text(row, column).is_none_or(|value| value == wanted);
    // The next check of a planner ends an advisory pause of this age.
    let old = |row: &ViewRow| match (text(row, "kind_code"), view.cell(row, "created_at")) {
        (Some(kind), Some(Cell::Time(at))) => kind == PauseKind::Advisory.as_str() && at + ADVISORY_TTL <= clock.now(),
        _ => false,
    };
    let lasts = |row: &ViewRow| {
        view.cell(row, "released_at") == Some(Cell::Null)
            && !old(row)
            && meets(row, "provenance_code", work.provenance)
            && meets(row, "endpoint_name", work.endpoint)
            && meets(row, "operation_code", work.operation.as_str())
    };
    let stops = |row: &ViewRow| text(row, "kind_code").is_some_and(|kind| kind != PauseKind::Advisory.as_str());
    let pauses = rows.into_iter().filter(lasts).map(|row| ActivePause { stops: stops(&row), row }).collect::<Vec<_>>();
    if !pauses.iter().any(ActivePause::is_narrow) {
        return Ok((pauses, Vec::new()));
    }
    let filter = ViewFilter {
        provenance_code: Some(work.provenance.to_owned()),
        endpoint_name: Some(work.endpoint.to_owned()),
        status: Some(status.as_str().to_owned()),
        limit: ViewFilter::MAX_LIMIT,
        ..ViewFilter::default()
    };
    let mut tasks = queries.list(View::Tasks, filter).await?;
    let operation = Some(Cell::Text(work.operation.as_str().to_owned()));
    tasks.retain(|task| View::Tasks.cell(task, "operation_code") == operation);
    Ok((pauses, tasks))
}

fn text(row: &ViewRow, column: &str) -> Option<String> {
    match View::Holds.cell(row, column) {
        Some(Cell::Text(text)) => Some(text),
        _ => None,
    }
}

fn view(pause: &ActivePause) -> PausedView {
    let text = |column| text(&pause.row, column).unwrap_or_default();
    PausedView {
        hold: View::Holds.cell(&pause.row, "id").and_then(|id| id.as_int()).unwrap_or_default(),
        kind: text("kind_code"),
        subject: text("subject"),
        reason: text("reason"),
        by: text("created_by"),
    }
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

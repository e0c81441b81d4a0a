//! Views: lists of rows, and their filters.

use crate::state::{
    BatchStatus, CredentialStatus, JobStatus, PlanStatus, QuarantineStatus, RunStatus, SignalStatus, SliceStatus,
    TaskStatus, TokenStatus,
};
use crate::time::Ts;
use crate::tx::TxError;

/// A column of a view: its name, which is the same in table, JSON and heading, and its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewColumn {
    pub name: &'static str,
    pub kind: CellKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellKind {
    Int,
    Text,
    Time,
    Json,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    Null,
    Int(i64),
    Text(String),
    Time(Ts),
    /// JSON text as stored.
    Json(String),
}

impl Cell {
    /// JSON text. Stored JSON is passed through except for line breaks: numbers keep all their digits.
    pub fn to_json_text(&self) -> String {
        match self {
            Cell::Null => "null".to_owned(),
            Cell::Int(number) => number.to_string(),
            Cell::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            Cell::Time(at) => format!("\"{at}\""),
            // A row is one line: valid JSON has line breaks between its values only.
            Cell::Json(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => {
                text.replace(['\n', '\r'], " ")
            }
            // Stored JSON that does not parse is shown as text.
            Cell::Json(text) => serde_json::Value::from(text.as_str()).to_string(),
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        if let Cell::Int(number) = self { Some(*number) } else { None }
    }
}

/// Cells in the order of the view's columns.
pub type ViewRow = Vec<Cell>;

/// Filters rows. Every condition that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ViewFilter {
    /// Only rows of this project; a view without [`View::owner`] has none.
    pub project_key: Option<String>,
    /// Only the row with this id.
    pub id: Option<i64>,
    pub provenance_code: Option<String>,
    pub endpoint_name: Option<String>,
    pub status: Option<String>,
    pub plan: Option<i64>,
    pub task: Option<i64>,
    pub run: Option<i64>,
    pub public_id: Option<String>,
    pub job_type: Option<String>,
    /// Only rows of this job.
    pub job: Option<i64>,
    /// Only rows created at or after this time.
    pub from: Option<Ts>,
    /// Only rows created before this time.
    pub to: Option<Ts>,
    /// Only rows with a smaller id: the next page.
    pub before_id: Option<i64>,
    /// At most [`ViewFilter::MAX_LIMIT`]; 0 means [`ViewFilter::DEFAULT_LIMIT`].
    pub limit: u32,
}

impl ViewFilter {
    pub const DEFAULT_LIMIT: u32 = 100;
    pub const MAX_LIMIT: u32 = 500;

    pub fn effective_limit(&self) -> u32 {
        if self.limit == 0 { Self::DEFAULT_LIMIT } else { self.limit.min(Self::MAX_LIMIT) }
    }
}

/// A condition on a column, in SQL that both databases understand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewCondition {
    pub column: &'static str,
    /// `=`, `>=` or `<`.
    pub is: &'static str,
    pub value: Cell,
}

/// How a row belongs to a project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowOwner {
    /// The row has a `project_key`.
    Own,
    /// The plan of its `plan_id` has one.
    Plan,
    /// The cursor of its `cursor_id` has one.
    Cursor,
}

/// A condition on a column that the view does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{view}` cannot be filtered by {}", filter_of(.column))]
pub struct NoSuchFilter {
    pub view: &'static str,
    pub column: &'static str,
}

impl NoSuchFilter {
    /// Name of the filter in CLI and HTTP.
    pub fn filter(&self) -> &'static str {
        filter_of(self.column)
    }
}

fn filter_of(column: &str) -> &str {
    match column {
        "provenance_code" => "provenance",
        "endpoint_name" => "endpoint",
        "status_code" => "status",
        "plan_id" => "plan",
        "task_id" => "task",
        "run_id" => "run",
        "schedule_instance_id" => "job",
        "created_at" => "time",
        other => other,
    }
}

/// A status that no row of the view can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no {view} have the status `{value}`: it is one of {known}")]
pub struct UnknownStatus {
    pub view: &'static str,
    pub value: String,
    pub known: String,
}

impl From<NoSuchFilter> for TxError {
    fn from(error: NoSuchFilter) -> TxError {
        TxError::Refused(error.to_string())
    }
}

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident $word:literal $table:literal [$($column:ident: $kind:ident),* $(,)?]),* $(,)?) => {
        /// Lists of rows. Columns have the names of the table, except for those that [`View::expression`] computes.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum View { $($(#[$doc])* $name),* }

        impl View {
            pub const ALL: &[View] = &[$(View::$name),*];

            /// The name in CLI and HTTP.
            pub fn as_str(self) -> &'static str {
                match self { $(View::$name => $word),* }
            }

            pub fn table(self) -> &'static str {
                match self { $(View::$name => $table),* }
            }

            pub fn columns(self) -> &'static [ViewColumn] {
                match self {
                    $(View::$name => &[$(ViewColumn { name: stringify!($column), kind: CellKind::$kind }),*]),*
                }
            }
        }
    };
}

views! {
    Provenances "provenances" "reg_provenance" [id: Int, provenance_code: Text, name: Text, project_key: Text, document_hash: Text, created_at: Time, updated_at: Time],
    Endpoints "endpoints" "reg_prov_endpoint_def" [id: Int, provenance_code: Text, endpoint_name: Text, role: Text, created_at: Time],
    Schedules "schedules" "reg_schedule" [id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, reason_code: Text, when_text: Text, next_due_at: Time],
    Jobs "jobs" "ing_schedule_instance" [id: Int, public_id: Text, project_key: Text, job_type: Text, provenance_code: Text, endpoint_name: Text, operation_code: Text, reason_code: Text, activity: Text, trigger_type_code: Text, params: Json, parent_id: Int, status_code: Text, tasks_failed: Int, record_remarks: Json, created_at: Time],
    Plans "plans" "ing_plan" [id: Int, project_key: Text, schedule_instance_id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, window_from: Time, window_to: Time, plan_strategy: Text, status_code: Text, spec_fingerprint: Text, record_remarks: Json, created_at: Time],
    Slices "slices" "ing_plan_slice" [id: Int, plan_id: Int, provenance_code: Text, endpoint_name: Text, window_from: Time, window_to: Time, status_code: Text, slice_signature_hash: Text, slice_spec: Json, created_at: Time],
    Tasks "tasks" "ing_task" [id: Int, project_key: Text, plan_id: Int, slice_id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, params: Json, credential_id: Int, window_from: Time, window_to: Time, done_from: Time, done_to: Time, ordinal: Int, status_code: Text, is_unverified: Int, replaced: Int, redrive_of: Int, c_max: Int, items: Int, priority: Int, scheduled_at: Time, lease_owner: Text, leased_until: Time, lease_epoch: Int, attempt_count: Int, error: Json, started_at: Time, finished_at: Time],
    Runs "runs" "ing_task_run" [id: Int, task_id: Int, plan_id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, attempt_no: Int, status_code: Text, checkpoint: Json, stats: Json, error: Json, created_at: Time, finished_at: Time],
    Batches "batches" "ing_task_run_batch" [id: Int, run_id: Int, task_id: Int, plan_id: Int, provenance_code: Text, endpoint_name: Text, batch_no: Int, page_no: Int, page_size: Int, before_token: Text, after_token: Text, status_code: Text, has_next: Int, latency_ms: Int, stats: Json, request_digest: Json, response_digest: Json, error: Json, created_at: Time],
    Cursors "cursors" "ing_cursor" [id: Int, project_key: Text, provenance_code: Text, endpoint_name: Text, operation_code: Text, cursor_key: Text, namespace_scope_code: Text, namespace_key: Text, cursor_type_code: Text, direction_code: Text, cursor_value: Text, normalized_instant: Time, normalized_numeric: Int, observed_max_value: Text, plan_id: Int, task_id: Int, run_id: Int, version: Int, updated_at: Time],
    Events "cursor-events" "ing_cursor_event" [id: Int, cursor_id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, direction_code: Text, prev_value: Text, new_value: Text, prev_instant: Time, new_instant: Time, observed_max_value: Text, plan_id: Int, task_id: Int, run_id: Int, record_remarks: Json, created_at: Time],
    Items "items" "item" [id: Int, project_key: Text, provenance_code: Text, endpoint_name: Text, kind: Text, dedup_key: Text, updated_at: Time, mapping_generation: Text, refresh_checked_at: Time, fields: Json, payload: Json, run_id: Int, stored_at: Time, missing_since: Time],
    Quarantine "quarantine" "item_quarantine" [id: Int, project_key: Text, provenance_code: Text, endpoint_name: Text, task_id: Int, run_id: Int, batch_no: Int, item_index: Int, dedup_key: Text, error_code: Text, reason: Text, sample: Text, status_code: Text, created_at: Time],
    Candidates "candidates" "ing_candidate" [id: Int, project_key: Text, provenance_code: Text, endpoint_name: Text, candidate_id: Text, version: Text, status_code: Text, reason: Text, tries: Int, expires_at: Time, updated_at: Time],
    Signals "signals" "ing_signal" [id: Int, project_key: Text, provenance_code: Text, endpoint_name: Text, item_key: Text, origin_code: Text, reason: Text, created_by: Text, status_code: Text, tries: Int, last_error: Text, created_at: Time, updated_at: Time],
    Holds "holds" "ing_hold" [id: Int, kind_code: Text, subject: Text, provenance_code: Text, endpoint_name: Text, operation_code: Text, credential_id: Int, plan_id: Int, slice_id: Int, task_id: Int, reason: Text, created_by: Text, created_at: Time, released_by: Text, released_at: Time],
    Gates "gates" "ing_gate" [id: Int, rate_key: Text, state: Json, updated_at: Time],
    Archive "archive" "ing_archive" [id: Int, kind_code: Text, row_id: Int, plan_id: Int, task_id: Int, run_id: Int, batch_no: Int, body: Json, created_at: Time, archived_at: Time],
    Exports "exports" "ing_export" [id: Int, run_id: Int, batch_no: Int, created_by: Text, reason: Text, package_hash: Text, created_at: Time, expires_at: Time],
    Outbox "outbox" "outbox_event" [id: Int, project_key: Text, event_type: Text, topic: Text, idempotency_key: Text, status_code: Text, payload: Json, tries: Int, last_error: Text, created_at: Time, ended_at: Time],
    Keys "keys" "api_key" [id: Int, prefix: Text, name: Text, scope: Text, projects: Json, shared: Int, created_at: Time, revoked_at: Time],
    Credentials "credentials" "reg_prov_credential" [id: Int, alias: Text, version: Int, provenance_code: Text, endpoint_name: Text, type_code: Text, priority: Int, key_id: Text, status_code: Text, created_at: Time, revoked_at: Time],
    CredentialStates "credential-states" "ing_credential_state" [id: Int, credential_id: Int, version: Int, expires_at: Time, refresh_owner: Text, refresh_until: Time, refresh_epoch: Int, status_code: Text, fail_count: Int, last_error: Text, updated_at: Time],
}

impl std::str::FromStr for View {
    type Err = crate::state::UnknownValue;
    fn from_str(text: &str) -> Result<View, Self::Err> {
        View::ALL
            .iter()
            .copied()
            .find(|view| view.as_str() == text)
            .ok_or_else(|| crate::state::UnknownValue { kind: "view", value: text.to_owned() })
    }
}

/// Tasks of a job, of itself and of its partitions, that ended FAILED or PARTIAL. Both databases find them by index.
const TASKS_FAILED: &str = "(SELECT count(*) FROM ing_task task
  WHERE task.schedule_instance_id = ing_schedule_instance.id AND task.status_code IN ('FAILED', 'PARTIAL')
    AND task.replaced = 0)
  + (SELECT count(*) FROM ing_schedule_instance made, ing_task task
     WHERE made.root_id = ing_schedule_instance.id AND task.schedule_instance_id = made.id
       AND task.status_code IN ('FAILED', 'PARTIAL') AND task.replaced = 0) AS tasks_failed";

impl View {
    /// A column in the SQL of both databases: its name, or how it is computed.
    pub fn expression(self, column: &'static str) -> &'static str {
        match (self, column) {
            (View::Jobs, "tasks_failed") => TASKS_FAILED,
            _ => column,
        }
    }

    /// A row as the text of a JSON object, keyed by column.
    pub fn to_json_text(self, row: &ViewRow) -> String {
        let mut text = String::from("{");
        for (column, cell) in self.columns().iter().zip(row) {
            if text.len() > 1 {
                text.push(',');
            }
            // Column names need no escapes.
            text.push_str(&format!("\"{}\":{}", column.name, cell.to_json_text()));
        }
        text.push('}');
        text
    }

    /// The cell of a column, by name.
    pub fn cell(self, row: &ViewRow, column: &str) -> Option<Cell> {
        let at = self.columns().iter().position(|known| known.name == column)?;
        row.get(at).cloned()
    }

    pub fn has(self, column: &str) -> bool {
        self.columns().iter().any(|known| known.name == column)
    }

    /// Valid values of a row's `status_code`; empty for a view without it.
    pub fn statuses(self) -> Vec<&'static str> {
        macro_rules! words {
            ($states:ty) => {
                <$states>::ALL.iter().map(|state| state.as_str()).collect()
            };
        }
        match self {
            View::Jobs => words!(JobStatus),
            View::Plans => words!(PlanStatus),
            View::Slices => words!(SliceStatus),
            View::Tasks => words!(TaskStatus),
            View::Runs => words!(RunStatus),
            View::Batches => words!(BatchStatus),
            View::Quarantine => words!(QuarantineStatus),
            View::Candidates => vec!["FETCHED", "BAD"],
            View::Signals => words!(SignalStatus),
            View::Credentials => words!(CredentialStatus),
            View::CredentialStates => words!(TokenStatus),
            View::Outbox => vec!["PENDING", "DELIVERED", "FAILED"],
            _ => Vec::new(),
        }
    }

    /// A status as it is stored, from any case. An unknown status is an error: an empty list would suggest that no
    /// row has it.
    pub fn status(self, word: &str) -> Result<String, UnknownStatus> {
        let (status, known) = (word.trim().to_uppercase(), self.statuses());
        // A view without the column refuses the condition later.
        match known.is_empty() || known.contains(&&*status) {
            true => Ok(status),
            false => Err(UnknownStatus { view: self.as_str(), value: word.to_owned(), known: known.join(", ") }),
        }
    }

    /// How a row belongs to a project; `None` for views without projects.
    pub fn owner(self) -> Option<RowOwner> {
        match self {
            View::Jobs
            | View::Plans
            | View::Tasks
            | View::Items
            | View::Quarantine
            | View::Candidates
            | View::Signals => Some(RowOwner::Own),
            View::Cursors | View::Outbox => Some(RowOwner::Own),
            View::Slices | View::Runs | View::Batches => Some(RowOwner::Plan),
            View::Events => Some(RowOwner::Cursor),
            _ => None,
        }
    }

    /// The filter's conditions except the one on the project, in a fixed order. A condition on a column that the view
    /// does not have is an error: ignoring it would return too many rows.
    pub fn conditions(self, filter: &ViewFilter) -> Result<Vec<ViewCondition>, NoSuchFilter> {
        let text = |value: &Option<String>| value.clone().map(Cell::Text);
        let conditions_set = [
            ("id", "=", filter.id.map(Cell::Int)),
            ("provenance_code", "=", text(&filter.provenance_code)),
            ("endpoint_name", "=", text(&filter.endpoint_name)),
            ("status_code", "=", text(&filter.status)),
            ("plan_id", "=", filter.plan.map(Cell::Int)),
            ("task_id", "=", filter.task.map(Cell::Int)),
            ("run_id", "=", filter.run.map(Cell::Int)),
            ("public_id", "=", text(&filter.public_id)),
            ("job_type", "=", text(&filter.job_type)),
            ("schedule_instance_id", "=", filter.job.map(Cell::Int)),
            ("created_at", ">=", filter.from.map(Cell::Time)),
            ("created_at", "<", filter.to.map(Cell::Time)),
            ("id", "<", filter.before_id.map(Cell::Int)),
        ];
        let mut conditions = Vec::new();
        for (column, is, value) in conditions_set {
            let Some(value) = value else { continue };
            if !self.has(column) {
                return Err(NoSuchFilter { view: self.as_str(), column });
            }
            conditions.push(ViewCondition { column, is, value });
        }
        Ok(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_shown_on_one_line_with_all_its_digits() {
        let cell = Cell::Json("{\r\n  \"a\": 1.10,\n  \"b\": \"x\\ny\"\n}".into());
        assert_eq!(cell.to_json_text(), "{    \"a\": 1.10,   \"b\": \"x\\ny\" }");
    }

    #[test]
    fn a_status_is_read_in_any_case_and_one_that_no_row_can_have_is_refused() {
        assert_eq!(View::Tasks.status(" failed "), Ok("FAILED".to_owned()));
        let error = View::Plans.status("done").expect_err("no such status");
        assert_eq!(
            error.to_string(),
            "no plans have the status `done`: it is one of DRAFT, SLICING, READY, PARTIAL, FAILED, CANCELLED"
        );
        for view in View::ALL {
            assert_eq!(view.has("status_code"), !view.statuses().is_empty(), "{}", view.as_str());
        }
    }
}

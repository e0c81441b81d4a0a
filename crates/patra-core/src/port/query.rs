//! The query side: what the CLI, the API and the engine read. Nothing here can write.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use super::Boxed;
use crate::id::{InstanceId, PlanId, RunId};
use crate::record::{Candidate, Stream, Version};
use crate::registry::{self, DictType};
use crate::state::{
    BatchStatus, CredentialStatus, PlanStatus, QuarantineStatus, RunStatus, SignalStatus, SliceStatus, TaskStatus,
    TokenStatus, TriggerStatus,
};
use crate::time::Ts;
use crate::tx::{IdRange, Scope, TxError, Wanted};

/// Read access to a store. Answers come from a snapshot that may be a moment old.
pub trait Queries: fmt::Debug + Send + Sync {
    /// All that the registry holds of a provenance. One statement, however many endpoints there are (ING-3.7-03).
    fn registry(&self, provenance_code: &str) -> Boxed<'_, Result<Option<Registered>, TxError>>;

    /// The dictionary, types and words in their order.
    fn dictionary(&self) -> Boxed<'_, Result<Vec<DictType>, TxError>>;

    /// A compiled spec by its hash.
    fn snapshot(&self, hash: &str) -> Boxed<'_, Result<Option<String>, TxError>>;

    /// Those of the candidates whose details must be fetched, in the order given: not FETCHED in this version, and not BAD
    /// in this version while their pause lasts. The answer may be a moment old: a detail is then fetched twice, which
    /// changes nothing.
    fn screen(&self, stream: &Stream, candidates: &[Candidate]) -> Boxed<'_, Result<Vec<Candidate>, TxError>>;

    /// The keys of the wanted records of a range, in byte order, from the one behind `after` on (or the range's beginning), at
    /// most `limit`.
    fn wanted(
        &self,
        stream: &Stream,
        wanted: &Wanted,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> Boxed<'_, Result<Vec<String>, TxError>>;

    /// What is stored under these keys, for who wants to know what a commit would do; in the order of the keys, missing ones
    /// left out.
    fn stored(&self, stream: &Stream, keys: &[String]) -> Boxed<'_, Result<Vec<StoredVersion>, TxError>>;

    /// All that the ledger holds of a batch, from the archive when it has been moved there.
    fn evidence(&self, run: RunId, batch_no: u32) -> Boxed<'_, Result<Option<Evidence>, TxError>>;

    /// The answer that was kept for a batch, while it is kept.
    fn raw(&self, run: RunId, batch_no: u32) -> Boxed<'_, Result<Option<RawKept>, TxError>>;

    /// A plan with its slices, tasks, runs and batches, archived ones included, each level by id.
    fn lineage(&self, plan: PlanId) -> Boxed<'_, Result<Option<Lineage>, TxError>>;

    /// How far a trigger's work has come, by its public id.
    fn progress(&self, public_id: &str) -> Boxed<'_, Result<Option<Progress>, TxError>>;

    /// An API key by its public part.
    fn key(&self, prefix: &str) -> Boxed<'_, Result<Option<Key>, TxError>>;

    /// Rows of one view, newest first unless the view says otherwise.
    fn list(&self, view: View, filter: Filter) -> Boxed<'_, Result<Vec<Row>, TxError>>;

    /// A cheap statement that proves the store answers; gives the schema's version.
    fn ping(&self) -> Boxed<'_, Result<u32, TxError>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredVersion {
    pub key: String,
    pub version: Version,
    pub content_hash: [u8; 16],
    pub generation: String,
}

/// What the black box is made of (ING-14.9): the rows of the tables named, as JSON objects keyed by column, JSON columns
/// nested, times as text.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// `ing_task_run_batch`.
    pub batch: serde_json::Value,
    /// `ing_task_run`.
    pub run: serde_json::Value,
    /// `ing_task`.
    pub task: serde_json::Value,
    /// `ing_plan_slice`.
    pub slice: serde_json::Value,
    /// `ing_plan`.
    pub plan: serde_json::Value,
    /// `ing_cursor_event` of the run, archived ones included, by id.
    pub events: Vec<serde_json::Value>,
    /// `item_quarantine` of the batch, by id.
    pub quarantine: Vec<serde_json::Value>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawKept {
    pub status: u16,
    pub headers: String,
    pub body: Bytes,
    pub expires_at: Ts,
}

/// A plan and what came of it. Every `row` is the row of its table as a JSON object, see [`Evidence`]; batches leave the
/// digests out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Lineage {
    pub trigger: serde_json::Value,
    pub plan: serde_json::Value,
    pub slices: Vec<serde_json::Value>,
    pub tasks: Vec<serde_json::Value>,
    pub runs: Vec<serde_json::Value>,
    /// At most [`Lineage::MAX_BATCHES`], the first ones.
    pub batches: Vec<serde_json::Value>,
    /// So many of the plan's batches were left out.
    pub batches_left_out: u64,
}

impl Lineage {
    pub const MAX_BATCHES: u32 = 10_000;
}

/// A provenance as the registry had it at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registered {
    pub document_hash: String,
    /// Sorted.
    pub rows: Vec<registry::Row>,
}

/// What became of one trigger. Sums run over all its tasks and those of its partitions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Progress {
    pub instance: InstanceId,
    pub trigger_status: TriggerStatus,
    pub remarks: Option<String>,
    /// Triggers that were made of this one, one per partition.
    pub partitions: u64,
    /// Those of them that wait for planning.
    pub partitions_waiting: u64,
    /// Those that could not be planned.
    pub partitions_failed: u64,
    /// Those that are planned and have tasks which have not ended.
    pub partitions_open: u64,
    pub tasks_queued: u64,
    /// DISPATCHED or EXECUTING.
    pub tasks_active: u64,
    pub tasks_succeeded: u64,
    pub tasks_partial: u64,
    /// Replaced by tasks with narrower windows, which are counted in their place.
    pub tasks_split: u64,
    pub tasks_failed: u64,
    pub tasks_cancelled: u64,
    /// Committed batches, and the sums of their statistics.
    pub batches: u64,
    pub inserted: u64,
    pub updated: u64,
    pub skipped: u64,
    pub rejected: u64,
    pub retries: u64,
    pub throttled: u64,
}

impl Progress {
    pub fn tasks(&self) -> u64 {
        self.tasks_queued + self.tasks_active + self.tasks_ended()
    }

    pub fn tasks_ended(&self) -> u64 {
        self.tasks_succeeded + self.tasks_partial + self.tasks_failed + self.tasks_cancelled
    }

    /// Partitions with nothing left to do.
    pub fn partitions_ended(&self) -> u64 {
        self.partitions.saturating_sub(self.partitions_waiting + self.partitions_open)
    }

    /// Planning is over, of every partition too, and every task has ended.
    pub fn is_finished(&self) -> bool {
        let planned = self.trigger_status.is_final() && self.partitions_waiting == 0;
        planned && self.tasks_queued + self.tasks_active == 0
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    pub prefix: String,
    pub hash: String,
    pub scope: Scope,
    pub revoked: bool,
}

/// A column of a view: its name, which is the same in table, JSON and heading, and how to read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
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
    /// JSON text. What is stored as JSON is passed on as it is, but for line breaks: numbers keep all their digits.
    pub fn to_json_text(&self) -> String {
        match self {
            Cell::Null => "null".to_owned(),
            Cell::Int(number) => number.to_string(),
            Cell::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            Cell::Time(at) => format!("\"{at}\""),
            // On one line, as a row is: what is valid has line breaks between its values only.
            Cell::Json(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => {
                text.replace(['\n', '\r'], " ")
            }
            // What is stored is JSON; should it ever not be, it is shown as the text it is.
            Cell::Json(text) => serde_json::Value::from(text.as_str()).to_string(),
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        if let Cell::Int(number) = self { Some(*number) } else { None }
    }
}

/// Cells in the order of the view's columns.
pub type Row = Vec<Cell>;

/// Which rows. Every condition that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    pub provenance_code: Option<String>,
    pub endpoint_name: Option<String>,
    pub status: Option<String>,
    pub plan: Option<i64>,
    pub task: Option<i64>,
    pub run: Option<i64>,
    pub public_id: Option<String>,
    /// Of one trigger.
    pub instance: Option<i64>,
    /// Only rows with a smaller id: the next page.
    pub before_id: Option<i64>,
    /// At most [`Filter::MAX_LIMIT`]; 0 means [`Filter::DEFAULT_LIMIT`].
    pub limit: u32,
}

impl Filter {
    pub const DEFAULT_LIMIT: u32 = 100;
    pub const MAX_LIMIT: u32 = 500;

    pub fn effective_limit(&self) -> u32 {
        if self.limit == 0 { Self::DEFAULT_LIMIT } else { self.limit.min(Self::MAX_LIMIT) }
    }
}

/// A condition on a column that the view does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{view} have no {column} to filter by")]
pub struct NoSuchFilter {
    pub view: &'static str,
    pub column: &'static str,
}

/// A status that no row of the view can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no {view} have the status `{word}`: it is one of {known}")]
pub struct UnknownStatus {
    pub view: &'static str,
    pub word: String,
    pub known: String,
}

impl From<NoSuchFilter> for TxError {
    fn from(error: NoSuchFilter) -> TxError {
        TxError::Refused(error.to_string())
    }
}

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident $word:literal $table:literal [$($column:ident: $kind:ident),* $(,)?]),* $(,)?) => {
        /// What can be listed. Columns carry the names of the table.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum View { $($(#[$doc])* $name),* }

        impl View {
            pub const ALL: &[View] = &[$(View::$name),*];

            /// The word of CLI and HTTP.
            pub fn as_str(self) -> &'static str {
                match self { $(View::$name => $word),* }
            }

            pub fn table(self) -> &'static str {
                match self { $(View::$name => $table),* }
            }

            pub fn columns(self) -> &'static [Column] {
                match self {
                    $(View::$name => &[$(Column { name: stringify!($column), kind: CellKind::$kind }),*]),*
                }
            }
        }
    };
}

views! {
    Provenances "provenances" "reg_provenance" [id: Int, provenance_code: Text, name: Text, document_hash: Text, created_at: Time, updated_at: Time],
    Endpoints "endpoints" "reg_prov_endpoint_def" [id: Int, provenance_code: Text, endpoint_name: Text, role: Text, created_at: Time],
    Schedules "schedules" "reg_schedule" [id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, reason_code: Text, when_text: Text, next_due_at: Time],
    Jobs "jobs" "ing_schedule_instance" [id: Int, public_id: Text, provenance_code: Text, endpoint_name: Text, operation_code: Text, reason_code: Text, activity: Text, trigger_type_code: Text, params: Json, parent_id: Int, status_code: Text, record_remarks: Json, created_at: Time],
    Plans "plans" "ing_plan" [id: Int, schedule_instance_id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, window_from: Time, window_to: Time, plan_strategy: Text, status_code: Text, spec_fingerprint: Text, record_remarks: Json, created_at: Time],
    Slices "slices" "ing_plan_slice" [id: Int, plan_id: Int, provenance_code: Text, endpoint_name: Text, window_from: Time, window_to: Time, status_code: Text, slice_signature_hash: Text, slice_spec: Json, created_at: Time],
    Tasks "tasks" "ing_task" [id: Int, plan_id: Int, slice_id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, params: Json, credential_id: Int, window_from: Time, window_to: Time, done_from: Time, done_to: Time, ordinal: Int, status_code: Text, replaced: Int, redrive_of: Int, c_max: Int, items: Int, priority: Int, scheduled_at: Time, lease_owner: Text, leased_until: Time, lease_epoch: Int, attempt_count: Int, error: Json, started_at: Time, finished_at: Time],
    Runs "runs" "ing_task_run" [id: Int, task_id: Int, plan_id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, attempt_no: Int, status_code: Text, checkpoint: Json, stats: Json, error: Json, created_at: Time, finished_at: Time],
    Batches "batches" "ing_task_run_batch" [id: Int, run_id: Int, task_id: Int, plan_id: Int, provenance_code: Text, endpoint_name: Text, batch_no: Int, page_no: Int, page_size: Int, before_token: Text, after_token: Text, status_code: Text, has_next: Int, latency_ms: Int, stats: Json, request_digest: Json, response_digest: Json, error: Json, created_at: Time],
    Cursors "cursors" "ing_cursor" [id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, cursor_key: Text, namespace_scope_code: Text, namespace_key: Text, cursor_type_code: Text, direction_code: Text, cursor_value: Text, normalized_instant: Time, normalized_numeric: Int, observed_max_value: Text, plan_id: Int, task_id: Int, run_id: Int, version: Int, updated_at: Time],
    Events "cursor-events" "ing_cursor_event" [id: Int, cursor_id: Int, provenance_code: Text, endpoint_name: Text, operation_code: Text, direction_code: Text, prev_value: Text, new_value: Text, prev_instant: Time, new_instant: Time, observed_max_value: Text, plan_id: Int, task_id: Int, run_id: Int, record_remarks: Json, created_at: Time],
    Items "items" "item" [id: Int, project_key: Text, provenance_code: Text, endpoint_name: Text, kind: Text, dedup_key: Text, updated_at: Time, mapping_generation: Text, refresh_checked_at: Time, fields: Json, payload: Json, run_id: Int, stored_at: Time],
    Quarantine "quarantine" "item_quarantine" [id: Int, provenance_code: Text, endpoint_name: Text, task_id: Int, run_id: Int, batch_no: Int, item_index: Int, dedup_key: Text, error_code: Text, reason: Text, sample: Text, status_code: Text, created_at: Time],
    Candidates "candidates" "ing_candidate" [id: Int, project_key: Text, provenance_code: Text, endpoint_name: Text, candidate_id: Text, version: Text, status_code: Text, reason: Text, tries: Int, expires_at: Time, updated_at: Time],
    Signals "signals" "ing_signal" [id: Int, project_key: Text, provenance_code: Text, endpoint_name: Text, item_key: Text, origin_code: Text, reason: Text, created_by: Text, status_code: Text, tries: Int, last_error: Text, created_at: Time, updated_at: Time],
    Holds "holds" "ing_hold" [id: Int, kind_code: Text, subject: Text, provenance_code: Text, endpoint_name: Text, operation_code: Text, credential_id: Int, plan_id: Int, slice_id: Int, task_id: Int, reason: Text, created_by: Text, created_at: Time, released_by: Text, released_at: Time],
    Gates "gates" "ing_gate" [id: Int, rate_key: Text, state: Json, updated_at: Time],
    Archive "archive" "ing_archive" [id: Int, kind_code: Text, row_id: Int, plan_id: Int, task_id: Int, run_id: Int, batch_no: Int, body: Json, created_at: Time, archived_at: Time],
    Exports "exports" "ing_export" [id: Int, run_id: Int, batch_no: Int, created_by: Text, reason: Text, package_hash: Text, created_at: Time, expires_at: Time],
    Keys "keys" "api_key" [id: Int, prefix: Text, name: Text, scope: Text, created_at: Time, revoked_at: Time],
    Credentials "credentials" "reg_prov_credential" [id: Int, alias: Text, version: Int, provenance_code: Text, endpoint_name: Text, type_code: Text, priority: Int, key_id: Text, status_code: Text, created_at: Time, revoked_at: Time],
    CredentialStates "credential-states" "ing_credential_state" [id: Int, credential_id: Int, version: Int, expires_at: Time, refresh_owner: Text, refresh_until: Time, refresh_epoch: Int, status_code: Text, fail_count: Int, last_error: Text, updated_at: Time],
}

impl std::str::FromStr for View {
    type Err = crate::state::UnknownWord;
    fn from_str(text: &str) -> Result<View, Self::Err> {
        View::ALL
            .iter()
            .copied()
            .find(|view| view.as_str() == text)
            .ok_or_else(|| crate::state::UnknownWord { kind: "view", word: text.to_owned() })
    }
}

impl View {
    /// A row as the text of a JSON object, keyed by column.
    pub fn to_json_text(self, row: &Row) -> String {
        let mut text = String::from("{");
        for (column, cell) in self.columns().iter().zip(row) {
            if text.len() > 1 {
                text.push(',');
            }
            // Column names are plain words.
            text.push_str(&format!("\"{}\":{}", column.name, cell.to_json_text()));
        }
        text.push('}');
        text
    }

    /// The cell of a column, by name.
    pub fn cell(self, row: &Row, column: &str) -> Option<Cell> {
        let at = self.columns().iter().position(|known| known.name == column)?;
        row.get(at).cloned()
    }

    pub fn has(self, column: &str) -> bool {
        self.columns().iter().any(|known| known.name == column)
    }

    /// What a row's `status_code` may be; empty where there is none.
    pub fn statuses(self) -> Vec<&'static str> {
        macro_rules! words {
            ($states:ty) => {
                <$states>::ALL.iter().map(|state| state.as_str()).collect()
            };
        }
        match self {
            View::Jobs => words!(TriggerStatus),
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
            _ => Vec::new(),
        }
    }

    /// A status as it is stored, from any spelling of its letters. One that no row can have is an error: an empty list would say
    /// that there is none.
    pub fn status(self, word: &str) -> Result<String, UnknownStatus> {
        let (status, known) = (word.trim().to_uppercase(), self.statuses());
        // A view without the column refuses the condition itself.
        match known.is_empty() || known.contains(&&*status) {
            true => Ok(status),
            false => Err(UnknownStatus { view: self.as_str(), word: word.to_owned(), known: known.join(", ") }),
        }
    }

    /// The filter's conditions as column and value, in a fixed order. A condition on a column that the view does not
    /// have is an error, not ignored: a list that is longer than asked for misleads.
    pub fn conditions(self, filter: &Filter) -> Result<Vec<(&'static str, Cell)>, NoSuchFilter> {
        let text = |value: &Option<String>| value.clone().map(Cell::Text);
        let wanted = [
            ("provenance_code", text(&filter.provenance_code)),
            ("endpoint_name", text(&filter.endpoint_name)),
            ("status_code", text(&filter.status)),
            ("plan_id", filter.plan.map(Cell::Int)),
            ("task_id", filter.task.map(Cell::Int)),
            ("run_id", filter.run.map(Cell::Int)),
            ("public_id", text(&filter.public_id)),
            ("schedule_instance_id", filter.instance.map(Cell::Int)),
        ];
        let mut conditions = Vec::new();
        for (column, value) in wanted {
            let Some(value) = value else { continue };
            if !self.has(column) {
                return Err(NoSuchFilter { view: self.as_str(), column });
            }
            conditions.push((column, value));
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

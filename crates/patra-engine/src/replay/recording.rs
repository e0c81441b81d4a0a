//! One recorded batch: the rows of the ledger, the frozen spec, and the response where it is kept. Comes from the store
//! or from a bundle.

use serde::Serialize;
use serde_json::Value;

use patra_connectors::stored_response;
use patra_core::bounds::TaskBounds;
use patra_core::paging::Position;
use patra_core::params::{self, Params};
use patra_core::port::Queries;
use patra_core::port::query::{BatchEvidence, StoredRawResponse};
use patra_core::port::transport::HttpResponse;
use patra_core::tx::{BatchStats, RefreshCriteria};
use patra_core::{CredentialId, Fault, RunId, Ts, Window};
use patra_spec::Snapshot;

use super::Error;

#[derive(Clone, Debug)]
pub struct Recording {
    pub evidence: BatchEvidence,
    /// The frozen spec of the plan, as it is stored.
    pub snapshot_body: String,
    pub raw: Option<StoredRawResponse>,
}

impl Recording {
    pub async fn load(queries: &dyn Queries, run: RunId, batch_no: u32) -> Result<Recording, Error> {
        let evidence = queries.evidence(run, batch_no).await?.ok_or(Error::NotFound { run, batch_no })?;
        let hash = text(&evidence.plan, "spec_fingerprint")?;
        let snapshot_body =
            queries.snapshot(&hash).await?.ok_or_else(|| Error::Damaged(format!("there is no snapshot {hash}")))?;
        let raw = queries.raw(run, batch_no).await?;
        Ok(Recording { evidence, snapshot_body, raw })
    }

    /// The stored response, if any.
    pub(super) fn answer(&self) -> Result<Option<HttpResponse>, Error> {
        let Some(raw) = &self.raw else { return Ok(None) };
        let opened = stored_response::open(raw.status, &raw.headers, &raw.body);
        opened.map(Some).map_err(|unreadable| Error::Damaged(unreadable.to_string()))
    }
}

/// Keys that identify a batch in every system (ING-14.9-01).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingKeys {
    pub run_id: i64,
    pub batch_no: u32,
    pub batch_id: i64,
    pub schedule_instance_id: i64,
    pub plan_id: i64,
    pub slice_id: i64,
    pub task_id: i64,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation_code: String,
    pub slice_signature_hash: String,
    pub expr_hash: String,
    pub spec_fingerprint: String,
    pub correlation_id: String,
}

/// A parsed recording.
#[derive(Debug)]
pub(crate) struct ParsedRecording {
    pub(crate) keys: RecordingKeys,
    pub(crate) snapshot: Snapshot,
    pub(crate) position: Position,
    pub(crate) next: Option<Position>,
    pub(crate) page_size: u32,
    pub(crate) window: Option<Window>,
    pub(crate) params: Params,
    /// When the request was rendered.
    pub(crate) now: Ts,
    pub(crate) status: String,
    pub(crate) stats: BatchStats,
    pub(crate) error: Option<Fault>,
    pub(crate) request: Value,
    pub(crate) response: Value,
    pub(crate) project_key: String,
    pub(crate) credential: Option<CredentialId>,
    /// Whether an equal version replaces the stored record (C-62).
    pub(crate) refresh: bool,
    /// Records of a whole list, without an update time of their own.
    pub(crate) undated: bool,
    /// Hashes of expression and spec by the rows, and whether they agree.
    pub(crate) context: Vec<(&'static str, String, String)>,
}

impl ParsedRecording {
    pub(crate) fn read(recording: &Recording) -> Result<ParsedRecording, Error> {
        let BatchEvidence { batch, run, task, slice, plan, .. } = &recording.evidence;
        let snapshot = Snapshot::from_body(&recording.snapshot_body)
            .map_err(|error| Error::Damaged(format!("the snapshot is unreadable: {error}")))?;
        let keys = RecordingKeys {
            run_id: number(run, "id")?,
            batch_no: u32::try_from(number(batch, "batch_no")?).map_err(|_| damaged("batch_no"))?,
            batch_id: number(batch, "id")?,
            schedule_instance_id: number(task, "schedule_instance_id")?,
            plan_id: number(plan, "id")?,
            slice_id: number(slice, "id")?,
            task_id: number(task, "id")?,
            provenance_code: text(task, "provenance_code")?,
            endpoint_name: text(task, "endpoint_name")?,
            operation_code: text(task, "operation_code")?,
            slice_signature_hash: text(slice, "slice_signature_hash")?,
            expr_hash: text(batch, "expr_hash")?,
            spec_fingerprint: text(plan, "spec_fingerprint")?,
            correlation_id: format!("ing-{}-{}", number(run, "id")?, number(batch, "batch_no")?),
        };
        let task_params = task["params"].to_string();
        let bounds = TaskBounds::of_task(&task_params).map_err(|_| damaged("the bounds of the task"))?;
        let request = batch["request_digest"].clone();
        let written: Ts = read(batch, "created_at")?;
        Ok(ParsedRecording {
            context: vec![
                ("snapshot", keys.spec_fingerprint.clone(), snapshot.fingerprint()),
                ("expression of the slice", keys.expr_hash.clone(), text(slice, "expr_hash")?),
                ("expression of the task", keys.expr_hash.clone(), text(task, "expr_hash")?),
            ],
            position: read(batch, "position")?,
            next: read(batch, "next_position")?,
            page_size: read::<Option<u32>>(batch, "page_size")?.unwrap_or(0),
            window: window(task)?,
            params: params::of_task(&task_params).map_err(|_| damaged("the params of the task"))?,
            now: request["now"].as_str().and_then(|now| now.parse().ok()).unwrap_or(written),
            status: text(batch, "status_code")?,
            stats: read(batch, "stats")?,
            error: read(batch, "error")?,
            response: batch["response_digest"].clone(),
            request,
            project_key: task["project_key"].as_str().unwrap_or("default").to_owned(),
            credential: task["credential_id"].as_i64().map(CredentialId),
            undated: bounds.ids.is_none() && snapshot.reads_whole_list() && snapshot.is_undated(),
            refresh: match bounds.ids {
                Some(segment) => !matches!(segment.criteria, RefreshCriteria::Stale { .. }),
                None => snapshot.reads_whole_list(),
            },
            snapshot,
            keys,
        })
    }

    /// The window of the request. A request for ids covers all time.
    pub(crate) fn asked(&self) -> Window {
        match self.window {
            Some(window) => self.snapshot.request_window(window),
            None => Window { from: Ts::from_secs(0), to: self.now },
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.status == "FAILED"
    }

    /// Whether the upstream responded at all.
    pub(crate) fn was_answered(&self) -> bool {
        self.response["status"].as_u64().is_some_and(|status| status > 0)
    }
}

fn window(task: &Value) -> Result<Option<Window>, Error> {
    let (from, to): (Option<Ts>, Option<Ts>) = (read(task, "window_from")?, read(task, "window_to")?);
    match (from, to) {
        (Some(from), Some(to)) => Ok(Some(Window { from, to })),
        (None, None) => Ok(None),
        _ => Err(damaged("the window of the task")),
    }
}

fn read<T: serde::de::DeserializeOwned>(row: &Value, column: &str) -> Result<T, Error> {
    serde_json::from_value(row.get(column).cloned().unwrap_or_default()).map_err(|_| damaged(column))
}

fn text(row: &Value, column: &str) -> Result<String, Error> {
    row[column].as_str().map(str::to_owned).ok_or_else(|| damaged(column))
}

fn number(row: &Value, column: &str) -> Result<i64, Error> {
    row[column].as_i64().ok_or_else(|| damaged(column))
}

fn damaged(what: &str) -> Error {
    Error::Damaged(format!("{what} cannot be read"))
}

//! The format of a bundle: its contents, and how they are read back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use patra_connectors::mask;
use patra_core::Ts;
use patra_core::port::query::{BatchEvidence, StoredRawResponse};
use patra_spec::Snapshot;

use super::{BundleRequest, Error, FORMAT};
use crate::replay::{MAX_SAMPLES, ParsedRecording, Recording, ReplayDecisions, counts};

/// Columns about the processes that did the work: not exported.
const OURS: &[&str] = &["lease_owner", "leased_until", "idempotent_key"];

/// A bundle that was opened.
#[derive(Clone, Debug)]
pub struct OpenedBundle {
    pub recording: Recording,
    pub by: String,
    pub reason: String,
    pub created_at: Ts,
    pub expires_at: Ts,
    /// The whole bundle without the signature.
    pub value: Value,
}

pub(super) fn make(
    recording: &Recording,
    case: &ParsedRecording,
    request: &BundleRequest<'_>,
    decisions: Option<&ReplayDecisions>,
    (created_at, expires_at): (Ts, Ts),
) -> Result<Value, Error> {
    let BatchEvidence { batch, run, task, slice, plan, events, quarantine } = &recording.evidence;
    let mut ledger_batch = trimmed(batch);
    for digest in ["request_digest", "response_digest"] {
        if let Some(row) = ledger_batch.as_object_mut() {
            row.remove(digest);
        }
    }
    let mut package = json!({
        "format": FORMAT,
        "export": {
            "by": request.by, "reason": request.reason, "createdAt": created_at, "expiresAt": expires_at,
        },
        "keys": case.keys,
        "request": {
            "template": template(&case.snapshot),
            "params": case.params,
            "position": case.position,
            "pageSize": case.page_size,
            "window": case.window.map(|window| json!({ "from": window.from, "to": window.to })),
            "digest": batch["request_digest"],
        },
        "response": batch["response_digest"],
        "processing": {
            "status": case.status,
            "stats": batch["stats"],
            "decisions": decisions.map_or_else(|| json!({ "recorded": counts(&case.stats) }), |all| json!(all)),
            "rejected": quarantine.iter().take(MAX_SAMPLES).map(rejected).collect::<Vec<_>>(),
            "selfHealing": case.stats.self_healing,
            "error": error(&batch["error"]),
        },
        "cursor": events.iter().map(trimmed).collect::<Vec<_>>(),
        "ledger": {
            "batch": ledger_batch,
            "run": trimmed(run),
            "task": trimmed(task),
            "slice": trimmed(slice),
            "plan": trimmed(plan),
        },
        "snapshot": { "hash": case.keys.spec_fingerprint, "body": recording.snapshot_body },
    });
    if request.with_raw {
        let raw = recording.raw.as_ref().ok_or_else(|| {
            Error::Invalid("the response of this batch is not stored: export it without the response".to_owned())
        })?;
        package["raw"] = json!({
            "status": raw.status,
            "headers": raw.headers,
            "bodyGzip": STANDARD.encode(&raw.body),
        });
    }
    Ok(package)
}

impl OpenedBundle {
    pub(super) fn read(value: Value) -> Result<OpenedBundle, Error> {
        let foreign = |what: &str| Error::Foreign(format!("{what} is missing or unreadable"));
        let text = |place: &Value, what: &str| place.as_str().map(str::to_owned).ok_or_else(|| foreign(what));
        let time = |place: &Value, what: &str| -> Result<Ts, Error> {
            place.as_str().and_then(|at| at.parse().ok()).ok_or_else(|| foreign(what))
        };
        let ledger = &value["ledger"];
        let mut batch = ledger["batch"].clone();
        batch["request_digest"] = value["request"]["digest"].clone();
        batch["response_digest"] = value["response"].clone();
        let expires_at = time(&value["export"]["expiresAt"], "export.expiresAt")?;
        let raw = match &value["raw"] {
            Value::Null => None,
            raw => {
                let status = raw["status"].as_u64().and_then(|status| u16::try_from(status).ok());
                let body = STANDARD.decode(text(&raw["bodyGzip"], "raw.bodyGzip")?).map_err(|_| foreign("raw"))?;
                Some(StoredRawResponse {
                    status: status.ok_or_else(|| foreign("raw.status"))?,
                    headers: text(&raw["headers"], "raw.headers")?,
                    body: Bytes::from(body),
                    expires_at,
                })
            }
        };
        let list = |place: &Value| place.as_array().cloned().unwrap_or_default();
        Ok(OpenedBundle {
            recording: Recording {
                evidence: BatchEvidence {
                    batch,
                    run: ledger["run"].clone(),
                    task: ledger["task"].clone(),
                    slice: ledger["slice"].clone(),
                    plan: ledger["plan"].clone(),
                    events: list(&value["cursor"]),
                    quarantine: Vec::new(),
                },
                snapshot_body: text(&value["snapshot"]["body"], "snapshot.body")?,
                raw,
            },
            by: text(&value["export"]["by"], "export.by")?,
            reason: text(&value["export"]["reason"], "export.reason")?,
            created_at: time(&value["export"]["createdAt"], "export.createdAt")?,
            expires_at,
            value,
        })
    }
}

/// The templates of the request; they name credentials and do not hold them.
fn template(spec: &Snapshot) -> Value {
    let http = &spec.http;
    json!({
        "method": http.method,
        "baseUrl": http.base_url,
        "path": http.path_template,
        "query": http.query_template,
        "headers": http.headers_template.keys().collect::<Vec<_>>(),
        "auth": spec.auth.r#type.as_str(),
    })
}

fn trimmed(row: &Value) -> Value {
    let mut row = row.clone();
    if let Some(map) = row.as_object_mut() {
        map.retain(|column, _| !OURS.contains(&column.as_str()));
        if map.contains_key("error") {
            map["error"] = error(&map["error"]);
        }
    }
    row
}

/// Removes texts of the upstream that may name persons.
fn error(error: &Value) -> Value {
    let mut error = error.clone();
    if let Some(message) = error["message"].as_str().map(|message| mask::personal(message).into_owned()) {
        error["message"] = message.into();
    }
    error
}

/// A rejected record: its position and the reason, without its content.
fn rejected(row: &Value) -> Value {
    let reason = row["reason"].as_str().map(mask::personal);
    let kept = ["item_index", "error_code", "status_code"].map(|column| (column.to_owned(), row[column].clone()));
    let mut kept = Map::from_iter(kept);
    kept.insert("reason".into(), reason.as_deref().into());
    Value::Object(kept)
}

//! Candidates, which are notes to fetch, and fetched notes.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::Query;
use axum::extract::State;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::crawl::{CrawlCandidate, CrawlNote, MAX_META, MAX_NAME, idempotency_key};
use patra_core::port::CommandsExt as _;
use patra_core::port::crawl::CrawlFilter;
use patra_core::tx::{
    AddCandidates, CandidateFailed, CandidatesClaimed, ClaimCandidates, FailCandidate, MAX_CANDIDATES, NewCandidate,
    RequeueCandidates,
};
use patra_core::{Code, Ts};
use patra_engine::crawler::{CrawlFailure, flow};

use super::super::input::{Given, PathText, path_text};
use super::locks::{ListParams, lost, no_execution, params};
use super::{MAX_NOTE_ID, few, maybe, no_store, respond, text, wrong};
use crate::Api;
use crate::auth::Tenant;
use crate::request_id::RequestId;

/// Most bytes of a note's address.
const MAX_URL: usize = 4 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct CandidatesBody {
    platform: String,
    source_keyword: Option<String>,
    #[serde(alias = "candidates")]
    items: Vec<CandidateBody>,
}

/// A candidate. Items of a search response can be passed unchanged.
#[derive(Deserialize)]
struct CandidateBody {
    note_id: String,
    #[serde(default)]
    note_url: String,
    source_keyword: Option<String>,
    #[serde(default)]
    tokens: BTreeMap<String, String>,
}

pub(in crate::routes) async fn add_candidates(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Given<CandidatesBody>,
) -> Response {
    let work = async {
        let given = given.read()?;
        text("platform", &given.platform, 64)?;
        if given.items.is_empty() || given.items.len() > MAX_CANDIDATES {
            return Err(wrong(format!("items holds 1 to {MAX_CANDIDATES} notes, not {}", given.items.len())));
        }
        let secret = match &api.crawler {
            Some(crawler) => crawler.has_secret_tokens(&given.platform, tenant.sight()?).await?,
            None => false,
        };
        let mut candidates = Vec::with_capacity(given.items.len());
        for item in given.items {
            text("note_id", &item.note_id, MAX_NOTE_ID)?;
            if item.note_url.len() > MAX_URL || item.note_url.chars().any(char::is_control) {
                return Err(wrong(format!("note_url has at most {MAX_URL} bytes and no control characters")));
            }
            let source_keyword = item.source_keyword.or_else(|| given.source_keyword.clone());
            maybe("source_keyword", source_keyword.as_deref(), MAX_NAME)?;
            few(&item.tokens)?;
            let tokens = flow::store_tokens(&api.vault, secret, &given.platform, &item.note_id, &item.tokens)
                .map_err(|reason| CrawlFailure::new(Code::NotConfigured, reason))?;
            candidates.push(NewCandidate { note_id: item.note_id, note_url: item.note_url, source_keyword, tokens });
        }
        let add = AddCandidates { project_key: tenant.project()?.to_owned(), platform: given.platform, candidates };
        let added = api.store.run(Arc::new(add)).await.map_err(no_store)?;
        Ok(json!({ "created": added.created, "existing": added.existing }))
    };
    respond(&id, work).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct ClaimBody {
    execution_id: String,
    batch_size: Option<u32>,
    platform: Option<String>,
}

pub(in crate::routes) async fn claim(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Given<ClaimBody>,
) -> Response {
    let work = async {
        let ClaimBody { execution_id, batch_size, platform } = given.read()?;
        text("execution_id", &execution_id, MAX_NAME)?;
        maybe("platform", platform.as_deref(), 64)?;
        let limit = batch_size.unwrap_or(api.batch_size);
        if limit == 0 || limit as usize > MAX_CANDIDATES {
            return Err(wrong(format!("batch_size is 1 to {MAX_CANDIDATES}")));
        }
        let (project_key, timeout) = (tenant.sight()?.map(str::to_owned), api.lock_timeout);
        let claim = ClaimCandidates { project_key, execution_id: execution_id.clone(), limit, platform, timeout };
        let records = match api.store.run(claim).await.map_err(no_store)? {
            CandidatesClaimed::Claimed(records) => records,
            CandidatesClaimed::Lost(execution) => return Err(lost(&execution)),
            CandidatesClaimed::Unknown => return Err(no_execution(&execution_id)),
        };
        let shown: Vec<_> = records
            .iter()
            .map(|record| {
                // The lock holder needs the tokens to fetch the details.
                let mut shown = candidate(record);
                shown["tokens"] = json!(flow::read_tokens(&api.vault, record).unwrap_or_default());
                shown
            })
            .collect();
        Ok(json!({ "locked_count": shown.len(), "records": shown }))
    };
    respond(&id, work).await
}

fn candidate(record: &CrawlCandidate) -> Value {
    let meta: Value = serde_json::from_str(&record.exec_meta).unwrap_or_default();
    json!({
        "note_id": record.note_id, "platform": record.platform, "note_url": record.note_url,
        "status": record.status, "processing_lock": record.processing_lock, "locked_at": record.locked_at,
        "retry_count": record.retry_count, "source_keyword": record.source_keyword,
        "last_error_code": record.last_error_code, "exec_meta": meta,
        "created_at": record.created_at, "updated_at": record.updated_at,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct FailBody {
    execution_id: String,
    platform: String,
    error_code: String,
    exec_meta: Option<serde_json::Map<String, Value>>,
}

pub(in crate::routes) async fn fail(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    note_id: PathText,
    given: Given<FailBody>,
) -> Response {
    let work = async {
        let (note_id, given) = (path_text(note_id)?, given.read()?);
        text("platform", &given.platform, 64)?;
        text("execution_id", &given.execution_id, MAX_NAME)?;
        if !Code::ALL.iter().any(|code| code.as_str() == given.error_code) {
            return Err(wrong("error_code is not a known code, such as TIMEOUT_ERROR"));
        }
        let fail = FailCandidate {
            project_key: tenant.project()?.to_owned(),
            execution_id: given.execution_id.clone(),
            platform: given.platform,
            note_id: note_id.clone(),
            error_code: given.error_code,
            attempt: flow::tried(id.as_str(), &meta(given.exec_meta)?, api.clock.now()),
        };
        match api.store.run(fail).await.map_err(no_store)? {
            CandidateFailed::Failed(record) => Ok(json!({
                "note_id": record.note_id, "status": record.status, "retry_count": record.retry_count,
            })),
            CandidateFailed::NotHeld(holder) => {
                let message = format!("note {note_id} is not held by execution {}", given.execution_id);
                Err(CrawlFailure::new(Code::LockLost, message).detail("holder", json!(holder)))
            }
            CandidateFailed::Unknown => {
                Err(CrawlFailure::new(Code::NotFound, format!("there is no candidate {note_id} on this platform")))
            }
        }
    };
    respond(&id, work).await
}

fn meta(given: Option<serde_json::Map<String, Value>>) -> Result<String, CrawlFailure> {
    let text = Value::Object(given.unwrap_or_default()).to_string();
    if text.len() > MAX_META {
        return Err(wrong(format!("exec_meta is at most {MAX_META} bytes of JSON")));
    }
    without_nul(&text)?;
    Ok(text)
}

/// PostgreSQL cannot store NUL, not even in JSON.
fn without_nul(json: &str) -> Result<(), CrawlFailure> {
    if json.contains("\\u0000") { Err(wrong("no text may hold the character NUL")) } else { Ok(()) }
}

pub(in crate::routes) async fn candidates(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Result<Query<ListParams>, QueryRejection>,
) -> Response {
    let work = async {
        let params = params(given)?;
        let status = params.status("pending, processing, collected, failed")?;
        let wanted = CrawlFilter { candidate: status, ..params.wanted(&tenant)? };
        let (limit, rows) = (wanted.limit, api.store.candidates(wanted).await.map_err(no_store)?);
        let next = rows.last().map(|row| row.id).filter(|_| rows.len() == limit as usize);
        Ok(json!({ "items": rows.iter().map(candidate).collect::<Vec<_>>(), "next_after": next }))
    };
    respond(&id, work).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct RequeueBody {
    platform: String,
    note_id: Option<String>,
    source_keyword: Option<String>,
}

pub(in crate::routes) async fn requeue(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Given<RequeueBody>,
) -> Response {
    let work = async {
        let RequeueBody { platform, note_id, source_keyword } = given.read()?;
        text("platform", &platform, 64)?;
        maybe("note_id", note_id.as_deref(), MAX_NOTE_ID)?;
        maybe("source_keyword", source_keyword.as_deref(), MAX_NAME)?;
        let requeue =
            RequeueCandidates { project_key: tenant.project()?.to_owned(), platform, note_id, source_keyword };
        let requeued = api.store.run(requeue).await.map_err(no_store)?.requeued;
        Ok(json!({ "requeued": requeued }))
    };
    respond(&id, work).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct NoteBody {
    /// Accepted and ignored: a note is stored whatever the execution (CRAWL-128).
    #[serde(rename = "execution_id")]
    _execution_id: Option<String>,
    record_info: RecordInfo,
    crawl_result: serde_json::Map<String, Value>,
    exec_meta: Option<serde_json::Map<String, Value>>,
}

/// Identifies a note. A claimed record can be passed unchanged.
#[derive(Deserialize)]
struct RecordInfo {
    note_id: String,
    platform: String,
    note_url: Option<String>,
}

pub(in crate::routes) async fn write(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Given<NoteBody>,
) -> Response {
    let work = async {
        let NoteBody { record_info: record, crawl_result, exec_meta, .. } = given.read()?;
        text("note_id", &record.note_id, MAX_NOTE_ID)?;
        text("platform", &record.platform, 64)?;
        if let Some(crawler) = &api.crawler {
            crawler.platform(&record.platform).await?;
        }
        let result = Value::Object(crawl_result);
        without_nul(&result.to_string())?;
        let published = result.get("published_at").filter(|at| !at.is_null());
        if published.is_some_and(|at| at.as_str().and_then(|at| at.parse::<Ts>().ok()).is_none()) {
            return Err(wrong("crawl_result.published_at is not a time in RFC 3339"));
        }
        let tried = flow::tried(id.as_str(), &meta(exec_meta)?, api.clock.now());
        let url = record.note_url.filter(|url| !url.is_empty());
        let mut write = flow::new_note(tenant.project()?, &record.platform, &record.note_id, url, &result, tried);
        patra_engine::pool::capture_note(&*api.store, &mut write).await.map_err(no_store)?;
        let written = api.store.run(Arc::new(write)).await.map_err(no_store)?;
        let key = idempotency_key(&record.note_id);
        Ok(match written.created {
            true => json!({ "action": "created", "id": written.id, "idempotency_key": key }),
            false => json!({ "action": "skipped", "existing_id": written.id, "idempotency_key": key }),
        })
    };
    respond(&id, work).await
}

pub(in crate::routes) async fn notes(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Result<Query<ListParams>, QueryRejection>,
) -> Response {
    let work = async {
        let wanted = params(given)?.wanted(&tenant)?;
        let (limit, rows) = (wanted.limit, api.store.notes(wanted).await.map_err(no_store)?);
        let next = rows.last().map(|row| row.id).filter(|_| rows.len() == limit as usize);
        Ok(json!({ "items": rows.iter().map(note).collect::<Vec<_>>(), "next_after": next }))
    };
    respond(&id, work).await
}

fn note(note: &CrawlNote) -> Value {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    json!({
        "id": note.id, "platform": note.platform, "note_id": note.note_id, "note_url": note.note_url,
        "idempotency_key": note.idempotency_key, "title": note.title, "content": note.content,
        "author": note.author, "published_at": note.published_at, "fetched_at": note.fetched_at,
        "processing_lock": note.processing_lock, "locked_at": note.locked_at, "retry_count": note.retry_count,
        "last_error_code": note.last_error_code, "exec_meta": parsed(&note.exec_meta),
        "crawl_result": parsed(&note.crawl_result),
    })
}

//! Named locks: conditional writes, so that orchestrators can repeat every request.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::Code;
use patra_core::crawl::{Execution, MAX_NAME, execution_id};
use patra_core::port::CommandsExt as _;
use patra_core::port::crawl::{CrawlFilter, MAX_ROWS};
use patra_core::state::ExecutionStatus;
use patra_core::tx::{AcquireExecution, EndExecution, ExecutionAcquired, ExecutionKept, KeepExecution};
use patra_engine::crawler::CrawlFailure;
use patra_engine::maintenance;

use super::super::input::{Given, PathText, path_text};
use super::{maybe, no_store, respond, text, wrong};
use crate::Api;
use crate::auth::Tenant;
use crate::key::random_hex;
use crate::request_id::RequestId;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct AcquireBody {
    workflow_name: String,
}

pub(in crate::routes) async fn acquire(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Given<AcquireBody>,
) -> Response {
    let work = async {
        let AcquireBody { workflow_name } = given.read()?;
        text("workflow_name", &workflow_name, MAX_NAME)?;
        let random = random_hex::<6>().map_err(|_| CrawlFailure::new(Code::InternalError, "there is no randomness"))?;
        let execution_id = execution_id(api.clock.now(), &random);
        let timeout = api.lock_timeout;
        let acquire =
            AcquireExecution { project_key: tenant.project()?.to_owned(), workflow_name, execution_id, timeout };
        Ok(match api.store.run(acquire).await.map_err(no_store)? {
            ExecutionAcquired::Granted(execution) => {
                let mut data = shown(&execution, api.lock_timeout);
                data["locked"] = true.into();
                data
            }
            ExecutionAcquired::Held(holder) => json!({
                "locked": false, "reason": "an execution is already running", "reason_code": "ALREADY_RUNNING",
                "holder": { "execution_id": holder.execution_id, "heartbeat_at": holder.heartbeat_at },
            }),
        })
    };
    respond(&id, work).await
}

fn shown(execution: &Execution, timeout: std::time::Duration) -> Value {
    let mut data = json!(execution);
    if execution.status == ExecutionStatus::Running {
        data["expires_at"] = json!(execution.heartbeat_at + timeout);
    }
    data
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct CountsBody {
    status: Option<String>,
    items_processed: Option<u64>,
    items_failed: Option<u64>,
}

/// Checks that counters fit the integers of the databases.
fn counters(body: &CountsBody) -> Result<(), CrawlFailure> {
    let fits = |count: Option<u64>| count.is_none_or(|count| i64::try_from(count).is_ok());
    if fits(body.items_processed) && fits(body.items_failed) {
        return Ok(());
    }
    Err(wrong("items_processed and items_failed are at most 9223372036854775807"))
}

pub(in crate::routes) async fn heartbeat(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    execution: PathText,
    given: Given<CountsBody>,
) -> Response {
    let work = async {
        let (execution_id, counts) = (path_text(execution)?, given.read()?);
        counters(&counts)?;
        if counts.status.is_some() {
            return Err(wrong("a heartbeat has no status"));
        }
        let keep = KeepExecution {
            project_key: tenant.sight()?.map(str::to_owned),
            execution_id: execution_id.clone(),
            items_processed: counts.items_processed,
            items_failed: counts.items_failed,
            timeout: api.lock_timeout,
        };
        kept(&api, &execution_id, api.store.run(keep).await.map_err(no_store)?)
    };
    respond(&id, work).await
}

pub(in crate::routes) async fn release(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    execution: PathText,
    given: Given<CountsBody>,
) -> Response {
    let work = async {
        let (execution_id, counts) = (path_text(execution)?, given.read()?);
        counters(&counts)?;
        let status = match counts.status.as_deref() {
            None | Some("completed") => ExecutionStatus::Completed,
            Some("failed") => ExecutionStatus::Failed,
            Some(_) => return Err(wrong("status is `completed` or `failed`")),
        };
        let end = EndExecution {
            project_key: tenant.sight()?.map(str::to_owned),
            execution_id: execution_id.clone(),
            status,
            items_processed: counts.items_processed,
            items_failed: counts.items_failed,
            timeout: api.lock_timeout,
        };
        kept(&api, &execution_id, api.store.run(end).await.map_err(no_store)?)
    };
    respond(&id, work).await
}

fn kept(api: &Api, execution_id: &str, kept: ExecutionKept) -> Result<Value, CrawlFailure> {
    match kept {
        ExecutionKept::Kept(execution) => Ok(shown(&execution, api.lock_timeout)),
        ExecutionKept::Lost(execution) => Err(lost(&execution)),
        ExecutionKept::Unknown => Err(no_execution(execution_id)),
    }
}

pub(super) fn lost(execution: &Execution) -> CrawlFailure {
    let message = format!("execution {} is in status {}", execution.execution_id, execution.status);
    CrawlFailure::new(Code::LockLost, message)
}

pub(super) fn no_execution(execution_id: &str) -> CrawlFailure {
    let shown: String = execution_id.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    CrawlFailure::new(Code::LockLost, format!("there is no execution {shown}"))
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(in crate::routes) struct ListParams {
    workflow_name: Option<String>,
    status: Option<String>,
    platform: Option<String>,
    source_keyword: Option<String>,
    note_id: Option<String>,
    after: Option<i64>,
    limit: Option<u32>,
}

impl ListParams {
    pub(super) fn wanted(&self, tenant: &Tenant) -> Result<CrawlFilter, CrawlFailure> {
        let limit = self.limit.unwrap_or(100);
        if limit == 0 || limit > MAX_ROWS {
            return Err(wrong(format!("limit is 1 to {MAX_ROWS}")));
        }
        for (name, value) in [
            ("workflow_name", &self.workflow_name),
            ("platform", &self.platform),
            ("source_keyword", &self.source_keyword),
            ("note_id", &self.note_id),
        ] {
            maybe(name, value.as_deref(), MAX_NAME)?;
        }
        Ok(CrawlFilter {
            project_key: tenant.project()?.to_owned(),
            after: self.after.unwrap_or(0),
            limit,
            workflow_name: self.workflow_name.clone(),
            platform: self.platform.clone(),
            source_keyword: self.source_keyword.clone(),
            note_id: self.note_id.clone(),
            ..CrawlFilter::default()
        })
    }

    pub(super) fn status<S: std::str::FromStr>(&self, words: &str) -> Result<Option<S>, CrawlFailure> {
        self.status
            .as_deref()
            .map(|word| word.parse().map_err(|_| wrong(format!("status is one of: {words}"))))
            .transpose()
    }
}

pub(super) fn params(given: Result<Query<ListParams>, QueryRejection>) -> Result<ListParams, CrawlFailure> {
    given.map(|Query(params)| params).map_err(|error| wrong(error.body_text()))
}

pub(in crate::routes) async fn executions(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Result<Query<ListParams>, QueryRejection>,
) -> Response {
    let work = async {
        let params = params(given)?;
        let execution = params.status("running, completed, failed, timeout")?;
        let wanted = CrawlFilter { execution, ..params.wanted(&tenant)? };
        let (limit, rows) = (wanted.limit, api.store.executions(wanted).await.map_err(no_store)?);
        let next = rows.last().map(|(row, _)| *row).filter(|_| rows.len() == limit as usize);
        let items: Vec<_> = rows.iter().map(|(_, execution)| shown(execution, api.lock_timeout)).collect();
        Ok(json!({ "items": items, "next_after": next }))
    };
    respond(&id, work).await
}

pub(in crate::routes) async fn recover(State(api): State<Api>, Extension(id): Extension<RequestId>) -> Response {
    let work = async { Ok(json!(maintenance::recover(&*api.store, api.lock_timeout).await.map_err(no_store)?)) };
    respond(&id, work).await
}

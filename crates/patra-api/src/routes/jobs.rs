//! Jobs: requesting work, and following it.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::params::Params;
use patra_core::port::CommandsExt;
use patra_core::port::query::{Cell, JobProgress, View, ViewFilter};
use patra_core::project;
use patra_core::state::{JobStatus, Operation, TriggerType, UpdateReason};
use patra_core::tx::RequestJob;
use patra_core::{Code, Ts};
use patra_engine::job_request::{self, JobRequest};
use patra_engine::operations;
use patra_engine::registry::{self, Overrides};

use super::input::{self, Given, PathText};
use super::views::{self, Page, QueryParams};
use crate::Api;
use crate::auth::Tenant;
use crate::envelope::{Failure, success};
use crate::key::random_hex;
use crate::request_id::RequestId;

pub(super) async fn list(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams,
) -> Response {
    let page = async {
        let mut filter = views::filter(params)?;
        let word = filter.status.as_deref().map(|status| status.trim().to_lowercase());
        match word.filter(|word| JobProgress::STATUS_WORDS.contains(&word.as_str())) {
            Some(word) => {
                filter.status = None;
                in_state(&api, &tenant, &word, filter).await
            }
            None => views::query(&api, &tenant, View::Jobs, filter).await,
        }
    };
    views::respond(&id, View::Jobs, page.await)
}

/// Longest time to collect a page of jobs; the deadline of a response is ten seconds.
const SCAN_TIME: Duration = Duration::from_secs(4);

/// Jobs in a status of POOL-97. That status depends on the tasks of a job, so every job is checked: at most
/// [`ViewFilter::MAX_LIMIT`] jobs, and for about [`SCAN_TIME`]. The next page continues after the last checked job.
async fn in_state(api: &Api, tenant: &Tenant, wanted: &str, mut filter: ViewFilter) -> Result<Page, Failure> {
    let most = filter.effective_limit() as usize;
    filter.limit = ViewFilter::MAX_LIMIT;
    let (rows, mut next) = views::query(api, tenant, View::Jobs, filter).await?;
    let began = api.clock.steady();
    let mut page = Vec::new();
    for row in rows {
        let Some(Cell::Text(public_id)) = View::Jobs.cell(&row, "public_id") else { continue };
        let looked_at = View::Jobs.cell(&row, "id").and_then(|cell| cell.as_int());
        if tenant.store(api).progress(&public_id).await?.is_some_and(|progress| progress.status_word() == wanted) {
            page.push(row);
        }
        if page.len() == most || api.clock.steady().since(began) > SCAN_TIME {
            next = looked_at;
            break;
        }
    }
    Ok((page, next))
}

/// A visible job and its full id: within a project, the prefix of [`scoped`] can be left out. Jobs of other projects
/// look as if they did not exist.
pub(crate) async fn named(api: &Api, tenant: &Tenant, id: &str) -> Result<(String, JobProgress), Failure> {
    let within = tenant.sight().ok().flatten().map(|project| scoped(project, id.to_owned()));
    let within = within.filter(|whole| whole != id);
    for id in [Some(id.to_owned()), within].into_iter().flatten() {
        if let Some(progress) = tenant.store(api).progress(&id).await? {
            return Ok((id, progress));
        }
    }
    Err(Failure::new(StatusCode::NOT_FOUND, Code::NotFound, "there is no such job"))
}

/// Adds the project to an id. Ids are global, and a conflict must not reveal another project's job.
fn scoped(project: &str, id: String) -> String {
    if project == project::DEFAULT { id } else { format!("{project}.{id}") }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewJob {
    provenance: String,
    endpoint: String,
    #[serde(default = "harvest")]
    operation: Operation,
    /// Reason of an UPDATE.
    reason: Option<UpdateReason>,
    /// The activity that a BACKFILL or an UPDATE belongs to.
    activity: Option<String>,
    from: Option<Ts>,
    to: Option<Ts>,
    /// Parameters of the endpoint; the parameter of a partition selects that partition.
    #[serde(default)]
    params: Params,
    /// Overrides of settings for this job: `{"pagination.page_size": 50}`.
    #[serde(default)]
    overrides: Value,
    /// Runs the job before (less than 0) or after other work of the same kind.
    #[serde(default)]
    priority: i32,
    /// Idempotency key: the same id again is the same job.
    public_id: Option<String>,
}

fn harvest() -> Operation {
    Operation::Harvest
}

pub(super) async fn create(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    body: Given<NewJob>,
) -> Response {
    match fire(&api, &tenant, body).await {
        Ok((public_id, existed)) => {
            (api.nudge)();
            let status = if existed { StatusCode::OK } else { StatusCode::ACCEPTED };
            let data = json!({ "public_id": public_id, "existed": existed });
            (status, success(&id, &data, json!({}))).into_response()
        }
        Err(failure) => failure.respond(&id),
    }
}

async fn fire(api: &Api, tenant: &Tenant, body: Given<NewJob>) -> Result<(String, bool), Failure> {
    let project_key = tenant.project()?.to_owned();
    let job = body.read()?;
    input::without_nul("provenance", Some(&job.provenance))?;
    input::without_nul("endpoint", Some(&job.endpoint))?;
    input::without_nul("public_id", job.public_id.as_deref())?;
    let overrides = Overrides::from_json(&job.overrides).map_err(|problems| refused(problems.into()))?;
    let request = JobRequest {
        project: &project_key,
        provenance: &job.provenance,
        endpoint: &job.endpoint,
        operation: job.operation,
        reason: job.reason,
        activity: job.activity.as_deref(),
        from: job.from,
        to: job.to,
        params: &job.params,
        overrides: &overrides,
        priority: job.priority,
    };
    let checked = job_request::check(&*api.store, &request).await.map_err(refused)?;
    let public_id = match job.public_id {
        Some(id) if id.len() <= 128 && !id.is_empty() => scoped(&project_key, id),
        Some(_) => return Err(Failure::bad_request("public_id must have 1 to 128 characters")),
        None => format!(
            "job-{}",
            random_hex::<8>().map_err(|error| {
                Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, error.to_string())
            })?
        ),
    };
    let fired = api
        .store
        .run(RequestJob {
            public_id: public_id.clone(),
            trigger_type: TriggerType::Api,
            project_key,
            provenance_code: checked.provenance_code,
            endpoint_name: checked.endpoint_name,
            operation: job.operation,
            reason: job.reason,
            activity: job.activity,
            window_from: job.from,
            window_to: job.to,
            priority: job.priority,
            params: checked.params,
            overrides: checked.overrides,
        })
        .await?;
    Ok((public_id, fired.existed))
}

/// Problems of the request are a bad request; other problems need a change of the manifest.
fn refused(error: registry::Error) -> Failure {
    let in_request = matches!(&error, registry::Error::Problems(problems)
        if problems.iter().all(|problem| ["trigger", "--set"].iter().any(|of| problem.path.starts_with(of))));
    let failure = Failure::from(error);
    match in_request {
        true => Failure { status: StatusCode::BAD_REQUEST, code: Code::InvalidInput, ..failure },
        false => failure,
    }
}

/// Pauses that an unfinished job may be waiting for.
async fn pauses(api: &Api, tenant: &Tenant, job: &str, finished: bool) -> Vec<operations::PausedView> {
    if finished {
        return Vec::new();
    }
    let filter = ViewFilter { public_id: Some(job.to_owned()), limit: 1, ..ViewFilter::default() };
    let Ok(rows) = tenant.store(api).list(View::Jobs, filter).await else { return Vec::new() };
    let text = |column| match rows.first().and_then(|row| View::Jobs.cell(row, column)) {
        Some(Cell::Text(text)) => text,
        _ => String::new(),
    };
    let Ok(operation) = text("operation_code").parse() else { return Vec::new() };
    let (provenance, endpoint) = (text("provenance_code"), text("endpoint_name"));
    let work = operations::EndpointWork { provenance: &provenance, endpoint: &endpoint, operation };
    operations::pauses_of(&*api.store, &*api.clock, work).await.unwrap_or_default()
}

pub(super) async fn show(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    job: PathText,
) -> Response {
    let found = async {
        let job = input::path_text(job)?;
        let (job, progress) = named(&api, &tenant, &job).await?;
        let pauses = pauses(&api, &tenant, &job, progress.is_finished()).await;
        let meta = json!({ "finished": progress.is_finished(), "held": pauses });
        Ok::<_, Failure>((job_json(&job, &progress), meta))
    };
    match found.await {
        Ok((data, meta)) => success(&id, &data, meta),
        Err(failure) => failure.respond(&id),
    }
}

/// A job with a status of POOL-97 and the counts of its tasks.
fn job_json(job: &str, progress: &JobProgress) -> Value {
    let mut data = json!(progress);
    data["task_id"] = job.into();
    data["async"] = true.into();
    data["status"] = progress.status_word().into();
    data["partial"] = progress.is_partial().into();
    data["result"] = read(progress.result.as_deref());
    data["error"] = if progress.status_word() == "failed" { newest_error(progress) } else { Value::Null };
    data
}

fn newest_error(progress: &JobProgress) -> Value {
    if progress.job_status == JobStatus::Failed {
        return read(progress.remarks.as_deref())["error"].clone();
    }
    progress.fault.clone().unwrap_or_else(|| {
        let (failed, all) = (progress.partitions_failed, progress.partitions);
        format!("{failed} of {all} partitions could not be planned: their jobs say why").into()
    })
}

fn read(text: Option<&str>) -> Value {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

//! Lists of every view: the same columns and filters as `patra get`.

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use patra_core::Ts;
use patra_core::port::query::{View, ViewFilter, ViewRow};
use patra_core::tx::KeyScope;

use super::input::{self, PathText};
use crate::auth::Tenant;
use crate::envelope::{Failure, success};
use crate::request_id::RequestId;
use crate::{Api, auth};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    provenance: Option<String>,
    endpoint: Option<String>,
    status: Option<String>,
    job_type: Option<String>,
    plan: Option<i64>,
    task: Option<i64>,
    run: Option<i64>,
    from: Option<Ts>,
    to: Option<Ts>,
    /// Alias of `from` (POOL-99).
    since: Option<Ts>,
    before_id: Option<i64>,
    limit: Option<u32>,
}

impl Params {
    fn filter(self) -> Result<ViewFilter, Failure> {
        if self.limit.is_some_and(|limit| limit == 0 || limit > ViewFilter::MAX_LIMIT) {
            return Err(Failure::bad_request(format!("limit must be between 1 and {}", ViewFilter::MAX_LIMIT)));
        }
        input::without_nul("provenance", self.provenance.as_deref())?;
        input::without_nul("endpoint", self.endpoint.as_deref())?;
        input::without_nul("status", self.status.as_deref())?;
        input::without_nul("job_type", self.job_type.as_deref())?;
        Ok(ViewFilter {
            project_key: None,
            id: None,
            provenance_code: self.provenance,
            endpoint_name: self.endpoint,
            status: self.status,
            plan: self.plan,
            task: self.task,
            run: self.run,
            public_id: None,
            job_type: self.job_type,
            job: None,
            from: self.from.max(self.since),
            to: self.to,
            before_id: self.before_id,
            limit: self.limit.unwrap_or_default(),
        })
    }
}

pub(super) type QueryParams = Result<Query<Params>, axum::extract::rejection::QueryRejection>;

pub(super) async fn list(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    Extension(tenant): Extension<Tenant>,
    word: PathText,
    params: QueryParams,
) -> Response {
    let view = input::path_text(word).and_then(|word| {
        word.parse::<View>().map_err(|_| {
            let known: Vec<_> = View::ALL.iter().map(|view| view.as_str()).collect();
            Failure::new(
                axum::http::StatusCode::NOT_FOUND,
                patra_core::Code::NotFound,
                format!("there is no view `{word}`"),
            )
            .hint(format!("one of: {}", known.join(", ")))
        })
    });
    match view.and_then(|view| allowed(granted, view).map(|()| view)) {
        Ok(view) => rows(&api, &id, &tenant, view, params).await,
        Err(failure) => failure.respond(&id),
    }
}

pub(super) async fn credentials(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams,
) -> Response {
    match allowed(granted, View::Credentials) {
        Ok(()) => rows(&api, &id, &tenant, View::Credentials, params).await,
        Err(failure) => failure.respond(&id),
    }
}

/// Keys, credentials and exports are for administrators only.
pub(crate) fn allowed(granted: KeyScope, view: View) -> Result<(), Failure> {
    match view {
        View::Keys | View::Credentials | View::CredentialStates | View::Exports => {
            auth::require(granted, KeyScope::Admin)
        }
        _ => Ok(()),
    }
}

pub(super) async fn rows(api: &Api, id: &RequestId, tenant: &Tenant, view: View, params: QueryParams) -> Response {
    let page = async { query(api, tenant, view, filter(params)?).await };
    respond(id, view, page.await)
}

pub(super) fn filter(params: QueryParams) -> Result<ViewFilter, Failure> {
    let Query(params) = params.map_err(|error| Failure::bad_request(error.body_text()))?;
    params.filter()
}

pub(super) fn respond(id: &RequestId, view: View, page: Result<Page, Failure>) -> Response {
    let page = page.and_then(|(rows, next)| {
        let items: Vec<_> = rows.iter().map(|row| view.to_json_text(row)).collect();
        Ok((raw(&items)?, next))
    });
    match page {
        Ok((data, next)) => success(id, &data, json!({ "next_before_id": next })),
        Err(failure) => failure.respond(id),
    }
}

/// Rows, and the id to continue before.
pub(crate) type Page = (Vec<ViewRow>, Option<i64>);

/// The rows that are visible to a tenant.
pub(crate) async fn query(api: &Api, tenant: &Tenant, view: View, filter: ViewFilter) -> Result<Page, Failure> {
    let store = tenant.store(api);
    let mut filter = store.bound(view, filter)?;
    if let Some(status) = &filter.status {
        filter.status = Some(view.status(status).map_err(|error| Failure::bad_request(error.to_string()))?);
    }
    view.conditions(&filter).map_err(|error| Failure::bad_request(error.to_string()))?;
    let limit = filter.effective_limit() as usize;
    let rows = store.list(view, filter).await?;
    let next =
        rows.last().filter(|_| rows.len() == limit).and_then(|row| view.cell(row, "id")).and_then(|id| id.as_int());
    Ok((rows, next))
}

/// Rows are sent as their stored JSON text: parsing it would round numbers and reorder members.
fn raw(items: &[String]) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(format!("{{\"items\":[{}]}}", items.join(","))).map_err(|error| {
        Failure::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, patra_core::Code::InternalError, error.to_string())
    })
}

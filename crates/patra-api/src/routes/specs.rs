//! Compiled specs, the dictionary, and the JSON Schema of manifests.

use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::state::Operation;
use patra_engine::registry::{self, Overrides};

use super::input;
use crate::Api;
use crate::auth::Tenant;
use crate::envelope::{Failure, success};
use crate::request_id::RequestId;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    operation: Option<String>,
    /// Return every value and the layer that set it, instead of the snapshot.
    #[serde(default)]
    explain: bool,
    /// Overrides of settings: `path=value`, separated by commas.
    set: Option<String>,
}

pub(super) async fn show(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    path: Result<Path<(String, String)>, PathRejection>,
    params: Result<Query<Params>, QueryRejection>,
) -> Response {
    match read(&api, &tenant, path, params).await {
        Ok((data, meta)) => success(&id, &data, meta),
        Err(failure) => failure.respond(&id),
    }
}

async fn read(
    api: &Api,
    tenant: &Tenant,
    path: Result<Path<(String, String)>, PathRejection>,
    params: Result<Query<Params>, QueryRejection>,
) -> Result<(Value, Value), Failure> {
    let Path((provenance, endpoint)) =
        path.map_err(|error| Failure { status: error.status(), ..Failure::bad_request(error.body_text()) })?;
    input::without_nul("the path", Some(&provenance))?;
    input::without_nul("the path", Some(&endpoint))?;
    let Query(params) = params.map_err(|error| Failure::bad_request(error.body_text()))?;
    let operation = params.operation.map_or(Ok(Operation::Harvest), |word| input::operation(&word))?;
    let pairs = params.set.iter().flat_map(|set| set.split(',')).map(str::trim).filter(|pair| !pair.is_empty());
    let overrides = Overrides::parse(pairs).map_err(registry::Error::from)?;
    let request = registry::SpecRequest {
        project: tenant.sight()?,
        provenance: &provenance,
        endpoint: &endpoint,
        operation,
        overrides: &overrides,
    };
    if params.explain {
        let values = registry::explain(&*api.store, &request).await?;
        let values: Vec<_> = values
            .iter()
            .map(|value| json!({ "path": value.path, "value": value.value, "layer": value.layer.to_string() }))
            .collect();
        return Ok((json!({ "values": values }), json!({})));
    }
    let compiled = registry::spec(&*api.store, &request).await?;
    let meta = json!({ "version": compiled.labels.version, "warnings": compiled.warnings });
    Ok((serde_json::to_value(&compiled.snapshot).unwrap_or_default(), meta))
}

pub(super) async fn dictionary(State(api): State<Api>, Extension(id): Extension<RequestId>) -> Response {
    match api.store.dictionary().await {
        Ok(types) => success(&id, &json!({ "types": types }), json!({})),
        Err(error) => Failure::from(error).respond(&id),
    }
}

/// Returns the schema without an envelope, for editors.
pub(super) async fn schema() -> Response {
    ([(CONTENT_TYPE, "application/schema+json")], registry::schema()).into_response()
}

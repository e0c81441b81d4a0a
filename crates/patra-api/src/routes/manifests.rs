//! Manifests: the equivalents of `patra apply` and `patra get manifest`, and removal.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::Code;
use patra_core::port::query::View;
use patra_core::tx::{KeyScope, ProvenanceApplied};
use patra_engine::registry::{self, ApplyOutcome, Problem};

use super::input::{self, PathText, says};
use super::views::{self, QueryParams};
use crate::auth::Tenant;
use crate::envelope::{Failure, success};
use crate::request_id::RequestId;
use crate::{Api, auth};

/// Media types of YAML.
const YAML: &[&str] = &["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];

pub(super) async fn list(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams,
) -> Response {
    views::rows(&api, &id, &tenant, View::Provenances, params).await
}

/// Returns YAML if the client accepts it, otherwise the document in the envelope.
pub(super) async fn show(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    headers: HeaderMap,
    code: PathText,
) -> Response {
    match export(&api, &tenant, code).await {
        Ok(manifest) if says(&headers, ACCEPT, YAML) => {
            ([(CONTENT_TYPE, YAML[0])], registry::to_yaml(&manifest)).into_response()
        }
        Ok(manifest) => success(&id, &manifest.to_document(), json!({ "version": manifest.version() })),
        Err(failure) => failure.respond(&id),
    }
}

async fn export(api: &Api, tenant: &Tenant, code: PathText) -> Result<registry::Manifest, Failure> {
    Ok(registry::manifest(&*api.store, tenant.sight()?, &input::path_text(code)?).await?)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    /// Report the changes without making them.
    #[serde(default)]
    dry_run: bool,
}

pub(super) async fn apply(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    Extension(tenant): Extension<Tenant>,
    params: Result<Query<Params>, QueryRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    match put(&api, granted, &tenant, params, &headers, body).await {
        Ok((data, created)) => {
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            (status, success(&id, &data, json!({}))).into_response()
        }
        Err(failure) => failure.respond(&id),
    }
}

/// The result, and whether a provenance was created.
async fn put(
    api: &Api,
    granted: KeyScope,
    tenant: &Tenant,
    params: Result<Query<Params>, QueryRejection>,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<(Value, bool), Failure> {
    auth::require(granted, KeyScope::Admin)?;
    let Query(Params { dry_run }) = params.map_err(|error| Failure::bad_request(error.body_text()))?;
    if !says(headers, CONTENT_TYPE, YAML) && !says(headers, CONTENT_TYPE, &["application/json"]) {
        let message = "a manifest comes as YAML or JSON";
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidInput, message)
            .hint("send `Content-Type: application/yaml` or `application/json`"));
    }
    let body = body.map_err(|error| Failure { status: error.status(), ..Failure::bad_request(error.body_text()) })?;
    let text = std::str::from_utf8(&body).map_err(|_| Failure::bad_request("the manifest is not UTF-8"))?;
    let checked = registry::check("", text).map_err(unsound)?;
    let manifest = &checked.manifest;
    if manifest.names_networks() {
        tenant.is_operator()?;
    }
    let ApplyOutcome { result, changes, effects } = match dry_run {
        true => registry::preview(&*api.store, manifest).await?,
        false => registry::apply(&*api.store, manifest).await?,
    };
    let changes: Vec<_> = changes
        .into_iter()
        .map(|change| json!({ "path": change.path, "before": change.before, "after": change.after }))
        .collect();
    let data = json!({
        "provenance": manifest.provenance,
        "result": registry::word(result),
        "dry_run": dry_run,
        "changes": changes,
        "effects": effects,
        "warnings": checked.warnings,
    });
    Ok((data, result == ProvenanceApplied::Created && !dry_run))
}

pub(super) async fn remove(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    code: PathText,
) -> Response {
    let removed = async {
        auth::require(granted, KeyScope::Admin)?;
        let code = input::path_text(code)?;
        registry::remove(&*api.store, &code).await?;
        Ok::<_, Failure>(code)
    };
    match removed.await {
        Ok(code) => success(&id, &json!({ "provenance": code, "result": "removed" }), json!({})),
        Err(failure) => failure.respond(&id),
    }
}

/// All problems of a manifest in one response.
pub(crate) fn unsound(problems: Vec<Problem>) -> Failure {
    let message = match problems.as_slice() {
        [one] => one.message.clone(),
        several => format!("{} problems", several.len()),
    };
    let problems = problems.into_iter().map(|problem| {
        // An override has the name of its option; in a body it is a member of `overrides`.
        let path = problem.path.replace("--set ", "overrides.").replace("--set", "overrides");
        json!({
            "line": problem.line,
            "column": problem.column,
            "path": path,
            "message": problem.message,
            "hint": problem.hint,
        })
    });
    let failure = Failure::new(StatusCode::UNPROCESSABLE_ENTITY, Code::ConfigError, message);
    Failure { problems: problems.collect(), ..failure }
}

impl From<registry::Error> for Failure {
    fn from(error: registry::Error) -> Failure {
        match error {
            registry::Error::Store(error) => error.into(),
            registry::Error::NotFound(message, hint) => {
                Failure::new(StatusCode::NOT_FOUND, Code::NotFound, message).hint(hint)
            }
            registry::Error::Problems(problems) => unsound(problems),
        }
    }
}

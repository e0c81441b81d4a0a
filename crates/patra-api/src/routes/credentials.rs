//! Credentials: the equivalents of `patra credential add`, `rotate` and `revoke`. Secrets can be stored but never read,
//! and error messages do not repeat them.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;

use patra_core::Code;
use patra_core::secret::{Secret, Secrets};
use patra_core::state::AuthType;
use patra_core::tx::KeyScope;
use patra_engine::admin::{self, CredentialName, SavedCredential};

use super::input::{self, Given, PathText};
use crate::envelope::{Failure, success};
use crate::request_id::RequestId;
use crate::{Api, auth};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCredential {
    alias: String,
    provenance: Option<String>,
    endpoint: Option<String>,
    /// Required for a new credential; a new version keeps the type of the last one.
    r#type: Option<String>,
    priority: Option<i32>,
    /// Named values, or a single one.
    secrets: Option<Secrets>,
    secret: Option<Secret>,
    /// Whether to add a version to an existing credential.
    #[serde(default)]
    rotate: bool,
    #[serde(default)]
    revoke_old: bool,
}

pub(super) async fn create(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    body: Given<NewCredential>,
) -> Response {
    match save(&api, granted, body).await {
        Ok((alias, saved)) => {
            tracing::info!(
                request.id = id.as_str(),
                credential.id = saved.id.0,
                credential.alias = alias,
                version = saved.version,
                "audit: a credential was put in"
            );
            let kind = saved.auth_type.as_str();
            let data = json!({ "id": saved.id, "alias": alias, "version": saved.version, "type": kind });
            (StatusCode::CREATED, success(&id, &data, json!({}))).into_response()
        }
        Err(failure) => failure.respond(&id),
    }
}

async fn save(api: &Api, granted: KeyScope, body: Given<NewCredential>) -> Result<(String, SavedCredential), Failure> {
    auth::require(granted, KeyScope::Admin)?;
    // Messages of the JSON parser quote the value.
    let new = body.read().map_err(|_| {
        Failure::bad_request("the body is not a credential: expected an object with alias, type and secrets or secret")
    })?;
    let named = CredentialName { alias: new.alias, provenance: new.provenance, endpoint: new.endpoint };
    let vault = api.vault.get_or_make(|| (api.make_vault)()).map_err(|message| {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::NotConfigured, message)
            .hint("start the server with PATRA_MASTER_KEY; `openssl rand -base64 32` makes one")
    })?;
    let kind = match (&new.r#type, new.rotate) {
        (Some(word), _) => Some(word.to_uppercase().parse::<AuthType>().map_err(|_| {
            let known: Vec<_> = AuthType::ALL.iter().map(|kind| kind.as_str()).collect();
            Failure::bad_request(format!("type must be one of: {}", known.join(", ")))
        })?),
        (None, true) => admin::find(&*api.store, &named).await?.last().map(|one| one.auth_type),
        (None, false) => None,
    };
    let kind = kind.ok_or_else(|| Failure::bad_request("type is missing"))?;
    let secrets = match (new.secrets, new.secret) {
        (Some(secrets), None) => secrets,
        (None, Some(secret)) => admin::single(kind, secret)?,
        _ => return Err(Failure::bad_request("either secrets, an object, or secret, a text, is needed")),
    };
    let saved = match new.rotate {
        true => admin::rotate(&*api.store, &vault, &named, secrets, new.revoke_old).await?,
        false => admin::add(&*api.store, &vault, &named, kind, new.priority, secrets).await?,
    };
    Ok((named.alias, saved))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    provenance: Option<String>,
    endpoint: Option<String>,
    version: Option<i64>,
}

pub(super) async fn revoke(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    alias: PathText,
    params: Result<Query<Params>, QueryRejection>,
) -> Response {
    let revoked = async {
        auth::require(granted, KeyScope::Admin)?;
        let Query(Params { provenance, endpoint, version }) =
            params.map_err(|error| Failure::bad_request(error.body_text()))?;
        let named = CredentialName { alias: input::path_text(alias)?, provenance, endpoint };
        for text in [&named.provenance, &named.endpoint] {
            input::without_nul("provenance and endpoint", text.as_deref())?;
        }
        let revoked = admin::revoke(&*api.store, &named, version).await?;
        Ok::<_, Failure>((named.alias, revoked))
    };
    match revoked.await {
        Ok((alias, revoked)) => {
            tracing::info!(
                request.id = id.as_str(),
                credential.alias = alias,
                versions = revoked,
                "audit: a credential was revoked"
            );
            success(&id, &json!({ "alias": alias, "revoked": revoked }), json!({}))
        }
        Err(failure) => failure.respond(&id),
    }
}

impl From<admin::Error> for Failure {
    fn from(error: admin::Error) -> Failure {
        let message = error.to_string();
        match error {
            admin::Error::Invalid(_) => Failure::bad_request(message),
            admin::Error::Ambiguous { .. } => {
                Failure::bad_request(message).hint("name one with provenance and endpoint")
            }
            admin::Error::Exists(_) => Failure::new(StatusCode::CONFLICT, Code::TaskConflict, message)
                .hint("\"rotate\": true puts in a new version"),
            admin::Error::NotFound(_) => Failure::new(StatusCode::NOT_FOUND, Code::NotFound, message),
            admin::Error::Seal(_) => Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::NotConfigured, message),
            admin::Error::Store(error) => error.into(),
        }
    }
}

//! Projects and their documents.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::hash::content_hash;
use patra_core::port::CommandsExt as _;
use patra_core::project;
use patra_core::tx::{CreateProject, KeyScope, PutDocument};

use super::input::{Given, without_nul};
use super::pool::{invalid, respond, words};
use crate::Api;
use crate::auth::{self, Tenant};
use crate::envelope::Failure;
use crate::request_id::RequestId;

/// Most bytes of a document's address.
const MAX_URI: usize = 1_024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentBody {
    project_key: Option<String>,
    uri: String,
    title: Option<String>,
    #[serde(default = "document")]
    doc_type: String,
    state: Option<String>,
    #[serde(default)]
    content: String,
    #[serde(default)]
    extracted_data: Value,
}

fn document() -> String {
    "document".to_owned()
}

pub(super) async fn put_document(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Given<DocumentBody>,
) -> Response {
    let done = async {
        let DocumentBody { project_key, uri, title, doc_type, state, content, extracted_data } = given.read()?;
        if uri.trim().is_empty() || uri.len() > MAX_URI {
            return Err(invalid("uri", uri.len(), format!("uri must have 1 to {MAX_URI} bytes")));
        }
        words("doc_type", std::slice::from_ref(&doc_type))?;
        words("state", state.as_slice())?;
        let fields = json!({
            "uri": uri, "title": title, "doc_type": doc_type, "state": state, "content": content,
            "extracted_data": extracted_data,
        })
        .to_string();
        // PostgreSQL cannot store NUL, so it is refused on both databases.
        if fields.contains("\\u0000") {
            return Err(Failure::bad_request("the document holds the character NUL"));
        }
        let project_key = match (tenant.sight()?, project_key) {
            (None, None) => project::DEFAULT.to_owned(),
            (Some(key), None) => key.to_owned(),
            (_, given) => tenant.named(&api, given.as_deref()).await?,
        };
        let put = PutDocument {
            project_key,
            uri,
            content_hash: content_hash(fields.as_bytes()),
            payload: fields.clone(),
            fields,
        };
        let put = api.store.run(Arc::new(put)).await?;
        let status = if put.created { StatusCode::CREATED } else { StatusCode::OK };
        let data = json!({ "document_id": put.id, "created": put.created, "changed": put.changed });
        Ok((status, data, json!({})))
    };
    respond(&id, done.await)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProjectBody {
    project_key: String,
    name: Option<String>,
}

pub(super) async fn projects(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
) -> Response {
    let done = async {
        let mut projects = api.store.projects().await?;
        projects.retain(|project| tenant.is_for(&project.project_key));
        let items = projects.iter().map(|project| {
            json!({ "project_key": project.project_key, "name": project.name, "created_at": project.created_at })
        });
        Ok((StatusCode::OK, json!({ "items": items.collect::<Vec<_>>() }), json!({})))
    };
    respond(&id, done.await)
}

pub(super) async fn create_project(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    given: Given<ProjectBody>,
) -> Response {
    let done = async {
        auth::require(granted, KeyScope::Admin)?;
        let ProjectBody { project_key, name } = given.read()?;
        project::check(&project_key).map_err(|problem| invalid("project_key", project_key.as_str(), problem))?;
        let name = name.unwrap_or_else(|| project_key.clone());
        without_nul("name", Some(&name))?;
        let made = api.store.run(CreateProject { project_key: project_key.clone(), name }).await?;
        let status = if made.existed { StatusCode::OK } else { StatusCode::CREATED };
        Ok((status, json!({ "project_key": project_key, "existed": made.existed }), json!({})))
    };
    respond(&id, done.await)
}

//! Authentication and tenancy: which key calls, for which project, and what it may do.

mod failures;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::Value;

use patra_core::Code;
use patra_core::port::query::{StoredApiKey, View};
use patra_core::project;
use patra_core::tx::KeyScope;

use crate::Api;
use crate::connection::Peer;
use crate::envelope::Failure;
use crate::key;
use crate::openapi::Operation;
use crate::request_id::RequestId;

pub(crate) use failures::AuthFailures;

/// Header that names the project of a request; the query parameter does the same.
pub(crate) const PROJECT_HEADER: &str = "x-project-key";
const PROJECT_QUERY: &str = "project_key";

/// Public part of the caller's key, for the record. An extension of the request, like the scope.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) String);

/// The project of a request, and the projects that its key may see. An extension of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenant {
    /// Project named by header or query.
    requested: Option<String>,
    /// Projects that the key is bound to; empty for all.
    bound: Vec<String>,
    /// Whether the key may write data that all projects share.
    shares: bool,
    /// Whether there is no key: only public rows are visible.
    anonymous: bool,
}

impl Tenant {
    /// The tenant of a caller without a key, where public reading is allowed.
    fn anonymous() -> Tenant {
        Tenant { anonymous: true, ..Tenant::default() }
    }

    /// Whether only public rows are visible. Every route that can be read without a key must filter by it.
    pub(crate) fn sees_public_only(&self) -> bool {
        self.anonymous
    }

    /// Project to filter lists by; `None` for all projects.
    pub(crate) fn sight(&self) -> Result<Option<&str>, Failure> {
        match (&self.requested, &self.bound[..]) {
            (Some(requested), _) => Ok(Some(requested)),
            (None, []) => Ok(None),
            (None, [one]) => Ok(Some(one)),
            (None, _) => Err(Failure::bad_request("this key is for several projects, and the request names none")
                .hint("name one with the header X-Project-Key")
                .detail("field", PROJECT_QUERY.into())),
        }
    }

    /// Whether the request is for one project, not for all of them.
    pub(crate) fn is_project(&self) -> bool {
        self.requested.is_some() || !self.bound.is_empty()
    }

    /// The selected project, for display.
    pub(crate) fn shown(&self) -> Option<&str> {
        self.requested.as_deref()
    }

    /// The project to act in; `default` when none is named.
    pub(crate) fn project(&self) -> Result<&str, Failure> {
        Ok(self.sight()?.unwrap_or(project::DEFAULT))
    }

    /// The project of a request that must name one (POOL-16); the body may name it too.
    pub(crate) async fn named(&self, api: &Api, in_body: Option<&str>) -> Result<String, Failure> {
        let field = |failure: Failure| failure.detail("field", PROJECT_QUERY.into());
        match (&self.requested, in_body) {
            (Some(requested), Some(body)) if requested != body => Err(field(Failure::bad_request(format!(
                "the request names two projects: {requested:?}, and {body:?} in the body"
            )))),
            (Some(requested), _) => Ok(requested.clone()),
            (None, Some(body)) => {
                self.admit(api, body).await?;
                Ok(body.to_owned())
            }
            (None, None) => Err(unnamed()),
        }
    }

    /// The one project to read: the named one, or the only one that the key is bound to.
    pub(crate) fn one(&self) -> Result<String, Failure> {
        self.sight()?.map(str::to_owned).ok_or_else(unnamed)
    }

    /// Refuses keys that are bound to projects, for data that belongs to no project.
    pub(crate) fn is_operator(&self) -> Result<(), Failure> {
        if self.bound.is_empty() {
            return Ok(());
        }
        let message = "this needs a key for all projects, and this one is bound to some";
        Err(Failure::new(StatusCode::FORBIDDEN, Code::Forbidden, message))
    }

    /// Only an administrator may let a source into private networks, or change a source that may reach them.
    pub(crate) fn may_name_networks(&self, granted: KeyScope, config: &Value) -> Result<(), Failure> {
        if patra_engine::sources::names_networks(config) {
            require(granted, KeyScope::Admin)?;
            self.is_operator()?;
        }
        Ok(())
    }

    /// Whether the key may give a source this config instead of the one before.
    pub(crate) fn may_change_networks(
        &self,
        granted: KeyScope,
        before: &str,
        after: Option<&Value>,
    ) -> Result<(), Failure> {
        let Some(after) = after else { return Ok(()) };
        self.may_name_networks(granted, &serde_json::from_str(before).unwrap_or_default())?;
        self.may_name_networks(granted, after)
    }

    /// Whether the key may access this project.
    pub(crate) fn is_for(&self, key: &str) -> bool {
        self.bound.is_empty() || self.bound.iter().any(|bound| bound == key)
    }

    /// Whether rows of this project are visible to the request.
    pub(crate) fn is_seen(&self, key: &str) -> bool {
        self.requested.as_ref().is_none_or(|requested| requested == key) && self.is_for(key)
    }

    /// Checks that the key may access the project and that the project exists. A key learns nothing about other
    /// projects.
    pub(crate) async fn admit(&self, api: &Api, key: &str) -> Result<(), Failure> {
        if !self.is_for(key) {
            let message = format!("this key is not for the project {key:?}");
            return Err(Failure::new(StatusCode::FORBIDDEN, Code::Forbidden, message));
        }
        project::check(key).map_err(|problem| Failure::bad_request(problem).detail("field", PROJECT_QUERY.into()))?;
        let known = key == project::DEFAULT || api.store.projects().await?.iter().any(|known| known.project_key == key);
        if known {
            return Ok(());
        }
        let message = format!("there is no project {key:?}");
        Err(Failure::new(StatusCode::NOT_FOUND, Code::NotFound, message).hint("`patra project create` makes one"))
    }

    /// Checks that the key may write data that all projects share (POOL-18).
    pub(crate) fn may_share(&self, granted: KeyScope) -> Result<(), Failure> {
        if self.shares || granted == KeyScope::Admin && self.bound.is_empty() {
            return Ok(());
        }
        let message = "this key may not write into the shared library";
        Err(Failure::new(StatusCode::FORBIDDEN, Code::Forbidden, message)
            .hint("`patra key create --shared` makes one that may"))
    }

    /// Whether a row is visible to this tenant. Rows of other projects look as if they did not exist.
    pub(crate) async fn sees(&self, api: &Api, view: View, id: i64) -> Result<bool, Failure> {
        self.store(api).sees(view, id).await
    }
}

fn unnamed() -> Failure {
    Failure::bad_request("the request names no project")
        .hint("use the header X-Project-Key, or project_key in the query or the body")
        .detail("field", PROJECT_QUERY.into())
}

/// Authenticates a request. GET and HEAD need the scope `read`, other methods need `write`.
pub(crate) async fn layer(
    State(api): State<Api>,
    Extension(public): Extension<PublicPaths>,
    mut request: Request,
    next: Next,
) -> Response {
    let needed = if matches!(*request.method(), Method::GET | Method::HEAD) { KeyScope::Read } else { KeyScope::Write };
    let header = request.headers().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let admitted = match check(&api, header.as_deref(), needed).await {
        Ok(known) => {
            if let Some(peer) = request.extensions().get::<Peer>() {
                peer.set_known();
            }
            known.tenant(&api, &mut request).await
        }
        Err(_) if header.is_none() && api.public_read && public.admits(&request) => {
            request.extensions_mut().insert(Tenant::anonymous());
            Ok(())
        }
        Err(failure) if failure.status == StatusCode::UNAUTHORIZED => {
            let attempt = ("key", request.uri().path());
            Err(api.limits.auth_failures.refuse(&api.metrics, request.extensions(), attempt, failure).await)
        }
        Err(failure) => Err(failure),
    };
    match (admitted, request.extensions().get::<RequestId>()) {
        (Ok(()), _) => next.run(request).await,
        (Err(failure), Some(id)) => failure.respond_at(request.uri().path(), id),
        (Err(_), None) => Response::default(),
    }
}

/// Refuses keys that are bound to projects, on routes that belong to no project.
pub(crate) async fn operators(request: Request, next: Next) -> Response {
    let (tenant, id) = (request.extensions().get::<Tenant>(), request.extensions().get::<RequestId>());
    match (tenant, id) {
        (Some(tenant), Some(id)) => match tenant.is_operator() {
            Ok(()) => next.run(request).await,
            Err(failure) => failure.respond_at(request.uri().path(), id),
        },
        _ => next.run(request).await,
    }
}

/// Paths of the operations that can be read without a key if public reading is on. An extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct PublicPaths(Arc<[&'static str]>);

impl PublicPaths {
    pub(crate) fn of(operations: &[Operation]) -> PublicPaths {
        PublicPaths(operations.iter().filter(|operation| operation.public).map(|operation| operation.path).collect())
    }

    fn admits(&self, request: &Request) -> bool {
        let path = request.extensions().get::<MatchedPath>();
        *request.method() == Method::GET && path.is_some_and(|path| self.0.contains(&path.as_str()))
    }
}

/// A stored key that is valid.
pub(crate) struct Known {
    pub(crate) scope: KeyScope,
    pub(crate) caller: Caller,
    bound: Vec<String>,
    shares: bool,
}

impl Known {
    /// Finds a key by its full text.
    pub(crate) async fn by_text(api: &Api, text: &str) -> Result<Known, Failure> {
        // The response is the same for every kind of wrong key, so that it does not help guessing.
        let stored = api.store.key(key::prefix(text).ok_or_else(invalid)?).await?.ok_or_else(invalid)?;
        if stored.revoked || !key::matches(text, &stored.hash) {
            return Err(invalid());
        }
        Ok(Known::of(stored))
    }

    /// Finds a key by its public part, for a session that has shown the full text. Revoked keys are refused.
    pub(crate) async fn by_prefix(api: &Api, prefix: &str) -> Result<Known, Failure> {
        let stored = api.store.key(prefix).await?.filter(|stored| !stored.revoked);
        stored.map(Known::of).ok_or_else(invalid)
    }

    fn of(stored: StoredApiKey) -> Known {
        Known { scope: stored.scope, caller: Caller(stored.prefix), bound: stored.projects, shares: stored.shared }
    }

    /// Keys of the projects that the key may access.
    pub(crate) async fn projects(&self, api: &Api) -> Result<Vec<String>, Failure> {
        let mut known: Vec<_> = api.store.projects().await?.into_iter().map(|project| project.project_key).collect();
        known.push(project::DEFAULT.to_owned());
        known.sort();
        known.dedup();
        known.retain(|key| self.bound.is_empty() || self.bound.contains(key));
        Ok(known)
    }

    /// Whether the key is limited to some projects.
    pub(crate) fn is_bound(&self) -> bool {
        !self.bound.is_empty()
    }

    /// The tenant for one project or, without one, for all that the key may access.
    pub(crate) async fn tenant_of(&self, api: &Api, requested: Option<String>) -> Result<Tenant, Failure> {
        let tenant = Tenant { requested, bound: self.bound.clone(), shares: self.shares, anonymous: false };
        if let Some(key) = &tenant.requested {
            tenant.admit(api, key).await?;
        }
        Ok(tenant)
    }

    /// Adds the scope, the caller and the tenant to the extensions of the request.
    async fn tenant(self, api: &Api, request: &mut Request) -> Result<(), Failure> {
        let tenant = self.tenant_of(api, requested_project(request.headers(), request.uri())?).await?;
        if tenant.requested.is_some() {
            // Routes refuse unknown parameters.
            *request.uri_mut() = without_project(request.uri());
        }
        let extensions = request.extensions_mut();
        extensions.insert(self.scope);
        extensions.insert(self.caller);
        extensions.insert(tenant);
        Ok(())
    }
}

/// The project that the header and the query name. Two different ones are a mistake (POOL-16).
fn requested_project(headers: &HeaderMap, uri: &Uri) -> Result<Option<String>, Failure> {
    let wrong = |message: &str| Failure::bad_request(message).detail("field", PROJECT_QUERY.into());
    let mut named = Vec::new();
    for value in headers.get_all(PROJECT_HEADER) {
        let text = value.to_str().map_err(|_| wrong("X-Project-Key is not text"))?;
        named.push(text.trim().to_owned());
    }
    named.extend(pairs(uri).filter(|(name, _)| name == PROJECT_QUERY).map(|(_, value)| value));
    match named.split_first() {
        None => Ok(None),
        Some((first, rest)) if rest.iter().all(|other| other == first) => Ok(Some(first.clone())),
        Some((first, rest)) => {
            let other = rest.iter().find(|other| *other != first).unwrap_or(first);
            Err(wrong(&format!("the request names two projects: {first:?} and {other:?}")))
        }
    }
}

fn pairs(uri: &Uri) -> impl Iterator<Item = (String, String)> {
    let query = uri.query().unwrap_or_default().to_owned();
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    pairs.into_iter()
}

fn without_project(uri: &Uri) -> Uri {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs(uri).filter(|(name, _)| name != PROJECT_QUERY));
    let query = query.finish();
    let path = if query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) };
    path.parse().unwrap_or_else(|_| uri.clone())
}

async fn check(api: &Api, header: Option<&str>, needed: KeyScope) -> Result<Known, Failure> {
    let text = header
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, text)| text.trim())
        .ok_or_else(|| refused("an API key is needed"))?;
    let known = Known::by_text(api, text).await?;
    require(known.scope, needed)?;
    Ok(known)
}

fn invalid() -> Failure {
    refused("the API key is not valid")
}

fn refused(message: &str) -> Failure {
    Failure::new(StatusCode::UNAUTHORIZED, Code::Unauthorized, message)
        .hint("send `Authorization: Bearer <key>`; `patra key create` makes one")
}

/// Refuses a key without the needed scope. The scope of the caller's key is an extension of the request.
pub(crate) fn require(granted: KeyScope, needed: KeyScope) -> Result<(), Failure> {
    if granted >= needed {
        return Ok(());
    }
    let message = format!("this key may {}, and `{}` is needed", granted.as_str(), needed.as_str());
    Err(Failure::new(StatusCode::FORBIDDEN, Code::Forbidden, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_project<'a>(header: impl IntoIterator<Item = &'a str>, uri: &str) -> Result<Option<String>, StatusCode> {
        let mut headers = HeaderMap::new();
        for value in header {
            headers.append(PROJECT_HEADER, value.parse().unwrap());
        }
        requested_project(&headers, &uri.parse().unwrap()).map_err(|failure| failure.status)
    }

    // covers: POOL-16, POOL-AC-12
    #[test]
    fn project_is_named_by_header_or_query_without_conflict() {
        assert_eq!(named_project(None, "/a"), Ok(None));
        assert_eq!(named_project(Some(" p "), "/a"), Ok(Some("p".into())));
        assert_eq!(named_project(None, "/a?x=1&project_key=p%2D1"), Ok(Some("p-1".into())));
        assert_eq!(named_project(Some("p"), "/a?project_key=p"), Ok(Some("p".into())));
        assert_eq!(named_project(Some("p"), "/a?project_key=q"), Err(StatusCode::BAD_REQUEST));
        assert_eq!(named_project(None, "/a?project_key=p&project_key=q"), Err(StatusCode::BAD_REQUEST));
        assert_eq!(named_project(["p", "q"], "/a"), Err(StatusCode::BAD_REQUEST));
        assert_eq!(named_project(["p", "p"], "/a"), Ok(Some("p".into())));
    }

    #[test]
    fn project_parameter_is_removed_from_the_query() {
        let left = |uri: &str| without_project(&uri.parse().unwrap()).to_string();
        assert_eq!(left("/a?project_key=p"), "/a");
        assert_eq!(left("/a?x=1%20b&project_key=p&y="), "/a?x=1+b&y=");
    }
}

//! Context of one request of a logged-in user: rights, form and rendering. Every handler requires a session, and every
//! handler that changes data requires the token of the session.

use std::sync::Arc;

use askama::Template as _;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use url::form_urlencoded;

use patra_core::Code;
use patra_core::tx::KeyScope;

use super::page::{Entry, Framed, Link, Note, Page, Tone};
use super::session::{Session, Sessions};
use super::{assets, login};
use crate::Api;
use crate::auth::{self, Caller, Known, Tenant};
use crate::connection::Peer;
use crate::envelope::Failure;
use crate::project_store::ProjectStore;

/// Most bytes of a form; a manifest fits.
pub(super) const MAX_FORM: usize = 1 << 20;
/// Label of the choice for all projects.
pub(super) const ALL_PROJECTS: &str = "all projects";

/// State that all pages share.
#[derive(Clone, Debug)]
pub(super) struct ConsoleState {
    pub(super) api: Api,
    pub(super) sessions: Sessions,
}

/// Fields of a form or a query.
#[derive(Clone, Debug, Default)]
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    fn read(bytes: &[u8]) -> FormFields {
        FormFields(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// A trimmed value; `None` if it is missing or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(super) fn is_ticked(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, Failure> {
        let wrong = |_| Failure::bad_request(format!("{name} must be a number"));
        self.get(name).map(|text| text.parse().map_err(wrong)).transpose()
    }
}

/// A request of a logged-in user. An extension of the request.
#[derive(Clone, Debug)]
pub(super) struct ConsoleContext {
    pub(super) api: Api,
    pub(super) scope: KeyScope,
    pub(super) caller: Caller,
    pub(super) tenant: Tenant,
    pub(super) query: FormFields,
    pub(super) form: FormFields,
    pub(super) path: String,
    projects: Arc<[String]>,
    sessions: Sessions,
    session: Session,
    session_id: String,
}

/// Result of an action: a notice, and the page to show next.
pub(super) type Done = Result<(Note, String), Failure>;

/// Actions on the user's own session, which every key may do.
const OWN: &[&str] = &["/logout", "/project"];

pub(super) async fn layer(State(state): State<ConsoleState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().cloned();
    let changes = !matches!(parts.method, Method::GET | Method::HEAD);
    let Some((session_id, session)) = state.sessions.of(&parts.headers, state.api.clock.now()) else {
        // A form is not sent again after the login, so the login leads to the overview.
        return login::first(if changes { "/" } else { parts.uri.path_and_query().map_or("/", |at| at.as_str()) });
    };
    let Ok(bytes) = to_bytes(body, MAX_FORM).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let ctx = match ConsoleContext::new(&state, session_id.clone(), session, &parts, &bytes).await {
        Ok(ctx) => ctx,
        Err(failure) if failure.status == StatusCode::UNAUTHORIZED => {
            state.sessions.end(&session_id);
            return login::first("/");
        }
        Err(failure) => return (failure.status, failure.message).into_response(),
    };
    if let Some(peer) = peer {
        peer.set_known();
    }
    if changes && !ctx.session.owns(ctx.form.text("csrf")) {
        let message = "this form is not one of this session";
        let failure = Failure::new(StatusCode::FORBIDDEN, Code::Forbidden, message).hint("load the page again");
        return ctx.show(Err(failure));
    }
    let needed = if changes && !OWN.contains(&parts.uri.path()) { KeyScope::Write } else { KeyScope::Read };
    if let Err(failure) = ctx.may(needed) {
        return ctx.show(Err(failure));
    }
    let mut request = Request::from_parts(parts, Body::empty());
    request.extensions_mut().insert(ctx);
    next.run(request).await
}

impl ConsoleContext {
    /// The store, bound to the projects that the user may see.
    pub(super) fn store(&self) -> ProjectStore<'_> {
        self.tenant.store(&self.api)
    }

    async fn new(
        state: &ConsoleState,
        session_id: String,
        session: Session,
        parts: &Parts,
        form: &[u8],
    ) -> Result<ConsoleContext, Failure> {
        let api = state.api.clone();
        let known = Known::by_prefix(&api, &session.prefix).await?;
        let mut projects = known.projects(&api).await?;
        let project = match (&session.project, projects.contains(session.project.as_ref().unwrap_or(&String::new()))) {
            (Some(project), true) => Some(project.clone()),
            // A key that is bound to projects always shows one of them.
            _ if known.is_bound() => projects.first().cloned(),
            _ => None,
        };
        if !known.is_bound() {
            projects.insert(0, ALL_PROJECTS.to_owned());
        }
        let tenant = known.tenant_of(&api, project).await?;
        Ok(ConsoleContext {
            api,
            scope: known.scope,
            caller: known.caller,
            tenant,
            query: FormFields::read(parts.uri.query().unwrap_or_default().as_bytes()),
            form: FormFields::read(form),
            path: parts.uri.path().to_owned(),
            projects: projects.into(),
            sessions: state.sessions.clone(),
            session,
            session_id,
        })
    }

    /// Refuses a key without this scope.
    pub(super) fn may(&self, needed: KeyScope) -> Result<(), Failure> {
        auth::require(self.scope, needed)
    }

    /// Whether to offer actions that need this scope.
    pub(super) fn is(&self, needed: KeyScope) -> bool {
        self.scope >= needed
    }

    /// Name of the caller, for the record.
    pub(super) fn by(&self) -> String {
        format!("console (key {})", self.caller.0)
    }

    pub(super) fn log_out(&self) {
        self.sessions.end(&self.session_id);
    }

    pub(super) fn look_at(&self, project: &str) -> Result<(), Failure> {
        if !self.projects.iter().any(|known| known == project) {
            return Err(Failure::new(StatusCode::NOT_FOUND, Code::NotFound, "there is no such project"));
        }
        self.sessions.look_at(&self.session_id, Some(project.to_owned()).filter(|key| key != ALL_PROJECTS));
        Ok(())
    }

    /// Renders the page, or the failure.
    pub(super) fn show(&self, page: Result<Page, Failure>) -> Response {
        let (status, page) = match page {
            Ok(page) => (StatusCode::OK, page),
            Err(failure) => {
                let hint = failure.hint.unwrap_or_default();
                let note =
                    Note { hint: Some(hint).filter(|hint| !hint.is_empty()), ..Note::new(Tone::Bad, failure.message) };
                (failure.status, Page::new(title(failure.status)).with(note))
            }
        };
        (status, self.framed(&page)).into_response()
    }

    /// Redirects to the next page, which shows the notice.
    pub(super) fn done(&self, done: Done) -> Response {
        match done {
            Ok((note, to)) => {
                self.sessions.set_notice(&self.session_id, note);
                Redirect::to(&to).into_response()
            }
            Err(failure) => self.show(Err(failure)),
        }
    }

    fn framed(&self, page: &Page) -> Response {
        let framed = Framed {
            page,
            notice: self.sessions.take_notice(&self.session_id),
            csrf: &self.session.csrf,
            menu: self.menu(),
            who: format!("key {} may {}", self.caller.0, self.scope.as_str()),
            project: self.tenant.shown().unwrap_or(ALL_PROJECTS),
            projects: &self.projects,
            searched: if self.path == "/search" { self.query.text("q") } else { "" },
            assets: assets::version(),
        };
        match framed.render() {
            Ok(html) => Html(html).into_response(),
            Err(error) => {
                tracing::error!(error = %error, path = self.path, "a page cannot be rendered");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    fn menu(&self) -> Vec<Entry> {
        let operator = self.tenant.is_operator().is_ok();
        let allowed = |(_, _, needed): &&Offer| match needed {
            Needs::Nothing => true,
            Needs::Operator => operator,
            Needs::Admin => operator && self.is(KeyScope::Admin),
        };
        let here = |href: &str| self.path == href || href != "/" && self.path.starts_with(&format!("{href}/"));
        let entry = |(group, links): &(&'static str, &[Offer])| Entry {
            group,
            links: links.iter().filter(allowed).map(|(word, href, _)| Link { word, href, here: here(href) }).collect(),
        };
        MENU.iter().map(entry).filter(|entry| !entry.links.is_empty()).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Needs {
    Nothing,
    /// A key that is bound to no project.
    Operator,
    Admin,
}

/// Label, address and required rights of a link.
type Offer = (&'static str, &'static str, Needs);

const MENU: &[(&str, &[Offer])] = &[
    (
        "Collecting",
        &[
            ("Overview", "/", Needs::Nothing),
            ("Sources", "/sources", Needs::Nothing),
            ("Jobs", "/jobs", Needs::Nothing),
            ("Plans", "/plans", Needs::Nothing),
            ("Tasks", "/tasks", Needs::Nothing),
            ("Runs", "/runs", Needs::Nothing),
            ("Batches", "/batches", Needs::Nothing),
        ],
    ),
    (
        "Data",
        &[
            ("Items", "/items", Needs::Nothing),
            ("Cursors", "/cursors", Needs::Nothing),
            ("Quarantine", "/quarantine", Needs::Nothing),
            ("URL pool", "/pool", Needs::Nothing),
        ],
    ),
    (
        "Limits",
        &[
            ("Gates", "/gates", Needs::Nothing),
            ("Pauses", "/holds", Needs::Operator),
            ("Alerts", "/alerts", Needs::Operator),
        ],
    ),
    (
        "Administration",
        &[
            ("Endpoints", "/endpoints", Needs::Operator),
            ("Credentials", "/credentials", Needs::Admin),
            ("Keys", "/keys", Needs::Admin),
            ("Settings", "/settings", Needs::Admin),
            ("Try a manifest", "/try", Needs::Admin),
        ],
    ),
];

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::CONFLICT | StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => "Not done",
        _ => "Something is wrong",
    }
}

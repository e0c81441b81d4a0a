//! One request of somebody who is logged in: who it is, what they may, what their form says, and the way to an answer.
//! No handler is reached without a session, and no handler that changes something without the session's own token.

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
use crate::envelope::Failure;

/// Largest form: a manifest has room in it.
pub(super) const MAX_FORM: usize = 1 << 20;
/// What the choice of a project calls all of them.
pub(super) const ALL_PROJECTS: &str = "all projects";

/// What the pages share.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) api: Api,
    pub(super) sessions: Sessions,
}

/// What a form or a query says.
#[derive(Clone, Debug, Default)]
pub(super) struct Said(Vec<(String, String)>);

impl Said {
    fn read(bytes: &[u8]) -> Said {
        Said(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// Without the blanks around it; `None` when it is not there or says nothing.
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

/// A request on its way through the pages. An extension of the request.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) api: Api,
    pub(super) scope: KeyScope,
    pub(super) caller: Caller,
    pub(super) tenant: Tenant,
    pub(super) query: Said,
    pub(super) form: Said,
    pub(super) path: String,
    projects: Arc<[String]>,
    sessions: Sessions,
    session: Session,
    session_id: String,
}

/// What a handler that changes something answers: what to say, and where to go on.
pub(super) type Done = Result<(Note, String), Failure>;

/// What everybody may change: their own session.
const OWN: &[&str] = &["/logout", "/project"];

pub(super) async fn layer(State(door): State<Door>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let changes = !matches!(parts.method, Method::GET | Method::HEAD);
    let Some((session_id, session)) = door.sessions.of(&parts.headers, door.api.clock.now()) else {
        // A form that comes back too late is not sent again behind the login: it leads to the overview.
        return login::first(if changes { "/" } else { parts.uri.path_and_query().map_or("/", |at| at.as_str()) });
    };
    let Ok(bytes) = to_bytes(body, MAX_FORM).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let visit = match Visit::new(&door, session_id.clone(), session, &parts, &bytes).await {
        Ok(visit) => visit,
        Err(failure) if failure.status == StatusCode::UNAUTHORIZED => {
            door.sessions.end(&session_id);
            return login::first("/");
        }
        Err(failure) => return (failure.status, failure.message).into_response(),
    };
    if changes && !visit.session.owns(visit.form.text("csrf")) {
        let message = "this form is not one of this session";
        let failure = Failure::new(StatusCode::FORBIDDEN, Code::Forbidden, message).hint("load the page again");
        return visit.show(Err(failure));
    }
    let needed = if changes && !OWN.contains(&parts.uri.path()) { KeyScope::Write } else { KeyScope::Read };
    if let Err(failure) = visit.may(needed) {
        return visit.show(Err(failure));
    }
    let mut request = Request::from_parts(parts, Body::empty());
    request.extensions_mut().insert(visit);
    next.run(request).await
}

impl Visit {
    async fn new(
        door: &Door,
        session_id: String,
        session: Session,
        parts: &Parts,
        form: &[u8],
    ) -> Result<Visit, Failure> {
        let api = door.api.clone();
        let known = Known::by_prefix(&api, &session.prefix).await?;
        let mut projects = known.projects(&api).await?;
        let project = match (&session.project, projects.contains(session.project.as_ref().unwrap_or(&String::new()))) {
            (Some(project), true) => Some(project.clone()),
            // Of several projects that a key is bound to, one has to be looked at.
            _ if known.is_bound() => projects.first().cloned(),
            _ => None,
        };
        if !known.is_bound() {
            projects.insert(0, ALL_PROJECTS.to_owned());
        }
        let tenant = known.tenant_of(&api, project).await?;
        Ok(Visit {
            api,
            scope: known.scope,
            caller: known.caller,
            tenant,
            query: Said::read(parts.uri.query().unwrap_or_default().as_bytes()),
            form: Said::read(form),
            path: parts.uri.path().to_owned(),
            projects: projects.into(),
            sessions: door.sessions.clone(),
            session,
            session_id,
        })
    }

    /// Refuses who may not.
    pub(super) fn may(&self, needed: KeyScope) -> Result<(), Failure> {
        auth::require(self.scope, needed)
    }

    /// Whether to offer what needs a scope.
    pub(super) fn is(&self, needed: KeyScope) -> bool {
        self.scope >= needed
    }

    /// Who does something, as it is put on record.
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

    /// The page, or what stands against it.
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

    /// Says what was done on the page that follows.
    pub(super) fn done(&self, done: Done) -> Response {
        match done {
            Ok((note, to)) => {
                self.sessions.tell(&self.session_id, note);
                Redirect::to(&to).into_response()
            }
            Err(failure) => self.show(Err(failure)),
        }
    }

    fn framed(&self, page: &Page) -> Response {
        let framed = Framed {
            page,
            notice: self.sessions.told(&self.session_id),
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
    /// What is of no project.
    Operator,
    Admin,
}

/// A word, where it leads, and who is offered it.
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
            ("Holds", "/holds", Needs::Operator),
            ("Alerts", "/alerts", Needs::Operator),
        ],
    ),
    (
        "House",
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

//! Login with an API key, and logout.

use askama::Template as _;
use axum::Extension;
use axum::extract::{Form, Query, State};
use axum::http::header::SET_COOKIE;
use axum::http::{Extensions, HeaderMap, StatusCode};
use axum::response::{AppendHeaders, Html, IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use url::form_urlencoded;

use super::context::{ConsoleContext, ConsoleState};
use super::page::{LoginForm, Note};
use super::{assets, session};
use crate::auth::Known;
use crate::key::random_hex;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Behind {
    next: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Credentials {
    key: String,
    csrf: String,
    next: String,
}

/// Redirects to the login form, and from there to `next`.
pub(super) fn first(next: &str) -> Response {
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    Redirect::to(&format!("/login?next={next}")).into_response()
}

pub(super) async fn form(headers: HeaderMap, Query(Behind { next }): Query<Behind>) -> Response {
    offer(&headers, StatusCode::OK, &next, None)
}

pub(super) async fn login(
    State(state): State<ConsoleState>,
    extensions: Extensions,
    headers: HeaderMap,
    Form(Credentials { key, csrf, next }): Form<Credentials>,
) -> Response {
    if !session::was_offered(&headers, &csrf) {
        return offer(&headers, StatusCode::FORBIDDEN, &next, Some("The form was too old: try again."));
    }
    let known = match Known::by_text(&state.api, key.trim()).await {
        Ok(known) => known,
        Err(failure) => {
            let failure = match failure.status {
                StatusCode::UNAUTHORIZED => {
                    let failures = &state.api.limits.auth_failures;
                    failures.refuse(&state.api.metrics, &extensions, ("login", "/login"), failure).await
                }
                _ => failure,
            };
            return offer(&headers, failure.status, &next, Some(&failure.message));
        }
    };
    match state.sessions.begin(known.caller.0, None, state.api.clock.now()) {
        Ok(secret) => {
            let cookie = AppendHeaders([(SET_COOKIE, session::begun(&headers, &secret))]);
            (cookie, Redirect::to(inside(&next))).into_response()
        }
        Err(error) => offer(&headers, StatusCode::INTERNAL_SERVER_ERROR, &next, Some(&error.to_string())),
    }
}

pub(super) async fn logout(headers: HeaderMap, Extension(ctx): Extension<ConsoleContext>) -> Response {
    ctx.log_out();
    (AppendHeaders([(SET_COOKIE, session::ended(&headers))]), Redirect::to("/login")).into_response()
}

pub(super) async fn choose_project(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let project = ctx.form.text("project");
    let chosen = ctx.look_at(project);
    ctx.done(chosen.map(|()| (Note::good(format!("Shown now: {project}")), "/".to_owned())))
}

fn offer(headers: &HeaderMap, status: StatusCode, next: &str, problem: Option<&str>) -> Response {
    let rendered = random_hex::<16>().map_err(|error| error.to_string()).and_then(|token| {
        let form = LoginForm { token: &token, next: inside(next), problem, assets: assets::version() };
        Ok((session::offered(headers, &token), form.render().map_err(|error| error.to_string())?))
    });
    match rendered {
        Ok((cookie, html)) => (status, AppendHeaders([(SET_COOKIE, cookie)]), Html(html)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
    }
}

/// A local path, or the overview: the form must not redirect to other sites.
fn inside(next: &str) -> &str {
    let ours = next.starts_with('/') && !next.starts_with("//") && !next.contains(['\\', '\r', '\n', '\t']);
    if ours { next } else { "/" }
}

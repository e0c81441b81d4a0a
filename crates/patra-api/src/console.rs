//! The console: web pages at `/`. They are rendered on the server and work without scripts; a small script keeps them
//! up to date by server-sent events. Pages read through the query ports and act through the same functions as the API
//! routes, with the rights of the key that the user logged in with.

mod actions;
mod administration;
mod assets;
mod chart;
mod context;
mod cursors;
mod details;
mod lists;
mod live;
mod login;
mod overview;
mod page;
mod search;
mod session;
mod sources;
mod try_form;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};

use patra_core::port::query::View;

use self::context::ConsoleState;
use self::live::Listeners;
use self::session::Sessions;
use crate::{Api, routes};

/// Content policy: everything is loaded from this server, nothing is inline, and no site may frame the pages.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Most bytes of the login form, which is read before anybody is known.
const MAX_LOGIN_FORM: usize = 16 << 10;

/// Routes of the pages, all behind the login.
pub(crate) fn router(api: Api) -> Router<Api> {
    let state = ConsoleState { api, sessions: Sessions::default() };
    let mut inside = Router::new()
        .route("/logout", post(login::logout))
        .route("/project", post(login::choose_project))
        .route("/", get(overview::overview))
        .route("/search", get(search::search))
        .route("/sources", get(sources::list).post(sources::add))
        .route("/sources/{id}", get(sources::show))
        .route("/sources/{id}/{action}", post(sources::act))
        .route("/plans/{id}", get(details::plan))
        .route("/slices/{id}", get(details::slice))
        .route("/tasks/{id}", get(details::task))
        .route("/runs/{id}", get(details::run))
        .route("/runs/{run}/batches/{no}", get(details::batch))
        .route("/runs/{run}/batches/{no}/replay", post(actions::replay_batch))
        .route("/runs/{run}/batches/{no}/redrive", post(actions::redrive_batch))
        .route("/runs/{run}/batches/{no}/bundle", post(actions::export_bundle))
        .route("/jobs/{public_id}", get(details::job))
        .route("/jobs/{public_id}/cancel", post(actions::cancel_job))
        .route("/cursors", get(cursors::list))
        .route("/cursors/{id}", get(cursors::show))
        .route("/quarantine/{id}", get(details::quarantined))
        .route("/quarantine/{id}/{action}", post(actions::quarantine))
        .route("/holds/{id}", get(details::pause))
        .route("/holds/{id}/release", post(actions::resume))
        .route("/gates", get(administration::gates))
        .route("/pool", get(administration::pool))
        .route("/alerts", get(administration::alerts))
        .route("/credentials", get(administration::credentials))
        .route("/keys", get(administration::keys).post(administration::make_key))
        .route("/keys/{prefix}/revoke", post(administration::revoke_key))
        .route("/settings", get(administration::settings).post(administration::set_interval));
    for view in [View::Plans, View::Slices, View::Tasks] {
        let act = move |ctx, path| actions::work(ctx, path, view);
        inside = inside.route(&format!("/{}/{{id}}/{{action}}", view.as_str()), post(act));
    }
    for view in lists::LISTED.iter().copied() {
        inside = inside.route(&format!("/{}", view.as_str()), get(move |ctx| lists::list(ctx, view)));
    }
    for view in lists::SHOWN.iter().copied() {
        inside = inside.route(&format!("/{}/{{id}}", view.as_str()), get(move |ctx, id| lists::show(ctx, id, view)));
    }
    // Trying a manifest and listening for changes may take longer than the deadline.
    let inside = inside
        .layer(middleware::from_fn(routes::deadline))
        .route("/try", get(try_form::form).post(try_form::run))
        .route("/live", get(live::live))
        .layer(Extension(Listeners::default()))
        .layer(middleware::from_fn_with_state(state.clone(), context::layer));
    Router::new()
        .route("/login", get(login::form).post(login::login))
        // Anybody can send this form, so it is small and quick.
        .layer(DefaultBodyLimit::max(MAX_LOGIN_FORM))
        .layer(middleware::from_fn(routes::deadline))
        .with_state(state)
        .merge(inside)
        .merge(assets::router())
        .layer(middleware::from_fn(guard))
}

/// Adds the security headers to every response.
async fn guard(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let always = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    headers.extend(always.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

#[cfg(test)]
mod tests;

//! The console: pages for people at `/`. Server-rendered, so that they work without script; live by server-sent events with a
//! small script of our own. A page reads through the query ports and acts through the same functions as the routes of the API,
//! with the rights of the key that somebody has logged in with.

mod actions;
mod assets;
mod chart;
mod cursors;
mod details;
mod house;
mod lists;
mod live;
mod login;
mod overview;
mod page;
mod search;
mod session;
mod sources;
mod try_form;
mod visit;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};

use patra_core::port::query::View;

use self::live::Listeners;
use self::session::Sessions;
use self::visit::Door;
use crate::{Api, routes};

/// Everything comes from here, nothing is inline, nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The pages, behind a login of their own.
pub(crate) fn router(api: Api) -> Router<Api> {
    let door = Door { api, sessions: Sessions::default() };
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
        .route("/runs/{run}/batches/{no}/blackbox", post(actions::blackbox))
        .route("/jobs/{public_id}", get(details::job))
        .route("/jobs/{public_id}/cancel", post(actions::cancel_job))
        .route("/cursors", get(cursors::list))
        .route("/cursors/{id}", get(cursors::show))
        .route("/quarantine/{id}", get(details::quarantined))
        .route("/quarantine/{id}/{action}", post(actions::quarantine))
        .route("/holds/{id}", get(details::hold))
        .route("/holds/{id}/release", post(actions::release))
        .route("/gates", get(house::gates))
        .route("/pool", get(house::pool))
        .route("/alerts", get(house::alerts))
        .route("/credentials", get(house::credentials))
        .route("/keys", get(house::keys).post(house::make_key))
        .route("/keys/{prefix}/revoke", post(house::revoke_key))
        .route("/settings", get(house::settings).post(house::set_interval));
    for view in [View::Plans, View::Slices, View::Tasks] {
        let act = move |visit, place| actions::work(visit, place, view);
        inside = inside.route(&format!("/{}/{{id}}/{{action}}", view.as_str()), post(act));
    }
    for view in lists::LISTED.iter().copied() {
        inside = inside.route(&format!("/{}", view.as_str()), get(move |visit| lists::list(visit, view)));
    }
    for view in lists::SHOWN.iter().copied() {
        inside =
            inside.route(&format!("/{}/{{id}}", view.as_str()), get(move |visit, id| lists::show(visit, id, view)));
    }
    // An upstream that is tried, and a page that listens, take their time.
    let inside = inside
        .layer(middleware::from_fn(routes::deadline))
        .route("/try", get(try_form::form).post(try_form::run))
        .route("/live", get(live::live))
        .layer(Extension(Listeners::default()))
        .layer(middleware::from_fn_with_state(door.clone(), visit::layer));
    Router::new()
        .route("/login", get(login::form).post(login::login))
        .with_state(door)
        .merge(inside)
        .merge(assets::router())
        .layer(middleware::from_fn(guard))
}

/// What every answer tells a browser.
async fn guard(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let always = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    headers.extend(always.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;

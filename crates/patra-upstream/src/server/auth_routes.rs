//! The auth routes that issue credentials for data requests: `/oauth/token`, `/login`, `/sign`. They have their own
//! faults, so that a test can distinguish a failing API from failing auth routes.

mod login;
mod sign;
mod token;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::head::RequestHead;
use super::reply::MockReply;
use super::state::ServerState;
use super::target::AuthRoute;

pub(super) async fn respond(state: &ServerState, head: &RequestHead<'_>, body: &[u8], route: AuthRoute) -> MockReply {
    let number = state.auth_requests.fetch_add(1, Relaxed) + 1;
    let script = state.script();
    if script.auth_latency_ms > 0 {
        tokio::time::sleep(Duration::from_millis(script.auth_latency_ms)).await;
    }
    if script.auth_e500.applies_to(number) {
        return MockReply::error(500, "internal", "failed on purpose");
    }
    match route {
        AuthRoute::Token => token::respond(state, &script.oauth, head, body),
        AuthRoute::Login => login::respond(state, &script.login, body),
        AuthRoute::Sign => sign::respond(state, &script.signing, head, body),
    }
}

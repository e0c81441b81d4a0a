//! `POST /login`: takes user and password and returns a session, in the location set by the script.

use serde_json::json;
use tokio::time::Instant;

use crate::script::{LoginEndpoint, SessionLocation};
use crate::server::access::field;
use crate::server::reply::MockReply;
use crate::server::state::{ServerState, lock};

pub(super) fn respond(state: &ServerState, login: &LoginEndpoint, body: &[u8]) -> MockReply {
    let given = (field(body, "user"), field(body, "password"));
    let mut store = lock(&state.tokens);
    if given != (Some(login.user.clone()), Some(login.password.clone())) {
        store.stats.logins_refused += 1;
        return MockReply::error(401, "unauthorized", "the user or the password is wrong");
    }
    let session = store.log_in(Instant::now(), login);
    let expires_in = login.expires_in_secs;
    let ok = json!({"status": "ok", "expires_in": expires_in}).to_string();
    match login.location {
        SessionLocation::Body => MockReply::json(200, json!({"token": session, "expires_in": expires_in}).to_string()),
        SessionLocation::Header => MockReply::json(200, ok).with_header("X-Session-Token", &session),
        SessionLocation::Cookie => {
            let cookie = format!("session={session}; Path=/; HttpOnly; Max-Age={expires_in}");
            MockReply::json(200, ok).with_header("Set-Cookie", &cookie)
        }
    }
}

//! `POST /login`: user and password in, a session out, where the script puts it.

use serde_json::json;
use tokio::time::Instant;

use crate::script::{Login, LoginAnswer};
use crate::server::access::field;
use crate::server::reply::Reply;
use crate::server::state::{State, lock};

pub(super) fn answer(state: &State, login: &Login, body: &[u8]) -> Reply {
    let shown = (field(body, "user"), field(body, "password"));
    let mut vault = lock(&state.vault);
    if shown != (Some(login.user.clone()), Some(login.password.clone())) {
        vault.stats.logins_refused += 1;
        return Reply::error(401, "unauthorized", "the user or the password is wrong");
    }
    let session = vault.log_in(Instant::now(), login);
    let expires_in = login.expires_in_secs;
    let ok = json!({"status": "ok", "expires_in": expires_in}).to_string();
    match login.answer {
        LoginAnswer::Body => Reply::json(200, json!({"token": session, "expires_in": expires_in}).to_string()),
        LoginAnswer::Header => Reply::json(200, ok).with_header("X-Session-Token", &session),
        LoginAnswer::Cookie => {
            let cookie = format!("session={session}; Path=/; HttpOnly; Max-Age={expires_in}");
            Reply::json(200, ok).with_header("Set-Cookie", &cookie)
        }
    }
}

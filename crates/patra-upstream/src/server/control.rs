//! The control routes: counters, and the script by query. They have no faults and are not counted.

use serde::Serialize;
use serde_json::json;

use super::reply::MockReply;
use super::state::{ServerState, lock};
use crate::query::Query;
use crate::script::Script;

pub(super) fn respond(state: &ServerState, path: &str, query: &str) -> MockReply {
    match path {
        "/health" => MockReply::json(200, json!({"status": "ok"}).to_string()),
        "/stats" => to_json(&state.stats()),
        "/reset" => {
            state.reset();
            to_json(&state.stats())
        }
        "/revoke" => revoke(state, &Query::parse(query)),
        "/visible" => visible(state, &Query::parse(query)),
        "/knobs" => knobs(state, &Query::parse(query)),
        _ => MockReply::error(404, "not_found", &format!("there is no {path}")),
    }
}

/// Revokes issued credentials: `what=tokens`, `sessions` or, without it, both. Refresh tokens stay valid.
fn revoke(state: &ServerState, query: &Query) -> MockReply {
    let (tokens, sessions) = match query.get("what") {
        None => (true, true),
        Some("tokens") => (true, false),
        Some("sessions") => (false, true),
        Some(_) => return bad("what must be tokens or sessions"),
    };
    let mut store = lock(&state.tokens);
    if tokens {
        store.revoke_tokens();
    }
    if sessions {
        store.revoke_sessions();
    }
    MockReply::json(200, json!({"tokens": tokens, "sessions": sessions}).to_string())
}

/// Sets the number of visible records.
fn visible(state: &ServerState, query: &Query) -> MockReply {
    let total = state.dataset.len();
    let Ok(Some(visible)) = query.number("n") else {
        return bad("n must be a whole number");
    };
    if visible > total {
        return bad(&format!("n must be at most {total}"));
    }
    let changed = state.change_script(|script| script.set("visible", &visible.to_string()));
    changed.map_or_else(
        |message| bad(&message),
        |()| MockReply::json(200, json!({"visible": visible, "total": total}).to_string()),
    )
}

/// Sets the knobs in the query, all or none, and returns the script. `clear=1` starts from the default script.
fn knobs(state: &ServerState, query: &Query) -> MockReply {
    let changed = state.change_script(|script| {
        if query.get("clear").is_some() {
            *script = Script::default();
        }
        query.iter().filter(|(name, _)| *name != "clear").try_for_each(|(name, value)| script.set(name, value))
    });
    changed.map_or_else(|message| bad(&message), |()| to_json(&*state.script()))
}

fn bad(message: &str) -> MockReply {
    MockReply::error(400, "bad_parameter", message)
}

fn to_json(value: &impl Serialize) -> MockReply {
    match serde_json::to_string(value) {
        Ok(text) => MockReply::json(200, text),
        Err(error) => MockReply::error(500, "internal", &error.to_string()),
    }
}

//! The paths that are not listings: counts, and the script by query. No faults fall on them and none is counted.

use serde::Serialize;
use serde_json::json;

use super::reply::Reply;
use super::state::{State, lock};
use crate::query::Query;
use crate::script::Script;

pub(super) fn answer(state: &State, path: &str, query: &str) -> Reply {
    match path {
        "/health" => Reply::json(200, json!({"status": "ok"}).to_string()),
        "/stats" => to_json(&state.stats()),
        "/reset" => {
            state.reset();
            to_json(&state.stats())
        }
        "/revoke" => revoke(state, &Query::parse(query)),
        "/visible" => visible(state, &Query::parse(query)),
        "/knobs" => knobs(state, &Query::parse(query)),
        _ => Reply::error(404, "not_found", &format!("there is no {path}")),
    }
}

/// Takes back what was handed out: `what=tokens`, `sessions` or, without it, both. Refresh tokens stay good.
fn revoke(state: &State, query: &Query) -> Reply {
    let (tokens, sessions) = match query.get("what") {
        None => (true, true),
        Some("tokens") => (true, false),
        Some("sessions") => (false, true),
        Some(_) => return bad("what must be tokens or sessions"),
    };
    let mut vault = lock(&state.vault);
    if tokens {
        vault.revoke_tokens();
    }
    if sessions {
        vault.revoke_sessions();
    }
    Reply::json(200, json!({"tokens": tokens, "sessions": sessions}).to_string())
}

/// How many records exist from now on.
fn visible(state: &State, query: &Query) -> Reply {
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
        |()| Reply::json(200, json!({"visible": visible, "total": total}).to_string()),
    )
}

/// Turns the knobs named in the query, all or none, and shows the script. `clear=1` starts from the default one.
fn knobs(state: &State, query: &Query) -> Reply {
    let changed = state.change_script(|script| {
        if query.get("clear").is_some() {
            *script = Script::default();
        }
        query.iter().filter(|(name, _)| *name != "clear").try_for_each(|(name, value)| script.set(name, value))
    });
    changed.map_or_else(|message| bad(&message), |()| to_json(&*state.script()))
}

fn bad(message: &str) -> Reply {
    Reply::error(400, "bad_parameter", message)
}

fn to_json(value: &impl Serialize) -> Reply {
    match serde_json::to_string(value) {
        Ok(text) => Reply::json(200, text),
        Err(error) => Reply::error(500, "internal", &error.to_string()),
    }
}

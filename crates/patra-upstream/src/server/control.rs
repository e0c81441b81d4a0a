//! The paths that are not listings: counts, and the script by query. No faults fall on them and none is counted.

use serde::Serialize;
use serde_json::json;

use super::reply::Reply;
use super::state::State;
use crate::query::Query;
use crate::script::Script;

pub(super) fn answer(state: &State, path: &str, query: &str) -> Reply {
    match path {
        "/health" => Reply::json(200, json!({"status": "ok"}).to_string()),
        "/stats" => to_json(&state.counters.snapshot()),
        "/reset" => {
            state.reset();
            to_json(&state.counters.snapshot())
        }
        "/visible" => visible(state, &Query::parse(query)),
        "/knobs" => knobs(state, &Query::parse(query)),
        _ => Reply::error(404, "not_found", &format!("there is no {path}")),
    }
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

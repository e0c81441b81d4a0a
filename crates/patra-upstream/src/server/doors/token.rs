//! `POST /oauth/token` (RFC 6749): errors have the form `{"error", "error_description"}` that the standard gives them.

use serde_json::json;
use tokio::time::Instant;

use crate::query::Query;
use crate::script::OAuth;
use crate::server::access::basic;
use crate::server::head::Head;
use crate::server::reply::Reply;
use crate::server::state::{State, lock};

pub(super) fn answer(state: &State, oauth: &OAuth, head: &Head<'_>, body: &[u8]) -> Reply {
    let form = Query::parse(std::str::from_utf8(body).unwrap_or_default());
    let in_form = || Some((form.get("client_id")?.to_owned(), form.get("client_secret")?.to_owned()));
    let client = basic(head).or_else(in_form);
    let mut vault = lock(&state.vault);
    let (now, ours) = (Instant::now(), (oauth.client_id.clone(), oauth.client_secret.clone()));
    let granted = if client == Some(ours) {
        match form.get("grant_type") {
            Some("client_credentials") => Ok(vault.grant(now, oauth)),
            Some("refresh_token") => {
                let token = form.get("refresh_token").unwrap_or_default();
                vault.refresh(now, oauth, token).ok_or((400, "invalid_grant", "the refresh token is not good"))
            }
            _ => Err((400, "unsupported_grant_type", "grant_type is client_credentials or refresh_token")),
        }
    } else {
        Err((401, "invalid_client", "the client is unknown or its secret wrong"))
    };
    match granted {
        Ok(granted) => {
            let mut answer = json!({
                "access_token": granted.access_token,
                "token_type": "Bearer",
                "expires_in": oauth.expires_in_secs,
            });
            if let Some(refresh_token) = granted.refresh_token {
                answer["refresh_token"] = refresh_token.into();
            }
            Reply::json(200, answer.to_string()).with_header("Cache-Control", "no-store")
        }
        Err((status, error, description)) => {
            vault.stats.tokens_refused += 1;
            Reply::json(status, json!({"error": error, "error_description": description}).to_string())
        }
    }
}

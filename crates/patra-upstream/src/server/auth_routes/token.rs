//! `POST /oauth/token` (RFC 6749): errors have the standard form `{"error", "error_description"}`.

use serde_json::json;
use tokio::time::Instant;

use crate::query::Query;
use crate::script::TokenEndpoint;
use crate::server::access::basic;
use crate::server::head::RequestHead;
use crate::server::reply::MockReply;
use crate::server::state::{ServerState, lock};

pub(super) fn respond(state: &ServerState, oauth: &TokenEndpoint, head: &RequestHead<'_>, body: &[u8]) -> MockReply {
    let form = Query::parse(std::str::from_utf8(body).unwrap_or_default());
    let in_form = || Some((form.get("client_id")?.to_owned(), form.get("client_secret")?.to_owned()));
    let client = basic(head).or_else(in_form);
    let mut store = lock(&state.tokens);
    let (now, ours) = (Instant::now(), (oauth.client_id.clone(), oauth.client_secret.clone()));
    let granted = if client == Some(ours) {
        match form.get("grant_type") {
            Some("client_credentials") => Ok(store.grant(now, oauth)),
            Some("refresh_token") => {
                let token = form.get("refresh_token").unwrap_or_default();
                store.refresh(now, oauth, token).ok_or((400, "invalid_grant", "the refresh token is invalid"))
            }
            _ => Err((400, "unsupported_grant_type", "grant_type is client_credentials or refresh_token")),
        }
    } else {
        Err((401, "invalid_client", "the client is unknown or its secret is wrong"))
    };
    match granted {
        Ok(granted) => {
            let mut response = json!({
                "access_token": granted.access_token,
                "token_type": "Bearer",
                "expires_in": oauth.expires_in_secs,
            });
            if let Some(refresh_token) = granted.refresh_token {
                response["refresh_token"] = refresh_token.into();
            }
            MockReply::json(200, response.to_string()).with_header("Cache-Control", "no-store")
        }
        Err((status, error, description)) => {
            store.stats.tokens_refused += 1;
            MockReply::json(status, json!({"error": error, "error_description": description}).to_string())
        }
    }
}

//! `health`: one line, and an exit code for scripts.

use std::sync::Arc;

use serde_json::json;

use patra_core::port::Transport as _;
use patra_core::port::transport::{Error as TransportError, HttpMethod, HttpRequest};

use crate::cli::{Global, Health};
use crate::error::{Error, Exit};
use crate::{output, store};

pub(crate) async fn run(global: &Global, args: &Health) -> Result<Exit, Error> {
    match &args.url {
        Some(url) => check_server(global, url).await,
        None => check_database(global).await,
    }
}

async fn check_database(global: &Global) -> Result<Exit, Error> {
    let queries: Arc<_> = store::open_to_read(global).await?;
    let version = queries.ping().await?;
    let value = json!({ "status": "ok", "schema_version": version });
    output::result(global.output, &format!("ok: the database responds, schema version {version}"), &value)?;
    Ok(Exit::Ok)
}

async fn check_server(global: &Global, url: &str) -> Result<Exit, Error> {
    // The operator chooses the address, and it is mostly on this host: no address is refused.
    let everywhere = ["0.0.0.0/0", "::/0"].into_iter().filter_map(|net| net.parse().ok()).collect();
    let client = patra_http::Client::new(patra_http::AddressGuard::new(everywhere))
        .map_err(|error| Error::unexpected(error.to_string()))?;
    let request = HttpRequest::new(HttpMethod::Get, format!("{}/health", url.trim_end_matches('/')));
    let response = client.send(request).await.map_err(|error| match error {
        TransportError::Invalid { .. } => {
            Error::usage(format!("`{url}` is not a URL")).hint("name a server, such as http://127.0.0.1:8080")
        }
        error => Error::failed(format!("{url} does not respond: {error}")).hint("is `patra serve` running there?"),
    })?;
    let body: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let status = body["status"].as_str().unwrap_or("unknown").to_owned();
    output::result(global.output, &format!("{status}: {url}"), &body)?;
    Ok(if response.status == 200 { Exit::Ok } else { Exit::Failures })
}

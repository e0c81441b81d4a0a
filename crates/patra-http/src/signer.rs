//! A signing hook over HTTP: a service of the operator that knows how an upstream wants its requests signed.
//!
//! It gets a `POST` with `{"method", "url", "headers", "body_sha256", "body"}`, `body` in base64 or null, and returns
//! `{"headers": {…}, "query": {…}}` to add to the request. It may be in a private network, because the operator
//! configured it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use patra_core::hash::sha256_hex;
use patra_core::port::signer::{Error, Signature};
use patra_core::port::transport::{self, HttpMethod, HttpRequest, TransferLimits, Transport as _};
use patra_core::port::{BoxFuture, Signer};

use crate::Client;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest response.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
const MAX_ADDED: usize = 32;

#[derive(Clone)]
pub struct HttpSigner {
    client: Client,
    url: String,
}

/// Hides the URL, which may contain a password.
impl fmt::Debug for HttpSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSigner").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct SignerResponse {
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    query: BTreeMap<String, String>,
}

impl HttpSigner {
    pub fn new(url: &str) -> Result<HttpSigner, transport::Error> {
        Ok(HttpSigner { client: Client::for_operator_service("a signer", url)?, url: url.to_owned() })
    }

    async fn request_signature(&self, signing_request: HttpRequest) -> Result<Signature, Error> {
        let response = self.client.send(signing_request).await.map_err(|error| {
            use transport::Error::{Broken, Connect, Timeout};
            let transient = matches!(error, Connect { .. } | Timeout { .. } | Broken { .. });
            Error { reason: error.to_string(), transient }
        })?;
        let refused = |reason: String| Error { reason, transient: false };
        if response.status != 200 {
            let transient = matches!(response.status, 429 | 500..=599);
            return Err(Error { reason: format!("the signer returned {}", response.status), transient });
        }
        let reply: SignerResponse = serde_json::from_slice(&response.body)
            .map_err(|_| refused("the signer did not return {\"headers\": {…}, \"query\": {…}}".to_owned()))?;
        if reply.headers.len() > MAX_ADDED || reply.query.len() > MAX_ADDED {
            return Err(refused(format!("the signer adds more than {MAX_ADDED} headers or parameters")));
        }
        Ok(Signature { headers: reply.headers.into_iter().collect(), query: reply.query.into_iter().collect() })
    }
}

impl Signer for HttpSigner {
    fn sign(&self, request: &HttpRequest) -> BoxFuture<'_, Result<Signature, Error>> {
        let body = request.body.as_deref().unwrap_or_default();
        let headers: BTreeMap<_, _> = request.headers.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let signing_request = json!({
            "method": match request.method { HttpMethod::Get => "GET", HttpMethod::Post => "POST" },
            "url": request.url,
            "headers": headers,
            "body_sha256": sha256_hex(body),
            "body": request.body.as_ref().map(|body| base64::engine::general_purpose::STANDARD.encode(body)),
        });
        let signing_request = HttpRequest {
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: Some(Bytes::from(signing_request.to_string())),
            limits: TransferLimits {
                total_timeout: TIMEOUT,
                max_body: MAX_RESPONSE_BYTES,
                ..TransferLimits::default()
            },
            ..HttpRequest::new(HttpMethod::Post, self.url.clone())
        };
        Box::pin(self.request_signature(signing_request))
    }
}

//! A signing hook behind HTTP: a service of the operator's own that knows how a far side wants its requests signed.
//!
//! It is asked with `POST` and `{"method", "url", "headers", "body_sha256", "body"}`, `body` in base64 or null, and answers
//! `{"headers": {…}, "query": {…}}`: what to add. It may stand in a private network, because the operator named it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use patra_core::hash::sha256_hex;
use patra_core::port::signer::{Error, Signature};
use patra_core::port::transport::{self, Limits, Method, Request, Transport as _};
use patra_core::port::{Boxed, Signer};

use crate::Client;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer, and most headers or parameters in it.
const MAX_ANSWER: usize = 64 << 10;
const MAX_ADDED: usize = 32;

#[derive(Clone)]
pub struct HttpSigner {
    client: Client,
    url: String,
}

/// The URL may hold a password.
impl fmt::Debug for HttpSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSigner").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    query: BTreeMap<String, String>,
}

impl HttpSigner {
    pub fn new(url: &str) -> Result<HttpSigner, transport::Error> {
        Ok(HttpSigner { client: Client::to_operators_own("a signer", url)?, url: url.to_owned() })
    }

    async fn ask(&self, question: Request) -> Result<Signature, Error> {
        let response = self.client.send(question).await.map_err(|error| {
            use transport::Error::{Broken, Connect, Timeout};
            let transient = matches!(error, Connect { .. } | Timeout { .. } | Broken { .. });
            Error { reason: error.to_string(), transient }
        })?;
        let refused = |reason: String| Error { reason, transient: false };
        if response.status != 200 {
            let transient = matches!(response.status, 429 | 500..=599);
            return Err(Error { reason: format!("the signer answered {}", response.status), transient });
        }
        let answer: Answer = serde_json::from_slice(&response.body)
            .map_err(|_| refused("the signer did not answer {\"headers\": {…}, \"query\": {…}}".to_owned()))?;
        if answer.headers.len() > MAX_ADDED || answer.query.len() > MAX_ADDED {
            return Err(refused(format!("the signer adds more than {MAX_ADDED} headers or parameters")));
        }
        Ok(Signature { headers: answer.headers.into_iter().collect(), query: answer.query.into_iter().collect() })
    }
}

impl Signer for HttpSigner {
    fn sign(&self, request: &Request) -> Boxed<'_, Result<Signature, Error>> {
        let body = request.body.as_deref().unwrap_or_default();
        let headers: BTreeMap<_, _> = request.headers.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let question = json!({
            "method": match request.method { Method::Get => "GET", Method::Post => "POST" },
            "url": request.url,
            "headers": headers,
            "body_sha256": sha256_hex(body),
            "body": request.body.as_ref().map(|body| base64::engine::general_purpose::STANDARD.encode(body)),
        });
        let question = Request {
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: Some(Bytes::from(question.to_string())),
            limits: Limits { total_timeout: TIMEOUT, max_body: MAX_ANSWER, ..Limits::default() },
            ..Request::new(Method::Post, self.url.clone())
        };
        Box::pin(self.ask(question))
    }
}

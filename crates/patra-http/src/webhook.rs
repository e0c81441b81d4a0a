//! Sends messages to the operator's webhook. It may be in a private network, because the operator configured it.
//!
//! Each message is a `POST` of JSON. With a secret it carries `X-Patra-Signature: sha256=…`, the HMAC-SHA256 of the
//! body in hex, so that the receiver can verify the sender.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use patra_core::hash::hmac_sha256_hex;
use patra_core::port::transport::{self, HttpMethod, HttpRequest, TransferLimits, Transport as _};
use patra_core::port::{BoxFuture, Notifier};
use patra_core::secret::Secret;

use crate::Client;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest response; its body is ignored.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

#[derive(Clone)]
pub struct Webhook {
    client: Client,
    url: String,
    secret: Option<Secret>,
}

/// Hides the URL, which may contain a password.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

impl Webhook {
    pub fn new(url: &str, secret: Option<Secret>) -> Result<Webhook, transport::Error> {
        Ok(Webhook { client: Client::for_operator_service("a webhook", url)?, url: url.to_owned(), secret })
    }
}

impl Notifier for Webhook {
    fn notify(&self, json: String) -> BoxFuture<'_, Result<(), String>> {
        let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        if let Some(secret) = &self.secret {
            let signature = hmac_sha256_hex(secret.expose().as_bytes(), json.as_bytes());
            headers.push(("X-Patra-Signature".to_owned(), format!("sha256={signature}")));
        }
        let message = HttpRequest {
            headers,
            body: Some(Bytes::from(json)),
            limits: TransferLimits {
                total_timeout: TIMEOUT,
                max_body: MAX_RESPONSE_BYTES,
                ..TransferLimits::default()
            },
            ..HttpRequest::new(HttpMethod::Post, self.url.clone())
        };
        Box::pin(async move {
            match self.client.send(message).await {
                Ok(response) if (200..300).contains(&response.status) => Ok(()),
                Ok(response) => Err(format!("the webhook returned {}", response.status)),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

//! A webhook of the operator's own. It may stand in a private network, because the operator named it.
//!
//! Each message is a `POST` of JSON. With a secret it carries `X-Patra-Signature: sha256=…`, the HMAC-SHA256 of the body in hex, so
//! that the receiver knows who speaks.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use patra_core::hash::hmac_sha256_hex;
use patra_core::port::transport::{self, Limits, Method, Request, Transport as _};
use patra_core::port::{Boxed, Notifier};
use patra_core::secret::Secret;

use crate::Client;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer; nobody reads it.
const MAX_ANSWER: usize = 64 << 10;

#[derive(Clone)]
pub struct Webhook {
    client: Client,
    url: String,
    secret: Option<Secret>,
}

/// The URL may hold a password.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

impl Webhook {
    pub fn new(url: &str, secret: Option<Secret>) -> Result<Webhook, transport::Error> {
        Ok(Webhook { client: Client::to_operators_own("a webhook", url)?, url: url.to_owned(), secret })
    }
}

impl Notifier for Webhook {
    fn tell(&self, json: String) -> Boxed<'_, Result<(), String>> {
        let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        if let Some(secret) = &self.secret {
            let signature = hmac_sha256_hex(secret.expose().as_bytes(), json.as_bytes());
            headers.push(("X-Patra-Signature".to_owned(), format!("sha256={signature}")));
        }
        let message = Request {
            headers,
            body: Some(Bytes::from(json)),
            limits: Limits { total_timeout: TIMEOUT, max_body: MAX_ANSWER, ..Limits::default() },
            ..Request::new(Method::Post, self.url.clone())
        };
        Box::pin(async move {
            match self.client.send(message).await {
                Ok(response) if (200..300).contains(&response.status) => Ok(()),
                Ok(response) => Err(format!("the webhook answered {}", response.status)),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

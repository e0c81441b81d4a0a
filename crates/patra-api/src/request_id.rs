//! Every request has an id: the caller's `X-Request-ID`, or a fresh one. It comes back in the header and in `meta`.

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

use crate::key::random_hex;

const HEADER: &str = "x-request-id";
/// Longest id that is taken over from a caller.
const MAX_LEN: usize = 128;

#[derive(Clone, Debug)]
pub(crate) struct RequestId(String);

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

pub(crate) async fn layer(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    // An id of odd characters could forge log lines: it gets replaced, not cleaned.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let sane = |id: &&str| !id.is_empty() && id.len() <= MAX_LEN && id.bytes().all(plain);
    let id = match given.filter(sane) {
        Some(id) => id.to_owned(),
        None => random_hex::<8>().map_or_else(|_| "unknown".to_owned(), |hex| format!("req-{hex}")),
    };
    request.extensions_mut().insert(RequestId(id.clone()));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // Every line that is written on behalf of the request carries its id (CRAWL-86).
    let span = tracing::info_span!("request", request.id = id);
    let mut response = next.run(request).instrument(span).await;
    tracing::debug!(request.id = id, method = %method, path, status = response.status().as_u16(), "request answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

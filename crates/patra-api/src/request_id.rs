//! Request ids: every request has the caller's `X-Request-ID` or a new id, which the response repeats in the header and
//! in `meta`.

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

use crate::key::random_hex;

const HEADER: &str = "x-request-id";
/// Longest id that is accepted from a caller.
const MAX_LEN: usize = 128;

#[derive(Clone, Debug)]
pub(crate) struct RequestId(String);

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn of(id: &str) -> RequestId {
        RequestId(id.to_owned())
    }
}

pub(crate) async fn layer(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    // Unusual characters could forge log lines, so such an id is replaced.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let sane = |id: &&str| !id.is_empty() && id.len() <= MAX_LEN && id.bytes().all(plain);
    let id = match given.filter(sane) {
        Some(id) => id.to_owned(),
        None => random_hex::<8>().map_or_else(|_| "unknown".to_owned(), |hex| format!("req-{hex}")),
    };
    request.extensions_mut().insert(RequestId(id.clone()));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // Every log line of the request carries its id (CRAWL-86).
    let span = tracing::info_span!("request", request.id = id);
    let mut response = next.run(request).instrument(span).await;
    tracing::debug!(request.id = id, method = %method, path, status = response.status().as_u16(), "request completed");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use axum::{Extension, Router, middleware};
    use tower::ServiceExt as _;

    use super::*;

    /// The request id in the response header, which must be the one that the route gets.
    async fn effective_id(given: Option<&str>) -> String {
        let route = get(|Extension(id): Extension<RequestId>| async move { id.as_str().to_owned() });
        let router = Router::new().route("/", route).layer(middleware::from_fn(layer));
        let mut request = Request::builder().uri("/");
        if let Some(given) = given {
            request = request.header("X-Request-ID", given);
        }
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let header = response.headers()[HEADER].to_str().unwrap().to_owned();
        let seen = axum::body::to_bytes(response.into_body(), 1 << 10).await.unwrap();
        assert_eq!(seen, header.as_bytes());
        header
    }

    // covers: CRAWL-84, CRAWL-85
    #[tokio::test]
    async fn plain_request_id_is_kept_and_any_other_is_replaced() {
        let longest = "x".repeat(128);
        for plain in ["wf-1702728000-abc.1_2:DEF", "a", &longest] {
            assert_eq!(effective_id(Some(plain)).await, plain);
        }
        let too_long = "x".repeat(129);
        for odd in [None, Some(""), Some("a b"), Some("a/b"), Some("a\tb"), Some(&*too_long)] {
            let made = effective_id(odd).await;
            assert!(made.starts_with("req-") && made.len() > "req-".len(), "{odd:?}: {made}");
            assert_ne!(made, effective_id(odd).await, "each request gets its own");
        }
    }
}

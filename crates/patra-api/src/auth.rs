//! Who is asking, and whether they may.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use patra_core::Code;
use patra_core::tx::Scope;

use crate::Api;
use crate::envelope::Failure;
use crate::key;
use crate::request_id::RequestId;

/// The public part of the key that asks, for what is put on record. An extension of the request, as the scope is.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) String);

/// Somebody without a key, where that is allowed. An extension of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anonymous;

/// Reading needs `read`, changing needs `write`.
pub(crate) async fn layer(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let needed = if matches!(*request.method(), Method::GET | Method::HEAD) { Scope::Read } else { Scope::Write };
    let header = request.headers().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    match check(&api, header.as_deref(), needed).await {
        Ok((granted, caller)) => {
            request.extensions_mut().insert(granted);
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(_) if header.is_none() && api.public_read && is_public(&request) => {
            request.extensions_mut().insert(Anonymous);
            next.run(request).await
        }
        Err(failure) => match request.extensions().get::<RequestId>() {
            Some(id) => failure.answer_at(request.uri().path(), id),
            None => Response::default(),
        },
    }
}

/// What may be read without a key when that is switched on: sources that say that they are public.
fn is_public(request: &Request) -> bool {
    let path = request.uri().path();
    *request.method() == Method::GET && (path == "/api/sources" || path.starts_with("/api/sources/"))
}

async fn check(api: &Api, header: Option<&str>, needed: Scope) -> Result<(Scope, Caller), Failure> {
    let refused = |message: &str| {
        Failure::new(StatusCode::UNAUTHORIZED, Code::Unauthorized, message)
            .hint("send `Authorization: Bearer <key>`; `patra key create` makes one")
    };
    let text = header
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, text)| text.trim())
        .ok_or_else(|| refused("an API key is needed"))?;
    // One answer for every kind of wrong key: which one it is tells a guesser too much.
    let unknown = || refused("the API key is not valid");
    let stored = api.store.key(key::prefix(text).ok_or_else(unknown)?).await?.ok_or_else(unknown)?;
    if stored.revoked || !key::matches(text, &stored.hash) {
        return Err(unknown());
    }
    require(stored.scope, needed)?;
    Ok((stored.scope, Caller(stored.prefix)))
}

/// Refuses a key whose scope is too small. The scope of the caller's key is an extension of the request.
pub(crate) fn require(granted: Scope, needed: Scope) -> Result<(), Failure> {
    if granted >= needed {
        return Ok(());
    }
    let message = format!("this key may {}, and `{}` is needed", granted.as_str(), needed.as_str());
    Err(Failure::new(StatusCode::FORBIDDEN, Code::Forbidden, message))
}

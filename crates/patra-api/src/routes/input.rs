//! Checks for input of all routes.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{FromRequest, Path, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

use patra_core::Code;
use patra_core::state::Operation;

use crate::envelope::Failure;
use crate::request_id::RequestId;

/// A JSON body; an empty body counts as `{}`. A body that is too long or has another media type is refused at once, in
/// the envelope of its path. The route reports invalid fields itself, after it has checked the rights of the caller.
pub(crate) struct Given<T>(Result<T, Failure>);

impl<T> Given<T> {
    pub(crate) fn read(self) -> Result<T, Failure> {
        self.0
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Given<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Given<T>, Response> {
        let (path, id) = (request.uri().path().to_owned(), request.extensions().get::<RequestId>().cloned());
        let refuse = |failure: Failure| match id {
            Some(id) => failure.respond_at(&path, &id),
            None => failure.status.into_response(),
        };
        let is_json = says(request.headers(), CONTENT_TYPE, &["application/json"]);
        let bytes = match Bytes::from_request(request, state).await {
            Ok(bytes) if bytes.is_empty() => Bytes::from_static(b"{}"),
            Ok(bytes) if is_json => bytes,
            Ok(_) => {
                let message = "send the body with `Content-Type: application/json`";
                return Err(refuse(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidInput, message)));
            }
            Err(error) => {
                return Err(refuse(Failure { status: error.status(), ..Failure::bad_request(error.body_text()) }));
            }
        };
        // The status of INVALID_INPUT is 400 in every contract (MAP-E-01).
        Ok(Given(Json::from_bytes(&bytes).map(|Json(body)| body).map_err(|error| Failure::bad_request(unfit(&error)))))
    }
}

/// What is wrong with a body: the field and the reason, without the words of the library.
fn unfit(error: &JsonRejection) -> String {
    let text = error.body_text();
    match text.split_once(": ") {
        Some((_, reason)) if matches!(error, JsonRejection::JsonDataError(_)) => {
            format!("the body is not valid: {reason}")
        }
        Some((_, reason)) if matches!(error, JsonRejection::JsonSyntaxError(_)) => {
            format!("the body is not JSON: {reason}")
        }
        _ => text,
    }
}

/// Whether a header names one of these media types, whatever its parameters.
pub(super) fn says(headers: &HeaderMap, name: HeaderName, types: &[&str]) -> bool {
    let values = headers.get_all(name);
    let mut named = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    named.any(|named| {
        let named = named.split(';').next().unwrap_or_default().trim();
        types.iter().any(|known| known.eq_ignore_ascii_case(named))
    })
}

/// The only parameter of a route's path.
pub(crate) type PathText = Result<Path<String>, PathRejection>;

pub(crate) fn path_text(given: PathText) -> Result<String, Failure> {
    let Path(text) =
        given.map_err(|error| Failure { status: error.status(), ..Failure::bad_request(error.body_text()) })?;
    without_nul("the path", Some(&text))?;
    Ok(text)
}

/// The id of a row. Anything but a number names no row.
pub(super) fn number(given: PathText) -> Result<i64, Failure> {
    path_text(given)?.parse().map_err(|_| missing("expected a number"))
}

pub(super) fn missing(what: &str) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, what)
}

/// Parses an operation in upper or lower case.
pub(super) fn operation(word: &str) -> Result<Operation, Failure> {
    word.trim().to_uppercase().parse().map_err(|_| {
        let known: Vec<_> = Operation::ALL.iter().map(|operation| operation.as_str()).collect();
        Failure::bad_request(format!("operation must be one of {}", known.join(", ")))
    })
}

/// Refuses NUL: SQLite could store it, but PostgreSQL cannot.
pub(crate) fn without_nul(name: &str, text: Option<&str>) -> Result<(), Failure> {
    match text {
        Some(text) if text.contains('\0') => {
            Err(Failure::bad_request(format!("{name} must not hold the character NUL")))
        }
        _ => Ok(()),
    }
}

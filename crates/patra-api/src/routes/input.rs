//! What every text from outside must be, whichever door it comes through.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;

use patra_core::Code;
use patra_core::state::Operation;

use crate::envelope::Failure;

/// The one parameter of a route's path.
pub(crate) type PathText = Result<Path<String>, PathRejection>;

pub(crate) fn path_text(given: PathText) -> Result<String, Failure> {
    let Path(text) =
        given.map_err(|error| Failure { status: error.status(), ..Failure::bad_request(error.body_text()) })?;
    without_nul("the path", Some(&text))?;
    Ok(text)
}

/// The number of a row. What is none names nothing.
pub(super) fn number(given: PathText) -> Result<i64, Failure> {
    path_text(given)?.parse().map_err(|_| missing("expected a number"))
}

pub(super) fn missing(what: &str) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, what)
}

/// An operation, in any spelling of its letters.
pub(super) fn operation(word: &str) -> Result<Operation, Failure> {
    word.trim().to_uppercase().parse().map_err(|_| {
        let known: Vec<_> = Operation::ALL.iter().map(|operation| operation.as_str()).collect();
        Failure::bad_request(format!("operation must be one of {}", known.join(", ")))
    })
}

/// PostgreSQL cannot store NUL and SQLite can: refused here, it is the same on both.
pub(crate) fn without_nul(name: &str, text: Option<&str>) -> Result<(), Failure> {
    match text {
        Some(text) if text.contains('\0') => {
            Err(Failure::bad_request(format!("{name} must not hold the character NUL")))
        }
        _ => Ok(()),
    }
}

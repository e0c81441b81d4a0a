//! minijinja with everything taken out and only our list put in. It evaluates single expressions; the text around them
//! is ours.

use std::sync::LazyLock;

use minijinja::{Environment, Error, ErrorKind, Expression, UndefinedBehavior, Value};

use patra_core::Ts;

use super::{MAX_OUTPUT, RenderError};
use crate::problem::Flaw;

/// Instructions that one expression may take; what the scan admits needs a few hundred at most.
const FUEL: u64 = 50_000;

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    // Empty: no builtin filter, test or function, so no `range`, no `debug`, no `join`.
    let mut engine = Environment::empty();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_fuel(Some(FUEL));
    engine.add_filter("date", |value: Value| time(&value, |at| at.to_short_text().split('T').next().into()));
    engine.add_filter("datetime", |value: Value| {
        time(&value, |at| at.floor_to(std::time::Duration::from_secs(1)).to_short_text().into())
    });
    engine.add_filter("iso", |value: Value| time(&value, |at| at.to_micros_text().into()));
    engine.add_filter("epoch", |value: Value| time(&value, |at| at.micros().div_euclid(1_000_000).into()));
    engine.add_filter("epoch_ms", |value: Value| time(&value, |at| at.micros().div_euclid(1_000).into()));
    engine.add_filter("lower", |value: Value| text(&value, |text| Ok(text.to_lowercase())));
    engine.add_filter("upper", |value: Value| text(&value, |text| Ok(text.to_uppercase())));
    engine.add_filter("trim", |value: Value| text(&value, |text| Ok(text.trim().to_owned())));
    engine
        .add_filter("replace", |value: Value, from: String, to: String| text(&value, |text| replace(text, &from, &to)));
    engine.add_filter(
        "default",
        |value: Value, other: Value| {
            if value.is_undefined() || value.is_none() { other } else { value }
        },
    );
    engine.add_test("defined", |value: Value| !value.is_undefined());
    engine.add_test("undefined", |value: Value| value.is_undefined());
    engine.add_test("none", |value: Value| value.is_none());
    engine
});

/// `at` is where the expression stands in its template.
pub(super) fn compile(at: usize, source: &str) -> Result<Expression<'static, 'static>, Flaw> {
    ENGINE.compile_expression_owned(source.to_owned()).map_err(|error| {
        let offset = error.range().map_or(0, |range| range.start.min(source.len()));
        Flaw::new(at + offset, format!("the expression cannot be read: {}", reason(&error)))
    })
}

pub(super) fn eval(expression: &Expression<'static, 'static>, values: &Value) -> Result<Value, RenderError> {
    expression.eval(values.clone()).map_err(|error| RenderError::Failed(reason(&error)))
}

/// The engine's reason without its debugging aids, which would show values; and short.
fn reason(error: &Error) -> String {
    let text = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    text.chars().take(200).collect()
}

/// Null stays null, so that a parameter with a filter is omitted like one without.
fn time(value: &Value, show: impl Fn(Ts) -> Value) -> Result<Value, Error> {
    if value.is_none() {
        return Ok(value.clone());
    }
    let text = value.as_str().ok_or_else(|| invalid(format!("a time is needed here, not a {}", value.kind())))?;
    text.parse::<Ts>().map(show).map_err(|error| invalid(error.to_string()))
}

fn text(value: &Value, change: impl Fn(&str) -> Result<String, Error>) -> Result<Value, Error> {
    if value.is_none() {
        return Ok(value.clone());
    }
    let text = value.as_str().ok_or_else(|| invalid(format!("a text is needed here, not a {}", value.kind())))?;
    if text.len() > MAX_OUTPUT {
        return Err(invalid(RenderError::TooLong.to_string()));
    }
    change(text).map(Value::from)
}

fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    if from.is_empty() {
        return Err(invalid("replace needs something to look for".into()));
    }
    // Counted first: the result must not be built when it is too long.
    let grown = text.matches(from).count().saturating_mul(to.len()).saturating_add(text.len());
    if grown > MAX_OUTPUT {
        return Err(invalid(RenderError::TooLong.to_string()));
    }
    Ok(text.replace(from, to))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

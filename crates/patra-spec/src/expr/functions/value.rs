//! Functions over values of any kind: defaults, paths, lengths, conversions.

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::super::literal;
use super::super::scan::QUERY;
use super::{FunctionCall, invalid, null, wrong_type};
use crate::selector::PathSegment;

/// The second value if the first is null or not set.
pub(super) fn default(call: &FunctionCall<'_>) -> Result<Value, Error> {
    coalesce(call)
}

/// The first value that is neither null nor unset.
#[expect(clippy::unnecessary_wraps, reason = "all functions have one signature")]
pub(super) fn coalesce(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let found = call.args.iter().find(|value| !value.is_undefined() && !value.is_none());
    Ok(found.cloned().unwrap_or_else(null))
}

/// The value at the path; null if there is none.
pub(super) fn json_path(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let path = call.args[1].as_str().and_then(|text| literal::path(call.run.prepared(), text));
    let path = path.ok_or_else(|| invalid("a path is a quoted text in the template"))?;
    let mut value = call.args[0].clone();
    for segment in path.segments() {
        value = match (segment, value.kind()) {
            (PathSegment::Key(key), ValueKind::Map | ValueKind::Plain) => value.get_attr(key)?,
            (PathSegment::Index(index), ValueKind::Seq) => value.get_item_by_index(*index)?,
            _ => return Ok(null()),
        };
    }
    Ok(if value.is_undefined() { null() } else { value })
}

/// The query parameter of the run, or null.
pub(super) fn render_query(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let query = call.state.lookup("params").map(|params| params.get_attr(QUERY)).transpose()?;
    Ok(query.filter(|query| !query.is_undefined()).unwrap_or_else(null))
}

/// Number of characters, list elements or object members.
pub(super) fn length(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let value = &call.args[0];
    match value.kind() {
        ValueKind::None => Ok(null()),
        ValueKind::Seq | ValueKind::Map => Ok(value.len().into()),
        ValueKind::String => Ok(call.text(0)?.map(|text| text.chars().count()).into()),
        _ => Err(wrong_type("text or list", value)),
    }
}

/// Converts to an integer; a fraction is truncated.
pub(super) fn int(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let value = &call.args[0];
    let number = match value.kind() {
        ValueKind::None => return Ok(null()),
        ValueKind::Number if value.is_integer() => return Ok(value.clone()),
        ValueKind::Number => f64::try_from(value.clone()).ok().and_then(cut),
        ValueKind::String => call.text(0)?.and_then(|text| {
            let text = text.trim();
            text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().and_then(cut))
        }),
        _ => return Err(wrong_type("number", value)),
    };
    match number {
        Some(number) => Ok(number.into()),
        None => call.unusable_value(format!("{} is not a whole number", crate::problem::quote(&value.to_string()))),
    }
}

/// Converts a number or a boolean to text.
pub(super) fn string(call: &FunctionCall<'_>) -> Result<Value, Error> {
    Ok(call.text(0)?.map(Cow::into_owned).into())
}

/// Truncates a float that is within the exact integer range.
fn cut(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked, and the fraction is to go")]
    (number.abs() <= EXACT).then_some(number as i64)
}

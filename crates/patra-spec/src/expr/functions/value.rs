//! Values of any kind: choosing, looking inside, changing their type.

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::super::literal;
use super::super::scan::QUERY;
use super::{Call, invalid, needed, null};
use crate::selector::Segment;

/// The second value where the first is null or not set.
pub(super) fn default(call: &Call<'_>) -> Result<Value, Error> {
    coalesce(call)
}

/// The first value that is neither null nor unset.
#[expect(clippy::unnecessary_wraps, reason = "all functions have one shape")]
pub(super) fn coalesce(call: &Call<'_>) -> Result<Value, Error> {
    let found = call.args.iter().find(|value| !value.is_undefined() && !value.is_none());
    Ok(found.cloned().unwrap_or_else(null))
}

/// What stands at the path; null when nothing does.
pub(super) fn json_path(call: &Call<'_>) -> Result<Value, Error> {
    let path = call.args[1].as_str().and_then(|text| literal::path(call.run.prepared(), text));
    let path = path.ok_or_else(|| invalid("a path is a quoted text in the template"))?;
    let mut value = call.args[0].clone();
    for segment in path.segments() {
        value = match (segment, value.kind()) {
            (Segment::Key(key), ValueKind::Map | ValueKind::Plain) => value.get_attr(key)?,
            (Segment::Index(index), ValueKind::Seq) => value.get_item_by_index(*index)?,
            _ => return Ok(null()),
        };
    }
    Ok(if value.is_undefined() { null() } else { value })
}

/// The query of the run: the parameter of that name, or null.
pub(super) fn render_query(call: &Call<'_>) -> Result<Value, Error> {
    let query = call.state.lookup("params").map(|params| params.get_attr(QUERY)).transpose()?;
    Ok(query.filter(|query| !query.is_undefined()).unwrap_or_else(null))
}

/// Characters of a text, elements of a list, members of an object.
pub(super) fn length(call: &Call<'_>) -> Result<Value, Error> {
    let value = &call.args[0];
    match value.kind() {
        ValueKind::None => Ok(null()),
        ValueKind::Seq | ValueKind::Map => Ok(value.len().into()),
        ValueKind::String => Ok(call.text(0)?.map(|text| text.chars().count()).into()),
        _ => Err(needed("text or list", value)),
    }
}

/// A whole number; a fraction is cut off.
pub(super) fn int(call: &Call<'_>) -> Result<Value, Error> {
    let value = &call.args[0];
    let number = match value.kind() {
        ValueKind::None => return Ok(null()),
        ValueKind::Number if value.is_integer() => return Ok(value.clone()),
        ValueKind::Number => f64::try_from(value.clone()).ok().and_then(cut),
        ValueKind::String => call.text(0)?.and_then(|text| {
            let text = text.trim();
            text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().and_then(cut))
        }),
        _ => return Err(needed("number", value)),
    };
    match number {
        Some(number) => Ok(number.into()),
        None => call.unfit(format!("{} is no whole number", crate::problem::quote(&value.to_string()))),
    }
}

/// A number or a boolean as text.
pub(super) fn string(call: &Call<'_>) -> Result<Value, Error> {
    Ok(call.text(0)?.map(Cow::into_owned).into())
}

/// Within the numbers that a float holds exactly.
fn cut(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "the bounds are checked, and the fraction is to go")]
    (number.abs() <= EXACT).then_some(number as i64)
}

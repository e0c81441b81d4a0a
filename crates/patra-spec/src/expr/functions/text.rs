//! Text functions. A result that could be larger than its input is measured before it is allocated.

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::super::literal;
use super::{FunctionCall, MAX_OUTPUT, RenderError, failed, invalid, null, wrong_type};

pub(super) fn lower(call: &FunctionCall<'_>) -> Result<Value, Error> {
    map_text(call, |text| Ok(text.to_lowercase().into()))
}

pub(super) fn upper(call: &FunctionCall<'_>) -> Result<Value, Error> {
    map_text(call, |text| Ok(text.to_uppercase().into()))
}

pub(super) fn trim(call: &FunctionCall<'_>) -> Result<Value, Error> {
    map_text(call, |text| Ok(text.trim().into()))
}

pub(super) fn replace(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let (Some(from), to) = (call.text(1)?, call.text(2)?.unwrap_or_default()) else { return Ok(call.args[0].clone()) };
    if from.is_empty() {
        return Err(invalid("replace needs a non-empty search text"));
    }
    map_text(call, |text| {
        let grown = text.matches(from.as_ref()).count().saturating_mul(to.len()).saturating_add(text.len());
        if grown > MAX_OUTPUT {
            return Err(failed(RenderError::TooLong));
        }
        call.charge(grown)?;
        Ok(text.replace(from.as_ref(), &to).into())
    })
}

/// Joins its arguments. Null arguments are skipped; the result is null if all are.
pub(super) fn concat(call: &FunctionCall<'_>) -> Result<Value, Error> {
    join_parts(call, call.args.iter(), "")
}

/// Joins a list with a separator. Null elements are skipped.
pub(super) fn join(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let list = &call.args[0];
    match list.kind() {
        ValueKind::None => return Ok(null()),
        ValueKind::Seq => {}
        _ => return Err(wrong_type("list", list)),
    }
    let between = call.text(1)?.unwrap_or_default();
    let items: Vec<Value> = list.try_iter()?.collect();
    join_parts(call, items.iter(), &between)
}

/// The first match, or one of its groups; null if there is none.
pub(super) fn regex_search(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    let pattern = call.args[1].as_str().and_then(|text| literal::pattern(call.run.prepared(), text));
    let pattern = pattern.ok_or_else(|| invalid("a pattern is a quoted text in the template"))?;
    // The cost of a search is up to text bytes times pattern states, of 32 bytes each.
    call.charge(text.len().saturating_mul(pattern.size / 32))?;
    let found = match call.args.get(2) {
        None => pattern.regex.find(&text),
        Some(group) => match (pattern.regex.captures(&text), group.as_usize(), group.as_str()) {
            (_, Some(group), _) if group >= pattern.regex.captures_len() => {
                return Err(invalid(format!("the pattern has no group {group}")));
            }
            (captures, Some(group), _) => captures.and_then(|captures| captures.get(group)),
            (captures, None, Some(name)) if pattern.regex.capture_names().flatten().any(|known| known == name) => {
                captures.and_then(|captures| captures.name(name))
            }
            _ => return Err(invalid("a group is a number from 0, or the name of a group in the pattern")),
        },
    };
    Ok(found.map_or_else(null, |found| found.as_str().into()))
}

fn map_text(
    call: &FunctionCall<'_>,
    change: impl FnOnce(Cow<'_, str>) -> Result<Value, Error>,
) -> Result<Value, Error> {
    match call.text(0)? {
        Some(text) => change(text),
        None => Ok(null()),
    }
}

fn join_parts<'v>(
    call: &FunctionCall<'_>,
    parts: impl Iterator<Item = &'v Value>,
    between: &str,
) -> Result<Value, Error> {
    let mut out: Option<String> = None;
    for part in parts {
        let Some(part) = call.text_of(part)? else { continue };
        let out = match &mut out {
            Some(out) if out.len() + between.len() + part.len() > MAX_OUTPUT => {
                return Err(failed(RenderError::TooLong));
            }
            Some(out) => {
                out.push_str(between);
                out
            }
            None => out.insert(String::new()),
        };
        out.push_str(&part);
    }
    Ok(out.into())
}

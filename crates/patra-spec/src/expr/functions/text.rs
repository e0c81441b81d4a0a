//! Texts. Whatever could grow is measured before it is made.

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::super::literal;
use super::{Call, MAX_OUTPUT, RenderError, failed, invalid, needed, null};

pub(super) fn lower(call: &Call<'_>) -> Result<Value, Error> {
    changed(call, |text| Ok(text.to_lowercase().into()))
}

pub(super) fn upper(call: &Call<'_>) -> Result<Value, Error> {
    changed(call, |text| Ok(text.to_uppercase().into()))
}

pub(super) fn trim(call: &Call<'_>) -> Result<Value, Error> {
    changed(call, |text| Ok(text.trim().into()))
}

pub(super) fn replace(call: &Call<'_>) -> Result<Value, Error> {
    let (Some(from), to) = (call.text(1)?, call.text(2)?.unwrap_or_default()) else { return Ok(call.args[0].clone()) };
    if from.is_empty() {
        return Err(invalid("replace needs something to look for"));
    }
    changed(call, |text| {
        let grown = text.matches(from.as_ref()).count().saturating_mul(to.len()).saturating_add(text.len());
        if grown > MAX_OUTPUT {
            return Err(failed(RenderError::TooLong));
        }
        call.charge(grown)?;
        Ok(text.replace(from.as_ref(), &to).into())
    })
}

/// Null parts are skipped; null when there is no other part.
pub(super) fn concat(call: &Call<'_>) -> Result<Value, Error> {
    joined(call, call.args.iter(), "")
}

/// The same over a list, with something between.
pub(super) fn join(call: &Call<'_>) -> Result<Value, Error> {
    let list = &call.args[0];
    match list.kind() {
        ValueKind::None => return Ok(null()),
        ValueKind::Seq => {}
        _ => return Err(needed("list", list)),
    }
    let between = call.text(1)?.unwrap_or_default();
    let items: Vec<Value> = list.try_iter()?.collect();
    joined(call, items.iter(), &between)
}

/// The first match, or one of its groups; null when there is none.
pub(super) fn regex_search(call: &Call<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    let pattern = call.args[1].as_str().and_then(|text| literal::pattern(call.run.prepared(), text));
    let pattern = pattern.ok_or_else(|| invalid("a pattern is a quoted text in the template"))?;
    // A search can take as many steps as the text has bytes times the pattern has states, of 32 bytes each.
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

fn changed(call: &Call<'_>, change: impl FnOnce(Cow<'_, str>) -> Result<Value, Error>) -> Result<Value, Error> {
    match call.text(0)? {
        Some(text) => change(text),
        None => Ok(null()),
    }
}

fn joined<'v>(call: &Call<'_>, parts: impl Iterator<Item = &'v Value>, between: &str) -> Result<Value, Error> {
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

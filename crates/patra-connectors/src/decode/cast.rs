//! The mapped fields of a record: unchanged, or cast to a declared type.

use serde_json::value::RawValue;

use patra_core::Fault;
use patra_spec::snapshot::{MappingSpec, OutputFieldSpec};
use patra_spec::{FieldType, OnFieldError, TimeFormat};

use super::paths::{SelectorList, broken};
use super::scalar::{flag, is_null, quoted, spelled, text};
use super::time;

#[derive(Debug)]
pub(super) struct FieldCasts {
    /// Constant members of the object.
    constant: String,
    fields: Vec<FieldCast>,
}

#[derive(Debug)]
struct FieldCast {
    slot: usize,
    /// The member as a JSON text.
    name: String,
    path: String,
    r#type: FieldType,
    format: TimeFormat,
    required: bool,
    on_error: OnFieldError,
}

impl FieldCasts {
    pub(super) fn new(mapping: &MappingSpec, paths: &mut SelectorList) -> Result<FieldCasts, Fault> {
        let constant = mapping.add.iter().map(|(name, value)| format!("{}:{value}", quoted(name)));
        let fields = mapping.output_fields.iter().map(|field| FieldCast::new(field, paths));
        Ok(FieldCasts { constant: constant.collect::<Vec<_>>().join(","), fields: fields.collect::<Result<_, _>>()? })
    }

    /// A JSON object from the item's own bytes; missing and null values are left out. An error is the reason to set the
    /// record aside.
    pub(super) fn map(&self, found: &[Option<&RawValue>]) -> Result<String, String> {
        let mut out = String::new();
        if !self.constant.is_empty() {
            out.push('{');
            out.push_str(&self.constant);
        }
        for field in &self.fields {
            let before = out.len();
            out.push(if before == 0 { '{' } else { ',' });
            out.push_str(&field.name);
            out.push(':');
            if !field.write(found[field.slot].filter(|raw| !is_null(raw)), &mut out)? {
                out.truncate(before);
            }
        }
        if !out.is_empty() {
            out.push('}');
        }
        Ok(out)
    }
}

impl FieldCast {
    fn new(declared: &OutputFieldSpec, paths: &mut SelectorList) -> Result<FieldCast, Fault> {
        let format = declared.format.as_deref().map(TimeFormat::parse).transpose();
        Ok(FieldCast {
            slot: paths.add(&declared.expr)?,
            name: quoted(&declared.name),
            path: declared.expr.clone(),
            r#type: declared.r#type.unwrap_or_default(),
            format: format.map_err(|flaw| broken(&flaw.message))?.unwrap_or_default(),
            required: declared.required,
            on_error: declared.on_error,
        })
    }

    /// False when there is nothing to write.
    fn write(&self, raw: Option<&RawValue>, out: &mut String) -> Result<bool, String> {
        let Some(raw) = raw else {
            return if self.required { Err(format!("{} at {} is missing", self.name, self.path)) } else { Ok(false) };
        };
        if self.r#type == FieldType::Json {
            out.push_str(raw.get());
            return Ok(true);
        }
        match self.cast(raw) {
            Some(value) => {
                out.push_str(&value);
                Ok(true)
            }
            None if self.on_error == OnFieldError::Reject => {
                Err(format!("{} at {} is no {}", self.name, self.path, self.r#type.as_str()))
            }
            None => Ok(false),
        }
    }

    /// The value as JSON of the declared type.
    fn cast(&self, raw: &RawValue) -> Option<String> {
        match self.r#type {
            FieldType::Json => Some(raw.get().to_owned()),
            FieldType::String => match raw.get().as_bytes().first()? {
                b'"' => Some(raw.get().to_owned()),
                _ => spelled(raw).map(|text| quoted(&text)),
            },
            FieldType::Integer => integer(text(raw)?.trim()).map(|number| number.to_string()),
            FieldType::Number => number(text(raw)?.trim()),
            FieldType::Boolean => flag(raw).map(|yes| yes.to_string()),
            FieldType::Timestamp => time::instant(&self.format, raw).map(|at| quoted(&at.to_short_text())),
        }
    }
}

fn integer(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    // `3.0` is a whole number; beyond 2^53 a float is not exact.
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0).then_some(number as i64)
}

/// The original spelling where that is JSON, so that no digit is lost.
fn number(text: &str) -> Option<String> {
    if serde_json::from_str::<serde_json::Number>(text).is_ok() {
        return Some(text.to_owned());
    }
    let number: f64 = text.parse().ok()?;
    serde_json::Number::from_f64(number).map(|number| number.to_string())
}

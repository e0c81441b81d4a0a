//! Rows as JSON objects keyed by column: JSON columns nested, times as text.

use patra_core::Ts;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// Columns with JSON, in any table.
const JSON: &[&str] = &[
    "checkpoint",
    "error",
    "expr_snapshot",
    "fan_place",
    "next_position",
    "overrides",
    "params",
    "position",
    "record_remarks",
    "request_digest",
    "response_digest",
    "result",
    "slice_spec",
    "stats",
];

/// Suffixes of columns with times, in any table.
const TIME: &[&str] = &["_at", "_until", "_before", "_instant", "window_from", "window_to", "done_from", "done_to"];

/// Reads a row of `SELECT table.*`. Further columns have no name and are left out.
pub(crate) fn object(row: &Row<'_>) -> Result<Value> {
    let mut object = Map::new();
    for (at, name) in row.as_ref().column_names().enumerate() {
        if name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()) {
            object.insert(name.to_owned(), cell(name, row.get_ref(at)?)?);
        }
    }
    Ok(Value::from(object))
}

fn cell(name: &str, value: ValueRef<'_>) -> Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(micros) if TIME.iter().any(|end| name.ends_with(end)) => json!(Ts::from_micros(micros)),
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) if JSON.contains(&name) => serde_json::from_slice(text)?,
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(_) => return Err(Error::refused(format!("{name} is no text"))),
    })
}

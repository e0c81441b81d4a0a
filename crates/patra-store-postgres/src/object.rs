//! A whole row as a JSON object, keyed by column: JSON nested, times as text. The same in both databases, and the same
//! for a ledger row and an archived one.

use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::{Fail, refused};
use crate::json::JsonText;
use crate::time::maybe;

pub(crate) fn object(row: &Row) -> Result<Value, Fail> {
    let mut object = Map::new();
    for (at, column) in row.columns().iter().enumerate() {
        object.insert(column.name().to_owned(), value(row, at, column.type_())?);
    }
    Ok(Value::Object(object))
}

fn value(row: &Row, at: usize, kind: &Type) -> Result<Value, Fail> {
    Ok(match *kind {
        Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map(Value::from),
        Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(Value::from),
        Type::TEXT => row.try_get::<_, Option<String>>(at)?.map(Value::from),
        Type::TIMESTAMPTZ => maybe(row, at)?.map(|ts| Value::from(ts.to_string())),
        Type::JSONB => row.try_get::<_, Option<JsonText>>(at)?.map(|JsonText(text)| nested(text)),
        _ => {
            return Err(refused(format!(
                "{} has a type that no row of the ledger has: {kind}",
                row.columns()[at].name()
            )));
        }
    }
    .unwrap_or(Value::Null))
}

/// JSON stays JSON; a number that serde_json cannot read becomes its text.
pub(crate) fn nested(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

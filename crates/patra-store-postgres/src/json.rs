//! Text to and from `jsonb`, and bytes to `text`, without parsing values.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, BytesMut};
use patra_core::hash;
use serde::Serialize;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// The only version of the binary format of `jsonb`.
const VERSION: u8 = 1;

/// JSON text as a `jsonb` parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: AsRef<str> + fmt::Debug> ToSql for Json<T> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_u8(VERSION);
        out.put_slice(self.0.as_ref().as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSONB);
    to_sql_checked!();
}

/// A `jsonb` column as canonical text. The database keeps the value, not its spelling; the canonical spelling is the
/// one that was written, and the same as in SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonText(pub(crate) String);

impl<'a> FromSql<'a> for JsonText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<JsonText, Box<dyn Error + Sync + Send>> {
        let (version, text) = raw.split_first().ok_or("an empty jsonb value")?;
        if *version != VERSION {
            return Err(format!("jsonb in version {version}").into());
        }
        // serde_json cannot read a number beyond f64, which jsonb allows: keep the database's spelling.
        Ok(JsonText(match serde_json::from_slice(text) {
            Ok(value) => hash::canonical(&value),
            Err(_) => std::str::from_utf8(text)?.to_owned(),
        }))
    }

    accepts!(JSONB);
}

impl Json<String> {
    /// The type of this crate.
    pub(crate) fn of(value: &impl Serialize) -> Result<Json<String>, serde_json::Error> {
        serde_json::to_string(value).map(Json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jsonb_carries_a_version_and_comes_back_canonical() {
        let mut out = BytesMut::new();
        Json(r#"{ "b": 1, "a": [] }"#).to_sql(&Type::JSONB, &mut out).unwrap();
        assert_eq!(out[0], VERSION);
        assert_eq!(JsonText::from_sql(&Type::JSONB, &out).unwrap().0, r#"{"a":[],"b":1}"#);
    }

    #[test]
    fn number_beyond_f64_keeps_its_spelling() {
        assert_eq!(JsonText::from_sql(&Type::JSONB, b"\x011e999").unwrap().0, "1e999");
        assert!(JsonText::from_sql(&Type::JSONB, b"\x02{}").is_err());
    }
}

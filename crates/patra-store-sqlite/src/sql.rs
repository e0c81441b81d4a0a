//! Small helpers between rows and the core's types, and the list of every statement of this crate.

use std::error::Error;
use std::str::FromStr;

use patra_core::Ts;
use rusqlite::Row;
use rusqlite::types::Type;

pub(crate) fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Ts> {
    row.get(at).map(Ts::from_micros)
}

pub(crate) fn maybe_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Ts>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Ts::from_micros))
}

/// A word of one of the closed dictionaries: states, operations, scopes.
pub(crate) fn word<T>(row: &Row<'_>, at: usize) -> rusqlite::Result<T>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let text = row.get_ref(at)?.as_str().map_err(|error| unreadable(at, error))?;
    text.parse().map_err(|error| unreadable(at, error))
}

fn unreadable(at: usize, error: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error))
}

/// Every fixed statement, so that one test can prepare them all.
#[cfg(test)]
pub(crate) fn statements() -> impl Iterator<Item = &'static str> {
    crate::exec::STATEMENTS.iter().chain(crate::query::STATEMENTS).flat_map(|list| list.iter().copied())
}

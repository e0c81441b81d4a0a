//! Small helpers between rows and the core's types, and the list of every statement of this crate.

use std::error::Error;
use std::str::FromStr;

use patra_core::{Ts, Window};
use rusqlite::Row;
use rusqlite::types::{Type, ValueRef};

pub(crate) fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Ts> {
    row.get(at).map(Ts::from_micros)
}

pub(crate) fn maybe_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Ts>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Ts::from_micros))
}

/// Reads two columns that are both set or both null.
pub(crate) fn maybe_window(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Window>> {
    let (from, to) = (maybe_time(row, at)?, maybe_time(row, at + 1)?);
    Ok(from.zip(to).map(|(from, to)| Window { from, to }))
}

/// Reads a word of one of the closed dictionaries: states, operations, scopes.
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

/// Reads an optional word.
pub(crate) fn maybe_word<T>(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<T>>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        _ => word(row, at).map(Some),
    }
}

/// Reads a count. A negative one is corrupt and becomes 0 instead of an error.
pub(crate) fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0))
}

pub(crate) fn from_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Every fixed statement, for the test that prepares them all.
#[cfg(test)]
pub(crate) fn statements() -> impl Iterator<Item = &'static str> {
    crate::exec::STATEMENTS.iter().chain(crate::query::STATEMENTS).flat_map(|list| list.iter().copied())
}

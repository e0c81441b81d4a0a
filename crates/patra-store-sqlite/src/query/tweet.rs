//! Stored tweets, page by page. Each combination of conditions is a statement, so that each has its index.

use patra_core::Ts;
use patra_core::port::pool::{ListPosition, StoredTweet, TweetFilter};
use rusqlite::{Connection, Row, params};

use super::all;
use crate::error::Result;
use crate::sql::time;

/// A time as the views show it. Must be exactly the expression of the indexes of all projects.
macro_rules! iso {
    ($time:literal) => {
        concat!(
            "(strftime('%Y-%m-%dT%H:%M:%S', ",
            $time,
            " / 1000000 - (",
            $time,
            " % 1000000 < 0), 'unixepoch') || printf('.%06dZ', (",
            $time,
            " % 1000000 + 1000000) % 1000000))"
        )
    };
}

/// Columns of a page. The last two are its position.
macro_rules! select {
    ($time:literal, $index:literal) => {
        concat!(
            "
SELECT fields, created_at, stored_at, ",
            $time,
            ", id FROM item INDEXED BY ",
            $index,
            "
WHERE kind = 'tweet' AND emptied_at IS NULL AND "
        )
    };
}

/// A page of an author. The tweets of one author are few enough to be sorted.
macro_rules! of_author {
    ($time:literal, $condition:literal) => {
        concat!(
            select!($time, "idx_tweets_author_created"),
            "lower(json_extract(nullif(fields, ''), '$.author_username') COLLATE BINARY) = ?2
  AND (?1 IS NULL OR project_key = ?1) AND ",
            $condition,
            " AND (",
            $time,
            ", id) < (?5, ?6)
ORDER BY ",
            $time,
            " DESC, id DESC
LIMIT ?4"
        )
    };
}

/// A page in the order of an index. Without a position or a start, `~` stands for the end: it comes behind every digit.
macro_rules! in_order {
    ($time:literal, $index:literal, $condition:expr) => {
        concat!(
            select!($time, $index),
            $condition,
            " AND ",
            iso!($time),
            " <= coalesce(",
            iso!("?5"),
            ", '~')
  AND (",
            iso!($time),
            ", id) < (coalesce(",
            iso!("?5"),
            ", '~'), ?6)
ORDER BY ",
            iso!($time),
            " DESC, id DESC
LIMIT ?4"
        )
    };
}

/// Stored at `?3` or later.
macro_rules! since {
    () => {
        concat!(iso!("created_at"), " >= coalesce(", iso!("?3"), ", '~')")
    };
}

pub(crate) const OF_AUTHOR: &str = of_author!("updated_at", "?3 IS NULL");
pub(crate) const OF_AUTHOR_SINCE: &str = of_author!("created_at", "created_at >= ?3");
pub(crate) const OF_PROJECT: &str =
    in_order!("updated_at", "idx_tweets_created", "project_key = ?1 AND ?2 IS NULL AND ?3 IS NULL");
pub(crate) const OF_PROJECT_SINCE: &str =
    in_order!("created_at", "idx_tweets_stored", concat!("project_key = ?1 AND ?2 IS NULL AND ", since!()));
pub(crate) const OF_ALL: &str =
    in_order!("updated_at", "idx_tweets_written_at", "?1 IS NULL AND ?2 IS NULL AND ?3 IS NULL");
pub(crate) const OF_ALL_SINCE: &str =
    in_order!("created_at", "idx_tweets_db_created_at", concat!("?1 IS NULL AND ?2 IS NULL AND ", since!()));

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[OF_AUTHOR, OF_AUTHOR_SINCE, OF_PROJECT, OF_PROJECT_SINCE, OF_ALL, OF_ALL_SINCE];

pub(super) fn read(db: &Connection, filter: &TweetFilter) -> Result<Vec<StoredTweet>> {
    let (author, since) = (filter.author.as_ref().map(|author| author.to_lowercase()), filter.since.map(Ts::micros));
    let statement = match (&author, &filter.project_key, since) {
        (Some(_), _, None) => OF_AUTHOR,
        (Some(_), _, Some(_)) => OF_AUTHOR_SINCE,
        (None, Some(_), None) => OF_PROJECT,
        (None, Some(_), Some(_)) => OF_PROJECT_SINCE,
        (None, None, None) => OF_ALL,
        (None, None, Some(_)) => OF_ALL_SINCE,
    };
    let ListPosition { at, id } = filter.before.unwrap_or(ListPosition::START);
    all(db, statement, params![filter.project_key, author, since, filter.limit, at.micros(), id], read_tweet)
}

fn read_tweet(row: &Row<'_>) -> rusqlite::Result<StoredTweet> {
    Ok(StoredTweet {
        fields: row.get(0)?,
        db_created_at: time(row, 1)?,
        db_updated_at: time(row, 2)?,
        position: ListPosition { at: time(row, 3)?, id: row.get(4)? },
    })
}

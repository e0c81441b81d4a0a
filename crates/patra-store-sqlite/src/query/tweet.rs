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

/// A page by an index. A missing position or start is the end of the calendar: `~` comes behind every digit.
macro_rules! page {
    ($index:literal, $condition:expr, $column:literal, $order:expr, $before:expr) => {
        concat!(
            "
SELECT fields, created_at, stored_at, ",
            $column,
            ", id FROM item INDEXED BY ",
            $index,
            "
WHERE kind = 'tweet' AND emptied_at IS NULL AND ",
            $condition,
            " AND (",
            $order,
            ", id) < (",
            $before,
            ", ?6)
ORDER BY ",
            $order,
            " DESC, id DESC
LIMIT ?4"
        )
    };
}

macro_rules! by_author {
    () => {
        "lower(json_extract(nullif(fields, ''), '$.author_username')) = ?2 AND (?1 IS NULL OR project_key = ?1)"
    };
}

pub(crate) const OF_AUTHOR: &str =
    page!("idx_tweets_author_created", concat!(by_author!(), " AND ?3 IS NULL"), "updated_at", "updated_at", "?5");

// Sorted: an author has few tweets.
pub(crate) const OF_AUTHOR_SINCE: &str = page!(
    "idx_tweets_author_created",
    concat!(by_author!(), " AND created_at >= ?3"),
    "created_at",
    "created_at",
    "?5"
);

pub(crate) const OF_PROJECT: &str =
    page!("idx_tweets_created", "project_key = ?1 AND ?2 IS NULL AND ?3 IS NULL", "updated_at", "updated_at", "?5");

pub(crate) const OF_PROJECT_SINCE: &str = page!(
    "idx_tweets_stored",
    "project_key = ?1 AND ?2 IS NULL AND created_at >= ?3",
    "created_at",
    "created_at",
    "?5"
);

pub(crate) const OF_ALL: &str = page!(
    "idx_tweets_written_at",
    "?1 IS NULL AND ?2 IS NULL AND ?3 IS NULL",
    "updated_at",
    iso!("updated_at"),
    concat!("coalesce(", iso!("?5"), ", '~')")
);

pub(crate) const OF_ALL_SINCE: &str = page!(
    "idx_tweets_db_created_at",
    concat!("?1 IS NULL AND ?2 IS NULL AND ", iso!("created_at"), " >= coalesce(", iso!("?3"), ", '~')"),
    "created_at",
    iso!("created_at"),
    concat!("coalesce(", iso!("?5"), ", '~')")
);

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

//! Items as documents and as tweets. No text of this database can contain the character NUL, which JSON can express: it
//! is read as a blank, so that one such item does not hide others.

use patra_core::SourceId;
use patra_core::port::pool::{DocumentFilter, DocumentRow, ListPosition, StoredTweet, TweetFilter};
use patra_core::tweet::FetchStats;
use tokio_postgres::Row;

use crate::error::Fail;
use crate::exec::read_stats;
use crate::pool::Session;
use crate::time::Time;

/// A value of the fields, as text.
macro_rules! field {
    ($json:literal, $name:literal) => {
        concat!(r"(replace(nullif(fields, ''), '\u0000', '\u0020')::", $json, " ->> '", $name, "')")
    };
}

pub(crate) const DOCUMENTS: &str = concat!(
    "
SELECT id, fields, payload, kind FROM item
WHERE project_key = $1 AND emptied_at IS NULL AND id < coalesce($4, 9223372036854775807)
  AND (cardinality($2::text[]) = 0 OR coalesce(",
    field!("json", "doc_type"),
    ", kind) = ANY ($2)) AND (cardinality($3::text[]) = 0 OR ",
    field!("json", "state"),
    " = ANY ($3))
ORDER BY id DESC
LIMIT $5"
);

/// If ids are given, no other filter applies.
const THESE_DOCUMENTS: &str = "
SELECT id, fields, payload, kind FROM item
WHERE project_key = $1 AND emptied_at IS NULL AND id = ANY ($2::bigint[]) 
  AND id < coalesce($3, 9223372036854775807)
ORDER BY id DESC
LIMIT $4";

/// A page of tweets. Each combination of conditions is a statement, so that each has its index whatever its values are.
macro_rules! tweets {
    ($project:expr, $author:expr, $since:expr, $time:literal) => {
        concat!(
            "
SELECT fields, created_at, stored_at, ",
            $time,
            ", id FROM item
WHERE kind = 'tweet' AND emptied_at IS NULL AND ",
            $project,
            " AND ",
            $author,
            " AND ",
            $since,
            " AND (",
            $time,
            ", id) < (coalesce($5, 'infinity'::timestamptz), coalesce($6, 9223372036854775807))
ORDER BY ",
            $time,
            " DESC, id DESC
LIMIT $4"
        )
    };
    ($project:expr, $author:expr) => {
        [
            tweets!($project, $author, "$3::timestamptz IS NULL", "updated_at"),
            tweets!($project, $author, "created_at >= $3", "created_at"),
        ]
    };
}

/// Must be exactly the expression of the index.
macro_rules! by_author {
    () => {
        concat!("lower(", field!("jsonb", "author_username"), " COLLATE \"C\") = lower($2::text COLLATE \"C\")")
    };
}

/// Without and with `since`, each.
pub(crate) const TWEETS: [&str; 2] = tweets!("$1::text IS NULL", "$2::text IS NULL");
pub(crate) const TWEETS_OF_PROJECT: [&str; 2] = tweets!("project_key = $1", "$2::text IS NULL");
pub(crate) const TWEETS_OF_AUTHOR: [&str; 2] = tweets!("$1::text IS NULL", by_author!());
pub(crate) const TWEETS_OF_BOTH: [&str; 2] = tweets!("project_key = $1", by_author!());

const STATS: &str = "
SELECT source_id, last_fetch_at, last_fetched_count, last_new_count, total_fetches, avg_new_rate,
  consecutive_empty_fetches, newest_id
FROM source_stats
WHERE source_id = ANY ($1::bigint[])
ORDER BY source_id";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    DOCUMENTS,
    THESE_DOCUMENTS,
    TWEETS[0],
    TWEETS[1],
    TWEETS_OF_PROJECT[0],
    TWEETS_OF_PROJECT[1],
    TWEETS_OF_AUTHOR[0],
    TWEETS_OF_AUTHOR[1],
    TWEETS_OF_BOTH[0],
    TWEETS_OF_BOTH[1],
    STATS,
];

pub(crate) async fn documents(session: &Session, filter: DocumentFilter) -> Result<Vec<DocumentRow>, Fail> {
    let DocumentFilter { project_key, ids, doc_types, states, before, limit } = &filter;
    let limit = i64::from(*limit);
    let rows = match ids {
        Some(ids) => {
            let [these] = session.prepare([THESE_DOCUMENTS]).await?;
            session.rows(&these, &[project_key, ids, before, &limit]).await?
        }
        None => {
            let [documents] = session.prepare([DOCUMENTS]).await?;
            session.rows(&documents, &[project_key, doc_types, states, before, &limit]).await?
        }
    };
    let read = |row: &Row| {
        Ok(DocumentRow {
            id: row.try_get(0)?,
            fields: row.try_get(1)?,
            payload: row.try_get(2)?,
            kind: row.try_get(3)?,
        })
    };
    rows.iter().map(read).collect()
}

pub(crate) async fn tweets(session: &Session, filter: TweetFilter) -> Result<Vec<StoredTweet>, Fail> {
    let TweetFilter { project_key, author, since, before, limit } = &filter;
    let statements = match (project_key, author) {
        (None, None) => TWEETS,
        (Some(_), None) => TWEETS_OF_PROJECT,
        (None, Some(_)) => TWEETS_OF_AUTHOR,
        (Some(_), Some(_)) => TWEETS_OF_BOTH,
    };
    let [tweets] = session.prepare([statements[usize::from(since.is_some())]]).await?;
    let (before_at, before_id) = (before.map(|before| Time(before.at)), before.map(|before| before.id));
    let (since, limit) = (since.map(Time), i64::from(*limit));
    let rows = session.rows(&tweets, &[project_key, author, &since, &limit, &before_at, &before_id]).await?;
    let read = |row: &Row| {
        Ok(StoredTweet {
            fields: row.try_get(0)?,
            db_created_at: row.try_get::<_, Time>(1)?.0,
            db_updated_at: row.try_get::<_, Time>(2)?.0,
            position: ListPosition { at: row.try_get::<_, Time>(3)?.0, id: row.try_get(4)? },
        })
    };
    rows.iter().map(read).collect()
}

pub(crate) async fn fetch_stats(session: &Session, sources: Vec<i64>) -> Result<Vec<(SourceId, FetchStats)>, Fail> {
    let [stats] = session.prepare([STATS]).await?;
    let rows = session.rows(&stats, &[&sources]).await?;
    rows.iter().map(|row| read_stats(row).map(|(source, stats)| (SourceId(source), stats))).collect()
}

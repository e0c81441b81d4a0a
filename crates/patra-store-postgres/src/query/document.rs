//! Items as documents and as tweets. No text of this database can contain the character NUL, which JSON can express: it
//! is read as a blank, so that one such item does not hide others.

use patra_core::SourceId;
use patra_core::port::pool::{DocumentFilter, DocumentRow, StoredTweet, TweetFilter};
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

macro_rules! tweets {
    ($author:expr) => {
        concat!(
            "
SELECT fields, created_at, stored_at FROM item
WHERE kind = 'tweet' AND emptied_at IS NULL AND ",
            $author,
            " AND ($1::text IS NULL OR project_key = $1) AND ($3::timestamptz IS NULL OR created_at >= $3)
ORDER BY updated_at DESC, id DESC
LIMIT $4"
        )
    };
}

const TWEETS: &str = tweets!("$2::text IS NULL");

/// Must be exactly the expression of the index.
pub(crate) const TWEETS_OF: &str =
    tweets!(concat!("lower(", field!("jsonb", "author_username"), " COLLATE \"C\") = lower($2::text COLLATE \"C\")"));

const STATS: &str = "
SELECT source_id, last_fetch_at, last_fetched_count, last_new_count, total_fetches, avg_new_rate,
  consecutive_empty_fetches
FROM source_stats
WHERE source_id = ANY ($1::bigint[])
ORDER BY source_id";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[DOCUMENTS, THESE_DOCUMENTS, TWEETS, TWEETS_OF, STATS];

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
    let [tweets] = session.prepare([if filter.author.is_some() { TWEETS_OF } else { TWEETS }]).await?;
    let TweetFilter { project_key, author, since, limit } = &filter;
    let rows = session.rows(&tweets, &[project_key, author, &since.map(Time), &i64::from(*limit)]).await?;
    let read = |row: &Row| {
        Ok(StoredTweet {
            fields: row.try_get(0)?,
            db_created_at: row.try_get::<_, Time>(1)?.0,
            db_updated_at: row.try_get::<_, Time>(2)?.0,
        })
    };
    rows.iter().map(read).collect()
}

pub(crate) async fn fetch_stats(session: &Session, sources: Vec<i64>) -> Result<Vec<(SourceId, FetchStats)>, Fail> {
    let [stats] = session.prepare([STATS]).await?;
    let rows = session.rows(&stats, &[&sources]).await?;
    rows.iter().map(|row| read_stats(row).map(|(source, stats)| (SourceId(source), stats))).collect()
}

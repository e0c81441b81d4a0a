//! Queries about projects, the URL pool, and the items that URLs are found in. Read-only.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use super::BoxFuture;
use crate::id::SourceId;
use crate::project::{Library, LibraryScope};
use crate::state::TaskStatus;
use crate::time::Ts;
use crate::tweet::FetchStats;
use crate::tx::{TxError, UrlSource};

/// Read access to projects and the pool.
pub trait PoolQueries: fmt::Debug + Send + Sync {
    /// All projects, by key.
    fn projects(&self) -> BoxFuture<'_, Result<Vec<ProjectRow>, TxError>>;

    /// One page of URLs, newest first, then by descending id, and the total (POOL-59). With both libraries, a
    /// project's entry hides the shared one before anything is filtered (POOL-09).
    fn pool_urls(&self, filter: UrlFilter) -> BoxFuture<'_, Result<UrlPage, TxError>>;

    /// Captured job types: of a project by job type, or of all projects.
    fn capture_rules(&self, project_key: Option<&str>) -> BoxFuture<'_, Result<Vec<CaptureRule>, TxError>>;

    /// Documents, newest first (greatest id), with the texts that URLs are extracted from. Emptied items are skipped.
    fn documents(&self, filter: DocumentFilter) -> BoxFuture<'_, Result<Vec<DocumentRow>, TxError>>;

    /// Jobs of a project that have ended and were not cancelled, without background jobs, newest first (POOL-79):
    /// planned or finished, with no open task of their own or of their partitions. Partitions do not count as jobs.
    fn ended_jobs(&self, filter: JobFilter) -> BoxFuture<'_, Result<Vec<EndedJob>, TxError>>;

    /// Items that a job's runs stored last, including those of its partitions, by id, starting behind `after`: id,
    /// fields, payload.
    fn items_of_job(&self, job: i64, after: i64, limit: u32) -> BoxFuture<'_, Result<Vec<JobItem>, TxError>>;

    /// The polls of a job, by source.
    fn polls_of_job(&self, job: i64) -> BoxFuture<'_, Result<Vec<JobPoll>, TxError>>;

    /// Statistics of these sources; sources without any are skipped.
    fn fetch_stats(&self, sources: &[SourceId]) -> BoxFuture<'_, Result<Vec<(SourceId, FetchStats)>, TxError>>;

    /// Stored tweets, newest `created_at` first; with `since`, the last stored first (TWEET-103). At equal times, the
    /// greater id comes first.
    fn tweets(&self, filter: TweetFilter) -> BoxFuture<'_, Result<Vec<StoredTweet>, TxError>>;

    /// All job types of a project that occur in the ledger.
    fn job_types(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<String>, TxError>>;
}

/// Id, fields and payload of an item.
pub type JobItem = (i64, String, String);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectRow {
    pub project_key: String,
    pub name: String,
    pub created_at: Ts,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UrlFilter {
    /// Not needed for the shared library.
    pub project_key: String,
    pub scope: LibraryScope,
    pub source: Option<UrlSource>,
    /// Substring of the domain, lower case; no character is special.
    pub domain: Option<String>,
    /// From 0. Entries that are added meanwhile move the pages; `before` does not.
    pub offset: u64,
    /// Only rows behind this one: the next page.
    pub before: Option<ListPosition>,
    pub limit: u32,
}

/// Position of a row in a list that is ordered by time and then by id, newest first. A page that begins behind a
/// position is the same however many rows were added before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ListPosition {
    pub at: Ts,
    pub id: i64,
}

impl ListPosition {
    /// Before the first row.
    pub const START: ListPosition = ListPosition { at: Ts::MAX, id: i64::MAX };
}

impl fmt::Display for ListPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.micros(), self.id)
    }
}

/// The text is not a position of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a position has the form 1700000000000000.42; take it from the page before")]
pub struct InvalidListPosition;

impl FromStr for ListPosition {
    type Err = InvalidListPosition;

    fn from_str(text: &str) -> Result<ListPosition, InvalidListPosition> {
        let (at, id) = text.split_once('.').ok_or(InvalidListPosition)?;
        let number = |text: &str| text.parse::<i64>().map_err(|_| InvalidListPosition);
        Ok(ListPosition { at: Ts::from_micros(number(at)?), id: number(id)? })
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UrlPage {
    pub items: Vec<PoolUrl>,
    pub total: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolUrl {
    pub id: i64,
    pub url: String,
    pub domain: String,
    pub source: UrlSource,
    /// JSON.
    pub source_ref: String,
    pub library: Library,
    pub created_at: Ts,
}

impl PoolUrl {
    pub fn position(&self) -> ListPosition {
        ListPosition { at: self.created_at, id: self.id }
    }

    /// The `source_ref` that readers see (POOL-57). For an entry of the shared library, the document or job that it
    /// was found in may belong to another project: a project does not see it (POOL-126).
    pub fn to_json(&self, to_project: bool) -> Value {
        let source_ref = match self.library {
            Library::Shared if to_project => json!({}),
            _ => serde_json::from_str(&self.source_ref).unwrap_or_default(),
        };
        json!({
            "id": self.id, "url": self.url, "domain": self.domain, "source": self.source, "source_ref": source_ref,
            "scope": self.library, "created_at": self.created_at,
        })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureRule {
    pub project_key: String,
    pub job_type: String,
    pub library: Library,
    pub enabled: bool,
    pub updated_at: Ts,
}

/// `ids` alone decide when they are given (POOL-32); otherwise values of one list are alternatives and all lists must
/// match.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DocumentFilter {
    pub project_key: String,
    pub ids: Option<Vec<i64>>,
    /// `doc_type` of the fields, or else the item's kind; empty for all.
    pub doc_types: Vec<String>,
    /// `state` of the fields; empty for all.
    pub states: Vec<String>,
    /// Only smaller ids: the next page.
    pub before: Option<i64>,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentRow {
    pub id: i64,
    /// Item's fields, a JSON object or empty.
    pub fields: String,
    /// As received, JSON.
    pub payload: String,
    pub kind: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobFilter {
    pub project_key: String,
    pub public_ids: Option<Vec<String>>,
    pub job_type: Option<String>,
    /// Requested at or after.
    pub since: Option<Ts>,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedJob {
    pub job: i64,
    pub public_id: String,
    pub job_type: String,
    /// JSON.
    pub params: String,
    /// JSON.
    pub result: Option<String>,
}

/// One poll of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobPoll {
    pub source: SourceId,
    /// Config of the source, JSON; empty when the source was deleted.
    pub config: String,
    /// `ing_task.params`.
    pub params: String,
    pub status: TaskStatus,
    /// `ing_task.error`, JSON.
    pub error: Option<String>,
    pub started_at: Option<Ts>,
    pub finished_at: Option<Ts>,
    /// Sums over the committed batches of all runs of the task.
    pub inserted: u64,
    pub updated: u64,
    pub skipped: u64,
    pub rejected: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TweetFilter {
    pub project_key: Option<String>,
    /// Case-insensitive.
    pub author: Option<String>,
    /// Stored at or after. The time of storing is then also the order.
    pub since: Option<Ts>,
    /// Only rows behind this one: the next page.
    pub before: Option<ListPosition>,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTweet {
    /// The columns of a tweet as mapped, a JSON object.
    pub fields: String,
    pub db_created_at: Ts,
    pub db_updated_at: Ts,
    /// Position in the list it was read from.
    pub position: ListPosition,
}

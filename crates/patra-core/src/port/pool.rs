//! What can be read of projects, of the URL pool, and of what URLs are found in. Nothing here can write.

use std::fmt;

use serde_json::{Value, json};

use super::Boxed;
use crate::id::SourceId;
use crate::project::{Library, Sight};
use crate::state::TaskStatus;
use crate::time::Ts;
use crate::tweet::FetchStats;
use crate::tx::{TxError, UrlSource};

/// Read access to projects and the pool.
pub trait Pool: fmt::Debug + Send + Sync {
    /// All projects, by key.
    fn projects(&self) -> Boxed<'_, Result<Vec<Project>, TxError>>;

    /// One page of URLs, newest first, then by id from above, and how many there are (POOL-59). Of both libraries the
    /// project's entry covers the shared one before anything is filtered (POOL-09).
    fn pool_urls(&self, ask: UrlFilter) -> Boxed<'_, Result<UrlPage, TxError>>;

    /// Which job types are captured: of a project by job type, or of all.
    fn capture_rules(&self, project_key: Option<&str>) -> Boxed<'_, Result<Vec<CaptureRule>, TxError>>;

    /// Documents, newest first (greatest id), with what URLs are looked for in. Emptied items are none.
    fn documents(&self, ask: DocumentFilter) -> Boxed<'_, Result<Vec<Document>, TxError>>;

    /// Jobs of a project that have ended and were not cancelled, chores apart, newest first (POOL-79): planned or finished, and
    /// no task of them or of their partitions is open. Partitions are no jobs of their own.
    fn ended_jobs(&self, ask: JobFilter) -> Boxed<'_, Result<Vec<EndedJob>, TxError>>;

    /// Items that a job's runs stored last, those of its partitions too, by id, from the one behind `after` on: id, fields,
    /// payload.
    fn items_of_job(&self, instance: i64, after: i64, limit: u32) -> Boxed<'_, Result<Vec<JobItem>, TxError>>;

    /// The polls of a job, by source.
    fn polls_of_job(&self, instance: i64) -> Boxed<'_, Result<Vec<JobPoll>, TxError>>;

    /// Statistics of these sources; those that have none left out.
    fn fetch_stats(&self, sources: &[SourceId]) -> Boxed<'_, Result<Vec<(SourceId, FetchStats)>, TxError>>;

    /// Stored tweets, newest `created_at` first, then by id from above (TWEET-103).
    fn tweets(&self, ask: TweetFilter) -> Boxed<'_, Result<Vec<StoredTweet>, TxError>>;

    /// Every job type that the ledger has seen of a project.
    fn job_types(&self, project_key: &str) -> Boxed<'_, Result<Vec<String>, TxError>>;
}

/// Id, fields and payload of an item.
pub type JobItem = (i64, String, String);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Project {
    pub project_key: String,
    pub name: String,
    pub created_at: Ts,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UrlFilter {
    /// Not needed for the shared library.
    pub project_key: String,
    pub sight: Sight,
    pub source: Option<UrlSource>,
    /// Part of the domain, lower case; nothing in it has a meaning of its own.
    pub domain: Option<String>,
    /// From 0.
    pub offset: u64,
    pub limit: u32,
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
    /// As it is told (POOL-57). In which document or job an entry of the shared library was found is its finder's affair, who may be
    /// another project: a project that reads is not told (POOL-126).
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

/// `ids` alone decide when they are given (POOL-32); else values of one list are alternatives and all lists must match.
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
pub struct Document {
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
    /// Asked for at or after.
    pub since: Option<Ts>,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedJob {
    pub instance: i64,
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
    /// The source's, JSON; empty when the source is gone.
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
    /// Whatever the case of its letters.
    pub author: Option<String>,
    /// Stored at or after.
    pub since: Option<Ts>,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTweet {
    /// The columns of a tweet as mapped, a JSON object.
    pub fields: String,
    pub db_created_at: Ts,
    pub db_updated_at: Ts,
}

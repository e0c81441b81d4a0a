//! The URL pool: URLs of documents and tasks, which tasks are watched for them, and the documents themselves.

use crate::project::Library;

/// URLs of one [`AddUrls`], at most: a transaction of everybody's database stays short.
pub const MAX_URLS: usize = 1_000;
/// URLs of one [`Capture`], at most.
pub const MAX_CAPTURED: usize = 10_000;
/// Job types of one [`ConfigureCapture`], at most.
pub const MAX_JOB_TYPES: usize = 100;

/// Where a URL was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UrlSource {
    Document,
    Task,
}

impl UrlSource {
    pub fn as_str(self) -> &'static str {
        match self {
            UrlSource::Document => "document",
            UrlSource::Task => "task",
        }
    }
}

impl std::str::FromStr for UrlSource {
    type Err = crate::state::UnknownWord;
    fn from_str(text: &str) -> Result<UrlSource, Self::Err> {
        [UrlSource::Document, UrlSource::Task]
            .into_iter()
            .find(|source| source.as_str() == text)
            .ok_or_else(|| crate::state::UnknownWord { kind: "source", word: text.to_owned() })
    }
}

/// A normalised URL on its way into the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundUrl {
    pub url: String,
    pub domain: String,
    /// JSON, an object: `{"document_id": 42}`.
    pub source_ref: String,
}

/// Adds URLs to a library. One that is there stays as it is, with its first finding (POOL-58); writers of the same URL at the
/// same time make one row and no error. The counters of `resource_pool_count` follow in the same transaction.
/// At most [`MAX_URLS`]; one URL once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddUrls {
    pub library: Library,
    /// Whose; of the shared library nobody's.
    pub project_key: String,
    pub source: UrlSource,
    pub urls: Vec<FoundUrl>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UrlsAdded {
    pub new: u32,
}

/// URLs that a page brought, for [`CommitBatch`](super::CommitBatch) and [`WriteNote`](super::WriteNote): added as [`AddUrls`]
/// does, `source` task, `source_ref` `{"task_id": <public id of the task's trigger, or null>, "job_type": …}`. When they cannot
/// be stored, whatever the reason, the rest of the transaction stands (POOL-88) and the answer says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capture {
    pub library: Library,
    pub job_type: String,
    /// URL and domain, sorted by URL, one each; at most [`MAX_CAPTURED`].
    pub urls: Vec<(String, String)>,
}

impl Capture {
    /// Where the URLs were found, given the public id of the task's trigger.
    pub fn source_ref(&self, task_id: Option<&str>) -> String {
        serde_json::json!({ "task_id": task_id, "job_type": self.job_type }).to_string()
    }
}

/// What became of a [`Capture`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Captured {
    /// There was none.
    #[default]
    None,
    Stored {
        new: u32,
    },
    Failed,
}

/// Whether URLs of these job types are captured for a project, and into which library. Others stay as they are (POOL-67).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigureCapture {
    pub project_key: String,
    pub library: Library,
    pub job_types: Vec<String>,
    pub enabled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureConfigured;

/// Stores a document as an item: kind `document`, provenance and endpoint `documents`, `dedup_scope` `document`, key = uri,
/// `updated_at` = now, version 0, run 0. The same content again changes nothing; another content replaces it, fields and
/// payload. One that was emptied is filled again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutDocument {
    pub project_key: String,
    pub uri: String,
    /// JSON, an object: `uri`, `title`, `doc_type`, `state`, `content`, `extracted_data`.
    pub fields: String,
    /// As it was given, JSON.
    pub payload: String,
    /// [`crate::hash::content_hash`] of `fields`.
    pub content_hash: [u8; 16],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DocumentPut {
    /// Of the item.
    pub id: i64,
    pub created: bool,
    /// It was there with another content.
    pub changed: bool,
}

//! The URL pool: URLs of documents and tasks, the job types that are captured, and the documents themselves.

use crate::project::Library;

/// Maximum URLs of one [`AddUrls`], to keep the transaction short.
pub const MAX_URLS: usize = 1_000;
/// Maximum URLs of one [`Capture`].
pub const MAX_CAPTURED: usize = 10_000;
/// Maximum job types of one [`ConfigureCapture`].
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
    type Err = crate::state::UnknownValue;
    fn from_str(text: &str) -> Result<UrlSource, Self::Err> {
        [UrlSource::Document, UrlSource::Task]
            .into_iter()
            .find(|source| source.as_str() == text)
            .ok_or_else(|| crate::state::UnknownValue { kind: "source", value: text.to_owned() })
    }
}

/// A normalised URL to be added to the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundUrl {
    pub url: String,
    pub domain: String,
    /// JSON, an object: `{"document_id": 42}`.
    pub source_ref: String,
}

/// Adds URLs to a library. A URL that exists stays as it is, with its first source (POOL-58); concurrent writers of
/// the same URL make one row and no error. The counters of `resource_pool_count` follow in the same transaction. At
/// most [`MAX_URLS`], without duplicates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddUrls {
    pub library: Library,
    /// The owning project; empty for the shared library.
    pub project_key: String,
    pub source: UrlSource,
    pub urls: Vec<FoundUrl>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UrlsAdded {
    pub new: u32,
}

/// URLs found in a page, for [`CommitBatch`](super::CommitBatch) and [`WriteNote`](super::WriteNote): added as by
/// [`AddUrls`], with `source` task and `source_ref` `{"task_id": <public id of the task's job, or null>, "job_type":
/// …}`. When they cannot be stored, whatever the reason, the rest of the transaction stands (POOL-88) and the result
/// says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capture {
    pub library: Library,
    pub job_type: String,
    /// URL and domain, sorted by URL, one each; at most [`MAX_CAPTURED`].
    pub urls: Vec<(String, String)>,
}

impl Capture {
    /// `source_ref` of the URLs, given the public id of the task's job.
    pub fn source_ref(&self, task_id: Option<&str>) -> String {
        serde_json::json!({ "task_id": task_id, "job_type": self.job_type }).to_string()
    }
}

/// Result of a [`Capture`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Captured {
    /// Nothing was to be captured.
    #[default]
    None,
    Stored {
        new: u32,
    },
    Failed,
}

/// Sets whether URLs of these job types are captured for a project, and into which library. Other job types stay as
/// they are (POOL-67).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigureCapture {
    pub project_key: String,
    pub library: Library,
    pub job_types: Vec<String>,
    pub enabled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureConfigured;

/// Stores a document as an item: kind `document`, provenance and endpoint `documents`, `dedup_scope` `document`, key
/// = uri, `updated_at` = now, version 0, run 0. The same content again changes nothing; other content replaces fields
/// and payload. An item that was emptied is filled again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutDocument {
    pub project_key: String,
    pub uri: String,
    /// JSON, an object: `uri`, `title`, `doc_type`, `state`, `content`, `extracted_data`.
    pub fields: String,
    /// The document as received, JSON.
    pub payload: String,
    /// [`crate::hash::content_hash`] of `fields`.
    pub content_hash: [u8; 16],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DocumentPut {
    /// Id of the item.
    pub id: i64,
    pub created: bool,
    /// The document existed with other content.
    pub changed: bool,
}

//! Projects and the URL pool.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use patra_core::Ts;
use patra_core::project::{Library, Sight};
use patra_core::tx::UrlSource;

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Make a project: `patra project create online_lottery`
    Create {
        /// a-z, 0-9, `_` and `-`
        key: String,
        /// What people call it
        #[arg(long)]
        name: Option<String>,
    },
    /// List projects
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Find URLs in stored documents and items, and keep them
    Extract(ExtractUrls),
    /// Find URLs in what ended jobs were asked for and stored, and keep them
    LookBack(LookBackUrls),
    /// List URLs, newest first
    List(ListUrls),
    /// Capture URLs of these job types from now on
    Capture {
        /// Such as rss, twitter_feed, or the code of a provenance
        #[arg(required = true, value_name = "JOB_TYPE")]
        job_types: Vec<String>,
        /// Stop capturing them
        #[arg(long)]
        off: bool,
        #[arg(long, default_value = "project", value_parser = library, value_name = "SCOPE")]
        scope: Library,
    },
    /// Show which job types are captured
    Captured,
    /// Store a document: its text from a file, or `-`
    Add(AddDocument),
    /// Print the URLs of a file, or of `-`, and keep nothing; a file of any size
    Find {
        file: PathBuf,
        /// Remove parameters that follow readers: utm_*, gclid, fbclid
        #[arg(long)]
        remove_tracking: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ExtractUrls {
    #[arg(long, default_value = "project", value_parser = library, value_name = "SCOPE")]
    pub(crate) scope: Library,
    /// Only documents of this type; may be repeated
    #[arg(long = "doc-type", value_name = "TYPE")]
    pub(crate) doc_types: Vec<String>,
    /// Only documents of this state or region; may be repeated
    #[arg(long = "state", value_name = "STATE")]
    pub(crate) states: Vec<String>,
    /// Exactly this document; may be repeated
    #[arg(long = "document", value_name = "ID")]
    pub(crate) documents: Vec<i64>,
    /// Documents at most, the newest first
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=5000), value_name = "N")]
    pub(crate) limit: u32,
    /// The documents' own addresses too
    #[arg(long)]
    pub(crate) include_uri: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LookBackUrls {
    #[arg(long, default_value = "project", value_parser = library, value_name = "SCOPE")]
    pub(crate) scope: Library,
    /// Exactly this job; may be repeated
    #[arg(long = "job", value_name = "ID")]
    pub(crate) jobs: Vec<String>,
    #[arg(long, value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Asked for at or after
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Ts>,
    /// Jobs at most, the newest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "N")]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ListUrls {
    /// shared, project or effective: both, the project's covering the shared ones
    #[arg(long, default_value = "effective", value_parser = sight, value_name = "SCOPE")]
    pub(crate) scope: Sight,
    /// document or task
    #[arg(long, value_parser = source, value_name = "SOURCE")]
    pub(crate) source: Option<UrlSource>,
    /// Part of the domain
    #[arg(long, value_name = "TEXT")]
    pub(crate) domain: Option<String>,
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub(crate) page: u32,
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    pub(crate) page_size: u32,
}

#[derive(Debug, Args)]
pub(crate) struct AddDocument {
    /// Where its text is
    pub(crate) file: PathBuf,
    /// Where it comes from; the same one again is the same document
    #[arg(long, value_name = "URI")]
    pub(crate) uri: String,
    #[arg(long, default_value = "document", value_name = "TYPE")]
    pub(crate) doc_type: String,
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

fn library(word: &str) -> Result<Library, String> {
    word.parse().map_err(|_| "one of: project, shared".to_owned())
}

fn sight(word: &str) -> Result<Sight, String> {
    word.parse().map_err(|_| "one of: shared, project, effective".to_owned())
}

fn source(word: &str) -> Result<UrlSource, String> {
    word.parse().map_err(|_| "one of: document, task".to_owned())
}

//! `patra project` and `patra pool`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use patra_core::Ts;
use patra_core::port::pool::ListPosition;
use patra_core::project::{Library, LibraryScope};
use patra_core::tx::UrlSource;

use super::value;

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Create a project, such as `patra project create online_lottery`
    Create {
        /// Key of the project: a-z, 0-9, `_` and `-`
        key: String,
        /// Show this name to people
        #[arg(long)]
        name: Option<String>,
    },
    /// List projects
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Find URLs in stored documents and items, and store them
    Extract(ExtractUrls),
    /// Find URLs in the parameters and results of finished jobs, and store them
    LookBack(LookBackUrls),
    /// List URLs, newest first
    List(ListUrls),
    /// Store the URLs of these job types from now on
    Capture {
        /// Job types, such as rss, twitter_feed, or the code of a provenance
        #[arg(required = true, value_name = "JOB_TYPE")]
        job_types: Vec<String>,
        /// Stop storing them
        #[arg(long)]
        off: bool,
        /// Store URLs for one project or for all
        #[arg(long, default_value = "project", value_parser = value::library(), value_name = "SCOPE")]
        scope: Library,
    },
    /// List the job types whose URLs are stored
    Captured,
    /// Store a document; its text comes from a file, or from stdin with `-`
    Add(AddDocument),
    /// Print the URLs in a file of any size, or in stdin with `-`, without storing anything
    Find {
        /// File to read
        file: PathBuf,
        /// Remove tracking parameters: utm_*, gclid, fbclid
        #[arg(long)]
        remove_tracking: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ExtractUrls {
    /// Store URLs for one project or for all
    #[arg(long, default_value = "project", value_parser = value::library(), value_name = "SCOPE")]
    pub(crate) scope: Library,
    /// Read only documents of this type; repeatable
    #[arg(long = "doc-type", value_name = "TYPE")]
    pub(crate) doc_types: Vec<String>,
    /// Read only documents of this state or region; repeatable
    #[arg(long = "state", value_name = "STATE")]
    pub(crate) states: Vec<String>,
    /// Read only this document; repeatable
    #[arg(long = "document", value_name = "ID")]
    pub(crate) documents: Vec<i64>,
    /// Read at most this many documents, newest first
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=5000), value_name = "N")]
    pub(crate) limit: u32,
    /// Read only documents with a smaller id: the rest of an earlier search
    #[arg(long, value_name = "ID")]
    pub(crate) before_id: Option<i64>,
    /// Store the documents' own addresses too
    #[arg(long)]
    pub(crate) include_uri: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LookBackUrls {
    /// Store URLs for one project or for all
    #[arg(long, default_value = "project", value_parser = value::library(), value_name = "SCOPE")]
    pub(crate) scope: Library,
    /// Read only this job; repeatable
    #[arg(long = "job", value_name = "ID")]
    pub(crate) jobs: Vec<String>,
    /// Read only jobs of this type
    #[arg(long, value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Read only jobs requested at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Ts>,
    /// Read at most this many jobs, newest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "N")]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ListUrls {
    /// Show URLs of the project, shared ones, or both (effective)
    #[arg(long, default_value = "effective", value_parser = value::sight(), value_name = "SCOPE")]
    pub(crate) scope: LibraryScope,
    /// Show only URLs found in documents or in tasks
    #[arg(long, value_parser = value::url_source(), value_name = "SOURCE")]
    pub(crate) source: Option<UrlSource>,
    /// Show only domains that contain this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) domain: Option<String>,
    /// Show this page
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub(crate) page: u32,
    /// Show the URLs behind this position, which the page before it printed
    #[arg(long, conflicts_with = "page", value_name = "POSITION")]
    pub(crate) before: Option<ListPosition>,
    /// Show this many URLs per page
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    pub(crate) page_size: u32,
}

#[derive(Debug, Args)]
pub(crate) struct AddDocument {
    /// File with the text
    pub(crate) file: PathBuf,
    /// Identify the document by this URI; the same URI again updates it
    #[arg(long, value_name = "URI")]
    pub(crate) uri: String,
    /// Set the type
    #[arg(long, default_value = "document", value_name = "TYPE")]
    pub(crate) doc_type: String,
    /// Set the state or region
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// Set the title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

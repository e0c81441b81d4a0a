//! `patra crawl`.

use clap::{Args, Subcommand, ValueEnum};

use super::value;

#[derive(Debug, Subcommand)]
pub(crate) enum Crawl {
    /// Search a platform, fetch every note and store each once, under the lock of a workflow
    Run(CrawlRun),
    /// Search a platform for notes, without storing anything
    Search {
        /// Platform, such as the code of its manifest
        platform: String,
        /// Keyword to search for
        keyword: String,
        /// Fetch this page, counted from 1
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
        page: u64,
        /// Use only this cookie
        #[arg(long, value_name = "NAME")]
        cookie: Option<String>,
    },
    /// Fetch the details of notes, without storing anything
    Detail {
        /// Platform, such as the code of its manifest
        platform: String,
        /// Ids of notes
        #[arg(required = true)]
        note_ids: Vec<String>,
        /// Send this token from the search result; the tokens of the stored candidate when left out
        #[arg(long = "token", value_parser = value::pair, value_name = "NAME=VALUE")]
        tokens: Vec<(String, String)>,
        /// Use only this cookie
        #[arg(long, value_name = "NAME")]
        cookie: Option<String>,
    },
    /// List executions, candidates, notes, cookies or alerts
    List {
        /// What to list
        what: CrawlList,
        /// Show only rows with this status
        #[arg(long)]
        status: Option<String>,
        /// Show only rows of this platform
        #[arg(long)]
        platform: Option<String>,
        /// Show at most this many rows
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "N")]
        limit: u32,
    },
    /// Free expired locks now; a server does it automatically
    Recover,
    /// Try failed candidates again
    Requeue {
        /// Platform, such as the code of its manifest
        platform: String,
        /// Requeue only this note
        #[arg(long, value_name = "ID")]
        note_id: Option<String>,
        /// Requeue only notes that this keyword found
        #[arg(long, value_name = "WORD")]
        keyword: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CrawlRun {
    /// Platform, such as the code of its manifest
    pub(crate) platform: String,
    /// Keywords to search for
    #[arg(required = true)]
    pub(crate) keywords: Vec<String>,
    /// Take the lock of this workflow
    #[arg(long, default_value = "wf-crawl-main", value_name = "NAME")]
    pub(crate) workflow: String,
    /// Read at most this many pages of each search
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000), value_name = "N")]
    pub(crate) max_pages: u64,
    /// Fetch this many notes at once
    #[arg(long, env = "BATCH_SIZE", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=20), value_name = "N")]
    pub(crate) batch_size: u32,
    /// Repeat, with this many minutes in between
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10080), value_name = "MINUTES")]
    pub(crate) every: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrawlList {
    Executions,
    Candidates,
    Notes,
    Cookies,
    Alerts,
}

//! The words of `crawl`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Crawl {
    /// Search a platform for keywords, fetch the notes, store each once: the whole flow, under the same lock as workflows outside
    Run(CrawlRun),
    /// Ask a platform for notes, and store nothing
    Search {
        platform: String,
        keyword: String,
        /// The page, from 1 on
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
        page: u64,
        /// Only with this cookie
        #[arg(long, value_name = "NAME")]
        cookie: Option<String>,
    },
    /// Ask a platform for the details of notes, and store nothing
    Detail {
        platform: String,
        #[arg(required = true)]
        note_ids: Vec<String>,
        /// What the platform demands for details, as the search gave it; those of a candidate when left out
        #[arg(long = "token", value_parser = super::pair, value_name = "NAME=VALUE")]
        tokens: Vec<(String, String)>,
        /// Only with this cookie
        #[arg(long, value_name = "NAME")]
        cookie: Option<String>,
    },
    /// List executions, candidates, notes, cookies or alerts
    List {
        what: Listed,
        /// Only those in this state
        #[arg(long)]
        status: Option<String>,
        /// Only those of this platform
        #[arg(long)]
        platform: Option<String>,
        /// Rows at most
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "N")]
        limit: u32,
    },
    /// Take back locks that are older than half an hour, now; a server does so by itself
    Recover,
    /// Give failed candidates another chance
    Requeue {
        platform: String,
        /// Only this one
        #[arg(long, value_name = "ID")]
        note_id: Option<String>,
        /// Only those that this keyword found
        #[arg(long, value_name = "WORD")]
        keyword: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CrawlRun {
    pub(crate) platform: String,
    #[arg(required = true)]
    pub(crate) keywords: Vec<String>,
    /// The name of the lock
    #[arg(long, default_value = "wf-crawl-main", value_name = "NAME")]
    pub(crate) workflow: String,
    /// Pages of each search, at most
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000), value_name = "N")]
    pub(crate) max_pages: u64,
    /// Notes that are fetched together
    #[arg(long, env = "BATCH_SIZE", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=20), value_name = "N")]
    pub(crate) batch_size: u32,
    /// Again and again, with this many minutes in between
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10080), value_name = "MINUTES")]
    pub(crate) every: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    Executions,
    Candidates,
    Notes,
    Cookies,
    Alerts,
}

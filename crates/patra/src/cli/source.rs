//! `patra source` and `patra collect`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use patra_core::source::MAX_MINUTES;

/// Types that Patra can fetch. An imported source of another type is stored and skipped.
pub(crate) const SOURCE_TYPES: &[&str] = &[
    "rss",
    "digest_feed",
    "website",
    "hackernews",
    "reddit",
    "github_trending",
    "custom_api",
    "twitter_feed",
    "twitter_list",
    "twitter_bookmarks",
];

#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// Add a source, such as `patra source add rss https://example.com/feed.xml`
    Add(AddSource),
    /// List sources with status, interval and last error
    List {
        /// Show only sources of this type
        #[arg(long = "type", value_name = "TYPE")]
        r#type: Option<String>,
    },
    /// Pause a source
    Pause {
        /// Id, from `patra source list`
        id: i64,
    },
    /// Resume a source and reset its error count
    Resume {
        /// Id, from `patra source list`
        id: i64,
    },
    /// Collect a source now, whatever its interval
    Fetch {
        /// Id, from `patra source list`
        id: i64,
    },
    /// Remove a source; its items stay
    Remove {
        /// Id, from `patra source list`
        id: i64,
    },
    /// Add many sources from a file, or from stdin with `-`: OPML, a JSON array, or one JSON object or URL per line
    Import {
        /// File to read
        file: PathBuf,
        /// Add feeds of an OPML file and bare URLs as this type
        #[arg(long = "type", default_value = "rss", value_name = "TYPE")]
        r#type: String,
    },
    /// Print all sources
    Export {
        /// Print this format: opml for feed readers, ndjson for `patra source import`
        #[arg(long, default_value = "ndjson", value_name = "FORMAT")]
        format: ExportFormat,
    },
    /// Set the minutes between two polls for all sources of a type
    Interval {
        /// Type of the sources, such as rss
        #[arg(value_name = "TYPE")]
        r#type: String,
        /// Minutes; resets to the default when left out
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MINUTES)))]
        minutes: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Opml,
    Ndjson,
}

#[derive(Debug, Args)]
pub(crate) struct AddSource {
    /// Type: rss, digest_feed, website, hackernews, reddit, github_trending, custom_api, twitter_feed, …
    #[arg(value_name = "TYPE")]
    pub(crate) r#type: String,
    /// Address, for types that have one
    pub(crate) url: Option<String>,
    /// Show this name in lists
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Set the type's options as a JSON object: '{"subreddit": "rust"}'
    #[arg(long, value_name = "JSON")]
    pub(crate) config: Option<String>,
    /// Poll at this interval; default: that of the type
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MINUTES)))]
    pub(crate) interval: Option<u32>,
    /// Show it without a key if PATRA_PUBLIC_READ is set
    #[arg(long)]
    pub(crate) public: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Collect continuously: every COLLECTOR_TICK seconds, and whenever a source becomes due
    #[arg(long = "loop", conflicts_with = "source")]
    pub(crate) r#loop: bool,
    /// Collect only this source, now
    #[arg(long, value_name = "ID")]
    pub(crate) source: Option<i64>,
}

//! Sources and the collector.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use patra_core::source::MAX_MINUTES;

#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// Add a source: `patra source add rss https://example.com/feed.xml`
    Add(AddSource),
    /// List sources and how they are
    List {
        /// Only of this type
        #[arg(long = "type", value_name = "TYPE")]
        r#type: Option<String>,
    },
    /// Stop collecting a source
    Pause { id: i64 },
    /// Collect a source again, as if it had never failed
    Resume { id: i64 },
    /// Collect a source now, whatever its interval
    Fetch { id: i64 },
    /// Take a source out; what it brought stays
    Remove { id: i64 },
    /// Add many: an OPML file, a JSON array, or a JSON object or a URL a line; `-` reads from standard input
    Import {
        file: PathBuf,
        /// What the feeds of an OPML file, and bare URLs, are
        #[arg(long = "type", default_value = "rss", value_name = "TYPE")]
        r#type: String,
    },
    /// Print all sources
    Export {
        #[arg(long, default_value = "ndjson")]
        format: ExportFormat,
    },
    /// Set the minutes between two polls for all sources of a type; without minutes, as it was
    Interval {
        #[arg(value_name = "TYPE")]
        r#type: String,
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MINUTES)))]
        minutes: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A list of feeds for other readers
    Opml,
    /// A JSON object a line, for `source import`
    Ndjson,
}

#[derive(Debug, Args)]
pub(crate) struct AddSource {
    /// rss, digest_feed, website, hackernews, reddit, github_trending, custom_api, …
    #[arg(value_name = "TYPE")]
    pub(crate) r#type: String,
    /// Where it is, for types that have an address
    pub(crate) url: Option<String>,
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Config as a JSON object: '{"subreddit": "rust"}'
    #[arg(long, value_name = "JSON")]
    pub(crate) config: Option<String>,
    /// Minutes between two polls, instead of the type's
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MINUTES)))]
    pub(crate) interval: Option<u32>,
    /// Anybody may see it, where PATRA_PUBLIC_READ allows that
    #[arg(long)]
    pub(crate) public: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Go on: look every COLLECTOR_TICK seconds, and whenever a source falls due
    #[arg(long = "loop", conflicts_with = "source")]
    pub(crate) r#loop: bool,
    /// Collect this one source now, whatever its interval
    #[arg(long, value_name = "ID")]
    pub(crate) source: Option<i64>,
}

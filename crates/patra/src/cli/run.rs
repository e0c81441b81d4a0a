//! `patra run`, `demo` and `scrape`: commands that collect and exit.

use clap::Args;

use patra_core::Ts;
use patra_core::state::{Operation, UpdateReason};

use super::{Engine, value};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Code of the provenance, as in its manifest
    pub(crate) provenance: String,
    /// Name of one of its endpoints
    pub(crate) endpoint: String,
    /// Collect new records, older ones, or stored ones again
    #[arg(long, default_value = "harvest", value_parser = value::operation(), value_name = "OPERATION")]
    pub(crate) operation: Operation,
    /// Choose the records of an update by this reason
    #[arg(long, value_parser = value::reason(), value_name = "REASON")]
    pub(crate) reason: Option<UpdateReason>,
    /// Name a backfill or an update; runs of the same name share their progress
    #[arg(long, value_name = "NAME")]
    pub(crate) activity: Option<String>,
    /// Start the window here instead of at the cursor
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Ts>,
    /// End the window here instead of now minus the safety lag
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Ts>,
    /// Set a parameter that the endpoint declares, or choose one partition; repeatable
    #[arg(long = "param", value_parser = value::pair, value_name = "NAME=VALUE")]
    pub(crate) params: Vec<(String, String)>,
    /// Override a setting for this run, such as pagination.page_size=50; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Run before (less than 0) or after other work of the same kind
    #[arg(long, default_value_t = 0, allow_hyphen_values = true, value_name = "N")]
    pub(crate) priority: i32,
    /// Queue the job and exit; a server does the work
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Serve this many records from the mock API
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000), value_name = "N")]
    pub(crate) records: u64,
    /// Keep the mock API and the server running at the end
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Scrape {
    /// User names, with or without @
    #[arg(required = true, value_name = "USER")]
    pub(crate) users: Vec<String>,
    /// Fetch at most this many tweets of each user; adapts to earlier runs when left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    pub(crate) limit: Option<u32>,
}

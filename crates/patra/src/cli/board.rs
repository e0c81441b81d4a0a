//! Reports under `patra get`.

use clap::{Args, Subcommand};

use patra_core::port::board::{MAX_ROWS, WorkFilter};
use patra_core::state::Operation;
use patra_core::{Level, Ts};
use patra_engine::board::MAX_NAMESPACES;

use super::{Global, value};

#[derive(Debug, Subcommand)]
pub(crate) enum Board {
    /// Show everything at a glance: queue, throughput, errors, lag, alerts
    Overview,
    /// Show what is queued, how fast it moves, and why it waits
    Queue(BoardFilter),
    /// Show completed work over time
    Throughput {
        #[command(flatten)]
        filter: BoardFilter,
        #[command(flatten)]
        range: TimeRange,
        /// Add up the figures of this many minutes
        #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=10_080))]
        step: Option<u32>,
    },
    /// Show the most frequent errors, each with its latest batch
    Errors {
        #[command(flatten)]
        filter: BoardFilter,
        #[command(flatten)]
        range: TimeRange,
        /// Show only this level: L1 transient, L2 request, L3 data, L4 fatal
        #[arg(long, value_parser = value::level(), value_name = "LEVEL", hide_possible_values = true)]
        level: Option<Level>,
        /// Show at most this many rows
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ROWS)))]
        limit: u32,
    },
    /// Show cursors, their lag and their recent advances
    Timeline {
        #[command(flatten)]
        filter: BoardFilter,
        #[command(flatten)]
        range: TimeRange,
        /// Show only the namespace with this key
        #[arg(long, value_name = "KEY")]
        namespace: Option<String>,
        /// Show at most this many namespaces
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_NAMESPACES)))]
        limit: u32,
    },
    /// Compare the actual request rate with the allowed rate, and show slowdowns
    Budget {
        #[command(flatten)]
        filter: BoardFilter,
        #[command(flatten)]
        range: TimeRange,
    },
    /// List alerts and when they started to fire
    Alerts,
}

#[derive(Debug, Args)]
pub(crate) struct BoardFilter {
    /// Count only this provenance
    #[arg(long, value_name = "CODE")]
    provenance: Option<String>,
    /// Count only this endpoint
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Count only this operation
    #[arg(long, value_parser = value::operation(), value_name = "OPERATION")]
    operation: Option<Operation>,
}

impl BoardFilter {
    pub(crate) fn about(&self, global: &Global) -> WorkFilter {
        WorkFilter {
            project_key: global.project.clone(),
            provenance_code: self.provenance.clone(),
            endpoint_name: self.endpoint.clone(),
            operation: self.operation,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct TimeRange {
    /// Start here; one hour before the end when left out
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Ts>,
    /// End here; now when left out
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Ts>,
}

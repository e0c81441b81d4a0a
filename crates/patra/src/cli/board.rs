//! The words of the boards.

use clap::{Args, Subcommand};

use patra_core::port::board::{About, MAX_ROWS};
use patra_core::state::Operation;
use patra_core::{Level, Ts};
use patra_engine::board::MAX_NAMESPACES;

use super::{Global, any_operation};

/// What is counted, and not in rows.
#[derive(Debug, Subcommand)]
pub(crate) enum Board {
    /// Everything at a glance: what waits, what was done, what went wrong, what lags
    Overview,
    /// What is queued, how fast it is taken, and why it waits
    Queue(AboutWhat),
    /// What was done over time
    Throughput {
        #[command(flatten)]
        about: AboutWhat,
        #[command(flatten)]
        span: Span,
        /// Minutes of a step
        #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=10_080))]
        step: Option<u32>,
    },
    /// The most frequent errors, with the batch where each was met last
    Errors {
        #[command(flatten)]
        about: AboutWhat,
        #[command(flatten)]
        span: Span,
        /// L1, L2, L3 or L4
        #[arg(long, value_parser = level, value_name = "LEVEL")]
        level: Option<Level>,
        /// Rows at most
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ROWS)))]
        limit: u32,
    },
    /// Where the cursors stand, how far behind, and their steps
    Timeline {
        #[command(flatten)]
        about: AboutWhat,
        #[command(flatten)]
        span: Span,
        /// Key of a namespace
        #[arg(long, value_name = "KEY")]
        namespace: Option<String>,
        /// Namespaces at most
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_NAMESPACES)))]
        limit: u32,
    },
    /// How fast requests leave beside how fast they may, and what slowed them
    Budget {
        #[command(flatten)]
        about: AboutWhat,
        #[command(flatten)]
        span: Span,
    },
    /// Alerts that are watched, and since when they fire
    Alerts,
}

#[derive(Debug, Args)]
pub(crate) struct AboutWhat {
    #[arg(long, value_name = "CODE")]
    provenance: Option<String>,
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// harvest, backfill or update
    #[arg(long, value_parser = any_operation)]
    operation: Option<Operation>,
}

impl AboutWhat {
    pub(crate) fn about(&self, global: &Global) -> About {
        About {
            project_key: global.project.clone(),
            provenance_code: self.provenance.clone(),
            endpoint_name: self.endpoint.clone(),
            operation: self.operation,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Span {
    /// From this time on; an hour before the end when none is named
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Ts>,
    /// Up to this time; now when none is named
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Ts>,
}

fn level(word: &str) -> Result<Level, String> {
    word.to_uppercase().parse().map_err(|_| "one of: L1, L2, L3, L4".to_owned())
}

//! The words for holding, cancelling and tidying.

use std::time::Duration;

use clap::{Args, Subcommand};

use patra_core::state::Operation;
use patra_engine::operations::MIN_RETENTION;

/// What is held.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Held {
    /// Everything of a provenance
    Source {
        /// Its code
        provenance: String,
    },
    /// One endpoint, or one operation of it
    Endpoint {
        /// Code of the provenance
        provenance: String,
        /// Name of the endpoint
        endpoint: String,
        /// harvest, backfill or update; all of them when it is left out
        #[arg(long, value_parser = super::any_operation)]
        operation: Option<Operation>,
    },
    /// The tasks of one plan
    Plan {
        /// As `patra get plans` shows it
        id: i64,
    },
    /// The task of one slice
    Slice {
        /// As `patra get slices` shows it
        id: i64,
    },
    /// One task
    Task {
        /// As `patra get tasks` shows it
        id: i64,
    },
}

/// What is let go on.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Resumed {
    #[command(flatten)]
    Work(Held),
    /// A hold by its number: a pause, or the fuse
    Hold {
        /// As `patra get holds` shows it
        id: i64,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Pause {
    #[command(subcommand)]
    pub(crate) what: Held,
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Resume {
    #[command(subcommand)]
    pub(crate) what: Resumed,
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Cancel {
    #[command(subcommand)]
    pub(crate) what: Cancelled,
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Cancelled {
    /// What was asked for at once, with all that came of it
    Job {
        /// Its public id, as `patra run --no-wait` and `patra get jobs` show it
        id: String,
    },
    /// A plan with its slices and tasks
    Plan { id: i64 },
    /// A slice with its task
    Slice { id: i64 },
    /// One task
    Task { id: i64 },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Who {
    /// Why, for who looks at it later
    #[arg(long, global = true, default_value = "", value_name = "TEXT")]
    pub(crate) reason: String,
    /// Who does it
    #[arg(long, global = true, env = "USER", default_value = "command line", value_name = "NAME")]
    pub(crate) by: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Signal {
    /// Code of the provenance
    pub(crate) provenance: String,
    /// Name of the endpoint that the records are of
    pub(crate) endpoint: String,
    /// Id of a record; may be repeated
    #[arg(long = "id", required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Outbox {
    /// Tell again what was given up: one event, or all
    Retell {
        /// As `patra get outbox --status FAILED` shows it; none: all that were given up
        id: Option<i64>,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Quarantine {
    /// Give a record up: it is not asked for again
    Abandon {
        /// As `patra get quarantine` shows it
        id: i64,
        #[command(flatten)]
        who: Who,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Archive {
    /// What is older goes; ISO 8601, such as P90D
    #[arg(long, default_value = "P90D", value_parser = age, value_name = "AGE")]
    pub(crate) older_than: Duration,
}

fn age(text: &str) -> Result<Duration, String> {
    let age = text.parse::<patra_spec::Iso>()?.0;
    match age >= MIN_RETENTION {
        true => Ok(age),
        false => Err("replays and audits look for what is younger than a day: at least P1D".to_owned()),
    }
}

//! Commands that act on work: pause, resume, cancel, mark, deliver again, archive.

use std::time::Duration;

use clap::{Args, Subcommand};

use patra_core::Ts;
use patra_core::state::Operation;
use patra_engine::operations::MIN_RETENTION;

use super::value;

/// Work that can be paused.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PauseTarget {
    /// Pause everything of a provenance
    Source {
        /// Code of the provenance
        provenance: String,
    },
    /// Pause one endpoint, or one operation of it
    Endpoint {
        /// Code of the provenance
        provenance: String,
        /// Name of the endpoint
        endpoint: String,
        /// Limit it to this operation
        #[arg(long, value_parser = value::operation(), value_name = "OPERATION")]
        operation: Option<Operation>,
    },
    /// Pause the tasks of one plan
    Plan {
        /// Id, from `patra get plans`
        id: i64,
    },
    /// Pause the task of one slice
    Slice {
        /// Id, from `patra get slices`
        id: i64,
    },
    /// Pause one task
    Task {
        /// Id, from `patra get tasks`
        id: i64,
    },
}

/// Work that can be resumed.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ResumeTarget {
    #[command(flatten)]
    Work(PauseTarget),
    /// Resume one pause or halt by its id
    Hold {
        /// Id, from `patra get holds`
        id: i64,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Pause {
    #[command(subcommand)]
    pub(crate) target: PauseTarget,
    #[command(flatten)]
    pub(crate) author: Author,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Resume {
    #[command(subcommand)]
    pub(crate) target: ResumeTarget,
    #[command(flatten)]
    pub(crate) author: Author,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Cancel {
    #[command(subcommand)]
    pub(crate) target: CancelTarget,
    #[command(flatten)]
    pub(crate) author: Author,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CancelTarget {
    /// Cancel a job with its plans, slices and tasks
    Job {
        /// Public id, from `patra run --no-wait` or `patra get jobs`
        id: String,
    },
    /// Cancel a plan with its slices and tasks
    Plan {
        /// Id, from `patra get plans`
        id: i64,
    },
    /// Cancel a slice with its task
    Slice {
        /// Id, from `patra get slices`
        id: i64,
    },
    /// Cancel one task
    Task {
        /// Id, from `patra get tasks`
        id: i64,
    },
}

/// Author and reason of an action, for the record.
#[derive(Clone, Debug, Args)]
pub(crate) struct Author {
    /// Record this reason
    #[arg(long, global = true, default_value = "", value_name = "TEXT", hide_default_value = true)]
    pub(crate) reason: String,
    /// Record this name
    #[arg(long, global = true, env = "USER", default_value = "command line", value_name = "NAME")]
    pub(crate) by: String,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Cursor {
    /// Let a cursor pass an incomplete window, and record the reason
    AcceptGap(AcceptGap),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AcceptGap {
    /// Code of the provenance
    pub(crate) provenance: String,
    /// Name of the endpoint
    pub(crate) endpoint: String,
    /// Start of the gap: the position of the cursor, or earlier
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Ts,
    /// End of the gap
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Ts,
    /// Operation of the cursor
    #[arg(long, value_parser = value::operation(), default_value = "harvest", value_name = "OPERATION")]
    pub(crate) operation: Operation,
    /// Id of the cursor, from `patra get cursors`, if the endpoint has several
    #[arg(long, value_name = "ID")]
    pub(crate) cursor: Option<i64>,
    /// Record this reason
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Record this name
    #[arg(long, env = "USER", default_value = "command line", value_name = "NAME")]
    pub(crate) by: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Signal {
    /// Code of the provenance
    pub(crate) provenance: String,
    /// Name of the endpoint that collected the records
    pub(crate) endpoint: String,
    /// Mark the record with this id; repeatable
    #[arg(long = "id", required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) author: Author,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Outbox {
    /// Retry failed events: one, or all
    #[command(alias = "retell")]
    Retry {
        /// Id, from `patra get outbox --status FAILED`; all failed events when left out
        id: Option<i64>,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Quarantine {
    /// Give up on a record: it is not fetched again
    Abandon {
        /// Id, from `patra get quarantine`
        id: i64,
        #[command(flatten)]
        author: Author,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Archive {
    /// Archive what is older than this ISO 8601 duration
    #[arg(long, default_value = "P90D", value_parser = age, value_name = "AGE")]
    pub(crate) older_than: Duration,
}

fn age(text: &str) -> Result<Duration, String> {
    let age = text.parse::<patra_spec::IsoDuration>();
    let age = age.map_err(|_| format!("`{text}` is not an ISO 8601 duration, such as P3D"))?.0;
    match age >= MIN_RETENTION {
        true => Ok(age),
        false => Err("replays and audits need the last day: at least P1D".to_owned()),
    }
}

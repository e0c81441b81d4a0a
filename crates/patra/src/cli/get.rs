//! `patra get`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use patra_core::port::query::View;
use patra_core::state::Operation;

use super::board::Board;
use super::value;

#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Get {
    #[command(subcommand)]
    pub(crate) command: Option<GetCommand>,
    /// View to list
    #[arg(value_parser = value::view(), required = true, hide_possible_values = true)]
    pub(crate) view: Option<View>,
    /// Show only rows of this provenance
    #[arg(long, value_name = "CODE")]
    pub(crate) provenance: Option<String>,
    /// Show only rows of this endpoint
    #[arg(long, value_name = "NAME")]
    pub(crate) endpoint: Option<String>,
    /// Show only rows with this status, in upper or lower case
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    /// Show only rows of this plan
    #[arg(long, value_name = "ID")]
    pub(crate) plan: Option<i64>,
    /// Show only rows of this task
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<i64>,
    /// Show only rows of this run
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<i64>,
    /// Show at most this many rows; 0 means all, with ndjson only
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: u64,
}

/// Everything under `get` that is no list.
#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    #[command(flatten)]
    Board(Board),
    #[command(flatten)]
    Registry(GetRegistry),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GetRegistry {
    /// Print the spec that a job would be planned with
    Spec(GetSpec),
    /// Print a manifest from the registry as YAML
    Manifest {
        /// Code of the provenance
        #[arg(required_unless_present = "all")]
        provenance: Option<String>,
        /// Write every manifest to this folder, as CODE.yaml
        #[arg(long, value_name = "DIR", conflicts_with = "provenance")]
        all: Option<PathBuf>,
    },
    /// List the codes that manifests may use, with their aliases
    Dictionary,
    /// Show a plan with its slices, tasks, runs and batches
    Lineage {
        /// Id of the plan, from `patra get plans`
        plan: i64,
        /// Show batches too
        #[arg(long)]
        batches: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GetSpec {
    /// Code of the provenance
    pub(crate) provenance: String,
    /// Name of one of its endpoints
    pub(crate) endpoint: String,
    /// Compile the spec for this operation
    #[arg(long, default_value = "harvest", value_parser = value::operation(), value_name = "OPERATION")]
    pub(crate) operation: Operation,
    /// Show every value and the layer that set it
    #[arg(long)]
    pub(crate) explain: bool,
    /// Override a setting, such as pagination.page_size=50; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,
}

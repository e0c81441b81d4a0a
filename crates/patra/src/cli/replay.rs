//! `patra replay` and `patra bundle`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Engine;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Id of the run, from `patra get runs`
    #[arg(requires = "batch")]
    pub(crate) run: Option<i64>,
    /// Number of the batch in its run, from `patra get batches`
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// Send the request to the API again instead of reading the stored response; writes nothing
    #[arg(long, conflicts_with_all = ["file", "redrive"])]
    pub(crate) live: bool,
    /// Read a bundle made by `patra bundle export --with-raw` instead of the database
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "redrive"])]
    pub(crate) file: Option<PathBuf>,
    /// Run the batch or task again in production; a committed batch is not repeated
    #[arg(long)]
    pub(crate) redrive: bool,
    /// Run this whole task again
    #[arg(long, value_name = "ID", requires = "redrive", conflicts_with = "run")]
    pub(crate) task: Option<i64>,
    /// Make the command safe to repeat: the same id creates nothing new
    #[arg(long, value_name = "ID", requires = "redrive")]
    pub(crate) request: Option<String>,
    /// Record this name
    #[arg(long, env = "USER", default_value = "command line", value_name = "NAME")]
    pub(crate) by: String,
    /// Do the work here, and exit when it is done
    #[arg(long, requires = "redrive")]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bundle {
    /// Export everything known about a batch into one signed file, and record the export
    Export {
        /// Id of the run, from `patra get runs`
        run: i64,
        /// Number of the batch in its run, from `patra get batches`
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        batch: u32,
        /// Record this reason with the export
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Record this name
        #[arg(long, env = "USER", default_value = "command line", value_name = "NAME")]
        by: String,
        /// Write to this new file; stdout when left out
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Include the response, if it is stored, so that the bundle can be replayed anywhere
        #[arg(long)]
        with_raw: bool,
    },
    /// Verify a bundle and show its content
    Show {
        /// Bundle
        file: PathBuf,
    },
}

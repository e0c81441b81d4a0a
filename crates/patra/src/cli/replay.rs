//! The words of `patra replay` and `patra blackbox`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Engine;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The run, as `patra get runs` shows it
    #[arg(requires = "batch")]
    pub(crate) run: Option<i64>,
    /// The number of the batch in its run, as `patra get batches` shows it
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// Ask the far side once more, instead of reading the answer that was kept; still writes nothing
    #[arg(long, conflicts_with_all = ["file", "redrive"])]
    pub(crate) live: bool,
    /// A package that `blackbox export --with-raw` made, instead of the database
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "redrive"])]
    pub(crate) file: Option<PathBuf>,
    /// Drive it again in production: what was executed is read back, the rest is queued and writes
    #[arg(long)]
    pub(crate) redrive: bool,
    /// A whole task to drive again
    #[arg(long, value_name = "ID", requires = "redrive", conflicts_with = "run")]
    pub(crate) task: Option<i64>,
    /// Names the request: the same name again finds what the first one made
    #[arg(long, value_name = "ID", requires = "redrive")]
    pub(crate) request: Option<String>,
    /// Who asks for it
    #[arg(long, env = "USER", default_value = "command line", value_name = "NAME")]
    pub(crate) by: String,
    /// Do the work here, and end when it has ended
    #[arg(long, requires = "redrive")]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Blackbox {
    /// Put all that is known of a batch into one signed file; the export is put on record
    Export {
        /// The run, as `patra get runs` shows it
        run: i64,
        /// The number of the batch in its run
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        batch: u32,
        /// Why; it is kept with the export
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Who exports
        #[arg(long, env = "USER", default_value = "command line", value_name = "NAME")]
        by: String,
        /// Where to; stdout when it is left out
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// The far side's answer too, where it is kept: the package can then be replayed anywhere
        #[arg(long)]
        with_raw: bool,
    },
    /// Check a package and show what is in it
    Show { file: PathBuf },
}

//! The words of `patra audit` and `patra db`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Look for secrets in the clear and for doors left open; print JSON, and fail when something is found
    Security(AuditSecurity),
}

#[derive(Debug, Args)]
pub(crate) struct AuditSecurity {
    /// Log file, or folder of log files; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) logs: Vec<PathBuf>,
    /// Folder of workflow files; deploy/n8n when it is there
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Option<PathBuf>,
    /// File of settings, NAME=value a line, beside .env; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Copy the database, also while a server uses it
    Backup {
        /// Folder, or file, to write to; the folder `backups` beside the database when it is left out
        #[arg(long, value_name = "DIR|FILE")]
        to: Option<PathBuf>,
    },
    /// Put a copy in the place of the database; what was there is kept
    Restore {
        /// As `patra db backups` shows it
        file: PathBuf,
    },
    /// List the copies beside the database
    Backups,
}

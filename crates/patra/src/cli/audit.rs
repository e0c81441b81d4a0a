//! `patra audit` and `patra db`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Look for plaintext secrets and unprotected access, print JSON, and fail on a critical or high finding
    Security(AuditSecurity),
}

#[derive(Debug, Args)]
pub(crate) struct AuditSecurity {
    /// Check this log file, or all in this folder; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) logs: Vec<PathBuf>,
    /// Check the workflow files in this folder; deploy/n8n if it exists
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Option<PathBuf>,
    /// Check this file of settings, one NAME=value per line, in addition to .env; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Back up the database; a server may be running
    Backup {
        /// Write to this folder or file; `backups` in the data folder when left out
        #[arg(long, value_name = "DIR|FILE")]
        to: Option<PathBuf>,
    },
    /// Replace the database with a backup; the replaced one is kept
    Restore {
        /// Backup, from `patra db backups`
        file: PathBuf,
    },
    /// List the backups in the data folder
    Backups,
}

//! The command line: commands, options and their help.

mod audit;
mod board;
mod crawl;
mod credential;
mod get;
mod help;
mod manifest;
mod operations;
mod pool;
mod replay;
mod run;
mod serve;
mod source;
mod usage_error;
mod value;

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;

pub(crate) use audit::{Audit, AuditSecurity, Db};
pub(crate) use board::{Board, TimeRange};
pub(crate) use crawl::{Crawl, CrawlList, CrawlRun};
pub(crate) use credential::{Credential, CredentialArg, SecretValues};
pub(crate) use get::{Get, GetCommand, GetRegistry, GetSpec};
pub(crate) use manifest::{Apply, Test, Try, Validate};
pub(crate) use operations::{
    AcceptGap, Archive, Author, Cancel, CancelTarget, Cursor, Outbox, Pause, PauseTarget, Quarantine, Resume,
    ResumeTarget, Signal,
};
pub(crate) use pool::{AddDocument, ExtractUrls, ListUrls, LookBackUrls, Pool, Project};
pub(crate) use replay::{Bundle, Replay};
pub(crate) use run::{Demo, Run, Scrape};
pub(crate) use serve::{Engine, Health, Key, Role, Serve};
pub(crate) use source::{AddSource, Collect, ExportFormat, SOURCE_TYPES, Source};
pub(crate) use usage_error::{is_incomplete, usage_error};

/// Collect APIs, feeds and pages into a database: on schedule, resumable, without duplicates
#[derive(Debug, Parser)]
#[command(name = "patra", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The log level when RUST_LOG is not set: a server logs what it does, a command only what went wrong.
    pub(crate) fn default_log(&self) -> &'static str {
        let serves = match &self.command {
            Command::Serve(_) => true,
            Command::Collect(args) => args.r#loop,
            _ => false,
        };
        if serves { "info" } else { "error" }
    }
}

/// The whole command line. Environment variables that are empty count as not set.
pub(crate) fn command() -> clap::Command {
    help::arrange(without_empty(Cli::command()))
}

fn without_empty(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|arg| if is_empty(&arg) { arg.env(None::<&str>) } else { arg });
    command.mut_subcommands(without_empty)
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = help::GLOBAL)]
pub(crate) struct Global {
    /// Keep the embedded database in this folder
    #[arg(long, global = true, env = "PATRA_DATA", default_value = "./patra-data", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Use PostgreSQL instead: postgres://user:password@host/database
    #[arg(long, global = true, env = "PATRA_DATABASE_URL", value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// Work in this project; without it you see all projects and add to `default`
    #[arg(long, global = true, env = "PATRA_PROJECT", value_name = "KEY")]
    pub(crate) project: Option<String>,
    /// Print results in this format
    #[arg(long, short = 'o', global = true, env = "PATRA_OUTPUT", default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Output,
    /// Print log lines in this format
    #[arg(long, global = true, env = "PATRA_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// Allow all sources to collect from this private network, such as 10.0.0.0/8; repeatable
    #[arg(long, global = true, env = "PATRA_ALLOW_NET", value_delimiter = ',', value_parser = value::network, value_name = "CIDR")]
    pub(crate) allow_net: Vec<IpNet>,
    /// Read the master key for credentials from this file; PATRA_MASTER_KEY holds the key itself
    #[arg(long, global = true, env = "PATRA_MASTER_KEY_FILE", value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,
    /// Sign requests with this service if a manifest names it as its hook; repeatable [env: PATRA_SIGNER_<NAME>]
    #[arg(long = "signer", global = true, value_parser = value::pair, value_name = "NAME=URL")]
    pub(crate) signers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
    Ndjson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server: API, planner, executor and collector in one process, or some of them
    Serve(Serve),
    /// Show everything offline in half a minute: a faulty mock API, a harvest, a kill, a resume
    Demo(Demo),
    /// Check manifests and store them in the registry
    Apply(Apply),
    /// Check manifests without changing anything
    Validate(Validate),
    /// Run the offline tests inside manifests
    Test(Test),
    /// Fetch pages of an endpoint and show everything, without storing anything
    Try(Try),
    /// Collect one endpoint now, show progress, and exit when the work is done
    Run(Run),
    /// Manage sources: feeds, pages and listings that are polled on an interval
    Source {
        #[command(subcommand)]
        command: Source,
    },
    /// Collect the sources that are due: once, continuously, or only one of them
    #[command(visible_alias = "collector")]
    Collect(Collect),
    /// Search platforms that need cookies, and store each note once
    Crawl {
        #[command(subcommand)]
        command: Crawl,
    },
    /// Fetch the newest tweets of users now; needs TWITTER_API_KEY
    Scrape(Scrape),
    /// Manage the URLs found in documents and jobs
    Pool {
        #[command(subcommand)]
        command: Pool,
    },
    /// Manage projects, which separate data
    Project {
        #[command(subcommand)]
        command: Project,
    },
    /// List rows of a view, or show a report, a spec or a manifest
    Get(Get),
    /// Pause work until you resume it: a source, an endpoint, a plan, a slice or a task
    Pause(Pause),
    /// Resume work that was paused, or halted after a fatal error
    Resume(Resume),
    /// Cancel work for good: a job, a plan, a slice or a task
    Cancel(Cancel),
    /// Manage cursors: accept a gap
    Cursor {
        #[command(subcommand)]
        command: Cursor,
    },
    /// Mark records to be fetched again
    Signal(Signal),
    /// Manage records that could not be stored
    Quarantine {
        #[command(subcommand)]
        command: Quarantine,
    },
    /// Manage events for webhooks
    Outbox {
        #[command(subcommand)]
        command: Outbox,
    },
    /// Archive old batches and cursor events now; a server does it automatically
    Archive(Archive),
    /// Read a batch again and compare, or run it again in production
    Replay(Replay),
    /// Export and inspect diagnostic bundles: everything known about a batch, in one signed file
    #[command(alias = "blackbox")]
    Bundle {
        #[command(subcommand)]
        command: Bundle,
    },
    /// Print the JSON Schema of manifests, for editors
    Schema,
    /// Create or update the database schema
    Migrate,
    /// Back up and restore the database
    Db {
        #[command(subcommand)]
        command: Db,
    },
    /// Check the installation for problems
    Audit {
        #[command(subcommand)]
        command: Audit,
    },
    /// Check whether a server or the database is healthy
    Health(Health),
    /// Manage API keys
    Key {
        #[command(subcommand)]
        command: Key,
    },
    /// Manage credentials for upstream APIs
    Credential {
        #[command(subcommand)]
        command: Credential,
    },
    /// Explain an error code, an error level or an exit code
    Explain {
        /// Code such as RATE_LIMITED, level such as L1, or exit code such as 78; lists all when left out
        code: Option<String>,
    },
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages into a folder, one for each command
    Man {
        /// Folder; created if it is missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

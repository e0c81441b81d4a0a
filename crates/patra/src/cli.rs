//! The words of the command line.

mod audit;
mod board;
mod crawl;
mod credential;
mod operations;
mod pool;
mod replay;
mod source;

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;

use patra_core::Ts;
use patra_core::port::query::View;
use patra_core::state::{Operation, UpdateReason};
use patra_core::tx::Scope;

pub(crate) use audit::{Audit, AuditSecurity, Db};
pub(crate) use board::{Board, Span};
pub(crate) use crawl::{Crawl, CrawlRun, Listed};
pub(crate) use credential::{Credential, Values, Which};
pub(crate) use operations::{
    Archive, Cancel, Cancelled, Held, Outbox, Pause, Quarantine, Resume, Resumed, Signal, Who,
};
pub(crate) use pool::{AddDocument, ExtractUrls, ListUrls, LookBackUrls, Pool, Project};
pub(crate) use replay::{Blackbox, Replay};
pub(crate) use source::{AddSource, Collect, ExportFormat, Source};

/// Patra collects: any API, feed or page, on schedule, without gaps, without duplicates.
#[derive(Debug, Parser)]
#[command(name = "patra", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// What is logged when RUST_LOG says nothing: a server tells what it does, a command only what went wrong.
    pub(crate) fn default_log(&self) -> &'static str {
        let serves = match &self.command {
            Command::Serve(_) => true,
            Command::Collect(args) => args.r#loop,
            _ => false,
        };
        if serves { "info" } else { "error" }
    }
}

/// The words, with environment variables that are empty left out: whoever writes `NAME=` into a file means that it is not set.
pub(crate) fn command() -> clap::Command {
    without_empty(Cli::command())
}

fn without_empty(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|arg| if is_empty(&arg) { arg.env(None::<&str>) } else { arg });
    command.mut_subcommands(without_empty)
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Folder of the embedded database
    #[arg(long, global = true, env = "PATRA_DATA", default_value = "./patra-data", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// PostgreSQL instead of the embedded database: postgres://user:password@host/database
    #[arg(long, global = true, env = "PATRA_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// Project that the command is about; without one all are seen, and what is added is of the project `default`
    #[arg(long, global = true, env = "PATRA_PROJECT", value_name = "KEY")]
    pub(crate) project: Option<String>,
    /// How results are printed
    #[arg(long, short = 'o', global = true, env = "PATRA_OUTPUT", default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Output,
    /// How log lines are printed
    #[arg(long, global = true, env = "PATRA_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// Network that may be collected from although it is not public, such as 10.0.0.0/8; may be repeated
    #[arg(long, global = true, env = "PATRA_ALLOW_NET", value_delimiter = ',', value_name = "CIDR")]
    pub(crate) allow_net: Vec<IpNet>,
    /// File with the master key that credentials are sealed with; PATRA_MASTER_KEY holds the key itself
    #[arg(long, global = true, env = "PATRA_MASTER_KEY_FILE", value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,
    /// Service that signs requests of manifests that name it as their hook; may be repeated; PATRA_SIGNER_<NAME> too
    #[arg(long = "signer", global = true, value_parser = pair, value_name = "NAME=URL")]
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
    /// Run the server: API, planner and executor in one process, or some of them
    Serve(Serve),
    /// Show it all in half a minute, offline: a far side with faults, a harvest, a kill, a resume
    Demo(Demo),
    /// Check manifests and put them into the registry
    Apply(Apply),
    /// Check manifests and change nothing
    Validate(Validate),
    /// Run the offline tests inside manifests
    Test(Test),
    /// Read a page or more of an endpoint, show everything, store nothing
    Try(Try),
    /// Collect now, show progress, and end when the work has ended
    Run(Run),
    /// Feeds, pages and listings that are collected again and again
    Source {
        #[command(subcommand)]
        command: Source,
    },
    /// Collect the sources that are due, once; or on and on; or one of them
    #[command(visible_alias = "collector")]
    Collect(Collect),
    /// Platforms behind cookies: search, fetch notes, store each once
    Crawl {
        #[command(subcommand)]
        command: Crawl,
    },
    /// Tweets of users, now: `patra scrape alice bob`; needs TWITTER_API_KEY
    Scrape(Scrape),
    /// URLs that documents and tasks know of
    Pool {
        #[command(subcommand)]
        command: Pool,
    },
    /// Projects: each sees its own
    Project {
        #[command(subcommand)]
        command: Project,
    },
    /// List what is there
    Get(Get),
    /// Stop work until it is resumed: of a source, an endpoint, a plan, a slice or a task
    Pause(Pause),
    /// Let work go on that was paused, or that a fuse stopped
    Resume(Resume),
    /// End work for good: a job, a plan, a slice or a task
    Cancel(Cancel),
    /// Say of records that they must be fetched again
    Signal(Signal),
    /// Records that could not be stored
    Quarantine {
        #[command(subcommand)]
        command: Quarantine,
    },
    /// Events for the world outside
    Outbox {
        #[command(subcommand)]
        command: Outbox,
    },
    /// Move old batches and cursor events out of the ledger now; a server does so by itself
    Archive(Archive),
    /// Read a batch once more from its kept answer, or from the far side, and compare; or drive it again
    Replay(Replay),
    /// All that is known of a batch as one signed file
    Blackbox {
        #[command(subcommand)]
        command: Blackbox,
    },
    /// Print the JSON Schema of manifests, for editors
    Schema,
    /// Make or update the database's schema
    Migrate,
    /// Copies of the database
    Db {
        #[command(subcommand)]
        command: Db,
    },
    /// Is anything secret in the clear?
    Audit {
        #[command(subcommand)]
        command: Audit,
    },
    /// Ask a running server, or the database, whether it is well
    Health(Health),
    /// API keys
    Key {
        #[command(subcommand)]
        command: Key,
    },
    /// What far sides know us by
    Credential {
        #[command(subcommand)]
        command: Credential,
    },
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages, one for each command, into a folder
    Man {
        /// The folder; made where it is missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address of the API
    #[arg(long, env = "PATRA_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub(crate) listen: std::net::SocketAddr,
    /// Address of a listener for /metrics alone, without a key: let only scrapers reach it
    #[arg(long, env = "PATRA_METRICS_LISTEN", value_name = "ADDR")]
    pub(crate) metrics_listen: Option<std::net::SocketAddr>,
    /// Parts to run; all when none is named
    #[arg(long = "role", env = "PATRA_ROLE", value_delimiter = ',', value_name = "ROLE")]
    pub(crate) roles: Vec<Role>,
    /// Leave the sources to another process
    #[arg(long)]
    pub(crate) no_collector: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Api,
    Planner,
    Executor,
    Collector,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Engine {
    /// Tasks at work at once
    #[arg(long, env = "PATRA_CONCURRENCY", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: u32,
    /// How long a task stays with a process that does not answer
    #[arg(long, env = "PATRA_LEASE_SECS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) lease_secs: u64,
    /// Days that batches and cursor events stay in the ledger before they are archived; 0: for ever
    #[arg(long, env = "PATRA_RETENTION_DAYS", default_value_t = 90, value_parser = clap::value_parser!(u32).range(0..=36500))]
    pub(crate) retention_days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Records on the far side
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) records: u64,
    /// Leave the far side and the server running at the end
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Manifest, or folder of manifests (*.yaml, *.yml); may be repeated
    #[arg(long = "file", short = 'f', required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove from the registry what the folders do not have; collected records stay
    #[arg(long)]
    pub(crate) prune: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Manifests, or folders of manifests
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Manifests, or folders of manifests
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Try {
    /// The manifest
    pub(crate) file: PathBuf,
    /// One of its endpoints; needed when there are several
    #[arg(long, value_name = "NAME")]
    pub(crate) endpoint: Option<String>,
    /// Pages to read at most
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    pub(crate) pages: u32,
    /// Records of each page to show
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(crate) records: usize,
    /// Beginning of the window; one window before its end when it is left out
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Ts>,
    /// End of the window; now less the safety lag when it is left out
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Ts>,
    /// A parameter that the endpoint declares; may be repeated
    #[arg(long = "param", value_parser = pair, value_name = "NAME=VALUE")]
    pub(crate) params: Vec<(String, String)>,
    /// A setting to try instead of the manifest's, such as pagination.page_size=5; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
    /// Write each answer to a file in this folder and print a test for it
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Code of the provenance, as in its manifest
    pub(crate) provenance: String,
    /// Name of one of its endpoints
    pub(crate) endpoint: String,
    /// harvest, backfill or update
    #[arg(long, default_value = "harvest", value_parser = any_operation)]
    pub(crate) operation: Operation,
    /// Why records are updated: staleness, expr-change or signals
    #[arg(long, value_parser = reason, value_name = "REASON")]
    pub(crate) reason: Option<UpdateReason>,
    /// What a backfill or an update belongs to; runs of one activity share their progress
    #[arg(long, value_name = "NAME")]
    pub(crate) activity: Option<String>,
    /// Beginning of the window, instead of where the cursor stands
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Ts>,
    /// End of the window, instead of now less the safety lag
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Ts>,
    /// A parameter that the endpoint declares; one that partitions would bind reads that partition only; may be repeated
    #[arg(long = "param", value_parser = pair, value_name = "NAME=VALUE")]
    pub(crate) params: Vec<(String, String)>,
    /// A setting of this run only, such as pagination.page_size=50; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Sooner (less than 0) or later than other work of the same kind
    #[arg(long, default_value_t = 0, allow_hyphen_values = true, value_name = "N")]
    pub(crate) priority: i32,
    /// Only ask for the work; executors elsewhere do it
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Debug, Args)]
pub(crate) struct Scrape {
    /// Names, with or without @
    #[arg(required = true, value_name = "USER")]
    pub(crate) users: Vec<String>,
    /// Tweets of each at most; by how many were new the last times when it is left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    pub(crate) limit: Option<u32>,
}

#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Get {
    #[command(subcommand)]
    pub(crate) one: Option<GetOne>,
    /// What to list
    #[arg(value_parser = view, required = true)]
    pub(crate) view: Option<View>,
    #[arg(long, value_name = "CODE")]
    pub(crate) provenance: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub(crate) endpoint: Option<String>,
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    #[arg(long, value_name = "ID")]
    pub(crate) plan: Option<i64>,
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<i64>,
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<i64>,
    /// Rows at most; with ndjson, 0 means all
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: u64,
}

/// What is no list.
#[derive(Debug, Subcommand)]
pub(crate) enum GetOne {
    #[command(flatten)]
    Board(Board),
    #[command(flatten)]
    Registry(GetRegistry),
}

/// What is there once, and not in rows.
#[derive(Debug, Subcommand)]
pub(crate) enum GetRegistry {
    /// The spec that a trigger would be planned with, and who said what
    Spec(GetSpec),
    /// A manifest as the registry has it, as YAML
    Manifest {
        /// Code of the provenance
        #[arg(required_unless_present = "all")]
        provenance: Option<String>,
        /// Write every manifest to this folder, as CODE.yaml
        #[arg(long, value_name = "DIR", conflicts_with = "provenance")]
        all: Option<PathBuf>,
    },
    /// The codes that the program knows, and what else is read as them
    Dictionary,
    /// A plan with everything that came of it: slices, tasks, runs, batches
    Lineage {
        /// As `patra get plans` shows it
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
    /// harvest, backfill or update
    #[arg(long, default_value = "harvest", value_parser = any_operation)]
    pub(crate) operation: Operation,
    /// Show every value and which layer said it
    #[arg(long)]
    pub(crate) explain: bool,
    /// A setting as a run would override it, such as pagination.page_size=50; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) overrides: Vec<String>,
}

fn any_operation(word: &str) -> Result<Operation, String> {
    word.to_uppercase().parse().map_err(|_| "one of: harvest, backfill, update".to_owned())
}

fn reason(word: &str) -> Result<UpdateReason, String> {
    let word = word.to_uppercase().replace('-', "_");
    word.parse().map_err(|_| "one of: staleness, expr-change, signals".to_owned())
}

fn view(word: &str) -> Result<View, String> {
    word.parse().map_err(|_| {
        let known: Vec<_> = View::ALL.iter().map(|view| view.as_str()).collect();
        format!("one of: {}", known.join(", "))
    })
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// A server to ask, such as http://127.0.0.1:8080; the database itself when none is named
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a key and show it, once
    Create {
        /// What the key is for, to recognise it in the list
        name: String,
        /// read, write or admin
        #[arg(long, default_value = "read", value_parser = |word: &str| word.parse::<Scope>().map_err(|error| error.to_string()))]
        scope: Scope,
        /// The only project that the key is for; may be repeated
        #[arg(long = "for", value_name = "PROJECT")]
        projects: Vec<String>,
        /// The key may write what all projects see
        #[arg(long)]
        shared: bool,
    },
    /// List keys, without their secrets
    List,
    /// Make a key useless, by the public part of it
    Revoke {
        /// The eight digits after `patra_`
        prefix: String,
    },
}

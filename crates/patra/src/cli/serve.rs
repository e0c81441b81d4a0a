//! `patra serve`, and what belongs to a running server: `health` and `key`.

use clap::{Args, Subcommand, ValueEnum};

use patra_core::tx::KeyScope;

use super::value;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Serve the API and the console on this address
    #[arg(long, env = "PATRA_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub(crate) listen: std::net::SocketAddr,
    /// Serve /metrics without a key on this address; let only scrapers reach it
    #[arg(long, env = "PATRA_METRICS_LISTEN", value_name = "ADDR")]
    pub(crate) metrics_listen: Option<std::net::SocketAddr>,
    /// Run only this part; repeatable; all parts when left out
    #[arg(long = "role", env = "PATRA_ROLE", value_delimiter = ',', value_name = "ROLE")]
    pub(crate) roles: Vec<Role>,
    /// Accept at most this many connections from one client address
    #[arg(long, env = "PATRA_CONNECTIONS_PER_ADDRESS", default_value_t = patra_api::MAX_PER_ADDRESS, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub(crate) connections_per_address: u32,
    /// Do not poll sources in this process
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
    /// Run this many tasks at once
    #[arg(long, env = "PATRA_CONCURRENCY", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    pub(crate) concurrency: u32,
    /// Give a task to another process after this many seconds without a lease renewal
    #[arg(long, env = "PATRA_LEASE_SECS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600), value_name = "SECS")]
    pub(crate) lease_secs: u64,
    /// Archive batches and cursor events after this many days; 0 keeps them in the ledger
    #[arg(long, env = "PATRA_RETENTION_DAYS", default_value_t = 90, value_parser = clap::value_parser!(u32).range(0..=36500), value_name = "DAYS")]
    pub(crate) retention_days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Check this server, such as http://127.0.0.1:8080; the database itself when left out
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Create a key and show it once
    Create {
        /// Name, to recognise the key in the list
        name: String,
        /// Grant this scope
        #[arg(long, default_value = "read", value_parser = value::scope(), value_name = "SCOPE")]
        scope: KeyScope,
        /// Limit the key to this project; repeatable
        #[arg(long = "for", value_name = "PROJECT")]
        projects: Vec<String>,
        /// Let the key write data that all projects share
        #[arg(long)]
        shared: bool,
    },
    /// List keys, without their secrets
    List,
    /// Revoke a key by its public part
    Revoke {
        /// The eight characters after `patra_`
        prefix: String,
    },
}

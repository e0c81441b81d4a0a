//! `patra apply`, `validate`, `test` and `try`: commands that read manifests from files.

use std::path::PathBuf;

use clap::Args;

use patra_core::Ts;

use super::value;

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Apply this manifest, or all in this folder (*.yaml, *.yml); repeatable
    #[arg(long = "file", short = 'f', required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Show what would change, without changing it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove from the registry what is not in the folders; collected records stay
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
    /// Manifest
    pub(crate) file: PathBuf,
    /// Fetch this endpoint; required when the manifest has several
    #[arg(long, value_name = "NAME")]
    pub(crate) endpoint: Option<String>,
    /// Fetch at most this many pages
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    pub(crate) pages: u32,
    /// Show this many records of each page
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(crate) records: usize,
    /// Start the window here; one window before its end when left out
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Ts>,
    /// End the window here; now minus the safety lag when left out
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Ts>,
    /// Set a parameter that the endpoint declares; repeatable
    #[arg(long = "param", value_parser = value::pair, value_name = "NAME=VALUE")]
    pub(crate) params: Vec<(String, String)>,
    /// Override a setting of the manifest, such as pagination.page_size=5; repeatable
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
    /// Write each response to a file in this folder and print a test for it
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
}

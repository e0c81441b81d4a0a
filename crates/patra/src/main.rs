//! The `patra` program: command line, wiring, signals. The other crates decide; this one connects them.

mod allocator;
mod cli;
mod clock;
mod commands;
mod error;
mod explain;
mod host;
mod logging;
mod output;
mod panic;
mod progress;
mod settings;
mod signals;
mod store;
mod supervisor;
mod traces;
mod tweets;
mod vault;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::cli::Cli;
use crate::error::{Error, Exit};

fn main() -> ExitCode {
    panic::install();
    let mut command = cli::command();
    let mut args: Vec<_> = std::env::args_os().collect();
    if args.len() <= 1 {
        args = vec!["patra".into(), "--help".into()];
    }
    let parsed = command.try_get_matches_from_mut(&args);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return refused(&error, &command, &args),
    };
    allocator::configure(&cli);
    // The last traces are sent when the guard is dropped, after the work.
    let result = logging::start(&cli).and_then(|_traces| run(cli));
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.print();
            error.exit.into()
        }
    }
}

/// Prints what the parser stopped at: help and version are no errors.
fn refused(error: &clap::Error, command: &clap::Command, args: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if cli::is_incomplete(error) {
        let _ = error.print();
        return Exit::Usage.into();
    }
    let error = cli::usage_error(error, command, args);
    error.print();
    error.exit.into()
}

fn run(cli: Cli) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::unexpected(format!("the runtime cannot be started: {error}")))?;
    let result = runtime.block_on(commands::run(cli));
    // Only work that a second signal cancelled still runs: do not wait for it.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    result
}

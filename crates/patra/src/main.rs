//! The `patra` program: command line, wiring, signals. Decisions live in the crates below; this one puts them together.

mod cli;
mod clock;
mod commands;
mod error;
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

use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::cli::Cli;
use crate::error::{Error, Exit};

fn main() -> ExitCode {
    panic::install();
    let parsed = cli::command().try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not errors.
            if !error.use_stderr() {
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            let text = error.to_string();
            let error = Error::usage(text.trim_start_matches("error: ").trim_end());
            error.print();
            return error.exit.into();
        }
    };
    // The traces that are left are sent when the work is over.
    let result = logging::start(&cli).and_then(|_traces| run(cli));
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.print();
            error.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::unexpected(format!("the runtime cannot be started: {error}")))?;
    let result = runtime.block_on(commands::run(cli));
    // What still runs is cancelled work of a hurried stop: do not wait for it.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    result
}

//! The mock API as a program, for benches and manual tests.

mod args;

use std::process::ExitCode;

use patra_upstream::{Dataset, MockApi};
use tokio::runtime::Builder;

use self::args::{Args, HELP};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program speaks to its user")]
fn main() -> ExitCode {
    match Args::parse(std::env::args().skip(1)) {
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}\n\nhint: patra-upstream --help");
            ExitCode::from(2)
        }
        Ok(Some(args)) => match run(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

/// Serves until interrupted.
#[expect(clippy::print_stdout, reason = "whoever started it waits for the address")]
fn run(args: Args) -> std::io::Result<()> {
    let builder = Dataset::builder().seed(args.seed).count(args.records).tie_every(args.tie_every);
    let dataset = builder.step_micros(i64::from(args.step_secs) * 1_000_000).build();
    let runtime = Builder::new_multi_thread().worker_threads(args.threads).enable_all().build()?;
    runtime.block_on(async {
        let server = MockApi::start(args.listen, dataset, args.script)?;
        println!("{}", server.base_url());
        tokio::signal::ctrl_c().await?;
        server.stop().await;
        Ok(())
    })
}

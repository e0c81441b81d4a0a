//! Settings of the C library's allocator. By default it keeps freed memory, and the more the larger the blocks are that it
//! has freed, in each of its arenas: after a few large pages a process would never return most of their memory. The
//! thresholds are read from the environment when a process starts, so a long-running command starts itself once more,
//! as the same process, with fixed ones.

use crate::cli::{Cli, Command};

/// Blocks of this many bytes are taken from the system, and freed memory is returned from this many bytes on.
const THRESHOLD: &str = "1048576";
const VARIABLES: [&str; 2] = ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"];

/// Sets the thresholds of a command that collects, unless the environment sets them already. Does not return if the
/// program is started again; returns if there is nothing to set, or if it cannot be started.
pub(crate) fn configure(cli: &Cli) {
    let collects =
        matches!(cli.command, Command::Serve(_) | Command::Run(_) | Command::Collect(_) | Command::Scrape(_));
    if collects && VARIABLES.iter().any(|name| std::env::var_os(name).is_none()) {
        start_again();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn start_again() {
    use std::os::unix::process::CommandExt as _;

    let mut args = std::env::args_os();
    let (Some(name), Ok(program)) = (args.next(), std::env::current_exe()) else { return };
    let mut again = std::process::Command::new(program);
    again.arg0(name).args(args);
    for variable in VARIABLES {
        if std::env::var_os(variable).is_none() {
            again.env(variable, THRESHOLD);
        }
    }
    // Without it the process works too, and keeps more memory.
    let _ = again.exec();
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn start_again() {
    // Other allocators have no such thresholds.
    let _ = THRESHOLD;
}

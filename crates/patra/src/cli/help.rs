//! The layout of `--help`: global options in a group of their own at the end, and the views of `get`.

use clap::{Arg, ArgAction, Command};

use patra_core::port::query::View;

/// Heading of the options that every command has.
pub(super) const GLOBAL: &str = "Global options";

/// Puts `--help` and `--version` among the global options, and the list of views into the help of `get`. Values of
/// environment variables are not shown: help looks the same everywhere.
pub(super) fn arrange(command: Command) -> Command {
    let flag = |name: &'static str, short: char, action: ArgAction, help: &'static str| {
        Arg::new(name).long(name).short(short).action(action).help(help).global(true).help_heading(GLOBAL)
    };
    without_values(command)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(flag("help", 'h', ArgAction::Help, "Print help"))
        .arg(flag("version", 'V', ArgAction::Version, "Print version"))
        .mut_subcommand("resume", |resume| {
            // It takes what `pause` takes.
            resume.mut_subcommands(|target| {
                let about = target.get_about().map(|about| about.to_string().replace("Pause ", "Resume "));
                target.about(about.unwrap_or_default())
            })
        })
        .mut_subcommand("get", |get| {
            get.before_help(views())
                .override_usage("patra get [OPTIONS] <VIEW>\n       patra get [OPTIONS] <COMMAND>")
                .help_template("{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}")
        })
}

fn without_values(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_env_values(true)).mut_subcommands(without_values)
}

fn views() -> String {
    let width = View::ALL.iter().map(|view| view.as_str().len()).max().unwrap_or_default();
    let line = |view: &View| format!("  {:width$}  {}", view.as_str(), about(*view));
    format!("Views:\n{}", View::ALL.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn about(view: View) -> &'static str {
    match view {
        View::Provenances => "APIs with an applied manifest",
        View::Endpoints => "Endpoints of the manifests",
        View::Schedules => "Schedules and when they are due next",
        View::Jobs => "Jobs: requests for work",
        View::Plans => "Plans of jobs, with the window that each covers",
        View::Slices => "Slices of plans: one window or range of ids each",
        View::Tasks => "Tasks in the queue, one for each slice",
        View::Runs => "Runs: attempts at tasks",
        View::Batches => "Batches of runs: one request and its statistics each",
        View::Cursors => "Cursors: how far each endpoint is collected",
        View::Events => "Advances of the cursors",
        View::Items => "Collected records",
        View::Quarantine => "Records that could not be stored",
        View::Candidates => "Ids whose details were fetched or failed",
        View::Signals => "Records marked to be fetched again",
        View::Holds => "Work that is paused or halted, and why",
        View::Gates => "Rate limits: current rates, quotas and waiting requests",
        View::Archive => "Archived batches and cursor events",
        View::Exports => "Diagnostic bundles that were exported",
        View::Outbox => "Events for webhooks",
        View::Keys => "API keys, without their secrets",
        View::Credentials => "Credentials, without their secrets",
        View::CredentialStates => "State of access tokens",
    }
}

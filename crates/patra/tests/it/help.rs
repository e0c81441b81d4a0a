//! `--help` of every command: one snapshot per command, the global options at the end, old names hidden.

use std::path::Path;

use crate::snapshot::{self, patra};
use crate::support::{Workspace, manifest};

const GLOBAL: &str = "Global options:\n";

fn help(args: &[&str]) -> String {
    let output = patra(Path::new("."), &[args, &["--help"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The names under `Commands:`, without `help`.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Continuation lines of a long description are indented further.
    let names = list.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The help of a command and of all commands below it, without the global options, which are the same everywhere.
fn tree(command: &[&str], global: &str, out: &mut String) {
    let text = help(command);
    let (own, options) =
        text.split_once(GLOBAL).unwrap_or_else(|| panic!("{command:?} has no global options:\n{text}"));
    assert_eq!(options, global, "{command:?} ends with the global options");
    out.push_str(&format!("$ patra {} --help\n{}\n\n", command.join(" "), own.trim_end()));
    for name in subcommands(own) {
        tree(&[command, &[&name]].concat(), global, out);
    }
}

#[test]
fn help_of_every_command_equals_its_snapshot() {
    let root = help(&[]);
    snapshot::check("help", &root);
    let (own, global) = root.split_once(GLOBAL).unwrap();
    let names = subcommands(own);
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let mut text = String::new();
        tree(&[&name], global, &mut text);
        snapshot::check(&format!("help_{name}"), text.trim_end());
    }
}

#[test]
fn patra_without_arguments_prints_help_and_exits_0() {
    let output = patra(Path::new("."), &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), help(&[]));
}

#[test]
fn command_without_its_subcommand_prints_help_and_exits_64() {
    let output = patra(Path::new("."), &["source"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8(output.stderr).unwrap().contains("Commands:\n  add "));
}

#[test]
fn help_fits_the_width_of_the_terminal() {
    for width in [80, 120] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_patra"));
        let output = command.env_clear().env("COLUMNS", width.to_string()).args(["run", "--help"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let long: Vec<_> = text.lines().filter(|line| line.chars().count() > width).collect();
        assert!(long.is_empty(), "wider than {width}: {long:#?}");
    }
}

/// Names of the last release keep working for one release and are in no help.
#[test]
fn old_names_work_and_are_hidden() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    for (old, new) in [
        (&["outbox", "retell"][..], &["outbox", "retry"][..]),
        (&["blackbox", "show", "nowhere.json"], &["bundle", "show", "nowhere.json"]),
        (&["blackbox", "export", "1", "1", "--reason", "x"], &["bundle", "export", "1", "1", "--reason", "x"]),
    ] {
        let (before, now) = (place.run(old), place.run(new));
        assert_eq!(before, now, "{old:?} does the same as {new:?}");
        assert_ne!(now.status.code(), Some(64), "{new:?} is known: {now:?}");
    }
    let texts = [help(&[]), help(&["outbox"]), help(&["bundle"])].concat();
    assert!(!texts.contains("retell") && !texts.contains("blackbox"), "{texts}");
}

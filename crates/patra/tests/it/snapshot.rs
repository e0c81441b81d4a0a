//! Snapshots of user-visible texts, in `snapshots/`. A difference fails the test; `INSTA_UPDATE=always` accepts it.

use std::path::Path;
use std::process::{Command, Output};

/// Compares a text with the snapshot of this name.
#[track_caller]
pub(crate) fn check(name: &str, text: &str) {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The program in a folder, with a fixed width, without colour and without any setting of the developer.
pub(crate) fn patra(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patra"));
    command.env_clear().env("COLUMNS", "100").env("NO_COLOR", "1").current_dir(folder);
    command.args(args).output().unwrap()
}

/// A command with its output and exit code, and with the folder redacted.
pub(crate) fn transcript(folder: &Path, args: &[&str]) -> String {
    let output = patra(folder, args);
    let mut text = format!("$ patra {}\n", args.join(" "));
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text.push_str(&format!("[exit code {}]\n", output.status.code().unwrap_or(-1)));
    redacted(&text, folder)
}

/// Redacts everything that differs from run to run: the folder, times, process ids, hashes.
pub(crate) fn redacted(text: &str, folder: &Path) -> String {
    let text = text.replace(&folder.display().to_string(), "[folder]");
    let mut redacted = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let (length, mark) = changing(rest, redacted.chars().next_back());
        if length > 0 {
            redacted.push_str(mark);
            rest = &rest[length..];
        } else {
            redacted.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    redacted
}

/// The length of a time, an id or a hash at the beginning of a text, and the mark that replaces it.
fn changing(text: &str, before: Option<char>) -> (usize, &'static str) {
    if before.is_some_and(char::is_alphanumeric) {
        return (0, "");
    }
    if let Some(pid) = text.strip_prefix("pid ") {
        return (4 + count(pid, |c| c.is_ascii_digit()), "[pid]");
    }
    const LATENCY: &str = "latency_ms\": ";
    if let Some(latency) = text.strip_prefix(LATENCY) {
        return (LATENCY.len() + count(latency, |c| c.is_ascii_digit()), "latency_ms\": [ms]");
    }
    let time = count(text, |c| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | 'T' | 'Z'));
    if time >= 19 && text[..time].contains('T') && text.starts_with("20") {
        return (time, "[time]");
    }
    let hash = count(text, |c| c.is_ascii_hexdigit());
    if hash >= 32 { (hash, "[hash]") } else { (0, "") }
}

fn count(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

#[test]
fn redaction_replaces_only_what_changes() {
    let folder = Path::new("/tmp/x");
    for (text, expected) in [
        ("\"latency_ms\": 12,", "\"latency_ms\": [ms],"),
        ("in /tmp/x/data: 2024-01-02T03:04:05Z", "in [folder]/data: [time]"),
        ("process (pid 17) of 2024-01-02", "process ([pid]) of 2024-01-02"),
        (&format!("hash {}, deadbeef", "a1".repeat(16)), "hash [hash], deadbeef"),
    ] {
        assert_eq!(redacted(text, folder), expected);
    }
}

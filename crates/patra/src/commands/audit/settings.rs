//! Settings, and permissions of the files that hold secrets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use patra_core::seal::{MIN_TEXT, MasterKey};

use super::files::lines;
use super::needles::Needles;
use super::patterns;
use super::report::{Level, Report};
use crate::cli::Global;
use crate::error::Error;
use crate::settings::{DOT_ENV, Environment, pair};
use crate::{store, vault};

/// Fewest different characters of a good key; 32 random characters have more than a dozen.
const MIN_DIFFERENT: usize = 8;
/// Longest period of a text that counts as a repetition.
const LONGEST_PERIOD: usize = 16;
const MAKE_ONE: &str =
    "create one with `openssl rand -base64 32`, put it before the old one, and run `patra credential reseal`";
const ONLY_OWNER: &str = "`chmod 600` a file, `chmod 700` a folder";

/// Checks the environment, including `.env`.
pub(super) fn environment(environment: &Environment, report: &mut Report) {
    for (name, value) in environment.all().filter(|(name, _)| is_key(name)) {
        weak(name, value, name, report);
    }
    let listen = environment.get("PATRA_LISTEN").and_then(|text| text.trim().parse::<SocketAddr>().ok());
    let open = listen.is_some_and(|address| !address.ip().is_loopback());
    let is_on = |name| environment.is_on(name).unwrap_or(false);
    if is_on("PATRA_PUBLIC_READ") {
        let level = if open { Level::High } else { Level::Medium };
        let hint = "leave it unset, and give readers a key: `patra key create NAME --scope read`";
        report.add(level, "authentication", "PATRA_PUBLIC_READ", "collected data can be read without a key", hint);
    }
    if open {
        let hint = "listen on 127.0.0.1 behind a proxy with TLS, unless you trust the network";
        report.add(Level::Medium, "listen", "PATRA_LISTEN", "other machines can reach the API, without TLS", hint);
    }
    if is_on("PATRA_MIGRATE_WITHOUT_BACKUP") {
        let hint = "unset it once the migration is done";
        report.add(
            Level::Medium,
            "backup",
            "PATRA_MIGRATE_WITHOUT_BACKUP",
            "migrations take no backup before they start",
            hint,
        );
    }
}

fn is_key(name: &str) -> bool {
    matches!(name, "PATRA_MASTER_KEY" | "COOKIE_MASTER_KEY") || name.starts_with("COOKIE_KEY_")
}

fn weak(name: &str, value: &str, place: &str, report: &mut Report) {
    let is_plain = name == "PATRA_MASTER_KEY";
    for key in value.split(|c: char| is_plain && (c == ',' || c == '\n')).map(str::trim).filter(|key| !key.is_empty()) {
        let problem = if is_plain && MasterKey::parse(key).is_err() {
            Some((Level::Critical, "is not a master key: it needs 32 bytes in base64 or hex"))
        } else if key.chars().count() < MIN_TEXT {
            Some((Level::Critical, "is too short: it can be guessed"))
        } else if is_guessable(key) {
            Some((Level::High, "is weak: it repeats itself"))
        } else {
            None
        };
        if let Some((level, what)) = problem {
            report.add(level, "weak_key", place, format!("{name} {what}"), MAKE_ONE);
        }
    }
}

fn is_guessable(key: &str) -> bool {
    let letters: Vec<char> = key.chars().collect();
    let different: std::collections::BTreeSet<_> = letters.iter().collect();
    let repeats = |period: usize| letters.iter().zip(letters.iter().skip(period)).all(|(one, next)| one == next);
    different.len() < MIN_DIFFERENT || (1..=LONGEST_PERIOD).any(repeats)
}

/// Adds the keys of this installation, to search for them everywhere else.
pub(super) fn keys(global: &Global, environment: &Environment, needles: &mut Needles) {
    let secret = |name: &str| is_key(name) || name == "ALERT_WEBHOOK_SECRET";
    for (name, value) in environment.all().filter(|(name, _)| secret(name)) {
        value.split(',').for_each(|key| needles.key(name, key));
    }
    for path in key_files(global) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.split([',', '\n']).for_each(|key| needles.key(&path.display().to_string(), key));
    }
}

fn key_files(global: &Global) -> Vec<PathBuf> {
    let default = global.database_url.is_none().then(|| global.data.join(vault::FILE));
    global.master_key_file.iter().cloned().chain(default).filter(|path| path.exists()).collect()
}

/// Checks who can read the database, its backups and the keys.
pub(super) fn modes(global: &Global, report: &mut Report) {
    let mut paths = key_files(global);
    if global.database_url.is_none() {
        paths.push(global.data.clone());
        let database = store::database_file(global);
        let sibling = |end: &str| PathBuf::from(format!("{}{end}", database.display()));
        paths.extend([database.clone(), sibling("-wal"), sibling("-shm")]);
    }
    let copies = global.data.join(patra_store_sqlite::backup::FOLDER);
    let is_copy = |path: &PathBuf| path.is_file() && path.to_string_lossy().contains("patra");
    for folder in [&global.data, &copies] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let copied = |path: &PathBuf| folder == &copies || path.to_string_lossy().contains(".replaced-");
        paths.extend(entries.filter(|path| is_copy(path) && copied(path)));
    }
    paths.push(copies);
    for path in paths.iter().filter(|path| path.exists()) {
        report.count("files", 1);
        if let Some(mode) = open_to_others(path) {
            let message = format!("other users of this machine can access it: its mode is {mode:03o}");
            report.add(Level::High, "permissions", path.display().to_string(), message, ONLY_OWNER);
        }
    }
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> Option<u32> {
    None
}

/// Checks files of settings: permissions, weak keys, and plaintext cookies.
pub(super) fn files(named: &[PathBuf], needles: &Needles, report: &mut Report) -> Result<(), Error> {
    let own = PathBuf::from(DOT_ENV);
    // The environment already includes this file.
    let read_before = own.exists().then_some(own);
    for path in read_before.iter().chain(named) {
        report.count("config_files", 1);
        let (mut has_secret, place) = (false, path.display().to_string());
        lines(path, needles.longest(), |number, line| {
            let here = format!("{place}:{number}");
            if let Some((name, value)) = pair(line).filter(|(_, value)| !value.is_empty()) {
                has_secret |= is_secret(&name);
                if is_key(&name) && Some(path) != read_before.as_ref() {
                    weak(&name, &value, &here, report);
                }
            }
            let is_cookie =
                patterns::certain(line).any(|span| span.name == "web_session" || span.name == "cookie_value");
            if is_cookie || needles.find_credential(line.as_bytes()).is_some() {
                let hint = "store it with `patra credential add`, and remove it here";
                report.add(Level::High, "config", here, "a credential is in this line, in plaintext", hint);
            }
            true
        })?;
        if let Some(mode) = open_to_others(path) {
            let level = if has_secret { Level::High } else { Level::Medium };
            let message = format!("other users of this machine can read it: its mode is {mode:03o}");
            report.add(level, "permissions", place, message, ONLY_OWNER);
        }
    }
    Ok(())
}

fn is_secret(name: &str) -> bool {
    is_key(name)
        || name.ends_with("DATABASE_URL")
        || ["_KEY", "_SECRET", "_PASSWORD", "_TOKEN"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_repeat_themselves_are_weak() {
        for key in [
            "a".repeat(32),
            "0123456789".repeat(4)[..32].replace(['8', '9'], "7"),
            "abcdefgh".repeat(5),
            "ab".repeat(20),
        ] {
            assert!(is_guessable(&key), "{key}");
        }
        assert!(!is_guessable("tN3vK8rQ0zL5yH2mB7xC4wJ9pF6sD1gA"));
    }
}

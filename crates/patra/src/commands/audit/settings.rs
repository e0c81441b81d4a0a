//! Settings, and who may read the files that matter.

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

/// Different characters that a key has at least; 32 drawn at random have more than a dozen.
const MIN_DIFFERENT: usize = 8;
/// A text that only repeats a piece of this many characters or fewer is as weak as the piece.
const LONGEST_PERIOD: usize = 16;
const MAKE_ONE: &str = "`openssl rand -base64 32` makes a good one; put it before the old one, and seal anew";
const ONLY_OWNER: &str = "`chmod 600` a file, `chmod 700` a folder";

/// What the environment says, `.env` included.
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
        report.add(level, "authentication", "PATRA_PUBLIC_READ", "what is collected can be read without a key", hint);
    }
    if open {
        let hint = "listen on 127.0.0.1 behind a proxy that speaks TLS, unless the network is your own";
        report.add(Level::Medium, "listen", "PATRA_LISTEN", "the API listens beyond this machine, without TLS", hint);
    }
    if is_on("PATRA_MIGRATE_WITHOUT_BACKUP") {
        let hint = "unset it once the migration is done";
        report.add(
            Level::Medium,
            "backup",
            "PATRA_MIGRATE_WITHOUT_BACKUP",
            "migrations take no copy before they begin",
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
            Some((Level::Critical, "is no master key: 32 bytes in base64 or hex are needed"))
        } else if key.chars().count() < MIN_TEXT {
            Some((Level::Critical, "is too short: a program that guesses finds it"))
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

/// Keys of ours, to be looked for everywhere else.
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
    let beside = global.database_url.is_none().then(|| global.data.join(vault::FILE));
    global.master_key_file.iter().cloned().chain(beside).filter(|path| path.exists()).collect()
}

/// Who may read the database, its copies and the keys.
pub(super) fn modes(global: &Global, report: &mut Report) {
    let mut paths = key_files(global);
    if global.database_url.is_none() {
        paths.push(global.data.clone());
        let database = store::database_file(global);
        let beside = |end: &str| PathBuf::from(format!("{}{end}", database.display()));
        paths.extend([database.clone(), beside("-wal"), beside("-shm")]);
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
            let message = format!("others on this machine can get at it: its mode is {mode:03o}");
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

/// Files of settings: who may read them, whether their keys are weak, and that no cookie is in them.
pub(super) fn files(named: &[PathBuf], needles: &Needles, report: &mut Report) -> Result<(), Error> {
    let own = PathBuf::from(DOT_ENV);
    // What is in that one, the environment has too.
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
                let hint = "seal it with `patra credential add`, and take it out here";
                report.add(Level::High, "config", here, "a credential is in this line, in the clear", hint);
            }
            true
        })?;
        if let Some(mode) = open_to_others(path) {
            let level = if has_secret { Level::High } else { Level::Medium };
            let message = format!("others on this machine can read it: its mode is {mode:03o}");
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

//! Log files, and reading long lines in pieces.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use patra_core::mask::SecretKind;

use super::needles::Needles;
use super::patterns;
use super::report::{Level, Report};
use crate::error::Error;

/// A longer line is read in pieces that overlap.
const MAX_LINE: u64 = 1 << 20;
/// Most findings of one file.
pub(super) const MAX_OF_FILE: usize = 20;
/// Deepest nesting of folders, so that a link to a folder above ends.
const MAX_DEPTH: usize = 8;

const HINT: &str = "replace the secret, delete the line, and find out who wrote it";

/// Searches a log file, or all files of a folder.
pub(super) fn logs(path: &Path, needles: &Needles, report: &mut Report) -> Result<(), Error> {
    for file in all(path)? {
        if file.extension().is_some_and(|end| ["gz", "zst", "xz", "bz2"].iter().any(|packed| end == *packed)) {
            let hint = "unpack it and name it with --logs";
            report.add(Level::Medium, "logs", file.display().to_string(), "a compressed file was not read", hint);
            continue;
        }
        report.count("log_files", 1);
        log(&file, needles, report)?;
    }
    Ok(())
}

fn log(path: &Path, needles: &Needles, report: &mut Report) -> Result<(), Error> {
    let (mut found, mut handed) = (0, false);
    lines(path, needles.longest(), |number, line| {
        let place = || format!("{}:{number}", path.display());
        if !handed && line.contains("web_session=***") {
            handed = true;
            let hint = "find out who logs it: masking is only the second line of defence";
            report.add(Level::Medium, "logs", place(), "a cookie was logged, and masked", hint);
        }
        if let Some(owner) = needles.find(line.as_bytes()) {
            let message = format!("a secret of `{owner}` is in this line");
            report.add(Level::Critical, "logs", place(), message, HINT);
            found += 1;
        } else if let Some(span) = patterns::secrets(line).next() {
            let level = match span.kind {
                SecretKind::Cookie | SecretKind::CookieHeader | SecretKind::Authorization | SecretKind::Bearer => {
                    Level::Critical
                }
                SecretKind::Member => Level::High,
                // The first start of a server prints one.
                SecretKind::ApiKey => Level::Medium,
            };
            report.add(level, "logs", place(), format!("{} is in this line, not masked", patterns::word(&span)), HINT);
            found += 1;
        }
        found < MAX_OF_FILE
    })
}

/// Calls `see` for each line until it returns false. Pieces of a long line overlap by `overlap` bytes.
pub(super) fn lines(path: &Path, overlap: usize, mut see: impl FnMut(u64, &str) -> bool) -> Result<(), Error> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut reader = BufReader::new(file);
    let (mut number, mut buffer) = (1, Vec::new());
    loop {
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut buffer);
        if read.map_err(|error| unreadable(path, &error))? == 0 {
            return Ok(());
        }
        let ended = buffer.ends_with(b"\n");
        if !see(number, String::from_utf8_lossy(&buffer).trim_end()) {
            return Ok(());
        }
        if ended {
            buffer.clear();
            number += 1;
        } else {
            buffer.drain(..buffer.len().saturating_sub(overlap));
        }
    }
}

/// The file, or all files in the folder and below, sorted by name.
pub(super) fn all(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    gather(path, MAX_DEPTH, &mut found).map_err(|error| unreadable(path, &error))?;
    found.sort();
    Ok(found)
}

fn gather(path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let kind = fs::metadata(path)?;
    if kind.is_file() {
        found.push(path.to_owned());
    } else if kind.is_dir() && depth > 0 {
        for entry in fs::read_dir(path)? {
            gather(&entry?.path(), depth - 1, found)?;
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::configuration(format!("cannot read {}: {error}", path.display()))
        .hint("check the path, and run the audit as its owner")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_across_two_pieces_of_a_long_line_is_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = "x".repeat(MAX_LINE as usize - 4);
        text.push_str("0123456789\nlast");
        fs::write(file.path(), text).unwrap();
        let (mut seen, mut last) = (false, 0);
        lines(file.path(), 10, |number, line| {
            seen |= line.contains("0123456789");
            last = number;
            true
        })
        .unwrap();
        assert!(seen && last == 2, "{last}");
    }
}

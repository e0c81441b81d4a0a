//! Rules about words: no word that the field has a better one for, and one public type per name.

use std::collections::BTreeMap;
use std::path::Path;

use super::{assert_none, files, read, shown, sources};

/// Words that must not come back, each with what to write instead. Identifiers are split into their words first, so
/// `far_side`, `FarSide` and "far side" are the same two words.
const BANNED: &[(&str, &str)] = &[
    ("far side", "upstream, the API, the server; mock API in tests"),
    ("far sides", "upstreams"),
    ("tell", "report, return, deliver, log"),
    ("tells", "reports, returns, delivers, logs"),
    ("telling", "reporting, delivering"),
    ("teller", "relay"),
    ("told", "reported, returned, delivered, logged"),
    ("retell", "retry"),
    ("retold", "retried"),
    ("purse", "permit cache"),
    ("lookout", "work poller"),
    ("wards", "health registry"),
    ("chore", "background job"),
    ("chores", "background jobs"),
    ("archivist", "retention"),
    ("keeper", "maintenance"),
    ("fuse", "halt"),
    ("fuses", "halts"),
    ("black box", "diagnostic bundle"),
    ("blackbox", "diagnostic bundle"),
    ("the house", "administration"),
    ("wish", "request, params, filter"),
    ("wished", "requested"),
    ("wishes", "requests"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("anew", "again"),
    ("struck out", "redacted"),
    ("strikes out", "redacts"),
    ("in the clear", "in plaintext"),
    ("on and on", "continuously"),
    ("under way", "in progress"),
    ("at work", "running"),
    ("of age", "due"),
    ("blame", "last error"),
    ("blames", "last error"),
    ("beside", "alongside, next to"),
];

/// Lines that still have a banned word. A number may only fall: lower it with the lines.
const REMAINING: &[(&str, usize)] = &[];

/// Folders and files whose words are not ours to choose: the requirements, released migrations, and this list.
const NOT_OURS: &[&str] = &["docs/requirements/", "/migrations/", "/fixtures/", "/snapshots/", "repository/words.rs"];

/// Names that several public types may have, because the module says whose they are.
const SHARED_NAMES: &[(&str, &str)] = &[("Error", "each module has its own"), ("Options", "each service has its own")];

#[test]
fn banned_words_do_not_come_back() {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for path in files(&["rs", "md", "html", "js", "mjs", "sh", "toml", "yaml", "yml", "sql", "css"]) {
        let name = shown(&path);
        if NOT_OURS.iter().any(|part| name.contains(part)) {
            continue;
        }
        for (at, line) in read(&path).lines().enumerate() {
            for (word, instead) in banned_in(line) {
                let place = format!("{name}:{}: `{word}`, write {instead}: {}", at + 1, line.trim());
                found.entry(word).or_default().push(place);
            }
        }
    }
    let mut broken = Vec::new();
    for (word, _) in BANNED {
        let allowed = REMAINING.iter().find(|(known, _)| known == word).map_or(0, |(_, lines)| *lines);
        let places = found.remove(word).unwrap_or_default();
        if places.len() < allowed {
            broken.push(format!("`{word}` is on {} lines: lower REMAINING to that", places.len()));
        } else if places.len() > allowed {
            broken.push(format!("`{word}` is on {} lines, {allowed} are allowed", places.len()));
            broken.extend(places.into_iter().take(if allowed == 0 { usize::MAX } else { 0 }));
        }
    }
    assert_none("words that the field has better ones for", &broken);
}

#[test]
fn identifiers_and_sentences_are_split_into_the_same_words() {
    let found = |line: &str| banned_in(line).into_iter().map(|(word, _)| word).collect::<Vec<_>>();
    for line in ["the far side", "let far_side = 1;", "struct FarSide;", "FAR_SIDE", "Far side: x"] {
        assert_eq!(found(line), ["far side"], "{line}");
    }
    for line in ["so far. Side effects", "a sidecar", "refused", "metadata", "stellar"] {
        assert_eq!(found(line), [""; 0], "{line}");
    }
}

#[test]
fn public_types_have_names_of_their_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources().filter(|path| in_product(path)) {
        for (at, line) in read(&path).lines().enumerate() {
            if let Some(name) = public_type(line) {
                places.entry(name.to_owned()).or_default().push(format!("{}:{}", shown(&path), at + 1));
            }
        }
    }
    let shared = |name: &str| SHARED_NAMES.iter().any(|(shared, _)| *shared == name);
    let broken: Vec<String> = places
        .iter()
        .filter(|(name, places)| places.len() > 1 && !shared(name))
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert_none("names that stand for several public types", &broken);
}

fn in_product(path: &Path) -> bool {
    let name = shown(path);
    name.starts_with("crates/") && name.contains("/src/") && !name.contains("/tests/") && !name.ends_with("/tests.rs")
}

/// The name of the type that a line defines for everybody.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

fn banned_in(line: &str) -> Vec<(&'static str, &'static str)> {
    let words = words(line);
    let has = |banned: &str| {
        let parts: Vec<&str> = banned.split(' ').collect();
        words.windows(parts.len()).any(|window| window.iter().zip(&parts).all(|(word, part)| word == part))
    };
    BANNED.iter().filter(|(word, _)| has(word)).copied().collect()
}

/// The words of a line in lower case; the end of a sentence is a word of its own, so that nothing is found across it.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in line.chars() {
        let begins = c.is_uppercase() && before.is_lowercase();
        if !c.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if matches!(c, '.' | ';' | ',' | ':') {
            words.push(c.to_string());
            words.push(String::new());
        } else if c.is_alphanumeric() {
            words.last_mut().expect("one is always there").extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

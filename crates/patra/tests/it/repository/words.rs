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

/// Texts with a banned word that stay, with the reason.
const KEPT: &[(&str, &str)] = &[
    ("outbox retell", "hidden alias of `outbox retry`"),
    ("/retell", "former route of `/retry`"),
    ("\"retell\"", "hidden alias of `outbox retry`"),
    ("patra blackbox", "hidden alias of `patra bundle`"),
    ("/blackbox", "former route of `/bundle`"),
    ("\"blackbox\"", "hidden alias of `bundle`"),
    ("patra-blackbox", "format name of stored bundles"),
    ("black_box", "function of the standard library"),
    ("told_at", "column of alert_state"),
    ("\"under_way\"", "field of a response"),
    ("idx_instance_chore", "index of ing_schedule_instance"),
];

/// Folders and files whose words are not ours to choose: the requirements, recorded responses, and this list.
const NOT_OURS: &[&str] = &["docs/requirements/", "/fixtures/", "/snapshots/", "repository/words.rs"];

/// Names that several public types may have, because the module says whose they are.
const SHARED_NAMES: &[(&str, &str)] = &[
    ("Error", "each module has its own"),
    ("Options", "each service has its own"),
    ("Want", "each protocol has its own"),
    ("OpenError", "each store has its own"),
    ("Backup", "each store has its own"),
    ("BackupError", "each store has its own"),
    ("Restored", "each store has its own"),
];

#[test]
fn banned_words_do_not_come_back() {
    let mut broken = Vec::new();
    for path in files(&["rs", "md", "html", "js", "mjs", "sh", "toml", "yaml", "yml", "sql", "css"]) {
        let name = shown(&path);
        if NOT_OURS.iter().any(|part| name.contains(part)) {
            continue;
        }
        for (at, line) in read(&path).lines().enumerate() {
            for (word, instead) in banned_in(line) {
                broken.push(format!("{name}:{}: `{word}`, write {instead}: {}", at + 1, line.trim()));
            }
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
    assert_eq!(found("std::hint::black_box(1)"), [""; 0]);
    assert_eq!(found("a black box"), ["black box"]);
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
    let kept = KEPT.iter().filter(|(text, _)| line.contains(text));
    let line = kept.fold(line.to_owned(), |line, (text, _)| line.replace(text, " "));
    let words = words(&line);
    let has = |banned: &str| {
        let first = banned.split(' ').next().unwrap_or_default();
        let starts = words.iter().enumerate().filter(|(_, word)| *word == first);
        starts.into_iter().any(|(at, _)| banned.split(' ').eq(words[at..].iter().take(banned.split(' ').count())))
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

//! Redaction leaves our own words alone: a hint that lost its option helps nobody.

use std::fs;
use std::path::{Path, PathBuf};

use patra_core::mask::mask;

use crate::support::{Workspace, root};

/// What stands for each placeholder of a message: a name, a number.
const FILLED: [&str; 2] = ["far", "7"];

/// Files whose texts are forms of secrets, or programs for tests.
const LEFT_OUT: [&str; 4] =
    ["patra-core/src/mask", "patra-connectors/src/mask", "patra-upstream/src", "patra-testkit/src"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "tests") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The string literals of a file, up to its tests, with line continuations joined.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let mut found = Vec::new();
    let mut chars = source.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => while chars.next().is_some_and(|c| c != '\n') {},
            '\'' if chars.peek() == Some(&'"') => {
                chars.next();
            }
            // A raw string: patterns, documents and statements are no messages.
            '"' if before == '#' || before == 'r' => {
                let mut last = ' ';
                for c in chars.by_ref() {
                    if (before == 'r' && c == '"') || (before == '#' && (last, c) == ('"', '#')) {
                        break;
                    }
                    last = c;
                }
            }
            '"' => {
                let mut text = String::new();
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => match chars.next() {
                            Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                            Some('n') => text.push('\n'),
                            Some(c) => text.push(c),
                            None => {}
                        },
                        c => text.push(c),
                    }
                }
                found.push(text);
            }
            _ => {}
        }
        before = c;
    }
    found
}

/// The text with every placeholder filled. A type of credential is the one that redaction knows by its name.
fn fill(text: &str, word: &str) -> String {
    let text = text.replace("--type {kind}", "--type bearer");
    let (mut filled, mut rest) = (String::new(), &*text);
    while let Some((head, tail)) = rest.split_once('{') {
        let Some((_, after)) = tail.split_once('}') else { break };
        filled.push_str(head);
        filled.push_str(word);
        rest = after;
    }
    filled + rest
}

#[test]
fn redacting_our_own_messages_and_hints_changes_nothing() {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path().join("src");
        if folder.is_dir() {
            sources(&folder, &mut files);
        }
    }
    let (mut checked, mut changed) = (0, Vec::new());
    for file in files {
        if LEFT_OUT.iter().any(|part| file.to_string_lossy().contains(part)) {
            continue;
        }
        // Sentences: keywords, names of columns and formats of records are no messages.
        for text in literals(&fs::read_to_string(&file).unwrap()).into_iter().filter(|text| text.contains(' ')) {
            checked += 1;
            for word in FILLED {
                let filled = fill(&text, word);
                let masked = mask(&filled);
                if masked != filled {
                    changed.push(format!("{}: {masked}", file.display()));
                }
            }
        }
    }
    assert!(checked > 2_000, "{checked}");
    assert!(changed.is_empty(), "{} became unreadable:\n{}", changed.len(), changed.join("\n"));
}

#[test]
fn redacting_explanations_changes_nothing() {
    let place = Workspace::sqlite();
    for code in patra_core::Code::ALL {
        let output = place.run(&["explain", code.as_str()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && mask(&text) == text, "{}", mask(&text));
    }
}

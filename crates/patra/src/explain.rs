//! Explanations of error codes, levels and exit codes, with advice. One table is the source of `patra explain` and of
//! docs/errors.md.

mod table;

use patra_core::{Code, Level};

use crate::error::Exit;

/// Explanation of one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// Levels that the code comes with. Empty for what has no level, such as an API key that is missing.
    pub(crate) levels: &'static [Level],
    pub(crate) meaning: &'static str,
    pub(crate) actions: &'static [&'static str],
}

impl Entry {
    /// `L1 transient, L2 request`.
    pub(crate) fn level_labels(&self) -> String {
        self.levels.iter().map(|level| level.label()).collect::<Vec<_>>().join(", ")
    }
}

/// Every error code, by name.
pub(crate) fn codes() -> Vec<Entry> {
    let mut codes: Vec<Entry> = Code::ALL.iter().map(|code| table::code(*code)).collect();
    codes.extend(table::OTHERS);
    codes.sort_by_key(|entry| entry.name);
    codes
}

/// L1 to L4.
pub(crate) fn levels() -> Vec<Entry> {
    Level::ALL.iter().map(|level| table::level(*level)).collect()
}

/// Exit codes of the program, in their order.
pub(crate) fn exits() -> Vec<Entry> {
    Exit::ALL.iter().map(|exit| table::exit(*exit)).collect()
}

/// Finds a code, a level or an exit code. Case does not matter, and `-` or a space stands for `_`.
pub(crate) fn find(text: &str) -> Option<Entry> {
    let name = text.trim().to_uppercase().replace(['-', ' '], "_");
    all().into_iter().find(|entry| entry.name == name)
}

pub(crate) fn all() -> Vec<Entry> {
    [codes(), levels(), exits()].concat()
}

/// The title of an entry: `RATE_LIMITED (L1 transient)`, `L1 transient`, `exit code 64`.
pub(crate) fn title(entry: &Entry) -> String {
    if let Ok(level) = entry.name.parse::<Level>() {
        return level.label().to_owned();
    }
    if entry.name.starts_with(|first: char| first.is_ascii_digit()) {
        return format!("exit code {}", entry.name);
    }
    match entry.levels {
        [] => entry.name.to_owned(),
        _ => format!("{} ({})", entry.name, entry.level_labels()),
    }
}

/// The text of docs/errors.md.
#[cfg(test)]
fn page() -> String {
    let mut page = String::from(
        "# Error codes\n\n\
         <!-- Generated from crates/patra/src/explain/table.rs: PATRA_RENEW=1 cargo test -p patra --bin patra explain -->\n\n\
         Errors carry a code: on the command line as `error[CODE]`, in responses of the API as `error.code`, in `patra get tasks`\n\
         and `patra get errors` with a level. `patra explain CODE` prints the same text as this page. For the options of each\n\
         command see [the command line](cli.md).\n\n\
         ## Levels\n\nThe level decides what Patra does next.\n\n",
    );
    page.push_str("| level | meaning | what to do |\n|---|---|---|\n");
    for entry in levels() {
        page.push_str(&format!("| {} | {} | {} |\n", title(&entry), entry.meaning, entry.actions.join(" ")));
    }
    page.push_str("\n## Codes\n");
    for entry in codes() {
        page.push_str(&format!("\n### {}\n\n", entry.name));
        if !entry.levels.is_empty() {
            page.push_str(&format!("Level: {}.\n\n", entry.level_labels()));
        }
        page.push_str(&format!("{}\n\n", entry.meaning));
        page.extend(entry.actions.iter().map(|action| format!("- {action}\n")));
    }
    page.push_str("\n## Exit codes\n\n| exit code | meaning | what to do |\n|---|---|---|\n");
    for entry in exits() {
        page.push_str(&format!("| {} | {} | {} |\n", entry.name, entry.meaning, entry.actions.join(" ")));
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
    }

    #[test]
    fn page_of_codes_equals_the_table() {
        let path = root().join("docs/errors.md");
        if std::env::var_os("PATRA_RENEW").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let renew = "renew it with PATRA_RENEW=1 cargo test -p patra --bin patra explain";
        assert!(kept == page(), "docs/errors.md is old: {renew}");
    }

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        let all = all();
        let mut names: Vec<_> = all.iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert_eq!(find("rate-limited").unwrap().name, "RATE_LIMITED");
        assert_eq!(find("l4").unwrap().name, "L4");
        assert_eq!(find("78").unwrap().name, "78");
        assert!(find("RATE").is_none());
    }

    /// The enumeration is checked by the compiler; this finds codes that are written as text.
    #[test]
    fn every_code_in_the_sources_has_an_entry() {
        let marks = ["\"code\": \"", "\"reason_code\": \"", "error["];
        let mut missing = Vec::new();
        let mut folders = vec![root().join("crates")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                // Mock APIs have codes of their own, and so have tests.
                let skipped = ["target", "tests", "patra-upstream", "patra-testkit"];
                if path.is_dir() {
                    if !skipped.iter().any(|name| path.ends_with(name)) {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|end| end == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for code in marks.iter().flat_map(|mark| text.split(mark).skip(1)) {
                        let end = code.find(|c: char| !(c.is_ascii_uppercase() || c == '_')).unwrap_or(code.len());
                        if end > 3 && &code[..end] != "CODE" && find(&code[..end]).is_none() {
                            missing.push(format!("{}: {}", path.display(), &code[..end]));
                        }
                    }
                }
            }
        }
        assert!(missing.is_empty(), "add these codes to explain/table.rs: {missing:#?}");
    }
}

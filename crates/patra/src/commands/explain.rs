//! `explain`: the meaning of an error code, a level or an exit code.

use serde_json::{Value, json};

use patra_spec::suggest;

use crate::cli::{Global, Output};
use crate::error::{Error, Exit};
use crate::explain::{self, Entry};
use crate::output;

pub(crate) fn run(global: &Global, code: Option<&str>) -> Result<Exit, Error> {
    match code {
        Some(code) => one(global, code)?,
        None => list(global)?,
    }
    Ok(Exit::Ok)
}

fn one(global: &Global, code: &str) -> Result<(), Error> {
    let entry = explain::find(code).ok_or_else(|| {
        let entries = explain::all();
        if code.trim().parse::<u64>().is_ok() {
            let known: Vec<_> = explain::exits().iter().map(|entry| entry.name).collect();
            return Error::usage(format!("`{}` is not an exit code", code.trim()))
                .hint(format!("exit codes are {}; `patra explain` lists all codes", known.join(", ")));
        }
        let is_word = |name: &&str| name.starts_with(|first: char| first.is_ascii_alphabetic());
        let names: Vec<_> = entries.iter().map(|entry| entry.name).filter(is_word).collect();
        let hint = match suggest::closest(code, &names) {
            Some(name) => format!("did you mean `{name}`? `patra explain` lists all codes"),
            None => "`patra explain` lists all codes".to_owned(),
        };
        Error::usage(format!("there is no error code `{code}`")).hint(hint)
    })?;
    let mut text = format!("{}\n\n{}", explain::title(&entry), entry.meaning);
    if !entry.actions.is_empty() {
        text.push_str("\n\nWhat to do:");
        text.extend(entry.actions.iter().map(|action| format!("\n- {action}")));
    }
    output::result(global.output, &text, &value(&entry))
}

fn list(global: &Global) -> Result<(), Error> {
    if global.output != Output::Table {
        return output::values(global.output, &explain::all().iter().map(value).collect::<Vec<_>>());
    }
    let rows = |entries: Vec<Entry>| entries.into_iter().map(|entry| vec![entry.name.to_owned(), summary(&entry)]);
    output::grid(&["level", "meaning"], rows(explain::levels()))?;
    output::line("")?;
    let codes = explain::codes();
    let codes = codes.iter().map(|entry| vec![entry.name.to_owned(), entry.level_labels(), summary(entry)]);
    output::grid(&["code", "level", "meaning"], codes)?;
    output::line("")?;
    output::grid(&["exit code", "meaning"], rows(explain::exits()))
}

/// The first sentence of what it means.
fn summary(entry: &Entry) -> String {
    let end = entry.meaning.find(". ").map_or(entry.meaning.len(), |end| end + 1);
    entry.meaning[..end].to_owned()
}

fn value(entry: &Entry) -> Value {
    let levels: Vec<_> = entry.levels.iter().map(|level| level.as_str()).collect();
    json!({ "code": entry.name, "levels": levels, "meaning": entry.meaning, "actions": entry.actions })
}

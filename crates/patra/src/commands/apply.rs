//! `apply` and `validate`: manifests from files, all problems at once.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use patra_core::port::Queries;
use patra_core::tx::ProvenanceApplied;
use patra_engine::registry::{self, ApplyOutcome, MAX_MANIFEST_BYTES, Manifest, ManifestChange};

use crate::cli::{Apply, Global, Validate};
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::{output, store};

pub(crate) async fn apply(global: &Global, args: &Apply) -> Result<Exit, Error> {
    if args.prune && !args.files.iter().all(|path| path.is_dir()) {
        return Err(Error::usage("--prune needs folders, not single files")
            .hint("name the folder with all manifests: `patra apply -f DIR --prune`"));
    }
    // All files are checked before the first change.
    let manifests = read_all(&args.files)?;
    if args.dry_run {
        return preview(global, args, &manifests).await;
    }
    let opened = store::open(global).await?;
    for (file, manifest) in &manifests {
        let outcome = registry::apply(&*opened.store, manifest).await?;
        let text = format!("{} {}", manifest.provenance, registry::word(outcome.result));
        report(global, &text, file, &outcome, json!({ "provenance": manifest.provenance, "dry_run": false }))?;
    }
    if args.prune {
        for code in surplus(&*opened.store, &manifests).await? {
            registry::remove(&*opened.store, &code).await?;
            let value = json!({ "provenance": code, "result": "removed", "dry_run": false });
            output::result(global.output, &format!("{code} removed"), &value)?;
        }
    }
    Ok(Exit::Ok)
}

/// Prints the changes without making them. Works next to a running server, and before there is a database.
async fn preview(global: &Global, args: &Apply, manifests: &[(PathBuf, Manifest)]) -> Result<Exit, Error> {
    let queries = store::open_if_there(global).await?;
    for (file, manifest) in manifests {
        let outcome = match &queries {
            Some(queries) => registry::preview(&**queries, manifest).await?,
            None => registry::first(manifest),
        };
        let text = match outcome.result {
            ProvenanceApplied::Unchanged => format!("{} is unchanged", manifest.provenance),
            other => format!("{} would be {}", manifest.provenance, registry::word(other)),
        };
        report(global, &text, file, &outcome, json!({ "provenance": manifest.provenance, "dry_run": true }))?;
    }
    if let (true, Some(queries)) = (args.prune, &queries) {
        for code in surplus(&**queries, manifests).await? {
            let value = json!({ "provenance": code, "result": "removed", "dry_run": true });
            output::result(global.output, &format!("{code} would be removed"), &value)?;
        }
    }
    Ok(Exit::Ok)
}

/// Provenances in the registry that the folders lack.
async fn surplus(queries: &dyn Queries, manifests: &[(PathBuf, Manifest)]) -> Result<Vec<String>, Error> {
    let mut codes = registry::codes(queries).await?;
    codes.retain(|code| !manifests.iter().any(|(_, manifest)| manifest.provenance == *code));
    Ok(codes)
}

/// Prints one line per provenance and, for a changed one, a line per difference.
fn report(global: &Global, text: &str, file: &Path, outcome: &ApplyOutcome, mut value: Value) -> Result<(), Error> {
    let mut text = text.to_owned();
    if outcome.result == ProvenanceApplied::Changed {
        for change in &outcome.changes {
            text.push_str(&format!("\n  {}", line(change)));
        }
    }
    for effect in &outcome.effects {
        text.push_str(&format!("\n  ! {}", effect.message));
    }
    let changes = outcome.changes.iter();
    let changes = changes.map(|change| json!({ "path": change.path, "before": change.before, "after": change.after }));
    value["changes"] = changes.collect();
    value["effects"] = json!(outcome.effects);
    value["file"] = file.display().to_string().into();
    value["result"] = registry::word(outcome.result).into();
    output::result(global.output, &text, &value)
}

/// `+ path: value`, `- path`, `~ path: old -> new`.
fn line(ManifestChange { path, before, after }: &ManifestChange) -> String {
    // JSON escapes control characters; the path of a manifest's key may have some.
    let path = if path.chars().any(char::is_control) { format!("{path:?}") } else { path.clone() };
    match (before, after) {
        (None, Some(after)) => format!("+ {path}: {}", short(after)),
        (Some(before), Some(after)) => format!("~ {path}: {} -> {}", short(before), short(after)),
        (_, None) => format!("- {path}"),
    }
}

fn short(value: &Value) -> String {
    const WIDEST: usize = 100;
    let text = value.to_string();
    if text.chars().count() <= WIDEST {
        return text;
    }
    text.chars().take(WIDEST - 1).chain(['…']).collect()
}

pub(crate) fn validate(global: &Global, args: &Validate) -> Result<Exit, Error> {
    for (file, manifest) in read_all(&args.files)? {
        let endpoints: Vec<_> = manifest.endpoints.keys().collect();
        let value =
            json!({ "file": file.display().to_string(), "provenance": manifest.provenance, "endpoints": endpoints });
        output::result(global.output, &format!("{}: ok", file.display()), &value)?;
    }
    Ok(Exit::Ok)
}

/// Reads all manifests, and prints every problem of every file before it fails.
fn read_all(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Manifest)>, Error> {
    let (mut manifests, mut problems, mut broken) = (Vec::<(PathBuf, Manifest)>::new(), 0, 0);
    for file in files(paths)? {
        match read(&file)? {
            Ok((manifest, warnings)) => {
                for warning in warnings {
                    say(&format!("warning: {}: {warning}", file.display()));
                }
                let twin = manifests.iter().find(|(_, other)| other.provenance == manifest.provenance);
                if let Some((other, _)) = twin {
                    let code = &manifest.provenance;
                    say(&format!(
                        "{}: provenance: `{code}` is also the provenance of {}",
                        file.display(),
                        other.display()
                    ));
                    (problems, broken) = (problems + 1, broken + 1);
                }
                manifests.push((file, manifest));
            }
            Err(found) => {
                if let registry::Error::Problems(found) = &found {
                    problems += found.len();
                }
                broken += 1;
                say(&found.to_string());
            }
        }
    }
    if broken > 0 {
        let message = format!("{problems} {} in {broken} {}", plural(problems, "problem"), plural(broken, "manifest"));
        return Err(Error::configuration(message).hint("fix the problems above; nothing was changed"));
    }
    Ok(manifests)
}

/// Reads and compiles one manifest. The outer error is one of the file system.
pub(crate) fn read(file: &Path) -> Result<Result<(Manifest, Vec<String>), registry::Error>, Error> {
    let about = std::fs::metadata(file).map_err(|error| unreadable(file, &error))?;
    // Checked before it is opened: a pipe would block, and a device has no end.
    if !about.is_file() || about.len() > MAX_MANIFEST_BYTES as u64 {
        let message = format!(
            "{} is not a manifest: expected a plain file of at most {} KiB",
            file.display(),
            MAX_MANIFEST_BYTES >> 10
        );
        return Err(Error::configuration(message));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    let checked = registry::check(&file.display().to_string(), &text);
    Ok(checked.map(|checked| (checked.manifest, checked.warnings)).map_err(registry::Error::Problems))
}

/// The named files, and the YAML files of the named folders.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).map_err(|error| unreadable(path, &error))? {
            let entry = entry.map_err(|error| unreadable(path, &error))?.path();
            if entry.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
                found.push(entry);
            }
        }
        if found.is_empty() {
            return Err(Error::configuration(format!("{} has no manifest (*.yaml, *.yml)", path.display())));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::configuration(format!("cannot read {}: {error}", path.display())).hint("check the path and its permissions")
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

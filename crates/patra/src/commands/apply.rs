//! `apply` and `validate`: manifests from files, all problems at once.

use std::path::{Path, PathBuf};

use serde_json::json;

use patra_core::hash::{canonical, digest};
use patra_core::port::CommandsExt;
use patra_core::tx::{Applied, ApplyProvenance, EndpointRow, Schedule};
use patra_spec::{MAX_MANIFEST_BYTES, Manifest, Operation, Problems};

use crate::cli::{Apply, Global, Validate};
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::{output, store};

pub(crate) async fn apply(global: &Global, args: &Apply) -> Result<Exit, Error> {
    // Everything is checked before anything is changed.
    let manifests = read_all(&args.files)?;
    let opened = store::open(global).await?;
    for (file, manifest) in &manifests {
        let applied = opened.store.run(operation(manifest)).await?;
        let word = match applied {
            Applied::Created => "created",
            Applied::Changed => "changed",
            Applied::Unchanged => "unchanged",
        };
        let value = json!({ "provenance": manifest.provenance, "file": file.display().to_string(), "result": word });
        output::result(global.output, &format!("{} {word}", manifest.provenance), &value)?;
    }
    Ok(Exit::Ok)
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

/// The registry's form of a manifest.
pub(crate) fn operation(manifest: &Manifest) -> ApplyProvenance {
    let document = canonical(&manifest.to_document());
    ApplyProvenance {
        provenance_code: manifest.provenance.clone(),
        name: manifest.name.clone(),
        document_hash: digest(&["manifest", &document]),
        document,
        endpoints: manifest
            .endpoints
            .iter()
            .map(|(name, endpoint)| EndpointRow {
                endpoint_name: name.clone(),
                role: endpoint.role.unwrap_or_default().as_str().to_owned(),
                schedule: endpoint.schedule.as_ref().and_then(|schedule| Some(Schedule { every: schedule.every?.0 })),
            })
            .collect(),
    }
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Manifest)>, Error> {
    let (mut manifests, mut problems, mut broken) = (Vec::new(), 0, 0);
    for file in files(paths)? {
        match read(&file)? {
            Ok((manifest, warnings)) => {
                for warning in warnings {
                    say(&format!("warning: {}: {warning}", file.display()));
                }
                manifests.push((file, manifest));
            }
            Err(found) => {
                problems += found.as_slice().len();
                broken += 1;
                say(&found.to_string());
            }
        }
    }
    if broken > 0 {
        let message = format!("{problems} {} in {broken} {}", plural(problems, "problem"), plural(broken, "manifest"));
        return Err(Error::configuration(message).hint("mend what is listed above; nothing was changed"));
    }
    Ok(manifests)
}

/// Reads and compiles one manifest. The outer error is the file system's.
pub(crate) fn read(file: &Path) -> Result<Result<(Manifest, Vec<String>), Problems>, Error> {
    let about = std::fs::metadata(file).map_err(|error| unreadable(file, &error))?;
    // Looked at before it is opened: a pipe would wait for ever, and a device has no end.
    if !about.is_file() || about.len() > MAX_MANIFEST_BYTES as u64 {
        let message = format!(
            "{} is no manifest: a plain file of at most {} KiB is expected",
            file.display(),
            MAX_MANIFEST_BYTES >> 10
        );
        return Err(Error::configuration(message));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    let manifest = match patra_spec::read(&file.display().to_string(), &text) {
        Ok(manifest) => manifest,
        Err(problems) => return Ok(Err(problems)),
    };
    let mut warnings = Vec::new();
    for name in manifest.endpoints.keys() {
        match patra_spec::compile(&manifest, name, Operation::Harvest) {
            Ok(compiled) => {
                warnings.extend(compiled.warnings.into_iter().map(|warning| format!("endpoints.{name}: {warning}")));
            }
            Err(problems) => return Ok(Err(problems)),
        }
    }
    Ok(Ok((manifest, warnings)))
}

/// Files as they are named; of folders, what is YAML in them.
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
            return Err(Error::configuration(format!("{} holds no manifest (*.yaml, *.yml)", path.display())));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::configuration(format!("{} cannot be read: {error}", path.display()))
        .hint("check the path and its permissions")
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

//! `get spec`, `get manifest`, `get dictionary` and `schema`: the registry's content and the specs compiled from it.

use std::path::Path;

use serde_json::{Value, json};

use patra_core::port::Queries;
use patra_engine::registry::{self, Manifest, Overrides, SpecRequest};

use crate::cli::{GetRegistry, GetSpec, Global, Output};
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::{output, store};

pub(crate) async fn run(global: &Global, command: &GetRegistry) -> Result<Exit, Error> {
    let queries = store::open_to_read(global).await?;
    match command {
        GetRegistry::Spec(args) => spec(global, &*queries, args).await?,
        GetRegistry::Manifest { all: Some(folder), .. } => export(global, &*queries, folder).await?,
        GetRegistry::Manifest { provenance, .. } => {
            let (project, code) = (global.project.as_deref(), provenance.as_deref().unwrap_or_default());
            let manifest = registry::manifest(&*queries, project, code).await?;
            show(global, &manifest)?;
        }
        GetRegistry::Dictionary => dictionary(global, &*queries).await?,
        GetRegistry::Lineage { plan, batches } => super::lineage::show(global, &*queries, *plan, *batches).await?,
    }
    Ok(Exit::Ok)
}

async fn spec(global: &Global, queries: &dyn Queries, args: &GetSpec) -> Result<(), Error> {
    let overrides = Overrides::parse(&args.overrides).map_err(|problems| {
        let paths: Vec<_> = Overrides::paths().collect();
        Error::usage(problems.to_string()).hint(format!("--set takes: {}", paths.join(", ")))
    })?;
    let request = SpecRequest {
        project: global.project.as_deref(),
        provenance: &args.provenance,
        endpoint: &args.endpoint,
        operation: args.operation,
        overrides: &overrides,
    };
    if args.explain {
        let values = registry::explain(queries, &request).await?;
        if global.output == Output::Table {
            let rows = values.into_iter().map(|value| vec![value.path, plain(&value.value), value.layer.to_string()]);
            return output::grid(&["path", "value", "layer"], rows);
        }
        let values = values
            .iter()
            .map(|value| json!({ "path": value.path, "value": value.value, "layer": value.layer.to_string() }));
        return list(global, values);
    }
    let compiled = registry::spec(queries, &request).await?;
    for warning in &compiled.warnings {
        say(&format!("warning: {warning}"));
    }
    let snapshot = serde_json::to_value(&compiled.snapshot).unwrap_or_default();
    // A spec has no table form, so it is printed as JSON there too.
    output::result(global.output, &serde_json::to_string_pretty(&snapshot).unwrap_or_default(), &snapshot)
}

fn show(global: &Global, manifest: &Manifest) -> Result<(), Error> {
    output::result(global.output, registry::to_yaml(manifest).trim_end(), &manifest.to_document())
}

async fn export(global: &Global, queries: &dyn Queries, folder: &Path) -> Result<(), Error> {
    let unwritable = |path: &Path, error: &std::io::Error| {
        Error::configuration(format!("cannot write {}: {error}", path.display()))
            .hint("check the path and its permissions")
    };
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    for code in registry::codes(queries).await? {
        let manifest = registry::manifest(queries, None, &code).await?;
        if !registry::is_for(manifest.project.as_deref(), global.project.as_deref()) {
            continue;
        }
        // Codes are plain words. A damaged database must not choose where files are written.
        if !code.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')) || code.starts_with('.') {
            return Err(Error::unexpected(format!("`{code}` cannot be used as a file name")));
        }
        let path = folder.join(format!("{code}.yaml"));
        std::fs::write(&path, registry::to_yaml(&manifest)).map_err(|error| unwritable(&path, &error))?;
        let shown = path.display().to_string();
        output::result(global.output, &shown, &json!({ "provenance": code, "file": shown }))?;
    }
    Ok(())
}

async fn dictionary(global: &Global, queries: &dyn Queries) -> Result<(), Error> {
    let types = queries.dictionary().await?;
    if global.output != Output::Table {
        return list(global, types.into_iter().map(|kind| json!(kind)));
    }
    let rows = types.into_iter().flat_map(|kind| {
        kind.items.into_iter().map(move |item| vec![kind.code.clone(), item.code, item.name, item.aliases.join(", ")])
    });
    output::grid(&["type", "code", "name", "aliases"], rows)
}

pub(crate) fn schema() -> Result<Exit, Error> {
    output::line(registry::schema().trim_end())?;
    Ok(Exit::Ok)
}

/// Prints JSON values: as one list, or one per line.
fn list(global: &Global, values: impl Iterator<Item = Value>) -> Result<(), Error> {
    if global.output == Output::Ndjson {
        return values.into_iter().try_for_each(|value| output::line(&value.to_string()));
    }
    let all: Value = values.collect();
    output::line(&serde_json::to_string_pretty(&all).unwrap_or_default())
}

/// Text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if !text.chars().any(char::is_control) => text.clone(),
        other => other.to_string(),
    }
}

//! Administration of the registry: applies and reads manifests, and explains changes and specs. Command line and API
//! share these functions. The engine itself only reads the registry (ING-3.1-02).

mod check;
mod effects;
mod resources;

use std::fmt;

use patra_core::port::query::{View, ViewFilter};
use patra_core::port::{CommandsExt, Queries, Store};
use patra_core::registry::DictType;
use patra_core::state::Operation;
use patra_core::tx::{ApplyProvenance, EndpointRow, ProvenanceApplied, RemoveProvenance, SyncDictionary, TxError};
use patra_spec::{CompiledSnapshot, ExplainedSetting};

pub use check::{CheckedManifest, check};
pub use effects::ApplyEffect;
pub use patra_spec::{MAX_MANIFEST_BYTES, Manifest, ManifestChange, Overrides, Problem, to_yaml};
pub use resources::{RegistryResource, news_resources, resources};

/// Errors of the registry.
#[derive(Clone, Debug)]
pub enum Error {
    Store(TxError),
    /// The provenance or endpoint does not exist; the second text is a hint.
    NotFound(String, String),
    /// Problems of the manifest or the settings; never empty.
    Problems(Vec<Problem>),
}

impl From<TxError> for Error {
    fn from(error: TxError) -> Error {
        Error::Store(error)
    }
}

impl From<patra_spec::Problems> for Error {
    fn from(problems: patra_spec::Problems) -> Error {
        Error::Problems(problems.as_slice().to_vec())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Store(error) => error.fmt(f),
            Error::NotFound(message, _) => f.write_str(message),
            Error::Problems(problems) => {
                let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("\n"))
            }
        }
    }
}

impl std::error::Error for Error {}

/// Result of applying a manifest, or of a dry run.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyOutcome {
    pub result: ProvenanceApplied,
    /// Changed values; empty when nothing changes.
    pub changes: Vec<ManifestChange>,
    /// What the changes mean for cursors that exist.
    pub effects: Vec<ApplyEffect>,
}

/// One word for the result, the same in command line and API.
pub fn word(result: ProvenanceApplied) -> &'static str {
    match result {
        ProvenanceApplied::Created => "created",
        ProvenanceApplied::Changed => "changed",
        ProvenanceApplied::Unchanged => "unchanged",
    }
}

/// The result that [`apply`] would have now.
pub async fn preview(queries: &dyn Queries, manifest: &Manifest) -> Result<ApplyOutcome, Error> {
    let Some(stored) = queries.registry(&manifest.provenance).await? else { return Ok(first(manifest)) };
    if stored.document_hash == manifest.version() {
        return Ok(ApplyOutcome { result: ProvenanceApplied::Unchanged, changes: Vec::new(), effects: Vec::new() });
    }
    // An unreadable manifest is replaced as a whole: applying fixes it.
    let before = patra_spec::registry::manifest(&manifest.provenance, &stored.rows).ok();
    let effects = match &before {
        Some(before) => effects::of_change(queries, before, manifest).await?,
        None => Vec::new(),
    };
    let changes = patra_spec::diff(before.as_ref(), manifest);
    Ok(ApplyOutcome { result: ProvenanceApplied::Changed, changes, effects })
}

/// The result of [`apply`] for a new provenance.
pub fn first(manifest: &Manifest) -> ApplyOutcome {
    ApplyOutcome { result: ProvenanceApplied::Created, changes: patra_spec::diff(None, manifest), effects: Vec::new() }
}

/// Stores a checked manifest in the registry.
pub async fn apply(store: &dyn Store, manifest: &Manifest) -> Result<ApplyOutcome, Error> {
    let preview = preview(store, manifest).await?;
    check_project(store, manifest).await?;
    let result = store.run(operation(manifest)).await?;
    Ok(ApplyOutcome { result, ..preview })
}

/// Whether a resource of one project, or of all, is visible to the caller: one project, or an administrator.
pub fn is_for(owner: Option<&str>, asking: Option<&str>) -> bool {
    owner.is_none() || asking.is_none() || owner == asking
}

/// Checks that the project of a manifest exists.
async fn check_project(store: &dyn Store, manifest: &Manifest) -> Result<(), Error> {
    let Some(key) = &manifest.project else { return Ok(()) };
    match store.projects().await?.iter().any(|project| project.project_key == *key) {
        true => Ok(()),
        false => Err(problem("project", format!("there is no project `{key}`; `patra project create {key}` makes it"))),
    }
}

/// The registry's form of a manifest.
fn operation(manifest: &Manifest) -> ApplyProvenance {
    let endpoints = manifest.endpoints.iter().map(|(name, endpoint)| EndpointRow {
        endpoint_name: name.clone(),
        role: endpoint.role.unwrap_or_default().as_str().to_owned(),
        schedules: patra_spec::registry::schedules(endpoint),
    });
    ApplyProvenance {
        provenance_code: manifest.provenance.clone(),
        name: manifest.name.clone(),
        project_key: manifest.project.clone(),
        rows: patra_spec::registry::rows(manifest),
        document_hash: manifest.version(),
        endpoints: endpoints.collect(),
    }
}

/// Removes a provenance; its plans and records stay.
pub async fn remove(store: &dyn Store, code: &str) -> Result<(), Error> {
    let provenance_code = normal(code);
    match store.run(RemoveProvenance { provenance_code: provenance_code.clone() }).await?.removed {
        true => Ok(()),
        false => Err(unknown(&provenance_code)),
    }
}

/// The codes of all provenances, sorted.
pub async fn codes(queries: &dyn Queries) -> Result<Vec<String>, Error> {
    let mut filter = ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() };
    let mut codes = Vec::new();
    loop {
        let rows = queries.list(View::Provenances, filter.clone()).await?;
        for row in &rows {
            if let Some(patra_core::port::query::Cell::Text(code)) = View::Provenances.cell(row, "provenance_code") {
                codes.push(code);
            }
        }
        if rows.len() < ViewFilter::MAX_LIMIT as usize {
            codes.sort();
            return Ok(codes);
        }
        filter.before_id = rows.last().and_then(|row| View::Provenances.cell(row, "id")).and_then(|id| id.as_int());
    }
}

/// The manifest of a provenance, read in one statement (ING-3.7-03). Manifests of other projects are not visible to a
/// project.
pub async fn manifest(queries: &dyn Queries, project: Option<&str>, code: &str) -> Result<Manifest, Error> {
    let code = normal(code);
    let stored = queries.registry(&code).await?.ok_or_else(|| unknown(&code))?;
    let manifest = patra_spec::registry::manifest(&code, &stored.rows)?;
    if is_for(manifest.project.as_deref(), project) { Ok(manifest) } else { Err(unknown(&code)) }
}

/// The spec that a trigger would be planned with.
pub async fn spec(queries: &dyn Queries, asked: &SpecRequest<'_>) -> Result<CompiledSnapshot, Error> {
    let manifest = asked.manifest(queries).await?;
    Ok(patra_spec::compile_with(&manifest, asked.endpoint, asked.operation, asked.overrides)?)
}

/// Every value of a spec, and its origin.
pub async fn explain(queries: &dyn Queries, asked: &SpecRequest<'_>) -> Result<Vec<ExplainedSetting>, Error> {
    let manifest = asked.manifest(queries).await?;
    Ok(patra_spec::explain(&manifest, asked.endpoint, asked.operation, asked.overrides)?)
}

/// Selects a spec.
#[derive(Clone, Copy, Debug)]
pub struct SpecRequest<'a> {
    /// The project that asks; `None`: an administrator.
    pub project: Option<&'a str>,
    pub provenance: &'a str,
    pub endpoint: &'a str,
    pub operation: Operation,
    pub overrides: &'a Overrides,
}

impl SpecRequest<'_> {
    async fn manifest(&self, queries: &dyn Queries) -> Result<Manifest, Error> {
        let manifest = manifest(queries, self.project, self.provenance).await?;
        let name = normal(self.endpoint);
        if manifest.endpoints.contains_key(&name) {
            return Ok(manifest);
        }
        let known: Vec<_> = manifest.endpoints.keys().map(String::as_str).collect();
        let message = format!("`{}` has no endpoint `{name}`", manifest.provenance);
        Err(Error::NotFound(message, format!("it has: {}", known.join(", "))))
    }
}

/// Checks that an endpoint exists.
pub async fn endpoint(queries: &dyn Queries, provenance: &str, endpoint: &str) -> Result<(), Error> {
    let overrides = Overrides::default();
    let asked =
        SpecRequest { project: None, provenance, endpoint, operation: Operation::Harvest, overrides: &overrides };
    asked.manifest(queries).await.map(|_| ())
}

/// Problems of a request, not of a manifest.
pub(crate) fn problem(path: &str, message: String) -> Error {
    Error::Problems(vec![Problem {
        file: String::new(),
        line: 0,
        column: 0,
        path: path.to_owned(),
        message,
        hint: None,
    }])
}

/// Stores the codes of this program in the dictionary of the database. Returns whether anything changed.
pub async fn sync_dictionary(store: &dyn Store) -> Result<bool, TxError> {
    Ok(store.run(SyncDictionary { types: dictionary() }).await?.changed)
}

/// Codes of this program.
pub fn dictionary() -> Vec<DictType> {
    patra_spec::dictionary()
}

/// The JSON Schema of manifests, as text for an editor.
pub fn schema() -> String {
    serde_json::to_string_pretty(&patra_spec::schema()).unwrap_or_default()
}

/// Codes are lower-case and trimmed (PLT-04).
fn normal(code: &str) -> String {
    code.trim().to_lowercase()
}

fn unknown(code: &str) -> Error {
    let hint = "`patra apply -f FILE` adds one; `patra get provenances` lists them";
    Error::NotFound(format!("no manifest is applied for `{code}`"), hint.to_owned())
}

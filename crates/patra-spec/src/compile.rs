//! Compiles a manifest into a snapshot for one operation: merges the layers, checks the result, and freezes it.

mod merge;

use patra_core::hash;
use patra_core::state::Operation;

use crate::check::{self, ManifestChecker};
use crate::layers::{self, ExplainedSetting, Overrides};
use crate::manifest::{EndpointConfig, Manifest};
use crate::problem::Problems;
use crate::snapshot::Snapshot;
use crate::suggest::suggest;

#[derive(Clone, Debug, PartialEq)]
pub struct CompiledSnapshot {
    pub snapshot: Snapshot,
    pub labels: SnapshotLabels,
    /// Warnings, recorded with the plan (ING-3.3-22).
    pub warnings: Vec<String>,
}

/// Identifies the inputs of a compilation and its result (ING-3.3-05).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotLabels {
    pub provenance: String,
    pub endpoint: String,
    pub operation: Operation,
    /// Version of the manifest: [`Manifest::version`].
    pub version: String,
    /// Hash of the snapshot, overrides included.
    pub hash: String,
}

impl Manifest {
    /// Hash of the stored document.
    pub fn version(&self) -> String {
        hash::digest(&["manifest", &hash::canonical(&self.to_document())])
    }
}

/// Compiles one endpoint for one operation, or returns every problem.
pub fn compile(manifest: &Manifest, endpoint: &str, operation: Operation) -> Result<CompiledSnapshot, Problems> {
    compile_with(manifest, endpoint, operation, &Overrides::default())
}

/// Like [`compile`], with the overrides of a job.
pub fn compile_with(
    manifest: &Manifest,
    endpoint: &str,
    operation: Operation,
    overrides: &Overrides,
) -> Result<CompiledSnapshot, Problems> {
    compile_checked(manifest, endpoint, operation, overrides, |check, name, endpoint, operation| {
        check.operation(name, endpoint, operation);
    })
}

/// Compiles an endpoint even if it lacks what the operation needs: for inspecting single requests, or the origin of
/// settings. For example, a detail endpoint is never run as an operation of its own.
pub fn inspect(
    manifest: &Manifest,
    endpoint: &str,
    operation: Operation,
    overrides: &Overrides,
) -> Result<CompiledSnapshot, Problems> {
    compile_checked(manifest, endpoint, operation, overrides, |_, _, _, _| ())
}

/// Checks what an operation needs beyond a valid endpoint.
type OperationCheck = fn(&mut ManifestChecker<'_>, &str, &EndpointConfig, Operation);

fn compile_checked(
    manifest: &Manifest,
    endpoint: &str,
    operation: Operation,
    overrides: &Overrides,
    needs: OperationCheck,
) -> Result<CompiledSnapshot, Problems> {
    let name = endpoint.trim().to_lowercase();
    let effective = effective(manifest, &name, overrides)?;
    let declared = effective.endpoints.get(&name).ok_or_else(|| unknown_endpoint(manifest, &name))?;
    let mut check = ManifestChecker::new(manifest);
    check.shared();
    let mut problems = check.problems;
    let mut check = ManifestChecker::new(&effective);
    check.endpoint(&name, declared);
    // The detail endpoint becomes part of the snapshot.
    let detail = declared.detail_for(operation);
    if let Some((name, detail)) = detail.and_then(|detail| effective.endpoints.get_key_value(detail)) {
        check.endpoint(name, detail);
    }
    needs(&mut check, &name, declared, operation);
    problems.extend(check.problems);
    Problems::or(problems, ())?;
    let mut snapshot = merge::snapshot(&effective, &name, declared, operation);
    snapshot.spec_fingerprint = snapshot.fingerprint();
    let labels = SnapshotLabels {
        provenance: manifest.provenance.clone(),
        endpoint: name,
        operation,
        version: manifest.version(),
        hash: snapshot.spec_fingerprint.clone(),
    };
    Ok(CompiledSnapshot { labels, warnings: check::warnings(&snapshot, declared), snapshot })
}

/// Every value that [`compile_with`] would use, with the layer that set it, ordered by path. Missing requirements of
/// the operation are not reported.
pub fn explain(
    manifest: &Manifest,
    endpoint: &str,
    operation: Operation,
    overrides: &Overrides,
) -> Result<Vec<ExplainedSetting>, Problems> {
    let compiled = inspect(manifest, endpoint, operation, overrides)?;
    Ok(layers::explain(manifest, &compiled.snapshot, overrides))
}

/// The manifest with all layers merged except the platform's, which is applied by the conversion to a snapshot.
fn effective(manifest: &Manifest, name: &str, overrides: &Overrides) -> Result<Manifest, Problems> {
    let declared = manifest.endpoints.get(name).ok_or_else(|| unknown_endpoint(manifest, name))?;
    let mut effective = layers::effective_for(manifest, name).map_err(Problems::one)?;
    if overrides.is_empty() {
        return Ok(effective);
    }
    let declared = effective.endpoints.get(name).unwrap_or(declared);
    Problems::or(overrides.problems_for(declared), ())?;
    let endpoint = layers::overridden(declared, overrides)
        .map_err(|error| Problems::one(manifest.origin.problem(&format!("endpoints.{name}"), error, None)))?;
    // A lowered rate applies to the detail endpoints of the plan as well.
    for detail in endpoint.details() {
        if let Some(detail) = effective.endpoints.get_mut(detail) {
            overrides.lower_rates(&mut detail.rate_limit);
        }
    }
    effective.endpoints.insert(name.to_owned(), endpoint);
    effective.origin.overridden = overrides.overridden().map(|path| format!("endpoints.{name}.{path}")).collect();
    Ok(effective)
}

fn unknown_endpoint(manifest: &Manifest, name: &str) -> Problems {
    let names: Vec<_> = manifest.endpoints.keys().map(String::as_str).collect();
    let message = format!("`{}` has no endpoint `{name}`", manifest.provenance);
    Problems::one(manifest.origin.problem("endpoints", message, suggest(name, &names)))
}

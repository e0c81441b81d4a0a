//! Manifest to snapshot, for one operation: the layers are merged, what comes out is checked and frozen.

mod merge;

use patra_core::hash;
use patra_core::state::Operation;

use crate::check::{self, Check};
use crate::layers::{self, Explained, Overrides};
use crate::manifest::{Endpoint, Manifest};
use crate::problem::Problems;
use crate::snapshot::Snapshot;
use crate::suggest::suggest;

#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    pub snapshot: Snapshot,
    pub labels: Labels,
    /// What works, but less well than it could: recorded with the plan (ING-3.3-22).
    pub warnings: Vec<String>,
}

/// What was merged, and what came out of it (ING-3.3-05).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    pub provenance: String,
    pub endpoint: String,
    pub operation: Operation,
    /// Of the manifest: [`Manifest::version`].
    pub version: String,
    /// Of the snapshot, overrides included.
    pub hash: String,
}

impl Manifest {
    /// The hash of the stored document.
    pub fn version(&self) -> String {
        hash::digest(&["manifest", &hash::canonical(&self.to_document())])
    }
}

/// Compiles one endpoint for one operation, or says everything that stands against it.
pub fn compile(manifest: &Manifest, endpoint: &str, operation: Operation) -> Result<Compiled, Problems> {
    compile_with(manifest, endpoint, operation, &Overrides::default())
}

/// The same with what a trigger asks for.
pub fn compile_with(
    manifest: &Manifest,
    endpoint: &str,
    operation: Operation,
    overrides: &Overrides,
) -> Result<Compiled, Problems> {
    checked(manifest, endpoint, operation, overrides, |check, name, endpoint, operation| {
        check.operation(name, endpoint, operation);
    })
}

/// An endpoint as the operation would see it, also when it has not what the operation needs: for those who look at single
/// requests, or at who said what. A detail endpoint is never read by an operation of its own, for one.
pub fn inspect(
    manifest: &Manifest,
    endpoint: &str,
    operation: Operation,
    overrides: &Overrides,
) -> Result<Compiled, Problems> {
    checked(manifest, endpoint, operation, overrides, |_, _, _, _| ())
}

/// What an operation needs beyond a sound endpoint.
type Needs = fn(&mut Check<'_>, &str, &Endpoint, Operation);

fn checked(
    manifest: &Manifest,
    endpoint: &str,
    operation: Operation,
    overrides: &Overrides,
    needs: Needs,
) -> Result<Compiled, Problems> {
    let name = endpoint.trim().to_lowercase();
    let effective = effective(manifest, &name, overrides)?;
    let declared = effective.endpoints.get(&name).ok_or_else(|| unknown(manifest, &name))?;
    let mut check = Check::new(manifest);
    check.shared();
    let mut problems = check.problems;
    let mut check = Check::new(&effective);
    check.endpoint(&name, declared);
    // It becomes part of the snapshot.
    let detail = declared.detail_for(operation);
    if let Some((name, detail)) = detail.and_then(|detail| effective.endpoints.get_key_value(detail)) {
        check.endpoint(name, detail);
    }
    needs(&mut check, &name, declared, operation);
    problems.extend(check.problems);
    Problems::or(problems, ())?;
    let mut snapshot = merge::snapshot(&effective, &name, declared, operation);
    snapshot.spec_fingerprint = snapshot.fingerprint();
    let labels = Labels {
        provenance: manifest.provenance.clone(),
        endpoint: name,
        operation,
        version: manifest.version(),
        hash: snapshot.spec_fingerprint.clone(),
    };
    Ok(Compiled { labels, warnings: check::warnings(&snapshot, declared), snapshot })
}

/// Every value that [`compile_with`] would use and the layer that said it, in the order of their paths. What an operation
/// lacks does not matter here: who looks for it wants to see what is there.
pub fn explain(
    manifest: &Manifest,
    endpoint: &str,
    operation: Operation,
    overrides: &Overrides,
) -> Result<Vec<Explained>, Problems> {
    let compiled = inspect(manifest, endpoint, operation, overrides)?;
    Ok(layers::explain(manifest, &compiled.snapshot, overrides))
}

/// The manifest with all layers merged but the platform's, which is part of the conversion.
fn effective(manifest: &Manifest, name: &str, overrides: &Overrides) -> Result<Manifest, Problems> {
    let declared = manifest.endpoints.get(name).ok_or_else(|| unknown(manifest, name))?;
    let mut effective = layers::effective_for(manifest, name).map_err(Problems::one)?;
    if overrides.is_empty() {
        return Ok(effective);
    }
    let declared = effective.endpoints.get(name).unwrap_or(declared);
    Problems::or(overrides.misfits(declared), ())?;
    let endpoint = layers::overridden(declared, overrides)
        .map_err(|error| Problems::one(manifest.origin.problem(&format!("endpoints.{name}"), error, None)))?;
    // A lowered rate is meant for all that the plan asks for.
    for detail in endpoint.details() {
        if let Some(detail) = effective.endpoints.get_mut(detail) {
            overrides.slow(&mut detail.rate_limit);
        }
    }
    effective.endpoints.insert(name.to_owned(), endpoint);
    effective.origin.trigger = overrides.overridden().map(|path| format!("endpoints.{name}.{path}")).collect();
    Ok(effective)
}

fn unknown(manifest: &Manifest, name: &str) -> Problems {
    let names: Vec<_> = manifest.endpoints.keys().map(String::as_str).collect();
    let message = format!("`{}` has no endpoint `{name}`", manifest.provenance);
    Problems::one(manifest.origin.problem("endpoints", message, suggest(name, &names)))
}

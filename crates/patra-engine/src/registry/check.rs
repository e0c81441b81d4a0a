//! A manifest before it is applied: everything that is wrong with it, at once.

use patra_core::state::Operation;
use patra_spec::manifest::Endpoint;
use patra_spec::{Manifest, Problem, Role};

/// A manifest that may be applied.
#[derive(Clone, Debug)]
pub struct Checked {
    pub manifest: Manifest,
    /// What works, but less well than it could.
    pub warnings: Vec<String>,
}

/// Reads a manifest and compiles every endpoint of it for what it is meant for. `file` only names places.
pub fn check(file: &str, text: &str) -> Result<Checked, Vec<Problem>> {
    let manifest = patra_spec::read(file, text).map_err(|problems| problems.as_slice().to_vec())?;
    let (mut warnings, mut problems) = (Vec::new(), Vec::<Problem>::new());
    for (name, endpoint) in &manifest.endpoints {
        let operation = meant_for(&manifest, endpoint);
        match patra_spec::compile(&manifest, name, operation) {
            Ok(compiled) => {
                let searched = endpoint.role.unwrap_or_default() == Role::Search;
                if operation == Operation::Update && searched {
                    warnings.push(format!("endpoints.{name}: no window: it cannot be harvested"));
                }
                warnings.extend(compiled.warnings.iter().map(|warning| format!("endpoints.{name}: {warning}")));
            }
            // What endpoints share is wrong once, however many of them it touches.
            Err(found) => {
                for problem in found.as_slice() {
                    if !problems.contains(problem) {
                        problems.push(problem.clone());
                    }
                }
            }
        }
    }
    if problems.is_empty() { Ok(Checked { manifest, warnings }) } else { Err(problems) }
}

/// The operation that asks most of an endpoint and that it must be fit for. One that cuts time is there to be harvested.
fn meant_for(manifest: &Manifest, endpoint: &Endpoint) -> Operation {
    let windowed = endpoint.window.is_some() || manifest.defaults.window.is_some() || endpoint.schedule.is_some();
    if windowed && endpoint.role != Some(Role::Detail) { Operation::Harvest } else { Operation::Update }
}

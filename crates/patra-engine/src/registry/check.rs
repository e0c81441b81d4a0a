//! A manifest before it is applied: everything that is wrong with it, at once.

use patra_core::state::Operation;
use patra_spec::manifest::EndpointConfig;
use patra_spec::{EndpointRole, Manifest, Overrides, Problem};

/// A manifest that may be applied.
#[derive(Clone, Debug)]
pub struct CheckedManifest {
    pub manifest: Manifest,
    /// What works, but less well than it could.
    pub warnings: Vec<String>,
}

/// Reads a manifest and compiles every endpoint of it for what it is meant for. `file` only names places.
pub fn check(file: &str, text: &str) -> Result<CheckedManifest, Vec<Problem>> {
    let manifest = patra_spec::read(file, text).map_err(|problems| problems.as_slice().to_vec())?;
    let (mut warnings, mut problems) = (Vec::new(), Vec::<Problem>::new());
    for (name, endpoint) in &manifest.endpoints {
        let operation = meant_for(&manifest, endpoint);
        let compiled = match operation {
            Some(operation) => patra_spec::compile(&manifest, name, operation),
            // Asked for by others, or by nobody: it must be sound, and that is all.
            None => patra_spec::inspect(&manifest, name, Operation::Update, &Overrides::default()),
        };
        match compiled {
            Ok(compiled) => {
                let searched = endpoint.role.unwrap_or_default() == EndpointRole::Search;
                if operation != Some(Operation::Harvest) && searched {
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
    if problems.is_empty() { Ok(CheckedManifest { manifest, warnings }) } else { Err(problems) }
}

/// The operation that asks most of an endpoint and that it must be fit for. One that cuts time is there to be harvested.
/// `None` for one that no operation reads by itself.
fn meant_for(manifest: &Manifest, endpoint: &EndpointConfig) -> Option<Operation> {
    let harvests = endpoint.schedule.as_ref().is_some_and(|when| when.every.is_some() || when.cron.is_some());
    let windowed = endpoint.window.is_some() || manifest.defaults.window.is_some() || harvests;
    let updated = endpoint.update.is_some() || endpoint.two_phase.is_some();
    match endpoint.role {
        Some(EndpointRole::Detail) => None,
        _ if windowed => Some(Operation::Harvest),
        _ => updated.then_some(Operation::Update),
    }
}

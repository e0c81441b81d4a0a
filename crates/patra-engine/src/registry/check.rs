//! Checks a manifest before it is applied, and reports all its problems at once.

use patra_core::paging::{PagingKind, PagingRule, Verify};
use patra_core::state::Operation;
use patra_spec::manifest::EndpointConfig;
use patra_spec::{EndpointRole, Manifest, Overrides, Problem, Snapshot};

/// A manifest that may be applied.
#[derive(Clone, Debug)]
pub struct CheckedManifest {
    pub manifest: Manifest,
    /// Warnings about parts that work, but less well than they could.
    pub warnings: Vec<String>,
}

/// Reads a manifest and compiles each of its endpoints for its operation. `file` is used in messages only.
pub fn check(file: &str, text: &str) -> Result<CheckedManifest, Vec<Problem>> {
    let manifest = patra_spec::read(file, text).map_err(|problems| problems.as_slice().to_vec())?;
    let (mut warnings, mut problems) = (Vec::new(), Vec::<Problem>::new());
    for (name, endpoint) in &manifest.endpoints {
        let operation = meant_for(&manifest, endpoint);
        let compiled = match operation {
            Some(operation) => patra_spec::compile(&manifest, name, operation),
            // An endpoint without an operation of its own must only be sound.
            None => patra_spec::inspect(&manifest, name, Operation::Update, &Overrides::default()),
        };
        match compiled {
            Ok(compiled) => {
                // A polled endpoint has no window on purpose.
                let is_polled = endpoint.polled == Some(true);
                let searched = endpoint.role.unwrap_or_default() == EndpointRole::Search && !is_polled;
                if operation != Some(Operation::Harvest) && searched {
                    warnings.push(format!("endpoints.{name}: no window: it cannot be harvested"));
                }
                if operation == Some(Operation::Harvest) && !is_polled && ends_unverified(&compiled.snapshot.paging()) {
                    warnings.push(format!(
                        "endpoints.{name}: these pages cannot show whether records moved while they were read, so \
                         slices of several pages end unverified; `pagination.verify: twice` reads until two passes agree"
                    ));
                }
                if operation == Some(Operation::Harvest) && !is_polled && has_no_size(&compiled.snapshot) {
                    warnings.push(format!(
                        "endpoints.{name}: nothing shows whether a response omits records of its window, so slices end \
                         unverified; add response.total_path, or pagination.page_size if the API returns at most so many"
                    ));
                }
                warnings.extend(compiled.warnings.iter().map(|warning| format!("endpoints.{name}: {warning}")));
            }
            // Problems that endpoints share are reported once.
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

/// Pages by number or link cannot overlap, and a total stays the same when one record leaves and another joins.
fn ends_unverified(rule: &PagingRule) -> bool {
    let movable = matches!(rule.kind, PagingKind::Page { .. } | PagingKind::Url);
    movable && rule.verify == Verify::Total
}

/// Neither a total nor a page size shows that a response has all records of its window.
fn has_no_size(snapshot: &Snapshot) -> bool {
    let response = &snapshot.response;
    snapshot.paging().may_omit && response.total_path.is_none() && response.total_header.is_none()
}

/// The most demanding operation of an endpoint: HARVEST where it has windows. `None` for an endpoint that no operation
/// reads directly.
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

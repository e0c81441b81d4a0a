//! Manifest to snapshot: platform defaults, then the provenance's, then the endpoint's (ING-3.3-03), for one operation.

mod merge;

use patra_core::state::Operation;

use crate::check::Check;
use crate::manifest::{Endpoint, Manifest};
use crate::problem::Problems;
use crate::snapshot::Snapshot;
use crate::suggest::suggest;

#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    pub snapshot: Snapshot,
    /// What works, but less well than it could: recorded with the plan (ING-3.3-22).
    pub warnings: Vec<String>,
}

/// Compiles one endpoint for one operation, or says everything that stands against it.
pub fn compile(manifest: &Manifest, endpoint: &str, operation: Operation) -> Result<Compiled, Problems> {
    let name = endpoint.trim().to_lowercase();
    let Some(declared) = manifest.endpoints.get(&name) else {
        let names: Vec<_> = manifest.endpoints.keys().map(String::as_str).collect();
        let message = format!("`{}` has no endpoint `{name}`", manifest.provenance);
        return Err(Problems::one(manifest.origin.problem("endpoints", message, suggest(&name, &names))));
    };
    let mut check = Check::new(manifest);
    check.shared();
    check.endpoint(&name, declared);
    check.operation(&name, declared, operation);
    Problems::or(check.problems, ())?;
    let mut snapshot = merge::snapshot(manifest, &name, declared, operation);
    snapshot.spec_fingerprint = snapshot.fingerprint();
    let warnings = warnings(manifest, declared, operation);
    Ok(Compiled { snapshot, warnings })
}

impl Check<'_> {
    /// What HARVEST and BACKFILL need beyond a sound endpoint.
    fn operation(&mut self, name: &str, endpoint: &Endpoint, operation: Operation) {
        if operation == Operation::Update {
            return;
        }
        let path = format!("endpoints.{name}");
        if endpoint.response.updated_at_path.is_none() {
            let message = format!("{operation} needs `updated_at_path`: without an update time nothing can be ordered");
            let hint = "a source without update times can only be read by UPDATE";
            self.report_with(&format!("{path}.response.updated_at_path"), message, hint);
        }
        let Some(window) = &endpoint.window else {
            let message = format!("{operation} needs a `window` section");
            return self.report_with(&format!("{path}.window"), message, "with at least watermark_key and initial");
        };
        if window.watermark_key.is_none() {
            let message = format!("{operation} needs `watermark_key`");
            self.report_with(&format!("{path}.window.watermark_key"), message, "for example watermark_key: updated_at");
        }
        if operation == Operation::Harvest && window.initial.is_none() {
            let message = "HARVEST needs `initial`: the time where the first run begins";
            self.report_with(&format!("{path}.window.initial"), message, "for example initial: 2024-01-01");
        }
    }
}

fn warnings(manifest: &Manifest, endpoint: &Endpoint, operation: Operation) -> Vec<String> {
    let mut warnings = Vec::new();
    if endpoint.response.updated_at_path.is_none() {
        warnings.push("no response.updated_at_path: records are replaced when their content differs".to_owned());
    }
    if endpoint.response.total_path.is_none() && endpoint.response.total_header.is_none() {
        warnings.push("no response.total_path: the number of records is not known beforehand".to_owned());
    }
    let filters = endpoint.window.as_ref().and_then(|window| window.supports_updated_since).unwrap_or(false);
    if operation != Operation::Update && !filters {
        warnings.push("the far side does not filter by time: every slice reads all and is filtered here".to_owned());
    }
    let rate = endpoint.rate_limit.refill_rate_per_sec.or(manifest.defaults.rate_limit.refill_rate_per_sec);
    if rate.is_none() {
        warnings.push("no rate_limit: at most one request per second is sent".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests;

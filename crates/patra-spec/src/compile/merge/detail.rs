//! Reading in two phases. The detail endpoint is compiled like any other and comes along.

use patra_core::state::Operation;

use crate::manifest::{Endpoint, Manifest};
use crate::snapshot::{Batching, DEFAULT_ID_BATCH_SIZE, TwoPhase};

pub(super) fn batching(manifest: &Manifest, endpoint: &Endpoint) -> Batching {
    let declared = endpoint.batching.clone();
    // A detail endpoint that takes one id is asked for one at a time, whatever the size says.
    let single = detail(manifest, endpoint).is_some_and(|(_, detail)| crate::check::takes_one_id(detail));
    let size = declared.id_batch_size.unwrap_or(DEFAULT_ID_BATCH_SIZE);
    Batching {
        id_batch_size: if single { 1 } else { size },
        max_records_per_request: declared.max_records_per_request,
        combine_threshold: declared.combine_threshold,
    }
}

pub(super) fn two_phase(manifest: &Manifest, endpoint: &Endpoint, operation: Operation) -> Option<TwoPhase> {
    let declared = endpoint.two_phase.clone()?;
    let (name, detail) = detail(manifest, endpoint)?;
    let mut detail = super::snapshot(manifest, name, detail, operation);
    // Without times of their own, its records are of the window that the search found them in.
    detail.window.monotonic = endpoint.window.as_ref().and_then(|window| window.monotonic).unwrap_or(false);
    detail.spec_fingerprint = detail.fingerprint();
    Some(TwoPhase {
        enabled: true,
        linked_endpoint: name.to_owned(),
        version_path: declared.version_path,
        missing: declared.missing.unwrap_or_default(),
        detail: Box::new(detail),
    })
}

fn detail<'m>(manifest: &'m Manifest, endpoint: &Endpoint) -> Option<(&'m str, &'m Endpoint)> {
    let name = endpoint.two_phase.as_ref()?.detail.as_ref()?;
    // One level only: a detail endpoint has no details of its own.
    let (name, detail) = manifest.endpoints.get_key_value(name)?;
    detail.two_phase.is_none().then_some((name.as_str(), detail))
}

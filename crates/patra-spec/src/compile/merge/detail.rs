//! Details by id, for two phases and for UPDATE. The detail endpoint is compiled like any other and comes along.

use patra_core::state::Operation;

use crate::manifest::{Endpoint, Manifest};
use crate::snapshot::{Batching, DEFAULT_ID_BATCH_SIZE, TwoPhase, Update};

pub(super) fn batching(manifest: &Manifest, endpoint: &Endpoint, operation: Operation) -> Batching {
    let declared = endpoint.batching.clone();
    // A detail endpoint that takes one id is asked for one at a time, whatever the size says.
    let single = detail(manifest, endpoint, operation).is_some_and(|(_, detail)| crate::check::takes_one_id(detail));
    let size = declared.id_batch_size.unwrap_or(DEFAULT_ID_BATCH_SIZE);
    Batching {
        id_batch_size: if single { 1 } else { size },
        max_records_per_request: declared.max_records_per_request,
        combine_threshold: declared.combine_threshold,
    }
}

pub(super) fn two_phase(manifest: &Manifest, endpoint: &Endpoint, operation: Operation) -> Option<TwoPhase> {
    let declared = endpoint.two_phase.clone().unwrap_or_default();
    let (name, detail) = detail(manifest, endpoint, operation)?;
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

pub(super) fn update(manifest: &Manifest, endpoint: &Endpoint, operation: Operation) -> Option<Update> {
    detail(manifest, endpoint, operation).filter(|_| operation == Operation::Update)?;
    let (declared, platform) = (endpoint.update.clone().unwrap_or_default(), Update::default());
    Some(Update {
        stale_after: declared.stale_after.unwrap_or(platform.stale_after),
        segment_size: declared.segment_size.unwrap_or(platform.segment_size),
    })
}

fn detail<'m>(manifest: &'m Manifest, endpoint: &Endpoint, operation: Operation) -> Option<(&'m str, &'m Endpoint)> {
    // One level only: a detail endpoint has no details of its own.
    let (name, detail) = manifest.endpoints.get_key_value(endpoint.detail_for(operation)?)?;
    detail.details().next().is_none().then_some((name.as_str(), detail))
}

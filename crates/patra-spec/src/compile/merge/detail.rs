//! Detail fetching by id, for two phases and for UPDATE. The detail endpoint is compiled like any other and embedded.

use patra_core::state::Operation;

use crate::manifest::{EndpointConfig, Manifest};
use crate::snapshot::{BatchingSpec, DEFAULT_ID_BATCH_SIZE, TwoPhaseSpec, UpdateSpec};

pub(super) fn batching(manifest: &Manifest, endpoint: &EndpointConfig, operation: Operation) -> BatchingSpec {
    let declared = endpoint.batching.clone();
    // A detail endpoint that takes one id gets one id per request, whatever the batch size.
    let single = detail(manifest, endpoint, operation).is_some_and(|(_, detail)| crate::check::takes_one_id(detail));
    let size = declared.id_batch_size.unwrap_or(DEFAULT_ID_BATCH_SIZE);
    BatchingSpec {
        id_batch_size: if single { 1 } else { size },
        max_records_per_request: declared.max_records_per_request,
        combine_threshold: declared.combine_threshold,
    }
}

pub(super) fn two_phase(manifest: &Manifest, endpoint: &EndpointConfig, operation: Operation) -> Option<TwoPhaseSpec> {
    let declared = endpoint.two_phase.clone().unwrap_or_default();
    let (name, detail) = detail(manifest, endpoint, operation)?;
    let mut detail = super::snapshot(manifest, name, detail, operation);
    // Detail records without an update time belong to the window of the search.
    detail.window.monotonic = endpoint.window.as_ref().and_then(|window| window.monotonic).unwrap_or(false);
    detail.window.mode = endpoint.window.as_ref().and_then(|window| window.mode).unwrap_or_default();
    detail.spec_fingerprint = detail.fingerprint();
    Some(TwoPhaseSpec {
        enabled: true,
        linked_endpoint: name.to_owned(),
        version_path: declared.version_path,
        missing: declared.missing.unwrap_or_default(),
        detail: Box::new(detail),
    })
}

pub(super) fn update(manifest: &Manifest, endpoint: &EndpointConfig, operation: Operation) -> Option<UpdateSpec> {
    detail(manifest, endpoint, operation).filter(|_| operation == Operation::Update)?;
    let (declared, platform) = (endpoint.update.clone().unwrap_or_default(), UpdateSpec::default());
    Some(UpdateSpec {
        stale_after: declared.stale_after.unwrap_or(platform.stale_after),
        segment_size: declared.segment_size.unwrap_or(platform.segment_size),
    })
}

fn detail<'m>(
    manifest: &'m Manifest,
    endpoint: &EndpointConfig,
    operation: Operation,
) -> Option<(&'m str, &'m EndpointConfig)> {
    // One level only: a detail endpoint cannot have a detail endpoint.
    let (name, detail) = manifest.endpoints.get_key_value(endpoint.detail_for(operation)?)?;
    detail.details().next().is_none().then_some((name.as_str(), detail))
}

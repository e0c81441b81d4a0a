//! Slice contexts from the frozen spec: the common part of a plan's slices. Used by the planner, and by a run that
//! splits a window that is too large.

use std::time::Duration;

use patra_core::hash;
use patra_core::params::{self, Params};
use patra_core::protocol::planner::{PhaseSpec, SliceBudget, SliceContext};
use patra_core::record::RecordStream;
use patra_core::window::Align;
use patra_spec::Snapshot;

/// The context of the slices of a trigger or task. `params` include defaults; `trigger` names the owner of the work.
pub(crate) fn slice_context(snapshot: &Snapshot, project_key: &str, params: Params, trigger: String) -> SliceContext {
    // Params that partitions bind: dimensions, and params that only a parent can have bound.
    let bound = |name: &String| {
        let dimension = snapshot.partitions.iter().any(|dimension| dimension.param == *name);
        dimension || snapshot.params.get(name).is_some_and(|param| param.default.is_none())
    };
    let partition = params.iter().filter(|(name, _)| !snapshot.partitions.is_empty() && bound(name));
    SliceContext {
        project_key: project_key.to_owned(),
        provenance_code: snapshot.provenance_code.clone(),
        endpoint_name: snapshot.endpoint_code.clone(),
        operation: snapshot.operation,
        watermark_key: watermark_key(snapshot),
        snapshot_hash: snapshot.spec_fingerprint.clone(),
        first: snapshot.paging().first(),
        partition: partition.map(|(name, value)| (name.clone(), value.clone())).collect(),
        params,
        safety_lag: snapshot.safety_lag(),
        phase: PhaseSpec {
            two_phase: snapshot.two_phase.is_some(),
            id_batch_size: snapshot.two_phase.as_ref().map(|_| snapshot.batching.id_batch_size),
        },
        budget: budget(snapshot),
        priority: snapshot.operation.priority(),
        job: trigger,
    }
}

/// What the cursor measures. Passes over a whole list have a cursor of their own: that of windows says nothing about
/// them.
fn watermark_key(snapshot: &Snapshot) -> String {
    match snapshot.reads_whole_list() {
        true => "snapshot".to_owned(),
        false => snapshot.window.watermark_key.clone().unwrap_or_else(|| "updated_at".to_owned()),
    }
}

/// Name of the list that a pass over these params reads, within its endpoint: empty without params, or with the defaults.
/// A changed default, path or query keeps the list: what it does not have any more is missing.
pub(crate) fn list_key(snapshot: &Snapshot, params: &Params) -> String {
    let is_default = |name: &String, value: &String| {
        snapshot.params.get(name).and_then(|param| param.default.as_ref()) == Some(value)
    };
    let own: Params = params
        .iter()
        .filter(|(name, value)| !is_default(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if own.is_empty() { String::new() } else { hash::digest(&["list", &params::to_text(&own)]) }
}

/// The stream of an endpoint's records.
pub(crate) fn stream(snapshot: &Snapshot, project_key: &str) -> RecordStream {
    RecordStream {
        project_key: project_key.to_owned(),
        provenance_code: snapshot.provenance_code.clone(),
        endpoint_name: snapshot.endpoint_code.clone(),
        // Ids are unique within an endpoint unless a connector says otherwise (MAP-C-10).
        dedup_scope: snapshot.endpoint_code.clone(),
        kind: snapshot.kind.as_str().to_owned(),
    }
}

/// Budget of a slice: the requests that the rate allows in its time, within the declared limits (ING-8.1-07).
pub(crate) fn budget(snapshot: &Snapshot) -> SliceBudget {
    let max_requests = snapshot.limits.max_requests;
    let max_duration_secs = u32::try_from(snapshot.limits.max_duration.0.as_secs()).unwrap_or(u32::MAX).max(1);
    let rate = &snapshot.rate_limit;
    let sent = rate.qps * f64::from(max_duration_secs) + f64::from(rate.burst);
    let max_requests = if sent < f64::from(max_requests) { (sent as u32).max(1) } else { max_requests };
    SliceBudget { max_requests, max_duration_secs }
}

/// Most records that one slice can read within its page limit and its request budget, requests for details included
/// (ING-8.1-07).
pub(crate) fn depth(snapshot: &Snapshot) -> u64 {
    let page_size = u64::from(snapshot.paging().page_size.max(1));
    let requests = u64::from(budget(snapshot).max_requests);
    let affordable = match &snapshot.two_phase {
        None => requests * page_size,
        Some(_) => {
            let group = u64::from(snapshot.batching.id_batch_size.max(1));
            requests * page_size * group / (page_size + group)
        }
    };
    affordable.min(page_size * u64::from(snapshot.limits.page_depth)).max(1)
}

/// The narrowest window of a slice: the declared minimum, down to a microsecond, or else a second; never less than the
/// alignment of its borders.
pub(crate) fn narrowest(snapshot: &Snapshot) -> Duration {
    let declared = snapshot.window.min_window.map(|min| min.0).filter(|min| !min.is_zero());
    let least = declared.unwrap_or(Duration::from_secs(1)).max(Duration::from_micros(1));
    least.max(snapshot.window.align.map(Align::unit).unwrap_or_default())
}

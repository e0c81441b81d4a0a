//! Cache of snapshots that are ready to run. Keys are content hashes, so an entry never goes stale; the number of
//! entries is limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patra_connectors::Pager;
use patra_core::params::{self, Params};
use patra_core::port::Queries;
use patra_core::protocol::planner::{SliceBudget, SliceTemplate};
use patra_core::protocol::run::{DetailOptions, MissingRule, PassRule, RunPolicy, SliceLimits, SplitRule};
use patra_core::record::{RecordStream, TWEET};
use patra_core::tx::Lease;
use patra_core::{Code, Fault, Level};
use patra_spec::{DedupScope, MissingDetail, RateScope, Snapshot};

use crate::gate::RateLane;
use crate::shared::lock;
use crate::slice_context::{budget, list_key, narrowest, slice_context, stream};

const MAX_ENTRIES: usize = 1_000;

/// A spec as the executor uses it.
#[derive(Debug)]
pub(crate) struct CompiledSpec {
    pub(crate) pager: Pager,
    pub(crate) lane: RateLane,
    /// Lane of the details, where the spec has them.
    pub(crate) detail_lane: Option<RateLane>,
    pub(crate) snapshot: Snapshot,
    generation: Arc<str>,
}

impl CompiledSpec {
    pub(crate) fn new(snapshot: Snapshot, pager: Pager) -> CompiledSpec {
        CompiledSpec {
            pager,
            lane: RateLane::of(&snapshot),
            detail_lane: snapshot.two_phase.as_ref().map(|two_phase| RateLane::of(&two_phase.detail)),
            generation: snapshot.mapping_generation().into(),
            snapshot,
        }
    }

    /// The lane of pages, or of details.
    pub(crate) fn lane(&self, details: bool) -> &RateLane {
        self.detail_lane.as_ref().filter(|_| details).unwrap_or(&self.lane)
    }

    pub(crate) fn policy(&self, lease: &Lease) -> RunPolicy {
        RunPolicy {
            paging: self.snapshot.paging(),
            retry: self.snapshot.retry_policy(),
            stream: Arc::new(self.stream(lease)),
            details: self.snapshot.two_phase.as_ref().map(|two_phase| DetailOptions {
                batch_size: self.snapshot.batching.id_batch_size,
                missing_is_bad: two_phase.missing == MissingDetail::Bad,
            }),
            split: self.split(lease),
            limits: self.limits(),
            order: self.snapshot.order(),
            generation: Arc::clone(&self.generation),
            emit: self.snapshot.emit,
            pass: self.pass(lease),
        }
    }

    /// An UPDATE reads records by id, and says nothing about a list.
    fn pass(&self, lease: &Lease) -> Option<PassRule> {
        let snapshot = &self.snapshot;
        if !snapshot.reads_whole_list() || lease.window.is_none() {
            return None;
        }
        let records = snapshot.two_phase.as_ref().map_or(snapshot, |two_phase| &*two_phase.detail);
        let params = params::of_task(&lease.params).unwrap_or_default();
        Some(PassRule {
            undated: records.is_undated(),
            missing: snapshot.marks_missing().then(|| MissingRule {
                list: list_key(snapshot, &params).into(),
                ratio: snapshot.limits.missing_ratio,
            }),
        })
    }

    fn stream(&self, lease: &Lease) -> RecordStream {
        let stream = stream(&self.snapshot, &lease.project_key);
        match (self.snapshot.dedup_scope, lease.source) {
            (DedupScope::Source, Some(source)) => RecordStream { dedup_scope: format!("source-{source}"), ..stream },
            (DedupScope::Tweet, _) => RecordStream { dedup_scope: TWEET.to_owned(), ..stream },
            _ => stream,
        }
    }

    /// The lane of a poll, by the URL of its source.
    pub(crate) fn lane_of(&self, params: &Params) -> Option<RateLane> {
        let url = params.get(self.snapshot.http.url_param.as_ref()?)?;
        let by_host = self.snapshot.rate_limit.scope == RateScope::Host;
        by_host.then(|| RateLane { key: patra_spec::host_key(url).into(), ..self.lane.clone() })
    }

    fn limits(&self) -> SliceLimits {
        let SliceBudget { max_requests, max_duration_secs } = budget(&self.snapshot);
        SliceLimits {
            max_requests,
            max_duration: Duration::from_secs(u64::from(max_duration_secs)),
            page_depth: self.snapshot.limits.page_depth,
            page_range: self.snapshot.pagination.as_ref().and_then(|paging| paging.page_range),
            error_ratio: self.snapshot.limits.error_ratio,
        }
    }

    /// Narrower windows help only where the upstream filters by time; splitting by pages works without.
    fn split(&self, lease: &Lease) -> Option<SplitRule> {
        let snapshot = &self.snapshot;
        let by_time = snapshot.window.supports_updated_since;
        lease.window?;
        let params = params::of_task(&lease.params).unwrap_or_default();
        // A split belongs to the task that it replaces, so its trigger is `SPLIT`.
        let context = slice_context(snapshot, &lease.project_key, params, "SPLIT".to_owned());
        Some(SplitRule { step: narrowest(snapshot), template: SliceTemplate::new(context), by_time })
    }
}

#[derive(Debug, Default)]
pub(crate) struct PreparedSpecs {
    specs: Mutex<HashMap<String, Arc<CompiledSpec>>>,
}

impl PreparedSpecs {
    pub(crate) async fn get(&self, queries: &dyn Queries, hash: &str) -> Result<Arc<CompiledSpec>, Fault> {
        if let Some(spec) = self.specs().get(hash) {
            return Ok(Arc::clone(spec));
        }
        let broken = |level, reason: String| Fault::new(Code::ConfigError, level, reason);
        let body = queries
            .snapshot(hash)
            .await
            .map_err(|error| broken(Level::L1, format!("the snapshot cannot be read: {error}")))?
            .ok_or_else(|| broken(Level::L4, format!("there is no snapshot {hash}")))?;
        let snapshot = Snapshot::from_body(&body)
            .map_err(|error| broken(Level::L4, format!("snapshot {hash} is unreadable: {error}")))?;
        let pager = Pager::new(&snapshot)?;
        let spec = Arc::new(CompiledSpec::new(snapshot, pager));
        let mut specs = self.specs();
        if specs.len() >= MAX_ENTRIES {
            specs.clear();
        }
        specs.insert(hash.to_owned(), Arc::clone(&spec));
        Ok(spec)
    }

    fn specs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<CompiledSpec>>> {
        lock(&self.specs)
    }
}

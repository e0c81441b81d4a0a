//! Snapshots, ready to run. Content-addressed, so an entry never goes stale; bounded, so a process that has seen many
//! versions stays small.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use patra_connectors::Pager;
use patra_core::gate::Rate;
use patra_core::params;
use patra_core::port::Queries;
use patra_core::protocol::planner::SliceForm;
use patra_core::protocol::run::{Details, Policy, Split};
use patra_core::record::Stream;
use patra_core::tx::Lease;
use patra_core::{Code, Fault, Level};
use patra_spec::{Missing, Snapshot};

use crate::shape::{narrowest, shape};

const MAX_ENTRIES: usize = 1_000;

/// A spec as the executor uses it.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) pager: Pager,
    pub(crate) rate: Rate,
    pub(crate) snapshot: Snapshot,
}

impl Spec {
    pub(crate) fn policy(&self, lease: &Lease) -> Policy {
        Policy {
            paging: self.snapshot.paging(),
            retry: self.snapshot.retry_policy(),
            stream: Arc::new(Stream {
                project_key: lease.project_key.clone(),
                provenance_code: lease.provenance_code.clone(),
                endpoint_name: lease.endpoint_name.clone(),
                // Ids are unique within an endpoint unless a connector says otherwise (MAP-C-10).
                dedup_scope: lease.endpoint_name.clone(),
                kind: self.snapshot.kind.as_str().to_owned(),
            }),
            details: self.snapshot.two_phase.as_ref().map(|two_phase| Details {
                batch_size: self.snapshot.batching.id_batch_size,
                missing_is_bad: two_phase.missing == Missing::Bad,
            }),
            split: self.split(lease),
        }
    }

    /// Narrower windows help only where the far side filters by time.
    fn split(&self, lease: &Lease) -> Option<Split> {
        let snapshot = &self.snapshot;
        if !snapshot.window.supports_updated_since {
            return None;
        }
        let params = params::of_task(&lease.params).unwrap_or_default();
        // A split is part of the task that it replaces, whoever asked for that.
        let shape = shape(snapshot, &lease.project_key, params, "SPLIT".to_owned());
        Some(Split { step: narrowest(snapshot), form: SliceForm::new(shape) })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Prepared {
    specs: Mutex<HashMap<String, Arc<Spec>>>,
}

impl Prepared {
    pub(crate) async fn get(&self, queries: &dyn Queries, hash: &str) -> Result<Arc<Spec>, Fault> {
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
        let spec = Arc::new(Spec { pager: Pager::new(&snapshot)?, rate: snapshot.rate(), snapshot });
        let mut specs = self.specs();
        if specs.len() >= MAX_ENTRIES {
            specs.clear();
        }
        specs.insert(hash.to_owned(), Arc::clone(&spec));
        Ok(spec)
    }

    fn specs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Spec>>> {
        self.specs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

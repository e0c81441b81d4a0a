//! The model behind the store ports, so that it can replace a database.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patra_core::credential::Credential;
use patra_core::port::credential::CredentialFilter;
use patra_core::port::load::StoreLoad;
use patra_core::port::next_due::NextDue;
use patra_core::port::query::{
    BatchEvidence, BatchPage, JobProgress, PlanLineage, Queries, RegisteredProvenance, StoredApiKey, StoredRawResponse,
    StoredVersion, View, ViewFilter, ViewRow,
};
use patra_core::port::{BoxFuture, Clock, Commands, CredentialQueries};
use patra_core::record::{DetailCandidate, RecordStream};
use patra_core::registry::DictType;
use patra_core::tx::{Done, IdRange, RefreshCriteria, Tx, TxError};
use patra_core::{PlanId, RunId};

use super::{MemStore, json};

/// One [`MemStore`] and the clock that plays the database's.
#[derive(Clone, Debug)]
pub struct SharedMem {
    store: Arc<Mutex<MemStore>>,
    pub(super) clock: Arc<dyn Clock>,
}

impl SharedMem {
    pub fn new(clock: Arc<dyn Clock>) -> SharedMem {
        SharedMem { store: Arc::default(), clock }
    }

    /// Locks the tables for inspection. Nothing runs on the store meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, MemStore> {
        // A panic inside an operation is a failed assertion of the model; the test that caused it has failed by then.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commands for SharedMem {
    fn execute(&self, tx: Tx) -> BoxFuture<'_, Result<Done, TxError>> {
        Box::pin(async move {
            json::check(&tx)?;
            self.lock().apply(self.clock.now(), &tx)
        })
    }
}

impl CredentialQueries for SharedMem {
    fn credentials(&self, ask: CredentialFilter) -> BoxFuture<'_, Result<Vec<Credential>, TxError>> {
        let found = self.lock().credentials(&ask);
        Box::pin(async { Ok(found) })
    }
}

impl Queries for SharedMem {
    fn registry(&self, provenance_code: &str) -> BoxFuture<'_, Result<Option<RegisteredProvenance>, TxError>> {
        ready(self.lock().registry(provenance_code))
    }

    fn dictionary(&self) -> BoxFuture<'_, Result<Vec<DictType>, TxError>> {
        ready(self.lock().dictionary.clone())
    }

    fn snapshot(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, TxError>> {
        ready(self.lock().snapshots.get(hash).cloned())
    }

    fn screen(
        &self,
        stream: &RecordStream,
        candidates: &[DetailCandidate],
    ) -> BoxFuture<'_, Result<Vec<DetailCandidate>, TxError>> {
        ready(self.lock().screen(self.clock.now(), stream, candidates))
    }

    fn ids_to_refresh(
        &self,
        stream: &RecordStream,
        wanted: &RefreshCriteria,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        ready(self.lock().wanted(stream, wanted, range, after, limit))
    }

    fn stored(&self, stream: &RecordStream, keys: &[String]) -> BoxFuture<'_, Result<Vec<StoredVersion>, TxError>> {
        ready(self.lock().stored(stream, keys))
    }

    fn evidence(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<BatchEvidence>, TxError>> {
        ready(self.lock().evidence(run, batch_no))
    }

    fn raw(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<StoredRawResponse>, TxError>> {
        ready(self.lock().kept(self.clock.now(), run, batch_no))
    }

    fn lineage(&self, plan: PlanId, batches: BatchPage) -> BoxFuture<'_, Result<Option<PlanLineage>, TxError>> {
        ready(self.lock().lineage(plan, batches))
    }

    fn progress(&self, public_id: &str) -> BoxFuture<'_, Result<Option<JobProgress>, TxError>> {
        ready(self.lock().progress(public_id, self.clock.now()))
    }

    fn key(&self, prefix: &str) -> BoxFuture<'_, Result<Option<StoredApiKey>, TxError>> {
        let store = self.lock();
        let found = store.keys.iter().find(|key| key.prefix == prefix);
        ready(found.map(|key| StoredApiKey {
            prefix: key.prefix.clone(),
            hash: key.hash.clone(),
            scope: key.scope,
            projects: key.projects.clone(),
            shared: key.shared,
            revoked: key.revoked_at.is_some(),
        }))
    }

    fn list(&self, view: View, filter: ViewFilter) -> BoxFuture<'_, Result<Vec<ViewRow>, TxError>> {
        let rows = self.lock().list(view, &filter);
        Box::pin(std::future::ready(rows))
    }

    fn load(&self) -> BoxFuture<'_, Result<StoreLoad, TxError>> {
        ready(self.lock().load(self.clock.now()))
    }

    fn next_due(&self) -> BoxFuture<'_, Result<NextDue, TxError>> {
        ready(self.lock().ahead(self.clock.now()))
    }

    fn ping(&self) -> BoxFuture<'_, Result<u32, TxError>> {
        ready(1)
    }
}

pub(super) fn ready<T: Send + 'static>(value: T) -> BoxFuture<'static, Result<T, TxError>> {
    Box::pin(std::future::ready(Ok(value)))
}

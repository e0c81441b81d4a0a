//! The model behind the store ports, so that whatever runs on a database runs on it too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patra_core::credential::Credential;
use patra_core::port::ahead::Ahead;
use patra_core::port::credential::Ask;
use patra_core::port::load::Load;
use patra_core::port::query::{
    BatchPage, Evidence, Filter, Key, Lineage, Progress, Queries, RawKept, Registered, Row, StoredVersion, View,
};
use patra_core::port::{Boxed, Clock, Commands, Credentials};
use patra_core::record::{Candidate, Stream};
use patra_core::registry::DictType;
use patra_core::tx::{Done, IdRange, Tx, TxError, Wanted};
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

    /// The tables, for a look at them. Nothing runs on the store meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, MemStore> {
        // A panic inside an operation is a failed assertion of the model; the test that caused it has failed by then.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commands for SharedMem {
    fn execute(&self, tx: Tx) -> Boxed<'_, Result<Done, TxError>> {
        Box::pin(async move {
            json::check(&tx)?;
            self.lock().apply(self.clock.now(), &tx)
        })
    }
}

impl Credentials for SharedMem {
    fn credentials(&self, ask: Ask) -> Boxed<'_, Result<Vec<Credential>, TxError>> {
        let found = self.lock().credentials(&ask);
        Box::pin(async { Ok(found) })
    }
}

impl Queries for SharedMem {
    fn registry(&self, provenance_code: &str) -> Boxed<'_, Result<Option<Registered>, TxError>> {
        ready(self.lock().registry(provenance_code))
    }

    fn dictionary(&self) -> Boxed<'_, Result<Vec<DictType>, TxError>> {
        ready(self.lock().dictionary.clone())
    }

    fn snapshot(&self, hash: &str) -> Boxed<'_, Result<Option<String>, TxError>> {
        ready(self.lock().snapshots.get(hash).cloned())
    }

    fn screen(&self, stream: &Stream, candidates: &[Candidate]) -> Boxed<'_, Result<Vec<Candidate>, TxError>> {
        ready(self.lock().screen(self.clock.now(), stream, candidates))
    }

    fn wanted(
        &self,
        stream: &Stream,
        wanted: &Wanted,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> Boxed<'_, Result<Vec<String>, TxError>> {
        ready(self.lock().wanted(stream, wanted, range, after, limit))
    }

    fn stored(&self, stream: &Stream, keys: &[String]) -> Boxed<'_, Result<Vec<StoredVersion>, TxError>> {
        ready(self.lock().stored(stream, keys))
    }

    fn evidence(&self, run: RunId, batch_no: u32) -> Boxed<'_, Result<Option<Evidence>, TxError>> {
        ready(self.lock().evidence(run, batch_no))
    }

    fn raw(&self, run: RunId, batch_no: u32) -> Boxed<'_, Result<Option<RawKept>, TxError>> {
        ready(self.lock().kept(self.clock.now(), run, batch_no))
    }

    fn lineage(&self, plan: PlanId, batches: BatchPage) -> Boxed<'_, Result<Option<Lineage>, TxError>> {
        ready(self.lock().lineage(plan, batches))
    }

    fn progress(&self, public_id: &str) -> Boxed<'_, Result<Option<Progress>, TxError>> {
        ready(self.lock().progress(public_id, self.clock.now()))
    }

    fn key(&self, prefix: &str) -> Boxed<'_, Result<Option<Key>, TxError>> {
        let store = self.lock();
        let found = store.keys.iter().find(|key| key.prefix == prefix);
        ready(found.map(|key| Key {
            prefix: key.prefix.clone(),
            hash: key.hash.clone(),
            scope: key.scope,
            projects: key.projects.clone(),
            shared: key.shared,
            revoked: key.revoked_at.is_some(),
        }))
    }

    fn list(&self, view: View, filter: Filter) -> Boxed<'_, Result<Vec<Row>, TxError>> {
        let rows = self.lock().list(view, &filter);
        Box::pin(std::future::ready(rows))
    }

    fn load(&self) -> Boxed<'_, Result<Load, TxError>> {
        ready(self.lock().load(self.clock.now()))
    }

    fn ahead(&self) -> Boxed<'_, Result<Ahead, TxError>> {
        ready(self.lock().ahead(self.clock.now()))
    }

    fn ping(&self) -> Boxed<'_, Result<u32, TxError>> {
        ready(1)
    }
}

pub(super) fn ready<T: Send + 'static>(value: T) -> Boxed<'static, Result<T, TxError>> {
    Box::pin(std::future::ready(Ok(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;
    use crate::contract::{self, Subject, Time};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_model_keeps_the_store_contract() {
        contract::run_all(async || subject()).await;
    }

    // The model against itself: proves the generator and the comparison, not the model.
    #[tokio::test]
    async fn the_differential_test_finds_no_difference_where_there_is_none() {
        contract::differential(async || subject(), 0..50).await;
    }

    fn subject() -> Subject {
        let clock = Arc::new(ManualClock::default());
        Subject { store: Arc::new(SharedMem::new(clock.clone())), time: Time::Manual(clock) }
    }
}

//! Searching in the background: jobs of the ledger, done by whichever process takes them, and done again when it dies.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use patra_core::port::{CommandsExt as _, Store};
use patra_core::project::Library;
use patra_core::tx::{ClaimBackgroundJob, ClaimedBackgroundJob, RequestBackgroundJob, TxError, UpdateBackgroundJob};

use super::{ExtractReport, PoolRefusal, extract, look_back};
use crate::events;
use crate::shared::Shared;

/// The job types of the two searches.
pub const EXTRACT_DOCUMENTS: &str = "resource_pool_extract_documents";
pub const CAPTURE_TASKS: &str = "resource_pool_capture_tasks";

/// Puts a search into the ledger.
pub async fn ask(
    store: &dyn Store,
    public_id: String,
    project_key: &str,
    job_type: &str,
    wish: &impl Serialize,
    request_id: Option<String>,
) -> Result<(), TxError> {
    let params = serde_json::to_string(wish).map_err(|error| TxError::Refused(error.to_string()))?;
    let (project_key, job_type) = (project_key.to_owned(), job_type.to_owned());
    store.run(RequestBackgroundJob { public_id, project_key, job_type, params, request_id }).await?;
    Ok(())
}

pub(crate) async fn serve(shared: Arc<Shared>) {
    loop {
        let take = ClaimBackgroundJob { owner: shared.options.owner.clone(), lease: shared.options.lease };
        match shared.ports.store.run(take).await {
            Ok(Some(chore)) => {
                tokio::select! {
                    () = shared.drain.cancelled() => return,
                    done = work(&shared, &chore) => match done {
                        // Somebody else has it, or it was cancelled.
                        Ok(()) | Err(TxError::Fenced) => {}
                        Err(error) => events::store_failed("chores", "UpdateBackgroundJob", &error),
                    },
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => events::store_failed("chores", "ClaimBackgroundJob", &error),
        }
        tokio::select! {
            () = shared.drain.cancelled() => return,
            () = shared.chore_nudge.notified() => {}
            () = tokio::time::sleep(shared.options.uncalled()) => {}
        }
    }
}

/// Does a chore, and keeps its lease meanwhile.
async fn work(shared: &Shared, chore: &ClaimedBackgroundJob) -> Result<(), TxError> {
    let (store, lease) = (&*shared.ports.store, shared.options.lease);
    let keep = |done| UpdateBackgroundJob { job: chore.job, fence: chore.fence, lease, done };
    let search = search(store, chore);
    tokio::pin!(search);
    let mut renewal = tokio::time::interval(lease / 3);
    renewal.tick().await;
    let done = loop {
        tokio::select! {
            done = &mut search => break done,
            _ = renewal.tick() => drop(store.run(keep(None)).await?),
        }
    };
    let done = match done {
        // It is taken up again when the lease has run out.
        Err(PoolRefusal::Store(error)) if error.is_transient() => return Err(error),
        Err(error) => Err(error.to_string()),
        Ok(result) => Ok(result),
    };
    tracing::info!(job = chore.public_id, job_type = chore.job_type, ok = done.is_ok(), "a search has ended");
    store.run(keep(Some(done))).await?;
    Ok(())
}

async fn search(store: &dyn Store, chore: &ClaimedBackgroundJob) -> Result<String, PoolRefusal> {
    match chore.job_type.as_str() {
        EXTRACT_DOCUMENTS => {
            let wish: super::ExtractRequest = read(&chore.params)?;
            Ok(told(&extract(store, &wish).await?, "documents_scanned", wish.library))
        }
        CAPTURE_TASKS => {
            let wish: super::LookBackRequest = read(&chore.params)?;
            Ok(told(&look_back(store, &wish).await?, "tasks_scanned", wish.library))
        }
        other => Err(TxError::Refused(format!("nobody knows how to do {}", json!(other))).into()),
    }
}

fn told(tally: &ExtractReport, scanned: &str, library: Library) -> String {
    tally.to_json(scanned, library).to_string()
}

fn read<T: DeserializeOwned>(params: &str) -> Result<T, TxError> {
    serde_json::from_str(params).map_err(|error| TxError::Refused(format!("the job's params are damaged: {error}")))
}

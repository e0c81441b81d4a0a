//! Searches in the background: jobs of the ledger that any process claims. Another process does them again when one
//! dies.

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

/// Job types of the two searches.
pub const EXTRACT_DOCUMENTS: &str = "resource_pool_extract_documents";
pub const CAPTURE_TASKS: &str = "resource_pool_capture_tasks";

/// Adds a search to the ledger as a background job.
pub async fn enqueue(
    store: &dyn Store,
    public_id: String,
    project_key: &str,
    job_type: &str,
    search: &impl Serialize,
    request_id: Option<String>,
) -> Result<(), TxError> {
    let params = serde_json::to_string(search).map_err(|error| TxError::Refused(error.to_string()))?;
    let (project_key, job_type) = (project_key.to_owned(), job_type.to_owned());
    store.run(RequestBackgroundJob { public_id, project_key, job_type, params, request_id }).await?;
    Ok(())
}

pub(crate) async fn serve(shared: Arc<Shared>) {
    loop {
        let take = ClaimBackgroundJob { owner: shared.options.owner.clone(), lease: shared.options.lease };
        match shared.ports.store.run(take).await {
            Ok(Some(job)) => {
                tokio::select! {
                    () = shared.drain.cancelled() => return,
                    done = work(&shared, &job) => match done {
                        // Another process has the job, or it was cancelled.
                        Ok(()) | Err(TxError::Fenced) => {}
                        Err(error) => events::store_failed("background_jobs", "UpdateBackgroundJob", &error),
                    },
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => events::store_failed("background_jobs", "ClaimBackgroundJob", &error),
        }
        tokio::select! {
            () = shared.drain.cancelled() => return,
            () = shared.background_job_nudge.notified() => {}
            () = tokio::time::sleep(shared.options.idle_sleep()) => {}
        }
    }
}

/// Does a background job, and renews its lease meanwhile.
async fn work(shared: &Shared, job: &ClaimedBackgroundJob) -> Result<(), TxError> {
    let (store, lease) = (&*shared.ports.store, shared.options.lease);
    let keep = |done| UpdateBackgroundJob { job: job.job, fence: job.fence, lease, done };
    let search = search(store, job);
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
        // The job is claimed again when its lease has expired.
        Err(PoolRefusal::Store(error)) if error.is_transient() => return Err(error),
        Err(error) => Err(error.to_string()),
        Ok(result) => Ok(result),
    };
    tracing::info!(job = job.public_id, job_type = job.job_type, ok = done.is_ok(), "a search has ended");
    store.run(keep(Some(done))).await?;
    Ok(())
}

async fn search(store: &dyn Store, job: &ClaimedBackgroundJob) -> Result<String, PoolRefusal> {
    match job.job_type.as_str() {
        EXTRACT_DOCUMENTS => {
            let request: super::ExtractRequest = read(&job.params)?;
            Ok(result_text(&extract(store, &request).await?, "documents_scanned", request.library))
        }
        CAPTURE_TASKS => {
            let request: super::LookBackRequest = read(&job.params)?;
            Ok(result_text(&look_back(store, &request).await?, "tasks_scanned", request.library))
        }
        other => Err(TxError::Refused(format!("unknown job type {}", json!(other))).into()),
    }
}

fn result_text(tally: &ExtractReport, scanned: &str, library: Library) -> String {
    tally.to_json(scanned, library).to_string()
}

fn read<T: DeserializeOwned>(params: &str) -> Result<T, TxError> {
    serde_json::from_str(params).map_err(|error| TxError::Refused(format!("the job's params are damaged: {error}")))
}

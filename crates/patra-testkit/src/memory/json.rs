//! The CHECKs on JSON columns. They are separate from the model, because the simulator writes its own texts and parsing
//! them costs more than the operation.

use patra_core::tx::{BatchFailure, CommitBatch, PlanTarget, RawResponse, SavePlan, Tx, TxError};
use serde::de::IgnoredAny;

use super::refused;

pub(super) fn check(tx: &Tx) -> Result<(), TxError> {
    match tx {
        Tx::RequestJob(op) => valid("params", &op.params).and_then(|()| valid("overrides", &op.overrides)),
        Tx::FanOut(op) => {
            valid("fan_place", &op.position)?;
            op.children.iter().try_for_each(|child| valid("params", &child.params))
        }
        Tx::SavePlan(op) => check_plan(op),
        Tx::SaveSources(op) => op.sources.iter().try_for_each(|source| object("config", &source.config)),
        Tx::ChangeSource(op) => op.config.as_ref().map_or(Ok(()), |new| object("config", &new.config)),
        Tx::QueuePolls(op) => {
            op.snapshots.iter().try_for_each(|(_, body)| valid("snapshot_body", body))?;
            op.job.as_ref().map_or(Ok(()), |job| valid("params", &job.params))?;
            op.polls.iter().try_for_each(|poll| valid("params", &poll.params))
        }
        Tx::RequestBackgroundJob(op) => valid("params", &op.params),
        Tx::UpdateBackgroundJob(op) => match &op.done {
            Some(Ok(result)) => valid("result", result),
            _ => Ok(()),
        },
        Tx::AddUrls(op) => op.urls.iter().try_for_each(|found| object("source_ref", &found.source_ref)),
        Tx::CommitBatch(op) => check_page(op),
        Tx::CommitBatches(ops) => ops.iter().try_for_each(|op| check_page(op)),
        Tx::EndRun(op) => op.failure.as_ref().map_or(Ok(()), check_failure),
        _ => Ok(()),
    }
}

fn check_plan(op: &SavePlan) -> Result<(), TxError> {
    if let PlanTarget::New(new) = &op.target {
        valid("snapshot_body", &new.snapshot_body)?;
        valid("remarks", &new.remarks)?;
    }
    for slice in &op.slices {
        valid("slice_spec", &slice.spec)?;
        valid("expr_snapshot", &slice.expr_snapshot)?;
        valid("params", &slice.task_params)?;
    }
    Ok(())
}

fn check_page(op: &CommitBatch) -> Result<(), TxError> {
    valid("request_digest", &op.request_digest)?;
    valid("response_digest", &op.response_digest)?;
    op.raw.as_ref().map_or(Ok(()), check_raw)
}

fn check_failure(failure: &BatchFailure) -> Result<(), TxError> {
    valid("request_digest", &failure.request_digest)?;
    valid("response_digest", &failure.response_digest)?;
    failure.raw.as_ref().map_or(Ok(()), check_raw)
}

fn check_raw(raw: &RawResponse) -> Result<(), TxError> {
    valid("headers", &raw.headers)
}

fn object(column: &str, text: &str) -> Result<(), TxError> {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text) {
        Ok(_) => Ok(()),
        Err(error) => refused(format!("{column} is no JSON object: {error}")),
    }
}

fn valid(column: &str, text: &str) -> Result<(), TxError> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => refused(format!("{column} is no JSON: {error}")),
    }
}

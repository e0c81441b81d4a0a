//! Spans that logs and traces share (ING-14.2, ING-14.6). They give log lines their context, and traces are made of
//! them. All are of the highest level, so that no filter for lines removes that context.
//!
//! ```text
//! PlannerTrigger ─► CompileSpec ─► Slice …
//! ExecutorTrigger ─► PickTask ─► Run ─► Batch ─► HTTP Call
//! ```

use std::time::Duration;

use tracing::field::Empty;
use tracing::{Span, error_span};

use patra_core::hash::sha256_hex;
use patra_core::paging::Position;
use patra_core::protocol::run::{FetchedPage, PageFailure, PageFetch, RunOutcome, RunSummary};
use patra_core::tx::{BatchCommitted, ClaimedJob, Lease, RunStarted, SavePlan};

/// Span of one trigger, from its claim until it is planned or postponed.
pub(crate) fn trigger(taken: &ClaimedJob) -> Span {
    error_span!(
        "PlannerTrigger",
        schedule_instance_id = taken.job.0,
        source = taken.provenance_code,
        endpoint = taken.endpoint_name,
        op = taken.operation.as_str(),
        priority = taken.priority,
    )
}

pub(crate) fn compile() -> Span {
    error_span!("CompileSpec")
}

/// Span of one slice, where the slices of a plan are cut.
pub(crate) fn slices(compiled: &Span, plan: &SavePlan) {
    for slice in &plan.slices {
        let _ = error_span!(
            parent: compiled,
            "Slice",
            slice_signature_hash = slice.signature,
            expr_hash = slice.expr_hash,
        );
    }
}

/// Span of a claim that returned tasks.
pub(crate) fn claimed(tasks: usize) -> Span {
    error_span!("ExecutorTrigger", tasks)
}

pub(crate) fn picked(claimed: &Span, lease: &Lease, waited: Duration) -> Span {
    error_span!(
        parent: claimed,
        "PickTask",
        task_id = lease.task.0,
        attempts = lease.attempts,
        queue_wait_ms = waited.as_millis() as u64,
    )
}

/// Span of a run: lineage and fingerprints; unknown fields are filled by [`started`].
pub(crate) fn run(lease: &Lease) -> Span {
    error_span!(
        "Run",
        schedule_instance_id = lease.lineage.job.0,
        plan_id = lease.lineage.plan.0,
        slice_id = lease.lineage.slice.0,
        task_id = lease.task.0,
        run_id = Empty,
        source = lease.provenance_code,
        endpoint = lease.endpoint_name,
        op = lease.operation.as_str(),
        priority = lease.priority,
        spec_fingerprint = Empty,
        expr_proto_hash = Empty,
        expr_hash = lease.expr_hash,
        slice_signature_hash = Empty,
        status = Empty,
        error.level = Empty,
    )
}

pub(crate) fn started(run: &Span, started: &RunStarted) {
    let RunStarted::Go { run: id, snapshot_hash, slice_signature_hash, .. } = started else { return };
    run.record("run_id", id.0);
    // A snapshot holds the prototype of its expressions, so one hash stands for both.
    run.record("spec_fingerprint", snapshot_hash.as_str());
    run.record("expr_proto_hash", snapshot_hash.as_str());
    run.record("slice_signature_hash", slice_signature_hash.as_str());
}

pub(crate) fn ended(run: &Span, ended: &RunSummary) {
    let RunOutcome::Closed(status, fault) = &ended.outcome else { return };
    run.record("status", status.as_str());
    if let Some(fault) = fault {
        run.record("error.level", fault.level.as_str());
    }
}

/// Span of one page, from its first request to its commit.
pub(crate) fn batch(fetch: &PageFetch) -> Span {
    let (page, token) = place(&fetch.position);
    error_span!(
        "Batch",
        batch_no = fetch.batch_no,
        batch_id = Empty,
        correlation_id = fetch.correlation(),
        page,
        token,
        hasNext = Empty,
        status = Empty,
    )
}

pub(crate) fn committed(batch: &Span, done: &BatchCommitted) {
    batch.record("batch_id", done.batch.0);
    batch.record("hasNext", done.stats.has_next);
    batch.record("status", "SUCCEEDED");
}

/// Span of one exchange with the upstream.
pub(crate) fn exchange(batch: &Span) -> Span {
    error_span!(parent: batch, "HTTP Call", otel.kind = "client", http.status = Empty, error.level = Empty)
}

pub(crate) fn answered(exchange: &Span, answer: Result<&FetchedPage, &PageFailure>) {
    let evidence = answer.map_or_else(|refusal| &refusal.evidence, |page| &page.evidence);
    if evidence.status > 0 {
        exchange.record("http.status", evidence.status);
    }
    if let Err(refusal) = answer {
        exchange.record("error.level", refusal.fault.level.as_str());
    }
}

/// The page number of a position, or a hash of its token, which may be a secret.
fn place(position: &Position) -> (Option<u64>, Option<String>) {
    match position {
        Position::Offset(page) | Position::Page(page) => (Some(*page), None),
        Position::Ids { at, .. } => place(at),
        Position::Token(_) | Position::Url(_) | Position::Time | Position::Keys { .. } => {
            (None, position.token_key().map(|token| sha256_hex(token.as_bytes())[..16].to_owned()))
        }
    }
}

//! The ledger row of a page, committed or failed.

use patra_core::error::Fault;
use patra_core::paging::Position;
use patra_core::state::BatchStatus;
use patra_core::tx::{BatchFailure, BatchStats, CommitBatch, EndRun, RawResponse, TaskLineage};
use patra_core::{BatchId, RunId, TaskId, Ts};
use rusqlite::{Connection, params};

use crate::error::Result;

// Provenance, endpoint and window are copied from the task, so that a ledger row always agrees with its task.
const INSERT: &str = "
INSERT INTO ing_task_run_batch
  (run_id, task_id, slice_id, plan_id, schedule_instance_id, provenance_code, endpoint_name, expr_hash, batch_no,
   position, next_position, page_no, page_size, before_token, after_token, before_url, next_url, status_code, has_next,
   latency_ms, inserted, updated, skipped, failed, retries, throttled, stats, request_digest, response_digest, error,
   idempotent_key, created_at, out_of_window, filtered, window_from, window_to)
SELECT ?1, id, ?3, ?4, ?5, provenance_code, endpoint_name, ?6, ?7,
   ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
   ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28,
   ?29, ?30, ?31, ?32, window_from, window_to
FROM ing_task
WHERE id = ?2
ON CONFLICT DO NOTHING";

const KEEP_RAW: &str = "
INSERT INTO ing_raw (run_id, batch_no, status, headers, body, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (run_id, batch_no) DO NOTHING";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, KEEP_RAW];

/// Writes the row of a committed page. Returns `None` if another batch has its number, token or key.
pub(super) fn insert_page(db: &Connection, op: &CommitBatch, stats: &BatchStats, now: Ts) -> Result<Option<BatchId>> {
    let ledger = Ledger {
        task: op.lease.task,
        lineage: op.lineage,
        run: op.run,
        batch_no: op.batch_no,
        status: BatchStatus::Succeeded,
        expr_hash: &op.expr_hash,
        idempotent_key: &op.idempotent_key,
        before_token: op.before_token.as_deref(),
        position: &op.position,
        next: op.next.as_ref(),
        page_size: op.page_size,
        stats,
        request_digest: &op.request_digest,
        response_digest: &op.response_digest,
        error: None,
        raw: op.raw.as_ref(),
    };
    ledger.insert(db, now)
}

/// Writes the evidence of the page that ended a run, unless the ledger has a row of that number already, as after a
/// commit whose result was lost. It has no token, so that it can never prevent the end of the run.
pub(super) fn insert_failure(db: &Connection, op: &EndRun, failure: &BatchFailure, now: Ts) -> Result<()> {
    let ledger = Ledger {
        task: op.lease.task,
        lineage: op.lineage,
        run: op.run,
        batch_no: failure.batch_no,
        status: BatchStatus::Failed,
        expr_hash: &failure.expr_hash,
        idempotent_key: &failure.idempotent_key,
        before_token: None,
        position: &failure.position,
        next: None,
        page_size: failure.page_size,
        stats: &failure.stats,
        request_digest: &failure.request_digest,
        response_digest: &failure.response_digest,
        error: Some(&failure.error),
        raw: failure.raw.as_ref(),
    };
    ledger.insert(db, now)?;
    Ok(())
}

/// A row of the ledger.
struct Ledger<'a> {
    task: TaskId,
    lineage: TaskLineage,
    run: RunId,
    batch_no: u32,
    status: BatchStatus,
    expr_hash: &'a str,
    idempotent_key: &'a str,
    before_token: Option<&'a str>,
    position: &'a Position,
    next: Option<&'a Position>,
    page_size: u32,
    stats: &'a BatchStats,
    request_digest: &'a str,
    response_digest: &'a str,
    error: Option<&'a Fault>,
    raw: Option<&'a RawResponse>,
}

impl Ledger<'_> {
    fn insert(&self, db: &Connection, now: Ts) -> Result<Option<BatchId>> {
        let stats = self.stats;
        let inserted = db.prepare_cached(INSERT)?.execute(params![
            self.run.0,
            self.task.0,
            self.lineage.slice.0,
            self.lineage.plan.0,
            self.lineage.job.0,
            self.expr_hash,
            self.batch_no,
            serde_json::to_string(self.position)?,
            self.next.map(serde_json::to_string).transpose()?,
            self.position.number().map(u64::cast_signed),
            self.page_size,
            self.before_token,
            self.next.and_then(Position::token_key),
            url(self.position),
            self.next.and_then(url),
            self.status.as_str(),
            self.next.is_some(),
            stats.latency_ms,
            stats.inserted,
            stats.updated,
            stats.skipped,
            stats.failed,
            stats.retry_count,
            stats.throttled_count,
            serde_json::to_string(stats)?,
            self.request_digest,
            self.response_digest,
            self.error.map(serde_json::to_string).transpose()?,
            self.idempotent_key,
            now.micros(),
            stats.skipped_by.out_of_window,
            stats.skipped_by.filtered,
        ])?;
        if inserted == 0 {
            return Ok(None);
        }
        let batch = BatchId(db.last_insert_rowid());
        if let Some(RawResponse { status, headers, body, keep }) = self.raw {
            let expires_at = (now + *keep).micros();
            let values = params![self.run.0, self.batch_no, status, headers, &**body, now.micros(), expires_at];
            db.prepare_cached(KEEP_RAW)?.execute(values)?;
        }
        Ok(Some(batch))
    }
}

fn url(position: &Position) -> Option<&str> {
    match position {
        Position::Url(url) => url.as_deref(),
        Position::Offset(_)
        | Position::Page(_)
        | Position::Token(_)
        | Position::Time
        | Position::Ids { .. }
        | Position::Keys { .. } => None,
    }
}

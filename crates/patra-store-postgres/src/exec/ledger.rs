//! The ledger row of a page, committed or failed.

use std::borrow::Cow;

use patra_core::hash::sha256_hex;
use patra_core::paging::Position;
use patra_core::tx::{BatchFailure, BatchStats, CommitBatch, EndRun, TaskLineage};
use patra_core::{RunId, TaskId};

use crate::error::Fail;
use crate::json::Json;
use crate::rows::Value;
use crate::time::Time;

/// Inserts ledger rows; the statement ends in one of two ways.
macro_rules! insert {
    ($ending:literal) => {
        concat!(
            "
INSERT INTO ing_task_run_batch (run_id, task_id, slice_id, plan_id, schedule_instance_id, provenance_code,
  endpoint_name, expr_hash, batch_no, position, next_position, page_no, page_size, before_token, after_token,
  before_url, next_url, status_code, has_next, latency_ms, inserted, updated, skipped, failed, retries, throttled,
  stats, request_digest, response_digest, error, idempotent_key, created_at, out_of_window, filtered,
  window_from, window_to)
SELECT n.run_id, t.id, n.slice_id, n.plan_id, n.instance_id, t.provenance_code,
  t.endpoint_name, n.expr_hash, n.batch_no, n.position, n.next_position, n.page_no, n.page_size, n.before_token, n.after_token,
  n.before_url, n.next_url, n.status_code, n.has_next, n.latency_ms, n.inserted, n.updated, n.skipped, n.failed, n.retries,
  n.throttled, n.stats, n.request_digest, n.response_digest, n.error, n.idempotent_key, n.created_at, n.out_of_window,
  n.filtered, t.window_from,
  t.window_to
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::jsonb[],
    $9::jsonb[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::int[],
    $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::jsonb[],
    $26::jsonb[], $27::jsonb[], $28::jsonb[], $29::text[], $30::timestamptz[],
    $31::bigint[], $32::bigint[])
  AS n (run_id, task_id, slice_id, plan_id, instance_id, expr_hash, batch_no, position, next_position, page_no, page_size,
    before_token, after_token, before_url, next_url, status_code, has_next, latency_ms, inserted, updated, skipped, failed,
    retries, throttled, stats, request_digest, response_digest, error, idempotent_key, created_at,
    out_of_window, filtered)
JOIN ing_task t ON t.id = n.task_id
ORDER BY n.run_id, n.batch_no
",
            $ending
        )
    };
}

/// For pages: a duplicate key is a bug and must fail.
pub(super) const INSERT_PAGES: &str = insert!("RETURNING run_id, batch_no, id");

/// For failures: they must never prevent the end of the run.
pub(super) const INSERT_FAILURES: &str = insert!("ON CONFLICT DO NOTHING");

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT_PAGES, INSERT_FAILURES];

/// An index entry has at most a third of a page (2,704 bytes). A longer token is compared by its digest; `position` has
/// it in full.
const MAX_TOKEN: usize = 1_024;

/// The values of one row, in the types of the columns.
pub(super) struct Ledger<'a> {
    run: RunId,
    task: TaskId,
    lineage: TaskLineage,
    expr_hash: &'a str,
    batch_no: i64,
    here: LedgerPosition,
    next: Option<LedgerPosition>,
    page_size: i64,
    before_token: Option<Cow<'a, str>>,
    status: &'static str,
    has_next: i32,
    counts: Counts,
    stats: Json<String>,
    request_digest: Json<&'a str>,
    response_digest: Json<&'a str>,
    error: Option<Json<String>>,
    idempotent_key: &'a str,
    now: Time,
}

impl<'a> Ledger<'a> {
    pub(super) fn of_page(op: &'a CommitBatch, stats: &BatchStats, now: Time) -> Result<Ledger<'a>, Fail> {
        Ok(Ledger {
            run: op.run,
            task: op.lease.task,
            lineage: op.lineage,
            expr_hash: &op.expr_hash,
            batch_no: i64::from(op.batch_no),
            here: LedgerPosition::of(&op.position)?,
            next: op.next.as_ref().map(LedgerPosition::of).transpose()?,
            page_size: i64::from(op.page_size),
            before_token: op.before_token.as_deref().map(indexable),
            status: "SUCCEEDED",
            has_next: i32::from(op.next.is_some()),
            counts: Counts::of(stats),
            stats: Json::of(stats)?,
            request_digest: Json(&op.request_digest),
            response_digest: Json(&op.response_digest),
            error: None,
            idempotent_key: &op.idempotent_key,
            now,
        })
    }

    /// Without a token: the page may be requested again under another number.
    pub(super) fn of_failure(op: &EndRun, failure: &'a BatchFailure, now: Time) -> Result<Ledger<'a>, Fail> {
        Ok(Ledger {
            run: op.run,
            task: op.lease.task,
            lineage: op.lineage,
            expr_hash: &failure.expr_hash,
            batch_no: i64::from(failure.batch_no),
            here: LedgerPosition::of(&failure.position)?,
            next: None,
            page_size: i64::from(failure.page_size),
            before_token: None,
            status: "FAILED",
            has_next: 0,
            counts: Counts::of(&failure.stats),
            stats: Json::of(&failure.stats)?,
            request_digest: Json(&failure.request_digest),
            response_digest: Json(&failure.response_digest),
            error: Some(Json::of(&failure.error)?),
            idempotent_key: &failure.idempotent_key,
            now,
        })
    }

    /// The values in the order of the statements.
    pub(super) fn row(&self) -> [Value<'_>; 32] {
        const NO_POSITION: &LedgerPosition = &LedgerPosition { json: None, number: None, token: None, url: None };
        let (next, counts) = (self.next.as_ref().unwrap_or(NO_POSITION), &self.counts);
        [
            &self.run.0,
            &self.task.0,
            &self.lineage.slice.0,
            &self.lineage.plan.0,
            &self.lineage.job.0,
            &self.expr_hash,
            &self.batch_no,
            &self.here.json,
            &next.json,
            &self.here.number,
            &self.page_size,
            &self.before_token,
            &next.token,
            &self.here.url,
            &next.url,
            &self.status,
            &self.has_next,
            &counts.latency_ms,
            &counts.inserted,
            &counts.updated,
            &counts.skipped,
            &counts.failed,
            &counts.retries,
            &counts.throttled,
            &self.stats,
            &self.request_digest,
            &self.response_digest,
            &self.error,
            &self.idempotent_key,
            &self.now,
            &counts.out_of_window,
            &counts.filtered,
        ]
    }
}

/// A position in full, and in readable form.
struct LedgerPosition {
    json: Option<Json<String>>,
    number: Option<i64>,
    token: Option<String>,
    url: Option<String>,
}

impl LedgerPosition {
    fn of(position: &Position) -> Result<LedgerPosition, Fail> {
        Ok(LedgerPosition {
            json: Some(Json::of(position)?),
            number: position.number().and_then(|number| i64::try_from(number).ok()),
            token: position.token_key(),
            url: match position {
                Position::Url(url) => url.clone(),
                Position::Offset(_)
                | Position::Page(_)
                | Position::Token(_)
                | Position::Time
                | Position::Ids { .. }
                | Position::Keys { .. } => None,
            },
        })
    }
}

/// Statistics with columns of their own, to be summed without reading JSON.
struct Counts {
    latency_ms: i64,
    inserted: i64,
    updated: i64,
    skipped: i64,
    out_of_window: i64,
    filtered: i64,
    failed: i64,
    retries: i64,
    throttled: i64,
}

impl Counts {
    fn of(stats: &BatchStats) -> Counts {
        Counts {
            latency_ms: stats.latency_ms.into(),
            inserted: stats.inserted.into(),
            updated: stats.updated.into(),
            skipped: stats.skipped.into(),
            out_of_window: stats.skipped_by.out_of_window.into(),
            filtered: stats.skipped_by.filtered.into(),
            failed: stats.failed.into(),
            retries: stats.retry_count.into(),
            throttled: stats.throttled_count.into(),
        }
    }
}

fn indexable(token: &str) -> Cow<'_, str> {
    if token.len() <= MAX_TOKEN {
        return Cow::Borrowed(token);
    }
    Cow::Owned(format!("sha256:{}", sha256_hex(token.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_token_is_compared_by_its_digest() {
        assert_eq!(indexable("abc"), "abc");
        let (a, b) = ("a".repeat(5_000), "b".repeat(5_000));
        assert!(indexable(&a).len() < 100);
        assert_ne!(indexable(&a), indexable(&b));
    }
}

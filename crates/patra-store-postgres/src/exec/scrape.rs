//! A job that polls many sources: all of them, or none.

use std::collections::{BTreeMap, HashMap, HashSet};

use patra_core::state::TriggerType;
use patra_core::tx::{NewPoll, OpenPoll, QueuePolls, ScrapeConflict, ScrapeJob, TxError};
use patra_core::{SourceId, TaskId};
use tokio_postgres::Row;

use super::cancel::{self, CancelTargets};
use super::source::ScheduledSource;
use super::trigger::FIND;
use crate::error::Fail;
use crate::json::Json;
use crate::pool::Session;
use crate::time::Time;

const TASKS: &str = "
SELECT t.source_id, t.id
FROM ing_schedule_instance i JOIN ing_task t ON t.schedule_instance_id = i.id
WHERE i.parent_id = $1 AND t.source_id IS NOT NULL";

/// Queued polls with the kind of their job. A locked one is being claimed or cancelled: it is in progress.
const LOCK_WAITING: &str = "
SELECT t.id, i.id, t.plan_id, t.source_id, t.lease_count > 0, root.trigger_type_code
FROM ing_task t
JOIN ing_schedule_instance i ON i.id = t.schedule_instance_id
LEFT JOIN ing_schedule_instance root ON root.id = i.root_id
WHERE t.source_id = ANY ($1::bigint[]) AND t.status_code = 'QUEUED'
ORDER BY t.id
FOR UPDATE OF t, i SKIP LOCKED";

/// All other open polls, with their jobs.
const OTHERS: &str = "
SELECT t.source_id, coalesce(root.public_id, i.public_id), t.status_code = 'QUEUED', t.lease_count > 0,
  root.trigger_type_code
FROM ing_task t
JOIN ing_schedule_instance i ON i.id = t.schedule_instance_id
LEFT JOIN ing_schedule_instance root ON root.id = i.root_id
WHERE t.source_id = ANY ($1::bigint[]) AND t.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')
  AND t.id <> ALL ($2::bigint[])";

const INSERT: &str = "
INSERT INTO ing_schedule_instance (public_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code,
  project_key, job_type, provenance_code, endpoint_name, operation_code, priority, params, overrides, status_code,
  not_before, request_id, created_at)
VALUES ($1, 'scrape', $1, $1, $9, $2, $3, $4, $5, 'HARVEST', 0, $6, '{}', 'PLANNED', $8, $7, $8)
ON CONFLICT (public_id) DO NOTHING
RETURNING id";

/// A replaced poll leaves its job, which goes on without it.
const DETACH: &str = "
UPDATE ing_schedule_instance SET parent_id = NULL, root_id = NULL WHERE id = ANY ($1::bigint[])";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[TASKS, LOCK_WAITING, OTHERS, INSERT, DETACH];

/// Result of starting a job.
pub(super) enum ScrapeStart {
    /// Started. The polls are children of this trigger, and replace those of these sources.
    Started(i64, Vec<i64>),
    /// The job existed already, with these tasks.
    Existing(Vec<Option<TaskId>>),
    Busy(ScrapeConflict),
}

/// Runs in the caller's transaction, which has locked the sources.
pub(super) async fn begin(
    session: &Session,
    op: &QueuePolls,
    job: &ScrapeJob,
    kept: &HashMap<i64, ScheduledSource>,
    now: Time,
) -> Result<ScrapeStart, Fail> {
    let [find, lock, others, insert, detach] = session.prepare([FIND, LOCK_WAITING, OTHERS, INSERT, DETACH]).await?;
    if let Some(known) = session.opt(&find, &[&job.public_id]).await? {
        return Ok(ScrapeStart::Existing(tasks(session, op, known.try_get(0)?).await?));
    }
    let ids: Vec<_> = op.polls.iter().map(|poll| poll.source.0).collect();
    let (mut waiting, mut replaced) = (Vec::<i64>::new(), CancelTargets::default());
    let mut sources = Vec::new();
    for row in session.rows(&lock, &[&ids]).await? {
        if job.replaces(OpenPoll { queued: true, began: row.try_get(4)?, job: kind(&row, 5)? }) {
            waiting.push(row.try_get(0)?);
            replaced.triggers.push(row.try_get(1)?);
            replaced.plans.push(row.try_get(2)?);
            sources.push(row.try_get(3)?);
        }
    }
    let (mut at_it, mut left_out) = (BTreeMap::<i64, String>::new(), BTreeMap::new());
    for row in session.rows(&others, &[&ids, &waiting]).await? {
        let open = OpenPoll { queued: row.try_get(2)?, began: row.try_get(3)?, job: kind(&row, 4)? };
        let by = if job.leaves_out(open) { &mut left_out } else { &mut at_it };
        by.insert(row.try_get(0)?, row.try_get(1)?);
    }
    if left_out.len() == op.polls.len() {
        at_it.append(&mut left_out);
    }
    if let Some(busy) = conflict(job, &op.polls, kept, &at_it, left_out.len()) {
        return Ok(ScrapeStart::Busy(busy));
    }
    if !waiting.is_empty() {
        cancel::end(session, &job.cancel_replaced(String::new()), &replaced, now).await?;
        session.write(&detach, &[&replaced.triggers]).await?;
    }
    let ScrapeJob {
        public_id,
        project_key,
        job_type,
        trigger_type,
        provenance_code,
        endpoint_name,
        params,
        request_id,
    } = job;
    let (params, trigger_type) = (Json(params.as_str()), trigger_type.as_str());
    let made = session
        .opt(
            &insert,
            &[
                public_id,
                project_key,
                job_type,
                provenance_code,
                endpoint_name,
                &params,
                request_id,
                &now,
                &trigger_type,
            ],
        )
        .await?;
    // Another job was just created under this name. The repeated operation finds it.
    Ok(ScrapeStart::Started(made.ok_or(TxError::Busy)?.try_get(0)?, sources))
}

fn kind(row: &Row, at: usize) -> Result<Option<TriggerType>, Fail> {
    Ok(row.try_get::<_, Option<&str>>(at)?.map(str::parse).transpose()?)
}

async fn tasks(session: &Session, op: &QueuePolls, job: i64) -> Result<Vec<Option<TaskId>>, Fail> {
    let [tasks] = session.prepare([TASKS]).await?;
    let mut found = HashMap::<i64, TaskId>::new();
    for row in session.rows(&tasks, &[&job]).await? {
        found.insert(row.try_get(0)?, TaskId(row.try_get(1)?));
    }
    Ok(op.polls.iter().map(|poll| found.get(&poll.source.0).copied()).collect())
}

fn conflict(
    job: &ScrapeJob,
    polls: &[NewPoll],
    kept: &HashMap<i64, ScheduledSource>,
    at_it: &BTreeMap<i64, String>,
    left_out: usize,
) -> Option<ScrapeConflict> {
    if let Some(public_id) = at_it.values().next() {
        let sources = at_it.iter().filter(|(_, by)| *by == public_id).map(|(id, _)| SourceId(*id));
        return Some(ScrapeConflict { public_id: public_id.clone(), sources: sources.collect() });
    }
    let as_seen = |poll: &&NewPoll| kept.get(&poll.source.0).is_some_and(|kept| kept.poll_count == poll.poll_count);
    let changed: HashSet<_> = polls.iter().filter(|poll| !as_seen(poll)).map(|poll| poll.source).collect();
    if job.trigger_type == TriggerType::Schedule && changed.len() + left_out < polls.len() {
        return None;
    }
    let mut sources: Vec<_> = changed.into_iter().collect();
    sources.sort_unstable();
    (!sources.is_empty()).then(|| ScrapeConflict { public_id: String::new(), sources })
}

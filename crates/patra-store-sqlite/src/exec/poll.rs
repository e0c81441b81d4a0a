//! Polls: queueing them, claiming them by host, the source data of a run, and the effect of their end on the source.

use std::collections::HashMap;

use patra_core::source::{FETCH_NOW_PRIORITY, PollOutcome, URGENT_PRIORITIES, Validators};
use patra_core::state::TaskStatus;
use patra_core::tx::{
    ClaimPolls, ClaimedTasks, EndRun, HurryPoll, NewPoll, PollEnd, PollHurried, PollsQueued, QueuePolls, UnfitPoll,
    job_type,
};
use patra_core::{JobId, PlanId, SliceId, SourceId, TaskId, Ts, hash};
use rusqlite::{Connection, OptionalExtension as _, Rows, params};

use super::pause::{StoppingPauses, TaskAttributes, TaskIds};
use super::scope::scope_id;
use super::scrape::ScrapeStart;
use super::{claim, fetched, plan, scrape, source};
use crate::error::Result;
use crate::sql::word;

// Nothing polls the source now, and nothing has since it was read.
const NEXT_POLL: &str = "
UPDATE source
SET poll_count = poll_count + 1,
    next_due_at = iif(next_due_at IS NULL, NULL, ?3)
WHERE id = ?1 AND is_deleted = 0 AND poll_count = ?2
  AND NOT EXISTS (SELECT 1 FROM ing_task WHERE source_id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING'))
RETURNING project_key";

const INSERT_TRIGGER: &str = "
INSERT INTO ing_schedule_instance
  (public_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code, project_key, provenance_code,
   endpoint_name, operation_code, priority, params, overrides, expr_proto_hash, status_code, not_before, created_at,
   job_type, parent_id, root_id)
VALUES (?1, 'collector', ?2, ?1, ?3, ?4, ?5, ?6, 'HARVEST', ?7, '{}', '{}', ?8, 'PLANNED', ?9, ?9, ?10, ?11, ?11)
RETURNING id";

// A poll moves no cursor: its cursor number is that of none.
const INSERT_PLAN: &str = "
INSERT INTO ing_plan
  (schedule_instance_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code, plan_strategy,
   expr_proto_hash, spec_fingerprint, status_code, created_at)
VALUES (?1, 0, ?2, ?3, ?4, 'HARVEST', 'SINGLE', ?5, ?5, 'READY', ?6)
RETURNING id";

const INSERT_SLICE: &str = "
INSERT INTO ing_plan_slice
  (plan_id, provenance_code, endpoint_name, slice_spec, slice_signature_hash, expr_hash, expr_snapshot, status_code,
   created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, '{}', 'READY', ?6)
RETURNING id";

const INSERT_TASK: &str = "
INSERT INTO ing_task
  (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code,
   params, expr_hash, idempotent_key, status_code, priority, scheduled_at, created_at, credential_id, c_max, source_id,
   host)
VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, 'HARVEST', ?7, ?8, ?9, 'QUEUED', ?10, ?11, ?12, ?13, 0, ?14, ?15)
RETURNING id";

// Repeats the condition of the index of polled sources, so that it can be used.
const HURRY: &str = "
UPDATE ing_task INDEXED BY uk_task_polled SET scheduled_at = min(scheduled_at, ?2), priority = min(priority, ?3)
WHERE source_id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING') AND +status_code = 'QUEUED'";

const IN_PROGRESS: &str = "
SELECT id FROM ing_task WHERE source_id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')";

const COUNT_HOSTS: &str = "
SELECT host, count(*) FROM ing_task INDEXED BY idx_task_queue
WHERE status_code IN ('DISPATCHED', 'EXECUTING') AND source_id IS NOT NULL
GROUP BY host";

// Read row by row until enough of them are free.
pub(crate) const NEXT: &str = "
SELECT id, host, provenance_code, endpoint_name, operation_code, credential_id, plan_id, slice_id
FROM ing_task
WHERE status_code = 'QUEUED' AND source_id IS NOT NULL AND scheduled_at <= ?1 AND +priority >= 100
ORDER BY scheduled_at, id";

// Polls of one of the urgent priorities, read in the same way.
pub(crate) const NEXT_URGENT: &str = "
SELECT id, host, provenance_code, endpoint_name, operation_code, credential_id, plan_id, slice_id
FROM ing_task INDEXED BY idx_task_poll_urgent
WHERE status_code = 'QUEUED' AND source_id IS NOT NULL AND priority < 100 AND priority = ?2 AND scheduled_at <= ?1
ORDER BY scheduled_at, id";

const READ_KNOWN: &str = "SELECT validators FROM source WHERE id = ?1";

const WRITE_KNOWN: &str = "UPDATE source SET validators = ?2 WHERE id = ?1";

const MOVE: &str = "
UPDATE source
SET config = json_set(config, '$.url', ?2), source_key = type || ' ' || ?2
WHERE id = ?1 AND json_type(config, '$.url') = 'text' AND NOT EXISTS (
  SELECT 1 FROM source other
  WHERE other.project_key = source.project_key AND other.source_key = source.type || ' ' || ?2 AND other.is_deleted = 0)";

const LINK: &str = concat!(
    "
INSERT INTO item_source (source_id, item_id, project_key, kind, fetched_at)
SELECT ?1, id, project_key, kind, ?6 FROM item
WHERE emptied_at IS NULL AND scope_id = ",
    scope_id!("?2", "?3", "?4"),
    " AND dedup_key = ?5
ON CONFLICT (source_id, item_id) DO NOTHING"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    NEXT_POLL,
    INSERT_TRIGGER,
    INSERT_PLAN,
    INSERT_SLICE,
    INSERT_TASK,
    HURRY,
    IN_PROGRESS,
    COUNT_HOSTS,
    NEXT,
    NEXT_URGENT,
    READ_KNOWN,
    WRITE_KNOWN,
    MOVE,
    LINK,
];

pub(super) fn queue(db: &Connection, op: &QueuePolls, now: Ts) -> Result<PollsQueued> {
    let job = match &op.job {
        None => None,
        Some(job) => match scrape::begin(db, job, &op.polls, now)? {
            ScrapeStart::Started(instance) => Some(instance),
            ScrapeStart::Existing(tasks) => return Ok(PollsQueued { tasks, busy: None, now }),
            ScrapeStart::Busy(busy) => {
                return Ok(PollsQueued { tasks: vec![None; op.polls.len()], busy: Some(busy), now });
            }
        },
    };
    for (hash, body) in &op.snapshots {
        db.prepare_cached(plan::INSERT_SNAPSHOT)?.execute(params![hash, body, now.micros()])?;
    }
    let tasks = op.polls.iter().map(|poll| queue_one(db, poll, job, now)).collect::<Result<_>>()?;
    op.unfit.iter().try_for_each(|poll| fail_one(db, poll, now))?;
    Ok(PollsQueued { tasks, busy: None, now })
}

fn fail_one(db: &Connection, poll: &UnfitPoll, now: Ts) -> Result<()> {
    let id = poll.source.0;
    let Some(mut kept) = source::read(db, id)? else { return Ok(()) };
    if db.prepare_cached(NEXT_POLL)?.exists(params![id, poll.poll_count, now.micros()])? {
        let outcome = PollOutcome::Failed { reason: &poll.reason, counted: true, gone: false };
        kept.state.after(id, &outcome, kept.interval, now);
        source::write(db, id, &kept, now)?;
    }
    Ok(())
}

fn queue_one(db: &Connection, poll: &NewPoll, job: Option<JobId>, now: Ts) -> Result<Option<TaskId>> {
    let id = poll.source.0;
    let Some(kept) = source::read(db, id)? else { return Ok(None) };
    let provisional = (now + kept.interval).micros();
    let project: Option<String> = db
        .prepare_cached(NEXT_POLL)?
        .query_row(params![id, poll.poll_count, provisional], |row| row.get(0))
        .optional()?;
    let Some(project) = project else { return Ok(None) };
    let public_id = format!("source-{id}-{}", poll.poll_count);
    let (code, endpoint, at) = (&poll.provenance_code, &poll.endpoint_name, now.micros());
    let trigger: i64 = db.prepare_cached(INSERT_TRIGGER)?.query_row(
        params![
            public_id,
            format!("source-{id}"),
            poll.trigger_type.as_str(),
            project,
            code,
            endpoint,
            poll.priority,
            poll.snapshot_hash,
            at,
            job_type(code, endpoint),
            job.map(|job| job.0),
        ],
        |row| row.get(0),
    )?;
    let plan: i64 = db
        .prepare_cached(INSERT_PLAN)?
        .query_row(params![trigger, project, code, endpoint, poll.snapshot_hash, at], |row| row.get(0))?;
    let spec = poll.slice_spec();
    let slice: i64 = db
        .prepare_cached(INSERT_SLICE)?
        .query_row(params![plan, code, endpoint, spec, poll.expr_hash, at], |row| row.get(0))?;
    let task = db.prepare_cached(INSERT_TASK)?.query_row(
        params![
            trigger,
            plan,
            slice,
            project,
            code,
            endpoint,
            poll.params,
            poll.expr_hash,
            hash::digest(&["poll", &public_id]),
            poll.priority,
            poll.at.micros().max(at),
            at,
            poll.credential.map(|id| id.0),
            id,
            poll.host,
        ],
        |row| row.get(0),
    )?;
    Ok(Some(TaskId(task)))
}

pub(super) fn hurry(db: &Connection, op: HurryPoll, now: Ts) -> Result<PollHurried> {
    db.prepare_cached(HURRY)?.execute([op.source.0, now.micros(), i64::from(FETCH_NOW_PRIORITY)])?;
    let task: Option<i64> = db.prepare_cached(IN_PROGRESS)?.query_row([op.source.0], |row| row.get(0)).optional()?;
    Ok(PollHurried { task: task.map(TaskId) })
}

pub(super) fn claim(db: &Connection, op: &ClaimPolls, now: Ts) -> Result<ClaimedTasks> {
    let mut leases = Vec::new();
    for task in pick(db, op, now)? {
        leases.extend(claim::lease(db, task, &op.owner, now + op.lease)?);
    }
    Ok(ClaimedTasks { leases, now })
}

fn pick(db: &Connection, op: &ClaimPolls, now: Ts) -> Result<Vec<i64>> {
    let mut hosts: HashMap<String, u32> = db
        .prepare_cached(COUNT_HOSTS)?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let stopping = StoppingPauses::read(db)?;
    let mut picked = Vec::new();
    for priority in URGENT_PRIORITIES {
        let mut statement = db.prepare_cached(NEXT_URGENT)?;
        let rows = statement.query([now.micros(), i64::from(priority)])?;
        pick_from(rows, op, &stopping, &mut hosts, &mut picked)?;
    }
    let mut statement = db.prepare_cached(NEXT)?;
    pick_from(statement.query([now.micros()])?, op, &stopping, &mut hosts, &mut picked)?;
    Ok(picked)
}

/// Adds the polls of hosts with room, until there are enough.
fn pick_from(
    mut rows: Rows<'_>,
    op: &ClaimPolls,
    stopping: &StoppingPauses,
    hosts: &mut HashMap<String, u32>,
    picked: &mut Vec<i64>,
) -> Result<()> {
    while picked.len() < op.limit as usize
        && let Some(row) = rows.next()?
    {
        let (task, host): (i64, String) = (row.get(0)?, row.get(1)?);
        let (provenance_code, endpoint_name): (String, String) = (row.get(2)?, row.get(3)?);
        let common = TaskAttributes {
            provenance_code: &provenance_code,
            endpoint_name: &endpoint_name,
            operation: word(row, 4)?,
            credential: row.get::<_, Option<i64>>(5)?.map(patra_core::CredentialId),
        };
        let own = TaskIds { task: TaskId(task), plan: PlanId(row.get(6)?), slice: SliceId(row.get(7)?) };
        let busy = hosts.entry(host).or_default();
        if *busy < op.per_host && !stopping.stops(&common, &own) {
            *busy += 1;
            picked.push(task);
        }
    }
    Ok(())
}

/// Reads the validators of the source.
pub(super) fn known(db: &Connection, source: SourceId) -> Result<Option<Box<Validators>>> {
    let text: Option<Option<String>> =
        db.prepare_cached(READ_KNOWN)?.query_row([source.0], |row| row.get(0)).optional()?;
    // Unreadable validators cost one full response, no more.
    Ok(text.flatten().and_then(|text| serde_json::from_str(&text).ok()))
}

/// Applies the new state of a poll's task to its source.
pub(super) fn end(db: &Connection, op: &EndRun, poll: &PollEnd, status: TaskStatus, now: Ts) -> Result<()> {
    let id = poll.source.0;
    let reason = op.end.error().map(|fault| fault.message.as_str()).unwrap_or_default();
    let outcome = match status {
        TaskStatus::Succeeded | TaskStatus::Partial => {
            PollOutcome::Fetched { news: op.stats.inserted + op.stats.updated > 0, flaw: poll.flaw.as_deref() }
        }
        TaskStatus::Failed => PollOutcome::Failed { reason, counted: !poll.offline, gone: poll.gone },
        _ => return Ok(()),
    };
    let Some(mut kept) = source::read(db, id)? else { return Ok(()) };
    kept.state.after(id, &outcome, kept.interval, now);
    source::write(db, id, &kept, now)?;
    if let Some(validators) = &poll.validators {
        let validators = serde_json::to_string(validators)?;
        db.prepare_cached(WRITE_KNOWN)?.execute(params![id, validators])?;
    }
    if let (PollOutcome::Fetched { .. }, Some(url)) = (&outcome, &poll.moved_to) {
        db.prepare_cached(MOVE)?.execute(params![id, url])?;
    }
    match outcome {
        PollOutcome::Fetched { .. } => fetched::record(db, op, poll, now),
        PollOutcome::Failed { .. } => Ok(()),
    }
}

/// Links the records of a page, stored now or before, to the source.
pub(super) fn link(
    db: &Connection,
    source: SourceId,
    stream: &patra_core::record::RecordStream,
    records: &[patra_core::record::Record],
    now: Ts,
) -> Result<()> {
    let mut statement = db.prepare_cached(LINK)?;
    for record in records {
        let (project, code, scope) = (&stream.project_key, &stream.provenance_code, &stream.dedup_scope);
        statement.execute(params![source.0, project, code, scope, record.key, now.micros()])?;
    }
    Ok(())
}

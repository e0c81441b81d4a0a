//! Polls: queueing them, claiming them by host, the items of a page, and the effect of their end on the source.
//!
//! The limits per host hold over all processes because a claim holds one advisory lock until it has committed, and
//! counts the polls in progress in a statement that starts after it got the lock.

use std::collections::{HashMap, HashSet};

use patra_core::source::{FETCH_NOW_PRIORITY, PollOutcome, URGENT_PRIORITIES};
use patra_core::state::TaskStatus;
use patra_core::tx::{
    ClaimPolls, ClaimedTasks, CommitBatch, EndRun, HurryPoll, NewPoll, PollHurried, PollsQueued, QueuePolls, job_type,
};
use patra_core::{TaskId, Ts, hash};
use tokio_postgres::Statement;

use super::claim::{lease_columns, read_lease};
use super::pause::covers_task;
use super::scope::scope_id;
use super::scrape::{self, ScrapeStart};
use super::source::{self, ScheduledSource, provisional};
use super::{NOW, fetched, micros, moment};
use crate::error::{Fail, refused};
use crate::json::Json;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// Stores snapshots in one order, like everywhere.
const STORE_SNAPSHOTS: &str = "
INSERT INTO ing_snapshot (hash, body, created_at)
SELECT n.hash, n.body, $3 FROM unnest($1::text[], $2::text[]) AS n (hash, body)
ORDER BY n.hash
ON CONFLICT (hash) DO NOTHING";

/// A separate statement, so that it sees polls that were queued while the first one waited for the sources.
const IN_PROGRESS: &str = "
SELECT source_id FROM ing_task
WHERE source_id = ANY ($1::bigint[]) AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')";

/// Inserts all rows of a poll. A poll moves no cursor: its cursor number is that of none.
const QUEUE: &str = "
WITH given AS MATERIALIZED (
  SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
      $8::text[], $9::bigint[], $10::jsonb[], $11::jsonb[], $12::text[], $13::text[], $14::timestamptz[],
      $15::integer[], $16::timestamptz[], $18::text[])
    WITH ORDINALITY AS given (source_id, project_key, public_id, trigger_type_code, provenance_code, endpoint_name, host,
      snapshot_hash, credential_id, slice_spec, params, expr_hash, idempotent_key, scheduled_at, priority, next_due_at,
      job_type, place)
),
polled AS (
  UPDATE source s SET poll_count = s.poll_count + 1, next_due_at = given.next_due_at
  FROM given WHERE s.id = given.source_id
),
triggers AS (
  INSERT INTO ing_schedule_instance (public_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code,
    project_key, provenance_code, endpoint_name, operation_code, priority, params, overrides, expr_proto_hash,
    status_code, not_before, created_at, job_type, parent_id, root_id)
  SELECT public_id, 'collector', 'source-' || source_id, public_id, trigger_type_code, project_key, provenance_code,
    endpoint_name, 'HARVEST', priority, '{}', '{}', snapshot_hash, 'PLANNED', $17, $17, job_type, $19, $19
  FROM given ORDER BY place
  RETURNING id, public_id
),
plans AS (
  INSERT INTO ing_plan (schedule_instance_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code,
    plan_strategy, expr_proto_hash, spec_fingerprint, status_code, created_at)
  SELECT triggers.id, 0, project_key, provenance_code, endpoint_name, 'HARVEST', 'SINGLE', snapshot_hash, snapshot_hash,
    'READY', $17
  FROM given JOIN triggers USING (public_id) ORDER BY place
  RETURNING id, schedule_instance_id
),
slices AS (
  INSERT INTO ing_plan_slice (plan_id, provenance_code, endpoint_name, slice_spec, slice_signature_hash, expr_hash,
    expr_snapshot, status_code, created_at)
  SELECT plans.id, provenance_code, endpoint_name, slice_spec, expr_hash, expr_hash, '{}', 'READY', $17
  FROM given JOIN triggers USING (public_id) JOIN plans ON plans.schedule_instance_id = triggers.id ORDER BY place
  RETURNING id, plan_id
),
tasks AS (
  INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name,
    operation_code, params, expr_hash, idempotent_key, status_code, priority, scheduled_at, created_at, credential_id,
    c_max, source_id, host)
  SELECT triggers.id, plans.id, slices.id, 0, project_key, provenance_code, endpoint_name, 'HARVEST', params, expr_hash,
    idempotent_key, 'QUEUED', priority, greatest(scheduled_at, $17), $17, credential_id, 0, source_id, host
  FROM given JOIN triggers USING (public_id) JOIN plans ON plans.schedule_instance_id = triggers.id
  JOIN slices ON slices.plan_id = plans.id
  ORDER BY place
  RETURNING id, source_id
)
SELECT id, source_id FROM tasks";

const HURRY: &str = "
WITH hurried AS (
  UPDATE ing_task SET scheduled_at = least(scheduled_at, clock_timestamp()), priority = least(priority, $2)
  WHERE source_id = $1 AND status_code = 'QUEUED'
)
SELECT id FROM ing_task WHERE source_id = $1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')";

const LOCK_POLLS: &str = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' polls', 0))";

const COUNT_HOSTS: &str = "
SELECT host, count(*) FROM ing_task
WHERE status_code IN ('DISPATCHED', 'EXECUTING') AND source_id IS NOT NULL
GROUP BY host";

/// Next polls after a position in the queue, without paused ones and without full hosts.
pub(crate) const NEXT: &str = concat!(
    "
SELECT t.id, t.scheduled_at, t.host
FROM ing_task t
WHERE t.status_code = 'QUEUED' AND t.source_id IS NOT NULL AND t.scheduled_at <= $1
  AND t.priority >= 100 AND (t.scheduled_at, t.id) > ($2, $3) AND t.host <> ALL ($4::text[])
  AND NOT EXISTS (
    SELECT 1 FROM ing_hold h
    WHERE h.kind_code IN ('PAUSE', 'BREAK') AND h.released_at IS NULL AND ",
    covers_task!("h", "t"),
    ")
ORDER BY t.scheduled_at, t.id
LIMIT $5"
);

/// Next polls of one of the urgent priorities, after a position in their queue.
pub(crate) const NEXT_URGENT: &str = concat!(
    "
SELECT t.id, t.scheduled_at, t.host
FROM ing_task t
WHERE t.status_code = 'QUEUED' AND t.source_id IS NOT NULL AND t.priority < 100 AND t.priority = $6
  AND t.scheduled_at <= $1 AND (t.scheduled_at, t.id) > ($2, $3) AND t.host <> ALL ($4::text[])
  AND NOT EXISTS (
    SELECT 1 FROM ing_hold h
    WHERE h.kind_code IN ('PAUSE', 'BREAK') AND h.released_at IS NULL AND ",
    covers_task!("h", "t"),
    ")
ORDER BY t.scheduled_at, t.id
LIMIT $5"
);

/// A locked poll is being cancelled.
const LEASE: &str = concat!(
    "
WITH locked AS (
  SELECT id FROM ing_task WHERE id = ANY ($1::bigint[]) AND status_code = 'QUEUED' FOR UPDATE SKIP LOCKED
),
claimed AS (
  UPDATE ing_task
  SET status_code = 'DISPATCHED', lease_owner = $2, leased_until = $3::timestamptz + $4::bigint * interval '1 microsecond',
    lease_epoch = lease_epoch + 1, lease_count = lease_count + 1, attempt_count = attempt_count + 1
  WHERE id = ANY (ARRAY(SELECT id FROM locked))
  RETURNING *
)
SELECT $3, ",
    lease_columns!(),
    "
FROM unnest($1) WITH ORDINALITY AS picked (id, place) JOIN claimed c ON c.id = picked.id
ORDER BY picked.place"
);

/// Locks the keys of the source's project, see [`source::LOCK_KEYS`].
const LOCK_OWN_KEYS: &str = "
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' source keys ' || project_key, 0))
FROM source WHERE id = $1";

const COUNT_POLL: &str = "UPDATE source SET poll_count = poll_count + 1 WHERE id = ANY ($1::bigint[])";

const WRITE_KNOWN: &str = "UPDATE source SET validators = $2 WHERE id = $1";

const MOVE: &str = "
UPDATE source
SET config = jsonb_set(config, '{url}', to_jsonb($2::text)), source_key = type || ' ' || $2
WHERE id = $1 AND jsonb_typeof(config -> 'url') = 'string' AND NOT EXISTS (
  SELECT 1 FROM source other
  WHERE other.project_key = source.project_key AND other.source_key = source.type || ' ' || $2 AND other.is_deleted = 0)";

/// The rows of the records are locked by then: a purge of one waits, or is done.
pub(super) const LINK: &str = concat!(
    "
INSERT INTO item_source (source_id, item_id, project_key, kind, fetched_at)
SELECT $1, id, project_key, kind, $6 FROM item
WHERE emptied_at IS NULL AND scope_id = ",
    scope_id!("$2", "$3", "$4"),
    " AND dedup_key = ANY ($5::text[])
ON CONFLICT (source_id, item_id) DO NOTHING"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    STORE_SNAPSHOTS,
    IN_PROGRESS,
    QUEUE,
    HURRY,
    LOCK_POLLS,
    COUNT_HOSTS,
    NEXT,
    NEXT_URGENT,
    LEASE,
    LOCK_OWN_KEYS,
    COUNT_POLL,
    WRITE_KNOWN,
    MOVE,
    LINK,
];

pub(super) async fn queue(session: &Session, op: &QueuePolls) -> Result<PollsQueued, Fail> {
    let [lock, read, in_progress, now, snapshots, queue] =
        session.prepare([source::LOCK, source::READ, IN_PROGRESS, NOW, STORE_SNAPSHOTS, QUEUE]).await?;
    let unfit = op.unfit.iter().map(|poll| poll.source.0);
    let ids: Vec<_> = op.polls.iter().map(|poll| poll.source.0).chain(unfit).collect();
    let ((), _, kept, busy, now) = pipeline!(
        session.begin(),
        session.rows(&lock, &[&ids]),
        session.rows(&read, &[&ids]),
        session.rows(&in_progress, &[&ids]),
        moment(session, &now),
    )?;
    let kept = kept.iter().map(|row| ScheduledSource::of(row).map(|kept| (kept.id, kept)));
    let mut kept = kept.collect::<Result<HashMap<_, _>, _>>()?;
    let mut busy = busy.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<i64>, _>>()?;
    let mut columns = Columns::default();
    if let Some(job) = &op.job {
        let (tasks, by) = match scrape::begin(session, op, job, &kept, now).await? {
            ScrapeStart::Started(trigger, replaced) => {
                columns.job = Some(trigger);
                busy.retain(|id| !replaced.contains(id));
                (None, None)
            }
            ScrapeStart::Existing(tasks) => (Some(tasks), None),
            ScrapeStart::Busy(by) => (Some(vec![None; op.polls.len()]), Some(by)),
        };
        if let Some(tasks) = tasks {
            session.commit().await?;
            return Ok(PollsQueued { tasks, busy: by, now: now.0 });
        }
    }
    let mut failed = Vec::new();
    for poll in &op.unfit {
        let is_free = |kept: &ScheduledSource| kept.poll_count == poll.poll_count && !busy.contains(&kept.id);
        if let Some(mut kept) = kept.remove(&poll.source.0).filter(is_free) {
            let outcome = PollOutcome::Failed { reason: &poll.reason, counted: true, gone: false };
            kept.state.after(kept.id, &outcome, kept.interval(), now.0);
            failed.push(kept);
        }
    }
    fail(session, &failed, now).await?;
    let mut takes_part = Vec::with_capacity(op.polls.len());
    for poll in &op.polls {
        let kept = kept.get(&poll.source.0).filter(|kept| kept.poll_count == poll.poll_count);
        let kept = kept.filter(|kept| busy.insert(kept.id));
        takes_part.push(kept.is_some());
        if let Some(kept) = kept {
            columns.push(poll, kept, now.0);
        }
    }
    let (hashes, bodies): (Vec<_>, Vec<_>) =
        op.snapshots.iter().map(|(hash, body)| (hash.as_str(), body.as_str())).unzip();
    let (_, made, ()) = pipeline!(
        session.write(&snapshots, &[&hashes, &bodies, &now]),
        columns.insert(session, &queue, now),
        session.commit(),
    )?;
    let task_of = |(poll, takes_part): (&NewPoll, bool)| {
        let task = || made.get(&poll.source.0).copied().ok_or_else(|| refused("a poll has no task"));
        takes_part.then(task).transpose()
    };
    let tasks = op.polls.iter().zip(takes_part).map(task_of).collect::<Result<_, _>>()?;
    Ok(PollsQueued { tasks, busy: None, now: now.0 })
}

/// Records the failure of sources that cannot be polled.
async fn fail(session: &Session, failed: &[ScheduledSource], now: Time) -> Result<(), Fail> {
    if failed.is_empty() {
        return Ok(());
    }
    let [count] = session.prepare([COUNT_POLL]).await?;
    let ids: Vec<_> = failed.iter().map(|kept| kept.id).collect();
    session.write(&count, &[&ids]).await?;
    source::write(session, failed, now).await
}

/// Polls as arrays for `unnest`.
#[derive(Default)]
struct Columns<'a> {
    sources: Vec<i64>,
    projects: Vec<&'a str>,
    public_ids: Vec<String>,
    triggers: Vec<&'a str>,
    provenances: Vec<&'a str>,
    endpoints: Vec<&'a str>,
    hosts: Vec<&'a str>,
    snapshots: Vec<&'a str>,
    credentials: Vec<Option<i64>>,
    specs: Vec<Json<String>>,
    params: Vec<Json<&'a str>>,
    expr_hashes: Vec<&'a str>,
    keys: Vec<String>,
    times: Vec<Time>,
    priorities: Vec<i32>,
    due: Vec<Option<Time>>,
    job_types: Vec<&'a str>,
    /// The trigger of their job.
    job: Option<i64>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, poll: &'a NewPoll, kept: &'a ScheduledSource, now: Ts) {
        let public_id = format!("source-{}-{}", kept.id, poll.poll_count);
        self.sources.push(kept.id);
        self.projects.push(&kept.project_key);
        self.keys.push(hash::digest(&["poll", &public_id]));
        self.public_ids.push(public_id);
        self.triggers.push(poll.trigger_type.as_str());
        self.provenances.push(&poll.provenance_code);
        self.endpoints.push(&poll.endpoint_name);
        self.hosts.push(&poll.host);
        self.snapshots.push(&poll.snapshot_hash);
        self.credentials.push(poll.credential.map(|id| id.0));
        self.specs.push(Json(poll.slice_spec()));
        self.params.push(Json(&poll.params));
        self.expr_hashes.push(&poll.expr_hash);
        self.times.push(Time(poll.at));
        self.priorities.push(poll.priority);
        self.due.push(provisional(kept, now));
        self.job_types.push(job_type(&poll.provenance_code, &poll.endpoint_name));
    }

    /// Inserts the polls and returns the task of each source.
    async fn insert(&self, session: &Session, queue: &Statement, now: Time) -> Result<HashMap<i64, TaskId>, Fail> {
        let made = session
            .rows(
                queue,
                &[
                    &self.sources,
                    &self.projects,
                    &self.public_ids,
                    &self.triggers,
                    &self.provenances,
                    &self.endpoints,
                    &self.hosts,
                    &self.snapshots,
                    &self.credentials,
                    &self.specs,
                    &self.params,
                    &self.expr_hashes,
                    &self.keys,
                    &self.times,
                    &self.priorities,
                    &self.due,
                    &now,
                    &self.job_types,
                    &self.job,
                ],
            )
            .await?;
        made.iter().map(|row| Ok((row.try_get(1)?, TaskId(row.try_get(0)?)))).collect()
    }
}

pub(super) async fn hurry(session: &Session, op: HurryPoll) -> Result<PollHurried, Fail> {
    let [hurry] = session.prepare([HURRY]).await?;
    let rows = session.alone(&hurry, &[&op.source.0, &FETCH_NOW_PRIORITY]).await?;
    let task = rows.first().map(|row| row.try_get(0).map(TaskId)).transpose()?;
    Ok(PollHurried { task })
}

pub(super) async fn claim(session: &Session, op: &ClaimPolls) -> Result<ClaimedTasks, Fail> {
    let [lock, now, hosts, lease] = session.prepare([LOCK_POLLS, NOW, COUNT_HOSTS, LEASE]).await?;
    let ((), _, now, hosts) =
        pipeline!(session.begin(), session.one(&lock, &[]), moment(session, &now), session.rows(&hosts, &[]),)?;
    let hosts = hosts.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    let picked = pick(session, op, hosts.collect::<Result<_, Fail>>()?, now).await?;
    let (rows, ()) =
        pipeline!(session.rows(&lease, &[&picked, &op.owner, &now, &micros(op.lease)]), session.commit(),)?;
    Ok(ClaimedTasks { leases: rows.iter().map(read_lease).collect::<Result<_, _>>()?, now: now.0 })
}

/// Polls read per statement.
const LOOKED_AT: i64 = 500;

/// Returns the first queued polls of hosts with room, in order.
async fn pick(
    session: &Session,
    op: &ClaimPolls,
    mut hosts: HashMap<String, i64>,
    now: Time,
) -> Result<Vec<i64>, Fail> {
    let mut picked = Vec::new();
    for priority in URGENT_PRIORITIES {
        pick_from(session, op, &mut hosts, now, Some(priority), &mut picked).await?;
    }
    pick_from(session, op, &mut hosts, now, None, &mut picked).await?;
    Ok(picked)
}

/// Adds the polls of one priority, or the regular ones, of hosts with room, until there are enough.
async fn pick_from(
    session: &Session,
    op: &ClaimPolls,
    hosts: &mut HashMap<String, i64>,
    now: Time,
    priority: Option<i32>,
    picked: &mut Vec<i64>,
) -> Result<(), Fail> {
    let [next, urgent] = session.prepare([NEXT, NEXT_URGENT]).await?;
    let (per_host, limit) = (i64::from(op.per_host), op.limit as usize);
    let mut after = (Time(Ts::from_secs(0)), 0_i64);
    while picked.len() < limit && per_host > 0 {
        let full: Vec<_> = hosts.iter().filter(|(_, held)| **held >= per_host).map(|(host, _)| host.as_str()).collect();
        let rows = match priority {
            Some(priority) => session.rows(&urgent, &[&now, &after.0, &after.1, &full, &LOOKED_AT, &priority]).await?,
            None => session.rows(&next, &[&now, &after.0, &after.1, &full, &LOOKED_AT]).await?,
        };
        for row in &rows {
            after = (row.try_get(1)?, row.try_get(0)?);
            let held = hosts.entry(row.try_get(2)?).or_default();
            if *held < per_host && picked.len() < limit {
                *held += 1;
                picked.push(after.1);
            }
        }
        if (rows.len() as i64) < LOOKED_AT {
            break;
        }
    }
    Ok(())
}

/// Links the records of a page, stored now or before, to the source. Uses [`LINK`] in the caller's transaction.
pub(super) async fn link(session: &Session, link: &Statement, op: &CommitBatch, now: Time) -> Result<(), Fail> {
    let Some(source) = op.source.filter(|_| !op.records.is_empty()) else { return Ok(()) };
    let stream = &op.stream;
    let keys: Vec<_> = op.records.iter().map(|record| record.key.as_str()).collect();
    session
        .write(link, &[&source.0, &stream.project_key, &stream.provenance_code, &stream.dedup_scope, &keys, &now])
        .await?;
    Ok(())
}

/// Applies the new state of a run's task to its source. Runs in the caller's transaction, which has locked the task.
pub(super) async fn end(session: &Session, op: &EndRun, status: TaskStatus, now: Time) -> Result<(), Fail> {
    let Some(poll) = &op.poll else { return Ok(()) };
    let reason = op.end.error().map(|fault| fault.message.as_str()).unwrap_or_default();
    let outcome = match status {
        TaskStatus::Succeeded | TaskStatus::Partial => {
            PollOutcome::Fetched { news: op.stats.inserted + op.stats.updated > 0, flaw: poll.flaw.as_deref() }
        }
        TaskStatus::Failed => PollOutcome::Failed { reason, counted: !poll.offline, gone: poll.gone },
        _ => return Ok(()),
    };
    let [keys, lock, read, write_known, shift] =
        session.prepare([LOCK_OWN_KEYS, source::LOCK, source::READ, WRITE_KNOWN, MOVE]).await?;
    let id = poll.source.0;
    let moved_to = poll.moved_to.as_ref().filter(|_| matches!(outcome, PollOutcome::Fetched { .. }));
    if moved_to.is_some() {
        // Keys are locked before sources.
        session.opt(&keys, &[&id]).await?;
    }
    let ids = [id];
    let (_, found) = pipeline!(session.rows(&lock, &[&&ids[..]]), session.opt(&read, &[&&ids[..]]))?;
    let Some(mut kept) = found.as_ref().map(ScheduledSource::of).transpose()? else { return Ok(()) };
    let interval = kept.interval();
    kept.state.after(id, &outcome, interval, now.0);
    source::write(session, &[kept], now).await?;
    if matches!(outcome, PollOutcome::Fetched { .. }) {
        fetched::record(session, op, poll, now).await?;
    }
    if let Some(validators) = &poll.validators {
        session.write(&write_known, &[&id, &Json::of(validators)?]).await?;
    }
    if let Some(url) = moved_to {
        session.write(&shift, &[&id, url]).await?;
    }
    Ok(())
}

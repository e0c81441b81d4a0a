//! Results of a successful poll of tweets, besides its items: the statistics of its source and an outbox event.

use patra_core::Ts;
use patra_core::tweet::FetchStats;
use patra_core::tx::{EndRun, PollEnd};
use tokio_postgres::Row;

use super::count;
use super::outbox;
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

const SUMS: &str = "
SELECT coalesce(sum(inserted + updated + skipped), 0)::bigint, coalesce(sum(inserted), 0)::bigint
FROM ing_task_run_batch
WHERE task_id = $1 AND status_code = 'SUCCEEDED'";

const READ: &str = "
SELECT source_id, last_fetch_at, last_fetched_count, last_new_count, total_fetches, avg_new_rate,
  consecutive_empty_fetches, newest_id
FROM source_stats WHERE source_id = $1";

const WRITE: &str = "
INSERT INTO source_stats (source_id, last_fetch_at, last_fetched_count, last_new_count, total_fetches, avg_new_rate,
  consecutive_empty_fetches, newest_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $9, $8, $8)
ON CONFLICT (source_id) DO UPDATE SET last_fetch_at = excluded.last_fetch_at,
  last_fetched_count = excluded.last_fetched_count, last_new_count = excluded.last_new_count,
  total_fetches = excluded.total_fetches, avg_new_rate = excluded.avg_new_rate,
  consecutive_empty_fetches = excluded.consecutive_empty_fetches, newest_id = excluded.newest_id,
  updated_at = excluded.updated_at";

const ABOUT: &str = "
SELECT s.project_key, coalesce(root.public_id, i.public_id),
  CASE WHEN jsonb_typeof(s.config -> 'username') = 'string' THEN s.config ->> 'username' END
FROM ing_task t
JOIN ing_schedule_instance i ON i.id = t.schedule_instance_id
LEFT JOIN ing_schedule_instance root ON root.id = i.root_id
JOIN source s ON s.id = t.source_id
WHERE t.id = $1";

const KEYS: &str = "
SELECT dedup_key FROM item
WHERE run_id = ANY (ARRAY(SELECT id FROM ing_task_run WHERE task_id = $1))
ORDER BY dedup_key";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[SUMS, READ, WRITE, ABOUT, KEYS];

/// Records a successful poll. Runs in the caller's transaction, which has locked the source.
pub(super) async fn record(session: &Session, op: &EndRun, poll: &PollEnd, now: Time) -> Result<(), Fail> {
    if !poll.counted && !poll.emit {
        return Ok(());
    }
    let [sums, read] = session.prepare([SUMS, READ]).await?;
    let (task, source) = (op.lease.task.0, poll.source.0);
    let (sums, before) = pipeline!(session.one(&sums, &[&task]), session.opt(&read, &[&source]))?;
    let (fetched, new) = (count(sums.try_get(0)?), count(sums.try_get(1)?));
    if poll.counted {
        let before = before.as_ref().map(read_stats).transpose()?.map_or(FetchStats::default(), |(_, stats)| stats);
        write(session, source, &before.after(fetched, new, now.0).reaching(poll.newest.as_ref()), now).await?;
    }
    if poll.emit && new > 0 {
        emit(session, op, poll, now).await?;
    }
    Ok(())
}

/// Reads eight columns, in the order of [`READ`].
pub(crate) fn read_stats(row: &Row) -> Result<(i64, FetchStats), Fail> {
    let number = |at| Ok::<_, Fail>(count(row.try_get(at)?));
    let Time(last_fetch_at): Time = row.try_get(1)?;
    let stats = FetchStats {
        last_fetch_at,
        last_fetched_count: number(2)?,
        last_new_count: number(3)?,
        total_fetches: number(4)?,
        avg_new_rate: row.try_get(5)?,
        consecutive_empty_fetches: number(6)?,
        newest_id: row.try_get(7)?,
    };
    Ok((row.try_get(0)?, stats))
}

async fn write(session: &Session, source: i64, stats: &FetchStats, now: Time) -> Result<(), Fail> {
    let [write] = session.prepare([WRITE]).await?;
    let last: Ts = stats.last_fetch_at;
    session
        .write(
            &write,
            &[
                &source,
                &Time(last),
                &i64::from(stats.last_fetched_count),
                &i64::from(stats.last_new_count),
                &i64::from(stats.total_fetches),
                &stats.avg_new_rate,
                &i64::from(stats.consecutive_empty_fetches),
                &now,
                &stats.newest_id,
            ],
        )
        .await?;
    Ok(())
}

async fn emit(session: &Session, op: &EndRun, poll: &PollEnd, now: Time) -> Result<(), Fail> {
    let task = op.lease.task.0;
    let [about, keys, insert] = session.prepare([ABOUT, KEYS, outbox::INSERT]).await?;
    let (about, keys) = pipeline!(session.one(&about, &[&task]), session.rows(&keys, &[&task]))?;
    let keys = keys.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    let (project, job): (&str, &str) = (about.try_get(0)?, about.try_get(1)?);
    let event = poll.event(op.run, project, job, about.try_get(2)?, &keys);
    outbox::put(session, &insert, &[event], now).await
}

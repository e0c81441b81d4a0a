//! Sources: their configuration, the types that collectors register, and their state between polls. The core computes
//! the due time; this reads and writes the state.
//!
//! Rows are locked in the order of their ids, and then read by a separate statement: joined rows that are read with the
//! lock could be older than it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use patra_core::source::{ArrivalHabit, DEFAULT_MINUTES, SourceState};
use patra_core::state::PausedReason;
use patra_core::tx::{
    ChangeSource, Heartbeat, HeartbeatRecorded, NewSourceConfig, SaveSetting, SaveSources, SavedSource, SettingSaved,
    SourceChanged, SourceTypeRow, SourcesSaved, SyncTypes, TxError, TypesSynced,
};
use patra_core::{SourceId, Ts};
use tokio_postgres::Row;

use super::{NOW, count, micros, moment};
use crate::error::{Fail, refused};
use crate::json::Json;
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe};

/// Serializes writers of the source keys of a project, so that a taken key is found before the unique index fails.
pub(super) const LOCK_KEYS: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' source keys ' || $1::text, 0))";

/// Keeps the attributes that a new source copies from its type current until others can see the source.
const SHARE_TYPES: &str =
    "SELECT pg_advisory_xact_lock_shared(hashtextextended(current_schema() || ' source types', 0))";

const LOCK_TYPES: &str = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' source types', 0))";

/// The first of several sources with the same key is inserted.
const INSERT: &str = "
INSERT INTO source (project_key, type, name, config, source_key, minutes, is_public, is_active, paused_reason, paused_at,
  last_fetched_at, fetch_count, created_at, updated_at)
SELECT $1, n.type, n.name, n.config, n.source_key, n.minutes, n.is_public::integer, n.is_active::integer,
  CASE WHEN NOT n.is_active THEN 'user' END, CASE WHEN NOT n.is_active THEN $10::timestamptz END,
  n.last_fetched_at, (n.last_fetched_at IS NOT NULL)::integer, $10, $10
FROM unnest($2::text[], $3::text[], $4::jsonb[], $5::text[], $6::bigint[], $7::boolean[], $8::boolean[], $9::timestamptz[])
  WITH ORDINALITY AS n (type, name, config, source_key, minutes, is_public, is_active, last_fetched_at, place)
ORDER BY n.place
ON CONFLICT (project_key, source_key) WHERE is_deleted = 0 DO NOTHING
RETURNING id";

const FIND: &str = "
SELECT id, source_key FROM source WHERE project_key = $1 AND source_key = ANY ($2::text[]) AND is_deleted = 0";

pub(super) const LOCK: &str = "SELECT id FROM source WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE";

const LOCK_OF_TYPES: &str = "
SELECT id FROM source WHERE type = ANY ($1::text[]) AND is_deleted = 0 ORDER BY id FOR UPDATE";

/// Reads sources with their effective interval, and whether any collector can fetch them.
pub(super) const READ: &str = "
SELECT s.paused_reason, s.paused_at, s.last_fetched_at, s.fetch_count, s.fetch_error_count, s.last_error, s.last_error_at,
  s.probe_count, s.next_due_at, s.id, s.project_key, s.poll_count, s.minutes, t.minutes,
  t.type IS NOT NULL AND t.unsupported IS NULL, s.last_new_at, s.new_count, s.new_gap_seconds
FROM source s LEFT JOIN source_type t ON t.type = s.type
WHERE s.id = ANY ($1::bigint[]) AND s.is_deleted = 0
ORDER BY s.id";

pub(super) const WRITE: &str = "
UPDATE source s
SET is_active = (n.paused_reason IS NULL)::integer, paused_reason = n.paused_reason, paused_at = n.paused_at,
  last_fetched_at = n.last_fetched_at, fetch_count = n.fetch_count, fetch_error_count = n.fetch_error_count,
  last_error = n.last_error, last_error_at = n.last_error_at, probe_count = n.probe_count, next_due_at = n.next_due_at,
  updated_at = $11, last_new_at = n.last_new_at, new_count = n.new_count, new_gap_seconds = n.new_gap_seconds
FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::text[],
    $8::timestamptz[], $9::bigint[], $10::timestamptz[], $12::timestamptz[], $13::bigint[], $14::bigint[])
  AS n (id, paused_reason, paused_at, last_fetched_at, fetch_count, fetch_error_count, last_error, last_error_at,
    probe_count, next_due_at, last_new_at, new_count, new_gap_seconds)
WHERE s.id = n.id";

const HAS_KEY: &str = "
SELECT 1 FROM source WHERE project_key = $1 AND source_key = $2 AND is_deleted = 0 AND id <> $3";

const CHANGE: &str = "
UPDATE source
SET name = coalesce($2, name), is_public = coalesce($3::boolean::integer, is_public), updated_at = $4,
  is_deleted = $5::boolean::integer, next_due_at = CASE WHEN NOT $5 THEN next_due_at END
WHERE id = $1";

const CHANGE_CONFIG: &str = "
UPDATE source SET config = $2, source_key = $3, minutes = $4, validators = NULL WHERE id = $1";

const CANCEL_QUEUED: &str = "
UPDATE ing_task SET status_code = 'CANCELLED', finished_at = $2
WHERE source_id = $1 AND status_code = 'QUEUED'";

const READ_TYPES: &str = "
SELECT type, minutes, interval_from, unsupported FROM source_type WHERE type = ANY ($1::text[])";

const WRITE_TYPES: &str = "
INSERT INTO source_type (type, minutes, interval_from, unsupported, updated_at)
SELECT n.type, n.minutes, n.interval_from, n.unsupported, $5
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) AS n (type, minutes, interval_from, unsupported)
ON CONFLICT (type) DO UPDATE SET minutes = excluded.minutes, interval_from = excluded.interval_from,
  unsupported = excluded.unsupported, updated_at = excluded.updated_at";

const SLEEP: &str = "
UPDATE source SET next_due_at = NULL
WHERE type = ANY ($1::text[]) AND is_deleted = 0 AND next_due_at IS NOT NULL";

/// Sources without a collector sleep; the others follow the interval of the type, unless they have their own.
const OF_TYPES: &str = "
SELECT id FROM source
WHERE type = ANY ($1::text[]) AND is_deleted = 0 AND (next_due_at IS NULL OR minutes IS NULL)";

const BEAT: &str = "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
beat AS (
  INSERT INTO collector_beat (owner, last_tick_at, next_tick_at, tick_seconds, concurrency, leaving)
  SELECT $1, now, now + $2::bigint * interval '1 microsecond', $3, $4, $5::boolean::integer FROM moment
  ON CONFLICT (owner) DO UPDATE SET last_tick_at = excluded.last_tick_at, next_tick_at = excluded.next_tick_at,
    tick_seconds = excluded.tick_seconds, concurrency = excluded.concurrency,
    leaving = excluded.leaving
),
forgotten AS (
  DELETE FROM collector_beat
  WHERE owner <> $1 AND next_tick_at < (SELECT now FROM moment) - interval '1 day'
)
SELECT now FROM moment";

const CONFIGURE: &str = "
INSERT INTO config (config_key, config_value, updated_at) VALUES ($1, $2, clock_timestamp())
ON CONFLICT (config_key) DO UPDATE SET config_value = excluded.config_value, updated_at = excluded.updated_at";

const UNCONFIGURE: &str = "DELETE FROM config WHERE config_key = $1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LOCK_KEYS,
    SHARE_TYPES,
    LOCK_TYPES,
    INSERT,
    FIND,
    LOCK,
    LOCK_OF_TYPES,
    READ,
    WRITE,
    HAS_KEY,
    CHANGE,
    CHANGE_CONFIG,
    CANCEL_QUEUED,
    READ_TYPES,
    WRITE_TYPES,
    SLEEP,
    OF_TYPES,
    BEAT,
    CONFIGURE,
    UNCONFIGURE,
];

/// State of a source and the inputs of its due time.
pub(super) struct ScheduledSource {
    pub(super) id: i64,
    pub(super) project_key: String,
    pub(super) poll_count: i64,
    pub(super) state: SourceState,
    /// Interval of the source.
    minutes: Option<u32>,
    /// Interval of the type.
    of_type: Option<u32>,
    supported: bool,
}

impl ScheduledSource {
    pub(super) fn of(row: &Row) -> Result<ScheduledSource, Fail> {
        let minutes = |at| Ok::<_, Fail>(row.try_get::<_, Option<i64>>(at)?.map(count));
        Ok(ScheduledSource {
            state: read_state(row, 15)?,
            id: row.try_get(9)?,
            project_key: row.try_get(10)?,
            poll_count: row.try_get(11)?,
            minutes: minutes(12)?,
            of_type: minutes(13)?,
            supported: row.try_get(14)?,
        })
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs(u64::from(self.minutes.or(self.of_type).unwrap_or(DEFAULT_MINUTES)) * 60)
    }
}

/// Reads the first nine columns, in the order of [`READ`], and three of the arrivals.
pub(crate) fn read_state(row: &Row, arrivals: usize) -> Result<SourceState, Fail> {
    Ok(SourceState {
        paused: row.try_get::<_, Option<&str>>(0)?.map(str::parse).transpose()?,
        paused_at: maybe(row, 1)?,
        last_fetched_at: maybe(row, 2)?,
        fetch_count: row.try_get(3)?,
        fetch_error_count: count(row.try_get(4)?),
        last_error: row.try_get(5)?,
        last_error_at: maybe(row, 6)?,
        probe_count: count(row.try_get(7)?),
        next_due_at: maybe(row, 8)?,
        arrivals: ArrivalHabit {
            last_at: maybe(row, arrivals)?,
            count: count(row.try_get(arrivals + 1)?),
            gap_seconds: row.try_get::<_, i64>(arrivals + 2)?.unsigned_abs(),
        },
    })
}

/// States to write, as arrays for `unnest`.
pub(super) async fn write(session: &Session, kept: &[ScheduledSource], now: Time) -> Result<(), Fail> {
    if kept.is_empty() {
        return Ok(());
    }
    let [write] = session.prepare([WRITE]).await?;
    let states = || kept.iter().map(|kept| &kept.state);
    let ids: Vec<_> = kept.iter().map(|kept| kept.id).collect();
    let paused: Vec<_> = states().map(|state| state.paused.map(PausedReason::as_str)).collect();
    let paused_at: Vec<_> = states().map(|state| state.paused_at.map(Time)).collect();
    let fetched_at: Vec<_> = states().map(|state| state.last_fetched_at.map(Time)).collect();
    let fetches: Vec<_> = states().map(|state| state.fetch_count).collect();
    let failures: Vec<_> = states().map(|state| i64::from(state.fetch_error_count)).collect();
    let errors: Vec<_> = states().map(|state| state.last_error.as_deref()).collect();
    let failed_at: Vec<_> = states().map(|state| state.last_error_at.map(Time)).collect();
    let probes: Vec<_> = states().map(|state| i64::from(state.probe_count)).collect();
    // A source that no collector can fetch is never due.
    let due = kept.iter().map(|kept| kept.state.next_due_at.filter(|_| kept.supported).map(Time));
    let due: Vec<_> = due.collect();
    let new_at: Vec<_> = states().map(|state| state.arrivals.last_at.map(Time)).collect();
    let new: Vec<_> = states().map(|state| i64::from(state.arrivals.count)).collect();
    let gaps = states().map(|state| i64::try_from(state.arrivals.gap_seconds).unwrap_or(i64::MAX));
    let gaps: Vec<_> = gaps.collect();
    session
        .write(
            &write,
            &[
                &ids,
                &paused,
                &paused_at,
                &fetched_at,
                &fetches,
                &failures,
                &errors,
                &failed_at,
                &probes,
                &due,
                &now,
                &new_at,
                &new,
                &gaps,
            ],
        )
        .await?;
    Ok(())
}

pub(super) async fn save(session: &Session, op: &SaveSources) -> Result<SourcesSaved, Fail> {
    let [keys, types, now, insert, find, read] =
        session.prepare([LOCK_KEYS, SHARE_TYPES, NOW, INSERT, FIND, READ]).await?;
    let ((), _, _, now) = pipeline!(
        session.begin(),
        session.one(&keys, &[&op.project_key]),
        session.one(&types, &[]),
        moment(session, &now),
    )?;
    let given = || op.sources.iter();
    let kinds: Vec<_> = given().map(|source| source.r#type.as_str()).collect();
    let names: Vec<_> = given().map(|source| source.name.as_str()).collect();
    let configs: Vec<_> = given().map(|source| Json(source.config.as_str())).collect();
    let source_keys: Vec<_> = given().map(|source| source.source_key.as_str()).collect();
    let minutes: Vec<_> = given().map(|source| source.minutes.map(i64::from)).collect();
    let public: Vec<_> = given().map(|source| source.is_public).collect();
    let active: Vec<_> = given().map(|source| source.is_active).collect();
    let fetched_at: Vec<_> = given().map(|source| source.last_fetched_at.map(Time)).collect();
    let (made, found) = pipeline!(
        session.rows(
            &insert,
            &[&op.project_key, &kinds, &names, &configs, &source_keys, &minutes, &public, &active, &fetched_at, &now],
        ),
        session.rows(&find, &[&op.project_key, &source_keys]),
    )?;
    let made = made.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    let found = found.iter().map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    let found = found.collect::<Result<HashMap<String, i64>, Fail>>()?;
    let mut kept =
        session.rows(&read, &[&made]).await?.iter().map(ScheduledSource::of).collect::<Result<Vec<_>, _>>()?;
    for kept in &mut kept {
        kept.state.reschedule(kept.id, kept.interval());
    }
    write(session, &kept, now).await?;
    session.commit().await?;
    let mut new: HashSet<_> = made.into_iter().collect();
    let sources = source_keys.iter().map(|key| {
        let id = *found.get(*key).ok_or_else(|| refused("a saved source is missing"))?;
        Ok(SavedSource { id: SourceId(id), existed: !new.remove(&id) })
    });
    Ok(SourcesSaved { sources: sources.collect::<Result<_, Fail>>()? })
}

pub(super) async fn change(session: &Session, op: &ChangeSource) -> Result<SourceChanged, Fail> {
    let [keys, lock, read, now, has_key] = session.prepare([LOCK_KEYS, LOCK, READ, NOW, HAS_KEY]).await?;
    let [change, change_config, cancel] = session.prepare([CHANGE, CHANGE_CONFIG, CANCEL_QUEUED]).await?;
    let (id, ids) = (op.id, [op.id]);
    session.begin().await?;
    if op.config.is_some() {
        session.one(&keys, &[&op.project_key]).await?;
    }
    let (_, found, now) =
        pipeline!(session.rows(&lock, &[&&ids[..]]), session.opt(&read, &[&&ids[..]]), moment(session, &now),)?;
    let kept = found.as_ref().map(ScheduledSource::of).transpose()?.filter(|kept| kept.project_key == op.project_key);
    let Some(mut kept) = kept else {
        session.commit().await?;
        return Ok(SourceChanged::Unknown);
    };
    if let Some(NewSourceConfig { config, source_key, minutes }) = &op.config {
        if session.opt(&has_key, &[&op.project_key, source_key, &id]).await?.is_some() {
            return Err(TxError::Conflict.into());
        }
        let own = minutes.map(i64::from);
        session.write(&change_config, &[&id, &Json(config.as_str()), source_key, &own]).await?;
        kept.minutes = *minutes;
        if kept.state.paused.is_none() {
            kept.state.next_due_at = Some(now.0);
        }
    }
    match op.is_active {
        Some(true) if kept.state.paused.is_some() => kept.state.resume(kept.interval(), now.0),
        Some(false) => kept.state.pause(now.0),
        _ => {}
    }
    write(session, &[kept], now).await?;
    session.write(&change, &[&id, &op.name, &op.is_public, &now, &op.delete]).await?;
    if op.delete || op.config.is_some() || op.is_active == Some(false) {
        session.write(&cancel, &[&id, &now]).await?;
    }
    session.commit().await?;
    Ok(SourceChanged::Changed)
}

pub(super) async fn sync_types(session: &Session, op: &SyncTypes) -> Result<TypesSynced, Fail> {
    let [lock, now, write_types, lock_sources, sleep] =
        session.prepare([LOCK_TYPES, NOW, WRITE_TYPES, LOCK_OF_TYPES, SLEEP]).await?;
    // Mostly nothing is new, and no lock is needed.
    if changed_types(session, op).await?.is_empty() {
        return Ok(TypesSynced { moved: 0 });
    }
    let ((), _, now) = pipeline!(session.begin(), session.one(&lock, &[]), moment(session, &now))?;
    let changed_types = changed_types(session, op).await?;
    let rows = || changed_types.iter().map(|new| new.row);
    let types: Vec<_> = rows().map(|row| row.r#type.as_str()).collect();
    let minutes: Vec<_> = rows().map(|row| i64::from(row.interval.minutes)).collect();
    let origins: Vec<_> = rows().map(|row| row.interval.from.as_str()).collect();
    let reasons: Vec<_> = rows().map(|row| row.unsupported.as_deref()).collect();
    let asleep: Vec<_> = rows().filter(|row| row.unsupported.is_some()).map(|row| row.r#type.as_str()).collect();
    let moving: Vec<_> = changed_types.iter().filter(|new| new.moves).map(|new| new.row.r#type.as_str()).collect();
    let (_, _, slept) = pipeline!(
        session.write(&write_types, &[&types, &minutes, &origins, &reasons, &now]),
        session.rows(&lock_sources, &[&[&asleep[..], &moving[..]].concat()]),
        session.write(&sleep, &[&asleep]),
    )?;
    let moved = slept + reschedule(session, &moving, now).await?;
    session.commit().await?;
    Ok(TypesSynced { moved })
}

/// A type that is missing in the table or differs from it.
struct ChangedType<'a> {
    row: &'a SourceTypeRow,
    /// Its sources have new due times.
    moves: bool,
}

async fn changed_types<'a>(session: &Session, op: &'a SyncTypes) -> Result<Vec<ChangedType<'a>>, Fail> {
    let [read] = session.prepare([READ_TYPES]).await?;
    let types: Vec<_> = op.types.iter().map(|row| row.r#type.as_str()).collect();
    let mut before = HashMap::new();
    for row in session.rows(&read, &[&types]).await? {
        let (minutes, from): (i64, String) = (row.try_get(1)?, row.try_get(2)?);
        before.insert(row.try_get::<_, String>(0)?, (count(minutes), from, row.try_get::<_, Option<String>>(3)?));
    }
    let mut changed_types = Vec::new();
    for row in &op.types {
        let before = before.get(&row.r#type);
        let same = |(minutes, from, unsupported): &(u32, String, Option<String>)| {
            (*minutes, &**from, unsupported) == (row.interval.minutes, row.interval.from.as_str(), &row.unsupported)
        };
        if before.is_some_and(same) {
            continue;
        }
        let other = before.is_none_or(|before| before.0 != row.interval.minutes || before.2.is_some());
        changed_types.push(ChangedType { row, moves: other && row.unsupported.is_none() });
    }
    Ok(changed_types)
}

async fn reschedule(session: &Session, types: &[&str], now: Time) -> Result<u64, Fail> {
    if types.is_empty() {
        return Ok(0);
    }
    let [of_types, read] = session.prepare([OF_TYPES, READ]).await?;
    let ids = session.rows(&of_types, &[&types]).await?;
    let ids = ids.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    let mut moved = Vec::new();
    for row in session.rows(&read, &[&ids]).await? {
        let mut kept = ScheduledSource::of(&row)?;
        let before = kept.state.next_due_at;
        kept.state.reschedule(kept.id, kept.interval());
        // A failed source lost its due time when no collector could fetch it.
        if kept.state.next_due_at.is_none() && kept.state.paused != Some(PausedReason::User) {
            kept.state.next_due_at = Some(now.0);
        }
        if kept.state.next_due_at != before {
            moved.push(kept);
        }
    }
    write(session, &moved, now).await?;
    Ok(moved.len() as u64)
}

pub(super) async fn beat(session: &Session, op: &Heartbeat) -> Result<HeartbeatRecorded, Fail> {
    let [beat] = session.prepare([BEAT]).await?;
    let tick_seconds = i64::try_from(op.tick.as_secs()).unwrap_or(i64::MAX);
    let concurrency = i64::from(op.concurrency);
    let rows = session.alone(&beat, &[&op.owner, &micros(op.tick), &tick_seconds, &concurrency, &op.leaving]).await?;
    let row = rows.first().ok_or_else(|| refused("a statement returned no row with its time"))?;
    let Time(now): Time = row.try_get(0)?;
    Ok(HeartbeatRecorded { now })
}

pub(super) async fn configure(session: &Session, op: &SaveSetting) -> Result<SettingSaved, Fail> {
    match &op.value {
        Some(value) => {
            let [configure] = session.prepare([CONFIGURE]).await?;
            session.alone(&configure, &[&op.key, value]).await?;
        }
        None => {
            let [remove] = session.prepare([UNCONFIGURE]).await?;
            session.alone(&remove, &[&op.key]).await?;
        }
    }
    Ok(SettingSaved)
}

/// Due time after a poll that begins now.
pub(super) fn provisional(kept: &ScheduledSource, now: Ts) -> Option<Time> {
    kept.state.next_due_at.map(|_| Time(now + kept.interval()))
}

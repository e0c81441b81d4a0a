//! Sources: their configuration, the types that collectors register, and their state between polls. The core computes
//! the due time; this reads and writes the state.

use std::time::Duration;

use patra_core::source::{ArrivalHabit, DEFAULT_MINUTES, SourceState};
use patra_core::state::PausedReason;
use patra_core::tx::{
    ChangeSource, Heartbeat, HeartbeatRecorded, NewSource, NewSourceConfig, SaveSetting, SaveSources, SavedSource,
    SettingSaved, SourceChanged, SourcesSaved, SyncTypes, TxError, TypesSynced,
};
use patra_core::{SourceId, Ts};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::error::Result;
use crate::sql::{maybe_time, maybe_word};

const INSERT: &str = "
INSERT INTO source
  (project_key, type, name, config, source_key, minutes, is_public, is_active, paused_reason, paused_at, last_fetched_at,
   fetch_count, next_due_at, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, iif(?8, NULL, 'user'), iif(?8, NULL, ?11), ?9, ?10, NULL, ?11, ?11)
ON CONFLICT (project_key, source_key) WHERE is_deleted = 0 DO NOTHING
RETURNING id";

const FIND: &str = "SELECT id FROM source WHERE project_key = ?1 AND source_key = ?2 AND is_deleted = 0";

/// Reads sources with their effective interval, and whether any collector can fetch them.
pub(super) const READ: &str = "
SELECT source.paused_reason, source.paused_at, source.last_fetched_at, source.fetch_count, source.fetch_error_count,
  source.last_error, source.last_error_at, source.probe_count, source.next_due_at,
  coalesce(source.minutes, source_type.minutes), coalesce(source_type.unsupported IS NULL, 0) AND source_type.type IS NOT NULL,
  source.last_new_at, source.new_count, source.new_gap_seconds
FROM source LEFT JOIN source_type ON source_type.type = source.type
WHERE source.id = ?1 AND source.is_deleted = 0";

const WRITE: &str = "
UPDATE source
SET is_active = ?2 IS NULL, paused_reason = ?2, paused_at = ?3, last_fetched_at = ?4, fetch_count = ?5,
    fetch_error_count = ?6, last_error = ?7, last_error_at = ?8, probe_count = ?9, next_due_at = ?10, updated_at = ?11,
    last_new_at = ?12, new_count = ?13, new_gap_seconds = ?14
WHERE id = ?1";

const IS_OF_PROJECT: &str = "SELECT 1 FROM source WHERE id = ?1 AND project_key = ?2 AND is_deleted = 0";

const CHANGE: &str = "
UPDATE source
SET name = coalesce(?2, name), is_public = coalesce(?3, is_public), updated_at = ?4
WHERE id = ?1";

const CHANGE_CONFIG: &str = "
UPDATE source SET config = ?2, source_key = ?3, minutes = ?4, validators = NULL WHERE id = ?1";

const HAS_KEY: &str = "
SELECT 1 FROM source WHERE project_key = ?1 AND source_key = ?2 AND is_deleted = 0 AND id <> ?3";

const DELETE: &str = "UPDATE source SET is_deleted = 1, next_due_at = NULL, updated_at = ?2 WHERE id = ?1";

// Repeats the condition of the index of polled sources, so that it can be used.
const CANCEL_QUEUED: &str = "
UPDATE ing_task INDEXED BY uk_task_polled SET status_code = 'CANCELLED', finished_at = ?2
WHERE source_id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING') AND +status_code = 'QUEUED'";

const READ_TYPE: &str = "SELECT minutes, interval_from, unsupported FROM source_type WHERE type = ?1";

const WRITE_TYPE: &str = "
INSERT INTO source_type (type, minutes, interval_from, unsupported, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (type) DO UPDATE SET minutes = excluded.minutes, interval_from = excluded.interval_from,
  unsupported = excluded.unsupported, updated_at = excluded.updated_at";

// Sources without a collector sleep; the others follow the interval of the type, unless they have their own.
const OF_TYPE: &str = "
SELECT id FROM source
WHERE type = ?1 AND is_deleted = 0 AND (next_due_at IS NULL OR minutes IS NULL)";

const SLEEP: &str = "UPDATE source SET next_due_at = NULL WHERE type = ?1 AND next_due_at IS NOT NULL";

const BEAT: &str = "
INSERT INTO collector_beat (owner, last_tick_at, next_tick_at, tick_seconds, concurrency, leaving)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (owner) DO UPDATE SET last_tick_at = excluded.last_tick_at, next_tick_at = excluded.next_tick_at,
  tick_seconds = excluded.tick_seconds, concurrency = excluded.concurrency,
  leaving = excluded.leaving";

const FORGET_BEATS: &str = "DELETE FROM collector_beat WHERE next_tick_at < ?1";

const CONFIGURE: &str = "
INSERT INTO config (config_key, config_value, updated_at) VALUES (?1, ?2, ?3)
ON CONFLICT (config_key) DO UPDATE SET config_value = excluded.config_value, updated_at = excluded.updated_at";

const UNCONFIGURE: &str = "DELETE FROM config WHERE config_key = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    INSERT,
    FIND,
    READ,
    WRITE,
    IS_OF_PROJECT,
    CHANGE,
    CHANGE_CONFIG,
    HAS_KEY,
    DELETE,
    CANCEL_QUEUED,
    READ_TYPE,
    WRITE_TYPE,
    OF_TYPE,
    SLEEP,
    BEAT,
    FORGET_BEATS,
    CONFIGURE,
    UNCONFIGURE,
];

/// State of a source and the inputs of its due time.
pub(super) struct ScheduledSource {
    pub(super) state: SourceState,
    pub(super) interval: Duration,
    supported: bool,
}

pub(super) fn read(db: &Connection, id: i64) -> Result<Option<ScheduledSource>> {
    Ok(db.prepare_cached(READ)?.query_row([id], read_kept).optional()?)
}

fn read_kept(row: &Row<'_>) -> rusqlite::Result<ScheduledSource> {
    let minutes = row.get::<_, Option<u32>>(9)?.unwrap_or(DEFAULT_MINUTES);
    Ok(ScheduledSource {
        state: read_state(row, 0, 11)?,
        interval: Duration::from_secs(u64::from(minutes) * 60),
        supported: row.get(10)?,
    })
}

/// Reads nine columns, in the order of [`READ`], and three of the arrivals.
pub(crate) fn read_state(row: &Row<'_>, at: usize, arrivals: usize) -> rusqlite::Result<SourceState> {
    Ok(SourceState {
        paused: maybe_word(row, at)?,
        paused_at: maybe_time(row, at + 1)?,
        last_fetched_at: maybe_time(row, at + 2)?,
        fetch_count: row.get(at + 3)?,
        fetch_error_count: row.get(at + 4)?,
        last_error: row.get(at + 5)?,
        last_error_at: maybe_time(row, at + 6)?,
        probe_count: row.get(at + 7)?,
        next_due_at: maybe_time(row, at + 8)?,
        arrivals: ArrivalHabit {
            last_at: maybe_time(row, arrivals)?,
            count: row.get(arrivals + 1)?,
            gap_seconds: row.get::<_, i64>(arrivals + 2)?.unsigned_abs(),
        },
    })
}

/// A source that no collector can fetch is never due.
pub(super) fn write(db: &Connection, id: i64, kept: &ScheduledSource, now: Ts) -> Result<()> {
    let state = &kept.state;
    db.prepare_cached(WRITE)?.execute(params![
        id,
        state.paused.map(PausedReason::as_str),
        state.paused_at.map(Ts::micros),
        state.last_fetched_at.map(Ts::micros),
        state.fetch_count,
        state.fetch_error_count,
        state.last_error,
        state.last_error_at.map(Ts::micros),
        state.probe_count,
        state.next_due_at.filter(|_| kept.supported).map(Ts::micros),
        now.micros(),
        state.arrivals.last_at.map(Ts::micros),
        state.arrivals.count,
        i64::try_from(state.arrivals.gap_seconds).unwrap_or(i64::MAX),
    ])?;
    Ok(())
}

pub(super) fn save(db: &Connection, op: &SaveSources, now: Ts) -> Result<SourcesSaved> {
    let mut sources = Vec::with_capacity(op.sources.len());
    for source in &op.sources {
        sources.push(insert(db, &op.project_key, source, now)?);
    }
    Ok(SourcesSaved { sources })
}

fn insert(db: &Connection, project_key: &str, source: &NewSource, now: Ts) -> Result<SavedSource> {
    let values = params![
        project_key,
        source.r#type,
        source.name,
        source.config,
        source.source_key,
        source.minutes,
        source.is_public,
        source.is_active,
        source.last_fetched_at.map(Ts::micros),
        i64::from(source.last_fetched_at.is_some()),
        now.micros(),
    ];
    let inserted: Option<i64> = db.prepare_cached(INSERT)?.query_row(values, |row| row.get(0)).optional()?;
    let Some(id) = inserted else {
        let id = db.prepare_cached(FIND)?.query_row([project_key, &source.source_key], |row| row.get(0))?;
        return Ok(SavedSource { id: SourceId(id), existed: true });
    };
    if let Some(mut kept) = read(db, id)? {
        kept.state.reschedule(id, kept.interval);
        write(db, id, &kept, now)?;
    }
    Ok(SavedSource { id: SourceId(id), existed: false })
}

pub(super) fn change(db: &Connection, op: &ChangeSource, now: Ts) -> Result<SourceChanged> {
    let known = db.prepare_cached(IS_OF_PROJECT)?.exists(params![op.id, op.project_key])?;
    if !known {
        return Ok(SourceChanged::Unknown);
    }
    if let Some(NewSourceConfig { source_key, .. }) = &op.config
        && db.prepare_cached(HAS_KEY)?.exists(params![op.project_key, source_key, op.id])?
    {
        return Err(TxError::Conflict.into());
    }
    db.prepare_cached(CHANGE)?.execute(params![op.id, op.name, op.is_public, now.micros()])?;
    if let Some(NewSourceConfig { config, source_key, minutes }) = &op.config {
        db.prepare_cached(CHANGE_CONFIG)?.execute(params![op.id, config, source_key, minutes])?;
    }
    let Some(mut kept) = read(db, op.id)? else { return Ok(SourceChanged::Unknown) };
    if op.config.is_some() && kept.state.paused.is_none() {
        kept.state.next_due_at = Some(now);
    }
    match op.is_active {
        Some(true) if kept.state.paused.is_some() => kept.state.resume(kept.interval, now),
        Some(false) => kept.state.pause(now),
        _ => {}
    }
    write(db, op.id, &kept, now)?;
    if op.delete {
        db.prepare_cached(DELETE)?.execute([op.id, now.micros()])?;
    }
    if op.delete || op.config.is_some() || op.is_active == Some(false) {
        db.prepare_cached(CANCEL_QUEUED)?.execute([op.id, now.micros()])?;
    }
    Ok(SourceChanged::Changed)
}

pub(super) fn sync_types(db: &Connection, op: &SyncTypes, now: Ts) -> Result<TypesSynced> {
    let mut moved = 0;
    for row in &op.types {
        let (minutes, from) = (row.interval.minutes, row.interval.from.as_str());
        let before: Option<(u32, String, Option<String>)> = db
            .prepare_cached(READ_TYPE)?
            .query_row([&row.r#type], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        if before.as_ref().is_some_and(|now| (now.0, &*now.1, &now.2) == (minutes, from, &row.unsupported)) {
            continue;
        }
        let values = params![row.r#type, minutes, from, row.unsupported, now.micros()];
        db.prepare_cached(WRITE_TYPE)?.execute(values)?;
        if row.unsupported.is_some() {
            moved += db.prepare_cached(SLEEP)?.execute([&row.r#type])? as u64;
        } else if before.is_none_or(|before| before.0 != minutes || before.2.is_some()) {
            moved += reschedule(db, &row.r#type, now)?;
        }
    }
    Ok(TypesSynced { moved })
}

fn reschedule(db: &Connection, of: &str, now: Ts) -> Result<u64> {
    let ids: Vec<i64> =
        db.prepare_cached(OF_TYPE)?.query_map([of], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut moved = 0;
    for id in ids {
        let Some(mut kept) = read(db, id)? else { continue };
        let before = kept.state.next_due_at;
        kept.state.reschedule(id, kept.interval);
        // A failed source lost its due time when no collector could fetch it.
        if kept.state.next_due_at.is_none() && kept.state.paused != Some(PausedReason::User) {
            kept.state.next_due_at = Some(now);
        }
        if kept.state.next_due_at != before {
            write(db, id, &kept, now)?;
            moved += 1;
        }
    }
    Ok(moved)
}

pub(super) fn beat(db: &Connection, op: &Heartbeat, now: Ts) -> Result<HeartbeatRecorded> {
    const A_DAY: Duration = Duration::from_secs(86_400);
    let tick_seconds = i64::try_from(op.tick.as_secs()).unwrap_or(i64::MAX);
    let values = params![op.owner, now.micros(), (now + op.tick).micros(), tick_seconds, op.concurrency, op.leaving,];
    db.prepare_cached(BEAT)?.execute(values)?;
    db.prepare_cached(FORGET_BEATS)?.execute([(now - A_DAY).micros()])?;
    Ok(HeartbeatRecorded { now })
}

pub(super) fn configure(db: &Connection, op: &SaveSetting, now: Ts) -> Result<SettingSaved> {
    match &op.value {
        Some(value) => db.prepare_cached(CONFIGURE)?.execute(params![op.key, value, now.micros()])?,
        None => db.prepare_cached(UNCONFIGURE)?.execute([&op.key])?,
    };
    Ok(SettingSaved)
}

//! Steps of the clock: moves the stored times that wait.

use patra_core::gate::GateState;
use patra_core::tx::Recurrence;
use patra_core::{ClockStep, Ts};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::Result;
use crate::sql::time;

const READ_SEEN: &str = "SELECT seen_at FROM ing_clock WHERE id = 1";

const WRITE_SEEN: &str = "
INSERT INTO ing_clock (id, seen_at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";

/// `UPDATE table SET column = column's value WHERE which AND column's bounds`. `?1` and `?2` are the ends of the step.
macro_rules! moved {
    ($table:literal, $column:literal, $which:literal, $value:expr, $bounds:expr) => {
        concat!("UPDATE ", $table, " SET ", $column, " = ", $value, " WHERE ", $which, " AND ", $column, $bounds)
    };
}

/// Times to wait until: `ClockStep::wait_until`. The year 9999 stands for "never".
macro_rules! wait {
    ($table:literal, $column:literal, $which:literal) => {
        moved!(
            $table,
            $column,
            $which,
            concat!("?2 + max(0, ", $column, " - ?1)"),
            concat!(" > min(?1, ?2) AND ", $column, " < 253402300799000000")
        )
    };
}

/// The same, only if the clock was set back: a calendar or an upstream has set the time.
macro_rules! bring_back {
    ($table:literal, $column:literal, $which:literal) => {
        concat!(wait!($table, $column, $which), " AND ?2 < ?1")
    };
}

/// Times since which something is so: `ClockStep::since`.
macro_rules! since {
    ($table:literal, $column:literal, $which:literal) => {
        moved!(
            $table,
            $column,
            $which,
            concat!($column, " + (?2 - ?1)"),
            " > CASE WHEN ?2 < ?1 THEN ?2 ELSE -9223372036854775808 END"
        )
    };
}

/// A task that is held keeps this time when its lease is taken back.
const TASKS: &str =
    wait!("ing_task INDEXED BY idx_task_open", "scheduled_at", "status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')");
const LEASES: &str = wait!("ing_task", "leased_until", "status_code IN ('DISPATCHED', 'EXECUTING')");
const JOBS: &str =
    wait!("ing_schedule_instance INDEXED BY idx_instance_waiting", "not_before", "status_code = 'REQUESTED'");
const JOB_LEASES: &str = wait!(
    "ing_schedule_instance INDEXED BY idx_instance_waiting",
    "leased_until",
    "status_code = 'REQUESTED' AND leased_until IS NOT NULL"
);
const EVENTS: &str = wait!("outbox_event", "not_before", "status_code = 'PENDING'");
const EVENT_LEASES: &str =
    wait!("outbox_event", "leased_until", "status_code = 'PENDING' AND leased_until IS NOT NULL");
const REFRESHES: &str = wait!("ing_credential_state", "refresh_until", "refresh_owner IS NOT NULL");
const COOKIE_LEASES: &str = wait!("ing_cookie_lease", "expires_at", "holder IS NOT NULL");
const COOLING: &str = wait!("ing_credential_state", "cooling_until", "cooling_until IS NOT NULL");
const BEATS: &str = wait!("collector_beat", "next_tick_at", "leaving = 0");
const SOURCES: &str = bring_back!("source", "next_due_at", "next_due_at IS NOT NULL");
const TICKS: &str = since!("collector_beat", "last_tick_at", "leaving = 0");
const EXECUTIONS: &str = since!("ing_execution", "heartbeat_at", "status = 'running'");
const LOCKS: &str = since!("crawl_candidate", "locked_at", "locked_at IS NOT NULL");
const ADVICE: &str = since!("ing_hold", "created_at", "released_at IS NULL AND kind_code = 'ADVISORY'");
const ALERTS: &str = since!("alert_state", "since", "since IS NOT NULL");
const NOTICES: &str = since!("alert_state", "told_at", "told_at IS NOT NULL");

/// Statements that take `from` and `to` of a step.
pub(super) const MOVES: &[&str] = &[
    TASKS,
    LEASES,
    JOBS,
    JOB_LEASES,
    EVENTS,
    EVENT_LEASES,
    REFRESHES,
    COOLING,
    COOKIE_LEASES,
    BEATS,
    SOURCES,
    TICKS,
    EXECUTIONS,
    LOCKS,
    ADVICE,
    ALERTS,
    NOTICES,
];

const READ_SCHEDULES: &str = "SELECT id, when_text, next_due_at FROM reg_schedule INDEXED BY idx_schedule_due";

const MOVE_SCHEDULE: &str = "UPDATE reg_schedule SET next_due_at = ?2 WHERE id = ?1";

const READ_GATES: &str = "SELECT id, state FROM ing_gate";

const WRITE_GATE: &str = "UPDATE ing_gate SET state = ?2 WHERE id = ?1";

const COUNT_AHEAD: &str =
    "SELECT count(*) FROM ing_cursor WHERE normalized_instant > ?1 AND direction_code = 'FORWARD'";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[READ_SEEN, WRITE_SEEN, READ_SCHEDULES, MOVE_SCHEDULE, READ_GATES, WRITE_GATE, COUNT_AHEAD];

/// The newest time that the store remembers.
pub(crate) fn seen(db: &Connection) -> rusqlite::Result<Option<Ts>> {
    db.prepare_cached(READ_SEEN)?.query_row((), |row| time(row, 0)).optional()
}

/// Remembers the time, for the next start.
pub(crate) fn saw(db: &Connection, now: Ts) -> Result<()> {
    db.prepare_cached(WRITE_SEEN)?.execute([now.micros()])?;
    Ok(())
}

/// Moves all times that wait.
pub(crate) fn follow(db: &Connection, step: ClockStep) -> Result<()> {
    let mut moved = 0;
    for statement in MOVES {
        moved += db.prepare_cached(statement)?.execute(params![step.from.micros(), step.to.micros()])?;
    }
    moved += move_schedules(db, step)? + move_gates(db, step)?;
    let ahead: i64 = db.prepare_cached(COUNT_AHEAD)?.query_row([step.to.micros()], |row| row.get(0))?;
    saw(db, step.to)?;
    let (length, back) = (step.length(), step.is_back());
    tracing::warn!(
        clock.from = %step.from,
        clock.to = %step.to,
        moved,
        "the system clock was set {} by {length:?}: schedules, delays and leases were moved with it",
        if back { "back" } else { "forward" }
    );
    if back && ahead > 0 {
        tracing::warn!(
            cursors = ahead,
            "cursors are ahead of the clock: if it was wrong before, collect the time since {} again with a BACKFILL",
            step.to
        );
    }
    Ok(())
}

fn move_schedules(db: &Connection, step: ClockStep) -> Result<usize> {
    let rows: Vec<(i64, String, Ts)> = db
        .prepare_cached(READ_SCHEDULES)?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?, time(row, 2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut moved = 0;
    for (id, when, at) in rows {
        // A recurrence that cannot be read is an error when it fires.
        let next = Recurrence::from_text(&when).map_or(at, |when| step.scheduled(at, &when));
        if next != at {
            moved += db.prepare_cached(MOVE_SCHEDULE)?.execute([id, next.micros()])?;
        }
    }
    Ok(moved)
}

fn move_gates(db: &Connection, step: ClockStep) -> Result<usize> {
    let rows: Vec<(i64, String)> = db
        .prepare_cached(READ_GATES)?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut moved = 0;
    for (id, text) in rows {
        // A state that cannot be read counts as used up at the next request.
        if let Ok(mut state) = GateState::read(&text) {
            state.step(step);
            moved += db.prepare_cached(WRITE_GATE)?.execute(params![id, state.write()])?;
        }
    }
    Ok(moved)
}

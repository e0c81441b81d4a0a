//! Steps of the server's clock. A sweep notices that it was set back, and moves the stored times that wait. Steps forward
//! look like time that passed.

use std::time::Duration;

use patra_core::gate::GateState;
use patra_core::tx::Recurrence;
use patra_core::{ClockStep, Ts};

use crate::error::Fail;
use crate::pool::Session;
use crate::time::{Time, maybe};

/// Remembers the time, at most once per second, and returns it with the one that was remembered before.
const SEE: &str = "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
saw AS (
  INSERT INTO ing_clock (id, seen_at)
  SELECT 1, now FROM moment
  WHERE NOT EXISTS (SELECT 1 FROM ing_clock WHERE seen_at > moment.now - interval '1 second')
  ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
)
SELECT moment.now, (SELECT seen_at FROM ing_clock) FROM moment";

const LOCK: &str = "SELECT clock_timestamp(), seen_at FROM ing_clock WHERE id = 1 FOR UPDATE";

const WRITE_SEEN: &str = "UPDATE ing_clock SET seen_at = $1 WHERE id = 1";

/// `UPDATE table SET column = column's value WHERE which AND column's bounds`. `$2` is the step in microseconds.
macro_rules! moved {
    ($table:literal, $column:literal, $which:literal, $value:expr, $bounds:expr) => {
        concat!("UPDATE ", $table, " SET ", $column, " = ", $value, " WHERE ", $which, " AND ", $column, $bounds)
    };
}

/// Times to wait until: `ClockStep::wait_until`. `$1` is the time now.
macro_rules! wait {
    ($table:literal, $column:literal, $which:literal) => {
        moved!(
            $table,
            $column,
            $which,
            concat!("greatest($1, ", $column, " + $2::bigint * interval '1 microsecond')"),
            concat!(" > $1 AND ", $column, " < timestamptz '9999-12-31 23:59:59Z'")
        )
    };
}

/// Ends of leases: `ClockStep::lease_until`. `$1` is the time that was remembered, `$3` the time now, `$4` the end of the
/// longest lease that may have been granted since the step.
macro_rules! lease {
    ($table:literal, $column:literal, $which:literal) => {
        moved!(
            $table,
            $column,
            $which,
            concat!(
                "CASE WHEN ",
                $column,
                " > $1 THEN ",
                $column,
                " + $2::bigint * interval '1 microsecond' ELSE $3 END"
            ),
            " > least($1, $4::timestamptz)"
        )
    };
}

/// Times since which something is so: `ClockStep::since`. `$1` is the time now.
macro_rules! since {
    ($table:literal, $column:literal, $which:literal) => {
        moved!($table, $column, $which, concat!($column, " + $2::bigint * interval '1 microsecond'"), " > $1")
    };
}

/// A task that is held keeps this time when its lease is taken back.
const TASKS: &str = wait!("ing_task", "scheduled_at", "status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')");
const JOBS: &str = wait!("ing_schedule_instance", "not_before", "status_code = 'REQUESTED'");
const EVENTS: &str = wait!("outbox_event", "not_before", "status_code = 'PENDING'");
const COOLING: &str = wait!("ing_credential_state", "cooling_until", "cooling_until IS NOT NULL");
const BEATS: &str = wait!("collector_beat", "next_tick_at", "leaving = 0");
const SOURCES: &str = wait!("source", "next_due_at", "next_due_at IS NOT NULL");

const LEASES: &str = lease!("ing_task", "leased_until", "status_code IN ('DISPATCHED', 'EXECUTING')");
const JOB_LEASES: &str = lease!("ing_schedule_instance", "leased_until", "status_code = 'REQUESTED'");
const EVENT_LEASES: &str = lease!("outbox_event", "leased_until", "status_code = 'PENDING'");
const COOKIE_LEASES: &str = lease!("ing_cookie_lease", "expires_at", "holder IS NOT NULL");
const REFRESHES: &str = lease!("ing_credential_state", "refresh_until", "refresh_owner IS NOT NULL");

const TICKS: &str = since!("collector_beat", "last_tick_at", "leaving = 0");
const EXECUTIONS: &str = since!("ing_execution", "heartbeat_at", "status = 'running'");
const LOCKS: &str = since!("crawl_candidate", "locked_at", "locked_at IS NOT NULL");
const ADVICE: &str = since!("ing_hold", "created_at", "released_at IS NULL AND kind_code = 'ADVISORY'");
const ALERTS: &str = since!("alert_state", "since", "since IS NOT NULL");
const NOTICES: &str = since!("alert_state", "told_at", "told_at IS NOT NULL");

/// Statements that take the time now and the step.
pub(super) const WAITS: [&str; 12] =
    [TASKS, JOBS, EVENTS, COOLING, BEATS, SOURCES, TICKS, EXECUTIONS, LOCKS, ADVICE, ALERTS, NOTICES];
/// Statements that take what `lease!` says.
pub(super) const LEASE_ENDS: [&str; 5] = [LEASES, JOB_LEASES, EVENT_LEASES, REFRESHES, COOKIE_LEASES];

const READ_SCHEDULES: &str = "
SELECT id, when_text, next_due_at FROM reg_schedule WHERE next_due_at > $1 ORDER BY id FOR UPDATE";

const MOVE_SCHEDULE: &str = "UPDATE reg_schedule SET next_due_at = $2 WHERE id = $1";

const READ_GATES: &str = "SELECT id, state FROM ing_gate ORDER BY id FOR UPDATE";

const WRITE_GATE: &str = "UPDATE ing_gate SET state = $2 WHERE id = $1";

const COUNT_AHEAD: &str =
    "SELECT count(*) FROM ing_cursor WHERE normalized_instant > $1 AND direction_code = 'FORWARD'";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[SEE, LOCK, WRITE_SEEN, READ_SCHEDULES, MOVE_SCHEDULE, READ_GATES, WRITE_GATE, COUNT_AHEAD];

/// Moves the times that wait, if the clock was set back since the last sweep of any process.
pub(super) async fn follow(session: &Session, longest_lease: Duration) -> Result<(), Fail> {
    let [see] = session.prepare([SEE]).await?;
    let row = &session.one(&see, &[]).await?;
    let Time(now) = row.try_get(0)?;
    if maybe(row, 1)?.and_then(|seen| ClockStep::back(seen, now)).is_some() {
        follow_back(session, longest_lease).await?;
    }
    Ok(())
}

async fn follow_back(session: &Session, longest_lease: Duration) -> Result<(), Fail> {
    let [lock, write] = session.prepare([LOCK, WRITE_SEEN]).await?;
    session.begin().await?;
    let row = session.one(&lock, &[]).await?;
    let (Time(now), Time(seen)) = (row.try_get(0)?, row.try_get(1)?);
    // Another process may have done it meanwhile.
    let Some(step) = ClockStep::back(seen, now) else { return session.commit().await };
    let by = step.micros();
    let mut moved = 0;
    for statement in session.prepare(WAITS).await? {
        moved += session.write(&statement, &[&Time(step.to), &by]).await?;
    }
    for statement in session.prepare(LEASE_ENDS).await? {
        let (to, fresh) = (Time(step.to), Time(step.to + longest_lease));
        moved += session.write(&statement, &[&Time(step.from), &by, &to, &fresh]).await?;
    }
    moved += move_schedules(session, step).await? + move_gates(session, step).await?;
    let [count] = session.prepare([COUNT_AHEAD]).await?;
    let ahead: i64 = session.one(&count, &[&Time(step.to)]).await?.try_get(0)?;
    session.write(&write, &[&Time(step.to)]).await?;
    session.commit().await?;
    let length = step.length();
    tracing::warn!(
        clock.from = %step.from,
        clock.to = %step.to,
        moved,
        "the clock of the database server was set back by {length:?}: schedules, delays and leases were moved with it"
    );
    if ahead > 0 {
        tracing::warn!(
            cursors = ahead,
            "cursors are ahead of the clock: if it was wrong before, collect the time since {} again with a BACKFILL",
            step.to
        );
    }
    Ok(())
}

async fn move_schedules(session: &Session, step: ClockStep) -> Result<u64, Fail> {
    let [read, write] = session.prepare([READ_SCHEDULES, MOVE_SCHEDULE]).await?;
    let mut moved = 0;
    for row in session.rows(&read, &[&Time(step.to)]).await? {
        let (id, when, Time(at)): (i64, &str, Time) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        // A recurrence that cannot be read is an error when it fires.
        let next: Ts = Recurrence::from_text(when).map_or(at, |when| step.scheduled(at, &when));
        if next != at {
            moved += session.write(&write, &[&id, &Time(next)]).await?;
        }
    }
    Ok(moved)
}

async fn move_gates(session: &Session, step: ClockStep) -> Result<u64, Fail> {
    let [read, write] = session.prepare([READ_GATES, WRITE_GATE]).await?;
    let mut moved = 0;
    for row in session.rows(&read, &[]).await? {
        let (id, text): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
        // A state that cannot be read counts as used up at the next request.
        let Ok(mut state) = GateState::read(text) else { continue };
        if state.step_back(step) {
            moved += session.write(&write, &[&id, &state.write()]).await?;
        }
    }
    Ok(moved)
}

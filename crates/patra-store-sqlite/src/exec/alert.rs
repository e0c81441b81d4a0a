//! Alerts: the counts they evaluate and the state of each. The core decides whether to notify.

use patra_core::Ts;
use patra_core::alert::AlertState;
use patra_core::tx::{A_MINUTE, AlertWatched, COUNTS_KEPT, CountCrawls, CrawlsCounted, WatchAlert};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::error::Result;
use crate::sql::{from_count, maybe_time};

const COUNT: &str = "
INSERT INTO crawl_minute (platform, minute, succeeded, failed) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (platform, minute) DO UPDATE
SET succeeded = succeeded + excluded.succeeded, failed = failed + excluded.failed";

const FORGET: &str = "DELETE FROM crawl_minute WHERE platform = ?1 AND minute < ?2";

const READ: &str = "SELECT since, firing, told_at FROM alert_state WHERE alert = ?1 AND subject = ?2";

const WRITE: &str = "
INSERT INTO alert_state (alert, subject, level, since, firing, told_at, value, threshold, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (alert, subject) DO UPDATE
SET level = excluded.level, since = excluded.since, firing = excluded.firing, told_at = excluded.told_at,
    value = excluded.value, threshold = excluded.threshold, detail = excluded.detail";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[COUNT, FORGET, READ, WRITE];

/// Reads three columns from `at` on: `since`, `firing` and the time of the last notification.
pub(crate) fn read_alert(row: &Row<'_>, at: usize) -> rusqlite::Result<AlertState> {
    Ok(AlertState { since: maybe_time(row, at)?, firing: row.get(at + 1)?, notified_at: maybe_time(row, at + 2)? })
}

pub(super) fn count_crawls(db: &Connection, op: &CountCrawls, now: Ts) -> Result<CrawlsCounted> {
    let (succeeded, failed) = (from_count(op.succeeded), from_count(op.failed));
    db.prepare_cached(COUNT)?.execute(params![op.platform, now.floor_to(A_MINUTE).micros(), succeeded, failed])?;
    db.prepare_cached(FORGET)?.execute(params![op.platform, (now - COUNTS_KEPT).micros()])?;
    Ok(CrawlsCounted)
}

pub(super) fn watch(db: &Connection, op: &WatchAlert, now: Ts) -> Result<AlertWatched> {
    let key = [&op.alert, &op.subject];
    let before = db.prepare_cached(READ)?.query_row(key, |row| read_alert(row, 0)).optional()?.unwrap_or_default();
    let (state, notify) = before.watched(op.is_met, op.delay, op.repeat, now);
    db.prepare_cached(WRITE)?.execute(params![
        op.alert,
        op.subject,
        op.level.as_str(),
        state.since.map(Ts::micros),
        state.firing,
        state.notified_at.map(Ts::micros),
        op.value,
        op.threshold,
        op.detail,
    ])?;
    Ok(AlertWatched { since: state.since.or(before.since), state, notify })
}

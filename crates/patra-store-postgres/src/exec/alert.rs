//! Alerts: the counts they evaluate and the state of each. The core decides whether to notify.

use patra_core::alert::AlertState;
use patra_core::tx::{A_MINUTE, AlertWatched, COUNTS_KEPT, CountCrawls, CrawlsCounted, WatchAlert};
use tokio_postgres::Row;

use super::execution::from_count;
use super::{NOW, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe};

const COUNT: &str = "
INSERT INTO crawl_minute (platform, minute, succeeded, failed) VALUES ($1, $2, $3, $4)
ON CONFLICT (platform, minute) DO UPDATE
SET succeeded = crawl_minute.succeeded + excluded.succeeded, failed = crawl_minute.failed + excluded.failed";

const FORGET: &str = "DELETE FROM crawl_minute WHERE platform = $1 AND minute < $2";

/// A new alert needs a row before it can be locked.
const MAKE: &str = "
INSERT INTO alert_state (alert, subject, level, firing, value, threshold) VALUES ($1, $2, $3, 0, $4, $5)
ON CONFLICT (alert, subject) DO NOTHING";

const LOCK: &str = "
SELECT since, firing = 1, told_at FROM alert_state WHERE alert = $1 AND subject = $2 FOR UPDATE";

const WRITE: &str = "
UPDATE alert_state
SET level = $3, since = $4, firing = $5::boolean::integer, told_at = $6, value = $7, threshold = $8, detail = $9
WHERE alert = $1 AND subject = $2";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[COUNT, FORGET, MAKE, LOCK, WRITE];

/// Reads three columns from `at` on: `since`, `firing` and the time of the last notification.
pub(crate) fn read_alert(row: &Row, at: usize) -> Result<AlertState, Fail> {
    Ok(AlertState { since: maybe(row, at)?, firing: row.try_get(at + 1)?, notified_at: maybe(row, at + 2)? })
}

pub(super) async fn count_crawls(session: &Session, op: &CountCrawls) -> Result<CrawlsCounted, Fail> {
    let [now, count, forget] = session.prepare([NOW, COUNT, FORGET]).await?;
    let ((), Time(now)) = pipeline!(session.begin(), moment(session, &now))?;
    let (minute, old) = (Time(now.floor_to(A_MINUTE)), Time(now - COUNTS_KEPT));
    let (succeeded, failed) = (from_count(op.succeeded), from_count(op.failed));
    let (_, _, ()) = pipeline!(
        session.write(&count, &[&op.platform, &minute, &succeeded, &failed]),
        session.write(&forget, &[&op.platform, &old]),
        session.commit(),
    )?;
    Ok(CrawlsCounted)
}

pub(super) async fn watch(session: &Session, op: &WatchAlert) -> Result<AlertWatched, Fail> {
    let [make, lock, now, write] = session.prepare([MAKE, LOCK, NOW, WRITE]).await?;
    let level = op.level.as_str();
    let ((), _, row, now) = pipeline!(
        session.begin(),
        session.write(&make, &[&op.alert, &op.subject, &level, &op.value, &op.threshold]),
        session.one(&lock, &[&op.alert, &op.subject]),
        moment(session, &now),
    )?;
    let before = read_alert(&row, 0)?;
    let (state, notify) = before.watched(op.is_met, op.delay, op.repeat, now.0);
    let (since, notified) = (state.since.map(Time), state.notified_at.map(Time));
    let (_, ()) = pipeline!(
        session.write(
            &write,
            &[&op.alert, &op.subject, &level, &since, &state.firing, &notified, &op.value, &op.threshold, &op.detail],
        ),
        session.commit(),
    )?;
    Ok(AlertWatched { since: state.since.or(before.since), state, notify })
}

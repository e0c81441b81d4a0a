//! Picks cookies for requests, one each. The statement repeats `CookieUsage::is_selectable` and `CookieUsage::used` of the
//! core; the reference model of the tests uses those.
//!
//! The first statement is a whole transaction that reads one index and waits for nobody. It serves picks that arrive
//! together (see `gather`), each with a cookie of its own, and skips cookies that another pick has locked, because each is about to be the most recently used. It finds nothing when time has changed the state
//! of a cookie, when all cookies of the highest priority are locked, or when none is left. Then the pick is made again
//! under a lock of the source, and waits.

use patra_core::cookie::{CookieTotals, CookieUsage};
use patra_core::credential::Credential;
use patra_core::tx::{CookiePicked, CookieReleased, PickCookie, ReleaseCookie, TxError};
use tokio_postgres::Row;

use super::cookie::{lock, write};
use super::credential::read_credential;
use super::{NOW, count, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe};

/// Rounds of a pick under the lock of its source. Each that finds nothing was overtaken by another change.
const MAX_ROUNDS: u32 = 1_000;

/// Serializes the picks of a source that wait: no cookie looks used up that is not.
const LOCK_POOL: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' cookies of ' || $1::text, 0))";

/// The condition of `idx_cookie_ready` for a source.
macro_rules! ready {
    ($s:literal) => {
        concat!(
            $s,
            "provenance_code = $1 AND ",
            $s,
            "cookie_code = 'active' AND ",
            $s,
            "daily_used < ",
            $s,
            "daily_limit AND (",
            $s,
            "max_parallel = 0 OR ",
            $s,
            "in_use < ",
            $s,
            "max_parallel) AND ",
            $s,
            "paused_at IS NULL AND ",
            $s,
            "expired = 0"
        )
    };
}

/// The best cookies that are bound to `$endpoint`. There are more than one because others may pick the first.
macro_rules! best {
    ($endpoint:literal) => {
        concat!(
            "(SELECT credential_id, version, priority, last_used_at FROM ing_credential_state
    WHERE endpoint_name = ",
            $endpoint,
            " AND ",
            ready!(""),
            " AND cookie_name <> ALL ($4::text[])
    ORDER BY priority DESC, last_used_at NULLS FIRST, credential_id LIMIT 64)"
        )
    };
}

/// A cookie for each holder in `$5`, if the condition `$only_if` holds. There are fewer rows when fewer cookies are
/// free. A cookie that has changed since the statement began is not picked.
macro_rules! pick {
    ($only_if:expr, $skip:literal) => {
        concat!(
            "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
candidates AS MATERIALIZED (
  SELECT * FROM (
    ",
            best!("$2"),
            "
    UNION ALL
    ",
            best!("'*'"),
            ") bound
  WHERE ",
            $only_if,
            "
  ORDER BY priority DESC, last_used_at NULLS FIRST, credential_id LIMIT 64),
chosen AS MATERIALIZED (
  SELECT s.credential_id, n.last_used_at
  FROM candidates n JOIN ing_credential_state s ON s.credential_id = n.credential_id
  WHERE n.priority = (SELECT max(priority) FROM candidates) AND s.priority = n.priority AND s.version = n.version
    AND s.last_used_at IS NOT DISTINCT FROM n.last_used_at AND ",
            ready!("s."),
            "
  ORDER BY n.last_used_at NULLS FIRST, n.credential_id
  LIMIT cardinality($5::text[])
  FOR UPDATE OF s",
            $skip,
            "),
ordered AS MATERIALIZED (
  SELECT credential_id, (row_number() OVER (ORDER BY last_used_at NULLS FIRST, credential_id))::int AS place FROM chosen),
used AS (
  UPDATE ing_credential_state s
  SET daily_used = CASE WHEN s.used_day >= $3 THEN s.daily_used ELSE 0 END + 1, used_day = greatest(s.used_day, $3),
    last_used_at = moment.now, in_use = s.in_use + CASE WHEN s.max_parallel > 0 THEN 1 ELSE 0 END,
    updated_at = moment.now
  FROM moment, ordered
  WHERE s.credential_id = ordered.credential_id
  RETURNING s.*, ordered.place),
leased AS (
  INSERT INTO ing_cookie_lease (credential_id, provenance_code, holder, expires_at)
  SELECT credential_id, $1, ($5::text[])[place], last_used_at + $6::bigint * interval '1 microsecond' FROM used WHERE max_parallel > 0)
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at, s.max_parallel > 0
FROM used s JOIN reg_prov_credential c ON c.id = s.credential_id
ORDER BY s.place"
        )
    };
}

/// Whether time has not changed the state of any cookie of the source: the first row of each index decides.
macro_rules! nothing_is_due {
    () => {
        "coalesce((SELECT expires_at FROM ing_cookie_lease WHERE provenance_code = $1 ORDER BY expires_at LIMIT 1)
      > (SELECT now FROM moment), true)
    AND coalesce((SELECT cooling_until FROM ing_credential_state
      WHERE provenance_code = $1 AND cooling_until IS NOT NULL
      ORDER BY cooling_until LIMIT 1) > (SELECT now FROM moment), true)
    AND coalesce((SELECT cookie_expires_at FROM ing_credential_state
      WHERE provenance_code = $1 AND cookie_expires_at IS NOT NULL AND expired = 0
      ORDER BY cookie_expires_at LIMIT 1) > (SELECT now FROM moment), true)
    AND coalesce((SELECT used_day FROM ing_credential_state
      WHERE provenance_code = $1 AND daily_used > 0 AND daily_used >= daily_limit
      ORDER BY used_day LIMIT 1) >= $3, true)"
    };
}

pub(crate) const PICK: &str = pick!(nothing_is_due!(), " SKIP LOCKED");

pub(crate) const PICK_AND_WAIT: &str = pick!("true", "");

/// Whether a cookie is left that a pick may take, and whether uses are in progress.
const IS_ANY_LEFT: &str = concat!(
    "
SELECT EXISTS (SELECT 1 FROM ing_credential_state WHERE endpoint_name IN ($2, '*') AND ",
    ready!(""),
    " AND cookie_name <> ALL ($3::text[])),
  EXISTS (SELECT 1 FROM ing_cookie_lease WHERE provenance_code = $1)"
);

const END_LEASES: &str = "
WITH ended AS (
  DELETE FROM ing_cookie_lease WHERE provenance_code = $1 AND expires_at <= $2 RETURNING credential_id),
counted AS MATERIALIZED (SELECT credential_id, count(*) AS uses FROM ended GROUP BY credential_id),
locked AS MATERIALIZED (
  SELECT s.credential_id, counted.uses
  FROM ing_credential_state s JOIN counted ON counted.credential_id = s.credential_id
  ORDER BY s.credential_id
  FOR UPDATE OF s)
UPDATE ing_credential_state s SET in_use = greatest(s.in_use - locked.uses, 0), updated_at = $2
FROM locked WHERE s.credential_id = locked.credential_id";

const END_LEASES_OF: &str = "
WITH ended AS (DELETE FROM ing_cookie_lease WHERE credential_id = $1 AND expires_at <= $2 RETURNING id)
UPDATE ing_credential_state
SET in_use = greatest(in_use - (SELECT count(*) FROM ended), 0), updated_at = $2
WHERE credential_id = $1 AND EXISTS (SELECT 1 FROM ended)";

const RELEASE: &str = "
WITH ended AS (DELETE FROM ing_cookie_lease WHERE holder = $1 RETURNING credential_id)
UPDATE ing_credential_state SET in_use = greatest(in_use - 1, 0), updated_at = clock_timestamp()
WHERE credential_id = (SELECT credential_id FROM ended)
RETURNING id";

const LEASE: &str = "
INSERT INTO ing_cookie_lease (credential_id, provenance_code, holder, expires_at) VALUES ($1, $2, $3, $4)";

/// Brings the cookies of a source up to date. Rows are locked in the order of their credentials.
pub(crate) const REFRESH: &str = "
WITH due AS MATERIALIZED (
  SELECT credential_id FROM ing_credential_state
  WHERE provenance_code = $1 AND cooling_until IS NOT NULL AND cooling_until <= $2
  UNION
  SELECT credential_id FROM ing_credential_state
  WHERE provenance_code = $1 AND cookie_expires_at IS NOT NULL AND expired = 0 AND cookie_expires_at <= $2
  UNION
  SELECT credential_id FROM ing_credential_state
  WHERE provenance_code = $1 AND daily_used > 0 AND daily_used >= daily_limit AND used_day < $3),
locked AS MATERIALIZED (
  SELECT s.credential_id,
    coalesce(s.cooling_until <= $2, false) AS cooled,
    s.daily_used > 0 AND s.daily_used >= s.daily_limit AND s.used_day < $3 AS next_day
  FROM ing_credential_state s JOIN due ON due.credential_id = s.credential_id
  ORDER BY s.credential_id
  FOR UPDATE OF s)
UPDATE ing_credential_state s
SET cookie_code = CASE WHEN cooled THEN 'active' ELSE s.cookie_code END,
  cooling_until = CASE WHEN cooled THEN NULL ELSE s.cooling_until END,
  cooling_since = CASE WHEN cooled THEN NULL ELSE s.cooling_since END,
  daily_used = CASE WHEN next_day THEN 0 ELSE s.daily_used END,
  used_day = CASE WHEN next_day THEN $3 ELSE s.used_day END,
  expired = CASE WHEN s.cookie_expires_at <= $2 THEN 1 ELSE 0 END,
  updated_at = CASE WHEN cooled OR next_day THEN $2 ELSE s.updated_at END
FROM locked WHERE s.credential_id = locked.credential_id";

const READ_NAMED: &str = "
SELECT credential_id FROM ing_credential_state
WHERE provenance_code = $1 AND cookie_name = $2 AND endpoint_name IN ($3, '*')";

const READ_PICKED: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.id = $1";

/// The numbers of the cookies that are bound to an endpoint.
pub(crate) const COUNT: &str = concat!(
    "
SELECT ",
    crate::query::cookie_kind!("$3::timestamptz"),
    " AS kind, count(*), min(cooling_until)
FROM ing_credential_state
WHERE provenance_code = $1 AND endpoint_name IN ($2, '*')
GROUP BY kind"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LOCK_POOL,
    PICK,
    PICK_AND_WAIT,
    IS_ANY_LEFT,
    END_LEASES,
    END_LEASES_OF,
    RELEASE,
    LEASE,
    REFRESH,
    READ_NAMED,
    READ_PICKED,
    COUNT,
];

pub(super) async fn pick(session: &Session, op: &PickCookie) -> Result<CookiePicked, Fail> {
    if let Some(name) = &op.name {
        return pick_named(session, op, name).await;
    }
    match pick_free(session, &[op]).await?.pop() {
        Some(picked) => Ok(picked),
        None => pick_and_wait(session, op).await,
    }
}

/// Picks for operations of which each [`joins`] the first. One that no free cookie is left for is [`TxError::Busy`].
pub(super) async fn pick_together(
    session: &Session,
    ops: &[&PickCookie],
) -> Result<Vec<Result<CookiePicked, TxError>>, Fail> {
    let picked = pick_free(session, ops).await?;
    Ok(picked.into_iter().map(Ok).chain(std::iter::repeat_with(|| Err(TxError::Busy))).take(ops.len()).collect())
}

/// Whether two picks differ only in their holders, so that one statement serves both.
pub(crate) fn joins(first: &PickCookie, other: &PickCookie) -> bool {
    let PickCookie { provenance_code, endpoint_name, name, exclude, day, check: _, holder: _, lease } = other;
    name.is_none()
        && first.provenance_code == *provenance_code
        && first.endpoint_name == *endpoint_name
        && first.exclude == *exclude
        && first.day == *day
        && first.lease == *lease
}

/// Cookies for the first of these picks, in order: for as many as cookies are free.
async fn pick_free(session: &Session, ops: &[&PickCookie]) -> Result<Vec<CookiePicked>, Fail> {
    let Some(op) = ops.first() else { return Ok(Vec::new()) };
    let [pick] = session.prepare([PICK]).await?;
    let (day, lease) = (Time(op.day), micros(op.lease));
    let (source, endpoint) = (&op.provenance_code, &op.endpoint_name);
    let holders: Vec<&str> = ops.iter().map(|op| op.holder.as_str()).collect();
    let rows = session.alone(&pick, &[source, endpoint, &day, &op.exclude, &holders, &lease]).await?;
    rows.iter().map(picked).collect()
}

async fn pick_and_wait(session: &Session, op: &PickCookie) -> Result<CookiePicked, Fail> {
    let [lock_pool, now, end_leases, refresh] = session.prepare([LOCK_POOL, NOW, END_LEASES, REFRESH]).await?;
    let [pick, is_any_left, count_all] = session.prepare([PICK_AND_WAIT, IS_ANY_LEFT, COUNT]).await?;
    let (day, lease) = (Time(op.day), micros(op.lease));
    let (source, endpoint) = (&op.provenance_code, &op.endpoint_name);
    let holders = vec![op.holder.as_str()];
    let ((), _) = pipeline!(session.begin(), session.one(&lock_pool, &[source]))?;
    for _ in 0..MAX_ROUNDS {
        let now = moment(session, &now).await?;
        let (_, _, row) = pipeline!(
            session.write(&end_leases, &[source, &now]),
            session.write(&refresh, &[source, &now, &day]),
            session.opt(&pick, &[source, endpoint, &day, &op.exclude, &holders, &lease]),
        )?;
        if let Some(row) = row {
            let picked = picked(&row)?;
            session.commit().await?;
            return Ok(picked);
        }
        let (left, rows) = pipeline!(
            session.one(&is_any_left, &[source, endpoint, &op.exclude]),
            session.rows(&count_all, &[source, endpoint, &now]),
        )?;
        if left.try_get(0)? {
            continue;
        }
        session.commit().await?;
        let mut totals = CookieTotals::default();
        for row in &rows {
            totals.add_many(row.try_get(0)?, count(row.try_get(1)?), maybe(row, 2)?);
        }
        let CookieTotals { counts, next_active_at } = totals;
        return Ok(CookiePicked::Exhausted { counts, next_active_at, in_use: left.try_get(1)? });
    }
    Err(TxError::Busy.into())
}

fn picked(row: &Row) -> Result<CookiePicked, Fail> {
    let credential: Credential = read_credential(row)?;
    let now = row.try_get::<_, Time>(15)?.0;
    Ok(CookiePicked::Picked { credential: Box::new(credential), now, leased: row.try_get(16)? })
}

async fn pick_named(session: &Session, op: &PickCookie, name: &str) -> Result<CookiePicked, Fail> {
    let [named, now, end_leases, read] = session.prepare([READ_NAMED, NOW, END_LEASES_OF, READ_PICKED]).await?;
    let [insert_lease] = session.prepare([LEASE]).await?;
    let ((), row, now) = pipeline!(
        session.begin(),
        session.opt(&named, &[&op.provenance_code, &name, &op.endpoint_name]),
        moment(session, &now),
    )?;
    let id: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    let mut usage: Option<CookieUsage> = None;
    if let Some(id) = id {
        session.write(&end_leases, &[&id, &now]).await?;
        usage = lock(session, id).await?.map(|(_, usage)| usage);
    }
    let (Some(id), Some(usage)) = (id, usage) else {
        session.commit().await?;
        return Ok(CookiePicked::Unknown);
    };
    if let Some(refused) = op.refused(&usage, now.0) {
        session.commit().await?;
        return Ok(refused);
    }
    let leased = usage.max_parallel > 0;
    write(session, id, &usage.used(now.0, op.day), now).await?;
    if leased {
        let until = Time(now.0 + op.lease);
        session.write(&insert_lease, &[&id, &op.provenance_code, &op.holder, &until]).await?;
    }
    let credential = read_credential(&session.one(&read, &[&id]).await?)?;
    session.commit().await?;
    Ok(CookiePicked::Picked { credential: Box::new(credential), now: now.0, leased })
}

pub(super) async fn release(session: &Session, op: &ReleaseCookie) -> Result<CookieReleased, Fail> {
    let [release] = session.prepare([RELEASE]).await?;
    let rows = session.alone(&release, &[&op.holder]).await?;
    Ok(CookieReleased { released: !rows.is_empty() })
}

fn micros(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

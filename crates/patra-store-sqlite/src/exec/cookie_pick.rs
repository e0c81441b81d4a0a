//! Picks a cookie for one request, with one statement that reads one index. The statement repeats
//! `CookieUsage::is_selectable` and `CookieUsage::used` of the core; the reference model of the tests uses those.

use patra_core::Ts;
use patra_core::credential::Credential;
use patra_core::tx::{CookiePicked, CookieReleased, PickCookie, ReleaseCookie};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::cookie::{read, write};
use super::credential::read_credential;
use crate::error::Result;
use crate::query::read_totals;

/// The condition of `idx_cookie_ready`.
macro_rules! ready {
    () => {
        "provenance_code = ?1 AND cookie_code = 'active' AND daily_used < daily_limit
    AND (max_parallel = 0 OR in_use < max_parallel) AND paused_at IS NULL AND expired = 0"
    };
}

/// The best cookie that is bound to `$endpoint`.
macro_rules! best {
    ($endpoint:literal) => {
        concat!(
            "SELECT * FROM (
    SELECT credential_id, priority, last_used_at FROM ing_credential_state INDEXED BY idx_cookie_ready
    WHERE endpoint_name = ",
            $endpoint,
            " AND ",
            ready!(),
            "
      AND cookie_name NOT IN (SELECT value FROM json_each(?5))
    ORDER BY priority DESC, last_used_at, credential_id LIMIT 1)"
        )
    };
}

pub(crate) const PICK: &str = concat!(
    "
UPDATE ing_credential_state
SET daily_used = iif(used_day >= ?3, daily_used, 0) + 1, used_day = max(coalesce(used_day, ?3), ?3), last_used_at = ?4,
    in_use = in_use + (max_parallel > 0), updated_at = ?4
WHERE credential_id = (
  SELECT credential_id FROM (
  ",
    best!("?2"),
    "
  UNION ALL
  ",
    best!("'*'"),
    ")
  ORDER BY priority DESC, last_used_at, credential_id LIMIT 1)
RETURNING credential_id, max_parallel > 0"
);

/// Whether the state of a cookie of the source changes with the time that has passed.
pub(crate) const IS_DUE: &str = "
SELECT EXISTS (SELECT 1 FROM ing_cookie_lease WHERE provenance_code = ?1 AND expires_at <= ?3)
  OR EXISTS (SELECT 1 FROM ing_credential_state INDEXED BY idx_cookie_cooled
    WHERE provenance_code = ?1 AND cooling_until IS NOT NULL AND cooling_until <= ?3)
  OR EXISTS (SELECT 1 FROM ing_credential_state INDEXED BY idx_cookie_expiry
    WHERE provenance_code = ?1 AND cookie_expires_at IS NOT NULL AND cookie_expires_at <= ?3 AND expired = 0)
  OR EXISTS (SELECT 1 FROM ing_credential_state INDEXED BY idx_cookie_spent
    WHERE provenance_code = ?1 AND used_day < ?2 AND daily_used > 0 AND daily_used >= daily_limit)";

const COOLED: &str = "
UPDATE ing_credential_state INDEXED BY idx_cookie_cooled
SET cookie_code = 'active', cooling_until = NULL, cooling_since = NULL, updated_at = ?2
WHERE provenance_code = ?1 AND cooling_until IS NOT NULL AND cooling_until <= ?2";

const EXPIRED: &str = "
UPDATE ing_credential_state INDEXED BY idx_cookie_expiry SET expired = 1
WHERE provenance_code = ?1 AND cookie_expires_at IS NOT NULL AND cookie_expires_at <= ?2 AND expired = 0";

const NEW_DAY: &str = "
UPDATE ing_credential_state INDEXED BY idx_cookie_spent SET daily_used = 0, used_day = ?3, updated_at = ?2
WHERE provenance_code = ?1 AND used_day < ?3 AND daily_used > 0 AND daily_used >= daily_limit";

const END_LEASES: &str = "
DELETE FROM ing_cookie_lease WHERE provenance_code = ?1 AND expires_at <= ?2 RETURNING credential_id";

const END_LEASES_OF: &str = "
DELETE FROM ing_cookie_lease WHERE credential_id = ?1 AND expires_at <= ?2 RETURNING credential_id";

const RELEASE: &str = "DELETE FROM ing_cookie_lease WHERE holder = ?1 RETURNING credential_id";

const FREE: &str = "
UPDATE ing_credential_state SET in_use = max(in_use - 1, 0), updated_at = ?2 WHERE credential_id = ?1";

const LEASE: &str = "
INSERT INTO ing_cookie_lease (credential_id, provenance_code, holder, expires_at) VALUES (?1, ?2, ?3, ?4)";

const IS_LEASED: &str = "SELECT 1 FROM ing_cookie_lease WHERE provenance_code = ?1";

const READ_PICKED: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.id = ?1";

const READ_NAMED: &str = "
SELECT credential_id FROM ing_credential_state
WHERE provenance_code = ?1 AND cookie_name = ?2 AND endpoint_name IN (?3, '*')";

/// The numbers of the cookies that are bound to an endpoint.
pub(crate) const COUNT: &str = concat!(
    "
SELECT ",
    crate::query::cookie_kind!("?3"),
    " AS kind, count(*), min(cooling_until)
FROM ing_credential_state INDEXED BY idx_cookie_count
WHERE provenance_code = ?1 AND endpoint_name IN (?2, '*')
GROUP BY kind"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    PICK,
    IS_DUE,
    COOLED,
    EXPIRED,
    NEW_DAY,
    END_LEASES,
    END_LEASES_OF,
    RELEASE,
    FREE,
    LEASE,
    IS_LEASED,
    READ_PICKED,
    READ_NAMED,
    COUNT,
];

pub(super) fn pick(db: &Connection, op: &PickCookie, now: Ts) -> Result<CookiePicked> {
    if let Some(name) = &op.name {
        return pick_named(db, op, name, now);
    }
    let (source, moment) = (&op.provenance_code, now.micros());
    let is_due: bool =
        db.prepare_cached(IS_DUE)?.query_row(params![source, op.day.micros(), moment], |row| row.get(0))?;
    if is_due {
        end_leases(db, END_LEASES, source, now)?;
        db.prepare_cached(COOLED)?.execute(params![source, moment])?;
        db.prepare_cached(EXPIRED)?.execute(params![source, moment])?;
        db.prepare_cached(NEW_DAY)?.execute(params![source, moment, op.day.micros()])?;
    }
    let exclude = serde_json::json!(op.exclude).to_string();
    let values = params![source, op.endpoint_name, op.day.micros(), moment, exclude];
    let picked: Option<(i64, bool)> =
        db.prepare_cached(PICK)?.query_row(values, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    match picked {
        Some((id, leased)) => Ok(picked_cookie(db, op, id, leased, now)?),
        None => {
            let mut statement = db.prepare_cached(COUNT)?;
            let totals = read_totals(statement.query(params![source, op.endpoint_name, moment])?, 0)?;
            let in_use = db.prepare_cached(IS_LEASED)?.exists([source])?;
            Ok(CookiePicked::Exhausted { counts: totals.counts, next_active_at: totals.next_active_at, in_use })
        }
    }
}

fn pick_named(db: &Connection, op: &PickCookie, name: &str, now: Ts) -> Result<CookiePicked> {
    let named =
        db.prepare_cached(READ_NAMED)?.query_row([&op.provenance_code, name, &op.endpoint_name], |row| row.get(0));
    let Some(id): Option<i64> = named.optional()? else { return Ok(CookiePicked::Unknown) };
    end_leases(db, END_LEASES_OF, &id, now)?;
    let Some((_, usage)) = read(db, id)? else { return Ok(CookiePicked::Unknown) };
    if let Some(refused) = op.refused(&usage, now) {
        return Ok(refused);
    }
    write(db, id, &usage.used(now, op.day), now)?;
    picked_cookie(db, op, id, usage.max_parallel > 0, now)
}

fn picked_cookie(db: &Connection, op: &PickCookie, id: i64, leased: bool, now: Ts) -> Result<CookiePicked> {
    if leased {
        let values = params![id, op.provenance_code, op.holder, (now + op.lease).micros()];
        db.prepare_cached(LEASE)?.execute(values)?;
    }
    let credential: Credential = db.prepare_cached(READ_PICKED)?.query_row([id], read_credential)?;
    Ok(CookiePicked::Picked { credential: Box::new(credential), now, leased })
}

/// Ends the uses whose lease is over.
fn end_leases(db: &Connection, statement: &str, of: &dyn rusqlite::ToSql, now: Ts) -> Result<()> {
    let mut statement = db.prepare_cached(statement)?;
    let ended: Vec<i64> =
        statement.query_map(params![of, now.micros()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for id in ended {
        db.prepare_cached(FREE)?.execute(params![id, now.micros()])?;
    }
    Ok(())
}

pub(super) fn release(db: &Connection, op: &ReleaseCookie, now: Ts) -> Result<CookieReleased> {
    let freed: Option<i64> = db.prepare_cached(RELEASE)?.query_row([&op.holder], |row| row.get(0)).optional()?;
    if let Some(id) = freed {
        db.prepare_cached(FREE)?.execute(params![id, now.micros()])?;
    }
    Ok(CookieReleased { released: freed.is_some() })
}

//! Cookies: their values and their usage, which the core computes. [`super::cookie_pick`] picks them.

use patra_core::cookie::{CookieUsage, DEFAULT_DAILY_LIMIT, DEFAULT_PRIORITY};
use patra_core::credential::{Binding, CredentialRuntime};
use patra_core::state::TokenStatus;
use patra_core::tx::{
    CookieOutcomeRecorded, CookiePaused, CookieReactivated, CookieSaved, PauseCookie, ReactivateCookie,
    RecordCookieOutcome, Reseal, Resealed, SaveCookie, SealedText, TxError,
};
use patra_core::{CredentialId, Ts};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::credential::read_state;
use crate::error::Result;
use crate::sql::{maybe_time, word};

const READ_NAMED: &str = "
SELECT id, alias, provenance_code, endpoint_name, version, sealed
FROM reg_prov_credential
WHERE alias = ?1 AND type_code = 'COOKIE' AND status_code = 'ACTIVE'";

const READ_NEWEST: &str = "
SELECT coalesce(max(version), 0) FROM reg_prov_credential WHERE alias = ?1 AND provenance_code = ?2 AND endpoint_name = ?3";

const INSERT: &str = "
INSERT INTO reg_prov_credential
  (alias, provenance_code, endpoint_name, version, type_code, priority, sealed, key_id, status_code, daily_limit,
   created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, 'COOKIE', ?5, ?6, ?7, 'ACTIVE', ?8, ?9, ?9)
RETURNING id";

const CHANGE: &str = "
UPDATE reg_prov_credential
SET sealed = coalesce(?2, sealed), key_id = coalesce(?3, key_id), priority = coalesce(?4, priority),
    daily_limit = coalesce(?5, daily_limit), updated_at = ?6
WHERE id = ?1";

// The runtime half copies what a pick reads of the definition.
const MAKE_STATE: &str = "
INSERT INTO ing_credential_state
  (credential_id, status_code, cookie_name, provenance_code, endpoint_name, priority, daily_limit, updated_at)
SELECT id, 'ACTIVE', alias, provenance_code, endpoint_name, priority, coalesce(daily_limit, ?3), ?2
FROM reg_prov_credential
WHERE id = ?1 AND status_code = 'ACTIVE' AND type_code = 'COOKIE'
ON CONFLICT (credential_id) DO NOTHING";

const CHANGE_STATE: &str = "
UPDATE ing_credential_state
SET priority = coalesce(?2, priority), daily_limit = coalesce(?3, daily_limit),
    max_parallel = coalesce(?4, max_parallel),
    cookie_expires_at = iif(?6, ?5, coalesce(?5, cookie_expires_at)),
    expired = coalesce(iif(?6, ?5, coalesce(?5, cookie_expires_at)) <= ?7, 0)
WHERE credential_id = ?1";

const PAUSE: &str = "
UPDATE ing_credential_state SET paused_at = iif(?2, ?3, NULL), updated_at = ?3
WHERE credential_id = ?1 AND (paused_at IS NOT NULL) <> ?2";

const READ_STATE: &str = "
SELECT s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at,
  s.daily_limit, s.cookie_code, s.daily_used, s.used_day, s.consecutive_errors, s.total_errors, s.cooling_until,
  s.cooling_since, s.last_used_at, s.cookie_expires_at, s.paused_at, s.max_parallel, s.in_use
FROM ing_credential_state s JOIN reg_prov_credential c ON c.id = s.credential_id
WHERE s.credential_id = ?1 AND c.type_code = 'COOKIE' AND c.status_code = 'ACTIVE'";

const READ_RESTED: &str = "
SELECT s.credential_id
FROM ing_credential_state s JOIN reg_prov_credential c ON c.id = s.credential_id
WHERE s.cooling_until <= ?1 AND c.status_code = 'ACTIVE'";

const WRITE_WEAR: &str = "
UPDATE ing_credential_state
SET cookie_code = ?2, daily_used = ?3, used_day = ?4, consecutive_errors = ?5, total_errors = ?6, cooling_until = ?7,
    cooling_since = ?8, last_used_at = ?9, in_use = ?10, updated_at = ?11
WHERE credential_id = ?1";

const WRITE_LAST_ERROR: &str = "UPDATE ing_credential_state SET last_error = ?2 WHERE credential_id = ?1";

const RESET: &str = "
UPDATE ing_credential_state
SET version = version + ?2, status_code = 'ACTIVE', fail_count = 0, last_error = NULL
WHERE credential_id = ?1";

const RESEAL: &str = "
UPDATE reg_prov_credential SET sealed = ?3, key_id = ?4, updated_at = ?5
WHERE id = ?1 AND sealed = ?2 AND status_code = 'ACTIVE'";

const RESEAL_TOKEN: &str = "
UPDATE ing_credential_state SET sealed = ?3, key_id = ?4, updated_at = ?5
WHERE credential_id = ?1 AND sealed = ?2
  AND EXISTS (SELECT 1 FROM reg_prov_credential WHERE id = ?1 AND status_code = 'ACTIVE')";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_NAMED,
    READ_NEWEST,
    INSERT,
    CHANGE,
    MAKE_STATE,
    CHANGE_STATE,
    PAUSE,
    READ_STATE,
    READ_RESTED,
    WRITE_WEAR,
    WRITE_LAST_ERROR,
    RESET,
    RESEAL,
    RESEAL_TOKEN,
];

/// The ACTIVE cookie of a name.
struct Named {
    id: i64,
    binding: Binding,
    version: i64,
    sealed: String,
}

fn read_named(db: &Connection, name: &str) -> Result<Option<Named>> {
    let named = db.prepare_cached(READ_NAMED)?.query_row([name], |row| {
        let binding = Binding { alias: row.get(1)?, provenance_code: row.get(2)?, endpoint_name: row.get(3)? };
        Ok(Named { id: row.get(0)?, binding, version: row.get(4)?, sealed: row.get(5)? })
    });
    Ok(named.optional()?)
}

pub(super) fn is_taken(db: &Connection, name: &str) -> Result<bool> {
    Ok(db.prepare_cached(READ_NAMED)?.exists([name])?)
}

/// Reads thirteen columns from `at` on, in the order of [`READ_STATE`].
pub(crate) fn read_usage(row: &Row<'_>, at: usize) -> rusqlite::Result<CookieUsage> {
    Ok(CookieUsage {
        daily_limit: row.get(at)?,
        status: word(row, at + 1)?,
        daily_used: row.get(at + 2)?,
        day: maybe_time(row, at + 3)?,
        consecutive_errors: row.get(at + 4)?,
        total_errors: row.get(at + 5)?,
        cooling_until: maybe_time(row, at + 6)?,
        cooling_since: maybe_time(row, at + 7)?,
        last_used_at: maybe_time(row, at + 8)?,
        expires_at: maybe_time(row, at + 9)?,
        paused_at: maybe_time(row, at + 10)?,
        max_parallel: row.get(at + 11)?,
        in_use: row.get(at + 12)?,
    })
}

pub(super) fn read(db: &Connection, id: i64) -> Result<Option<(CredentialRuntime, CookieUsage)>> {
    let found = db.prepare_cached(READ_STATE)?.query_row([id], |row| Ok((read_state(row, 0)?, read_usage(row, 7)?)));
    Ok(found.optional()?)
}

pub(super) fn write(db: &Connection, id: i64, usage: &CookieUsage, now: Ts) -> Result<()> {
    db.prepare_cached(WRITE_WEAR)?.execute(params![
        id,
        usage.status.as_str(),
        usage.daily_used,
        usage.day.map(Ts::micros),
        usage.consecutive_errors,
        usage.total_errors,
        usage.cooling_until.map(Ts::micros),
        usage.cooling_since.map(Ts::micros),
        usage.last_used_at.map(Ts::micros),
        usage.in_use,
        now.micros(),
    ])?;
    Ok(())
}

/// Resets the usage after a check by a person, or after the value was replaced.
fn reset(db: &Connection, id: i64, replaced: bool, now: Ts) -> Result<()> {
    let Some((state, usage)) = read(db, id)? else { return Ok(()) };
    let has_failed = state.status != TokenStatus::Active || state.fail_count > 0 || state.last_error.is_some();
    let reactivated = usage.reactivated();
    if replaced || has_failed || reactivated != usage {
        db.prepare_cached(RESET)?.execute(params![id, replaced])?;
        write(db, id, &reactivated, now)?;
    }
    Ok(())
}

pub(super) fn save(db: &Connection, op: &SaveCookie, now: Ts) -> Result<CookieSaved> {
    let Some(known) = read_named(db, &op.binding.alias)? else {
        return Ok(CookieSaved { id: insert(db, op, now)?, created: true });
    };
    if known.binding != op.binding || known.version != op.version {
        return Err(TxError::Conflict.into());
    }
    let value = op.value.as_ref().filter(|value| value.text != known.sealed);
    let (text, key) = (value.map(|value| &value.text), value.map(|value| &value.key_id));
    let values = params![known.id, text, key, op.priority, op.daily_limit, now.micros()];
    db.prepare_cached(CHANGE)?.execute(values)?;
    make_state(db, known.id, now)?;
    change_state(db, known.id, op, value.is_some(), now)?;
    if value.is_some() {
        reset(db, known.id, true, now)?;
    }
    Ok(CookieSaved { id: CredentialId(known.id), created: false })
}

fn insert(db: &Connection, op: &SaveCookie, now: Ts) -> Result<CredentialId> {
    let Binding { alias, provenance_code, endpoint_name } = &op.binding;
    let newest: i64 =
        db.prepare_cached(READ_NEWEST)?.query_row([alias, provenance_code, endpoint_name], |row| row.get(0))?;
    let Some(SealedText { text, key_id }) = op.value.as_ref().filter(|_| op.version == newest + 1) else {
        return Err(TxError::Conflict.into());
    };
    let priority = op.priority.unwrap_or(DEFAULT_PRIORITY);
    let values = params![
        alias,
        provenance_code,
        endpoint_name,
        op.version,
        priority,
        text,
        key_id,
        op.daily_limit,
        now.micros(),
    ];
    let id = db.prepare_cached(INSERT)?.query_row(values, |row| row.get(0))?;
    make_state(db, id, now)?;
    change_state(db, id, op, true, now)?;
    Ok(CredentialId(id))
}

/// Makes the runtime half of a cookie, without which it cannot be picked.
pub(super) fn make_state(db: &Connection, id: i64, now: Ts) -> Result<()> {
    db.prepare_cached(MAKE_STATE)?.execute(params![id, now.micros(), DEFAULT_DAILY_LIMIT])?;
    Ok(())
}

fn change_state(db: &Connection, id: i64, op: &SaveCookie, replaced: bool, now: Ts) -> Result<()> {
    let expires_at = op.expires_at.map(Ts::micros);
    let values = params![id, op.priority, op.daily_limit, op.max_parallel, expires_at, replaced, now.micros()];
    db.prepare_cached(CHANGE_STATE)?.execute(values)?;
    Ok(())
}

pub(super) fn record_outcome(db: &Connection, op: &RecordCookieOutcome, now: Ts) -> Result<CookieOutcomeRecorded> {
    let id = op.credential.0;
    let found = read(db, id)?.filter(|(state, _)| state.version == op.seen_version);
    let Some((state, usage)) = found else { return Ok(CookieOutcomeRecorded { before: None, after: None }) };
    let (after, last_error) = op.apply(&usage, state.last_error, now);
    write(db, id, &after, now)?;
    db.prepare_cached(WRITE_LAST_ERROR)?.execute(params![id, last_error])?;
    Ok(CookieOutcomeRecorded { before: Some(usage.status), after: Some(after.status) })
}

pub(super) fn reactivate(db: &Connection, op: &ReactivateCookie, now: Ts) -> Result<CookieReactivated> {
    let Some(named) = read_named(db, &op.name)? else { return Ok(CookieReactivated { id: None }) };
    reset(db, named.id, false, now)?;
    Ok(CookieReactivated { id: Some(CredentialId(named.id)) })
}

pub(super) fn pause(db: &Connection, op: &PauseCookie, now: Ts) -> Result<CookiePaused> {
    let Some(named) = read_named(db, &op.name)? else { return Ok(CookiePaused { id: None }) };
    db.prepare_cached(PAUSE)?.execute(params![named.id, op.paused, now.micros()])?;
    Ok(CookiePaused { id: Some(CredentialId(named.id)) })
}

pub(super) fn reseal(db: &Connection, op: &Reseal, now: Ts) -> Result<Resealed> {
    let statement = if op.token { RESEAL_TOKEN } else { RESEAL };
    let values = params![op.credential.0, op.old, op.new.text, op.new.key_id, now.micros()];
    Ok(Resealed { resealed: db.prepare_cached(statement)?.execute(values)? == 1 })
}

/// Reactivates cookies whose cooling has ended and returns their number.
pub(super) fn rest(db: &Connection, now: Ts) -> Result<u64> {
    let mut statement = db.prepare_cached(READ_RESTED)?;
    let ids: Vec<i64> = statement.query_map([now.micros()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut rested = 0;
    for id in ids {
        let Some((_, usage)) = read(db, id)? else { continue };
        write(db, id, &usage.after_cooling(now), now)?;
        rested += 1;
    }
    Ok(rested)
}

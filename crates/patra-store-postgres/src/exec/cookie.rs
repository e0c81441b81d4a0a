//! Cookies: their values and their usage, which the core computes. [`super::cookie_pick`] picks them.
//! The order of locks: name or source, binding, definition, runtime half.

use patra_core::CredentialId;
use patra_core::cookie::{CookieUsage, DEFAULT_DAILY_LIMIT, DEFAULT_PRIORITY};
use patra_core::credential::{Binding, CredentialRuntime};
use patra_core::state::TokenStatus;
use patra_core::tx::{
    CookieOutcomeRecorded, CookiePaused, CookieReactivated, CookieSaved, PauseCookie, ReactivateCookie,
    RecordCookieOutcome, Reseal, Resealed, SaveCookie, SealedText, TxError,
};
use tokio_postgres::Row;

use super::credential::{self, read_state};
use super::{NOW, count, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe};

/// Serializes writers of a name, so that it is still free when the cookie is written.
pub(super) const LOCK_NAME: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' cookie ' || $1::text, 0))";

pub(super) const NAMED: &str = "
SELECT id, alias, provenance_code, endpoint_name, version, sealed
FROM reg_prov_credential
WHERE alias = $1 AND type_code = 'COOKIE' AND status_code = 'ACTIVE'
FOR UPDATE";

const NEWEST: &str = "
SELECT coalesce(max(version), 0) FROM reg_prov_credential WHERE alias = $1 AND provenance_code = $2 AND endpoint_name = $3";

const INSERT: &str = "
INSERT INTO reg_prov_credential
  (alias, provenance_code, endpoint_name, version, type_code, priority, sealed, key_id, status_code, daily_limit,
   created_at, updated_at)
VALUES ($1, $2, $3, $4, 'COOKIE', $5, $6, $7, 'ACTIVE', $8, $9, $9)
RETURNING id";

const CHANGE: &str = "
UPDATE reg_prov_credential
SET sealed = coalesce($2, sealed), key_id = coalesce($3, key_id), priority = coalesce($4, priority),
  daily_limit = coalesce($5, daily_limit), updated_at = $6
WHERE id = $1";

/// The runtime half copies what a pick reads of the definition.
pub(super) const MAKE_STATE: &str = "
INSERT INTO ing_credential_state
  (credential_id, status_code, cookie_name, provenance_code, endpoint_name, priority, daily_limit, updated_at)
SELECT id, 'ACTIVE', alias, provenance_code, endpoint_name, priority, coalesce(daily_limit, $2), updated_at
FROM reg_prov_credential
WHERE id = $1 AND status_code = 'ACTIVE' AND type_code = 'COOKIE'
ON CONFLICT (credential_id) DO NOTHING";

/// Blocks a revocation until the runtime half is written.
const BLOCK_REVOCATION: &str = "
SELECT id FROM reg_prov_credential WHERE id = $1 AND status_code = 'ACTIVE' AND type_code = 'COOKIE' FOR SHARE";

const CHANGE_STATE: &str = "
UPDATE ing_credential_state
SET priority = coalesce($2, priority), daily_limit = coalesce($3, daily_limit),
  max_parallel = coalesce($4, max_parallel),
  cookie_expires_at = CASE WHEN $6 THEN $5 ELSE coalesce($5, cookie_expires_at) END,
  expired = CASE WHEN CASE WHEN $6 THEN $5 ELSE coalesce($5, cookie_expires_at) END <= $7::timestamptz THEN 1 ELSE 0 END
WHERE credential_id = $1";

const PAUSE: &str = "
UPDATE ing_credential_state SET paused_at = CASE WHEN $2 THEN $3::timestamptz END, updated_at = $3
WHERE credential_id = $1 AND (paused_at IS NOT NULL) <> $2";

const LOCK_STATE: &str = "
SELECT s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at,
  s.daily_limit, s.cookie_code, s.daily_used, s.used_day, s.consecutive_errors, s.total_errors, s.cooling_until,
  s.cooling_since, s.last_used_at, s.cookie_expires_at, s.paused_at, s.max_parallel, s.in_use
FROM ing_credential_state s JOIN reg_prov_credential c ON c.id = s.credential_id
WHERE s.credential_id = $1 AND c.type_code = 'COOKIE' AND c.status_code = 'ACTIVE'
FOR UPDATE OF s";

const RESTED: &str = "
SELECT s.credential_id
FROM ing_credential_state s JOIN reg_prov_credential c ON c.id = s.credential_id
WHERE s.cooling_until <= $1 AND c.status_code = 'ACTIVE'
ORDER BY s.credential_id";

const WRITE_WEAR: &str = "
UPDATE ing_credential_state
SET cookie_code = $2, daily_used = $3, used_day = $4, consecutive_errors = $5, total_errors = $6, cooling_until = $7,
  cooling_since = $8, last_used_at = $9, in_use = $10, updated_at = $11
WHERE credential_id = $1";

const WRITE_LAST_ERROR: &str = "UPDATE ing_credential_state SET last_error = $2 WHERE credential_id = $1";

const RESET: &str = "
UPDATE ing_credential_state
SET version = version + $2::boolean::integer, status_code = 'ACTIVE', fail_count = 0, last_error = NULL
WHERE credential_id = $1";

const RESEAL: &str = "
UPDATE reg_prov_credential SET sealed = $3, key_id = $4, updated_at = clock_timestamp()
WHERE id = $1 AND sealed = $2 AND status_code = 'ACTIVE'
RETURNING id";

const RESEAL_TOKEN: &str = "
UPDATE ing_credential_state SET sealed = $3, key_id = $4, updated_at = clock_timestamp()
WHERE credential_id = $1 AND sealed = $2
  AND EXISTS (SELECT 1 FROM reg_prov_credential WHERE id = $1 AND status_code = 'ACTIVE')
RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LOCK_NAME,
    NAMED,
    NEWEST,
    INSERT,
    CHANGE,
    MAKE_STATE,
    BLOCK_REVOCATION,
    CHANGE_STATE,
    PAUSE,
    LOCK_STATE,
    RESTED,
    WRITE_WEAR,
    WRITE_LAST_ERROR,
    RESET,
    RESEAL,
    RESEAL_TOKEN,
];

/// Reads thirteen columns from `at` on, in the order of [`LOCK_STATE`].
pub(crate) fn read_usage(row: &Row, at: usize) -> Result<CookieUsage, Fail> {
    Ok(CookieUsage {
        daily_limit: count(row.try_get(at)?),
        status: row.try_get::<_, &str>(at + 1)?.parse()?,
        daily_used: count(row.try_get(at + 2)?),
        day: maybe(row, at + 3)?,
        consecutive_errors: count(row.try_get(at + 4)?),
        total_errors: count(row.try_get(at + 5)?),
        cooling_until: maybe(row, at + 6)?,
        cooling_since: maybe(row, at + 7)?,
        last_used_at: maybe(row, at + 8)?,
        expires_at: maybe(row, at + 9)?,
        paused_at: maybe(row, at + 10)?,
        max_parallel: count(row.try_get(at + 11)?),
        in_use: count(row.try_get(at + 12)?),
    })
}

/// Locks and reads the runtime half.
pub(super) async fn lock(session: &Session, id: i64) -> Result<Option<(CredentialRuntime, CookieUsage)>, Fail> {
    let [lock] = session.prepare([LOCK_STATE]).await?;
    let found = session.opt(&lock, &[&id]).await?;
    found.map(|row| Ok((read_state(&row, 0)?, read_usage(&row, 7)?))).transpose()
}

pub(super) async fn write(session: &Session, id: i64, usage: &CookieUsage, now: Time) -> Result<(), Fail> {
    let [write] = session.prepare([WRITE_WEAR]).await?;
    session
        .write(
            &write,
            &[
                &id,
                &usage.status.as_str(),
                &i64::from(usage.daily_used),
                &usage.day.map(Time),
                &i64::from(usage.consecutive_errors),
                &i64::from(usage.total_errors),
                &usage.cooling_until.map(Time),
                &usage.cooling_since.map(Time),
                &usage.last_used_at.map(Time),
                &i64::from(usage.in_use),
                &now,
            ],
        )
        .await?;
    Ok(())
}

/// Resets the usage after a check by a person, or after the value was replaced.
async fn reset(session: &Session, id: i64, replaced: bool, now: Time) -> Result<(), Fail> {
    let [reset] = session.prepare([RESET]).await?;
    let Some((state, usage)) = lock(session, id).await? else { return Ok(()) };
    let has_failed = state.status != TokenStatus::Active || state.fail_count > 0 || state.last_error.is_some();
    let reactivated = usage.reactivated();
    if replaced || has_failed || reactivated != usage {
        session.write(&reset, &[&id, &replaced]).await?;
        write(session, id, &reactivated, now).await?;
    }
    Ok(())
}

pub(super) async fn save(session: &Session, op: &SaveCookie) -> Result<CookieSaved, Fail> {
    let [lock_name, lock_binding, named, now, change] =
        session.prepare([LOCK_NAME, credential::LOCK, NAMED, NOW, CHANGE]).await?;
    let (binding, record) = (&op.binding, op.binding.record(0));
    let ((), _, _, known, now) = pipeline!(
        session.begin(),
        session.one(&lock_name, &[&binding.alias]),
        session.one(&lock_binding, &[&record]),
        session.opt(&named, &[&binding.alias]),
        moment(session, &now),
    )?;
    let Some(known) = known else {
        let id = insert(session, op, now).await?;
        session.commit().await?;
        return Ok(CookieSaved { id, created: true });
    };
    let bound =
        Binding { alias: known.try_get(1)?, provenance_code: known.try_get(2)?, endpoint_name: known.try_get(3)? };
    if bound != op.binding || known.try_get::<_, i64>(4)? != op.version {
        return Err(TxError::Conflict.into());
    }
    let (id, sealed): (i64, &str) = (known.try_get(0)?, known.try_get(5)?);
    let value = op.value.as_ref().filter(|value| value.text != sealed);
    let (text, key) = (value.map(|value| &value.text), value.map(|value| &value.key_id));
    let limit = op.daily_limit.map(i64::from);
    session.write(&change, &[&id, &text, &key, &op.priority, &limit, &now]).await?;
    change_state(session, id, op, value.is_some(), now).await?;
    if value.is_some() {
        reset(session, id, true, now).await?;
    }
    session.commit().await?;
    Ok(CookieSaved { id: CredentialId(id), created: false })
}

async fn insert(session: &Session, op: &SaveCookie, now: Time) -> Result<CredentialId, Fail> {
    let [newest, insert] = session.prepare([NEWEST, INSERT]).await?;
    let Binding { alias, provenance_code, endpoint_name } = &op.binding;
    let newest: i64 = session.one(&newest, &[alias, provenance_code, endpoint_name]).await?.try_get(0)?;
    let Some(SealedText { text, key_id }) = op.value.as_ref().filter(|_| op.version == newest + 1) else {
        return Err(TxError::Conflict.into());
    };
    let (priority, limit) = (op.priority.unwrap_or(DEFAULT_PRIORITY), op.daily_limit.map(i64::from));
    let row = session
        .one(&insert, &[alias, provenance_code, endpoint_name, &op.version, &priority, text, key_id, &limit, &now])
        .await?;
    let id = row.try_get(0)?;
    make_state(session, id).await?;
    change_state(session, id, op, true, now).await?;
    Ok(CredentialId(id))
}

/// Makes the runtime half of a new cookie, without which it cannot be picked.
pub(super) async fn make_state(session: &Session, id: i64) -> Result<(), Fail> {
    let [make] = session.prepare([MAKE_STATE]).await?;
    session.write(&make, &[&id, &i64::from(DEFAULT_DAILY_LIMIT)]).await?;
    Ok(())
}

async fn change_state(session: &Session, id: i64, op: &SaveCookie, replaced: bool, now: Time) -> Result<(), Fail> {
    let [change] = session.prepare([CHANGE_STATE]).await?;
    let (limit, parallel) = (op.daily_limit.map(i64::from), op.max_parallel.map(i64::from));
    let expires_at = op.expires_at.map(Time);
    session.write(&change, &[&id, &op.priority, &limit, &parallel, &expires_at, &replaced, &now]).await?;
    Ok(())
}

pub(super) async fn record_outcome(session: &Session, op: &RecordCookieOutcome) -> Result<CookieOutcomeRecorded, Fail> {
    let [block, now, write_error] = session.prepare([BLOCK_REVOCATION, NOW, WRITE_LAST_ERROR]).await?;
    let id = op.credential.0;
    let ((), _) = pipeline!(session.begin(), session.opt(&block, &[&id]))?;
    let found = lock(session, id).await?.filter(|(state, _)| state.version == op.seen_version);
    let recorded = match found {
        None => CookieOutcomeRecorded { before: None, after: None },
        Some((state, usage)) => {
            let now = moment(session, &now).await?;
            let (after, last_error) = op.apply(&usage, state.last_error, now.0);
            write(session, id, &after, now).await?;
            session.write(&write_error, &[&id, &last_error]).await?;
            CookieOutcomeRecorded { before: Some(usage.status), after: Some(after.status) }
        }
    };
    session.commit().await?;
    Ok(recorded)
}

pub(super) async fn reactivate(session: &Session, op: &ReactivateCookie) -> Result<CookieReactivated, Fail> {
    let [named, now] = session.prepare([NAMED, NOW]).await?;
    let ((), known, now) = pipeline!(session.begin(), session.opt(&named, &[&op.name]), moment(session, &now))?;
    let id: Option<i64> = known.map(|row| row.try_get(0)).transpose()?;
    if let Some(id) = id {
        reset(session, id, false, now).await?;
    }
    session.commit().await?;
    Ok(CookieReactivated { id: id.map(CredentialId) })
}

pub(super) async fn pause(session: &Session, op: &PauseCookie) -> Result<CookiePaused, Fail> {
    let [named, now, pause] = session.prepare([NAMED, NOW, PAUSE]).await?;
    let ((), known, now) = pipeline!(session.begin(), session.opt(&named, &[&op.name]), moment(session, &now))?;
    let id: Option<i64> = known.map(|row| row.try_get(0)).transpose()?;
    if let Some(id) = id {
        session.write(&pause, &[&id, &op.paused, &now]).await?;
    }
    session.commit().await?;
    Ok(CookiePaused { id: id.map(CredentialId) })
}

pub(super) async fn reseal(session: &Session, op: &Reseal) -> Result<Resealed, Fail> {
    let [reseal] = session.prepare([if op.token { RESEAL_TOKEN } else { RESEAL }]).await?;
    let rows = session.alone(&reseal, &[&op.credential.0, &op.old, &op.new.text, &op.new.key_id]).await?;
    Ok(Resealed { resealed: !rows.is_empty() })
}

/// Reactivates cookies whose cooling has ended and returns their number.
pub(super) async fn rest(session: &Session, now: Time) -> Result<u64, Fail> {
    let [rested] = session.prepare([RESTED]).await?;
    let mut count = 0;
    for row in session.rows(&rested, &[&now]).await? {
        let id: i64 = row.try_get(0)?;
        let Some((_, usage)) = lock(session, id).await? else { continue };
        let after = usage.after_cooling(now.0);
        if after != usage {
            write(session, id, &after, now).await?;
            count += 1;
        }
    }
    Ok(count)
}

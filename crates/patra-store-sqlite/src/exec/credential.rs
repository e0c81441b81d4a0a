//! Credentials: versions of a binding, and the runtime half with the lease on its refresh.

use patra_core::credential::{Binding, Credential, CredentialRuntime};
use patra_core::state::AuthType;
use patra_core::tx::{
    CredentialMarked, CredentialSaved, CredentialsRevoked, FailRefresh, LeaseRefresh, MarkCredential, RefreshFailed,
    RefreshLeased, RevokeCredential, SaveCredential, StoreToken, TokenStored, TxError,
};
use patra_core::{CredentialId, Fence, Ts};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::cookie;
use crate::error::Result;
use crate::sql::{maybe_time, word};

const READ_NEWEST: &str = "
SELECT id, version, sealed
FROM reg_prov_credential
WHERE alias = ?1 AND provenance_code = ?2 AND endpoint_name = ?3
ORDER BY version DESC
LIMIT 1";

const INSERT: &str = "
INSERT INTO reg_prov_credential
  (alias, provenance_code, endpoint_name, version, type_code, priority, sealed, key_id, status_code, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'ACTIVE', ?9, ?9)
RETURNING id";

const REVOKE: &str = "
UPDATE reg_prov_credential
SET status_code = 'REVOKED', revoked_at = ?6, updated_at = ?6, sealed = ''
WHERE alias = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND version BETWEEN ?4 AND ?5 AND status_code = 'ACTIVE'
RETURNING id";

const ERASE_TOKEN: &str = "
UPDATE ing_credential_state
SET sealed = NULL, refresh_owner = NULL, refresh_until = NULL, refresh_epoch = refresh_epoch + 1,
    cookie_name = NULL, provenance_code = NULL, endpoint_name = NULL, updated_at = ?2
WHERE credential_id = ?1";

const MAKE_STATE: &str = "
INSERT INTO ing_credential_state (credential_id, status_code, updated_at)
SELECT id, 'ACTIVE', ?2 FROM reg_prov_credential WHERE id = ?1 AND status_code = 'ACTIVE'
ON CONFLICT (credential_id) DO NOTHING";

const READ_STATE: &str = "
SELECT state.version, state.sealed, state.expires_at, state.status_code, state.fail_count, state.last_error,
  state.updated_at, state.refresh_owner, state.refresh_until, state.refresh_epoch
FROM ing_credential_state state
JOIN reg_prov_credential credential ON credential.id = state.credential_id
WHERE state.credential_id = ?1 AND credential.status_code = 'ACTIVE'";

const LEASE: &str = "
UPDATE ing_credential_state
SET refresh_owner = ?2, refresh_until = ?3, refresh_epoch = ?4, updated_at = ?5
WHERE credential_id = ?1";

const STORE: &str = "
UPDATE ing_credential_state
SET sealed = ?4, key_id = ?5, expires_at = ?6, version = version + 1, stored_epoch = refresh_epoch,
    refresh_owner = NULL, refresh_until = NULL, status_code = 'ACTIVE', fail_count = 0, last_error = NULL, updated_at = ?7
WHERE credential_id = ?1 AND refresh_owner = ?2 AND refresh_epoch = ?3
RETURNING version";

const READ_STORED: &str = "
SELECT version FROM ing_credential_state WHERE credential_id = ?1 AND refresh_epoch = ?2 AND stored_epoch = ?2";

const FAIL: &str = "
UPDATE ing_credential_state
SET refresh_owner = NULL, refresh_until = NULL, fail_count = fail_count + 1, last_error = ?4,
    status_code = iif(?5, 'REJECTED', status_code), updated_at = ?6
WHERE credential_id = ?1 AND refresh_owner = ?2 AND refresh_epoch = ?3";

const MARK: &str = "
UPDATE ing_credential_state
SET status_code = iif(?3 IS NULL, 'ACTIVE', 'REJECTED'), fail_count = iif(?3 IS NULL, 0, fail_count + 1),
    last_error = ?3, updated_at = ?4
WHERE credential_id = ?1 AND version = ?2
  AND EXISTS (SELECT 1 FROM reg_prov_credential WHERE id = ?1 AND status_code = 'ACTIVE')";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[READ_NEWEST, INSERT, REVOKE, ERASE_TOKEN, MAKE_STATE, READ_STATE, LEASE, STORE, READ_STORED, FAIL, MARK];

pub(super) fn save(db: &Connection, op: &SaveCredential, now: Ts) -> Result<CredentialSaved> {
    let binding = &op.binding;
    let key = params![binding.alias, binding.provenance_code, binding.endpoint_name];
    let newest: Option<(i64, i64, String)> =
        db.prepare_cached(READ_NEWEST)?.query_row(key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let newest_version = match newest {
        Some((id, version, sealed)) if version == op.version && sealed == op.sealed => {
            return Ok(CredentialSaved { id: CredentialId(id) });
        }
        Some((_, version, _)) => version,
        None => 0,
    };
    if op.version != newest_version + 1 {
        return Err(TxError::Conflict.into());
    }
    if op.auth_type == AuthType::Cookie && cookie::is_taken(db, &binding.alias)? {
        return Err(TxError::Conflict.into());
    }
    let values = params![
        binding.alias,
        binding.provenance_code,
        binding.endpoint_name,
        op.version,
        op.auth_type.as_str(),
        op.priority,
        op.sealed,
        op.key_id,
        now.micros(),
    ];
    let id = db.prepare_cached(INSERT)?.query_row(values, |row| row.get(0))?;
    if op.auth_type == AuthType::Cookie {
        cookie::make_state(db, id, now)?;
    }
    Ok(CredentialSaved { id: CredentialId(id) })
}

pub(super) fn revoke(db: &Connection, op: &RevokeCredential, now: Ts) -> Result<CredentialsRevoked> {
    let (binding, (first, last)) = (&op.binding, op.versions.range());
    let values = params![binding.alias, binding.provenance_code, binding.endpoint_name, first, last, now.micros()];
    let mut statement = db.prepare_cached(REVOKE)?;
    let ids: Vec<i64> = statement.query_map(values, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for id in &ids {
        db.prepare_cached(ERASE_TOKEN)?.execute(params![id, now.micros()])?;
    }
    Ok(CredentialsRevoked { revoked: ids.len() as u32 })
}

/// Reads the runtime half with its lease.
struct Leased {
    state: CredentialRuntime,
    lease: Option<(String, Ts)>,
    fence: i64,
}

fn read_leased(row: &Row<'_>) -> rusqlite::Result<Leased> {
    let owner: Option<String> = row.get(7)?;
    Ok(Leased { state: read_state(row, 0)?, lease: owner.zip(maybe_time(row, 8)?), fence: row.get(9)? })
}

/// Reads seven columns from `at` on: version, sealed, expires_at, status_code, fail_count, last_error, updated_at.
pub(crate) fn read_state(row: &Row<'_>, at: usize) -> rusqlite::Result<CredentialRuntime> {
    Ok(CredentialRuntime {
        version: row.get(at)?,
        sealed: row.get(at + 1)?,
        expires_at: maybe_time(row, at + 2)?,
        status: word(row, at + 3)?,
        fail_count: row.get(at + 4)?,
        last_error: row.get(at + 5)?,
        updated_at: maybe_time(row, at + 6)?,
    })
}

/// Reads sixteen columns: nine of the definition, and seven of the runtime half, null for a credential that was never
/// used.
pub(crate) fn read_credential(row: &Row<'_>) -> rusqlite::Result<Credential> {
    let used = row.get::<_, Option<i64>>(9)?.is_some();
    Ok(Credential {
        id: CredentialId(row.get(0)?),
        binding: Binding { alias: row.get(1)?, provenance_code: row.get(2)?, endpoint_name: row.get(3)? },
        version: row.get(4)?,
        auth_type: word(row, 5)?,
        priority: row.get(6)?,
        sealed: row.get(7)?,
        status: word(row, 8)?,
        state: if used { read_state(row, 9)? } else { CredentialRuntime::default() },
    })
}

pub(super) fn lease(db: &Connection, op: &LeaseRefresh, now: Ts) -> Result<RefreshLeased> {
    let id = op.credential.0;
    db.prepare_cached(MAKE_STATE)?.execute(params![id, now.micros()])?;
    let found = db.prepare_cached(READ_STATE)?.query_row([id], read_leased).optional()?;
    let Some(Leased { mut state, lease, fence }) = found else { return Ok(RefreshLeased::Gone) };
    if state.version > op.seen_version {
        return Ok(RefreshLeased::Newer { state, now });
    }
    let held = lease.filter(|(_, until)| now < *until);
    let fence = match held {
        Some((owner, until)) if owner != op.owner => return Ok(RefreshLeased::Busy { until, now }),
        Some(_) => fence,
        None => fence + 1,
    };
    let until = now + op.lease;
    db.prepare_cached(LEASE)?.execute(params![id, op.owner, until.micros(), fence, now.micros()])?;
    state.updated_at = Some(now);
    Ok(RefreshLeased::Go { fence: Fence(fence), state, now })
}

pub(super) fn store(db: &Connection, op: &StoreToken, now: Ts) -> Result<TokenStored> {
    let (id, fence) = (op.credential.0, op.fence.0);
    let expires = op.expires_at.map(Ts::micros);
    let values = params![id, op.owner, fence, op.sealed, op.key_id, expires, now.micros()];
    let stored = db.prepare_cached(STORE)?.query_row(values, |row| row.get(0)).optional()?;
    let version = match stored {
        Some(version) => Some(version),
        // Written by an earlier try of this operation whose result was lost.
        None => db.prepare_cached(READ_STORED)?.query_row([id, fence], |row| row.get(0)).optional()?,
    };
    version.map(|version| TokenStored { version }).ok_or_else(|| TxError::Fenced.into())
}

pub(super) fn fail(db: &Connection, op: &FailRefresh, now: Ts) -> Result<RefreshFailed> {
    let values = params![op.credential.0, op.owner, op.fence.0, op.error, op.rejected, now.micros()];
    let changed = db.prepare_cached(FAIL)?.execute(values)?;
    Ok(RefreshFailed { recorded: changed == 1 })
}

pub(super) fn mark(db: &Connection, op: &MarkCredential, now: Ts) -> Result<CredentialMarked> {
    let id = op.credential.0;
    db.prepare_cached(MAKE_STATE)?.execute(params![id, now.micros()])?;
    let changed = db.prepare_cached(MARK)?.execute(params![id, op.seen_version, op.rejected, now.micros()])?;
    Ok(CredentialMarked { marked: changed == 1 })
}

//! Credentials: versions of a binding, and the runtime half with the lease on its refresh. The row of the definition is
//! locked before the runtime half.

use patra_core::credential::{Binding, Credential, CredentialRuntime};
use patra_core::state::AuthType;
use patra_core::tx::{
    CredentialMarked, CredentialSaved, CredentialsRevoked, FailRefresh, LeaseRefresh, MarkCredential, RefreshFailed,
    RefreshLeased, RevokeCredential, SaveCredential, StoreToken, TokenStored, TxError,
};
use patra_core::{CredentialId, Fence};
use tokio_postgres::Row;

use super::{NOW, cookie, count, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// Serializes writers of a binding, so that the version is still the newest when it is written.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 7))";

const NEWEST: &str = "
SELECT id, version, sealed
FROM reg_prov_credential
WHERE alias = $1 AND provenance_code = $2 AND endpoint_name = $3
ORDER BY version DESC
LIMIT 1";

const INSERT: &str = "
INSERT INTO reg_prov_credential
  (alias, provenance_code, endpoint_name, version, type_code, priority, sealed, key_id, status_code, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, 'ACTIVE', now, now FROM (SELECT clock_timestamp() AS now) moment
RETURNING id";

const REVOKE: &str = "
UPDATE reg_prov_credential
SET status_code = 'REVOKED', revoked_at = clock_timestamp(), updated_at = clock_timestamp(), sealed = ''
WHERE alias = $1 AND provenance_code = $2 AND endpoint_name = $3 AND version BETWEEN $4 AND $5
  AND status_code = 'ACTIVE'
RETURNING id";

/// A separate statement: it sees a runtime half that was created while the first one waited for its lock.
const ERASE_TOKENS: &str = "
UPDATE ing_credential_state
SET sealed = NULL, refresh_owner = NULL, refresh_until = NULL, refresh_epoch = refresh_epoch + 1,
  cookie_name = NULL, provenance_code = NULL, endpoint_name = NULL, updated_at = clock_timestamp()
WHERE credential_id = ANY ($1::bigint[])";

/// Blocks a revocation until the runtime half is written.
const MAKE_STATE: &str = "
WITH live AS (SELECT id FROM reg_prov_credential WHERE id = $1 AND status_code = 'ACTIVE' FOR SHARE)
INSERT INTO ing_credential_state (credential_id, status_code, updated_at)
SELECT id, 'ACTIVE', clock_timestamp() FROM live
ON CONFLICT (credential_id) DO NOTHING";

const LOCK_STATE: &str = "
SELECT s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at,
  s.refresh_owner, s.refresh_until, s.refresh_epoch
FROM ing_credential_state s
JOIN reg_prov_credential c ON c.id = s.credential_id
WHERE s.credential_id = $1 AND c.status_code = 'ACTIVE'
FOR UPDATE OF s";

const LEASE: &str = "
UPDATE ing_credential_state
SET refresh_owner = $2, refresh_until = $3, refresh_epoch = $4, updated_at = $5
WHERE credential_id = $1";

const STORE: &str = "
UPDATE ing_credential_state
SET sealed = $4, key_id = $5, expires_at = $6, version = version + 1, stored_epoch = refresh_epoch,
  refresh_owner = NULL, refresh_until = NULL, status_code = 'ACTIVE', fail_count = 0, last_error = NULL,
  updated_at = clock_timestamp()
WHERE credential_id = $1 AND refresh_owner = $2 AND refresh_epoch = $3
RETURNING version";

const STORED: &str = "
SELECT version FROM ing_credential_state WHERE credential_id = $1 AND refresh_epoch = $2 AND stored_epoch = $2";

const FAIL: &str = "
UPDATE ing_credential_state
SET refresh_owner = NULL, refresh_until = NULL, fail_count = fail_count + 1, last_error = $4,
  status_code = CASE WHEN $5 THEN 'REJECTED' ELSE status_code END, updated_at = clock_timestamp()
WHERE credential_id = $1 AND refresh_owner = $2 AND refresh_epoch = $3
RETURNING id";

const MARK: &str = "
UPDATE ing_credential_state
SET status_code = CASE WHEN $3::text IS NULL THEN 'ACTIVE' ELSE 'REJECTED' END,
  fail_count = CASE WHEN $3::text IS NULL THEN 0 ELSE fail_count + 1 END,
  last_error = $3, updated_at = clock_timestamp()
WHERE credential_id = $1 AND version = $2
  AND EXISTS (SELECT 1 FROM reg_prov_credential WHERE id = $1 AND status_code = 'ACTIVE')";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[LOCK, NEWEST, INSERT, REVOKE, ERASE_TOKENS, MAKE_STATE, LOCK_STATE, LEASE, STORE, STORED, FAIL, MARK];

pub(super) async fn save(session: &Session, op: &SaveCredential) -> Result<CredentialSaved, Fail> {
    let [lock, newest, insert] = session.prepare([LOCK, NEWEST, INSERT]).await?;
    let [lock_name, named] = session.prepare([cookie::LOCK_NAME, cookie::NAMED]).await?;
    let (binding, name) = (&op.binding, op.binding.record(0));
    session.begin().await?;
    if op.auth_type == AuthType::Cookie {
        session.one(&lock_name, &[&binding.alias]).await?;
    }
    let (_, found) = pipeline!(
        session.rows(&lock, &[&name]),
        session.opt(&newest, &[&binding.alias, &binding.provenance_code, &binding.endpoint_name]),
    )?;
    let mut newest = 0;
    if let Some(row) = found {
        newest = row.try_get(1)?;
        if newest == op.version && row.try_get::<_, &str>(2)? == op.sealed {
            session.commit().await?;
            return Ok(CredentialSaved { id: CredentialId(row.try_get(0)?) });
        }
    }
    if op.version != newest + 1 {
        return Err(TxError::Conflict.into());
    }
    if op.auth_type == AuthType::Cookie && session.opt(&named, &[&binding.alias]).await?.is_some() {
        return Err(TxError::Conflict.into());
    }
    let kind = op.auth_type.as_str();
    let row = session
        .one(
            &insert,
            &[
                &binding.alias,
                &binding.provenance_code,
                &binding.endpoint_name,
                &op.version,
                &kind,
                &op.priority,
                &op.sealed,
                &op.key_id,
            ],
        )
        .await?;
    if op.auth_type == AuthType::Cookie {
        cookie::make_state(session, row.try_get(0)?).await?;
    }
    session.commit().await?;
    Ok(CredentialSaved { id: CredentialId(row.try_get(0)?) })
}

pub(super) async fn revoke(session: &Session, op: &RevokeCredential) -> Result<CredentialsRevoked, Fail> {
    let [revoke, erase] = session.prepare([REVOKE, ERASE_TOKENS]).await?;
    let (binding, (first, last)) = (&op.binding, op.versions.range());
    let names = (&binding.alias, &binding.provenance_code, &binding.endpoint_name);
    let ((), rows) = pipeline!(session.begin(), session.rows(&revoke, &[names.0, names.1, names.2, &first, &last]))?;
    let ids = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    session.write(&erase, &[&ids]).await?;
    session.commit().await?;
    Ok(CredentialsRevoked { revoked: ids.len() as u32 })
}

/// Reads seven columns from `at` on: version, sealed, expires_at, status_code, fail_count, last_error, updated_at.
pub(crate) fn read_state(row: &Row, at: usize) -> Result<CredentialRuntime, Fail> {
    let time = |at| Ok::<_, Fail>(row.try_get::<_, Option<Time>>(at)?.map(|Time(ts)| ts));
    Ok(CredentialRuntime {
        version: row.try_get(at)?,
        sealed: row.try_get(at + 1)?,
        expires_at: time(at + 2)?,
        status: row.try_get::<_, &str>(at + 3)?.parse()?,
        fail_count: count(row.try_get(at + 4)?),
        last_error: row.try_get(at + 5)?,
        updated_at: time(at + 6)?,
    })
}

/// Reads sixteen columns: nine of the definition, and seven of the runtime half, null for a credential that was never
/// used.
pub(crate) fn read_credential(row: &Row) -> Result<Credential, Fail> {
    let used = row.try_get::<_, Option<i64>>(9)?.is_some();
    Ok(Credential {
        id: CredentialId(row.try_get(0)?),
        binding: Binding { alias: row.try_get(1)?, provenance_code: row.try_get(2)?, endpoint_name: row.try_get(3)? },
        version: row.try_get(4)?,
        auth_type: row.try_get::<_, &str>(5)?.parse()?,
        priority: row.try_get(6)?,
        sealed: row.try_get(7)?,
        status: row.try_get::<_, &str>(8)?.parse()?,
        state: if used { read_state(row, 9)? } else { CredentialRuntime::default() },
    })
}

pub(super) async fn lease(session: &Session, op: &LeaseRefresh) -> Result<RefreshLeased, Fail> {
    let [make, lock, now, lease] = session.prepare([MAKE_STATE, LOCK_STATE, NOW, LEASE]).await?;
    let id = op.credential.0;
    let ((), _, found, now) =
        pipeline!(session.begin(), session.write(&make, &[&id]), session.opt(&lock, &[&id]), moment(session, &now),)?;
    let answer = match found {
        None => RefreshLeased::Gone,
        Some(row) => {
            let mut state = read_state(&row, 0)?;
            let owner: Option<&str> = row.try_get(7)?;
            let until = row.try_get::<_, Option<Time>>(8)?.map(|Time(ts)| ts);
            let held = owner.zip(until).filter(|(_, until)| now.0 < *until);
            let fence: i64 = row.try_get(9)?;
            if state.version > op.seen_version {
                RefreshLeased::Newer { state, now: now.0 }
            } else if let Some((_, until)) = held.filter(|(owner, _)| *owner != op.owner) {
                RefreshLeased::Busy { until, now: now.0 }
            } else {
                let fence = if held.is_some() { fence } else { fence + 1 };
                let until = Time(now.0 + op.lease);
                session.write(&lease, &[&id, &op.owner, &until, &fence, &now]).await?;
                state.updated_at = Some(now.0);
                RefreshLeased::Go { fence: Fence(fence), state, now: now.0 }
            }
        }
    };
    session.commit().await?;
    Ok(answer)
}

pub(super) async fn store(session: &Session, op: &StoreToken) -> Result<TokenStored, Fail> {
    let [store, stored] = session.prepare([STORE, STORED]).await?;
    let (id, fence, expires) = (op.credential.0, op.fence.0, op.expires_at.map(Time));
    let rows = session.alone(&store, &[&id, &op.owner, &fence, &op.sealed, &op.key_id, &expires]).await?;
    let row = match rows.into_iter().next() {
        Some(row) => Some(row),
        // Written by an earlier try of this operation whose result was lost.
        None => session.opt(&stored, &[&id, &fence]).await?,
    };
    let row = row.ok_or(TxError::Fenced)?;
    Ok(TokenStored { version: row.try_get(0)? })
}

pub(super) async fn fail(session: &Session, op: &FailRefresh) -> Result<RefreshFailed, Fail> {
    let [fail] = session.prepare([FAIL]).await?;
    let (id, fence) = (op.credential.0, op.fence.0);
    let rows = session.alone(&fail, &[&id, &op.owner, &fence, &op.error, &op.rejected]).await?;
    Ok(RefreshFailed { recorded: !rows.is_empty() })
}

pub(super) async fn mark(session: &Session, op: &MarkCredential) -> Result<CredentialMarked, Fail> {
    let [make, mark] = session.prepare([MAKE_STATE, MARK]).await?;
    let id = op.credential.0;
    let ((), _, marked) = pipeline!(
        session.begin(),
        session.write(&make, &[&id]),
        session.write(&mark, &[&id, &op.seen_version, &op.rejected]),
    )?;
    session.commit().await?;
    Ok(CredentialMarked { marked: marked > 0 })
}

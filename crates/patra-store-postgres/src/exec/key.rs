//! API keys, by hash.

use patra_core::tx::{CreateKey, KeyCreated, KeyRevoked, RevokeKey};

use crate::error::Fail;
use crate::json::Json;
use crate::pool::{Session, pipeline};

/// Serializes creation, so that "no key exists" still holds when the key is written. Readers are not blocked.
const LOCK: &str = "LOCK TABLE api_key IN SHARE ROW EXCLUSIVE MODE";

const CREATE: &str = "
INSERT INTO api_key (prefix, hash, name, scope, created_at, projects, shared)
SELECT $1, $2, $3, $4, clock_timestamp(), $6, $7::boolean::integer
WHERE NOT ($5 AND EXISTS (SELECT 1 FROM api_key))
ON CONFLICT (prefix) DO NOTHING";

const REVOKE: &str = "
UPDATE api_key SET revoked_at = clock_timestamp()
WHERE prefix = $1 AND revoked_at IS NULL
RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOCK, CREATE, REVOKE];

pub(super) async fn create(session: &Session, op: &CreateKey) -> Result<KeyCreated, Fail> {
    let [lock, create] = session.prepare([LOCK, CREATE]).await?;
    let (scope, projects) = (op.scope.as_str(), Json::of(&op.projects)?);
    let ((), _, made) = pipeline!(
        session.begin(),
        session.write(&lock, &[]),
        session.write(&create, &[&op.prefix, &op.hash, &op.name, &scope, &op.only_first, &projects, &op.shared]),
    )?;
    session.commit().await?;
    Ok(KeyCreated { created: made > 0 })
}

pub(super) async fn revoke(session: &Session, op: &RevokeKey) -> Result<KeyRevoked, Fail> {
    let [revoke] = session.prepare([REVOKE]).await?;
    let rows = session.alone(&revoke, &[&op.prefix]).await?;
    Ok(KeyRevoked { revoked: !rows.is_empty() })
}

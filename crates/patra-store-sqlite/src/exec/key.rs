//! API keys, by hash.

use patra_core::Ts;
use patra_core::tx::{CreateKey, KeyCreated, KeyRevoked, RevokeKey};
use rusqlite::{Connection, params};

use crate::error::Result;

const INSERT: &str = "
INSERT INTO api_key (prefix, hash, name, scope, created_at, projects, shared)
SELECT ?1, ?2, ?3, ?4, ?5, ?7, ?8
WHERE NOT ?6 OR NOT EXISTS (SELECT 1 FROM api_key)
ON CONFLICT (prefix) DO NOTHING";

const REVOKE: &str = "UPDATE api_key SET revoked_at = ?2 WHERE prefix = ?1 AND revoked_at IS NULL";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, REVOKE];

pub(super) fn create(db: &Connection, op: &CreateKey, now: Ts) -> Result<KeyCreated> {
    let projects = serde_json::to_string(&op.projects)?;
    let values =
        params![op.prefix, op.hash, op.name, op.scope.as_str(), now.micros(), op.only_first, projects, op.shared];
    let inserted = db.prepare_cached(INSERT)?.execute(values)?;
    Ok(KeyCreated { created: inserted == 1 })
}

pub(super) fn revoke(db: &Connection, op: &RevokeKey, now: Ts) -> Result<KeyRevoked> {
    let revoked = db.prepare_cached(REVOKE)?.execute(params![op.prefix, now.micros()])?;
    Ok(KeyRevoked { revoked: revoked == 1 })
}

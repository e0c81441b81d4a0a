//! Credentials with their runtime half, sealed.

use patra_core::credential::Credential;
use patra_core::port::credential::{CredentialFilter, MAX_CREDENTIALS};
use rusqlite::{Connection, Params, params};

use crate::error::Result;
use crate::exec::read_credential;

const READ_BOUND: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c LEFT JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.status_code = 'ACTIVE' AND c.provenance_code IN (?1, '*') AND c.endpoint_name IN (?2, '*')
ORDER BY c.id
LIMIT ?3";

const READ_ID: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c LEFT JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.id = ?1";

const READ_ALIAS: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c LEFT JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.alias = ?1
ORDER BY c.id
LIMIT ?2";

const READ_SEALED_WITHOUT: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c LEFT JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.status_code = 'ACTIVE' AND c.id > ?2 AND (c.key_id <> ?1 OR (s.sealed IS NOT NULL AND s.key_id <> ?1))
ORDER BY c.id
LIMIT ?3";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[READ_BOUND, READ_ID, READ_ALIAS, READ_SEALED_WITHOUT];

pub(super) fn read(db: &Connection, filter: &CredentialFilter) -> Result<Vec<Credential>> {
    match filter {
        CredentialFilter::Bound { provenance_code, endpoint_name } => {
            rows(db, READ_BOUND, params![provenance_code, endpoint_name, MAX_CREDENTIALS])
        }
        CredentialFilter::Id(id) => rows(db, READ_ID, params![id.0]),
        CredentialFilter::Alias(alias) => rows(db, READ_ALIAS, params![alias, MAX_CREDENTIALS]),
        CredentialFilter::SealedWithoutKey { key_id, after } => {
            rows(db, READ_SEALED_WITHOUT, params![key_id, after.0, MAX_CREDENTIALS])
        }
    }
}

fn rows(db: &Connection, sql: &str, values: impl Params) -> Result<Vec<Credential>> {
    let mut statement = db.prepare_cached(sql)?;
    Ok(statement.query_map(values, read_credential)?.collect::<rusqlite::Result<_>>()?)
}

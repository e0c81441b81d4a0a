//! Credentials with their runtime half, sealed.

use patra_core::credential::Credential;
use patra_core::port::credential::{CredentialFilter, MAX_CREDENTIALS};

use crate::error::Fail;
use crate::exec::read_credential;
use crate::pool::{Params, Session};

const BOUND: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c LEFT JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.status_code = 'ACTIVE' AND c.provenance_code IN ($1, '*') AND c.endpoint_name IN ($2, '*')
ORDER BY c.id
LIMIT $3";

const BY_ID: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c LEFT JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.id = $1";

const BY_ALIAS: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c LEFT JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.alias = $1
ORDER BY c.id
LIMIT $2";

const SEALED_WITHOUT: &str = "
SELECT c.id, c.alias, c.provenance_code, c.endpoint_name, c.version, c.type_code, c.priority, c.sealed, c.status_code,
  s.version, s.sealed, s.expires_at, s.status_code, s.fail_count, s.last_error, s.updated_at
FROM reg_prov_credential c LEFT JOIN ing_credential_state s ON s.credential_id = c.id
WHERE c.status_code = 'ACTIVE' AND c.id > $2 AND (c.key_id <> $1 OR (s.sealed IS NOT NULL AND s.key_id <> $1))
ORDER BY c.id
LIMIT $3";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[BOUND, BY_ID, BY_ALIAS, SEALED_WITHOUT];

pub(crate) async fn credentials(session: &Session, filter: CredentialFilter) -> Result<Vec<Credential>, Fail> {
    let limit = i64::from(MAX_CREDENTIALS);
    match &filter {
        CredentialFilter::Bound { provenance_code, endpoint_name } => {
            read(session, BOUND, &[provenance_code, endpoint_name, &limit]).await
        }
        CredentialFilter::Id(id) => read(session, BY_ID, &[&id.0]).await,
        CredentialFilter::Alias(alias) => read(session, BY_ALIAS, &[alias, &limit]).await,
        CredentialFilter::SealedWithoutKey { key_id, after } => {
            read(session, SEALED_WITHOUT, &[key_id, &after.0, &limit]).await
        }
    }
}

async fn read(session: &Session, sql: &'static str, params: Params<'_>) -> Result<Vec<Credential>, Fail> {
    let [statement] = session.prepare([sql]).await?;
    session.rows(&statement, params).await?.iter().map(read_credential).collect()
}

//! Credentials with their runtime half, sealed.

use patra_core::CredentialId;
use patra_core::credential::{Binding, Credential, State};
use patra_core::port::credential::{Ask, MAX_CREDENTIALS};
use tokio_postgres::Row;

use crate::error::Fail;
use crate::exec::read_state;
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

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[BOUND, BY_ID, BY_ALIAS];

pub(crate) async fn credentials(session: &Session, ask: Ask) -> Result<Vec<Credential>, Fail> {
    let limit = i64::from(MAX_CREDENTIALS);
    match &ask {
        Ask::Bound { provenance_code, endpoint_name } => {
            read(session, BOUND, &[provenance_code, endpoint_name, &limit]).await
        }
        Ask::Id(id) => read(session, BY_ID, &[&id.0]).await,
        Ask::Alias(alias) => read(session, BY_ALIAS, &[alias, &limit]).await,
    }
}

async fn read(session: &Session, sql: &'static str, params: Params<'_>) -> Result<Vec<Credential>, Fail> {
    let [statement] = session.prepare([sql]).await?;
    session.rows(&statement, params).await?.iter().map(credential).collect()
}

fn credential(row: &Row) -> Result<Credential, Fail> {
    let used = row.try_get::<_, Option<i64>>(9)?.is_some();
    Ok(Credential {
        id: CredentialId(row.try_get(0)?),
        binding: Binding { alias: row.try_get(1)?, provenance_code: row.try_get(2)?, endpoint_name: row.try_get(3)? },
        version: row.try_get(4)?,
        auth_type: row.try_get::<_, &str>(5)?.parse()?,
        priority: row.try_get(6)?,
        sealed: row.try_get(7)?,
        status: row.try_get::<_, &str>(8)?.parse()?,
        state: if used { read_state(row, 9)? } else { State::default() },
    })
}

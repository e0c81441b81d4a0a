//! The registry: provenances, their endpoints and schedules.

use patra_core::Ts;
use patra_core::state::Operation;
use patra_core::time::micros;
use patra_core::tx::{Applied, ApplyProvenance, EndpointRow};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;

const READ_HASH: &str = "SELECT document_hash FROM reg_provenance WHERE provenance_code = ?1";

const UPSERT_PROVENANCE: &str = "
INSERT INTO reg_provenance (provenance_code, name, document, document_hash, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (provenance_code) DO UPDATE
SET name = excluded.name, document = excluded.document, document_hash = excluded.document_hash,
    updated_at = excluded.updated_at";

const UPSERT_ENDPOINT: &str = "
INSERT INTO reg_prov_endpoint_def (provenance_code, endpoint_name, role, created_at)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (provenance_code, endpoint_name) DO UPDATE SET role = excluded.role";

// The list of names to keep is one JSON array: one statement, however many there are.
const DELETE_ENDPOINTS: &str = "
DELETE FROM reg_prov_endpoint_def
WHERE provenance_code = ?1 AND endpoint_name NOT IN (SELECT value FROM json_each(?2))";

const DELETE_SCHEDULES: &str = "
DELETE FROM reg_schedule
WHERE provenance_code = ?1 AND endpoint_name NOT IN (SELECT value FROM json_each(?2))";

// An unchanged interval keeps its due time; a new or changed one counts from now.
const UPSERT_SCHEDULE: &str = "
INSERT INTO reg_schedule (provenance_code, endpoint_name, operation_code, every_us, next_due_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (provenance_code, endpoint_name, operation_code) DO UPDATE
SET every_us = excluded.every_us, next_due_at = excluded.next_due_at
WHERE every_us <> excluded.every_us";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[READ_HASH, UPSERT_PROVENANCE, UPSERT_ENDPOINT, DELETE_ENDPOINTS, DELETE_SCHEDULES, UPSERT_SCHEDULE];

pub(super) fn apply_provenance(db: &Connection, op: &ApplyProvenance, now: Ts) -> Result<Applied> {
    let code = &op.provenance_code;
    let known: Option<String> = db.prepare_cached(READ_HASH)?.query_row([code], |row| row.get(0)).optional()?;
    if known.as_deref() == Some(&*op.document_hash) {
        return Ok(Applied::Unchanged);
    }
    let values = params![code, op.name, op.document, op.document_hash, now.micros()];
    db.prepare_cached(UPSERT_PROVENANCE)?.execute(values)?;
    db.prepare_cached(DELETE_ENDPOINTS)?.execute(params![code, names(&op.endpoints, |_| true)?])?;
    let scheduled = names(&op.endpoints, |endpoint| endpoint.schedule.is_some())?;
    db.prepare_cached(DELETE_SCHEDULES)?.execute(params![code, scheduled])?;
    for endpoint in &op.endpoints {
        let values = params![code, endpoint.endpoint_name, endpoint.role, now.micros()];
        db.prepare_cached(UPSERT_ENDPOINT)?.execute(values)?;
        if let Some(schedule) = endpoint.schedule {
            let due = now + schedule.every;
            let operation = Operation::Harvest.as_str();
            let values = params![code, endpoint.endpoint_name, operation, micros(schedule.every), due.micros()];
            db.prepare_cached(UPSERT_SCHEDULE)?.execute(values)?;
        }
    }
    Ok(if known.is_some() { Applied::Changed } else { Applied::Created })
}

fn names(endpoints: &[EndpointRow], wanted: impl Fn(&EndpointRow) -> bool) -> Result<String> {
    let names: Vec<_> =
        endpoints.iter().filter(|endpoint| wanted(endpoint)).map(|endpoint| &*endpoint.endpoint_name).collect();
    Ok(serde_json::to_string(&names)?)
}

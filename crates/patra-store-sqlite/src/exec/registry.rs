//! Writes the registry: provenances, section by section, and their schedules.

use std::collections::BTreeMap;

use patra_core::Ts;
use patra_core::registry::{RegistryTable, WHOLE};
use patra_core::state::UpdateReason;
use patra_core::tx::{
    ApplyProvenance, EndpointRow, EndpointSchedule, ProvenanceApplied, ProvenanceRemoved, RemoveProvenance,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::pause;
use crate::error::{Error, Result};

const READ_HASH: &str = "SELECT document_hash FROM reg_provenance WHERE provenance_code = ?1";

const UPSERT_PROVENANCE: &str = "
INSERT INTO reg_provenance (provenance_code, name, config, document_hash, created_at, updated_at, project_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)
ON CONFLICT (provenance_code) DO UPDATE
SET name = excluded.name, project_key = excluded.project_key, config = excluded.config, document_hash = excluded.document_hash,
    updated_at = excluded.updated_at";

const DELETE_PROVENANCE: &str = "DELETE FROM reg_provenance WHERE provenance_code = ?1";

// The names to keep are one JSON array: one statement for any number of them.
const DELETE_ENDPOINTS: &str = "
DELETE FROM reg_prov_endpoint_def
WHERE provenance_code = ?1 AND endpoint_name NOT IN (SELECT value FROM json_each(?2))";

const UPSERT_ENDPOINT: &str = "
INSERT INTO reg_prov_endpoint_def (provenance_code, endpoint_name, role, config, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (provenance_code, endpoint_name) DO UPDATE
SET role = excluded.role, config = excluded.config, updated_at = excluded.updated_at
WHERE role <> excluded.role OR config <> excluded.config";

// A schedule is identified by these three words; names and codes contain no blank.
const DELETE_SCHEDULES: &str = "
DELETE FROM reg_schedule
WHERE provenance_code = ?1
  AND endpoint_name || ' ' || operation_code || ' ' || reason_code NOT IN (SELECT value FROM json_each(?2))";

// An unchanged schedule keeps its due time; a new or changed one counts from now. Two statements, because an insert
// that conflicts with a row still uses up an id.
const READ_WHEN: &str = "
SELECT when_text FROM reg_schedule
WHERE provenance_code = ?1 AND endpoint_name = ?2 AND operation_code = ?3 AND reason_code = ?4";

const INSERT_SCHEDULE: &str = "
INSERT INTO reg_schedule (provenance_code, endpoint_name, operation_code, reason_code, when_text, next_due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

const CHANGE_SCHEDULE: &str = "
UPDATE reg_schedule SET when_text = ?5, next_due_at = ?6
WHERE provenance_code = ?1 AND endpoint_name = ?2 AND operation_code = ?3 AND reason_code = ?4";

macro_rules! sections {
    ($($table:ident $name:literal),* $(,)?) => {
        /// The tables that are written alike, and the two statements of each, in this order. An unchanged section keeps
        /// its row.
        const SECTIONS: &[RegistryTable] = &[$(RegistryTable::$table),*];

        pub(super) const DELETE_SECTION: &[&str] = &[$(concat!("
DELETE FROM ", $name, "
WHERE provenance_code = ?1 AND endpoint_name NOT IN (SELECT value FROM json_each(?2))")),*];

        pub(super) const UPSERT_SECTION: &[&str] = &[$(concat!("
INSERT INTO ", $name, " (provenance_code, endpoint_name, config, updated_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (provenance_code, endpoint_name) DO UPDATE
SET config = excluded.config, updated_at = excluded.updated_at WHERE config <> excluded.config")),*];
    };
}

sections! {
    HttpCfg "reg_prov_http_cfg",
    PaginationCfg "reg_prov_pagination_cfg",
    WindowOffsetCfg "reg_prov_window_offset_cfg",
    RetryCfg "reg_prov_retry_cfg",
    RateLimitCfg "reg_prov_rate_limit_cfg",
    BatchingCfg "reg_prov_batching_cfg",
    ApiParamMap "reg_prov_api_param_map",
    ExprCapability "reg_prov_expr_capability",
    ExprRenderRule "reg_prov_expr_render_rule",
    ExprFieldDict "reg_expr_field_dict",
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_HASH,
    UPSERT_PROVENANCE,
    DELETE_PROVENANCE,
    DELETE_ENDPOINTS,
    UPSERT_ENDPOINT,
    DELETE_SCHEDULES,
    READ_WHEN,
    INSERT_SCHEDULE,
    CHANGE_SCHEDULE,
];

pub(super) fn apply_provenance(db: &Connection, op: &ApplyProvenance, now: Ts) -> Result<ProvenanceApplied> {
    if let Some(flaw) = op.invalid_reason() {
        return Err(Error::refused(flaw));
    }
    let code = &*op.provenance_code;
    let known: Option<String> = db.prepare_cached(READ_HASH)?.query_row([code], |row| row.get(0)).optional()?;
    if known.as_deref() == Some(&*op.document_hash) {
        return Ok(ProvenanceApplied::Unchanged);
    }
    let config = op.config(RegistryTable::Provenance, WHOLE);
    let values = params![code, op.name, config, op.document_hash, now.micros(), op.project_key];
    db.prepare_cached(UPSERT_PROVENANCE)?.execute(values)?;
    put_endpoints(db, op, now)?;
    put_sections(db, op, now)?;
    put_schedules(db, code, &op.endpoints, now)?;
    pause::resume_advised(db, code, now)?;
    Ok(if known.is_some() { ProvenanceApplied::Changed } else { ProvenanceApplied::Created })
}

fn put_endpoints(db: &Connection, op: &ApplyProvenance, now: Ts) -> Result<()> {
    let code = &op.provenance_code;
    let kept = list(op.endpoints.iter().map(|endpoint| &*endpoint.endpoint_name))?;
    db.prepare_cached(DELETE_ENDPOINTS)?.execute(params![code, kept])?;
    for endpoint in &op.endpoints {
        let config = op.config(RegistryTable::EndpointDef, &endpoint.endpoint_name);
        let values = params![code, endpoint.endpoint_name, endpoint.role, config, now.micros()];
        db.prepare_cached(UPSERT_ENDPOINT)?.execute(values)?;
    }
    Ok(())
}

fn put_sections(db: &Connection, op: &ApplyProvenance, now: Ts) -> Result<()> {
    let code = &op.provenance_code;
    let mut by_table = BTreeMap::<_, Vec<_>>::new();
    for row in &op.rows {
        by_table.entry(row.table).or_default().push(row);
    }
    for ((table, delete), upsert) in SECTIONS.iter().zip(DELETE_SECTION).zip(UPSERT_SECTION) {
        let rows = by_table.remove(table).unwrap_or_default();
        let kept = list(rows.iter().map(|row| &*row.endpoint_name))?;
        db.prepare_cached(delete)?.execute(params![code, kept])?;
        for row in rows {
            db.prepare_cached(upsert)?.execute(params![code, row.endpoint_name, row.config, now.micros()])?;
        }
    }
    Ok(())
}

fn put_schedules(db: &Connection, code: &str, endpoints: &[EndpointRow], now: Ts) -> Result<()> {
    let mut kept = Vec::new();
    for endpoint in endpoints {
        for schedule in &endpoint.schedules {
            put_schedule(db, code, &endpoint.endpoint_name, schedule, now)?;
            let reason = schedule.reason.map_or("", UpdateReason::as_str);
            kept.push(format!("{} {} {reason}", endpoint.endpoint_name, schedule.operation.as_str()));
        }
    }
    db.prepare_cached(DELETE_SCHEDULES)?.execute(params![code, list(kept.iter().map(|words| &**words))?])?;
    Ok(())
}

fn put_schedule(db: &Connection, code: &str, endpoint: &str, schedule: &EndpointSchedule, now: Ts) -> Result<()> {
    let EndpointSchedule { operation, reason, recurrence: when } = schedule;
    let (operation, reason) = (operation.as_str(), reason.map_or("", UpdateReason::as_str));
    let key = params![code, endpoint, operation, reason];
    let known: Option<String> = db.prepare_cached(READ_WHEN)?.query_row(key, |row| row.get(0)).optional()?;
    let text = when.to_text();
    if known.as_ref() == Some(&text) {
        return Ok(());
    }
    let due = when.first_after(now).unwrap_or(Ts::NEVER);
    let write = if known.is_some() { CHANGE_SCHEDULE } else { INSERT_SCHEDULE };
    db.prepare_cached(write)?.execute(params![code, endpoint, operation, reason, text, due.micros()])?;
    Ok(())
}

pub(super) fn remove_provenance(db: &Connection, op: &RemoveProvenance) -> Result<ProvenanceRemoved> {
    let code = &op.provenance_code;
    let removed = db.prepare_cached(DELETE_PROVENANCE)?.execute([code])? > 0;
    if removed {
        for delete in [DELETE_ENDPOINTS, DELETE_SCHEDULES].iter().chain(DELETE_SECTION) {
            db.prepare_cached(delete)?.execute(params![code, "[]"])?;
        }
    }
    Ok(ProvenanceRemoved { removed })
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> Result<String> {
    Ok(serde_json::to_string(&names.collect::<Vec<_>>())?)
}

//! Writes the registry. The row of the provenance is the lock: writers of the same one take turns.

use patra_core::Ts;
use patra_core::registry::{RegistryTable, WHOLE};
use patra_core::state::UpdateReason;
use patra_core::tx::{ApplyProvenance, ProvenanceApplied, ProvenanceRemoved, RemoveProvenance, ResumeWork, TxError};

use super::pause::RESUME_ADVISED;
use super::{NOW, moment};
use crate::error::{Fail, refused};
use crate::pool::{Session, pipeline};
use crate::time::Time;

const CREATE: &str = "
INSERT INTO reg_provenance (provenance_code, name, config, document_hash, created_at, updated_at, project_key)
SELECT $1, $2, $3, $4, moment.now, moment.now, $5 FROM (SELECT clock_timestamp() AS now) AS moment
ON CONFLICT (provenance_code) DO NOTHING";

const LOCK: &str = "SELECT document_hash, updated_at FROM reg_provenance WHERE provenance_code = $1 FOR UPDATE";

const CHANGE: &str = "
UPDATE reg_provenance SET name = $2, config = $3, document_hash = $4, updated_at = $5, project_key = $6
WHERE provenance_code = $1";

const REMOVE_ENDPOINTS: &str = "
DELETE FROM reg_prov_endpoint_def WHERE provenance_code = $1 AND endpoint_name <> ALL ($2::text[])";

const PUT_ENDPOINTS: &str = "
INSERT INTO reg_prov_endpoint_def AS known (provenance_code, endpoint_name, role, config, created_at, updated_at)
SELECT $1, given.endpoint_name, given.role, given.config, $5, $5
FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS given (endpoint_name, role, config, place)
ORDER BY given.place
ON CONFLICT (provenance_code, endpoint_name) DO UPDATE
SET role = excluded.role, config = excluded.config, updated_at = excluded.updated_at
WHERE known.role <> excluded.role OR known.config <> excluded.config";

const REMOVE_SCHEDULES: &str = "
DELETE FROM reg_schedule s
WHERE s.provenance_code = $1 AND NOT EXISTS (
  SELECT FROM unnest($2::text[], $3::text[], $4::text[]) AS given (endpoint_name, operation_code, reason_code)
  WHERE given.endpoint_name = s.endpoint_name AND given.operation_code = s.operation_code
    AND given.reason_code = s.reason_code)";

/// A schedule with an unchanged time keeps its next due time.
const PUT_SCHEDULES: &str = "
INSERT INTO reg_schedule (provenance_code, endpoint_name, operation_code, reason_code, when_text, next_due_at)
SELECT $1, given.endpoint_name, given.operation_code, given.reason_code, given.when_text, given.next_due_at
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
  WITH ORDINALITY AS given (endpoint_name, operation_code, reason_code, when_text, next_due_at, place)
ORDER BY given.place
ON CONFLICT (provenance_code, endpoint_name, operation_code, reason_code) DO UPDATE
SET when_text = excluded.when_text, next_due_at = excluded.next_due_at
WHERE reg_schedule.when_text <> excluded.when_text";

macro_rules! sections {
    ($($cte:ident $name:literal),* $(,)?) => {
        /// Deletes rows that are not given, from the tables that are written alike.
        const REMOVE_SECTIONS: &str = concat!(
            "WITH given AS (SELECT * FROM unnest($2::text[], $3::text[]) AS given (table_name, endpoint_name))",
            $(", ", stringify!($cte), " AS (
DELETE FROM ", $name, " AS known WHERE known.provenance_code = $1 AND NOT EXISTS (
  SELECT FROM given WHERE given.table_name = '", $name, "' AND given.endpoint_name = known.endpoint_name))",)*
            "
SELECT 1"
        );

        /// Writes the given rows. An unchanged section keeps its row.
        const PUT_SECTIONS: &str = concat!(
            "WITH given AS (SELECT * FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY
  AS given (table_name, endpoint_name, config, place))",
            $(", ", stringify!($cte), " AS (
INSERT INTO ", $name, " AS known (provenance_code, endpoint_name, config, updated_at)
SELECT $1, endpoint_name, config, $5::timestamptz FROM given WHERE table_name = '", $name, "' ORDER BY place
ON CONFLICT (provenance_code, endpoint_name) DO UPDATE
SET config = excluded.config, updated_at = excluded.updated_at WHERE known.config <> excluded.config)",)*
            "
SELECT 1"
        );
    };
}

sections! {
    http "reg_prov_http_cfg",
    pagination "reg_prov_pagination_cfg",
    window_offset "reg_prov_window_offset_cfg",
    retry "reg_prov_retry_cfg",
    rate_limit "reg_prov_rate_limit_cfg",
    batching "reg_prov_batching_cfg",
    api_param "reg_prov_api_param_map",
    expr_capability "reg_prov_expr_capability",
    expr_render_rule "reg_prov_expr_render_rule",
    expr_field "reg_expr_field_dict",
}

const REMOVE: &str = "DELETE FROM reg_provenance WHERE provenance_code = $1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    CREATE,
    LOCK,
    CHANGE,
    REMOVE_ENDPOINTS,
    PUT_ENDPOINTS,
    REMOVE_SECTIONS,
    PUT_SECTIONS,
    REMOVE_SCHEDULES,
    PUT_SCHEDULES,
    REMOVE,
];

pub(super) async fn apply(session: &Session, op: &ApplyProvenance) -> Result<ProvenanceApplied, Fail> {
    let [create, lock, now, change, release] = session.prepare([CREATE, LOCK, NOW, CHANGE, RESUME_ADVISED]).await?;
    let [remove_endpoints, put_endpoints, remove_sections, put_sections, remove_schedules, put_schedules] = session
        .prepare([REMOVE_ENDPOINTS, PUT_ENDPOINTS, REMOVE_SECTIONS, PUT_SECTIONS, REMOVE_SCHEDULES, PUT_SCHEDULES])
        .await?;
    if let Some(flaw) = op.invalid_reason() {
        return Err(refused(flaw));
    }
    let code = &op.provenance_code;
    let config = op.config(RegistryTable::Provenance, WHOLE);
    let ((), created, stored, now) = pipeline!(
        session.begin(),
        session.write(&create, &[code, &op.name, &config, &op.document_hash, &op.project_key]),
        session.opt(&lock, &[code]),
        moment(session, &now),
    )?;
    // Removed by another process between the two statements.
    let stored = stored.ok_or(TxError::Busy)?;
    let applied = if created > 0 { ProvenanceApplied::Created } else { ProvenanceApplied::Changed };
    if applied == ProvenanceApplied::Changed && stored.try_get::<_, &str>(0)? == op.document_hash {
        session.commit().await?;
        return Ok(ProvenanceApplied::Unchanged);
    }
    let now = if applied == ProvenanceApplied::Created { stored.try_get(1)? } else { now };
    if applied == ProvenanceApplied::Changed {
        session.write(&change, &[code, &op.name, &config, &op.document_hash, &now, &op.project_key]).await?;
    }
    let given = Columns::of(op, now.0);
    pipeline!(
        session.write(&remove_endpoints, &[code, &given.names]),
        session.write(&put_endpoints, &[code, &given.names, &given.roles, &given.defs, &now]),
        session.write(&remove_sections, &[code, &given.tables, &given.owners]),
        session.write(&put_sections, &[code, &given.tables, &given.owners, &given.configs, &now]),
        session.write(&remove_schedules, &[code, &given.scheduled, &given.operations, &given.reasons]),
        session.write(
            &put_schedules,
            &[code, &given.scheduled, &given.operations, &given.reasons, &given.times, &given.due],
        ),
        session.write(&release, &[code, &ResumeWork::BY_MANIFEST, &now]),
    )?;
    session.commit().await?;
    Ok(applied)
}

pub(super) async fn remove(session: &Session, op: &RemoveProvenance) -> Result<ProvenanceRemoved, Fail> {
    let [lock, remove, remove_endpoints, remove_sections, remove_schedules] =
        session.prepare([LOCK, REMOVE, REMOVE_ENDPOINTS, REMOVE_SECTIONS, REMOVE_SCHEDULES]).await?;
    let code = &op.provenance_code;
    let ((), stored) = pipeline!(session.begin(), session.opt(&lock, &[code]))?;
    if stored.is_some() {
        let none: Vec<&str> = Vec::new();
        pipeline!(
            session.write(&remove, &[code]),
            session.write(&remove_endpoints, &[code, &none]),
            session.write(&remove_sections, &[code, &none, &none]),
            session.write(&remove_schedules, &[code, &none, &none, &none]),
        )?;
    }
    session.commit().await?;
    Ok(ProvenanceRemoved { removed: stored.is_some() })
}

/// The manifest as arrays for `unnest`.
#[derive(Default)]
struct Columns<'a> {
    names: Vec<&'a str>,
    roles: Vec<&'a str>,
    defs: Vec<Option<&'a str>>,
    tables: Vec<&'a str>,
    owners: Vec<&'a str>,
    configs: Vec<&'a str>,
    scheduled: Vec<&'a str>,
    operations: Vec<&'a str>,
    reasons: Vec<&'a str>,
    times: Vec<String>,
    due: Vec<Time>,
}

impl Columns<'_> {
    fn of(op: &ApplyProvenance, now: Ts) -> Columns<'_> {
        let mut columns = Columns::default();
        for endpoint in &op.endpoints {
            columns.names.push(&endpoint.endpoint_name);
            columns.roles.push(&endpoint.role);
            columns.defs.push(op.config(RegistryTable::EndpointDef, &endpoint.endpoint_name));
            for schedule in &endpoint.schedules {
                columns.scheduled.push(&endpoint.endpoint_name);
                columns.operations.push(schedule.operation.as_str());
                columns.reasons.push(schedule.reason.map_or("", UpdateReason::as_str));
                columns.times.push(schedule.recurrence.to_text());
                columns.due.push(Time(schedule.recurrence.first_after(now).unwrap_or(Ts::NEVER)));
            }
        }
        for row in &op.rows {
            columns.tables.push(row.table.name());
            columns.owners.push(&row.endpoint_name);
            columns.configs.push(&row.config);
        }
        columns
    }
}

//! Writing the registry. The provenance's row is the lock: two who apply the same one take turns.

use patra_core::tx::{Applied, ApplyProvenance};

use super::{NOW, micros, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};

const CREATE: &str = "
INSERT INTO reg_provenance (provenance_code, name, document, document_hash, created_at, updated_at)
SELECT $1, $2, $3, $4, moment.now, moment.now FROM (SELECT clock_timestamp() AS now) AS moment
ON CONFLICT (provenance_code) DO NOTHING";

const LOCK: &str = "SELECT document_hash, updated_at FROM reg_provenance WHERE provenance_code = $1 FOR UPDATE";

const CHANGE: &str = "
UPDATE reg_provenance SET name = $2, document = $3, document_hash = $4, updated_at = $5
WHERE provenance_code = $1";

const REMOVE_ENDPOINTS: &str = "
DELETE FROM reg_prov_endpoint_def WHERE provenance_code = $1 AND endpoint_name <> ALL ($2::text[])";

const PUT_ENDPOINTS: &str = "
INSERT INTO reg_prov_endpoint_def (provenance_code, endpoint_name, role, created_at)
SELECT $1, given.endpoint_name, given.role, $4
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS given (endpoint_name, role, place)
ORDER BY given.place
ON CONFLICT (provenance_code, endpoint_name) DO UPDATE SET role = excluded.role";

const REMOVE_SCHEDULES: &str = "
DELETE FROM reg_schedule
WHERE provenance_code = $1 AND operation_code = 'HARVEST' AND endpoint_name <> ALL ($2::text[])";

/// An unchanged interval keeps its next due time.
const PUT_SCHEDULES: &str = "
INSERT INTO reg_schedule (provenance_code, endpoint_name, operation_code, every_us, next_due_at)
SELECT $1, given.endpoint_name, 'HARVEST', given.every_us,
  $4::timestamptz + given.every_us * interval '1 microsecond'
FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS given (endpoint_name, every_us, place)
ORDER BY given.place
ON CONFLICT (provenance_code, endpoint_name, operation_code) DO UPDATE
SET every_us = excluded.every_us, next_due_at = excluded.next_due_at
WHERE reg_schedule.every_us <> excluded.every_us";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[CREATE, LOCK, CHANGE, REMOVE_ENDPOINTS, PUT_ENDPOINTS, REMOVE_SCHEDULES, PUT_SCHEDULES];

pub(super) async fn apply(session: &Session, op: &ApplyProvenance) -> Result<Applied, Fail> {
    let [create, lock, now, change, remove_endpoints, put_endpoints, remove_schedules, put_schedules] = session
        .prepare([CREATE, LOCK, NOW, CHANGE, REMOVE_ENDPOINTS, PUT_ENDPOINTS, REMOVE_SCHEDULES, PUT_SCHEDULES])
        .await?;
    let code = &op.provenance_code;
    let ((), created, stored, now) = pipeline!(
        session.begin(),
        session.write(&create, &[code, &op.name, &op.document, &op.document_hash]),
        session.one(&lock, &[code]),
        moment(session, &now),
    )?;
    let applied = if created > 0 { Applied::Created } else { Applied::Changed };
    let now = if applied == Applied::Created { stored.try_get(1)? } else { now };
    if applied == Applied::Changed {
        if stored.try_get::<_, &str>(0)? == op.document_hash {
            session.commit().await?;
            return Ok(Applied::Unchanged);
        }
        session.write(&change, &[code, &op.name, &op.document, &op.document_hash, &now]).await?;
    }
    let endpoints = Columns::of(op);
    pipeline!(
        session.write(&remove_endpoints, &[code, &endpoints.names]),
        session.write(&put_endpoints, &[code, &endpoints.names, &endpoints.roles, &now]),
        session.write(&remove_schedules, &[code, &endpoints.scheduled]),
        session.write(&put_schedules, &[code, &endpoints.scheduled, &endpoints.every, &now]),
    )?;
    session.commit().await?;
    Ok(applied)
}

/// The endpoints as the arrays that `unnest` takes.
#[derive(Default)]
struct Columns<'a> {
    names: Vec<&'a str>,
    roles: Vec<&'a str>,
    scheduled: Vec<&'a str>,
    every: Vec<i64>,
}

impl Columns<'_> {
    fn of(op: &ApplyProvenance) -> Columns<'_> {
        let mut columns = Columns::default();
        for endpoint in &op.endpoints {
            columns.names.push(&endpoint.endpoint_name);
            columns.roles.push(&endpoint.role);
            if let Some(schedule) = endpoint.schedule {
                columns.scheduled.push(&endpoint.endpoint_name);
                columns.every.push(micros(schedule.every));
            }
        }
        columns
    }
}

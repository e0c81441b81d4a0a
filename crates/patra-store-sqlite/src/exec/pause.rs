//! Pauses: setting and ending them, and checking whether one covers a task.

use patra_core::state::Operation;
use patra_core::tx::{ADVISORY_TTL, PauseSelector, PauseSubject, PauseWork, ResumeWork, WorkPaused, WorkResumed};
use patra_core::{CredentialId, PauseId, PlanId, SliceId, TaskId, Ts};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::{Error, Result};
use crate::sql::maybe_word;

const INSERT: &str = "
INSERT INTO ing_hold
  (kind_code, subject, provenance_code, endpoint_name, operation_code, credential_id, plan_id, slice_id, task_id,
   reason, created_by, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
RETURNING id";

const READ_ID: &str = "SELECT id FROM ing_hold WHERE kind_code = ?1 AND subject = ?2 AND released_at IS NULL";

const RESUME_ID: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3 WHERE id = ?1 AND released_at IS NULL";

const RESUME_SUBJECT: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3
WHERE kind_code IN ('PAUSE', 'BREAK', 'ADVISORY') AND subject = ?1 AND released_at IS NULL";

const RESUME_ADVISORY: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3
WHERE kind_code = 'ADVISORY' AND subject = ?1 AND released_at IS NULL";

const RESUME_ADVISED: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3
WHERE kind_code = 'ADVISORY' AND provenance_code = ?1 AND released_at IS NULL";

const RESUME_OLD_ADVICE: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3
WHERE kind_code = 'ADVISORY' AND released_at IS NULL AND created_at <= ?1";

pub(crate) const READ_STOPPING: &str = "
SELECT provenance_code, endpoint_name, operation_code, credential_id, plan_id, slice_id, task_id
FROM ing_hold
WHERE kind_code IN ('PAUSE', 'BREAK') AND released_at IS NULL";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[INSERT, READ_ID, RESUME_ID, RESUME_SUBJECT, RESUME_ADVISORY, RESUME_ADVISED, RESUME_OLD_ADVICE, READ_STOPPING];

pub(super) fn set(db: &Connection, op: &PauseWork, now: Ts) -> Result<WorkPaused> {
    if let Some(flaw) = op.subject.invalid_reason() {
        return Err(Error::refused(flaw));
    }
    let PauseSubject { provenance_code, endpoint_name, operation, credential, plan, slice, task } = &op.subject;
    let (kind, subject) = (op.kind.as_str(), op.subject.to_text());
    let id = |row: &Row<'_>| row.get(0).map(PauseId);
    if let Some(pause) = db.prepare_cached(READ_ID)?.query_row([kind, &*subject], id).optional()? {
        return Ok(WorkPaused { pause, existed: true });
    }
    let values = params![
        kind,
        subject,
        provenance_code,
        endpoint_name,
        operation.map(Operation::as_str),
        credential.map(|id| id.0),
        plan.map(|id| id.0),
        slice.map(|id| id.0),
        task.map(|id| id.0),
        op.reason,
        op.by,
        now.micros(),
    ];
    Ok(WorkPaused { pause: db.prepare_cached(INSERT)?.query_row(values, id)?, existed: false })
}

pub(super) fn resume(db: &Connection, op: &ResumeWork, now: Ts) -> Result<WorkResumed> {
    let resumed = match &op.target {
        PauseSelector::Id(pause) => db.prepare_cached(RESUME_ID)?.execute(params![pause.0, op.by, now.micros()])?,
        PauseSelector::On(subject) => {
            db.prepare_cached(RESUME_SUBJECT)?.execute(params![subject.to_text(), op.by, now.micros()])?
        }
    };
    Ok(WorkResumed { resumed: resumed as u32 })
}

/// Ends the advisory pause on exactly this partition: a task of it succeeded.
pub(super) fn resume_advisory(db: &Connection, partition: &PauseSubject, now: Ts) -> Result<()> {
    db.prepare_cached(RESUME_ADVISORY)?.execute(params![partition.to_text(), ResumeWork::BY_SUCCESS, now.micros()])?;
    Ok(())
}

/// Ends the advisory pauses of a provenance: it has another manifest now.
pub(super) fn resume_advised(db: &Connection, provenance_code: &str, now: Ts) -> Result<()> {
    db.prepare_cached(RESUME_ADVISED)?.execute(params![provenance_code, ResumeWork::BY_MANIFEST, now.micros()])?;
    Ok(())
}

/// Ends the advisory pauses that have lasted long enough.
pub(super) fn resume_old_advice(db: &Connection, now: Ts) -> Result<()> {
    let values = params![(now - ADVISORY_TTL).micros(), ResumeWork::BY_TIME, now.micros()];
    db.prepare_cached(RESUME_OLD_ADVICE)?.execute(values)?;
    Ok(())
}

/// Pauses that stop tasks: PAUSE and BREAK. There are few.
pub(super) struct StoppingPauses {
    /// Pauses that name no plan, slice or task.
    wide: Vec<PauseSubject>,
    narrow: Vec<PauseSubject>,
}

/// Attributes shared by many tasks that a pause can name.
pub(super) struct TaskAttributes<'a> {
    pub(super) provenance_code: &'a str,
    pub(super) endpoint_name: &'a str,
    pub(super) operation: Operation,
    pub(super) credential: Option<CredentialId>,
}

/// The ids of one task that a pause can name.
pub(super) struct TaskIds {
    pub(super) plan: PlanId,
    pub(super) slice: SliceId,
    pub(super) task: TaskId,
}

impl StoppingPauses {
    pub(super) fn read(db: &Connection) -> Result<StoppingPauses> {
        let mut statement = db.prepare_cached(READ_STOPPING)?;
        let all = statement.query_map((), read_subject)?.collect::<rusqlite::Result<Vec<_>>>()?;
        let (wide, narrow) = all.into_iter().partition(|subject: &PauseSubject| {
            subject.plan.is_none() && subject.slice.is_none() && subject.task.is_none()
        });
        Ok(StoppingPauses { wide, narrow })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wide.is_empty() && self.narrow.is_empty()
    }

    /// Whether all tasks with these attributes are paused.
    pub(super) fn stops_all(&self, attributes: &TaskAttributes<'_>) -> bool {
        self.wide.iter().any(|subject| names(subject, attributes))
    }

    /// Whether some tasks with these attributes may be paused, although not all are.
    pub(super) fn may_stop_some(&self, attributes: &TaskAttributes<'_>) -> bool {
        self.narrow.iter().any(|subject| names(subject, attributes))
    }

    pub(super) fn stops(&self, attributes: &TaskAttributes<'_>, ids: &TaskIds) -> bool {
        self.wide.iter().chain(&self.narrow).any(|subject| {
            names(subject, attributes)
                && subject.plan.is_none_or(|id| id == ids.plan)
                && subject.slice.is_none_or(|id| id == ids.slice)
                && subject.task.is_none_or(|id| id == ids.task)
        })
    }
}

fn names(subject: &PauseSubject, attributes: &TaskAttributes<'_>) -> bool {
    subject.provenance_code.as_deref().is_none_or(|code| code == attributes.provenance_code)
        && subject.endpoint_name.as_deref().is_none_or(|name| name == attributes.endpoint_name)
        && subject.operation.is_none_or(|operation| operation == attributes.operation)
        && subject.credential.is_none_or(|id| Some(id) == attributes.credential)
}

fn read_subject(row: &Row<'_>) -> rusqlite::Result<PauseSubject> {
    Ok(PauseSubject {
        provenance_code: row.get(0)?,
        endpoint_name: row.get(1)?,
        operation: maybe_word(row, 2)?,
        credential: row.get::<_, Option<i64>>(3)?.map(CredentialId),
        plan: row.get::<_, Option<i64>>(4)?.map(PlanId),
        slice: row.get::<_, Option<i64>>(5)?.map(SliceId),
        task: row.get::<_, Option<i64>>(6)?.map(TaskId),
    })
}

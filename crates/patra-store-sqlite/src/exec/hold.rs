//! What stands still: setting and releasing holds, and asking whether one covers a task.

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

const RELEASE_ID: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3 WHERE id = ?1 AND released_at IS NULL";

const RELEASE_SUBJECT: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3
WHERE kind_code IN ('PAUSE', 'BREAK', 'ADVISORY') AND subject = ?1 AND released_at IS NULL";

const RELEASE_ADVISORY: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3
WHERE kind_code = 'ADVISORY' AND subject = ?1 AND released_at IS NULL";

const RELEASE_ADVISED: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3
WHERE kind_code = 'ADVISORY' AND provenance_code = ?1 AND released_at IS NULL";

const RELEASE_OLD_ADVICE: &str = "
UPDATE ing_hold SET released_by = ?2, released_at = ?3
WHERE kind_code = 'ADVISORY' AND released_at IS NULL AND created_at <= ?1";

pub(crate) const READ_STOPPING: &str = "
SELECT provenance_code, endpoint_name, operation_code, credential_id, plan_id, slice_id, task_id
FROM ing_hold
WHERE kind_code IN ('PAUSE', 'BREAK') AND released_at IS NULL";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    INSERT,
    READ_ID,
    RELEASE_ID,
    RELEASE_SUBJECT,
    RELEASE_ADVISORY,
    RELEASE_ADVISED,
    RELEASE_OLD_ADVICE,
    READ_STOPPING,
];

pub(super) fn set(db: &Connection, op: &PauseWork, now: Ts) -> Result<WorkPaused> {
    if let Some(flaw) = op.subject.invalid_reason() {
        return Err(Error::refused(flaw));
    }
    let PauseSubject { provenance_code, endpoint_name, operation, credential, plan, slice, task } = &op.subject;
    let (kind, subject) = (op.kind.as_str(), op.subject.to_text());
    let id = |row: &Row<'_>| row.get(0).map(PauseId);
    if let Some(hold) = db.prepare_cached(READ_ID)?.query_row([kind, &*subject], id).optional()? {
        return Ok(WorkPaused { pause: hold, existed: true });
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

pub(super) fn release(db: &Connection, op: &ResumeWork, now: Ts) -> Result<WorkResumed> {
    let released = match &op.target {
        PauseSelector::Id(hold) => db.prepare_cached(RELEASE_ID)?.execute(params![hold.0, op.by, now.micros()])?,
        PauseSelector::On(subject) => {
            db.prepare_cached(RELEASE_SUBJECT)?.execute(params![subject.to_text(), op.by, now.micros()])?
        }
    };
    Ok(WorkResumed { resumed: released as u32 })
}

/// Ends the advisory pause on exactly this partition: a task of it succeeded.
pub(super) fn release_advisory(db: &Connection, partition: &PauseSubject, now: Ts) -> Result<()> {
    db.prepare_cached(RELEASE_ADVISORY)?.execute(params![partition.to_text(), ResumeWork::BY_SUCCESS, now.micros()])?;
    Ok(())
}

/// Ends the advisory pauses of a provenance: it has another manifest now.
pub(super) fn release_advised(db: &Connection, provenance_code: &str, now: Ts) -> Result<()> {
    db.prepare_cached(RELEASE_ADVISED)?.execute(params![provenance_code, ResumeWork::BY_MANIFEST, now.micros()])?;
    Ok(())
}

/// Ends the advisory pauses that have lasted long enough.
pub(super) fn release_old_advice(db: &Connection, now: Ts) -> Result<()> {
    let values = params![(now - ADVISORY_TTL).micros(), ResumeWork::BY_TIME, now.micros()];
    db.prepare_cached(RELEASE_OLD_ADVICE)?.execute(values)?;
    Ok(())
}

/// The holds that stop tasks: PAUSE and BREAK. Few, or there would be nothing to do.
pub(super) struct Stopping {
    /// Those that know no single plan, slice or task.
    wide: Vec<PauseSubject>,
    narrow: Vec<PauseSubject>,
}

/// What many tasks have in common that a hold can name.
pub(super) struct Common<'a> {
    pub(super) provenance_code: &'a str,
    pub(super) endpoint_name: &'a str,
    pub(super) operation: Operation,
    pub(super) credential: Option<CredentialId>,
}

/// What of one task a hold can name beside that.
pub(super) struct Own {
    pub(super) plan: PlanId,
    pub(super) slice: SliceId,
    pub(super) task: TaskId,
}

impl Stopping {
    pub(super) fn read(db: &Connection) -> Result<Stopping> {
        let mut statement = db.prepare_cached(READ_STOPPING)?;
        let all = statement.query_map((), read_subject)?.collect::<rusqlite::Result<Vec<_>>>()?;
        let (wide, narrow) = all.into_iter().partition(|subject: &PauseSubject| {
            subject.plan.is_none() && subject.slice.is_none() && subject.task.is_none()
        });
        Ok(Stopping { wide, narrow })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wide.is_empty() && self.narrow.is_empty()
    }

    /// All tasks with this in common are stopped.
    pub(super) fn stops_all(&self, common: &Common<'_>) -> bool {
        self.wide.iter().any(|subject| names(subject, common))
    }

    /// Some tasks with this in common may be stopped, although not all are.
    pub(super) fn may_stop_some(&self, common: &Common<'_>) -> bool {
        self.narrow.iter().any(|subject| names(subject, common))
    }

    pub(super) fn stops(&self, common: &Common<'_>, own: &Own) -> bool {
        self.wide.iter().chain(&self.narrow).any(|subject| {
            names(subject, common)
                && subject.plan.is_none_or(|id| id == own.plan)
                && subject.slice.is_none_or(|id| id == own.slice)
                && subject.task.is_none_or(|id| id == own.task)
        })
    }
}

fn names(subject: &PauseSubject, common: &Common<'_>) -> bool {
    subject.provenance_code.as_deref().is_none_or(|code| code == common.provenance_code)
        && subject.endpoint_name.as_deref().is_none_or(|name| name == common.endpoint_name)
        && subject.operation.is_none_or(|operation| operation == common.operation)
        && subject.credential.is_none_or(|id| Some(id) == common.credential)
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

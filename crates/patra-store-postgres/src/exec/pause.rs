//! Pauses: setting and ending them, and the condition under which one covers a task.

use patra_core::PauseId;
use patra_core::state::Operation;
use patra_core::tx::{PauseSelector, PauseWork, ResumeWork, WorkPaused, WorkResumed};
use tokio_postgres::Statement;

use super::{NOW, moment};
use crate::error::{Fail, refused};
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// Whether pause `h` names the partition of row `t`, or any.
macro_rules! names_partition {
    ($h:literal, $t:literal) => {
        concat!(
            "(",
            $h,
            ".provenance_code IS NULL OR ",
            $h,
            ".provenance_code = ",
            $t,
            ".provenance_code)
    AND (",
            $h,
            ".endpoint_name IS NULL OR ",
            $h,
            ".endpoint_name = ",
            $t,
            ".endpoint_name)
    AND (",
            $h,
            ".operation_code IS NULL OR ",
            $h,
            ".operation_code = ",
            $t,
            ".operation_code)"
        )
    };
}
pub(super) use names_partition;

/// Whether pause `h` covers task `t`.
macro_rules! covers_task {
    ($h:literal, $t:literal) => {
        concat!(
            $crate::exec::pause::names_partition!($h, $t),
            "
    AND (",
            $h,
            ".credential_id IS NULL OR ",
            $h,
            ".credential_id = ",
            $t,
            ".credential_id)
    AND (",
            $h,
            ".plan_id IS NULL OR ",
            $h,
            ".plan_id = ",
            $t,
            ".plan_id)
    AND (",
            $h,
            ".slice_id IS NULL OR ",
            $h,
            ".slice_id = ",
            $t,
            ".slice_id)
    AND (",
            $h,
            ".task_id IS NULL OR ",
            $h,
            ".task_id = ",
            $t,
            ".id)"
        )
    };
}
pub(super) use covers_task;

pub(super) const INSERT: &str = "
INSERT INTO ing_hold (kind_code, subject, provenance_code, endpoint_name, operation_code, credential_id, plan_id,
  slice_id, task_id, reason, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (kind_code, subject) WHERE released_at IS NULL DO NOTHING
RETURNING id";

/// A separate statement, so that it sees a pause that was set while the first one waited.
const FIND: &str = "SELECT id FROM ing_hold WHERE kind_code = $1 AND subject = $2 AND released_at IS NULL";

const RESUME_ID: &str = "
UPDATE ing_hold SET released_by = $2, released_at = clock_timestamp()
WHERE id = $1 AND released_at IS NULL
RETURNING id";

const RESUME_SUBJECT: &str = "
UPDATE ing_hold SET released_by = $2, released_at = clock_timestamp()
WHERE kind_code IN ('PAUSE', 'BREAK', 'ADVISORY') AND subject = $1 AND released_at IS NULL
RETURNING id";

/// Ends the advisory pause on exactly this partition: a task of it succeeded.
pub(super) const RESUME_ADVISORY: &str = "
UPDATE ing_hold SET released_by = $2, released_at = $3
WHERE kind_code = 'ADVISORY' AND subject = ANY ($1) AND released_at IS NULL";

/// Ends the advisory pauses of a provenance: it has another manifest now.
pub(super) const RESUME_ADVISED: &str = "
UPDATE ing_hold SET released_by = $2, released_at = $3
WHERE kind_code = 'ADVISORY' AND provenance_code = $1 AND released_at IS NULL";

/// Ends the advisory pauses that have lasted long enough.
pub(super) const RESUME_OLD_ADVICE: &str = "
UPDATE ing_hold SET released_by = $2, released_at = clock_timestamp()
WHERE kind_code = 'ADVISORY' AND released_at IS NULL
  AND created_at <= clock_timestamp() - $1::bigint * interval '1 microsecond'";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[INSERT, FIND, RESUME_ID, RESUME_SUBJECT, RESUME_ADVISORY, RESUME_ADVISED, RESUME_OLD_ADVICE];

pub(super) async fn set(session: &Session, op: &PauseWork) -> Result<WorkPaused, Fail> {
    let [now, insert, find] = session.prepare([NOW, INSERT, FIND]).await?;
    let ((), now) = pipeline!(session.begin(), moment(session, &now))?;
    let made = put(session, &insert, op, now).await?;
    let paused = match made {
        Some(pause) => WorkPaused { pause, existed: false },
        None => {
            let found = session.opt(&find, &[&op.kind.as_str(), &op.subject.to_text()]).await?;
            // Resumed between the two statements: set a new pause.
            let found = found.ok_or(patra_core::tx::TxError::Busy)?;
            WorkPaused { pause: PauseId(found.try_get(0)?), existed: true }
        }
    };
    session.commit().await?;
    Ok(paused)
}

/// Sets a pause unless it exists. Uses [`INSERT`] in the caller's transaction.
pub(super) async fn put(
    session: &Session,
    insert: &Statement,
    op: &PauseWork,
    now: Time,
) -> Result<Option<PauseId>, Fail> {
    let subject = &op.subject;
    if let Some(flaw) = subject.invalid_reason() {
        return Err(refused(flaw));
    }
    let made = session
        .opt(
            insert,
            &[
                &op.kind.as_str(),
                &subject.to_text(),
                &subject.provenance_code,
                &subject.endpoint_name,
                &subject.operation.map(Operation::as_str),
                &subject.credential.map(|id| id.0),
                &subject.plan.map(|id| id.0),
                &subject.slice.map(|id| id.0),
                &subject.task.map(|id| id.0),
                &op.reason,
                &op.by,
                &now,
            ],
        )
        .await?;
    Ok(made.map(|row| row.try_get(0).map(PauseId)).transpose()?)
}

pub(super) async fn resume(session: &Session, op: &ResumeWork) -> Result<WorkResumed, Fail> {
    let rows = match &op.target {
        PauseSelector::Id(pause) => {
            let [resume] = session.prepare([RESUME_ID]).await?;
            session.alone(&resume, &[&pause.0, &op.by]).await?
        }
        PauseSelector::On(subject) => {
            let [resume] = session.prepare([RESUME_SUBJECT]).await?;
            session.alone(&resume, &[&subject.to_text(), &op.by]).await?
        }
    };
    Ok(WorkResumed { resumed: u32::try_from(rows.len()).unwrap_or(u32::MAX) })
}

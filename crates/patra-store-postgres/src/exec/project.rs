//! Projects, and the job types whose URLs are captured for them.

use patra_core::tx::{CaptureConfigured, ConfigureCapture, CreateProject, MAX_JOB_TYPES, ProjectCreated};

use crate::error::{Fail, refused};
use crate::pool::Session;

const CREATE: &str = "
INSERT INTO project (project_key, name, created_at) VALUES ($1, $2, clock_timestamp())
ON CONFLICT (project_key) DO NOTHING
RETURNING id";

/// Job types sorted and distinct, so that two calls never deadlock.
const CONFIGURE: &str = "
INSERT INTO resource_pool_capture (project_key, job_type, scope, enabled, updated_at)
SELECT $1, job_type, $3, $4::boolean::integer, clock_timestamp()
FROM (SELECT DISTINCT job_type COLLATE \"C\" AS job_type FROM unnest($2::text[]) AS n (job_type)) AS given
ORDER BY job_type
ON CONFLICT (project_key, job_type) DO UPDATE
SET scope = excluded.scope, enabled = excluded.enabled, updated_at = excluded.updated_at";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[CREATE, CONFIGURE];

pub(super) async fn create(session: &Session, op: &CreateProject) -> Result<ProjectCreated, Fail> {
    let [create] = session.prepare([CREATE]).await?;
    let made = session.alone(&create, &[&op.project_key, &op.name]).await?;
    Ok(ProjectCreated { existed: made.is_empty() })
}

pub(super) async fn configure_capture(session: &Session, op: &ConfigureCapture) -> Result<CaptureConfigured, Fail> {
    let given = op.job_types.len();
    if given > MAX_JOB_TYPES {
        return Err(refused(format!("{given} job types in one request: at most {MAX_JOB_TYPES}")));
    }
    let [configure] = session.prepare([CONFIGURE]).await?;
    session.alone(&configure, &[&op.project_key, &op.job_types, &op.library.as_str(), &op.enabled]).await?;
    Ok(CaptureConfigured)
}

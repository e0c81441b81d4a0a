//! Projects.

use patra_core::Ts;
use patra_core::tx::{CreateProject, ProjectCreated};
use rusqlite::{Connection, params};

use crate::error::Result;

const INSERT: &str = "
INSERT INTO project (project_key, name, created_at) VALUES (?1, ?2, ?3)
ON CONFLICT (project_key) DO NOTHING";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT];

pub(super) fn create(db: &Connection, op: &CreateProject, now: Ts) -> Result<ProjectCreated> {
    let created = db.prepare_cached(INSERT)?.execute(params![op.project_key, op.name, now.micros()])?;
    Ok(ProjectCreated { existed: created == 0 })
}

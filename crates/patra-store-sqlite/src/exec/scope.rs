//! Scope of record ids: a number that stands for project, provenance and scope name (MAP-C-10).

use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;

const FIND: &str = "
SELECT id FROM item_scope WHERE project_key = ?1 AND provenance_code = ?2 AND dedup_scope = ?3";

const INSERT: &str = "
INSERT INTO item_scope (project_key, provenance_code, dedup_scope) VALUES (?1, ?2, ?3) RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[FIND, INSERT];

/// The number of a scope in a query, from its three names as these values.
macro_rules! scope_id {
    ($project:literal, $provenance:literal, $scope:literal) => {
        concat!(
            "(SELECT id FROM item_scope WHERE project_key = ",
            $project,
            " AND provenance_code = ",
            $provenance,
            " AND dedup_scope = ",
            $scope,
            ")"
        )
    };
}

pub(crate) use scope_id;

/// Returns the number of a scope for a writer, and creates it on first use.
pub(super) fn number(db: &Connection, project: &str, provenance: &str, scope: &str) -> Result<i64> {
    let names = [project, provenance, scope];
    let found = db.prepare_cached(FIND)?.query_row(names, |row| row.get(0)).optional()?;
    match found {
        Some(number) => Ok(number),
        None => Ok(db.prepare_cached(INSERT)?.query_row(names, |row| row.get(0))?),
    }
}

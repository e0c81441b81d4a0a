//! Scope of record ids: a number that stands for project, provenance and scope name (MAP-C-10). Writers call
//! `item_scope_of`, which creates it on first use.

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

//! Within what the ids of records are unique: a number that stands for project, provenance and scope (MAP-C-10). Who writes asks
//! `item_scope_of`, which makes it when it is the first time.

/// The number of a scope for who reads, in a statement that has its three names as these values.
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

//! The paths of a record id: one or several.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "IdPathsInput", into = "IdPathsInput")]
pub struct IdPaths(pub Vec<String>);

/// The written form: a single path is a plain text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum IdPathsInput {
    One(String),
    Several(Vec<String>),
}

impl IdPaths {
    pub fn one(path: impl Into<String>) -> IdPaths {
        IdPaths(vec![path.into()])
    }
}

impl From<IdPathsInput> for IdPaths {
    fn from(written: IdPathsInput) -> IdPaths {
        match written {
            IdPathsInput::One(path) => IdPaths::one(path),
            IdPathsInput::Several(paths) => IdPaths(paths),
        }
    }
}

impl From<IdPaths> for IdPathsInput {
    fn from(IdPaths(mut paths): IdPaths) -> IdPathsInput {
        if paths.len() == 1 { IdPathsInput::One(paths.remove(0)) } else { IdPathsInput::Several(paths) }
    }
}

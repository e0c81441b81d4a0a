//! One path or several.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Paths(pub Vec<String>);

/// A single path is written without a list.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    One(String),
    Several(Vec<String>),
}

impl Paths {
    pub fn one(path: impl Into<String>) -> Paths {
        Paths(vec![path.into()])
    }
}

impl From<Written> for Paths {
    fn from(written: Written) -> Paths {
        match written {
            Written::One(path) => Paths::one(path),
            Written::Several(paths) => Paths(paths),
        }
    }
}

impl From<Paths> for Written {
    fn from(Paths(mut paths): Paths) -> Written {
        if paths.len() == 1 { Written::One(paths.remove(0)) } else { Written::Several(paths) }
    }
}

//! What there is to read, and where it ends or breaks.

use serde::{Deserialize, Serialize};

/// `/details` and `/detail/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Detail {
    /// Ids in one request; 400 beyond.
    pub max_ids: usize,
    pub unknown: Unknown,
    /// Records that `/ids` lists and `/details` does not know.
    pub gone: Vec<usize>,
    /// Records that make every request fail that names them.
    pub poison: Vec<Failing>,
}

impl Default for Detail {
    fn default() -> Self {
        Self { max_ids: 100, unknown: Unknown::Omit, gone: Vec::new(), poison: Vec::new() }
    }
}

/// What `/details` does about an id it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// The others are answered, and nothing is said.
    Omit,
    /// The whole request fails with this status.
    Status(u16),
}

/// A record or user, by its number in the dataset, and the status that its requests get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    pub index: usize,
    pub status: u16,
}

/// What lies behind the ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingMode {
    /// 400 with the code `result_window_too_large`. `has_more` and `next` lead right into it.
    Refuse,
    /// Nothing: the listing ends as if it were whole. Only the total tells.
    Clamp,
}

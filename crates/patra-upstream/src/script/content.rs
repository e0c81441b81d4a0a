//! The content, its limits and failing items.

use serde::{Deserialize, Serialize};

/// Behaviour of `/details` and `/detail/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetailEndpoints {
    /// Most ids in one request; more get 400.
    pub max_ids: usize,
    pub unknown: UnknownIdPolicy,
    /// Records that `/ids` lists and `/details` does not return.
    pub gone: Vec<usize>,
    /// Records that make every request for them fail.
    pub poison: Vec<FailingItem>,
}

impl Default for DetailEndpoints {
    fn default() -> Self {
        Self { max_ids: 100, unknown: UnknownIdPolicy::Omit, gone: Vec::new(), poison: Vec::new() }
    }
}

/// How `/details` handles an unknown id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownIdPolicy {
    /// The unknown id is left out silently.
    Omit,
    /// The whole request fails with this status.
    Status(u16),
}

/// A record or user, by index, and the status of requests for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingItem {
    pub index: usize,
    pub status: u16,
}

/// How requests beyond the ceiling are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingMode {
    /// 400 with the code `result_window_too_large`. `has_more` and `next` still lead there.
    Refuse,
    /// The listing ends as if it were complete. Only the total shows that it is not.
    Clamp,
}

//! The same records in the style of well-known APIs, to test a manifest before it is used with the real one: a list
//! with `Link` headers, a GraphQL connection, an export of one day as CSV or Atom, a notes platform with cookies, and a
//! tweet provider.

pub(crate) mod export;
pub(crate) mod graphql;
pub(crate) mod issues;
pub(crate) mod notes;
pub(crate) mod tweets;

use serde_json::Value;

use crate::dataset::Dataset;

/// The record as a JSON value.
fn record(dataset: &Dataset, index: usize) -> Value {
    dataset.get(index).and_then(|(_, _, json)| serde_json::from_str(json).ok()).unwrap_or_default()
}

//! The same records in the manner of APIs that many manifests are written for, to try a manifest on before it meets the
//! real one: a list with `Link` headers, a GraphQL connection, an export of one day as CSV or Atom; a platform
//! of notes behind cookies, and a provider of tweets.

pub(crate) mod export;
pub(crate) mod graphql;
pub(crate) mod issues;
pub(crate) mod notes;
pub(crate) mod tweets;

use serde_json::Value;

use crate::dataset::Dataset;

/// The record as a value, to take it apart.
fn record(dataset: &Dataset, index: usize) -> Value {
    dataset.get(index).and_then(|(_, _, json)| serde_json::from_str(json).ok()).unwrap_or_default()
}

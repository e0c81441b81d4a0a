//! Compares the demo's database with the data of the mock API.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use patra_core::port::Queries;
use patra_core::port::query::{Cell, View, ViewFilter};
use patra_store_sqlite::{Options, SqliteStore};
use patra_upstream::MockApi;

use crate::clock::SystemClock;
use crate::error::Error;
use crate::progress::say;

pub(super) async fn stored(folder: &Path) -> Result<usize, Error> {
    Ok(items(folder).await?.len())
}

/// Prints the result; fails if a record is missing, duplicated or different.
pub(super) async fn compare(folder: &Path, server: &MockApi, before: usize) -> Result<(), Error> {
    let items = items(folder).await?;
    let stats = server.stats();
    let mut by_key: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, _) in &items {
        *by_key.entry(key).or_default() += 1;
    }
    let payloads: BTreeMap<&str, &str> = items.iter().map(|(key, payload)| (key.as_str(), payload.as_str())).collect();
    let missing = server.dataset().records().filter(|(id, _, _)| !by_key.contains_key(id)).count();
    let different =
        server.dataset().records().filter(|(id, _, json)| payloads.get(id).is_some_and(|have| have != json)).count();
    let double = by_key.values().filter(|count| **count > 1).count();
    say(&format!(
        "6. Done: {} records in the database, {} of them from before the kill.\n   \
         Compared with the mock API: {missing} missing, {double} double, {different} different.\n   \
         The mock API got {} requests, refused {} with 429 and {} with 500; {} came earlier than it allowed.",
        items.len(),
        before,
        stats.data_requests,
        stats.r429,
        stats.r500,
        stats.too_early
    ));
    if missing + double + different > 0 {
        return Err(Error::unexpected("the collected records differ from those of the mock API"));
    }
    Ok(())
}

async fn items(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let options = Options::new(folder.join("patra.db"), Arc::new(SystemClock));
    let reader = SqliteStore::open_read_only(&options).map_err(|error| Error::unexpected(error.to_string()))?;
    let at = |name| View::Items.columns().iter().position(|column| column.name == name).unwrap_or_default();
    let (id, key, payload) = (at("id"), at("dedup_key"), at("payload"));
    let (mut found, mut before_id) = (Vec::new(), None);
    loop {
        let rows = reader
            .list(View::Items, ViewFilter { before_id, limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() })
            .await?;
        let Some(last) = rows.last() else { return Ok(found) };
        before_id = last[id].as_int();
        for mut row in rows {
            let mut take = |at: usize| match std::mem::replace(&mut row[at], Cell::Null) {
                Cell::Text(text) | Cell::Json(text) => text,
                _ => String::new(),
            };
            found.push((take(key), take(payload)));
        }
    }
}

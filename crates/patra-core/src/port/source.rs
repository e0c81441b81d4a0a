//! Queries about sources and their items.

use std::fmt;

use super::BoxFuture;
use crate::id::SourceId;
use crate::source::{Interval, SourceState};
use crate::time::Ts;
use crate::tx::{SourceTypeRow, TxError};

/// Read access to sources. Results may be a moment old.
pub trait SourceQueries: fmt::Debug + Send + Sync {
    /// Due sources, and when the next one becomes due.
    fn due(&self, limit: u32) -> BoxFuture<'_, Result<DueSources, TxError>>;

    /// Sources that are not deleted, by id.
    fn sources(&self, filter: SourceFilter) -> BoxFuture<'_, Result<Vec<StoredSource>, TxError>>;

    /// The table of types, by name.
    fn source_types(&self) -> BoxFuture<'_, Result<Vec<SourceTypeRow>, TxError>>;

    /// The configuration table, by key.
    fn settings(&self) -> BoxFuture<'_, Result<Vec<(String, String)>, TxError>>;

    /// Items of sources, the newest first; emptied ones are omitted.
    fn raw_items(&self, filter: ItemFilter) -> BoxFuture<'_, Result<Vec<RawItem>, TxError>>;

    /// Item counts of the active sources of a project, by source.
    fn raw_item_stats(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<ItemStats>, TxError>>;

    /// Collector activity of the last 24 hours, and the collectors that are alive.
    fn collector_stats(&self, project_key: &str) -> BoxFuture<'_, Result<CollectorStats, TxError>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueSources {
    /// Never fetched first, then by the time of the last fetch, then by id (COLL-26).
    pub sources: Vec<SourceId>,
    /// When the next source becomes due after now.
    pub next: Option<Ts>,
    pub now: Ts,
}

/// Every condition that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFilter {
    pub project_key: Option<String>,
    /// Only these ids.
    pub ids: Option<Vec<i64>>,
    pub public_only: bool,
    /// Only sources with a poll that has not ended.
    pub polling_only: bool,
    /// Only sources that failed or that errors paused, and active ones whose last new item is older than this.
    pub troubled: Option<Ts>,
    /// Only greater ids: the next page.
    pub after: i64,
    /// 0 for all.
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSource {
    pub id: SourceId,
    pub project_key: String,
    pub r#type: String,
    pub name: String,
    /// JSON, an object.
    pub config: String,
    pub is_public: bool,
    /// The effective interval.
    pub interval: Interval,
    /// Why the source cannot be fetched.
    pub unsupported: Option<String>,
    pub state: SourceState,
    pub poll_count: i64,
    /// When its poll that has not ended may start; `None` without one.
    pub polling: Option<Ts>,
    pub created_at: Ts,
    pub updated_at: Ts,
}

impl StoredSource {
    /// Why a source of an unknown type is skipped.
    pub fn no_fetcher(r#type: &str) -> String {
        format!("no fetcher for type '{type}'")
    }

    /// The status as one word (COLL-74).
    pub fn status(&self) -> &'static str {
        match &self.state {
            _ if self.unsupported.is_some() => "unsupported",
            SourceState { paused: Some(_), .. } => "paused",
            SourceState { last_error: Some(_), .. } => "error",
            SourceState { last_fetched_at: None, .. } => "pending",
            _ => "ok",
        }
    }

    /// The last fetch plus one interval (COLL-73). The actual time of the next poll is
    /// [`StoredSource::next_attempt_at`].
    pub fn next_fetch_at(&self) -> Option<Ts> {
        let collected = self.state.paused.is_none() && self.unsupported.is_none();
        self.state.last_fetched_at.filter(|_| collected).map(|fetched| fetched + self.interval.duration())
    }

    /// When it will be polled; `None` for a source that is due at once, or never.
    pub fn next_attempt_at(&self) -> Option<Ts> {
        self.polling.or(self.state.next_due_at).filter(|at| *at > Ts::from_secs(0))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ItemFilter {
    pub project_key: String,
    pub sources: Option<Vec<i64>>,
    /// Found at or after.
    pub since: Option<Ts>,
    pub limit: u32,
    pub offset: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawItem {
    pub id: i64,
    pub source: SourceId,
    pub source_name: String,
    pub source_type: String,
    pub dedup_key: String,
    /// Mapped fields, a JSON object or empty.
    pub fields: String,
    pub fetched_at: Ts,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemStats {
    pub source: SourceId,
    pub name: String,
    pub r#type: String,
    pub total_items: i64,
    pub items_24h: i64,
    pub last_item_at: Option<Ts>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CollectorStats {
    /// Polls that ended, successful or not.
    pub fetches_24h: i64,
    pub errors_24h: i64,
    pub items_24h: i64,
    /// Polls in progress.
    pub running: i64,
    /// The newest first.
    pub heartbeats: Vec<HeartbeatRow>,
    pub now: Option<Ts>,
}

/// The last heartbeat of a collector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeartbeatRow {
    pub owner: String,
    pub last_tick_at: Ts,
    pub next_tick_at: Ts,
    pub tick_seconds: i64,
    pub concurrency: i64,
    pub leaving: bool,
}

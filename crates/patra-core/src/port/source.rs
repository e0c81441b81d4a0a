//! What can be read of sources and of what they brought.

use std::fmt;

use super::Boxed;
use crate::id::SourceId;
use crate::source::{Interval, State};
use crate::time::Ts;
use crate::tx::{TxError, TypeRow};

/// Read access to sources. Answers may be a moment old.
pub trait Sources: fmt::Debug + Send + Sync {
    /// Who is due, and when the next one is.
    fn due(&self, limit: u32) -> Boxed<'_, Result<Due, TxError>>;

    /// Sources that are not deleted, by id.
    fn sources(&self, ask: SourceFilter) -> Boxed<'_, Result<Vec<Source>, TxError>>;

    /// The table of types, by name.
    fn source_types(&self) -> Boxed<'_, Result<Vec<TypeRow>, TxError>>;

    /// The configuration table, by key.
    fn settings(&self) -> Boxed<'_, Result<Vec<(String, String)>, TxError>>;

    /// Items of sources, those that were found last first; emptied ones left out.
    fn raw_items(&self, ask: ItemFilter) -> Boxed<'_, Result<Vec<RawItem>, TxError>>;

    /// How much the active sources of a project brought, by source.
    fn raw_item_stats(&self, project_key: &str) -> Boxed<'_, Result<Vec<ItemStats>, TxError>>;

    /// What the collectors have done in the last 24 hours, and whether any lives.
    fn collecting(&self, project_key: &str) -> Boxed<'_, Result<Collecting, TxError>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    /// Never fetched first, then by the time of the last fetch, then by id (COLL-26).
    pub sources: Vec<SourceId>,
    /// When the next one falls due after now.
    pub next: Option<Ts>,
    pub now: Ts,
}

/// Every condition that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFilter {
    pub project_key: Option<String>,
    /// Only these.
    pub ids: Option<Vec<i64>>,
    pub public_only: bool,
    /// Only those with a poll that has not ended.
    pub polling_only: bool,
    /// Only greater ids: the next page.
    pub after: i64,
    /// 0: all.
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    pub id: SourceId,
    pub project_key: String,
    pub r#type: String,
    pub name: String,
    /// JSON, an object.
    pub config: String,
    pub is_public: bool,
    /// In force for it.
    pub interval: Interval,
    /// Why nobody can fetch it.
    pub unsupported: Option<String>,
    pub state: State,
    pub poll_count: i64,
    /// A poll of it has not ended; when it may begin.
    pub polling: Option<Ts>,
    pub created_at: Ts,
    pub updated_at: Ts,
}

impl Source {
    /// Why a source of a type that nobody knows is skipped.
    pub fn no_fetcher(r#type: &str) -> String {
        format!("no fetcher for type '{type}'")
    }

    /// One word for how it is (COLL-74).
    pub fn status(&self) -> &'static str {
        match &self.state {
            _ if self.unsupported.is_some() => "unsupported",
            State { paused: Some(_), .. } => "paused",
            State { last_error: Some(_), .. } => "error",
            State { last_fetched_at: None, .. } => "pending",
            _ => "ok",
        }
    }

    /// The last fetch and one interval (COLL-73): the promise. When it really happens is [`Source::next_attempt_at`].
    pub fn next_fetch_at(&self) -> Option<Ts> {
        let collected = self.state.paused.is_none() && self.unsupported.is_none();
        self.state.last_fetched_at.filter(|_| collected).map(|fetched| fetched + self.interval.duration())
    }

    /// When it will be polled; nothing for one that is due at once, or never.
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
pub struct Collecting {
    /// Polls that ended, well or not.
    pub fetches_24h: i64,
    pub errors_24h: i64,
    pub items_24h: i64,
    /// Polls under way.
    pub running: i64,
    /// The newest first.
    pub beats: Vec<BeatRow>,
    pub now: Option<Ts>,
}

/// A collector, as it last told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BeatRow {
    pub owner: String,
    pub last_tick_at: Ts,
    pub next_tick_at: Ts,
    pub tick_seconds: i64,
    pub concurrency: i64,
    pub leaving: bool,
}

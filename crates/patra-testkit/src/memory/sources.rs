//! Queries of sources and their items.

use patra_core::Ts;
use patra_core::port::BoxFuture;
use patra_core::port::source::{
    CollectorStats, DueSources, HeartbeatRow, ItemFilter, ItemStats, RawItem, SourceFilter, SourceQueries, StoredSource,
};
use patra_core::state::PausedReason;
use patra_core::state::{RunStatus, TaskStatus};
use patra_core::tx::{SourceTypeRow, TxError};

use super::shared::{SharedMem, ready};
use super::source::A_DAY;
use super::{MemStore, SourceRow, place};

impl SourceQueries for SharedMem {
    fn due(&self, limit: u32) -> BoxFuture<'_, Result<DueSources, TxError>> {
        ready(self.lock().due_sources(self.clock.now(), limit))
    }

    fn sources(&self, ask: SourceFilter) -> BoxFuture<'_, Result<Vec<StoredSource>, TxError>> {
        ready(self.lock().filtered_sources(&ask))
    }

    fn source_types(&self) -> BoxFuture<'_, Result<Vec<SourceTypeRow>, TxError>> {
        ready(self.lock().source_types.values().cloned().collect())
    }

    fn settings(&self) -> BoxFuture<'_, Result<Vec<(String, String)>, TxError>> {
        ready(self.lock().settings.clone().into_iter().collect())
    }

    fn raw_items(&self, ask: ItemFilter) -> BoxFuture<'_, Result<Vec<RawItem>, TxError>> {
        ready(self.lock().raw_items(&ask))
    }

    fn raw_item_stats(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<ItemStats>, TxError>> {
        ready(self.lock().item_stats(self.clock.now(), project_key))
    }

    fn collector_stats(&self, project_key: &str) -> BoxFuture<'_, Result<CollectorStats, TxError>> {
        ready(self.lock().collecting(self.clock.now(), project_key))
    }
}

impl MemStore {
    fn due_sources(&self, now: Ts, limit: u32) -> DueSources {
        let due = |row: &&SourceRow| row.state.next_due_at.is_some_and(|at| at <= now);
        let mut sources: Vec<_> = self.sources.iter().filter(due).collect();
        // `None` sorts before every time.
        sources.sort_by_key(|row| (row.state.last_fetched_at, row.id));
        sources.truncate(limit as usize);
        let next = self.sources.iter().filter_map(|row| row.state.next_due_at).filter(|at| *at > now).min();
        DueSources { sources: sources.into_iter().map(|row| row.id).collect(), next, now }
    }

    fn filtered_sources(&self, ask: &SourceFilter) -> Vec<StoredSource> {
        let meant = |row: &&SourceRow| {
            !row.is_deleted
                && row.id.0 > ask.after
                && ask.project_key.as_ref().is_none_or(|project| *project == row.project_key)
                && ask.ids.as_ref().is_none_or(|ids| ids.contains(&row.id.0))
                && (row.is_public || !ask.public_only)
                && (!ask.polling_only || self.poll_of(row.id).is_some())
                && ask.troubled.is_none_or(|before| {
                    let failed = matches!(row.state.paused, Some(PausedReason::Error | PausedReason::Gone));
                    let silent = row.state.arrivals.last_at.is_some_and(|at| at < before);
                    failed || row.state.fetch_error_count > 0 || (row.state.paused.is_none() && silent)
                })
        };
        let limit = if ask.limit == 0 { usize::MAX } else { ask.limit as usize };
        self.sources.iter().filter(meant).take(limit).map(|row| self.view_source(row)).collect()
    }

    fn view_source(&self, row: &SourceRow) -> StoredSource {
        let unsupported = match self.source_types.get(&row.r#type) {
            Some(known) => known.unsupported.clone(),
            None => Some(StoredSource::no_fetcher(&row.r#type)),
        };
        StoredSource {
            id: row.id,
            project_key: row.project_key.clone(),
            r#type: row.r#type.clone(),
            name: row.name.clone(),
            config: row.config.clone(),
            is_public: row.is_public,
            interval: self.interval(row),
            unsupported,
            state: row.state.clone(),
            poll_count: row.poll_count,
            polling: self.poll_of(row.id).map(|task| self.tasks[place(task.0)].scheduled_at),
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }

    fn raw_items(&self, ask: &ItemFilter) -> Vec<RawItem> {
        let mut found: Vec<_> = self
            .links
            .iter()
            .filter(|((source, item), link)| {
                link.project_key == ask.project_key
                    && ask.sources.as_ref().is_none_or(|sources| sources.contains(&source.0))
                    && ask.since.is_none_or(|since| link.fetched_at >= since)
                    && self.items[place(*item)].emptied_at.is_none()
            })
            .collect();
        found.sort_by_key(|((source, item), link)| std::cmp::Reverse((link.fetched_at, *item, *source)));
        let page = found.into_iter().skip(ask.offset as usize).take(ask.limit as usize);
        page.map(|((source, item), link)| {
            let (item, of) = (&self.items[place(*item)], &self.sources[place(source.0)]);
            RawItem {
                id: item.id,
                source: *source,
                source_name: of.name.clone(),
                source_type: of.r#type.clone(),
                dedup_key: item.key.clone(),
                fields: item.fields.clone(),
                fetched_at: link.fetched_at,
            }
        })
        .collect()
    }

    fn item_stats(&self, now: Ts, project_key: &str) -> Vec<ItemStats> {
        let active = |row: &&SourceRow| row.project_key == project_key && !row.is_deleted && row.state.paused.is_none();
        let stats = |row: &SourceRow| {
            let times = || self.links.iter().filter(|((of, _), _)| *of == row.id).map(|(_, link)| link.fetched_at);
            ItemStats {
                source: row.id,
                name: row.name.clone(),
                r#type: row.r#type.clone(),
                total_items: times().count() as i64,
                items_24h: times().filter(|at| *at >= now - A_DAY).count() as i64,
                last_item_at: times().max(),
            }
        };
        self.sources.iter().filter(active).map(stats).collect()
    }

    fn collecting(&self, now: Ts, project_key: &str) -> CollectorStats {
        let ended = || {
            self.runs.iter().filter(|run| {
                let status = [RunStatus::Succeeded, RunStatus::Partial, RunStatus::Failed].contains(&run.status);
                let late = run.finished_at.is_some_and(|at| at >= now - A_DAY);
                let poll = self.tasks[place(run.task.0)].poll.is_some();
                status && late && poll && !self.forgotten.runs.contains(&run.id)
            })
        };
        let claimed = [TaskStatus::Dispatched, TaskStatus::Executing];
        let running = self.tasks.iter().filter(|task| task.poll.is_some() && claimed.contains(&task.status));
        let new = |link: &&super::Link| link.project_key == project_key && link.fetched_at >= now - A_DAY;
        let mut beats: Vec<HeartbeatRow> = self.beats.values().cloned().collect();
        beats.sort_by_key(|row| std::cmp::Reverse(row.last_tick_at));
        CollectorStats {
            fetches_24h: ended().count() as i64,
            errors_24h: ended().filter(|run| run.status == RunStatus::Failed).count() as i64,
            items_24h: self.links.values().filter(new).count() as i64,
            running: running.count() as i64,
            heartbeats: beats,
            now: Some(now),
        }
    }
}

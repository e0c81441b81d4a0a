//! Queries of the crawler, and the counts behind its alerts.

use std::collections::BTreeMap;

use patra_core::Ts;
use patra_core::alert::{self, RATE_WINDOW};
use patra_core::cookie::CookieTotals;
use patra_core::crawl::{CrawlCandidate, CrawlNote, Execution};
use patra_core::port::crawl::{CookieFilter, CookieView, CrawlFilter, CrawlRequestCounts, MAX_ROWS, PlatformTotals};
use patra_core::port::{BoxFuture, CrawlQueries};
use patra_core::state::CandidateStatus;
use patra_core::tx::{A_MINUTE, AlertWatched, COUNTS_KEPT, CountCrawls, CrawlsCounted, TxError, WatchAlert};

use super::MemStore;
use super::shared::{SharedMem, ready};

impl CrawlQueries for SharedMem {
    fn executions(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<(i64, Execution)>, TxError>> {
        ready(self.lock().list_executions(&wanted))
    }

    fn candidates(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlCandidate>, TxError>> {
        ready(self.lock().list_candidates(&wanted))
    }

    fn notes(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlNote>, TxError>> {
        ready(self.lock().list_notes(&wanted))
    }

    fn cookies(&self, wanted: CookieFilter) -> BoxFuture<'_, Result<(Vec<CookieView>, Ts), TxError>> {
        let mut views = self.lock().list_cookies(wanted.platform.as_deref());
        match &wanted.name {
            Some(name) => views.retain(|view| view.cookie_name == *name),
            None => views.retain(|view| view.cookie_name > wanted.after),
        }
        views.truncate(wanted.limit.min(MAX_ROWS) as usize);
        ready((views, self.clock.now()))
    }

    fn cookie_totals(&self, platform: Option<String>) -> BoxFuture<'_, Result<(PlatformTotals, Ts), TxError>> {
        let now = self.clock.now();
        let mut platforms = BTreeMap::<String, CookieTotals>::new();
        for view in self.lock().list_cookies(platform.as_deref()) {
            platforms.entry(view.platform).or_default().add(&view.usage, now);
        }
        ready((platforms.into_iter().collect(), now))
    }

    fn backlog(&self) -> BoxFuture<'_, Result<u64, TxError>> {
        let store = self.lock();
        let pending = store.waiting_notes.iter().filter(|row| row.what.status == CandidateStatus::Pending);
        ready(pending.count() as u64)
    }

    fn crawled(&self) -> BoxFuture<'_, Result<Vec<CrawlRequestCounts>, TxError>> {
        ready(self.lock().crawled(self.clock.now()))
    }

    fn alerts(&self) -> BoxFuture<'_, Result<Vec<alert::AlertView>, TxError>> {
        ready(self.lock().alerts.values().cloned().collect())
    }
}

fn fits<T: PartialEq>(filter: &Option<T>, value: &T) -> bool {
    filter.as_ref().is_none_or(|filter| filter == value)
}

impl MemStore {
    fn list_executions(&self, wanted: &CrawlFilter) -> Vec<(i64, Execution)> {
        let rows = (1..).zip(&self.executions).filter(|(id, row)| {
            *id > wanted.after
                && row.project_key == wanted.project_key
                && fits(&wanted.workflow_name, &row.what.workflow_name)
                && fits(&wanted.execution, &row.what.status)
        });
        rows.take(wanted.limit.min(MAX_ROWS) as usize).map(|(id, row)| (id, row.what.clone())).collect()
    }

    fn list_candidates(&self, wanted: &CrawlFilter) -> Vec<CrawlCandidate> {
        let of_keyword =
            |note: &CrawlCandidate| wanted.source_keyword.is_none() || wanted.source_keyword == note.source_keyword;
        let own = self.waiting_notes.iter().filter(|row| row.project_key == wanted.project_key).map(|row| &row.what);
        let rows = own.filter(|note| {
            note.id > wanted.after
                && fits(&wanted.platform, &note.platform)
                && fits(&wanted.candidate, &note.status)
                && fits(&wanted.note_id, &note.note_id)
                && of_keyword(note)
        });
        rows.take(wanted.limit.min(MAX_ROWS) as usize).cloned().collect()
    }

    fn list_notes(&self, wanted: &CrawlFilter) -> Vec<CrawlNote> {
        let own = self.notes.iter().filter(|row| row.project_key == wanted.project_key).map(|row| &row.what);
        let rows = own.filter(|note| {
            note.id > wanted.after && fits(&wanted.platform, &note.platform) && fits(&wanted.note_id, &note.note_id)
        });
        rows.take(wanted.limit.min(MAX_ROWS) as usize).cloned().collect()
    }

    fn list_cookies(&self, platform: Option<&str>) -> Vec<CookieView> {
        let own = self.cookies().filter(|row| platform.is_none_or(|platform| platform == row.binding.provenance_code));
        let mut views: Vec<_> = own
            .map(|row| {
                let used = self.state_of(row.id).and_then(|state| state.what.updated_at);
                CookieView {
                    id: row.id,
                    cookie_name: row.binding.alias.clone(),
                    platform: row.binding.provenance_code.clone(),
                    priority: row.priority,
                    encryption_key_id: row.key_id.clone(),
                    usage: self.usage_of(row),
                    created_at: row.created_at,
                    updated_at: used.map_or(row.updated_at, |used| used.max(row.updated_at)),
                }
            })
            .collect();
        views.sort_by(|one, two| one.cookie_name.cmp(&two.cookie_name));
        views
    }

    fn crawled(&self, now: Ts) -> Vec<CrawlRequestCounts> {
        let mut sums = BTreeMap::<&str, (u64, u64)>::new();
        for ((platform, _), (succeeded, failed)) in
            self.crawl_minutes.iter().filter(|((_, minute), _)| *minute >= now - RATE_WINDOW)
        {
            let sum = sums.entry(platform).or_default();
            *sum = (sum.0 + succeeded, sum.1 + failed);
        }
        let counts = |(platform, (succeeded, failed)): (&str, (u64, u64))| CrawlRequestCounts {
            platform: platform.to_owned(),
            succeeded,
            failed,
        };
        sums.into_iter().map(counts).collect()
    }

    pub(super) fn count_crawls(&mut self, now: Ts, op: &CountCrawls) -> CrawlsCounted {
        let counts = self.crawl_minutes.entry((op.platform.clone(), now.floor_to(A_MINUTE))).or_default();
        *counts = (counts.0 + op.succeeded, counts.1 + op.failed);
        self.crawl_minutes.retain(|(platform, minute), _| *platform != op.platform || *minute >= now - COUNTS_KEPT);
        CrawlsCounted
    }

    pub(super) fn watch_alert(&mut self, now: Ts, op: &WatchAlert) -> AlertWatched {
        let key = (op.alert.clone(), op.subject.clone());
        let before = self.alerts.get(&key).map(|row| row.state.clone()).unwrap_or_default();
        let (state, notify) = before.watched(op.is_met, op.delay, op.repeat, now);
        let row = alert::AlertView {
            alert: op.alert.clone(),
            subject: op.subject.clone(),
            level: op.level,
            state: state.clone(),
            value: op.value,
            threshold: op.threshold,
            detail: op.detail.clone(),
        };
        self.alerts.insert(key, row);
        AlertWatched { since: state.since.or(before.since), state, notify }
    }
}

//! Queries of projects and the pool.

use std::collections::BTreeSet;

use patra_core::port::pool::{
    CaptureRule, DocumentFilter, DocumentRow, EndedJob, JobFilter, JobItem, JobPoll, ListPosition, PoolUrl, ProjectRow,
    StoredTweet, TweetFilter, UrlFilter, UrlPage,
};
use patra_core::port::{BoxFuture, PoolQueries};
use patra_core::project::{DEFAULT, Library, LibraryScope};
use patra_core::record::TWEET;
use patra_core::state::{BatchStatus, JobStatus};
use patra_core::tweet::FetchStats;
use patra_core::tx::TxError;
use patra_core::{JobId, SourceId, Ts};
use serde_json::Value;

use super::pool::UrlRow;
use super::shared::{SharedMem, ready};
use super::{Instance, Item, MemStore, Task, place};

impl PoolQueries for SharedMem {
    fn projects(&self) -> BoxFuture<'_, Result<Vec<ProjectRow>, TxError>> {
        let default = ProjectRow { project_key: DEFAULT.into(), name: DEFAULT.into(), created_at: Ts::from_micros(0) };
        let mut projects: Vec<_> = self.lock().projects.values().cloned().collect();
        projects.push(default);
        projects.sort_by(|one, two| one.project_key.cmp(&two.project_key));
        ready(projects)
    }

    fn pool_urls(&self, ask: UrlFilter) -> BoxFuture<'_, Result<UrlPage, TxError>> {
        ready(self.lock().pool_urls(&ask))
    }

    fn capture_rules(&self, project_key: Option<&str>) -> BoxFuture<'_, Result<Vec<CaptureRule>, TxError>> {
        let store = self.lock();
        let rules = store.capture_rules.values().filter(|rule| project_key.is_none_or(|key| key == rule.project_key));
        ready(rules.cloned().collect())
    }

    fn documents(&self, ask: DocumentFilter) -> BoxFuture<'_, Result<Vec<DocumentRow>, TxError>> {
        ready(self.lock().documents(&ask))
    }

    fn ended_jobs(&self, ask: JobFilter) -> BoxFuture<'_, Result<Vec<EndedJob>, TxError>> {
        ready(self.lock().ended_jobs(&ask))
    }

    fn items_of_job(&self, instance: i64, after: i64, limit: u32) -> BoxFuture<'_, Result<Vec<JobItem>, TxError>> {
        let store = self.lock();
        let runs: BTreeSet<_> = store.tasks_of(JobId(instance)).flat_map(|task| &task.runs).collect();
        let items = store.items.iter().filter(|item| item.id > after && runs.contains(&item.run));
        let shown = |item: &Item| (item.id, item.fields.clone(), item.payload.to_string());
        ready(items.take(limit as usize).map(shown).collect())
    }

    fn polls_of_job(&self, instance: i64) -> BoxFuture<'_, Result<Vec<JobPoll>, TxError>> {
        let store = self.lock();
        let mut polls: Vec<_> = store.tasks_of(JobId(instance)).filter_map(|task| store.job_poll(task)).collect();
        polls.sort_by_key(|poll| poll.source);
        ready(polls)
    }

    fn fetch_stats(&self, sources: &[SourceId]) -> BoxFuture<'_, Result<Vec<(SourceId, FetchStats)>, TxError>> {
        let store = self.lock();
        let asked = store.fetch_stats.iter().filter(|(source, _)| sources.contains(source));
        ready(asked.map(|(source, stats)| (*source, stats.clone())).collect())
    }

    fn tweets(&self, ask: TweetFilter) -> BoxFuture<'_, Result<Vec<StoredTweet>, TxError>> {
        ready(self.lock().tweets(&ask))
    }

    fn job_types(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        let store = self.lock();
        let of_project = store.there().filter(|row| row.origin.project_key == project_key);
        let types: BTreeSet<_> = of_project.map(|row| row.job_type.clone()).collect();
        ready(types.into_iter().collect())
    }
}

impl MemStore {
    fn there(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|row| !self.forgotten.instances.contains(&row.id))
    }

    /// Tasks of a job and of its children.
    fn tasks_of(&self, job: JobId) -> impl Iterator<Item = &Task> {
        let own = move |id: JobId| id == job || self.instances[place(id.0)].root == Some(job);
        self.tasks.iter().filter(move |task| own(task.lineage.job) && !self.forgotten.tasks.contains(&task.id))
    }

    pub fn pool_urls(&self, ask: &UrlFilter) -> UrlPage {
        let own = |url: &str| {
            let mut rows = self.urls.iter();
            rows.any(|row| row.project_key == ask.project_key && row.what.url == url && !ask.project_key.is_empty())
        };
        let seen = |row: &&UrlRow| match (ask.scope, row.what.library) {
            (LibraryScope::Shared, library) => library == Library::Shared,
            (LibraryScope::Project | LibraryScope::Effective, Library::Project) => row.project_key == ask.project_key,
            (LibraryScope::Project, Library::Shared) => false,
            (LibraryScope::Effective, Library::Shared) => !own(&row.what.url),
        };
        let fits = |url: &&PoolUrl| {
            ask.source.is_none_or(|source| source == url.source)
                && ask.domain.as_ref().is_none_or(|part| url.domain.contains(part.as_str()))
        };
        let mut urls: Vec<_> = self.urls.iter().filter(seen).map(|row| &row.what).filter(fits).collect();
        urls.sort_by_key(|url| std::cmp::Reverse((url.created_at, url.id)));
        let total = urls.len() as u64;
        let skipped = usize::try_from(ask.offset).unwrap_or(usize::MAX);
        let is_behind = |url: &&PoolUrl| ask.before.is_none_or(|before| url.position() < before);
        let urls = urls.into_iter().filter(is_behind);
        UrlPage { items: urls.skip(skipped).take(ask.limit as usize).cloned().collect(), total }
    }

    fn documents(&self, ask: &DocumentFilter) -> Vec<DocumentRow> {
        let wanted = |item: &&Item| {
            let own = self.streams[item.stream].project_key == ask.project_key && item.emptied_at.is_none();
            if !own || ask.before.is_some_and(|before| item.id >= before) {
                return false;
            }
            if let Some(ids) = &ask.ids {
                return ids.contains(&item.id);
            }
            let fields: Value = serde_json::from_str(&item.fields).unwrap_or_default();
            let fits = |list: &[String], word: Option<&str>| {
                list.is_empty() || word.is_some_and(|word| list.iter().any(|one| one == word))
            };
            fits(&ask.doc_types, fields["doc_type"].as_str().or(Some(&item.kind)))
                && fits(&ask.states, fields["state"].as_str())
        };
        let documents = self.items.iter().rev().filter(wanted).take(ask.limit as usize);
        documents
            .map(|item| DocumentRow {
                id: item.id,
                fields: item.fields.clone(),
                payload: item.payload.to_string(),
                kind: item.kind.clone(),
            })
            .collect()
    }

    fn ended_jobs(&self, ask: &JobFilter) -> Vec<EndedJob> {
        let ended = |job: &&Instance| {
            let over = matches!(job.status, JobStatus::Planned | JobStatus::Finished);
            let waits = |row: &Instance| row.root == Some(job.id) && row.status == JobStatus::Requested;
            over && job.parent.is_none()
                && !job.is_background_job()
                && !self.instances.iter().any(waits)
                && self.tasks_of(job.id).all(|task| task.status.is_final())
        };
        let wanted = |job: &&Instance| {
            job.origin.project_key == ask.project_key
                && ask.public_ids.as_ref().is_none_or(|ids| ids.contains(&job.public_id))
                && ask.job_type.as_ref().is_none_or(|of| *of == job.job_type)
                && ask.since.is_none_or(|since| job.created_at >= since)
        };
        let mut jobs: Vec<_> = self.there().filter(wanted).filter(ended).collect();
        jobs.reverse();
        jobs.truncate(ask.limit as usize);
        let shown = |job: &Instance| EndedJob {
            job: job.id.0,
            public_id: job.public_id.clone(),
            job_type: job.job_type.clone(),
            params: job.params.clone(),
            result: job.result.clone(),
        };
        jobs.into_iter().map(shown).collect()
    }

    fn job_poll(&self, task: &Task) -> Option<JobPoll> {
        let (source, _) = task.poll.as_ref().filter(|_| !task.replaced)?;
        let mut poll = JobPoll {
            source: *source,
            config: self.sources.get(place(source.0)).map(|row| row.config.clone()).unwrap_or_default(),
            params: task.what.task_params.clone(),
            status: task.status,
            error: task.error.as_ref().and_then(|error| serde_json::to_string(error).ok()),
            started_at: task.started_at,
            finished_at: task.finished_at,
            inserted: 0,
            updated: 0,
            skipped: 0,
            rejected: 0,
        };
        let committed = |row: &&super::Batch| row.task == task.id && row.status == BatchStatus::Succeeded;
        for row in self.batches.iter().filter(committed).filter(|row| !row.archived) {
            poll.inserted += u64::from(row.stats.inserted);
            poll.updated += u64::from(row.stats.updated);
            poll.skipped += u64::from(row.stats.skipped);
            poll.rejected += u64::from(row.stats.failed);
        }
        Some(poll)
    }

    fn tweets(&self, ask: &TweetFilter) -> Vec<StoredTweet> {
        let wanted = |item: &&Item| {
            let fields: Value = serde_json::from_str(&item.fields).unwrap_or_default();
            let author = fields["author_username"].as_str().map(str::to_lowercase);
            let project = &self.streams[item.stream].project_key;
            item.kind == TWEET
                && item.emptied_at.is_none()
                && ask.project_key.as_ref().is_none_or(|key| key == project)
                && ask.author.as_ref().is_none_or(|wanted| author == Some(wanted.to_lowercase()))
                && ask.since.is_none_or(|since| item.created_at >= since)
        };
        let shown = |item: &Item| StoredTweet {
            fields: item.fields.clone(),
            db_created_at: item.created_at,
            db_updated_at: item.stored_at,
            position: ListPosition {
                at: if ask.since.is_some() { item.created_at } else { item.version.updated_at },
                id: item.id,
            },
        };
        let mut tweets: Vec<_> = self.items.iter().filter(wanted).map(shown).collect();
        tweets.sort_by_key(|tweet| std::cmp::Reverse(tweet.position));
        tweets.retain(|tweet| ask.before.is_none_or(|before| tweet.position < before));
        tweets.truncate(ask.limit as usize);
        tweets
    }
}

//! Project and pool queries of a flaky store, delegated to the store behind it.

use patra_core::SourceId;
use patra_core::port::pool::{
    CaptureRule, DocumentFilter, DocumentRow, EndedJob, JobFilter, JobItem, JobPoll, ProjectRow, StoredTweet,
    TweetFilter, UrlFilter, UrlPage,
};
use patra_core::port::{BoxFuture, PoolQueries};
use patra_core::tweet::FetchStats;
use patra_core::tx::TxError;

use super::Flaky;

impl PoolQueries for Flaky {
    fn projects(&self) -> BoxFuture<'_, Result<Vec<ProjectRow>, TxError>> {
        self.store.projects()
    }
    fn pool_urls(&self, ask: UrlFilter) -> BoxFuture<'_, Result<UrlPage, TxError>> {
        self.store.pool_urls(ask)
    }
    fn capture_rules(&self, project_key: Option<&str>) -> BoxFuture<'_, Result<Vec<CaptureRule>, TxError>> {
        self.store.capture_rules(project_key)
    }
    fn documents(&self, ask: DocumentFilter) -> BoxFuture<'_, Result<Vec<DocumentRow>, TxError>> {
        self.store.documents(ask)
    }
    fn ended_jobs(&self, ask: JobFilter) -> BoxFuture<'_, Result<Vec<EndedJob>, TxError>> {
        self.store.ended_jobs(ask)
    }
    fn items_of_job(&self, instance: i64, after: i64, limit: u32) -> BoxFuture<'_, Result<Vec<JobItem>, TxError>> {
        self.store.items_of_job(instance, after, limit)
    }
    fn polls_of_job(&self, instance: i64) -> BoxFuture<'_, Result<Vec<JobPoll>, TxError>> {
        self.store.polls_of_job(instance)
    }
    fn fetch_stats(&self, sources: &[SourceId]) -> BoxFuture<'_, Result<Vec<(SourceId, FetchStats)>, TxError>> {
        self.store.fetch_stats(sources)
    }
    fn tweets(&self, ask: TweetFilter) -> BoxFuture<'_, Result<Vec<StoredTweet>, TxError>> {
        self.store.tweets(ask)
    }
    fn job_types(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        self.store.job_types(project_key)
    }
}

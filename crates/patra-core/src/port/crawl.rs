//! Queries about the crawler: locks, notes, cookies without their values, alerts. Read-only.

use std::fmt;

use super::BoxFuture;
use crate::alert;
use crate::cookie::{CookieTotals, CookieUsage};
use crate::crawl::{CrawlCandidate, CrawlNote, Execution};
use crate::id::CredentialId;
use crate::state::{CandidateStatus, ExecutionStatus};
use crate::time::Ts;
use crate::tx::TxError;

/// Maximum rows of one result.
pub const MAX_ROWS: u32 = 500;

/// Filters rows. Results are sorted by id, newest last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrawlFilter {
    pub project_key: String,
    /// Rows with a larger id than this.
    pub after: i64,
    pub limit: u32,
    pub workflow_name: Option<String>,
    pub execution: Option<ExecutionStatus>,
    pub platform: Option<String>,
    pub candidate: Option<CandidateStatus>,
    pub source_keyword: Option<String>,
    pub note_id: Option<String>,
}

impl Default for CrawlFilter {
    fn default() -> CrawlFilter {
        CrawlFilter {
            project_key: String::new(),
            after: 0,
            limit: MAX_ROWS,
            workflow_name: None,
            execution: None,
            platform: None,
            candidate: None,
            source_keyword: None,
            note_id: None,
        }
    }
}

/// Filters cookies. Results are sorted by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieFilter {
    pub platform: Option<String>,
    /// Only the cookie of this name.
    pub name: Option<String>,
    /// Names after this one.
    pub after: String,
    /// At most [`MAX_ROWS`].
    pub limit: u32,
}

impl Default for CookieFilter {
    fn default() -> CookieFilter {
        CookieFilter { platform: None, name: None, after: String::new(), limit: MAX_ROWS }
    }
}

/// A cookie without its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieView {
    pub id: CredentialId,
    pub cookie_name: String,
    pub platform: String,
    pub priority: i32,
    pub encryption_key_id: String,
    pub usage: CookieUsage,
    pub created_at: Ts,
    pub updated_at: Ts,
}

/// Crawl requests of one platform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrawlRequestCounts {
    pub platform: String,
    pub succeeded: u64,
    pub failed: u64,
}

/// Numbers of cookies, by platform.
pub type PlatformTotals = Vec<(String, CookieTotals)>;

pub trait CrawlQueries: fmt::Debug + Send + Sync {
    /// By `workflow_name` and `execution`. With the row ids, for the next page.
    fn executions(&self, filter: CrawlFilter) -> BoxFuture<'_, Result<Vec<(i64, Execution)>, TxError>>;

    /// By `platform`, `candidate`, `source_keyword` and `note_id`.
    fn candidates(&self, filter: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlCandidate>, TxError>>;

    /// By `platform` and `note_id`.
    fn notes(&self, filter: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlNote>, TxError>>;

    /// A page of the ACTIVE cookies, by name; and the database's clock.
    fn cookies(&self, filter: CookieFilter) -> BoxFuture<'_, Result<(Vec<CookieView>, Ts), TxError>>;

    /// Numbers of the ACTIVE cookies of one platform or of all, by platform; and the database's clock. Reads one
    /// index.
    fn cookie_totals(&self, platform: Option<String>) -> BoxFuture<'_, Result<(PlatformTotals, Ts), TxError>>;

    /// Notes that wait to be fetched, over all projects.
    fn backlog(&self) -> BoxFuture<'_, Result<u64, TxError>>;

    /// Crawl requests of the last [`alert::RATE_WINDOW`], by platform.
    fn crawled(&self) -> BoxFuture<'_, Result<Vec<CrawlRequestCounts>, TxError>>;

    /// Every alert that was ever evaluated, by name and subject.
    fn alerts(&self) -> BoxFuture<'_, Result<Vec<alert::AlertView>, TxError>>;
}

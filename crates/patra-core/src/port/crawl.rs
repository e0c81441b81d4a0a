//! What is shown of the crawler: locks, notes, cookies without their values, alerts. Read-only.

use std::fmt;

use super::Boxed;
use crate::alert;
use crate::cookie::Wear;
use crate::crawl::{Candidate, Execution, Note};
use crate::id::CredentialId;
use crate::state::{CandidateStatus, ExecutionStatus};
use crate::time::Ts;
use crate::tx::TxError;

/// Rows of one answer, at most.
pub const MAX_ROWS: u32 = 500;

/// What is wanted, the newest last; ids grow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
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

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
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

/// A cookie without its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieView {
    pub id: CredentialId,
    pub cookie_name: String,
    pub platform: String,
    pub priority: i32,
    pub encryption_key_id: String,
    pub wear: Wear,
    pub created_at: Ts,
    pub updated_at: Ts,
}

/// Crawl requests of one platform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crawled {
    pub platform: String,
    pub succeeded: u64,
    pub failed: u64,
}

pub trait Crawls: fmt::Debug + Send + Sync {
    /// By `workflow_name` and `execution`. With the row ids, to go on after.
    fn executions(&self, wanted: Wanted) -> Boxed<'_, Result<Vec<(i64, Execution)>, TxError>>;

    /// By `platform`, `candidate`, `source_keyword` and `note_id`.
    fn candidates(&self, wanted: Wanted) -> Boxed<'_, Result<Vec<Candidate>, TxError>>;

    /// By `platform` and `note_id`.
    fn notes(&self, wanted: Wanted) -> Boxed<'_, Result<Vec<Note>, TxError>>;

    /// The ACTIVE cookies, of one platform or of all, by name; and the database's clock.
    fn cookies(&self, platform: Option<String>) -> Boxed<'_, Result<(Vec<CookieView>, Ts), TxError>>;

    /// How many notes wait, over all projects.
    fn backlog(&self) -> Boxed<'_, Result<u64, TxError>>;

    /// Crawl requests of the last [`alert::RATE_WINDOW`], by platform.
    fn crawled(&self) -> Boxed<'_, Result<Vec<Crawled>, TxError>>;

    /// Every alert that was ever watched, by name and subject.
    fn alerts(&self) -> Boxed<'_, Result<Vec<alert::View>, TxError>>;
}

//! The closed set of transactions. One value of [`Tx`] is one transaction: a single guarded statement, or a short
//! sequence that locks its row first. The meaning written here holds in the in-memory store, SQLite and PostgreSQL alike,
//! and the contract suite of `patra-testkit` checks it in each.

mod alert;
mod background_job;
mod control;
mod cookie;
mod crawl;
mod credential;
mod cursor;
mod fan;
mod gate;
mod key;
mod missing;
mod outbox;
mod plan;
mod pool;
mod project;
mod redrive;
mod refresh;
mod registry;
mod retention;
mod run;
mod source;
mod task;

pub use alert::{A_MINUTE, AlertWatched, COUNTS_KEPT, CountCrawls, CrawlsCounted, WatchAlert};
pub use background_job::{
    BACKGROUND_JOBS, BackgroundJobUpdated, ClaimBackgroundJob, ClaimedBackgroundJob, RequestBackgroundJob,
    UpdateBackgroundJob,
};
pub use control::{
    ADVISORY_TTL, CancelSubject, CancelWork, PauseSelector, PauseSubject, PauseWork, ResumeWork, WorkCancelled,
    WorkPaused, WorkResumed,
};
pub use cookie::{
    CookieOutcomeRecorded, CookiePicked, CookieReactivated, CookieSaved, PickCookie, ReactivateCookie,
    RecordCookieOutcome, Reseal, Resealed, SaveCookie, SealedText,
};
pub use crawl::{
    AcquireExecution, AddCandidates, CandidateFailed, CandidatesAdded, CandidatesClaimed, CandidatesRequeued,
    ClaimCandidates, EndExecution, ExecutionAcquired, ExecutionKept, FailCandidate, KeepExecution, MAX_CANDIDATES,
    NewCandidate, NewNote, NoteWritten, Recover, Recovered, RequeueCandidates, WriteNote,
};
pub use credential::{
    CredentialMarked, CredentialSaved, CredentialsRevoked, FailRefresh, LeaseRefresh, MarkCredential, RefreshFailed,
    RefreshLeased, RevokeCredential, SaveCredential, StoreToken, TokenStored, Versions,
};
pub use cursor::{AcceptGap, AdvanceCause, AdvanceCursor, AdvanceRecorded, CursorMoved, GapAccepted, RecordAdvance};
pub use fan::{
    ChildJob, FanOut, FannedOut, MAX_CHILDREN, MAX_PARENTS, MAX_PARTITIONS, MAX_WAITING, ParentRecord, ReadParents,
};
pub use gate::RequestPermits;
pub use key::{CreateKey, KeyCreated, KeyRevoked, KeyScope, RevokeKey};
pub use missing::{MarkMissing, MissingMarked, PassPage};
pub use outbox::{
    ClaimEvents, Delivery, EVENT_RECORDS, EVENTS_KEPT, EventSettled, EventUpdate, EventsClaimed, EventsRetried,
    MAX_DELIVERY_ATTEMPTS, NewEvent, OutboxEvent, PURGE_BATCH, RECORDS_STORED, RETRY_BATCH, RetryEvents, SettleEvent,
    StoredRecord, TWEETS_COLLECTED, retry_delay,
};
pub use plan::{
    ClaimJob, ClaimedJob, Coverage, FireDue, FiredDue, HISTORY, History, JobRequested, JobSettled, JobSettlement,
    NewPlan, NewSlice, OpenPlan, PartitionKey, PlanSaved, PlanTarget, ReadCoverage, RemainingPlan, RequestJob,
    SavePlan, SegmentPosition, SettleJob, job_type,
};
pub use pool::{
    AddUrls, Capture, CaptureConfigured, Captured, ConfigureCapture, DocumentPut, FoundUrl, MAX_CAPTURED,
    MAX_JOB_TYPES, MAX_URLS, PutDocument, UrlSource, UrlsAdded,
};
pub use project::{CreateProject, ProjectCreated};
pub use redrive::{RedriveTarget, RedriveWork, Redriven, TaskView};
pub use refresh::{
    AbandonRecord, CheckedRecord, IdRange, MAX_SEGMENTS, MAX_SIGNAL_KEYS, MAX_SIGNAL_TRIES, ReadSegments,
    RecordAbandoned, RecordsSignalled, RefreshCriteria, Segments, SignalRecords,
};
pub use registry::{
    ApplyProvenance, DictionarySynced, EndpointRow, EndpointSchedule, ProvenanceApplied, ProvenanceRemoved, Recurrence,
    RemoveProvenance, SyncDictionary,
};
pub use retention::{ArchiveLedger, ExportRecorded, LedgerArchived, RecordExport};
pub use run::{
    BatchCommitted, BatchFailure, BatchStats, CommitBatch, EndRun, HttpStats, RateStats, RawResponse, ResumePoint,
    RunEnd, RunEnded, RunStarted, RunStats, SelfHealing, SkipReasons, StartRun,
};
pub use source::{
    ChangeSource, ClaimPolls, ExpiredPurged, Heartbeat, HeartbeatRecorded, HurryPoll, MAX_SOURCES, NewPoll, NewSource,
    NewSourceConfig, OpenPoll, PollEnd, PollHurried, PollsQueued, PurgeExpired, QueuePolls, SaveSetting, SaveSources,
    SavedSource, ScrapeConflict, ScrapeJob, SettingSaved, SourceChanged, SourceTypeRow, SourcesSaved, SyncTypes,
    TypesSynced, UnfitPoll,
};
pub use task::{ClaimTasks, ClaimedTasks, Lease, LeaseRef, Renew, Renewed, Sweep, Swept, TaskLineage};

use std::slice;
use std::sync::Arc;

/// Why a transaction has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TxError {
    /// Not applied. Another writer holds the database; retry soon.
    #[error("the database is busy")]
    Busy,
    /// Not applied. The database cannot be reached or does not accept writes now.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// Applied or not: the reply was lost. Every operation may be repeated after this.
    #[error("the outcome of a transaction is unknown: {0}")]
    Unknown(String),
    /// Not applied. The caller's lease is gone: the caller must stop.
    #[error("the lease was lost")]
    Fenced,
    /// Not applied. The rows that the caller read have changed: read again.
    #[error("the state changed meanwhile")]
    Conflict,
    /// Not applied, and it never will be: a broken constraint or a corrupt row. A bug or a damaged database.
    #[error("the database refused a transaction: {0}")]
    Refused(String),
}

impl TxError {
    /// Whether repeating the same operation may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, TxError::Busy | TxError::Unavailable(_) | TxError::Unknown(_))
    }
}

/// An operation and the type of its result.
pub trait TxOperation: Into<Tx> {
    type Done;

    /// Takes the result out of [`Done`]. A store that returns another variant has a bug; that is an error, not a
    /// panic.
    fn from_done(done: Done) -> Result<Self::Done, TxError>;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($payload:ty) => $done:ty),* $(,)?) => {
        /// One transaction.
        #[derive(Clone, Debug)]
        pub enum Tx { $($(#[$doc])* $name($payload)),* }

        /// The result of one transaction.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Done { $($name($done)),* }

        impl Tx {
            /// A stable name for logs and metrics.
            pub fn name(&self) -> &'static str {
                match self { $(Tx::$name(_) => stringify!($name)),* }
            }
        }

        $(
            impl From<$payload> for Tx {
                fn from(operation: $payload) -> Tx { Tx::$name(operation) }
            }

            impl TxOperation for $payload {
                type Done = $done;
                fn from_done(done: Done) -> Result<$done, TxError> {
                    match done {
                        Done::$name(done) => Ok(done),
                        other => Err(TxError::Refused(format!(
                            "the store returned {other:?} for {}", stringify!($name)
                        ))),
                    }
                }
            }
        )*
    };
}

impl Tx {
    /// The pages that this transaction commits.
    pub fn pages(&self) -> &[Arc<CommitBatch>] {
        match self {
            Tx::CommitBatch(page) => slice::from_ref(page),
            Tx::CommitBatches(pages) => pages,
            _ => &[],
        }
    }
}

impl Done {
    /// Results of the pages that the transaction committed.
    pub fn committed(&self) -> &[BatchCommitted] {
        match self {
            Done::CommitBatch(page) => slice::from_ref(page),
            Done::CommitBatches(pages) => pages,
            _ => &[],
        }
    }
}

operations! {
    /// Stores a manifest in the registry.
    ApplyProvenance(ApplyProvenance) => ProvenanceApplied,
    /// Removes a provenance from the registry.
    RemoveProvenance(RemoveProvenance) => ProvenanceRemoved,
    /// Replaces the dictionary with the program's own.
    SyncDictionary(SyncDictionary) => DictionarySynced,
    /// Records a request for work: a job.
    RequestJob(RequestJob) => JobRequested,
    /// Requests a job for every schedule that is due.
    FireDue(FireDue) => FiredDue,
    /// Leases the next job that waits for planning.
    ClaimJob(ClaimJob) => Option<Box<ClaimedJob>>,
    /// Ends or defers a job without a plan.
    SettleJob(SettleJob) => JobSettled,
    /// Creates the next child jobs of a job that covers many partitions.
    FanOut(Arc<FanOut>) => FannedOut,
    /// Reads records of an endpoint that name partitions of another endpoint.
    ReadParents(ReadParents) => Vec<ParentRecord>,
    /// Reads which windows of a namespace are done or in progress.
    ReadCoverage(ReadCoverage) => Coverage,
    /// Cuts the records that an UPDATE refreshes into ranges.
    ReadSegments(ReadSegments) => Segments,
    /// Writes a plan with its slices and tasks.
    SavePlan(Arc<SavePlan>) => PlanSaved,
    /// Leases queued tasks.
    ClaimTasks(ClaimTasks) => ClaimedTasks,
    /// Extends leases.
    Renew(Renew) => Renewed,
    /// Opens a run, unless its plan or slice was cancelled.
    StartRun(StartRun) => RunStarted,
    /// Commits one page: ledger row, records and quarantine.
    CommitBatch(Arc<CommitBatch>) => BatchCommitted,
    /// Commits several pages of one run, in order: all of them or none.
    CommitBatches(Arc<[Arc<CommitBatch>]>) => Vec<BatchCommitted>,
    /// Marks records that a list no longer has.
    MarkMissing(MarkMissing) => MissingMarked,
    /// Closes a run and decides the task's next state.
    EndRun(Arc<EndRun>) => RunEnded,
    /// Appends the cursor event for the completed prefix.
    RecordAdvance(RecordAdvance) => AdvanceRecorded,
    /// Moves the cursor value, after its event.
    AdvanceCursor(AdvanceCursor) => CursorMoved,
    /// Lets a cursor pass a window that stays incomplete.
    AcceptGap(AcceptGap) => GapAccepted,
    /// Adds sources.
    SaveSources(Arc<SaveSources>) => SourcesSaved,
    /// Changes or deletes a source.
    ChangeSource(ChangeSource) => SourceChanged,
    /// Replaces the table of source types with the collector's own.
    SyncTypes(SyncTypes) => TypesSynced,
    /// Queues polls of sources.
    QueuePolls(Arc<QueuePolls>) => PollsQueued,
    /// Makes a queued poll visible at once.
    HurryPoll(HurryPoll) => PollHurried,
    /// Leases queued polls.
    ClaimPolls(ClaimPolls) => ClaimedTasks,
    /// Records that a collector is alive.
    Heartbeat(Heartbeat) => HeartbeatRecorded,
    /// Empties old items and deletes old polls.
    PurgeExpired(PurgeExpired) => ExpiredPurged,
    /// Sets or removes a setting.
    SaveSetting(SaveSetting) => SettingSaved,
    /// Requests permits from the rate gate.
    RequestPermits(Arc<RequestPermits>) => crate::gate::GateReply,
    /// Requeues tasks whose lease has expired.
    Sweep(Sweep) => Swept,
    /// Pauses work.
    PauseWork(PauseWork) => WorkPaused,
    /// Resumes work.
    ResumeWork(ResumeWork) => WorkResumed,
    /// Cancels work.
    CancelWork(CancelWork) => WorkCancelled,
    /// Runs a batch or task again after it has ended.
    RedriveWork(RedriveWork) => Redriven,
    /// Marks records to be fetched again.
    SignalRecords(SignalRecords) => RecordsSignalled,
    /// Abandons a quarantined record.
    AbandonRecord(AbandonRecord) => RecordAbandoned,
    /// Moves old rows from the ledger to the archive.
    ArchiveLedger(ArchiveLedger) => LedgerArchived,
    /// Records that a diagnostic bundle was exported.
    RecordExport(RecordExport) => ExportRecorded,
    /// Adds an API key, by hash.
    CreateKey(CreateKey) => KeyCreated,
    /// Revokes an API key.
    RevokeKey(RevokeKey) => KeyRevoked,
    /// Adds a version of a credential.
    SaveCredential(SaveCredential) => CredentialSaved,
    /// Revokes versions of a credential.
    RevokeCredential(RevokeCredential) => CredentialsRevoked,
    /// Leases the right to fetch a new token.
    LeaseRefresh(LeaseRefresh) => RefreshLeased,
    /// Stores the token that was fetched under a lease.
    StoreToken(StoreToken) => TokenStored,
    /// Ends a token lease after the fetch failed.
    FailRefresh(FailRefresh) => RefreshFailed,
    /// Records whether the upstream accepts a credential.
    MarkCredential(MarkCredential) => CredentialMarked,
    /// Adds a cookie, or replaces its value.
    SaveCookie(SaveCookie) => CookieSaved,
    /// Takes a cookie from the pool for one request.
    PickCookie(PickCookie) => CookiePicked,
    /// Records how a request with a cookie ended.
    RecordCookieOutcome(RecordCookieOutcome) => CookieOutcomeRecorded,
    /// Reactivates a cookie.
    ReactivateCookie(ReactivateCookie) => CookieReactivated,
    /// Seals a secret again, with another key.
    Reseal(Reseal) => Resealed,
    /// Requests a named lock.
    AcquireExecution(AcquireExecution) => ExecutionAcquired,
    /// Renews a named lock.
    KeepExecution(KeepExecution) => ExecutionKept,
    /// Releases a named lock.
    EndExecution(EndExecution) => ExecutionKept,
    /// Adds notes to be fetched.
    AddCandidates(Arc<AddCandidates>) => CandidatesAdded,
    /// Locks notes to be fetched.
    ClaimCandidates(ClaimCandidates) => CandidatesClaimed,
    /// Records that a note could not be fetched.
    FailCandidate(FailCandidate) => CandidateFailed,
    /// Requeues failed notes.
    RequeueCandidates(RequeueCandidates) => CandidatesRequeued,
    /// Stores a note once.
    WriteNote(Arc<WriteNote>) => NoteWritten,
    /// Releases locks whose holder is dead.
    Recover(Recover) => Recovered,
    /// Counts crawl requests.
    CountCrawls(CountCrawls) => CrawlsCounted,
    /// Records whether the condition of an alert is met.
    WatchAlert(WatchAlert) => AlertWatched,
    /// Creates a project.
    CreateProject(CreateProject) => ProjectCreated,
    /// Adds URLs to the pool.
    AddUrls(Arc<AddUrls>) => UrlsAdded,
    /// Sets which job types are captured.
    ConfigureCapture(ConfigureCapture) => CaptureConfigured,
    /// Stores a document.
    PutDocument(Arc<PutDocument>) => DocumentPut,
    /// Requests a background job.
    RequestBackgroundJob(RequestBackgroundJob) => JobRequested,
    /// Leases a background job.
    ClaimBackgroundJob(ClaimBackgroundJob) => Option<Box<ClaimedBackgroundJob>>,
    /// Leases events for delivery.
    ClaimEvents(ClaimEvents) => EventsClaimed,
    /// Records the outcome of a delivery.
    SettleEvent(SettleEvent) => EventSettled,
    /// Makes failed events deliverable again.
    RetryEvents(RetryEvents) => EventsRetried,
    /// Renews the lease of a background job, or ends the job.
    UpdateBackgroundJob(UpdateBackgroundJob) => BackgroundJobUpdated,
}

//! The closed set of transactions. One value of [`Tx`] is one transaction: a single guarded statement, or a short
//! sequence that locks its row first. The meaning written here holds in the in-memory store, SQLite and PostgreSQL alike,
//! and the contract suite of `patra-testkit` checks it in each.

mod alert;
mod chore;
mod control;
mod cookie;
mod crawl;
mod credential;
mod cursor;
mod fan;
mod gate;
mod key;
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
pub use chore::{AskChore, CHORES, ChoreKept, ChoreTaken, KeepChore, TakeChore};
pub use control::{ADVICE_LASTS, Cancel, Cancelled, Hold, Holding, Release, Released, Subject, Target, Which};
pub use cookie::{
    CookieJudged, CookiePicked, CookieReactivated, CookieSaved, JudgeCookie, PickCookie, ReactivateCookie, Reseal,
    Resealed, SaveCookie, Sealed,
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
pub use cursor::{Advance, AdvanceCursor, Cause, CursorMoved, RecordAdvance};
pub use fan::{Child, FanOut, FannedOut, MAX_CHILDREN, MAX_PARENTS, MAX_PARTITIONS, MAX_WAITING, Parent, ReadParents};
pub use gate::AskGate;
pub use key::{CreateKey, KeyCreated, KeyRevoked, RevokeKey, Scope};
pub use outbox::{
    EVENT_RECORDS, EVENTS_KEPT, Event, EventSettled, EventsTaken, FORGOTTEN_AT_ONCE, MAX_TELLS, NewEvent,
    RECORDS_STORED, RETOLD_AT_ONCE, Retell, Retold, SettleEvent, Settled, Stored, TWEETS_COLLECTED, TakeEvents, Told,
    tell_again,
};
pub use plan::{
    Coverage, Fire, FireDue, Fired, FiredDue, HISTORY, History, Inventory, NewPlan, NewSlice, OpenPlan, PlanSaved,
    PlanTarget, ReadCoverage, Rest, SavePlan, Segment, SettleTrigger, Settlement, TakeTrigger, TriggerSettled,
    TriggerTaken, job_type,
};
pub use pool::{
    AddUrls, Capture, CaptureConfigured, Captured, ConfigureCapture, DocumentPut, FoundUrl, MAX_CAPTURED,
    MAX_JOB_TYPES, MAX_URLS, PutDocument, UrlSource, UrlsAdded,
};
pub use project::{CreateProject, ProjectCreated};
pub use redrive::{Redrive, Redriven, TaskView, What};
pub use refresh::{
    Abandon, Abandoned, Checked, IdRange, MAX_SEGMENTS, MAX_SIGNAL_KEYS, MAX_SIGNAL_TRIES, ReadSegments, Segments,
    Signal, Signalled, Wanted,
};
pub use registry::{
    Applied, ApplyProvenance, DictionarySynced, EndpointRow, RemoveProvenance, Removed, Schedule, SyncDictionary, When,
};
pub use retention::{Archive, Archived, ExportRecorded, RecordExport};
pub use run::{
    BatchCommitted, BatchStats, CommitBatch, EndRun, Failure, HttpStats, RateStats, Raw, Resume, RunEnd, RunEnded,
    RunStarted, RunStats, SelfHealing, StartRun,
};
pub use source::{
    Beat, Beaten, Busy, ChangeSource, ClaimPolls, Clean, Cleaned, Configure, Configured, HurryPoll, MAX_SOURCES,
    NewConfig, NewPoll, NewScrape, NewSource, Poll, PollEnd, PollHurried, Polled, SaveSources, SavedSource,
    SourceChanged, SourcesSaved, SyncTypes, TypeRow, TypesSynced, UnfitPoll,
};
pub use task::{Claim, Claimed, Lease, LeaseRef, Lineage, Renew, Renewed, Sweep, Swept};

use std::slice;
use std::sync::Arc;

/// Why a transaction has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TxError {
    /// Not applied. Somebody else is writing; ask again soon.
    #[error("the database is busy")]
    Busy,
    /// Not applied. The database cannot be reached or does not accept writes now.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// Applied or not: the answer was lost. Every operation may be repeated after this.
    #[error("the outcome of a transaction is unknown: {0}")]
    Unknown(String),
    /// Not applied. The caller's lease is gone: it must stop.
    #[error("the lease was lost")]
    Fenced,
    /// Not applied. What the caller saw has changed: read again.
    #[error("the state changed meanwhile")]
    Conflict,
    /// Not applied, and never will be: a broken constraint or a corrupt row. A bug or a damaged database.
    #[error("the database refused a transaction: {0}")]
    Refused(String),
}

impl TxError {
    /// Whether the same operation can be repeated with hope.
    pub fn is_transient(&self) -> bool {
        matches!(self, TxError::Busy | TxError::Unavailable(_) | TxError::Unknown(_))
    }
}

/// An operation and the kind of answer it gets.
pub trait Operation: Into<Tx> {
    type Done;

    /// Takes the answer out of the envelope. A store that answers with another kind has a bug; that is reported, not
    /// panicked on.
    fn answer(done: Done) -> Result<Self::Done, TxError>;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($payload:ty) => $done:ty),* $(,)?) => {
        /// One transaction.
        #[derive(Clone, Debug)]
        pub enum Tx { $($(#[$doc])* $name($payload)),* }

        /// The answer to one transaction.
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

            impl Operation for $payload {
                type Done = $done;
                fn answer(done: Done) -> Result<$done, TxError> {
                    match done {
                        Done::$name(done) => Ok(done),
                        other => Err(TxError::Refused(format!(
                            "the store answered {} with {other:?}", stringify!($name)
                        ))),
                    }
                }
            }
        )*
    };
}

impl Tx {
    /// The pages that it commits.
    pub fn pages(&self) -> &[Arc<CommitBatch>] {
        match self {
            Tx::CommitBatch(page) => slice::from_ref(page),
            Tx::CommitBatches(pages) => pages,
            _ => &[],
        }
    }
}

impl Done {
    /// What became of the pages that it committed.
    pub fn committed(&self) -> &[BatchCommitted] {
        match self {
            Done::CommitBatch(page) => slice::from_ref(page),
            Done::CommitBatches(pages) => pages,
            _ => &[],
        }
    }
}

operations! {
    /// Puts a manifest into the registry.
    ApplyProvenance(ApplyProvenance) => Applied,
    /// Takes a provenance out of the registry.
    RemoveProvenance(RemoveProvenance) => Removed,
    /// Makes the dictionary say what the program knows.
    SyncDictionary(SyncDictionary) => DictionarySynced,
    /// Records that something was asked for.
    Fire(Fire) => Fired,
    /// Fires every schedule that is due.
    FireDue(FireDue) => FiredDue,
    /// Leases the next trigger that waits for planning.
    TakeTrigger(TakeTrigger) => Option<Box<TriggerTaken>>,
    /// Ends or defers a trigger without a plan.
    SettleTrigger(SettleTrigger) => TriggerSettled,
    /// Makes the next children of a trigger that stands for many partitions.
    FanOut(Arc<FanOut>) => FannedOut,
    /// Records of an endpoint that name partitions of another.
    ReadParents(ReadParents) => Vec<Parent>,
    /// What of a namespace is done or under way.
    ReadCoverage(ReadCoverage) => Coverage,
    /// Cuts the records that an UPDATE wants into ranges.
    ReadSegments(ReadSegments) => Segments,
    /// Writes plan, slices and tasks.
    SavePlan(Arc<SavePlan>) => PlanSaved,
    /// Leases queued tasks.
    Claim(Claim) => Claimed,
    /// Extends leases.
    Renew(Renew) => Renewed,
    /// Opens a run, or says why not.
    StartRun(StartRun) => RunStarted,
    /// Ledger row, records and quarantine of one page.
    CommitBatch(Arc<CommitBatch>) => BatchCommitted,
    /// The same of several pages of one run, in their order: all of them or none.
    CommitBatches(Arc<[Arc<CommitBatch>]>) => Vec<BatchCommitted>,
    /// Closes a run and decides the task's next state.
    EndRun(Arc<EndRun>) => RunEnded,
    /// Appends the cursor event for the completed prefix.
    RecordAdvance(RecordAdvance) => Advance,
    /// Moves the cursor value, after its event.
    AdvanceCursor(AdvanceCursor) => CursorMoved,
    /// Adds sources.
    SaveSources(Arc<SaveSources>) => SourcesSaved,
    /// Changes or deletes a source.
    ChangeSource(ChangeSource) => SourceChanged,
    /// Makes the table of source types say what the collector knows.
    SyncTypes(SyncTypes) => TypesSynced,
    /// Queues polls of sources.
    Poll(Arc<Poll>) => Polled,
    /// Makes a queued poll visible at once.
    HurryPoll(HurryPoll) => PollHurried,
    /// Leases queued polls.
    ClaimPolls(ClaimPolls) => Claimed,
    /// Says that a collector lives.
    Beat(Beat) => Beaten,
    /// Empties old items and forgets old polls.
    Clean(Clean) => Cleaned,
    /// Sets or removes a setting.
    Configure(Configure) => Configured,
    /// Asks the rate gate.
    AskGate(Arc<AskGate>) => crate::gate::Answer,
    /// Takes back the leases of the dead.
    Sweep(Sweep) => Swept,
    /// Stops work.
    Hold(Hold) => Holding,
    /// Lets work go on.
    Release(Release) => Released,
    /// Ends work for good.
    Cancel(Cancel) => Cancelled,
    /// Runs again what has ended.
    Redrive(Redrive) => Redriven,
    /// Says of records that they must be fetched again.
    Signal(Signal) => Signalled,
    /// Gives a quarantined record up.
    Abandon(Abandon) => Abandoned,
    /// Moves old rows out of the ledger.
    Archive(Archive) => Archived,
    /// Notes that a black box was exported.
    RecordExport(RecordExport) => ExportRecorded,
    /// Adds an API key, by hash.
    CreateKey(CreateKey) => KeyCreated,
    /// Revokes an API key.
    RevokeKey(RevokeKey) => KeyRevoked,
    /// Adds a version of a credential.
    SaveCredential(SaveCredential) => CredentialSaved,
    /// Makes versions of a credential useless.
    RevokeCredential(RevokeCredential) => CredentialsRevoked,
    /// Asks for the right to get a new token.
    LeaseRefresh(LeaseRefresh) => RefreshLeased,
    /// Stores the token that was got under a lease.
    StoreToken(StoreToken) => TokenStored,
    /// Ends a lease under which no token came.
    FailRefresh(FailRefresh) => RefreshFailed,
    /// What the far side thinks of a credential.
    MarkCredential(MarkCredential) => CredentialMarked,
    /// Adds a cookie, or replaces its value.
    SaveCookie(SaveCookie) => CookieSaved,
    /// Takes a cookie from the pool for one request.
    PickCookie(PickCookie) => CookiePicked,
    /// What a request has shown of its cookie.
    JudgeCookie(JudgeCookie) => CookieJudged,
    /// A person trusts a cookie again.
    ReactivateCookie(ReactivateCookie) => CookieReactivated,
    /// Seals what is sealed with another key.
    Reseal(Reseal) => Resealed,
    /// Asks for a named lock.
    AcquireExecution(AcquireExecution) => ExecutionAcquired,
    /// The sign of life of a lock's holder.
    KeepExecution(KeepExecution) => ExecutionKept,
    /// Gives a named lock back.
    EndExecution(EndExecution) => ExecutionKept,
    /// Adds notes to be fetched.
    AddCandidates(Arc<AddCandidates>) => CandidatesAdded,
    /// Locks notes to be fetched.
    ClaimCandidates(ClaimCandidates) => CandidatesClaimed,
    /// A note could not be fetched.
    FailCandidate(FailCandidate) => CandidateFailed,
    /// Gives failed notes another chance.
    RequeueCandidates(RequeueCandidates) => CandidatesRequeued,
    /// Stores a note once.
    WriteNote(Arc<WriteNote>) => NoteWritten,
    /// Takes back the locks of the dead.
    Recover(Recover) => Recovered,
    /// Counts crawl requests.
    CountCrawls(CountCrawls) => CrawlsCounted,
    /// Says whether the condition of an alert holds.
    WatchAlert(WatchAlert) => AlertWatched,
    /// Makes a project.
    CreateProject(CreateProject) => ProjectCreated,
    /// Adds URLs to the pool.
    AddUrls(Arc<AddUrls>) => UrlsAdded,
    /// Says which job types are captured.
    ConfigureCapture(ConfigureCapture) => CaptureConfigured,
    /// Stores a document.
    PutDocument(Arc<PutDocument>) => DocumentPut,
    /// Puts a chore into the ledger.
    AskChore(AskChore) => Fired,
    /// Leases a chore.
    TakeChore(TakeChore) => Option<Box<ChoreTaken>>,
    /// Leases events for the world outside.
    TakeEvents(TakeEvents) => EventsTaken,
    /// What became of telling an event.
    SettleEvent(SettleEvent) => EventSettled,
    /// Lets events be told again that were given up.
    Retell(Retell) => Retold,
    /// Keeps or ends a chore.
    KeepChore(KeepChore) => ChoreKept,
}

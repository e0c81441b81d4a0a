//! Sources and their polls. A due source becomes a job, its poll a plan of one slice with one task; from there on it
//! is claimed, run, committed and ended like any other.

use std::time::Duration;

use super::control::{CancelSubject, CancelWork};
use crate::id::{CredentialId, SourceId, TaskId};
use crate::source::{Interval, Validators};
use crate::state::TriggerType;
use crate::time::Ts;
use crate::tweet::NewestTweet;

/// Maximum sources of one [`SaveSources`], and polls of one [`QueuePolls`].
pub const MAX_SOURCES: usize = 500;

/// Adds sources. A source whose key exists in the project, not deleted, is skipped, and the existing id is returned.
/// Each source is due at once, or one interval after `last_fetched_at` when that is set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveSources {
    pub project_key: String,
    pub sources: Vec<NewSource>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSource {
    pub r#type: String,
    pub name: String,
    /// Canonical JSON, an object.
    pub config: String,
    /// Identity of the source: see [`crate::source::key`].
    pub source_key: String,
    /// The source's own interval, if it has one.
    pub minutes: Option<u32>,
    pub is_public: bool,
    pub is_active: bool,
    /// The last fetch by another program.
    pub last_fetched_at: Option<Ts>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourcesSaved {
    /// In the order given.
    pub sources: Vec<SavedSource>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedSource {
    pub id: SourceId,
    /// The source existed already.
    pub existed: bool,
}

/// Changes a source; `None` keeps a value. With another `config` the validators are dropped, the source is due at
/// once, and a poll that is still QUEUED is cancelled. A pause by a person, or a deletion, cancels a QUEUED poll too;
/// resuming sets the failures to 0 ([`crate::source::SourceState::resume`]). `Conflict` when the key belongs to
/// another source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangeSource {
    pub id: i64,
    pub project_key: String,
    pub name: Option<String>,
    pub config: Option<NewSourceConfig>,
    pub is_public: Option<bool>,
    pub is_active: Option<bool>,
    pub delete: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSourceConfig {
    pub config: String,
    pub source_key: String,
    pub minutes: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceChanged {
    Changed,
    /// The project has no such source, or it is deleted.
    Unknown,
}

/// Replaces the table of source types. Sources without an interval of their own whose type has another interval now
/// are rescheduled ([`crate::source::SourceState::reschedule`]). Sources of a type that cannot be fetched are not
/// due; they become due when it can.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyncTypes {
    /// Sorted by name.
    pub types: Vec<SourceTypeRow>,
}

/// `source_type`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceTypeRow {
    pub r#type: String,
    pub interval: Interval,
    /// Why sources of this type cannot be fetched now.
    pub unsupported: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TypesSynced {
    /// Sources whose due time changed.
    pub moved: u64,
}

/// Queues polls. Each one gets a job (PLANNED, scheduler `collector`, job `source-<id>`, public id
/// `source-<id>-<poll_count>`), snapshot, plan (READY, strategy SINGLE), slice and task (QUEUED, visible at `at`);
/// `poll_count` rises by one, and `next_due_at` moves on by one interval, so that a crash cannot repeat the poll for
/// ever. Skips a source that is deleted, whose `poll_count` differs, or that has a poll which has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuePolls {
    pub polls: Vec<NewPoll>,
    /// Sources that cannot be polled. Each counts as a failed poll, and `poll_count` rises; the same sources are
    /// skipped.
    pub unfit: Vec<UnfitPoll>,
    /// Snapshots that the polls refer to: hash and body.
    pub snapshots: Vec<(String, String)>,
    /// The polls belong to this requested job.
    pub job: Option<ScrapeJob>,
}

/// One job that polls many sources, at most once each: PLANNED, type API, operation HARVEST, scheduler `scrape`, job
/// and log its public id; its children are the jobs of the polls (`parent_id`, `root_id`). All polls are queued or
/// none: when a source is deleted, its `poll_count` differs, or it has a poll in progress (DISPATCHED or EXECUTING)
/// or one that waits for another job, nothing is written and the result names the conflict. A QUEUED poll that
/// belongs to no such job is cancelled by its job ([`ScrapeJob::cancel_replaced`]): this one replaces it. A job that a
/// person requests also replaces polls of a scheduled job that never began (QUEUED, never leased); they leave that job.
/// A scheduled job leaves out busy sources, unless another scheduled job works on one: a poll of it is in progress or
/// never began. When all sources are busy, nothing is written. The same
/// `public_id` again writes nothing, is no conflict, and returns the existing tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrapeJob {
    pub public_id: String,
    pub project_key: String,
    pub job_type: String,
    pub trigger_type: TriggerType,
    pub provenance_code: String,
    pub endpoint_name: String,
    /// JSON, an object.
    pub params: String,
    pub request_id: Option<String>,
}

/// A poll that keeps a source busy, when a scrape job begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenPoll {
    pub queued: bool,
    /// It was leased before: an upstream may have asked for a pause.
    pub began: bool,
    /// How the scrape job that it belongs to was requested, if it belongs to one.
    pub job: Option<TriggerType>,
}

impl ScrapeJob {
    /// Whether this job replaces a poll that waits.
    pub fn replaces(&self, poll: OpenPoll) -> bool {
        let by_schedule = self.trigger_type == TriggerType::Schedule;
        match poll.job {
            None => poll.queued,
            Some(TriggerType::Schedule) => poll.queued && !poll.began && !by_schedule,
            Some(_) => false,
        }
    }

    /// Whether this job begins without the sources of such polls.
    pub fn leaves_out(&self, poll: OpenPoll) -> bool {
        let works = poll.job == Some(TriggerType::Schedule) && !(poll.queued && poll.began);
        self.trigger_type == TriggerType::Schedule && !works
    }

    /// Cancels a waiting poll, given the public id of its job, because this job polls the source itself.
    pub fn cancel_replaced(&self, job: String) -> CancelWork {
        let reason = "it polls the source itself".to_owned();
        CancelWork { target: CancelSubject::Job(job), reason, by: format!("job {}", self.public_id) }
    }
}

/// Why a job was not started. Of several conflicting jobs, the one that has the source with the smallest id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrapeConflict {
    /// Public id of the conflicting job, or of the poll's own job. Empty when there is none: a source was deleted, or
    /// was polled since it was read.
    pub public_id: String,
    /// Sources that this job keeps busy, by id.
    pub sources: Vec<SourceId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewPoll {
    pub source: SourceId,
    /// The source's `poll_count` when it was read.
    pub poll_count: i64,
    pub trigger_type: TriggerType,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub host: String,
    pub snapshot_hash: String,
    pub credential: Option<CredentialId>,
    /// `ing_task.params`.
    pub params: String,
    pub expr_hash: String,
    pub at: Ts,
    pub priority: i32,
}

/// A source that is due and cannot be polled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnfitPoll {
    pub source: SourceId,
    /// The source's `poll_count` when it was read.
    pub poll_count: i64,
    /// A sentence for the person who looks at the source.
    pub reason: String,
}

impl NewPoll {
    /// `ing_plan_slice.slice_spec`: the whole source in one slice.
    pub fn slice_spec(&self) -> String {
        serde_json::json!({ "strategy": "SINGLE", "source": self.source }).to_string()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PollsQueued {
    /// The task of each poll, in the order given; `None` for skipped ones.
    pub tasks: Vec<Option<TaskId>>,
    /// Set when the job was not started.
    pub busy: Option<ScrapeConflict>,
    pub now: Ts,
}

/// Makes the QUEUED poll of a source visible at once, with the priority [`crate::source::FETCH_NOW_PRIORITY`], if it has
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HurryPoll {
    pub source: SourceId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollHurried {
    /// The poll of the source that has not ended, moved up or already in progress.
    pub task: Option<TaskId>,
}

/// Leases up to `limit` polls as [`ClaimTasks`](super::ClaimTasks) leases tasks, in the order `scheduled_at, id`;
/// before them those of each of [`crate::source::URGENT_PRIORITIES`].
/// Skips polls that are paused by a PAUSE or BREAK, and polls of a host that has `per_host` DISPATCHED or EXECUTING
/// tasks, whoever holds them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimPolls {
    pub owner: String,
    pub limit: u32,
    pub lease: Duration,
    pub per_host: u32,
}

/// Effect of the end of a run on its source, see [`EndRun`](super::EndRun). None unless the task has ended: SUCCEEDED
/// and PARTIAL are a success, FAILED a failure ([`crate::source::SourceState::after`]). A success brought something new when
/// the run inserted or updated a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PollEnd {
    pub source: SourceId,
    /// Replaces the stored validators, whether the poll succeeded or not; `None` keeps them.
    pub validators: Option<Validators>,
    /// New permanent URL of the source; its key changes with it, unless another source has that key.
    pub moved_to: Option<String>,
    /// The network failed, or memory was missing: the source is not at fault.
    pub offline: bool,
    pub gone: bool,
    /// Why the source was read only in part, if the upstream is at fault. The poll is a success and not unchanged the next
    /// time; the source shows the reason as its last error.
    pub flaw: Option<String>,
    /// Count a success in `source_stats` ([`crate::tweet::FetchStats`]): fetched are the records that the task's
    /// committed batches inserted, updated or skipped, new those that they inserted.
    pub counted: bool,
    /// Emit an event for a success with new records: [`TWEETS_COLLECTED`](super::TWEETS_COLLECTED) in the outbox,
    /// with `job` (the public id of the root, or of the job itself), `source_id`, `username` (the config's) and
    /// `tweet_ids` (keys of the items whose run is one of the task's, by key).
    pub emit: bool,
    /// Newest tweet of a success, if it may become [`FetchStats::newest_id`](crate::tweet::FetchStats::newest_id).
    pub newest: Option<NewestTweet>,
}

/// Records that a collector is alive, and its settings. One row per owner; rows of other owners that are older than a
/// day are deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    pub owner: String,
    pub tick: Duration,
    pub concurrency: u32,
    /// The collector is shutting down.
    pub leaving: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatRecorded {
    pub now: Ts,
}

/// Empties items of these kinds that were first stored before now - `keep`: fields and payload are cleared, the key
/// stays, so that they do not come back as new (COLL-110). Deletes the ledger of polls that ended before now -
/// `keep_ledger`: job, plan, slice, task, runs and batches, except those of a scrape job. At most `limit` of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgeExpired {
    /// `None` keeps items for ever.
    pub keep: Option<Duration>,
    pub keep_ledger: Duration,
    /// Deletes background jobs that ended before now - this, and scrape jobs with all their polls, once every poll
    /// has ended.
    pub keep_jobs: Duration,
    pub limit: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpiredPurged {
    pub items: u32,
    pub polls: u32,
    pub jobs: u32,
}

/// Sets or, without a value, removes a setting in `config`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveSetting {
    pub key: String,
    pub value: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingSaved;

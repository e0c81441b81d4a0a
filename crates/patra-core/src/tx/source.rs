//! Sources and their polls. A due source is a trigger, its poll a plan of one slice with one task; from there on it is
//! claimed, run, committed and ended like any other.

use std::time::Duration;

use super::control::{Cancel, Target};
use crate::id::{CredentialId, SourceId, TaskId};
use crate::source::{Interval, Validators};
use crate::state::TriggerType;
use crate::time::Ts;

/// Most sources of one [`SaveSources`], and most polls of one [`Poll`].
pub const MAX_SOURCES: usize = 500;

/// Adds sources. One whose key another source of the project has that is not deleted is left out, and that one's id answered.
/// Each is due at once, unless it says when it was last fetched: then one interval later.
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
    /// What makes it this source and no other: see [`crate::source::key`].
    pub source_key: String,
    /// Its own interval, if it has one.
    pub minutes: Option<u32>,
    pub is_public: bool,
    pub is_active: bool,
    /// What another program collected before.
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
    /// It was there already.
    pub existed: bool,
}

/// Changes a source; what is `None` stays. With another `config` the validators go, the source is due at once, and a poll
/// that is still QUEUED is cancelled. A pause by a person, or a deletion, cancels a QUEUED poll too; a resumption sets the
/// failures to 0 ([`crate::source::State::resume`]). `Conflict` when the key belongs to another source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangeSource {
    pub id: i64,
    pub project_key: String,
    pub name: Option<String>,
    pub config: Option<NewConfig>,
    pub is_public: Option<bool>,
    pub is_active: Option<bool>,
    pub delete: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewConfig {
    pub config: String,
    pub source_key: String,
    pub minutes: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceChanged {
    Changed,
    /// There is no such source in the project, or it is deleted.
    Unknown,
}

/// Makes the table of types say what the collector knows. The sources of a type whose interval became another one, and that
/// have none of their own, are due by the new one ([`crate::source::State::reschedule`]); those of a type that nobody can
/// fetch are not due, and become due when somebody can.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyncTypes {
    /// Sorted by name.
    pub types: Vec<TypeRow>,
}

/// `source_type`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeRow {
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

/// Queues polls. Of each: trigger (PLANNED, scheduler `collector`, job `source-<id>`, public id `source-<id>-<poll_count>`),
/// snapshot, plan (READY, strategy SINGLE), slice and task (QUEUED, visible at `at`); `poll_count` rises by one, and
/// `next_due_at` moves on by one interval, so that a crash cannot make it come again and again. Left out is a source that is
/// deleted, whose `poll_count` is not the one seen, or that has a poll which has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Poll {
    pub polls: Vec<NewPoll>,
    /// Of which no poll can be made. Each has failed, as if it had been polled, and `poll_count` rises; left out are the same.
    pub unfit: Vec<UnfitPoll>,
    /// The snapshots that the polls name: hash and body.
    pub snapshots: Vec<(String, String)>,
    /// They are one job, which somebody asked for.
    pub job: Option<NewScrape>,
}

/// One job that polls many sources, at most one each: a trigger, PLANNED, type API, operation HARVEST, scheduler `scrape`, job
/// and log its public id, whose children are the triggers of the polls (`parent_id`, `root_id`). All of them or none: when one is deleted, not the one that was seen, or has a poll under way
/// (DISPATCHED or EXECUTING) or one that waits for another job, nothing is written and the answer names the conflict. A poll
/// that merely waits for its turn, of no job, is cancelled by its trigger ([`NewScrape::instead_of`]): this one takes its place.
/// The same `public_id` again writes nothing, is no conflict, and answers the tasks that there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewScrape {
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

impl NewScrape {
    /// What ends a poll that waits, known by its trigger, when this job polls the source itself.
    pub fn instead_of(&self, trigger: String) -> Cancel {
        let reason = "it polls the source itself".to_owned();
        Cancel { target: Target::Trigger(trigger), reason, by: format!("job {}", self.public_id) }
    }
}

/// Why a job was not begun. Of several who are at it, the one that has the source with the smallest id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Busy {
    /// Of the job that is at it, or of the poll's own trigger. Empty when nobody is: a source is gone, or was polled since it
    /// was read.
    pub public_id: String,
    /// Those that are busy by it, by id.
    pub sources: Vec<SourceId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewPoll {
    pub source: SourceId,
    /// As it was when the source was read.
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
    /// As it was when the source was read.
    pub poll_count: i64,
    /// A sentence for the person who looks at the source.
    pub reason: String,
}

impl NewPoll {
    /// `ing_plan_slice.slice_spec`: everything that there is now, in one slice.
    pub fn slice_spec(&self) -> String {
        serde_json::json!({ "strategy": "SINGLE", "source": self.source }).to_string()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Polled {
    /// The task of each poll, in the order given; `None` where it was left out.
    pub tasks: Vec<Option<TaskId>>,
    /// Of a job: it was not begun.
    pub busy: Option<Busy>,
    pub now: Ts,
}

/// Makes the QUEUED poll of a source visible at once, if it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HurryPoll {
    pub source: SourceId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollHurried {
    /// The poll of the source that has not ended, hurried or already under way.
    pub task: Option<TaskId>,
}

/// Leases up to `limit` polls as [`Claim`](super::Claim) does tasks, in the order `scheduled_at, id`, those apart that a PAUSE
/// or BREAK holds and those of a host of which `per_host` are DISPATCHED or EXECUTING, whoever holds them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimPolls {
    pub owner: String,
    pub limit: u32,
    pub lease: Duration,
    pub per_host: u32,
}

/// What the end of a run means for its source, see [`EndRun`](super::EndRun). Nothing, unless its task has ended: SUCCEEDED
/// and PARTIAL are a success, FAILED a failure ([`crate::source::State::after`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PollEnd {
    pub source: SourceId,
    /// They replace the stored ones, whether it ended well or not; `None` leaves those.
    pub validators: Option<Validators>,
    /// Where the source has moved for good; its key changes with it, unless another source has that.
    pub moved_to: Option<String>,
    /// A failure is the network's, not the source's.
    pub offline: bool,
    pub gone: bool,
    /// A success is counted in `source_stats` ([`crate::tweet::FetchStats`]): fetched are the records that the task's committed
    /// batches inserted, updated or skipped, new those that they inserted.
    pub counted: bool,
    /// A success that brought something new is told: an event [`TWEETS_COLLECTED`](super::TWEETS_COLLECTED) in the outbox, with `job` (the root's public id, or
    /// the trigger's own), `source_id`, `username` (the config's) and `tweet_ids` (keys of the items whose run is one of the task's, by key).
    pub tell: bool,
}

/// Says that a collector lives, and what it does. One row per owner; those of others that are older than a day go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beat {
    pub owner: String,
    pub tick: Duration,
    pub concurrency: u32,
    /// It is about to end.
    pub leaving: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beaten {
    pub now: Ts,
}

/// Empties items of these kinds that were first stored before now - `keep`: fields and payload go, the key stays, so that
/// they do not come back as new (COLL-110). And forgets the ledger of polls that ended before now - `keep_ledger`: trigger,
/// plan, slice, task, runs and batches, those of a job apart. At most `limit` of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clean {
    /// `None`: for ever.
    pub keep: Option<Duration>,
    pub keep_ledger: Duration,
    /// Chores that ended before now - this are forgotten, and jobs that poll sources with all their polls, once every one of these
    /// has ended.
    pub keep_jobs: Duration,
    pub limit: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaned {
    pub items: u32,
    pub polls: u32,
    pub jobs: u32,
}

/// Sets or, without a value, removes a setting in `config`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configure {
    pub key: String,
    pub value: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configured;

//! The source that the simulated world collects, and the checks of its final state.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use patra_core::cursor::{CursorName, CursorScope};
use patra_core::params::Params;
use patra_core::protocol::planner::{
    PhaseSpec, PlanDraft, PlanSpan, SliceBudget, SliceContext, SliceTemplate, job_component,
};
use patra_core::protocol::run;
use patra_core::record::RecordStream;
use patra_core::registry::{RegistryRow, RegistryTable, WHOLE};
use patra_core::state::{Direction, Operation, TaskStatus};
use patra_core::tx::{ApplyProvenance, ClaimedJob, EndpointRow, EndpointSchedule, Recurrence};
use patra_core::{Ts, Window, paging, retry};

use super::Mutant;
use super::check::{Broken, completed};
use super::profile::Profile;
use super::world::World;
use crate::memory::{Cursor, MemStore};

pub(super) fn provenance(every: Option<Duration>) -> ApplyProvenance {
    ApplyProvenance {
        provenance_code: "p".into(),
        name: "P".into(),
        project_key: None,
        rows: [(RegistryTable::Provenance, WHOLE), (RegistryTable::EndpointDef, "e")]
            .map(|(table, name)| RegistryRow { table, endpoint_name: name.into(), config: "{}".into() })
            .into(),
        document_hash: if every.is_some() { "scheduled" } else { "bare" }.into(),
        endpoints: vec![EndpointRow {
            endpoint_name: "e".into(),
            role: "SEARCH".into(),
            schedules: Vec::from_iter(every.map(|every| EndpointSchedule {
                operation: Operation::Harvest,
                reason: None,
                recurrence: Recurrence::Every(every),
            })),
        }],
    }
}

pub(super) fn policy(profile: &Profile, ceiling: Option<u64>) -> Arc<run::RunPolicy> {
    Arc::new(run::RunPolicy {
        paging: paging::PagingRule { ceiling, can_cut: ceiling.is_some(), ..profile.api.rule(profile.page_size) },
        retry: RETRY,
        stream: Arc::clone(&STREAM),
        limits: profile.api.limits(),
        order: profile.api.order,
        generation: Arc::clone(&GENERATION),
        emit: false,
        pass: None,
        details: profile.details.map(|batch_size| run::DetailOptions { batch_size, missing_is_bad: true }),
        split: (ceiling.is_some() || profile.api.cuts()).then(|| run::SplitRule {
            step: Duration::from_secs(1),
            template: FORM.clone(),
            by_time: true,
        }),
    })
}

/// The policy of the partitioned endpoint: page by page, whole records, the whole listing.
pub(super) fn partition_policy(profile: &Profile) -> Arc<run::RunPolicy> {
    let whole = paging::PagingRule::new(paging::PagingKind::Token { initial: None }, profile.page_size);
    Arc::new(run::RunPolicy {
        paging: whole,
        retry: RETRY,
        stream: Arc::clone(&PARTITION_STREAM),
        limits: run::SliceLimits::default(),
        order: None,
        generation: Arc::clone(&GENERATION),
        emit: false,
        pass: None,
        details: None,
        split: None,
    })
}

static STREAM: LazyLock<Arc<RecordStream>> = LazyLock::new(|| Arc::new(stream("e")));
static PARTITION_STREAM: LazyLock<Arc<RecordStream>> = LazyLock::new(|| Arc::new(stream(super::partition::ENDPOINT)));
static GENERATION: LazyLock<Arc<str>> = LazyLock::new(|| "".into());
static FORM: LazyLock<SliceTemplate> = LazyLock::new(|| SliceTemplate::new(shape()));

const RETRY: retry::RetryPolicy = retry::RetryPolicy {
    max_attempts: 3,
    min_delay_ms: 100,
    max_delay_ms: 2_000,
    multiplier_percent: 200,
    jitter_percent: 20,
};

fn stream(endpoint: &str) -> RecordStream {
    RecordStream {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: endpoint.into(),
        dedup_scope: endpoint.into(),
        kind: String::new(),
    }
}

pub(super) fn main_stream() -> RecordStream {
    (**STREAM).clone()
}

/// The context of the slices of a window that is split.
fn shape() -> SliceContext {
    SliceContext {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        operation: Operation::Harvest,
        watermark_key: String::new(),
        snapshot_hash: String::new(),
        first: paging::Position::Token(None),
        params: Params::new(),
        partition: Params::new(),
        safety_lag: Duration::ZERO,
        phase: PhaseSpec::default(),
        budget: SliceBudget::default(),
        priority: Operation::Harvest.priority(),
        job: "SPLIT".into(),
    }
}

/// Most uncommitted pages that a run may have when it reads another.
pub(super) const LOOKAHEAD: usize = 3;

pub(super) fn run_options(profile: &Profile, mutant: Option<Mutant>) -> run::Options {
    run::Options {
        inline_wait: Duration::from_secs(6),
        lookahead: if mutant == Some(Mutant::ReadsFarAhead) { 4 * LOOKAHEAD } else { LOOKAHEAD },
        linger: Duration::from_millis(20),
        max_attempts: profile.attempts,
        max_throttles: 4,
        max_batch_records: profile.max_batch_records,
        emit_tweets: false,
        mark_limit: 2,
    }
}

pub(super) fn draft(trigger: &ClaimedJob, profile: &Profile, start: Ts, mutant: Option<Mutant>) -> PlanDraft {
    let backfill = trigger.operation == Operation::Backfill;
    let beyond = mutant == Some(Mutant::PlansBeyondBarrier);
    PlanDraft {
        snapshot_body: String::new(),
        cursor: CursorName {
            project_key: trigger.project_key.clone(),
            provenance_code: "p".into(),
            endpoint_name: "e".into(),
            operation: trigger.operation,
            cursor_key: String::new(),
            scope: if backfill { CursorScope::Custom } else { CursorScope::Expr },
            namespace_key: if backfill { activity(trigger) } else { "n".into() },
        },
        span: PlanSpan::Time {
            cut: profile.cut,
            initial: start - profile.history,
            narrowest: profile.cut.max_width,
            depth: u64::MAX,
        },
        c_max: u32::MAX,
        inventory: None,
        quota: None,
        qps: 1.0,
        per_request: 0,
        degradations: Vec::new(),
        context: SliceContext {
            operation: trigger.operation,
            safety_lag: if beyond { Duration::ZERO } else { profile.lag },
            priority: trigger.operation.priority(),
            job: job_component(trigger),
            ..shape()
        },
        credential: profile.api.credential(trigger.job.0),
        labels: serde_json::Value::Null,
        warnings: Vec::new(),
    }
}

/// The activity of a backfill or an update, else its own name.
pub(super) fn activity(trigger: &ClaimedJob) -> String {
    trigger.activity.clone().unwrap_or_else(|| trigger.public_id.clone())
}

/// The planned range of a namespace, and the parts of it that were not read.
pub(super) struct Planned {
    pub(super) began: Ts,
    pub(super) end: Ts,
    pub(super) gaps: Vec<Window>,
}

pub(super) fn planned(mem: &MemStore, cursor: &Cursor) -> Planned {
    let began = cursor.began.unwrap_or(Ts::MIN);
    let own = mem.tasks.iter().filter(|task| task.cursor == cursor.id).filter_map(|task| task.what.window);
    let (end, whole) = match cursor.direction() {
        Direction::Forward => {
            let end = own.map(|window| window.to).max().unwrap_or(began);
            (end, Window::new(began, end))
        }
        Direction::Backfill => {
            let end = own.map(|window| window.from).min().unwrap_or(began);
            (end, Window::new(end, began))
        }
    };
    let gaps = whole.map_or(Vec::new(), |whole| whole.minus(&completed(mem, cursor.id)));
    Planned { began, end, gaps }
}

/// The harvest is complete up to its last planned instant, or stands exactly before the window that cannot be read.
pub(super) fn final_check(world: &World) -> Result<(), Broken> {
    let mem = &world.store.mem;
    for status in [TaskStatus::Queued, TaskStatus::Dispatched, TaskStatus::Executing] {
        if world.tasks_in(status) > 0 {
            return Err(format!("every task ends: some are {status}"));
        }
    }
    let Some(cursor) =
        mem.cursors.iter().find(|row| row.name.operation == Operation::Harvest && row.name.endpoint_name == "e")
    else {
        return Err("every task ends: the harvest was never planned".to_owned());
    };
    check_complete(world, cursor)
}

/// The backfill of the activity is complete down to the start of the manifest, or as far as the source can be read.
pub(super) fn check_backfill(world: &World) -> Result<(), Broken> {
    let mem = &world.store.mem;
    let own = |row: &&Cursor| row.name.operation == Operation::Backfill && row.name.namespace_key == "a";
    let Some(cursor) = mem.cursors.iter().find(own) else {
        // Everything in its range was harvested before it began, and is not read again.
        return Ok(());
    };
    check_complete(world, cursor)
}

/// The planned range of this namespace is read, except the unreadable window, and its cursor is at the end of it.
fn check_complete(world: &World, cursor: &Cursor) -> Result<(), Broken> {
    let mem = &world.store.mem;
    let Planned { began, mut end, mut gaps } = planned(mem, cursor);
    if cursor.direction() == Direction::Backfill {
        // Only requests for single windows go beyond this.
        end = world.start - world.profile.history;
        gaps = gaps.iter().filter_map(|gap| Window::new(gap.from.max(end), gap.to)).collect();
        if end >= began {
            return Ok(());
        }
    }
    let poison = world.api.poison.map(|poison| poison.at);
    if let Some(gap) = gaps.iter().find(|gap| !poison.is_some_and(|at| gap.contains(at))) {
        return Err(format!("no gap: {gap:?} was never read"));
    }
    let expected = match cursor.direction() {
        Direction::Forward => gaps.first().map_or(end, |gap| gap.from),
        Direction::Backfill => gaps.last().map_or(end, |gap| gap.to),
    };
    let value = cursor.start().unwrap_or(began);
    let further = cursor.direction() == Direction::Backfill && gaps.is_empty() && value < expected;
    if value != expected && !further {
        return Err(format!("every task ends: the cursor stands at {value:?} instead of {expected:?}"));
    }
    if gaps.first().is_some_and(|gap| gap.width() > world.profile.cut.max_width) {
        return Err(format!("no gap: more than the window that cannot be read is missing: {gaps:?}"));
    }
    // Windows behind an unreadable one need not contain the late records.
    let harvest = cursor.direction() == Direction::Forward && poison.is_none();
    world.check.check_no_gap(mem, &world.api, world.now, None, (began.min(value), began.max(value)), harvest)
}

//! The one source that the simulated world collects, and how it must look in the end.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use patra_core::cursor::{Name, Scope};
use patra_core::params::Params;
use patra_core::protocol::planner::{Budget, Draft, Phase, Shape, SliceForm, Span, trigger_component};
use patra_core::protocol::run;
use patra_core::record::Stream;
use patra_core::registry::{Row, Table, WHOLE};
use patra_core::state::{Operation, TaskStatus};
use patra_core::tx::{ApplyProvenance, EndpointRow, Schedule, TriggerTaken, When};
use patra_core::{Ts, Window, paging, retry};

use super::Mutant;
use super::check::Broken;
use super::profile::Profile;
use super::world::World;
use crate::memory::{Cursor, MemStore};

pub(super) fn provenance(every: Option<Duration>) -> ApplyProvenance {
    ApplyProvenance {
        provenance_code: "p".into(),
        name: "P".into(),
        rows: [(Table::Provenance, WHOLE), (Table::EndpointDef, "e")]
            .map(|(table, name)| Row { table, endpoint_name: name.into(), config: "{}".into() })
            .into(),
        document_hash: if every.is_some() { "scheduled" } else { "bare" }.into(),
        endpoints: vec![EndpointRow {
            endpoint_name: "e".into(),
            role: "SEARCH".into(),
            schedules: Vec::from_iter(every.map(|every| Schedule {
                operation: Operation::Harvest,
                reason: None,
                when: When::Every(every),
            })),
        }],
    }
}

pub(super) fn policy(profile: &Profile, ceiling: Option<u64>) -> Arc<run::Policy> {
    Arc::new(run::Policy {
        paging: paging::Rule {
            ceiling,
            can_cut: ceiling.is_some(),
            ..paging::Rule::new(paging::Kind::Token { initial: None }, profile.page_size)
        },
        retry: RETRY,
        stream: Arc::clone(&STREAM),
        limits: run::Limits::default(),
        order: None,
        generation: Arc::clone(&GENERATION),
        details: profile.details.map(|batch_size| run::Details { batch_size, missing_is_bad: true }),
        split: ceiling.map(|_| run::Split { step: Duration::from_secs(1), form: FORM.clone(), by_time: true }),
    })
}

/// How the partitioned endpoint is read: page by page, whole records, all that there is.
pub(super) fn partition_policy(profile: &Profile) -> Arc<run::Policy> {
    let whole = paging::Rule::new(paging::Kind::Token { initial: None }, profile.page_size);
    Arc::new(run::Policy {
        paging: whole,
        retry: RETRY,
        stream: Arc::clone(&PARTITION_STREAM),
        limits: run::Limits::default(),
        order: None,
        generation: Arc::clone(&GENERATION),
        details: None,
        split: None,
    })
}

static STREAM: LazyLock<Arc<Stream>> = LazyLock::new(|| Arc::new(stream("e")));
static PARTITION_STREAM: LazyLock<Arc<Stream>> = LazyLock::new(|| Arc::new(stream(super::partition::ENDPOINT)));
static GENERATION: LazyLock<Arc<str>> = LazyLock::new(|| "".into());
static FORM: LazyLock<SliceForm> = LazyLock::new(|| SliceForm::new(shape()));

const RETRY: retry::Policy = retry::Policy {
    max_attempts: 3,
    min_delay_ms: 100,
    max_delay_ms: 2_000,
    multiplier_percent: 200,
    jitter_percent: 20,
};

fn stream(endpoint: &str) -> Stream {
    Stream {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: endpoint.into(),
        dedup_scope: endpoint.into(),
        kind: String::new(),
    }
}

/// What the slices of a window that was cut look like.
fn shape() -> Shape {
    Shape {
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
        phase: Phase::default(),
        budget: Budget::default(),
        priority: Operation::Harvest.priority(),
        trigger: "SPLIT".into(),
    }
}

pub(super) fn run_options(profile: &Profile, mutant: Option<Mutant>) -> run::Options {
    run::Options {
        inline_wait: Duration::from_secs(6),
        lookahead: if mutant == Some(Mutant::ReadsFarAhead) { 6 } else { 1 },
        max_attempts: profile.attempts,
        max_throttles: 4,
    }
}

pub(super) fn draft(trigger: &TriggerTaken, profile: &Profile, start: Ts, mutant: Option<Mutant>) -> Draft {
    let backfill = trigger.operation == Operation::Backfill;
    let beyond = mutant == Some(Mutant::PlansBeyondBarrier);
    Draft {
        snapshot_body: String::new(),
        cursor: Name {
            provenance_code: "p".into(),
            endpoint_name: "e".into(),
            operation: trigger.operation,
            cursor_key: String::new(),
            scope: if backfill { Scope::Custom } else { Scope::Expr },
            namespace_key: "n".into(),
        },
        span: Span::Time {
            cut: profile.cut,
            initial: start - profile.history,
            narrowest: profile.cut.max_width,
            depth: u64::MAX,
        },
        c_max: u32::MAX,
        inventory: None,
        degradations: Vec::new(),
        shape: Shape {
            operation: trigger.operation,
            safety_lag: if beyond { Duration::ZERO } else { profile.lag },
            priority: trigger.operation.priority(),
            trigger: trigger_component(trigger),
            ..shape()
        },
        credential: None,
        labels: serde_json::Value::Null,
        warnings: Vec::new(),
    }
}

/// What was planned of a namespace, and what of that was not read.
pub(super) struct Planned {
    pub(super) began: Ts,
    pub(super) end: Ts,
    pub(super) gaps: Vec<Window>,
}

pub(super) fn planned(mem: &MemStore, cursor: &Cursor) -> Planned {
    let began = cursor.began.unwrap_or(Ts::MIN);
    let own = || mem.tasks.iter().filter(|task| task.cursor == cursor.id);
    let end = own().filter_map(|task| task.what.window).map(|window| window.to).max().unwrap_or(began);
    let done = own().filter(|task| task.status == TaskStatus::Succeeded);
    let done: Vec<Window> = done.filter_map(|task| task.what.window).collect();
    let gaps = Window::new(began, end).map_or(Vec::new(), |whole| whole.minus(&done));
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
    let Planned { began, end, gaps } = planned(mem, cursor);
    let poison = world.far.poison.map(|poison| poison.at);
    if let Some(gap) = gaps.iter().find(|gap| !poison.is_some_and(|at| gap.contains(at))) {
        return Err(format!("no gap: {gap:?} was never read"));
    }
    let expected = gaps.first().map_or(end, |gap| gap.from);
    let value = cursor.start().unwrap_or(began);
    if value != expected {
        return Err(format!("every task ends: the cursor stands at {value:?} instead of {expected:?}"));
    }
    if gaps.first().is_some_and(|gap| gap.width() > world.profile.cut.max_width) {
        return Err(format!("no gap: more than the window that cannot be read is missing: {gaps:?}"));
    }
    world.check.check_no_gap(mem, &world.far, world.now, None, began, value)
}

//! The one source that the simulated world collects, and how it must look in the end.

use std::sync::Arc;
use std::time::Duration;

use patra_core::cursor::{Name, Scope};
use patra_core::protocol::planner::Draft;
use patra_core::protocol::run;
use patra_core::record::Stream;
use patra_core::state::{Operation, TaskStatus};
use patra_core::tx::{ApplyProvenance, EndpointRow, Schedule, TriggerTaken};
use patra_core::{Ts, Window, paging, retry};

use super::Mutant;
use super::check::Broken;
use super::process::MAX_ATTEMPTS;
use super::profile::Profile;
use super::world::World;

/// How far back the first plan reaches.
pub(super) const HISTORY: Duration = Duration::from_secs(100);

pub(super) fn provenance(every: Option<Duration>) -> ApplyProvenance {
    ApplyProvenance {
        provenance_code: "p".into(),
        name: "P".into(),
        document: "{}".into(),
        document_hash: if every.is_some() { "scheduled" } else { "bare" }.into(),
        endpoints: vec![EndpointRow {
            endpoint_name: "e".into(),
            role: "SEARCH".into(),
            schedule: every.map(|every| Schedule { every }),
        }],
    }
}

pub(super) fn policy(profile: &Profile) -> Arc<run::Policy> {
    let stream = Stream {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        dedup_scope: "e".into(),
        kind: "work".into(),
    };
    Arc::new(run::Policy {
        paging: paging::Rule {
            kind: paging::Kind::Token { initial: None },
            page_size: profile.page_size,
            max_page: None,
            always_token: false,
        },
        retry: retry::Policy { max_attempts: 3, max_delay_ms: 2_000, ..retry::Policy::default() },
        stream: Arc::new(stream),
    })
}

pub(super) fn run_options(mutant: Option<Mutant>) -> run::Options {
    run::Options {
        inline_wait: Duration::from_secs(6),
        lookahead: if mutant == Some(Mutant::ReadsFarAhead) { 6 } else { 1 },
        max_attempts: MAX_ATTEMPTS,
        max_throttles: 4,
    }
}

pub(super) fn draft(trigger: &TriggerTaken, profile: &Profile, start: Ts, mutant: Option<Mutant>) -> Draft {
    let backfill = trigger.operation == Operation::Backfill;
    Draft {
        snapshot_hash: "s".into(),
        snapshot_body: "{}".into(),
        cursor: Name {
            provenance_code: "p".into(),
            endpoint_name: "e".into(),
            operation: trigger.operation,
            cursor_key: "updated_at".into(),
            scope: if backfill { Scope::Custom } else { Scope::Expr },
            namespace_key: "n".into(),
        },
        cut: profile.cut,
        safety_lag: if mutant == Some(Mutant::PlansBeyondBarrier) { Duration::ZERO } else { profile.lag },
        initial: start - HISTORY,
        priority: trigger.operation.priority(),
        pagination: serde_json::Value::Null,
        warnings: Vec::new(),
    }
}

/// The harvest is complete up to its last planned instant, or stands exactly before the window that cannot be read.
pub(super) fn final_check(world: &World) -> Result<(), Broken> {
    let mem = &world.store.mem;
    for status in [TaskStatus::Queued, TaskStatus::Dispatched, TaskStatus::Executing] {
        if world.tasks_in(status) > 0 {
            return Err(format!("every task ends: some are {status}"));
        }
    }
    let Some(cursor) = mem.cursors.iter().find(|row| row.name.operation == Operation::Harvest) else {
        return Err("every task ends: the harvest was never planned".to_owned());
    };
    let own = || mem.tasks.iter().filter(|task| task.cursor == cursor.id);
    let end = own().map(|task| task.what.window.to).max().unwrap_or(cursor.began);
    let done: Vec<Window> =
        own().filter(|task| task.status == TaskStatus::Succeeded).map(|task| task.what.window).collect();
    let gaps = Window::new(cursor.began, end).map_or(Vec::new(), |whole| whole.minus(&done));
    let poison = world.far.poison.map(|poison| poison.at);
    if let Some(gap) = gaps.iter().find(|gap| !poison.is_some_and(|at| gap.contains(at))) {
        return Err(format!("no gap: {gap:?} was never read"));
    }
    let expected = gaps.first().map_or(end, |gap| gap.from);
    let value = cursor.value.unwrap_or(cursor.began);
    if value != expected {
        return Err(format!("every task ends: the cursor stands at {value:?} instead of {expected:?}"));
    }
    if gaps.first().is_some_and(|gap| gap.width() > world.profile.cut.max_width) {
        return Err(format!("no gap: more than the window that cannot be read is missing: {gaps:?}"));
    }
    world.check.check_no_gap(mem, &world.far, world.now, cursor.began, value)
}

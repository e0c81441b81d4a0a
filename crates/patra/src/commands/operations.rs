//! `pause`, `resume`, `cancel`, `signal`, `quarantine`, `outbox`, `archive`: what people do to work and to what came of it.

use serde_json::json;

use patra_core::port::query::View;
use patra_core::port::{CommandsExt, Queries};
use patra_core::state::HoldKind;
use patra_core::tx::{self, Abandon, Hold, Release, Subject, Target, Which};
use patra_core::{HoldId, PlanId, SliceId, TaskId};
use patra_engine::operations;

use crate::cli::{Archive, Cancel, Cancelled, Global, Held, Outbox, Pause, Quarantine, Resume, Resumed, Signal, Who};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::{output, store};

pub(crate) async fn pause(global: &Global, args: &Pause) -> Result<Exit, Error> {
    let subject = subject(&args.what);
    let Who { reason, by } = args.who.clone();
    let store = store::open(global).await?.store;
    holdable(global, &*store, &args.what).await?;
    operations::holdable(&*store, &subject).await?;
    let hold = Hold { subject: subject.clone(), kind: HoldKind::Pause, reason, by };
    let holding = store.run(hold).await?;
    let word = if holding.existed { "is paused already" } else { "paused" };
    let text = format!("{subject} {word}: hold {}", holding.hold);
    let value = json!({ "hold": holding.hold, "subject": subject.to_text(), "existed": holding.existed });
    output::result(global.output, &text, &value)?;
    Ok(Exit::Ok)
}

pub(crate) async fn resume(global: &Global, args: &Resume) -> Result<Exit, Error> {
    let which = match &args.what {
        Resumed::Work(what) => Which::On(subject(what)),
        Resumed::Hold { id } => Which::Hold(HoldId(*id)),
    };
    let name = match &which {
        Which::On(subject) => subject.to_text(),
        Which::Hold(id) => format!("hold {id}"),
    };
    let store = store::open(global).await?.store;
    match &args.what {
        Resumed::Work(what) => holdable(global, &*store, what).await?,
        Resumed::Hold { .. } => of_all(global)?,
    }
    let released = store.run(Release { which, by: args.who.by.clone() }).await?.released;
    if released == 0 {
        return Err(Error::not_found(format!("nothing holds {name}")).hint("`patra get holds` shows what is held"));
    }
    let text = format!("{name} goes on: {released} hold{} released", if released == 1 { "" } else { "s" });
    output::result(global.output, &text, &json!({ "subject": name, "released": released }))?;
    Ok(Exit::Ok)
}

/// Whether the work is the project's that the command is about.
async fn holdable(global: &Global, queries: &(impl Queries + ?Sized), what: &Held) -> Result<(), Error> {
    match what {
        Held::Source { .. } | Held::Endpoint { .. } => of_all(global),
        Held::Plan { id } => store::mine(global, queries, View::Plans, *id, &format!("plan {id}")).await,
        Held::Slice { id } => store::mine(global, queries, View::Slices, *id, &format!("slice {id}")).await,
        Held::Task { id } => store::mine(global, queries, View::Tasks, *id, &format!("task {id}")).await,
    }
}

/// What all projects have in common is not held for one of them.
fn of_all(global: &Global) -> Result<(), Error> {
    match &global.project {
        None => Ok(()),
        Some(_) => Err(Error::usage("this concerns all projects").hint("leave --project out")),
    }
}

fn subject(what: &Held) -> Subject {
    let nothing = Subject::default();
    match what {
        Held::Source { provenance } => Subject::source(&normal(provenance)),
        Held::Endpoint { provenance, endpoint, operation } => {
            Subject { operation: *operation, ..Subject::endpoint(&normal(provenance), &normal(endpoint)) }
        }
        Held::Plan { id } => Subject { plan: Some(PlanId(*id)), ..nothing },
        Held::Slice { id } => Subject { slice: Some(SliceId(*id)), ..nothing },
        Held::Task { id } => Subject { task: Some(TaskId(*id)), ..nothing },
    }
}

/// Codes are lower-case and trimmed.
fn normal(code: &str) -> String {
    code.trim().to_lowercase()
}

pub(crate) async fn cancel(global: &Global, args: &Cancel) -> Result<Exit, Error> {
    let (target, name) = match &args.what {
        Cancelled::Job { id } => (Target::Trigger(id.clone()), format!("job {id}")),
        Cancelled::Plan { id } => (Target::Plan(PlanId(*id)), format!("plan {id}")),
        Cancelled::Slice { id } => (Target::Slice(SliceId(*id)), format!("slice {id}")),
        Cancelled::Task { id } => (Target::Task(TaskId(*id)), format!("task {id}")),
    };
    let Who { reason, by } = args.who.clone();
    let store = store::open(global).await?.store;
    match &args.what {
        Cancelled::Job { id } => store::my_job(global, &*store, id).await?,
        Cancelled::Plan { id } => store::mine(global, &*store, View::Plans, *id, &name).await?,
        Cancelled::Slice { id } => store::mine(global, &*store, View::Slices, *id, &name).await?,
        Cancelled::Task { id } => store::mine(global, &*store, View::Tasks, *id, &name).await?,
    }
    let done = store.run(tx::Cancel { target, reason, by }).await?;
    if !done.found {
        return Err(Error::not_found(format!("there is no {name}")));
    }
    let tx::Cancelled { triggers, plans, slices, tasks, .. } = done;
    let text = match triggers + plans + slices + tasks {
        0 => format!("{name} has ended already: nothing was left to cancel"),
        _ => format!("{name} cancelled: {plans} plans, {slices} slices, {tasks} tasks"),
    };
    let value = json!({ "triggers": triggers, "plans": plans, "slices": slices, "tasks": tasks });
    output::result(global.output, &text, &value)?;
    Ok(Exit::Ok)
}

pub(crate) async fn signal(global: &Global, args: &Signal) -> Result<Exit, Error> {
    let store = store::open(global).await?.store;
    let Who { reason, by } = args.who.clone();
    let project = store::project(global, &*store).await?;
    let (provenance, endpoint) = (&args.provenance, &args.endpoint);
    let signal = operations::signal(&*store, &project, provenance, endpoint, args.ids.clone(), reason, by).await?;
    let done = store.run(signal).await?;
    let text = format!(
        "{} signalled, {} known before; `patra run {} {} --operation update --reason signals` fetches them",
        done.added, done.existing, args.provenance, args.endpoint
    );
    output::result(global.output, &text, &json!({ "added": done.added, "existing": done.existing }))?;
    Ok(Exit::Ok)
}

pub(crate) async fn quarantine(global: &Global, command: &Quarantine) -> Result<Exit, Error> {
    let Quarantine::Abandon { id, who } = command;
    let store = store::open(global).await?.store;
    store::mine(global, &*store, View::Quarantine, *id, &format!("quarantined record {id}")).await?;
    let done = store.run(Abandon { quarantine: *id, by: who.by.clone() }).await?;
    if !done.found {
        return Err(Error::not_found(format!("there is no quarantined record {id}")));
    }
    let text = if done.abandoned { "given up" } else { "was settled already" };
    output::result(global.output, &format!("quarantined record {id} {text}"), &json!({ "abandoned": done.abandoned }))?;
    Ok(Exit::Ok)
}

pub(crate) async fn outbox(global: &Global, command: &Outbox) -> Result<Exit, Error> {
    let Outbox::Retell { id } = *command;
    let store = store::open(global).await?.store;
    if let Some(project) = &global.project {
        store::known_project(&*store, project).await?;
    }
    let Some(events) = operations::retell(&*store, global.project.as_deref(), id).await? else {
        return Err(Error::not_found("there is no such event: `patra get outbox` shows what there is"));
    };
    let text = match (id, events) {
        (Some(id), 0) => format!("event {id} was not given up: there is nothing to tell again"),
        (None, 0) => "no event was given up: there is nothing to tell again".to_owned(),
        (_, events) => format!("events that will be told again, by a `patra serve` with their webhook: {events}"),
    };
    output::result(global.output, &text, &json!({ "events": events }))?;
    Ok(Exit::Ok)
}

pub(crate) async fn archive(global: &Global, args: &Archive) -> Result<Exit, Error> {
    let store = store::open(global).await?.store;
    let done = operations::archive(&*store, &SystemClock, args.older_than).await?;
    let text = format!(
        "archived {} batches and {} cursor events; {} kept answers and {} settled rows deleted",
        done.batches, done.events, done.raw, done.settled
    );
    let value = json!({ "batches": done.batches, "events": done.events, "raw": done.raw, "settled": done.settled });
    output::result(global.output, &text, &value)?;
    Ok(Exit::Ok)
}

//! Operations on work and its results: `pause`, `resume`, `cancel`, `signal`, `quarantine`, `outbox`, `archive`.

use serde_json::json;

use patra_core::port::query::View;
use patra_core::port::{CommandsExt, Queries};
use patra_core::state::PauseKind;
use patra_core::tx::{self, AbandonRecord, CancelSubject, PauseSelector, PauseSubject, PauseWork, ResumeWork};
use patra_core::{PauseId, PlanId, SliceId, TaskId, Window};
use patra_engine::operations;

use crate::cli::{
    AcceptGap, Archive, Author, Cancel, CancelTarget, Global, Outbox, Pause, PauseTarget, Quarantine, Resume,
    ResumeTarget, Signal,
};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::{output, store};

pub(crate) async fn pause(global: &Global, args: &Pause) -> Result<Exit, Error> {
    let subject = subject(&args.target);
    let Author { reason, by } = args.author.clone();
    let store = store::open(global).await?.store;
    holdable(global, &*store, &args.target).await?;
    operations::check_pause_subject(&*store, &subject).await?;
    let hold = PauseWork { subject: subject.clone(), kind: PauseKind::Pause, reason, by };
    let holding = store.run(hold).await?;
    let word = if holding.existed { "is paused already" } else { "is paused" };
    let text = format!("{} {word}: hold {}", in_words(&subject), holding.pause);
    let value = json!({ "hold": holding.pause, "subject": subject.to_text(), "existed": holding.existed });
    output::result(global.output, &text, &value)?;
    Ok(Exit::Ok)
}

pub(crate) async fn resume(global: &Global, args: &Resume) -> Result<Exit, Error> {
    let which = match &args.target {
        ResumeTarget::Work(what) => PauseSelector::On(subject(what)),
        ResumeTarget::Hold { id } => PauseSelector::Id(PauseId(*id)),
    };
    let (subject, name) = match &which {
        PauseSelector::On(subject) => (subject.to_text(), in_words(subject)),
        PauseSelector::Id(id) => (format!("hold {id}"), format!("hold {id}")),
    };
    let store = store::open(global).await?.store;
    match &args.target {
        ResumeTarget::Work(what) => holdable(global, &*store, what).await?,
        ResumeTarget::Hold { .. } => without_project(global)?,
    }
    let released = store.run(ResumeWork { target: which, by: args.author.by.clone() }).await?.resumed;
    if released == 0 {
        return Err(Error::not_found(format!("{name} is not paused")).hint("`patra get holds` lists pauses and halts"));
    }
    let text = format!("{name} resumed: {released} hold{} removed", if released == 1 { "" } else { "s" });
    output::result(global.output, &text, &json!({ "subject": subject, "released": released }))?;
    Ok(Exit::Ok)
}

pub(crate) async fn accept_gap(global: &Global, args: AcceptGap) -> Result<Exit, Error> {
    let window = Window::new(args.from, args.to)
        .ok_or_else(|| Error::usage("the gap is empty").hint("--to must be after --from"))?;
    let store = store::open(global).await?.store;
    let request = operations::GapRequest {
        project: global.project.clone(),
        provenance: args.provenance,
        endpoint: args.endpoint,
        operation: args.operation,
        cursor: args.cursor,
        window,
        reason: args.reason,
        by: args.by,
    };
    let accepted = operations::accept_gap(&*store, request).await?;
    let place = accepted.value.as_deref().unwrap_or("its start");
    let text = match accepted.existed {
        true => format!("cursor {} is past this window already: it stands at {place}", accepted.cursor),
        false => format!("cursor {} passes the gap and stands at {place}", accepted.cursor),
    };
    output::result(global.output, &text, &json!(accepted))?;
    Ok(Exit::Ok)
}

/// Checks that the work belongs to the project of the command.
async fn holdable(global: &Global, queries: &(impl Queries + ?Sized), what: &PauseTarget) -> Result<(), Error> {
    match what {
        PauseTarget::Source { .. } | PauseTarget::Endpoint { .. } => without_project(global),
        PauseTarget::Plan { id } => {
            store::check_project(global, queries, View::Plans, *id, &format!("plan {id}")).await
        }
        PauseTarget::Slice { id } => {
            store::check_project(global, queries, View::Slices, *id, &format!("slice {id}")).await
        }
        PauseTarget::Task { id } => {
            store::check_project(global, queries, View::Tasks, *id, &format!("task {id}")).await
        }
    }
}

/// Refuses `--project` for work that all projects share.
fn without_project(global: &Global) -> Result<(), Error> {
    match &global.project {
        None => Ok(()),
        Some(_) => Err(Error::usage("this affects all projects").hint("leave --project out")),
    }
}

fn subject(what: &PauseTarget) -> PauseSubject {
    let nothing = PauseSubject::default();
    match what {
        PauseTarget::Source { provenance } => PauseSubject::source(&normal(provenance)),
        PauseTarget::Endpoint { provenance, endpoint, operation } => {
            PauseSubject { operation: *operation, ..PauseSubject::endpoint(&normal(provenance), &normal(endpoint)) }
        }
        PauseTarget::Plan { id } => PauseSubject { plan: Some(PlanId(*id)), ..nothing },
        PauseTarget::Slice { id } => PauseSubject { slice: Some(SliceId(*id)), ..nothing },
        PauseTarget::Task { id } => PauseSubject { task: Some(TaskId(*id)), ..nothing },
    }
}

/// `source far endpoint records`.
fn in_words(subject: &PauseSubject) -> String {
    subject.to_text().replace('=', " ")
}

/// Codes are lower-case and trimmed.
fn normal(code: &str) -> String {
    code.trim().to_lowercase()
}

pub(crate) async fn cancel(global: &Global, args: &Cancel) -> Result<Exit, Error> {
    let (target, name) = match &args.target {
        CancelTarget::Job { id } => (CancelSubject::Job(id.clone()), format!("job {id}")),
        CancelTarget::Plan { id } => (CancelSubject::Plan(PlanId(*id)), format!("plan {id}")),
        CancelTarget::Slice { id } => (CancelSubject::Slice(SliceId(*id)), format!("slice {id}")),
        CancelTarget::Task { id } => (CancelSubject::Task(TaskId(*id)), format!("task {id}")),
    };
    let Author { reason, by } = args.author.clone();
    let store = store::open(global).await?.store;
    match &args.target {
        CancelTarget::Job { id } => store::check_project_of_job(global, &*store, id).await?,
        CancelTarget::Plan { id } => store::check_project(global, &*store, View::Plans, *id, &name).await?,
        CancelTarget::Slice { id } => store::check_project(global, &*store, View::Slices, *id, &name).await?,
        CancelTarget::Task { id } => store::check_project(global, &*store, View::Tasks, *id, &name).await?,
    }
    let done = store.run(tx::CancelWork { target, reason, by }).await?;
    if !done.found {
        let kind = name.split(' ').next().unwrap_or_default();
        return Err(
            Error::not_found(format!("there is no {name}")).hint(format!("`patra get {kind}s` shows what there is"))
        );
    }
    let tx::WorkCancelled { jobs, plans, slices, tasks, .. } = done;
    let text = match jobs + plans + slices + tasks {
        0 => format!("{name} has ended already: there is nothing to cancel"),
        _ => format!("{name} cancelled: {plans} plans, {slices} slices, {tasks} tasks"),
    };
    let value = json!({ "triggers": jobs, "plans": plans, "slices": slices, "tasks": tasks });
    output::result(global.output, &text, &value)?;
    Ok(Exit::Ok)
}

pub(crate) async fn signal(global: &Global, args: &Signal) -> Result<Exit, Error> {
    let store = store::open(global).await?.store;
    let Author { reason, by } = args.author.clone();
    let project = store::project(global, &*store).await?;
    let (provenance, endpoint) = (&args.provenance, &args.endpoint);
    let signal = operations::signal(&*store, &project, provenance, endpoint, args.ids.clone(), reason, by).await?;
    let done = store.run(signal).await?;
    let text = format!(
        "{} marked, {} marked before; `patra run {} {} --operation update --reason signals` fetches them",
        done.added, done.existing, args.provenance, args.endpoint
    );
    output::result(global.output, &text, &json!({ "added": done.added, "existing": done.existing }))?;
    Ok(Exit::Ok)
}

pub(crate) async fn quarantine(global: &Global, command: &Quarantine) -> Result<Exit, Error> {
    let Quarantine::Abandon { id, author } = command;
    let store = store::open(global).await?.store;
    store::check_project(global, &*store, View::Quarantine, *id, &format!("quarantined record {id}")).await?;
    let done = store.run(AbandonRecord { quarantine: *id, by: author.by.clone() }).await?;
    if !done.found {
        return Err(Error::not_found(format!("there is no quarantined record {id}"))
            .hint("`patra get quarantine` shows what there is"));
    }
    let text = if done.abandoned { "is given up" } else { "was settled already" };
    output::result(global.output, &format!("quarantined record {id} {text}"), &json!({ "abandoned": done.abandoned }))?;
    Ok(Exit::Ok)
}

pub(crate) async fn outbox(global: &Global, command: &Outbox) -> Result<Exit, Error> {
    let Outbox::Retry { id } = *command;
    let store = store::open(global).await?.store;
    if let Some(project) = &global.project {
        store::known_project(&*store, project).await?;
    }
    let Some(events) = operations::retry_events(&*store, global.project.as_deref(), id).await? else {
        return Err(Error::not_found("there is no such event").hint("`patra get outbox` lists the events"));
    };
    let text = match (id, events) {
        (Some(id), 0) => format!("event {id} has not failed: there is nothing to deliver again"),
        (None, 0) => "no event has failed: there is nothing to deliver again".to_owned(),
        (_, events) => format!("events to deliver again, by a `patra serve` with their webhook: {events}"),
    };
    output::result(global.output, &text, &json!({ "events": events }))?;
    Ok(Exit::Ok)
}

pub(crate) async fn archive(global: &Global, args: &Archive) -> Result<Exit, Error> {
    let store = store::open(global).await?.store;
    let done = operations::archive(&*store, &SystemClock, args.older_than).await?;
    let text = format!(
        "archived {} batches and {} cursor events; deleted {} stored responses and {} settled rows",
        done.batches, done.events, done.raw, done.settled
    );
    let value = json!({ "batches": done.batches, "events": done.events, "raw": done.raw, "settled": done.settled });
    output::result(global.output, &text, &value)?;
    Ok(Exit::Ok)
}

//! Handlers of the console's buttons. Each uses the same functions as the API route and the command.

use axum::Extension;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};

use patra_core::port::CommandsExt as _;
use patra_core::port::query::{Cell, View};
use patra_core::state::PauseKind;
use patra_core::tx::{
    AbandonRecord, CancelSubject, CancelWork, KeyScope, PauseSelector, PauseSubject, PauseWork, RedriveTarget,
    ResumeWork,
};
use patra_core::{Code, PauseId, PlanId, RunId, SliceId, TaskId};
use patra_engine::bundle::BundleRequest;
use patra_engine::operations;
use patra_engine::replay::{Agreement, ReplayReport, ReplayVerdict};

use super::context::{ConsoleContext, Done};
use super::details::BatchPath;
use super::lists::{self, batch_at, encoded, missing, number};
use super::page::{Code as Text, Note, Page, Shown, Table, Tone};
use crate::envelope::Failure;
use crate::key::random_hex;
use crate::routes::input::{PathText, path_text};
use crate::routes::replay::{self, Mode};
use crate::routes::{jobs, operations as routes};

/// Default reason of actions from the console.
const REASON: &str = "requested in the console";

/// Acts on a plan, a slice or a task: `/plans/7/pause`.
pub(super) async fn work(
    Extension(ctx): Extension<ConsoleContext>,
    path: Result<Path<(i64, String)>, PathRejection>,
    view: View,
) -> Response {
    ctx.done(worked(&ctx, path, view).await)
}

async fn worked(ctx: &ConsoleContext, path: Result<Path<(i64, String)>, PathRejection>, view: View) -> Done {
    let Path((id, action)) = path.map_err(|_| missing("there is no such work".to_owned()))?;
    // Work of other projects is not visible.
    lists::one(ctx, view, id).await?;
    let nothing = PauseSubject::default();
    let (subject, target) = match view {
        View::Plans => (PauseSubject { plan: Some(PlanId(id)), ..nothing }, CancelSubject::Plan(PlanId(id))),
        View::Slices => (PauseSubject { slice: Some(SliceId(id)), ..nothing }, CancelSubject::Slice(SliceId(id))),
        _ => (PauseSubject { task: Some(TaskId(id)), ..nothing }, CancelSubject::Task(TaskId(id))),
    };
    let (name, here) = (subject.to_text(), format!("/{}/{id}", view.as_str()));
    let (api, by) = (&ctx.api, ctx.by());
    match action.as_str() {
        "pause" => {
            ctx.tenant.is_operator()?;
            api.store.run(PauseWork { subject, kind: PauseKind::Pause, reason: REASON.to_owned(), by }).await?;
            Ok((Note::good(format!("{name} is paused.")), here))
        }
        "resume" => {
            ctx.tenant.is_operator()?;
            let resumed = api.store.run(ResumeWork { target: PauseSelector::On(subject), by }).await?.resumed;
            (api.nudge)();
            let note = match resumed {
                0 => Note::new(Tone::Warn, format!("{name} itself was not paused."))
                    .hint("/holds lists all pauses")
                    .to("/holds"),
                _ => Note::good(format!("{name} is resumed.")),
            };
            Ok((note, here))
        }
        "cancel" => {
            routes::end(api, CancelWork { target, reason: REASON.to_owned(), by }).await?;
            Ok((Note::good(format!("{name} is cancelled.")), here))
        }
        "redrive" if view == View::Tasks => redrive(ctx, RedriveTarget::Task(TaskId(id)), here).await,
        _ => Err(missing("there is no such action".to_owned())),
    }
}

async fn redrive(ctx: &ConsoleContext, what: RedriveTarget, here: String) -> Done {
    let id = random_hex::<8>()
        .map_err(|error| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, error.to_string()))?;
    let (_, data) = replay::drive_again(&ctx.api, what, &format!("redrive-{id}"), &ctx.by()).await?;
    Ok(match data["task"].as_i64() {
        Some(task) => (Note::good(format!("Task {task} is queued.")).to(format!("/tasks/{task}")), here),
        None => (Note::good("It was executed already: its result was read back."), here),
    })
}

pub(super) async fn cancel_job(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let done = async {
        let id = path_text(id)?;
        let (id, _) = jobs::named(&ctx.api, &ctx.tenant, &id).await?;
        let cancel = CancelWork { target: CancelSubject::Job(id.clone()), reason: REASON.to_owned(), by: ctx.by() };
        routes::end(&ctx.api, cancel).await?;
        Ok((Note::good(format!("Job {id} is cancelled.")), format!("/jobs/{}", encoded(&id))))
    };
    ctx.done(done.await)
}

pub(super) async fn resume(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let done = async {
        ctx.tenant.is_operator()?;
        let id = number(id)?;
        let resume = ResumeWork { target: PauseSelector::Id(PauseId(id)), by: ctx.by() };
        if ctx.api.store.run(resume).await?.resumed == 0 {
            return Err(missing("there is no such pause, or it has already ended".to_owned()));
        }
        (ctx.api.nudge)();
        Ok((Note::good(format!("Pause {id} has ended: work continues.")), "/holds".to_owned()))
    };
    ctx.done(done.await)
}

/// Fetches a quarantined record again, or gives it up.
pub(super) async fn quarantine(
    Extension(ctx): Extension<ConsoleContext>,
    path: Result<Path<(i64, String)>, PathRejection>,
) -> Response {
    let done = async {
        let Path((id, action)) = path.map_err(|_| missing("there is no such record".to_owned()))?;
        let (view, here) = (View::Quarantine, format!("/quarantine/{id}"));
        let row = lists::one(&ctx, view, id).await?;
        let text = |column| match view.cell(&row, column) {
            Some(Cell::Text(text)) => text,
            _ => String::new(),
        };
        let store = &ctx.api.store;
        match action.as_str() {
            "retry" => {
                let (provenance, endpoint, key) = (text("provenance_code"), text("endpoint_name"), text("dedup_key"));
                let (project, keys) = (text("project_key"), vec![key]);
                let signal =
                    operations::signal(&**store, &project, &provenance, &endpoint, keys, REASON.to_owned(), ctx.by());
                store.run(signal.await?).await?;
                (ctx.api.nudge)();
                Ok((Note::good("The next update of the endpoint fetches the record again."), here))
            }
            "abandon" => {
                store.run(AbandonRecord { quarantine: id, by: ctx.by() }).await?;
                Ok((Note::good("The record is given up."), here))
            }
            _ => Err(missing("there is no such action".to_owned())),
        }
    };
    ctx.done(done.await)
}

pub(super) async fn replay_batch(Extension(ctx): Extension<ConsoleContext>, path: BatchPath) -> Response {
    let page = async {
        let (run, no) = replay::batch(&ctx.api, &ctx.tenant, path).await?;
        let mode = if ctx.form.text("mode") == "live" { Mode::Live } else { Mode::Archive };
        let report = replay::report(&ctx.api, run, no, mode).await?;
        Ok(replayed(run, no, &report))
    };
    ctx.show(page.await)
}

fn replayed(run: RunId, no: u32, report: &ReplayReport) -> Page {
    let tone = match report.verdict {
        ReplayVerdict::Same => Tone::Good,
        ReplayVerdict::Different | ReplayVerdict::TimePointMismatch => Tone::Warn,
    };
    let mut table = Table::new("Comparison", &["value", "recorded", "now", "result"], "Nothing was compared.");
    for check in &report.checks {
        let cells = vec![
            Shown::text(check.what),
            Shown::code(check.recorded.as_str()),
            Shown::code(check.replayed.as_str()),
            Shown::text(check.result.as_str()),
        ];
        table.row(if check.result == Agreement::Different { Tone::Warn } else { Tone::Plain }, cells);
    }
    Page::new(format!("Replay of batch {no} of run {run}"))
        .under(format!("Batch {no} of run {run}"), batch_at(run.0, i64::from(no)))
        .with(Note::new(tone, report.verdict.as_str()).hint("A replay writes nothing."))
        .with(table)
        .with(Text::json("Report", &serde_json::to_value(report).unwrap_or_default()))
}

pub(super) async fn redrive_batch(Extension(ctx): Extension<ConsoleContext>, path: BatchPath) -> Response {
    let done = async {
        let (run, batch_no) = replay::batch(&ctx.api, &ctx.tenant, path).await?;
        redrive(&ctx, RedriveTarget::Batch { run, batch_no }, batch_at(run.0, i64::from(batch_no))).await
    };
    ctx.done(done.await)
}

pub(super) async fn export_bundle(Extension(ctx): Extension<ConsoleContext>, path: BatchPath) -> Response {
    let package = async {
        ctx.may(KeyScope::Admin)?;
        let (run, batch_no) = replay::batch(&ctx.api, &ctx.tenant, path).await?;
        let (by, reason) = (ctx.by(), ctx.form.text("reason"));
        let request = BundleRequest { run, batch_no, by: &by, reason, with_raw: ctx.form.is_ticked("with_raw") };
        Ok((format!("bundle-{run}-{batch_no}.json"), replay::package(&ctx.api, request).await?))
    };
    match package.await {
        Ok((file, package)) => {
            let headers = [
                (CONTENT_TYPE, "application/json".to_owned()),
                (CONTENT_DISPOSITION, format!("attachment; filename=\"{file}\"")),
            ];
            (headers, package.to_string()).into_response()
        }
        Err(failure) => ctx.show(Err(failure)),
    }
}

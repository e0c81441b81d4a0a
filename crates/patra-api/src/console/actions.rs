//! What the buttons do. Each does what its command does, through the same functions as the routes of the API.

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

use super::details::Place;
use super::lists::{self, batch_at, encoded, missing, number};
use super::page::{Code as Text, Note, Page, Shown, Table, Tone};
use super::visit::{Done, Visit};
use crate::envelope::Failure;
use crate::key::random_hex;
use crate::routes::input::{PathText, path_text};
use crate::routes::replay::{self, Mode};
use crate::routes::{jobs, operations as routes};

/// Why something was done, for want of a better word.
const REASON: &str = "asked for in the console";

/// `/plans/7/pause` and the like.
pub(super) async fn work(
    Extension(visit): Extension<Visit>,
    place: Result<Path<(i64, String)>, PathRejection>,
    view: View,
) -> Response {
    visit.done(worked(&visit, place, view).await)
}

async fn worked(visit: &Visit, place: Result<Path<(i64, String)>, PathRejection>, view: View) -> Done {
    let Path((id, action)) = place.map_err(|_| missing("there is no such work".to_owned()))?;
    // What is another project's is not there.
    lists::one(visit, view, id).await?;
    let nothing = PauseSubject::default();
    let (subject, target) = match view {
        View::Plans => (PauseSubject { plan: Some(PlanId(id)), ..nothing }, CancelSubject::Plan(PlanId(id))),
        View::Slices => (PauseSubject { slice: Some(SliceId(id)), ..nothing }, CancelSubject::Slice(SliceId(id))),
        _ => (PauseSubject { task: Some(TaskId(id)), ..nothing }, CancelSubject::Task(TaskId(id))),
    };
    let (name, here) = (subject.to_text(), format!("/{}/{id}", view.as_str()));
    let (api, by) = (&visit.api, visit.by());
    match action.as_str() {
        "pause" => {
            visit.tenant.is_operator()?;
            api.store.run(PauseWork { subject, kind: PauseKind::Pause, reason: REASON.to_owned(), by }).await?;
            Ok((Note::good(format!("{name} is paused.")), here))
        }
        "resume" => {
            visit.tenant.is_operator()?;
            let released = api.store.run(ResumeWork { target: PauseSelector::On(subject), by }).await?.resumed;
            (api.nudge)();
            let note = match released {
                0 => Note::new(Tone::Warn, format!("Nothing held {name} itself."))
                    .hint("/holds lists what is held")
                    .to("/holds"),
                _ => Note::good(format!("{name} goes on.")),
            };
            Ok((note, here))
        }
        "cancel" => {
            routes::end(api, CancelWork { target, reason: REASON.to_owned(), by }).await?;
            Ok((Note::good(format!("{name} is cancelled.")), here))
        }
        "redrive" if view == View::Tasks => driven(visit, RedriveTarget::Task(TaskId(id)), here).await,
        _ => Err(missing("there is nothing of that name to do".to_owned())),
    }
}

async fn driven(visit: &Visit, what: RedriveTarget, here: String) -> Done {
    let id = random_hex::<8>()
        .map_err(|error| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, error.to_string()))?;
    let (_, data) = replay::drive_again(&visit.api, what, &format!("redrive-{id}"), &visit.by()).await?;
    Ok(match data["task"].as_i64() {
        Some(task) => (Note::good(format!("Task {task} is queued.")).to(format!("/tasks/{task}")), here),
        None => (Note::good("It was executed already: its result was read back."), here),
    })
}

pub(super) async fn cancel_job(Extension(visit): Extension<Visit>, id: PathText) -> Response {
    let done = async {
        let id = path_text(id)?;
        let (id, _) = jobs::named(&visit.api, &visit.tenant, &id).await?;
        let cancel = CancelWork { target: CancelSubject::Job(id.clone()), reason: REASON.to_owned(), by: visit.by() };
        routes::end(&visit.api, cancel).await?;
        Ok((Note::good(format!("Job {id} is cancelled.")), format!("/jobs/{}", encoded(&id))))
    };
    visit.done(done.await)
}

pub(super) async fn release(Extension(visit): Extension<Visit>, id: PathText) -> Response {
    let done = async {
        visit.tenant.is_operator()?;
        let id = number(id)?;
        let release = ResumeWork { target: PauseSelector::Id(PauseId(id)), by: visit.by() };
        if visit.api.store.run(release).await?.resumed == 0 {
            return Err(missing("there is no such hold, or it was released before".to_owned()));
        }
        (visit.api.nudge)();
        Ok((Note::good(format!("Hold {id} is released: work goes on.")), "/holds".to_owned()))
    };
    visit.done(done.await)
}

/// A record that was set aside: fetched once more, or given up.
pub(super) async fn quarantine(
    Extension(visit): Extension<Visit>,
    place: Result<Path<(i64, String)>, PathRejection>,
) -> Response {
    let done = async {
        let Path((id, action)) = place.map_err(|_| missing("there is no such record".to_owned()))?;
        let (view, here) = (View::Quarantine, format!("/quarantine/{id}"));
        let row = lists::one(&visit, view, id).await?;
        let text = |column| match view.cell(&row, column) {
            Some(Cell::Text(text)) => text,
            _ => String::new(),
        };
        let store = &visit.api.store;
        match action.as_str() {
            "retry" => {
                let (provenance, endpoint, key) = (text("provenance_code"), text("endpoint_name"), text("dedup_key"));
                let (project, keys) = (text("project_key"), vec![key]);
                let signal =
                    operations::signal(&**store, &project, &provenance, &endpoint, keys, REASON.to_owned(), visit.by());
                store.run(signal.await?).await?;
                (visit.api.nudge)();
                Ok((Note::good("The next update of the endpoint fetches the record again."), here))
            }
            "abandon" => {
                store.run(AbandonRecord { quarantine: id, by: visit.by() }).await?;
                Ok((Note::good("The record is given up."), here))
            }
            _ => Err(missing("there is nothing of that name to do".to_owned())),
        }
    };
    visit.done(done.await)
}

pub(super) async fn replay_batch(Extension(visit): Extension<Visit>, place: Place) -> Response {
    let page = async {
        let (run, no) = replay::batch(&visit.api, &visit.tenant, place).await?;
        let mode = if visit.form.text("mode") == "live" { Mode::Live } else { Mode::Archive };
        let report = replay::report(&visit.api, run, no, mode).await?;
        Ok(replayed(run, no, &report))
    };
    visit.show(page.await)
}

fn replayed(run: RunId, no: u32, report: &ReplayReport) -> Page {
    let tone = match report.verdict {
        ReplayVerdict::Same => Tone::Good,
        ReplayVerdict::Different | ReplayVerdict::TimePointMismatch => Tone::Warn,
    };
    let mut table = Table::new("What was compared", &["what", "recorded", "now", "result"], "Nothing was compared.");
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

pub(super) async fn redrive_batch(Extension(visit): Extension<Visit>, place: Place) -> Response {
    let done = async {
        let (run, batch_no) = replay::batch(&visit.api, &visit.tenant, place).await?;
        driven(&visit, RedriveTarget::Batch { run, batch_no }, batch_at(run.0, i64::from(batch_no))).await
    };
    visit.done(done.await)
}

pub(super) async fn blackbox(Extension(visit): Extension<Visit>, place: Place) -> Response {
    let package = async {
        visit.may(KeyScope::Admin)?;
        let (run, batch_no) = replay::batch(&visit.api, &visit.tenant, place).await?;
        let (by, reason) = (visit.by(), visit.form.text("reason"));
        let wish = BundleRequest { run, batch_no, by: &by, reason, with_raw: visit.form.is_ticked("with_raw") };
        Ok((format!("blackbox-{run}-{batch_no}.json"), replay::package(&visit.api, wish).await?))
    };
    match package.await {
        Ok((file, package)) => {
            let headers = [
                (CONTENT_TYPE, "application/json".to_owned()),
                (CONTENT_DISPOSITION, format!("attachment; filename=\"{file}\"")),
            ];
            (headers, package.to_string()).into_response()
        }
        Err(failure) => visit.show(Err(failure)),
    }
}

//! Search by any id: whatever it is the id of.

use axum::Extension;
use axum::response::{IntoResponse as _, Redirect, Response};

use patra_core::port::query::{View, ViewFilter};
use patra_core::port::source::SourceFilter;

use super::lists::{encoded, name, shown};
use super::page::{Note, Page, Shown, Table, Tone};
use super::visit::Visit;
use crate::envelope::Failure;
use crate::routes::views;

/// Where a number may be the id of a row.
const NUMBERED: &[View] = &[
    View::Plans,
    View::Slices,
    View::Tasks,
    View::Runs,
    View::Batches,
    View::Cursors,
    View::Events,
    View::Items,
    View::Quarantine,
    View::Signals,
    View::Holds,
    View::Outbox,
];

pub(super) async fn search(Extension(visit): Extension<Visit>) -> Response {
    match found(&visit).await {
        // What can only be one thing is shown at once.
        Ok(found) if found.len() == 1 => Redirect::to(found[0].href.as_deref().unwrap_or("/")).into_response(),
        Ok(found) => visit.show(Ok(page(&visit, found))),
        Err(failure) => visit.show(Err(failure)),
    }
}

fn page(visit: &Visit, found: Vec<Shown>) -> Page {
    let sought = visit.query.text("q");
    let page = Page::new("Search");
    if found.is_empty() {
        let note = Note::new(Tone::Warn, format!("Nothing has the id {sought:?}."));
        return page.with(
            note.hint("Any id does: of a job, plan, slice, task, run, batch, cursor, item or source; or RUN/BATCH."),
        );
    }
    let mut table = Table::new(format!("What has the id {sought}"), &["what"], "");
    for hit in found {
        table.row(Tone::Plain, vec![hit]);
    }
    page.with(table)
}

async fn found(visit: &Visit) -> Result<Vec<Shown>, Failure> {
    let sought = visit.query.text("q");
    let mut hits = Vec::new();
    if sought.is_empty() || sought.contains('\0') {
        return Ok(hits);
    }
    if let Some((run, no)) =
        sought.split_once('/').and_then(|(run, no)| Some((run.parse::<i64>().ok()?, no.parse::<u32>().ok()?)))
        && visit.tenant.sees(&visit.api, View::Runs, run).await?
        && visit.api.store.evidence(patra_core::RunId(run), no).await?.is_some()
    {
        hits.push(Shown::text(format!("Batch {no} of run {run}")).to(format!("/runs/{run}/batches/{no}")));
    }
    if let Ok(id) = sought.parse::<i64>() {
        let project_key = visit.tenant.sight()?.map(str::to_owned);
        let filter = SourceFilter { project_key, ids: Some(vec![id]), ..SourceFilter::default() };
        for source in visit.api.store.sources(filter).await? {
            hits.push(Shown::text(format!("Source {id}: {}", source.name)).to(format!("/sources/{id}")));
        }
        for view in NUMBERED.iter().copied().filter(|view| view.owner().is_some() || visit.tenant.is_operator().is_ok())
        {
            let filter = ViewFilter { id: Some(id), limit: 1, ..ViewFilter::default() };
            let (rows, _) = views::found(&visit.api, &visit.tenant, view, filter).await?;
            hits.extend(
                rows.iter().filter_map(|row| Some(Shown::text(name(view, row)).to(shown(view, row, "id").href?))),
            );
        }
    }
    let progress = visit.api.store.progress(sought).await?;
    if progress.is_some_and(|progress| visit.tenant.is_seen(&progress.project_key)) {
        hits.push(Shown::text(format!("Job {sought}")).to(format!("/jobs/{}", encoded(sought))));
    }
    Ok(hits)
}

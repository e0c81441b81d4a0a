//! Search by the id of anything.

use axum::Extension;
use axum::response::{IntoResponse as _, Redirect, Response};

use patra_core::port::query::{View, ViewFilter};
use patra_core::port::source::SourceFilter;

use super::context::ConsoleContext;
use super::lists::{encoded, name, shown};
use super::page::{Note, Page, Shown, Table, Tone};
use crate::envelope::Failure;
use crate::routes::views;

/// Views to search for a numeric id.
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

pub(super) async fn search(Extension(ctx): Extension<ConsoleContext>) -> Response {
    match find_hits(&ctx).await {
        // A single hit is opened at once.
        Ok(hits) if hits.len() == 1 => Redirect::to(hits[0].href.as_deref().unwrap_or("/")).into_response(),
        Ok(hits) => ctx.show(Ok(page(&ctx, hits))),
        Err(failure) => ctx.show(Err(failure)),
    }
}

fn page(ctx: &ConsoleContext, hits: Vec<Shown>) -> Page {
    let sought = ctx.query.text("q");
    let page = Page::new("Search");
    if hits.is_empty() {
        let note = Note::new(Tone::Warn, format!("Nothing has the id {sought:?}."));
        return page.with(
            note.hint("Any id does: of a job, plan, slice, task, run, batch, cursor, item or source; or RUN/BATCH."),
        );
    }
    let mut table = Table::new(format!("What has the id {sought}"), &["what"], "");
    for hit in hits {
        table.row(Tone::Plain, vec![hit]);
    }
    page.with(table)
}

async fn find_hits(ctx: &ConsoleContext) -> Result<Vec<Shown>, Failure> {
    let sought = ctx.query.text("q");
    let mut hits = Vec::new();
    if sought.is_empty() || sought.contains('\0') {
        return Ok(hits);
    }
    if let Some((run, no)) =
        sought.split_once('/').and_then(|(run, no)| Some((run.parse::<i64>().ok()?, no.parse::<u32>().ok()?)))
        && ctx.store().evidence(patra_core::RunId(run), no).await?.is_some()
    {
        hits.push(Shown::text(format!("Batch {no} of run {run}")).to(format!("/runs/{run}/batches/{no}")));
    }
    if let Ok(id) = sought.parse::<i64>() {
        let filter = SourceFilter { ids: Some(vec![id]), ..SourceFilter::default() };
        for source in ctx.store().sources(filter).await? {
            hits.push(Shown::text(format!("Source {id}: {}", source.name)).to(format!("/sources/{id}")));
        }
        for view in NUMBERED.iter().copied().filter(|view| view.owner().is_some() || ctx.tenant.is_operator().is_ok()) {
            let filter = ViewFilter { id: Some(id), limit: 1, ..ViewFilter::default() };
            let (rows, _) = views::query(&ctx.api, &ctx.tenant, view, filter).await?;
            hits.extend(
                rows.iter().filter_map(|row| Some(Shown::text(name(view, row)).to(shown(view, row, "id").href?))),
            );
        }
    }
    if ctx.store().progress(sought).await?.is_some() {
        hits.push(Shown::text(format!("Job {sought}")).to(format!("/jobs/{}", encoded(sought))));
    }
    Ok(hits)
}

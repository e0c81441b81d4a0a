//! Cursors: the position of each namespace, its lag, and its steps.

use std::time::Duration;

use axum::Extension;
use axum::response::Response;

use patra_core::port::board::{CursorFilter, CursorStep, MAX_ROWS, Watermark, WorkFilter};
use patra_core::port::query::View;
use patra_core::{CursorId, Ts, Window};

use super::chart::{Series, chart};
use super::context::ConsoleContext;
use super::lists::{self, name, number, whole};
use super::overview::{self, LATE, span};
use super::page::{Drawings, Field, FieldKind, Form, Page, Shown, Table, Tone};
use crate::routes::input::PathText;

/// Period of late records and steps.
const LOOK_BACK: Duration = Duration::from_secs(7 * 86_400);

pub(super) async fn list(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        let (store, now) = (&ctx.api.store, ctx.api.clock.now());
        let provenance = ctx.query.get("provenance").filter(|code| !code.contains('\0')).map(str::to_owned);
        let project_key = ctx.tenant.sight()?.map(str::to_owned);
        let about = WorkFilter { project_key, provenance_code: provenance.clone(), ..WorkFilter::default() };
        let counts = store.counts(about.clone(), last(now)).await?;
        let head = ["cursor", "where", "namespace", "stands at", "lag", "late records", "moved"];
        let mut table = Table::new("", &head, "No cursor has moved yet.");
        for of in store.watermarks(CursorFilter { work: about, namespace: None, limit: MAX_ROWS }).await? {
            let late = counts.iter().find(|(counted, _)| *counted == of.partition);
            table.rows.push(table_row(&of, late.and_then(|(_, counts)| counts.rates(LOOK_BACK).late_ratio), now));
        }
        let form = Form {
            title: String::new(),
            method: "get",
            action: "/cursors".to_owned(),
            fields: vec![Field::new("provenance", "Provenance", provenance.unwrap_or_default(), FieldKind::Line)],
            button: "Filter".to_owned(),
            twin: "patra get timeline".to_owned(),
        };
        Ok(Page::new("Cursors and lag").live().with(form).with(table))
    };
    ctx.show(page.await)
}

fn table_row(of: &Watermark, late: Option<f64>, now: Ts) -> super::page::Row {
    let (id, lag) = (of.cursor.0, of.lag(now));
    let cells = vec![
        Shown::number(id).to(format!("/cursors/{id}")),
        Shown::text(overview::name(&of.partition)),
        Shown::text(of.namespace.as_str()),
        of.instant.map_or_else(|| Shown::text(of.value.as_deref().unwrap_or("–")), Shown::time),
        lag.map_or_else(|| Shown::text("–"), |lag| Shown::amount(span(lag.as_secs()))),
        late.map_or_else(|| Shown::text("–"), |ratio| Shown::amount(format!("{:.1} %", ratio * 100.0))),
        Shown::time(of.updated_at),
    ];
    let tone = if lag.is_some_and(|lag| lag > LATE) { Tone::Warn } else { Tone::Plain };
    super::page::Row { cells, tone, actions: Vec::new() }
}

pub(super) async fn show(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let (view, id) = (View::Cursors, number(id)?);
        let row = lists::one(&ctx, view, id).await?;
        let window = last(ctx.api.clock.now());
        let steps = ctx.api.store.advances(CursorId(id), window, MAX_ROWS).await?;
        let page = Page::new(name(view, &row)).under("Cursors", "/cursors").live();
        let page = page.with_all(behind(&steps, window)).with(taken(&steps));
        Ok(page.with_all(whole(view, &row)))
    };
    ctx.show(page.await)
}

fn last(now: Ts) -> Window {
    Window { from: now - LOOK_BACK, to: now + Duration::from_secs(60) }
}

/// The lag after each step, for a cursor that follows time.
fn behind(steps: &[CursorStep], window: Window) -> Option<Drawings> {
    let point = |step: &CursorStep| {
        let at: Ts = step.to.parse().ok()?;
        Some((step.created_at, step.created_at.since(at).as_secs_f64() / 3_600.0))
    };
    let points: Vec<_> = steps.iter().rev().filter_map(point).collect();
    let first = points.first().map(|(at, _)| *at)?;
    let window = Window { from: first.max(window.from) - Duration::from_secs(60), to: window.to };
    Some(Drawings(vec![chart("Lag after each step", "hours", window, &[Series { word: "lag", points }])]))
}

fn taken(steps: &[CursorStep]) -> Table {
    let head = ["event", "from", "to", "observed", "late", "run", "when"];
    let mut table = Table::new("Steps of the last week", &head, "It has not moved in the last week.");
    for step in steps {
        let text = |text: &Option<String>| Shown::text(text.as_deref().unwrap_or("–"));
        let run = match (step.run_id, step.batch_no) {
            (Some(run), Some(no)) => Shown::number(run.0).to(lists::batch_at(run.0, i64::from(no))),
            (Some(run), None) => Shown::number(run.0).to(format!("/runs/{}", run.0)),
            (None, _) => Shown::text("–"),
        };
        let cells = vec![
            Shown::number(step.id).to(format!("/cursor-events/{}", step.id)),
            text(&step.from),
            Shown::text(step.to.as_str()),
            text(&step.observed_max_value),
            Shown::number(step.late),
            run,
            Shown::time(step.created_at),
        ];
        table.row(Tone::Plain, cells);
    }
    table
}

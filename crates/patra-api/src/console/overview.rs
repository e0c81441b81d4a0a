//! The first page: failures, waiting work, current collection, throughput and lag.

use std::time::Duration;

use axum::Extension;
use axum::response::Response;

use patra_core::port::board::TopError;
use patra_core::tx::PartitionKey;
use patra_core::{Code, Level, Ts, Window};
use patra_engine::board::{self, LaggingCursor, Overview, OverviewPorts, QueueLine, Throughput};

use super::chart::{Series, chart, figure};
use super::context::ConsoleContext;
use super::lists::batch_at;
use super::page::{Block, Drawings, Note, Page, Shown, Table, Tile, Tiles, Tone};

/// A cursor with at least this lag is late (ING-14.8-02).
pub(super) const LATE: Duration = Duration::from_secs(1_800);

pub(super) async fn overview(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        let (store, clock) = (&*ctx.api.store, &*ctx.api.clock);
        let sight = OverviewPorts { boards: store, queries: store, crawls: store, clock };
        let project = ctx.tenant.sight()?.map(str::to_owned);
        Ok(shown(&board::overview(sight, project).await?))
    };
    ctx.show(page.await)
}

fn shown(overview: &Overview) -> Page {
    let mut page = Page::new("Overview").live().with(tiles(overview));
    for alert in &overview.alerts {
        let mut text = format!("{} fires: {} ({} of {})", alert.alert, alert.subject, alert.value, alert.threshold);
        if !alert.detail.is_empty() {
            text.push_str(&format!(": {}", alert.detail));
        }
        page = page.with(Note::new(Tone::Bad, text).to("/alerts"));
    }
    page.with(failing(&overview.errors))
        .with(waiting(&overview.queue))
        .with(active(&overview.queue))
        .with(charts(&overview.throughput))
        .with(lagging(&overview.lagging))
}

fn tiles(overview: &Overview) -> Tiles {
    let sum = |of: fn(&QueueLine) -> u64| overview.queue.iter().map(of).sum::<u64>();
    let (active, depth) = (sum(|line| line.active), sum(|line| line.depth));
    let errors: u64 = overview.errors.iter().map(|error| error.errors).sum();
    let counts = &overview.throughput.counts;
    let lag = overview.lagging.iter().map(|of| of.lag_seconds).max();
    let tile = |label: &str, value: String, note: &str, href: &str, tone| Tile {
        label: label.to_owned(),
        value,
        note: note.to_owned(),
        href: href.to_owned(),
        tone,
    };
    let late = lag.is_some_and(|secs| secs > LATE.as_secs());
    Tiles(vec![
        tile(
            "Failures",
            figure(errors as f64),
            "in the last hour",
            "#fails",
            if errors > 0 { Tone::Bad } else { Tone::Good },
        ),
        tile(
            "In progress",
            figure(active as f64),
            "tasks",
            "/tasks?status=EXECUTING",
            if active > 0 { Tone::Busy } else { Tone::Plain },
        ),
        tile("Waiting", figure(depth as f64), "tasks", "/tasks?status=QUEUED", Tone::Plain),
        tile("Batches", figure(counts.batches as f64), "in the last hour", "/batches", Tone::Plain),
        tile(
            "Records",
            figure((counts.inserted + counts.updated) as f64),
            "stored in the last hour",
            "/items",
            Tone::Plain,
        ),
        tile(
            "Largest lag",
            lag.map_or_else(|| "–".to_owned(), span),
            "behind the present",
            "/cursors",
            if late { Tone::Warn } else { Tone::Plain },
        ),
    ])
}

/// The most frequent errors; each links to its latest batch.
fn failing(errors: &[TopError]) -> Block {
    let head = ["level", "what happened", "where", "cause", "times", "last"];
    let mut table = Table::new("Failures", &head, "Nothing has failed in the last hour.");
    table.anchor = "fails";
    for error in errors {
        let run = error.run_id.0;
        let (place, href) = match error.batch_no {
            Some(no) => (format!("batch {no} of run {run}"), batch_at(run, i64::from(no))),
            None if run > 0 => (format!("run {run}"), format!("/runs/{run}")),
            None => (format!("task {}", error.task_id), format!("/tasks/{}", error.task_id)),
        };
        let tone = if error.level == Level::L1 { Tone::Warn } else { Tone::Bad };
        let cells = vec![
            Shown::status(error.level.as_str()),
            Shown::text(meaning(error.level, error.code)).to(href.as_str()),
            Shown::text(format!("{} · {place}", name(&error.partition))).to(href),
            Shown::text(error.message.as_str()),
            Shown::number(error.errors),
            Shown::time(error.last_at),
        ];
        table.row(tone, cells);
    }
    table.into()
}

/// Explains a level and a code in plain words.
fn meaning(level: Level, code: Code) -> &'static str {
    match (level, code) {
        (_, Code::RateLimited) => "The upstream asks for fewer requests",
        (_, Code::QuotaExhausted) => "The quota is used up",
        (_, Code::TimeoutError) => "The upstream does not respond in time",
        (_, Code::NetworkError) => "The upstream cannot be reached",
        (_, Code::UpstreamAuthFailed | Code::CookieInvalid | Code::CookieExhausted) => {
            "The upstream refuses our credential"
        }
        (_, Code::RobotsDisallowed) => "The site's robots.txt disallows the page",
        (_, Code::NotConfigured) => "A credential or a setting is missing",
        (Level::L1, _) => "The upstream failed; the request is retried",
        (Level::L2, Code::ParseError) => "The response cannot be read",
        (Level::L2, _) => "The upstream refuses the request",
        (Level::L3, _) => "Records cannot be used and are set aside",
        (Level::L4, _) => "The source is halted until you resume it",
    }
}

fn waiting(queue: &[QueueLine]) -> Block {
    let mut table = Table::new("Waiting work", &["where", "tasks", "why", "until"], "Nothing waits for anything.");
    for line in queue.iter().filter(|line| line.depth > 0) {
        let (why, until, tone) = match &line.waits {
            Some(wait) => (wait.why.as_str(), Shown::maybe_time(wait.until), Tone::Warn),
            None => ("for its turn", Shown::text("soon"), Tone::Plain),
        };
        let why = Shown::text(why);
        let why =
            if line.waits.as_ref().is_some_and(|wait| wait.why.starts_with("paused")) { why.to("/holds") } else { why };
        table.row(
            tone,
            vec![Shown::text(name(&line.of)).to(tasks_of(&line.of, "QUEUED")), Shown::number(line.depth), why, until],
        );
    }
    table.into()
}

fn active(queue: &[QueueLine]) -> Block {
    let head = [
        "where",
        "in progress",
        "waiting",
        "picked/s",
        "records/s",
        "requests/s",
        "success",
        "failure",
        "latency",
        "429",
    ];
    let nothing = "Nothing is in progress or waits, and nothing was done in the last ten minutes.";
    let mut table = Table::new("Current collection", &head, nothing);
    let or_dash = |text: Option<String>| Shown::amount(text.unwrap_or_else(|| "–".to_owned()));
    let percent = |ratio: Option<f64>| or_dash(ratio.map(|ratio| format!("{:.0} %", ratio * 100.0)));
    for line in queue {
        let rates = &line.rates;
        let cells = vec![
            Shown::text(name(&line.of)).to(tasks_of(&line.of, "EXECUTING")),
            Shown::number(line.active),
            Shown::number(line.depth),
            Shown::amount(figure(rates.pick_rate)),
            Shown::amount(figure(rates.item_rate)),
            Shown::amount(figure(rates.qps)),
            percent(rates.success_ratio),
            percent(rates.failure_ratio),
            or_dash(rates.avg_batch_latency_ms.map(|ms| format!("{ms:.0} ms"))),
            percent(rates.throttled_ratio),
        ];
        table.row(Tone::Plain, cells);
    }
    table.into()
}

fn charts(throughput: &Throughput) -> Drawings {
    let window = Window { from: throughput.from, to: throughput.to };
    let series =
        |word, of: fn(&patra_core::port::board::WorkCounts) -> u64| Series { word, points: filled(throughput, of) };
    Drawings(vec![
        chart("Records stored", "a minute", window, &[series("records", |counts| counts.inserted + counts.updated)]),
        chart(
            "Batches and failures",
            "a minute",
            window,
            &[
                series("batches", |counts| counts.batches),
                series("throttled", |counts| counts.throttled),
                series("failed", |counts| counts.batches_failed + counts.failed),
            ],
        ),
    ])
}

/// One point per step: a series omits steps without work, so they become zero.
fn filled(throughput: &Throughput, of: fn(&patra_core::port::board::WorkCounts) -> u64) -> Vec<(Ts, f64)> {
    let step = Duration::from_secs(60 * u64::from(throughput.step_minutes.max(1)));
    let (mut points, mut at) = (Vec::new(), throughput.from.floor_to(step));
    let mut steps = throughput.steps.iter().peekable();
    while at < throughput.to {
        let here = steps.next_if(|known| known.at <= at);
        points.push((at, here.map_or(0.0, |known| of(&known.counts) as f64)));
        at = at + step;
    }
    points
}

fn lagging(cursors: &[LaggingCursor]) -> Block {
    let mut table =
        Table::new("Lag", &["cursor", "where", "namespace", "stands at", "lag"], "No harvest has a cursor yet.");
    for cursor in cursors {
        let of = &cursor.watermark;
        let tone = if cursor.lag_seconds > LATE.as_secs() { Tone::Warn } else { Tone::Plain };
        let id = of.cursor.0;
        let cells = vec![
            Shown::number(id).to(format!("/cursors/{id}")),
            Shown::text(name(&of.partition)),
            Shown::text(of.namespace.as_str()),
            Shown::text(of.value.as_deref().unwrap_or("–")),
            Shown::amount(span(cursor.lag_seconds)),
        ];
        table.row(tone, cells);
    }
    table.into()
}

pub(super) fn name(of: &PartitionKey) -> String {
    format!("{} {} {}", of.provenance_code, of.endpoint_name, of.operation.as_str())
}

fn tasks_of(of: &PartitionKey, status: &str) -> String {
    format!(
        "/tasks?provenance={}&endpoint={}&status={status}",
        super::lists::encoded(&of.provenance_code),
        super::lists::encoded(&of.endpoint_name)
    )
}

/// A duration in the largest unit that it fills.
pub(super) fn span(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use patra_core::port::board::{SeriesStep, WorkCounts, WorkRates};
    use patra_core::state::Operation;
    use patra_core::{RunId, TaskId};
    use patra_engine::operations::WaitReason;

    use super::super::page::{Is, Row};
    use super::*;

    fn of() -> PartitionKey {
        PartitionKey { provenance_code: "shop".into(), endpoint_name: "orders".into(), operation: Operation::Harvest }
    }

    fn error(level: Level, code: Code, batch_no: Option<u32>) -> TopError {
        TopError {
            partition: of(),
            level,
            code,
            errors: 3,
            message: "the upstream returned 404".into(),
            last_at: Ts::from_secs(1_000),
            task_id: TaskId(5),
            run_id: RunId(7),
            batch_no,
        }
    }

    fn rows(block: Block) -> Vec<Row> {
        match block {
            Block::Table(table) => table.rows,
            other => panic!("{other:?} is no table"),
        }
    }

    // covers: ING-14.7-03, ING-14.9-07
    #[test]
    fn failure_links_to_its_latest_batch_and_explains_its_level() {
        for (level, code, words) in [
            (Level::L1, Code::NetworkError, "The upstream cannot be reached"),
            (Level::L2, Code::PlatformError, "The upstream refuses the request"),
            (Level::L3, Code::ValidationError, "Records cannot be used and are set aside"),
            (Level::L4, Code::UpstreamAuthFailed, "The upstream refuses our credential"),
        ] {
            let rows = rows(failing(&[error(level, code, Some(2))]));
            assert_eq!(rows[0].cells[0].text, level.as_str());
            assert!(matches!(rows[0].cells[0].is, Is::Status(_)));
            assert_eq!(rows[0].cells[1], Shown::text(words).to("/runs/7/batches/2"));
        }
        let rows = rows(failing(&[error(Level::L1, Code::TimeoutError, None)]));
        assert_eq!(rows[0].cells[1].href.as_deref(), Some("/runs/7"));
    }

    // covers: ING-14.7-02
    #[test]
    fn queue_shows_depth_wait_reason_and_rates() {
        let waits = Some(WaitReason { why: "paused (PAUSE): a person said so".into(), until: None });
        let rates = WorkRates {
            pick_rate: 0.5,
            success_ratio: Some(0.9),
            failure_ratio: Some(0.1),
            avg_batch_latency_ms: Some(120.0),
            throttled_ratio: Some(0.05),
            ..WorkRates::default()
        };
        let line = QueueLine { of: of(), depth: 4, due: 4, oldest_at: None, next_at: None, active: 2, rates, waits };
        let waiting = rows(waiting(std::slice::from_ref(&line)));
        assert_eq!(waiting[0].cells[2], Shown::text("paused (PAUSE): a person said so").to("/holds"));
        let texts: Vec<_> = rows(active(&[line]))[0].cells.iter().map(|cell| cell.text.clone()).collect();
        let expected = ["shop orders HARVEST", "2", "4", "0.5", "0", "0", "90 %", "10 %", "120 ms", "5 %"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn steps_without_work_are_zero() {
        let (from, minute) = (Ts::from_secs(600), Duration::from_secs(60));
        let counts = WorkCounts { batches: 9, ..WorkCounts::default() };
        let throughput = Throughput {
            from,
            to: from + minute * 4,
            step_minutes: 1,
            counts,
            rates: WorkRates::default(),
            steps: vec![SeriesStep { at: from + minute * 2, counts }],
        };
        let values: Vec<_> = filled(&throughput, |counts| counts.batches).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [0.0, 0.0, 9.0, 0.0]);
    }
}

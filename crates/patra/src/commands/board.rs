//! `get overview`, `queue`, `throughput`, `errors`, `timeline`, `budget` and `alerts`: the same as the routes under
//! `/api/v1/ops`.

use serde::Serialize;
use serde_json::{Value, json};

use patra_core::port::Clock as _;
use patra_core::port::board::CursorFilter;
use patra_core::{Ts, Window};
use patra_engine::board::{self, OverviewPorts};

use crate::cli::{Board, Global, Output, TimeRange};
use crate::clock::SystemClock;
use crate::error::Error;
use crate::store::ReadOnly;
use crate::{output, store};

const NO_ROWS: &str = "no rows in this time range";

pub(crate) async fn show(global: &Global, board: &Board) -> Result<(), Error> {
    let ReadOnly { queries, boards, crawls, .. } = &store::open_read_only(global).await?;
    match board {
        Board::Overview => {
            let sight =
                OverviewPorts { boards: &**boards, queries: &**queries, crawls: &**crawls, clock: &SystemClock };
            let overview = board::overview(sight, global.project.clone()).await?;
            output::result(global.output, &at_a_glance(&overview), &json!(overview))
        }
        Board::Queue(filter) => {
            let lines = board::queue(&**boards, &**queries, &SystemClock, filter.about(global)).await?;
            rows(global, &lines, "nothing is queued")
        }
        Board::Throughput { filter, range, step } => {
            let window = window(range)?;
            let minutes = step.unwrap_or_else(|| board::step_minutes(window, SystemClock.now()));
            let done = board::throughput(&**boards, filter.about(global), window, minutes).await?;
            if global.output == Output::Table { rows(global, &done.steps, NO_ROWS) } else { one(global, &done) }
        }
        Board::Errors { filter, range, level, limit } => {
            let errors = boards.errors(filter.about(global), *level, window(range)?, *limit).await?;
            rows(global, &errors, NO_ROWS)
        }
        Board::Timeline { filter, range, namespace, limit } => {
            let cursors = CursorFilter { work: filter.about(global), namespace: namespace.clone(), limit: *limit };
            let lines = board::timeline(&**boards, &SystemClock, cursors, window(range)?).await?;
            rows(global, &lines, NO_ROWS)
        }
        Board::Budget { filter, range } => {
            let lines =
                board::budget(&**boards, &**queries, &SystemClock, filter.about(global), window(range)?).await?;
            rows(global, &lines, NO_ROWS)
        }
        Board::Alerts if global.project.is_some() => {
            Err(Error::usage("alerts belong to no project").hint("leave --project out"))
        }
        Board::Alerts => rows(global, &crawls.alerts().await?, "no alerts"),
    }
}

fn window(range: &TimeRange) -> Result<Window, Error> {
    board::window(range.from, range.to, SystemClock.now()).map_err(|error| Error::usage(error.to_string()))
}

/// Prints rows, or `empty` when a table would have none.
fn rows<T: Serialize>(global: &Global, rows: &[T], empty: &str) -> Result<(), Error> {
    let rows: Vec<Value> = rows.iter().map(|row| json!(row)).collect();
    if global.output != Output::Table {
        return output::values(global.output, &rows);
    }
    if rows.is_empty() {
        return output::line(empty);
    }
    output::values(global.output, &rows.into_iter().map(for_people).collect::<Vec<_>>())
}

fn one<T: Serialize>(global: &Global, value: &T) -> Result<(), Error> {
    output::result(global.output, "", &json!(value))
}

/// Flattens a row for the table: inner objects become columns, lists become their length, numbers get two digits.
fn for_people(row: Value) -> Value {
    let Value::Object(members) = row else { return row };
    let mut shown = serde_json::Map::new();
    for (name, value) in members {
        match value {
            Value::Object(inner) if inner.contains_key("why") => {
                shown.insert(name, inner["why"].clone());
            }
            Value::Object(inner) => shown.extend(inner),
            Value::Array(list) => {
                shown.insert(name, list.len().into());
            }
            Value::Number(number) if number.is_f64() => {
                shown.insert(name, format!("{:.2}", number.as_f64().unwrap_or_default()).into());
            }
            other => {
                shown.insert(name, other);
            }
        }
    }
    shown.into()
}

fn at_a_glance(overview: &board::Overview) -> String {
    let done = &overview.throughput;
    let waiting: u64 = overview.queue.iter().map(|line| line.depth).sum();
    let active: u64 = overview.queue.iter().map(|line| line.active).sum();
    let mut lines = vec![
        format!("{active} tasks in progress, {waiting} queued"),
        format!(
            "last hour: {} batches, {} records stored, {} runs failed, {} responses with 429",
            done.counts.batches,
            done.counts.inserted + done.counts.updated,
            done.counts.failed,
            done.counts.throttled
        ),
    ];
    let name = |of: &patra_core::tx::PartitionKey| of.to_text();
    lines.extend(overview.queue.iter().filter_map(|line| {
        let waits = line.waits.as_ref()?;
        let until = waits.until.map_or_else(String::new, |at: Ts| format!(", until {}", at.to_short_text()));
        Some(format!("waits: {}: {}{until}", name(&line.of), waits.why))
    }));
    lines.extend(overview.errors.iter().map(|error| {
        let place = error.batch_no.map_or_else(String::new, |no| format!(" batch {no}"));
        format!(
            "failed: {}: {} {} × {}, last in run {}{place}: {}",
            name(&error.partition),
            error.level.label(),
            error.code,
            error.errors,
            error.run_id,
            error.message
        )
    }));
    let behind = |(of, lag): (String, String)| format!("behind: {of}: {lag}");
    let lagging = overview.lagging.iter();
    lines.extend(lagging.map(|one| (name(&one.watermark.partition), duration(one.lag_seconds))).map(behind));
    lines.extend(
        overview
            .alerts
            .iter()
            .map(|alert| format!("alert: {} {} {}", alert.alert, alert.subject, alert.detail).trim_end().to_owned()),
    );
    lines.join("\n")
}

/// Whole days, or hours or minutes of a shorter time.
fn duration(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_the_largest_fitting_unit() {
        let shown = [59, 60, 7_199, 7_200, 172_800, 90_191_677].map(duration);
        assert_eq!(shown, ["0 minutes", "1 minute", "119 minutes", "2 hours", "2 days", "1043 days"]);
    }
}

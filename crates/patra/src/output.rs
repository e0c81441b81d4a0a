//! Results on stdout: as a table, as JSON, or as one JSON object per line.

use std::io::{self, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use patra_core::port::query::{Cell, View, ViewRow};

use crate::cli::Output;
use crate::error::Error;

/// Prints rows of a view.
pub(crate) fn rows(format: Output, view: View, rows: &[ViewRow]) -> Result<(), Error> {
    match format {
        Output::Table => table(view, rows),
        // One row per line in both formats. Stored JSON is printed as it is, so that numbers keep their digits.
        Output::Json => {
            let rows: Vec<_> = rows.iter().map(|row| format!("  {}", view.to_json_text(row))).collect();
            line(&if rows.is_empty() { "[]".to_owned() } else { format!("[\n{}\n]", rows.join(",\n")) })
        }
        Output::Ndjson => rows.iter().try_for_each(|row| line(&view.to_json_text(row))),
    }
}

/// Prints one result: as text for the table format, otherwise as JSON.
pub(crate) fn result(format: Output, text: &str, value: &Value) -> Result<(), Error> {
    match format {
        Output::Table => line(text),
        Output::Json => json(value),
        Output::Ndjson => line(&value.to_string()),
    }
}

fn json(value: &Value) -> Result<(), Error> {
    line(&serde_json::to_string_pretty(value).unwrap_or_default())
}

pub(crate) fn line(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(())
}

/// Prints objects that have the same members, as a table or as JSON.
pub(crate) fn values(format: Output, rows: &[Value]) -> Result<(), Error> {
    match format {
        Output::Json => json(&Value::from(rows)),
        Output::Ndjson => rows.iter().try_for_each(|row| line(&row.to_string())),
        Output::Table => {
            let Some(first) = rows.first().and_then(Value::as_object) else { return Ok(()) };
            let names: Vec<&str> = first.keys().map(String::as_str).collect();
            let cell = |value: &Value| match value {
                Value::Null => String::new(),
                Value::String(text) => text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
                other => other.to_string(),
            };
            grid(&names, rows.iter().map(|row| names.iter().map(|name| cell(&row[*name])).collect()))
        }
    }
}

/// Prints a table.
pub(crate) fn grid(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Result<(), Error> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(headings);
    table.add_rows(rows);
    line(&table.to_string())
}

fn table(view: View, rows: &[ViewRow]) -> Result<(), Error> {
    // Empty columns would push the others off the screen.
    let used: Vec<_> = (0..view.columns().len()).filter(|at| rows.iter().any(|row| row[*at] != Cell::Null)).collect();
    if rows.is_empty() {
        let rows = match view {
            View::Quarantine => "quarantined records",
            View::Archive => "archived rows",
            View::Outbox => "events",
            _ => view.as_str(),
        };
        return line(&format!("no {rows}"));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(used.iter().map(|at| view.columns()[*at].name));
    for row in rows {
        table.add_row(used.iter().map(|at| short(&row[*at])));
    }
    line(&table.to_string())
}

fn short(cell: &Cell) -> String {
    const WIDEST: usize = 60;
    let text = match cell {
        Cell::Null => String::new(),
        Cell::Int(number) => number.to_string(),
        Cell::Time(at) => at.to_short_text(),
        Cell::Text(text) | Cell::Json(text) => text.clone(),
    };
    // Text from outside must not control the terminal.
    let text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().count() <= WIDEST {
        return text;
    }
    text.chars().take(WIDEST - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cannot_control_the_terminal() {
        assert_eq!(short(&Cell::Text("\u{1b}[31mred\nx".into())), "\u{fffd}[31mred\u{fffd}x");
    }
}

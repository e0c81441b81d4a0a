//! `/export?date=2024-01-01&format=csv|atom`: all records of one day (UTC), with an API key in `api_key` or in the
//! header `X-Api-Key`. There are no pages; a day without records is an empty export.

use std::fmt::Write;
use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;

use super::record;
use crate::content::{DataContent, DataError};
use crate::paging::ListRequest;
use crate::query::{BadParameter, Query};
use crate::time::{self, rfc3339};

const DAY_MICROS: i64 = 86_400_000_000;
const COLUMNS: [&str; 7] = ["id", "doi", "title", "type", "language", "cited_by_count", "updated_at"];

/// `key` is the value of the header.
pub(crate) fn export(listing: &ListRequest<'_>, query: &Query, key: Option<&str>) -> Result<DataContent, DataError> {
    if query.get("api_key").or(key) != Some(&listing.script.export_key) {
        return Err(DataError::new(403, "forbidden", "the API key is missing or wrong"));
    }
    let date = query.get("date").filter(|date| date.len() == 10).and_then(time::parse);
    let date = date.ok_or_else(|| BadParameter("date must be a day like 2024-01-01".to_owned()))?;
    let day = listing.dataset.range(date, date + DAY_MICROS);
    let records = day.clone().filter(|index| listing.is_visible(*index)).count();
    let (text, content_type) = match query.get("format") {
        None | Some("csv") => (csv(listing, day), "text/csv; charset=utf-8"),
        Some("atom") => (atom(listing, date, day), "application/atom+xml; charset=utf-8"),
        Some(other) => return Err(BadParameter(format!("format must be csv or atom, not {other:?}")).into()),
    };
    Ok(DataContent { content_type, ..DataContent::json(records, vec![Bytes::from(text)]) })
}

fn visible_records<'a>(listing: &'a ListRequest<'_>, day: Range<usize>) -> impl Iterator<Item = Value> + 'a {
    day.filter(|index| listing.is_visible(*index)).map(|index| record(listing.dataset, index))
}

/// A header line, then one line per record (RFC 4180).
fn csv(listing: &ListRequest<'_>, day: Range<usize>) -> String {
    let mut out = COLUMNS.join(",") + "\r\n";
    for record in visible_records(listing, day) {
        let cells: Vec<String> = COLUMNS.iter().map(|column| cell(&record[*column])).collect();
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
    out
}

/// Text is always quoted, numbers never: a reader must support both.
fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| format!("\"{}\"", text.replace('"', "\"\"")))
}

fn atom(listing: &ListRequest<'_>, date: i64, day: Range<usize>) -> String {
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n<title>Works</title>\n<id>urn:works:{date}</id>\n<updated>{}</updated>\n",
        rfc3339(date)
    );
    for record in visible_records(listing, day) {
        let text = |name: &str| escape(record[name].as_str().unwrap_or_default());
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<entry><id>urn:work:{}</id><title>{}</title><updated>{}</updated><link href=\"{}\"/><summary>{}</summary>",
            text("id"),
            text("title"),
            text("updated_at"),
            text("url"),
            text("abstract")
        );
        for author in record["authors"].as_array().into_iter().flatten() {
            let _ =
                write!(out, "<author><name>{}</name></author>", escape(author["name"].as_str().unwrap_or_default()));
        }
        out.push_str("</entry>\n");
    }
    out + "</feed>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

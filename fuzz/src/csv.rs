//! CSV responses. The first byte chooses how the endpoint declares its table. Rows that were read are written again as CSV
//! and must read the same.

use std::sync::LazyLock;

use ::csv::WriterBuilder;
use bytes::Bytes;
use serde_json::{Map, Value};

use patra_connectors::Pager;
use patra_core::protocol::run::FetchedPage;

use crate::{endpoint, repeated};

/// An endpoint, and its delimiter and quote where a table can be written again without a loss.
struct Form {
    pager: Pager,
    written: Option<(u8, u8)>,
}

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let form = |csv: &str, written| {
        let response = format!(
            "response: {{ format: csv, id_path: $.id, updated_at_path: $.at{csv} }}\nfields: {{ n: {{ path: $.n, type: integer }} }}"
        );
        Form { pager: endpoint::pager(&response), written }
    };
    vec![
        form("", Some((b',', b'"'))),
        form(", csv: { delimiter: \";\", quote: \"'\" }", Some((b';', b'\''))),
        form(", lenient: true", None),
        form(", csv: { delimiter: tab, quote: none, columns: [id, at, n] }", None),
        form(", csv: { columns: [id, at, n], header: true }", None),
    ]
});

pub fn check(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let form = &FORMS[usize::from(*choice) % FORMS.len()];
    let Ok(page) = endpoint::read(&form.pager, &Bytes::copy_from_slice(body)) else { return };
    // Every row has a line break or is the last one.
    let lines = body.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    assert!(usize::try_from(page.facts.items).is_ok_and(|items| items <= lines), "more rows than lines");
    let rows: Vec<_> = page.records.iter().map(|record| row(&record.payload)).collect();
    if let (Some((delimiter, quote)), Some(first)) = (form.written, rows.first()) {
        let names: Vec<_> = first.keys().cloned().collect();
        assert!(rows.iter().all(|row| row.keys().eq(&names)), "rows with other columns than the first");
        check_again(&form.pager, &page, &written(&rows, &names, delimiter, quote));
    }
}

fn row(payload: &str) -> Map<String, Value> {
    let row: Map<String, Value> = serde_json::from_str(payload).unwrap_or_else(|error| panic!("{error}: {payload}"));
    assert!(row.values().all(Value::is_string), "a value that is no text: {payload}");
    row
}

fn written(rows: &[Map<String, Value>], names: &[String], delimiter: u8, quote: u8) -> Vec<u8> {
    let mut writer = WriterBuilder::new().delimiter(delimiter).quote(quote).from_writer(Vec::new());
    let write = |writer: &mut ::csv::Writer<Vec<u8>>, record: Vec<&str>| {
        writer.write_record(record).unwrap_or_else(|error| panic!("{error}"));
    };
    write(&mut writer, names.iter().map(String::as_str).collect());
    for row in rows {
        write(&mut writer, row.values().map(|value| value.as_str().unwrap_or_default()).collect());
    }
    writer.into_inner().unwrap_or_else(|error| panic!("{error}"))
}

fn check_again(pager: &Pager, page: &FetchedPage, csv: &[u8]) {
    let shown = String::from_utf8_lossy(csv);
    let again = endpoint::read(pager, &Bytes::copy_from_slice(csv));
    let again = again.unwrap_or_else(|failure| panic!("{} in {shown}", failure.fault));
    let payloads =
        |page: &FetchedPage| -> Vec<Map<String, Value>> { page.records.iter().map(|one| row(&one.payload)).collect() };
    assert_eq!(payloads(&again), payloads(page), "{shown}");
}

pub fn hostile() -> Vec<Vec<u8>> {
    vec![
        repeated("\0", "x,", 60_000, ""),
        repeated("\0", ",", 700_000, ""),
        repeated("\x02id,at\n", ",", 700_000, "\n"),
        repeated(&format!("\0id,at,{}\n", "y".repeat(10_000)), "1,5,\n", 7_000, ""),
        repeated("\0id,at\n", "1,5\n", 250_001, ""),
        repeated("\x02id,at\n", "1,", 60_000, "\n"),
        repeated("\0id,at\n", "1,5\n", 10_000, ""),
        repeated("\0id,at\n\"", "\"\"", 20_000, ""),
        repeated("\0id,at\n", "\n", 50_000, ""),
        repeated("\0id,at,", &"y".repeat(2_000), 1, &format!("\n{}", "1,5,\n".repeat(500))),
    ]
}

//! CSV as JSON: a list of objects, one per row, every value a text.

use ::csv::{ReaderBuilder, StringRecord};

use patra_spec::snapshot::ResponseSpec;

const MAX_COLUMNS: usize = 1_024;

#[derive(Debug)]
pub(super) struct CsvProjection {
    delimiter: u8,
    /// `None`: quotes are ordinary characters.
    quote: Option<u8>,
    header: bool,
    columns: Vec<String>,
    lenient: bool,
}

impl CsvProjection {
    pub(super) fn new(response: &ResponseSpec) -> CsvProjection {
        let declared = response.csv.clone().unwrap_or_default();
        let byte = |text: &str| text.bytes().next();
        CsvProjection {
            delimiter: match declared.delimiter.as_deref() {
                Some("tab") => b'\t',
                other => other.and_then(byte).unwrap_or(b','),
            },
            quote: match declared.quote.as_deref() {
                Some("none") => None,
                other => Some(other.and_then(byte).unwrap_or(b'"')),
            },
            header: declared.header.unwrap_or(declared.columns.is_empty()),
            columns: declared.columns,
            lenient: response.lenient,
        }
    }

    pub(super) fn project(&self, text: &str) -> Result<String, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(self.delimiter);
        match self.quote {
            Some(quote) => builder.quote(quote),
            None => builder.quoting(false),
        };
        let mut rows = builder.from_reader(text.as_bytes());
        let mut row = StringRecord::new();
        let mut read = |row: &mut StringRecord| rows.read_record(row).map_err(|error| error.to_string());
        let mut columns = self.columns.clone();
        if self.header {
            if !read(&mut row)? {
                return Err("it has no header".into());
            }
            if columns.is_empty() {
                columns = names(&row)?;
            }
        }
        let keys: Vec<Vec<u8>> = columns.iter().map(|name| json(name)).collect();
        let mut out = b"[".to_vec();
        let mut number = 0;
        while read(&mut row)? {
            number += 1;
            if row.len() != keys.len() && !self.lenient {
                // The last row of a truncated response looks like this too.
                return Err(format!("row {number} has {} fields, not {}", row.len(), keys.len()));
            }
            if number > 1 {
                out.push(b',');
            }
            object(&keys, &row, &mut out)?;
        }
        out.push(b']');
        String::from_utf8(out).map_err(|error| error.to_string())
    }
}

fn names(header: &StringRecord) -> Result<Vec<String>, String> {
    if header.len() > MAX_COLUMNS {
        return Err(format!("it has {} columns, at most {MAX_COLUMNS} are read", header.len()));
    }
    let mut names: Vec<String> = Vec::with_capacity(header.len());
    for (at, name) in header.iter().enumerate() {
        let name = if name.trim().is_empty() { position(at) } else { name.trim().to_owned() };
        if names.contains(&name) {
            return Err(format!("its header names {name:?} twice"));
        }
        names.push(name);
    }
    Ok(names)
}

/// Fields beyond the columns are kept under their number; columns beyond the fields are left out.
fn object(keys: &[Vec<u8>], row: &StringRecord, out: &mut Vec<u8>) -> Result<(), String> {
    if row.len() > MAX_COLUMNS {
        return Err(format!("a row has {} fields, at most {MAX_COLUMNS} are read", row.len()));
    }
    out.push(b'{');
    for (at, field) in row.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match keys.get(at) {
            Some(key) => out.extend_from_slice(key),
            None => out.extend_from_slice(&json(&position(at))),
        }
        out.push(b':');
        out.extend_from_slice(&json(field));
    }
    out.push(b'}');
    Ok(())
}

/// The name of a field without a column.
fn position(at: usize) -> String {
    format!("#{}", at + 1)
}

fn json(text: &str) -> Vec<u8> {
    // A text can always be written as JSON.
    serde_json::to_vec(text).unwrap_or_default()
}

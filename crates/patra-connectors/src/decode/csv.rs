//! CSV as JSON: a list of objects, one per row, every value a text. A row is read into buffers whose size is bounded
//! before it is known how many fields it has.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use patra_spec::snapshot::ResponseSpec;

use super::memory::{MAX_PAGE_RECORDS, ProjectionError, as_json, grown};

/// Most columns of a table, and most fields of a row.
pub const MAX_COLUMNS: usize = 1_024;

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

    /// Bytes of the names in each row, about: those of the declared columns, or of the first line.
    pub(super) fn row_overhead(&self, body: &[u8]) -> usize {
        let declared = self.columns.iter().map(|name| name.len() + 4).sum::<usize>();
        let line = memchr::memchr2(b'\n', b'\r', body).unwrap_or(body.len());
        let fields = memchr::memchr_iter(self.delimiter, &body[..line]).count() + 1;
        let unnamed = if self.lenient { 12 * MAX_COLUMNS.min(fields) } else { 0 };
        if declared > 0 { declared + unnamed } else { 2 * line + 4 * fields + unnamed }
    }

    /// The table as JSON text of at most `limit` bytes.
    pub(super) fn project(&self, text: &str, limit: usize) -> Result<String, ProjectionError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if as_json(text.as_bytes()) > limit {
            return Err(grown(limit));
        }
        let mut rows = CsvRows::new(self, text.as_bytes());
        let mut columns = self.columns.clone();
        if self.header {
            if !rows.next()? {
                return Err("it has no header".into());
            }
            if columns.is_empty() {
                columns = names(&rows)?;
            }
        }
        let keys: Vec<Vec<u8>> = columns.iter().map(|name| json(name)).collect();
        let mut out = b"[".to_vec();
        let mut number = 0;
        while rows.next()? {
            number += 1;
            if number > MAX_PAGE_RECORDS {
                return Err(ProjectionError::TooLarge(format!(
                    "it has more than {MAX_PAGE_RECORDS} rows: ask for smaller pages"
                )));
            }
            if rows.len() != keys.len() && !self.lenient {
                // The last row of a truncated response looks like this too.
                return Err(format!("row {number} has {} fields, not {}", rows.len(), keys.len()).into());
            }
            if number > 1 {
                out.push(b',');
            }
            object(&keys, &rows, &mut out)?;
            if out.len() > limit {
                return Err(grown(limit));
            }
        }
        out.push(b']');
        String::from_utf8(out).map_err(|error| error.to_string().into())
    }
}

/// The rows of a table, one after the other.
struct CsvRows<'t> {
    reader: Reader,
    rest: &'t [u8],
    /// The texts of the current row's fields, and where each ends.
    texts: Vec<u8>,
    ends: Vec<usize>,
    fields: usize,
}

impl<'t> CsvRows<'t> {
    fn new(rules: &CsvProjection, text: &'t [u8]) -> CsvRows<'t> {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(rules.delimiter);
        match rules.quote {
            Some(quote) => builder.quote(quote),
            None => builder.quoting(false),
        };
        // One more than is allowed, so that too many fields differ from as many as are allowed.
        CsvRows {
            reader: builder.build(),
            rest: text,
            texts: vec![0; 1_024],
            ends: vec![0; MAX_COLUMNS + 1],
            fields: 0,
        }
    }

    /// Reads the next row; false at the end.
    fn next(&mut self) -> Result<bool, ProjectionError> {
        let mut filled = 0;
        self.fields = 0;
        loop {
            let (texts, ends) = (&mut self.texts[filled..], &mut self.ends[self.fields..]);
            let (result, read, written, ended) = self.reader.read_record(self.rest, texts, ends);
            self.rest = &self.rest[read..];
            filled += written;
            self.fields += ended;
            match result {
                // An empty rest means that nothing follows.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.texts.resize(2 * self.texts.len(), 0),
                ReadRecordResult::OutputEndsFull => return Err(too_wide()),
                ReadRecordResult::Record if self.fields > MAX_COLUMNS => return Err(too_wide()),
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
            }
        }
    }

    fn len(&self) -> usize {
        self.fields
    }

    /// The fields of the current row.
    fn fields(&self) -> impl Iterator<Item = Result<&str, ProjectionError>> {
        let mut from = 0;
        self.ends[..self.fields].iter().map(move |end| {
            let field = &self.texts[from..*end];
            from = *end;
            // A delimiter that is no ASCII may cut a character.
            std::str::from_utf8(field).map_err(|error| error.to_string().into())
        })
    }
}

fn too_wide() -> ProjectionError {
    ProjectionError::TooLarge(format!(
        "a row of the table has more than {MAX_COLUMNS} fields: check the delimiter, or ask for fewer columns"
    ))
}

fn names(header: &CsvRows<'_>) -> Result<Vec<String>, ProjectionError> {
    let mut names: Vec<String> = Vec::with_capacity(header.len());
    for (at, name) in header.fields().enumerate() {
        let name = name?.trim();
        let name = if name.is_empty() { position(at) } else { name.to_owned() };
        if names.contains(&name) {
            return Err(format!("its header names {name:?} twice").into());
        }
        names.push(name);
    }
    Ok(names)
}

/// Fields beyond the columns are kept under their number; columns beyond the fields are left out.
fn object(keys: &[Vec<u8>], row: &CsvRows<'_>, out: &mut Vec<u8>) -> Result<(), ProjectionError> {
    out.push(b'{');
    for (at, field) in row.fields().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match keys.get(at) {
            Some(key) => out.extend_from_slice(key),
            None => out.extend_from_slice(&json(&position(at))),
        }
        out.push(b':');
        // Writing to a text in memory does not fail.
        let _ = serde_json::to_writer(&mut *out, field?);
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

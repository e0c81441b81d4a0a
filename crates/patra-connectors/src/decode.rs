//! JSON answers: one pass over the body finds the items and what the page says about itself; one pass over each item
//! finds its key, its time and its mapped fields. Items stay the bytes that came.

mod walk;

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::value::RawValue;

use patra_core::hash::content_hash;
use patra_core::paging::Facts;
use patra_core::record::{MAX_KEY_BYTES, Record, Rejected, Version};
use patra_core::{Code, Fault, Level, Ts, Window};
use patra_spec::{Selector, Snapshot};

use walk::Wanted;

/// What to take from bodies of one endpoint.
#[derive(Debug)]
pub(crate) struct Decoder {
    body: Wanted,
    item: Wanted,
    items_path: String,
    id_path: String,
    updated_at_path: String,
    field_names: Vec<String>,
    /// Records outside the slice's window are dropped here because the far side does not filter (ING-4.4-14).
    filter: bool,
}

/// Places in the body's list of wanted values.
const ITEMS: usize = 0;
const TOKEN: usize = 1;
const URL: usize = 2;
const HAS_MORE: usize = 3;
const TOTAL: usize = 4;

/// Places in an item's list; fields follow.
const ID: usize = 0;
const UPDATED_AT: usize = 1;
const VERSION: usize = 2;
const FIELDS: usize = 3;

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) facts: Facts,
    pub(crate) records: Vec<Record>,
    pub(crate) rejected: Vec<Rejected>,
    pub(crate) content: [u8; 16],
}

impl Decoder {
    pub(crate) fn new(spec: &Snapshot) -> Result<Decoder, Fault> {
        let paging = spec.pagination.clone().unwrap_or_default();
        let response = &spec.response;
        let body = [
            Some(&response.items_path),
            paging.next_token_path.as_ref(),
            paging.next_url_path.as_ref(),
            response.has_more_path.as_ref(),
            response.total_path.as_ref(),
        ];
        let mut item = vec![Some(&response.id_path), response.updated_at_path.as_ref(), response.version_path.as_ref()];
        item.extend(spec.mapping.output_fields.iter().map(|field| Some(&field.expr)));
        Ok(Decoder {
            body: wanted(&body)?,
            item: wanted(&item)?,
            items_path: response.items_path.clone(),
            id_path: response.id_path.clone(),
            updated_at_path: response.updated_at_path.clone().unwrap_or_default(),
            field_names: spec.mapping.output_fields.iter().map(|field| json_text(&field.name)).collect(),
            filter: !spec.window.supports_updated_since,
        })
    }

    pub(crate) fn decode(&self, body: &Bytes, window: Window) -> Result<Decoded, Fault> {
        // A cut or garbled body is the network's fault until it has been so several times: level L1.
        let unreadable = |reason: String| Fault::new(Code::ParseError, Level::L1, format!("the answer is no JSON: {reason}"));
        let text = std::str::from_utf8(body).map_err(|error| unreadable(error.to_string()))?;
        let found = self.body.find(text).map_err(|error| unreadable(error.to_string()))?;
        let items = self.items(found[ITEMS])?;
        let mut decoded = Decoded {
            facts: Facts {
                items: u32::try_from(items.len()).unwrap_or(u32::MAX),
                has_more: found[HAS_MORE].and_then(|raw| serde_json::from_str(raw.get()).ok()),
                next_token: found[TOKEN].and_then(scalar).filter(|token| !token.is_empty()).map(Cow::into_owned),
                next_url: found[URL].and_then(scalar).filter(|url| !url.is_empty()).map(Cow::into_owned),
                total: found[TOTAL].and_then(scalar).and_then(|total| total.parse().ok()),
            },
            records: Vec::with_capacity(items.len()),
            rejected: Vec::new(),
            content: [0; 16],
        };
        let mut hashes = Vec::with_capacity(items.len() * 16);
        for (index, raw) in items.into_iter().enumerate() {
            let payload = body.slice_ref(raw.get().as_bytes());
            let hash = content_hash(&payload);
            hashes.extend_from_slice(&hash);
            match self.record(raw, payload, hash) {
                Ok(record) if self.filter && !window.contains(record.version.updated_at) => {}
                Ok(record) => decoded.records.push(record),
                Err(flaw) => decoded.rejected.push(flaw.reject(index, raw)),
            }
        }
        decoded.content = content_hash(&hashes);
        Ok(decoded)
    }

    fn items<'a>(&self, found: Option<&'a RawValue>) -> Result<Vec<&'a RawValue>, Fault> {
        let wrong = |what: &str| {
            Fault::new(Code::ParseError, Level::L2, format!("items_path {} finds {what} in the answer", self.items_path))
        };
        match found.map(RawValue::get) {
            None => Err(wrong("nothing")),
            // Some far sides write null where they mean an empty list.
            Some("null") => Ok(Vec::new()),
            Some(list) => serde_json::from_str(list).map_err(|_| wrong("something that is no list")),
        }
    }

    fn record(&self, raw: &RawValue, payload: Bytes, content_hash: [u8; 16]) -> Result<Record, Flaw> {
        let found = self.item.find(raw.get()).map_err(|error| Flaw::new(None, format!("unreadable: {error}")))?;
        let key = match found[ID].and_then(scalar) {
            None => return Err(Flaw::new(None, format!("id_path {} finds no text or number", self.id_path))),
            Some(key) if key.is_empty() => return Err(Flaw::new(None, format!("id_path {} finds an empty text", self.id_path))),
            Some(key) if key.len() > MAX_KEY_BYTES || key.contains('\0') => {
                let reason = format!("the id has {} bytes or a NUL; at most {MAX_KEY_BYTES} are kept", key.len());
                return Err(Flaw::new(None, reason));
            }
            Some(key) => key.into_owned(),
        };
        let Some(updated_at) = found[UPDATED_AT].and_then(scalar).and_then(|text| instant(&text)) else {
            return Err(Flaw::new(Some(key), format!("updated_at_path {} finds no time", self.updated_at_path)));
        };
        let source_version = found[VERSION].and_then(scalar).and_then(|text| text.parse().ok()).unwrap_or(0);
        let fields = self.fields(&found[FIELDS..]);
        Ok(Record { key, version: Version { updated_at, source_version }, fields, payload, content_hash })
    }

    /// The mapped fields as a JSON object, put together from the item's own bytes. What is missing or null is left out.
    fn fields(&self, found: &[Option<&RawValue>]) -> String {
        let mut out = String::new();
        for (name, raw) in self.field_names.iter().zip(found) {
            let Some(value) = raw.map(RawValue::get).filter(|value| *value != "null") else { continue };
            out.push(if out.is_empty() { '{' } else { ',' });
            // Writing to a string cannot fail.
            let _ = write!(out, "{name}:{value}");
        }
        if !out.is_empty() {
            out.push('}');
        }
        out
    }
}

/// Why an item is set aside.
struct Flaw {
    key: Option<String>,
    reason: String,
}

impl Flaw {
    fn new(key: Option<String>, reason: String) -> Flaw {
        Flaw { key, reason }
    }

    fn reject(self, index: usize, raw: &RawValue) -> Rejected {
        let text = raw.get();
        let cut = (0..=Rejected::MAX_SAMPLE.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        Rejected {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            key: self.key,
            code: Code::ValidationError,
            reason: self.reason,
            sample: text[..cut].to_owned(),
        }
    }
}

fn wanted(paths: &[Option<&String>]) -> Result<Wanted, Fault> {
    let mut parsed = Vec::with_capacity(paths.len());
    for path in paths {
        parsed.push(match path {
            None => None,
            Some(path) => Some(Selector::parse(path).map_err(|flaw| {
                Fault::new(Code::ConfigError, Level::L4, format!("the snapshot's path {path} is unreadable: {}", flaw.message))
            })?),
        });
    }
    Ok(Wanted::new(&parsed))
}

/// The text of a JSON string or number; nothing for null, booleans, lists and objects.
fn scalar(raw: &RawValue) -> Option<Cow<'_, str>> {
    match raw.get().as_bytes().first()? {
        b'"' => {
            let inner = &raw.get()[1..raw.get().len() - 1];
            if inner.contains('\\') { serde_json::from_str(raw.get()).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
        }
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(raw.get())),
        _ => None,
    }
}

/// RFC 3339, a date, or a number: seconds since 1970, or milliseconds when it is too large for seconds.
fn instant(text: &str) -> Option<Ts> {
    let Ok(number) = text.parse::<i64>() else { return text.parse().ok() };
    const MILLIS_FROM: i64 = 100_000_000_000;
    Some(if number.abs() >= MILLIS_FROM { Ts::from_micros(number.checked_mul(1_000)?) } else { Ts::from_secs(number) })
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;

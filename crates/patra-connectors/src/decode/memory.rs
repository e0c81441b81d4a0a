//! Limits of one page, and estimates of the memory that decoding it takes. An estimate may be too high, which only makes
//! pages wait for each other; the limits make sure that none is far too low.

use memchr::memchr_iter;

use patra_core::{Code, Fault, Level};

use super::BodyDecoder;
use crate::feed;
use crate::json_size::MAX_JSON_VALUES;
use crate::page::{MAX_NODES, MAX_PAGE_ATTRIBUTES};

/// Most records of one page; a page with more is refused as a whole.
pub const MAX_PAGE_RECORDS: usize = 250_000;

/// How many times `http.max_body_bytes` a body may take as JSON.
const MAX_GROWTH: usize = 4;

/// Bytes of a record in addition to its texts, with its place in the lists of its page.
const RECORD: usize = 272;
/// Bytes of a value in a tree of JSON.
const VALUE: usize = 90;
/// Bytes of an object in a tree of JSON.
const OBJECT: usize = 700;
/// Bytes of an element in the tree of a feed, with the entry that it may be.
const ELEMENT: usize = 500;
/// Bytes of a node and of an attribute in the tree of a page.
const NODE: usize = 280;
const ATTRIBUTE: usize = 56;

/// Why a body was not made JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProjectionError {
    /// It is not of its format, or was cut.
    Unreadable(String),
    /// It exceeds a limit, and will the next time.
    TooLarge(String),
}

impl From<String> for ProjectionError {
    fn from(reason: String) -> ProjectionError {
        ProjectionError::Unreadable(reason)
    }
}

impl From<&str> for ProjectionError {
    fn from(reason: &str) -> ProjectionError {
        ProjectionError::Unreadable(reason.to_owned())
    }
}

impl ProjectionError {
    pub(super) fn fault(self, format: &str) -> Fault {
        match self {
            ProjectionError::Unreadable(reason) => super::unreadable(format, reason),
            ProjectionError::TooLarge(reason) => too_large(&reason),
        }
    }
}

/// The fault of a page that exceeds a limit. Level L2: reading it again would give the same error.
pub(super) fn too_large(reason: &str) -> Fault {
    Fault::new(Code::ParseError, Level::L2, format!("the page is refused: {reason}"))
}

/// The fault of a page with too many records.
pub(super) fn too_many_records(records: usize) -> Fault {
    too_large(&format!(
        "it has {records} records, at most {MAX_PAGE_RECORDS} are read: set a smaller pagination.page_size, or cut the \
         window smaller"
    ))
}

/// Largest JSON text that a body of the endpoint may become.
pub(super) fn max_projected(max_body: u64) -> usize {
    usize::try_from(max_body).unwrap_or(usize::MAX).saturating_mul(MAX_GROWTH)
}

/// The error of a body that becomes larger than that.
pub(super) fn grown(limit: usize) -> ProjectionError {
    ProjectionError::TooLarge(format!(
        "as JSON it takes more than {limit} bytes, {MAX_GROWTH} times http.max_body_bytes: ask for smaller pages"
    ))
}

impl BodyDecoder {
    /// Bytes that decoding this body may take, in addition to the body.
    pub(super) fn cost(&self, body: &[u8], max_projected: usize) -> usize {
        let length = body.len();
        match self {
            BodyDecoder::Json { lenient } => {
                let repaired = if *lenient { as_json(body) } else { 0 };
                repaired + 2 * length + records(count(body, b',') + 1)
            }
            BodyDecoder::Xml(_) => 3 * as_json(body).min(max_projected) + records(count(body, b'<') / 2),
            BodyDecoder::Csv(csv) => {
                let rows = count(body, b'\n').max(count(body, b'\r')) + 1;
                let names = csv.row_overhead(body);
                let json = as_json(body).saturating_add(rows.saturating_mul(names)).min(max_projected);
                json + length + records(rows)
            }
            BodyDecoder::Feed(_) => feed_cost(body),
            // It may be a feed, or name one.
            BodyDecoder::Page(_) => feed_cost(body).max(page_cost(body)),
            BodyDecoder::Html(_) => page_cost(body) + 8 * length,
            BodyDecoder::Tweets => 3 * tree(body) + 2 * length,
        }
    }
}

fn count(body: &[u8], byte: u8) -> usize {
    memchr_iter(byte, body).count()
}

/// Bytes of so many records, up to the limit.
fn records(count: usize) -> usize {
    count.min(MAX_PAGE_RECORDS) * RECORD
}

/// Bytes of a body as JSON text at most, the names of columns not counted.
pub(super) fn as_json(body: &[u8]) -> usize {
    let controls = body.iter().filter(|byte| **byte < b' ' && !matches!(**byte, b'\t' | b'\n' | b'\r')).count();
    let spaces = body.iter().filter(|byte| matches!(**byte, b'\t' | b'\n' | b'\r')).count();
    2 * body.len() + 5 * controls + spaces + count(body, b'"') + count(body, b'\\')
}

fn tree(body: &[u8]) -> usize {
    let objects = count(body, b'{');
    let values = count(body, b',') + count(body, b'[') + objects;
    objects.min(MAX_JSON_VALUES / 16) * OBJECT + values.min(MAX_JSON_VALUES) * VALUE
}

/// A feed in any encoding, with its tree, its entries and their JSON.
fn feed_cost(body: &[u8]) -> usize {
    let elements = count(body, b'<').min(feed::MAX_ELEMENTS) * ELEMENT;
    let json = if body.trim_ascii_start().starts_with(b"{") { tree(body) } else { 0 };
    elements + json + feed::max_text_bytes(body.len()) + max_feed_json(body.len()) + in_utf8(body)
}

fn page_cost(body: &[u8]) -> usize {
    let nodes = (2 * count(body, b'<')).min(MAX_NODES) * NODE;
    let attributes = (body.len() / 2).min(MAX_PAGE_ATTRIBUTES) * ATTRIBUTE;
    nodes + attributes + 6 * body.len() + in_utf8(body)
}

/// Bytes of the copy of a body that is no UTF-8.
fn in_utf8(body: &[u8]) -> usize {
    if std::str::from_utf8(body).is_ok() { 0 } else { 4 * body.len() }
}

/// Largest JSON text of a feed, by the length of its body.
pub(super) fn max_feed_json(length: usize) -> usize {
    6 * length + (2 << 20)
}

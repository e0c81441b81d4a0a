//! Decodes responses to pages. Every format is read as JSON: one pass over the text finds the items and the facts of
//! the page, and one pass over each item finds its key, its time and its fields. Items of a JSON response keep their
//! original bytes; other formats are projected first.

mod cast;
mod condition;
mod csv;
mod errors;
mod item;
mod memory;
mod paths;
mod private;
mod repair;
mod scalar;
mod strip;
mod time;
mod tweets;
mod walk;
mod web;
mod xml;

use bytestring::ByteString;
use serde_json::value::RawValue;
use url::Url;

use patra_core::hash::{content_hash, id_hash};
use patra_core::paging::PageFacts;
use patra_core::port::transport::HttpResponse;
use patra_core::record::{DetailCandidate, Record, RejectedRecord};
use patra_core::tweet::compare_ids;
use patra_core::tx::SkipReasons;
use patra_core::{Code, Fault, Level, Window};
use patra_spec::{AbsentList, ResponseFormat, Snapshot};

use crate::classify::RefusedResponse;
use crate::feed::{IdentityRule, SharedIds};
pub use csv::MAX_COLUMNS;
use errors::BodyErrorRule;
pub(crate) use errors::StatusRules;
use item::ItemDecoder;
pub use memory::MAX_PAGE_RECORDS;
use memory::{max_projected, too_large, too_many_records};
use paths::SelectorList;
pub(crate) use scalar::said;
use scalar::{flag, text};
use walk::{ListValue, PathTree};
use web::WebDocument;

/// Decoder for the bodies of one endpoint.
#[derive(Debug)]
pub(crate) struct Decoder {
    source: BodyDecoder,
    body: PathTree,
    slots: PageSlots,
    errors: Vec<BodyErrorRule>,
    items: ItemDecoder,
    items_path: String,
    /// A response without the list is a page without records.
    absent_is_empty: bool,
    /// Records outside the slice's window are dropped here because the upstream does not filter (ING-4.4-14).
    outside: bool,
    /// The items are ids, and their content is elsewhere.
    ids: bool,
    /// An object in the place of the list is the one record that was asked for.
    single: bool,
    /// A record that the filter excludes is still in the list.
    notes_excluded: bool,
    /// Largest JSON text of a body.
    max_projected: usize,
}

/// The request of a page, as far as decoding needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageContext<'a> {
    /// URL of the response.
    pub(crate) url: &'a str,
    pub(crate) window: Window,
    /// Records up to this id, a whole number, are known.
    pub(crate) until: Option<&'a str>,
    /// Ids that several entries of the feed have had.
    pub(crate) shared_ids: &'a SharedIds,
}

impl PageContext<'_> {
    fn knows(&self, id: &str) -> bool {
        let order = self.until.and_then(|until| compare_ids(id, until));
        order.is_some_and(std::cmp::Ordering::is_le)
    }
}

/// Conversion of bytes to JSON.
#[derive(Debug)]
enum BodyDecoder {
    Json { lenient: bool },
    Xml(xml::XmlProjection),
    Csv(csv::CsvProjection),
    Feed(IdentityRule),
    Page(IdentityRule),
    Html(patra_spec::manifest::HtmlConfig),
    Tweets,
}

/// Indexes of a page's values among the extracted ones.
#[derive(Debug)]
struct PageSlots {
    items: usize,
    token: Option<usize>,
    url: Option<usize>,
    has_more: Option<usize>,
    total: Option<usize>,
}

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) facts: PageFacts,
    pub(crate) records: Vec<Record>,
    pub(crate) rejected: Vec<RejectedRecord>,
    /// Items that were left out, by reason.
    pub(crate) skipped: SkipReasons,
    /// Keys of the items that the filter excludes, where they matter.
    pub(crate) excluded: Vec<Option<String>>,
    /// Ids of a page without content.
    pub(crate) candidates: Vec<DetailCandidate>,
    pub(crate) content: [u8; 16],
    /// Warnings for the log.
    pub(crate) warnings: Vec<String>,
    /// Why the page is not the whole, if it is not: its end is missing.
    pub(crate) cut: Option<String>,
    pub(crate) shared_ids: SharedIds,
}

impl Decoded {
    /// A response that is the same as the last one.
    pub(crate) fn nothing() -> Decoded {
        let (records, rejected, candidates, warnings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (facts, skipped, cut, shared_ids) = (PageFacts::default(), SkipReasons::default(), None, SharedIds::new());
        let (excluded, content) = (Vec::new(), [0; 16]);
        Decoded { facts, records, rejected, skipped, excluded, candidates, content, warnings, cut, shared_ids }
    }
}

impl Decoder {
    /// Decoder for pages of ids. `version_path` finds a value that changes with the content behind an id.
    pub(crate) fn of_ids(spec: &Snapshot, version_path: Option<&str>) -> Result<Decoder, Fault> {
        Ok(Decoder { ids: true, items: ItemDecoder::of_ids(spec, version_path)?, ..Decoder::new(spec)? })
    }

    /// Decoder for content that was requested by id: it is kept whatever its time.
    pub(crate) fn of_details(spec: &Snapshot) -> Result<Decoder, Fault> {
        Ok(Decoder { outside: false, ..Decoder::build(spec, true)? })
    }

    /// Decoder for content that is not stored: a record needs no time.
    pub(crate) fn alone(spec: &Snapshot) -> Result<Decoder, Fault> {
        Ok(Decoder { items: ItemDecoder::new(spec)?.undated(), ..Decoder::of_details(spec)? })
    }

    pub(crate) fn new(spec: &Snapshot) -> Result<Decoder, Fault> {
        Decoder::build(spec, false)
    }

    fn build(spec: &Snapshot, single: bool) -> Result<Decoder, Fault> {
        let (response, paging) = (&spec.response, spec.pagination.clone().unwrap_or_default());
        let mut paths = SelectorList::default();
        let slots = PageSlots {
            items: paths.add(&response.items_path)?,
            token: paths.maybe(paging.next_token_path.as_deref())?,
            url: paths.maybe(paging.next_url_path.as_deref())?,
            has_more: paths.maybe(response.has_more_path.as_deref())?,
            total: paths.maybe(response.total_path.as_deref())?,
        };
        let passing = &spec.retry.retryable_codes;
        let hidden = response.errors.iter().filter(|rule| rule.status.is_empty());
        let errors = hidden.map(|rule| BodyErrorRule::new(rule, passing, &mut paths));
        let errors = errors.collect::<Result<_, _>>()?;
        Ok(Decoder {
            source: match response.format {
                ResponseFormat::Json => BodyDecoder::Json { lenient: response.lenient },
                ResponseFormat::Xml => BodyDecoder::Xml(xml::XmlProjection::new(response)?),
                ResponseFormat::Csv => BodyDecoder::Csv(csv::CsvProjection::new(response)),
                ResponseFormat::Feed => BodyDecoder::Feed(web::rule(&response.items_path)),
                ResponseFormat::Page => BodyDecoder::Page(web::rule(&response.items_path)),
                ResponseFormat::Html => BodyDecoder::Html(response.html.clone().unwrap_or_default()),
                ResponseFormat::Tweets => BodyDecoder::Tweets,
            },
            // A value that may be an object is not split on the way.
            body: if single { paths.wanted() } else { paths.wanted_with_list(slots.items) },
            slots,
            errors,
            items: ItemDecoder::new(spec)?,
            items_path: response.items_path.clone(),
            absent_is_empty: response.absent == AbsentList::Empty,
            outside: !spec.keeps_out_of_range(),
            ids: false,
            single,
            notes_excluded: spec.marks_missing(),
            max_projected: max_projected(spec.http.max_body_bytes),
        })
    }

    /// Bytes that decoding this body may take, in addition to the body.
    pub(crate) fn cost(&self, body: &[u8]) -> usize {
        self.source.cost(body, self.max_projected)
    }

    pub(crate) fn decode(&self, response: &HttpResponse, asked: &PageContext<'_>) -> Result<Decoded, RefusedResponse> {
        let (body, kind) = (&response.body, response.header("content-type"));
        let text = || ByteString::try_from(body.clone()).map_err(|error| unreadable("UTF-8", error));
        // Feeds and pages come in many encodings.
        let base = || base(response, asked.url);
        let web = |format, document: WebDocument| {
            let WebDocument { json, cut, shared_ids } = document;
            let json = ByteString::from(json);
            let (found, listed) = self.body.find_listed(&json).map_err(|error| unreadable(format, error))?;
            let decoded = self.page(&json, &found, listed, asked)?;
            Ok(Decoded { cut, shared_ids, ..decoded })
        };
        let (format, json): (&str, ByteString) = match &self.source {
            BodyDecoder::Json { lenient } => {
                let text = text()?;
                match (self.body.find_listed(&text), lenient) {
                    (Ok((found, listed)), _) => return self.page(&text, &found, listed, asked),
                    (Err(error), false) => return Err(unreadable("JSON", error).into()),
                    (Err(error), true) => {
                        ("JSON", repair::control_characters(&text).ok_or_else(|| unreadable("JSON", error))?.into())
                    }
                }
            }
            BodyDecoder::Xml(xml) => {
                let json = xml.project(&text()?, self.max_projected).map_err(|error| error.fault("XML"))?;
                ("XML", json.into())
            }
            BodyDecoder::Csv(csv) => {
                let json = csv.project(&text()?, self.max_projected).map_err(|error| error.fault("CSV"))?;
                ("CSV", json.into())
            }
            BodyDecoder::Feed(rule) => {
                return web("feed", web::of_feed(body, kind, &base()?, *rule, asked.shared_ids)?);
            }
            BodyDecoder::Page(rule) => {
                return web("page", web::of_page(body, kind, &base()?, *rule, asked.shared_ids)?);
            }
            BodyDecoder::Html(html) => ("page", web::of_rows(body, kind, &base()?, html, asked.window.to)?.into()),
            BodyDecoder::Tweets => return self.tweets(&text()?, asked),
        };
        let (found, listed) = self.body.find_listed(&json).map_err(|error| unreadable(format, error))?;
        self.page(&json, &found, listed, asked)
    }

    fn page<'a>(
        &self,
        body: &'a ByteString,
        found: &[Option<&'a RawValue>],
        listed: Option<ListValue<'a>>,
        asked: &PageContext<'_>,
    ) -> Result<Decoded, RefusedResponse> {
        if let Some(refused) = self.errors.iter().find_map(|rule| rule.refusal(found)) {
            return Err(refused);
        }
        let items = self.list(listed, found[self.slots.items])?;
        let window = asked.window;
        let mut decoded = Decoded { facts: self.facts(found, items.len())?, ..Decoded::nothing() };
        decoded.warnings.extend(self.total_warning(found, &decoded.facts));
        decoded.records.reserve(if self.ids { 0 } else { items.len() });
        let mut hashes = Vec::with_capacity(items.len() * 16);
        let mut found = Vec::new();
        let count = items.len();
        for (index, raw) in items.into_iter().enumerate() {
            check_rejected(&decoded.rejected, count)?;
            if asked.until.is_some() && self.items.id_of(raw, &mut found).is_some_and(|id| asked.knows(&id)) {
                decoded.facts.items = u32::try_from(index).unwrap_or(u32::MAX);
                decoded.facts.has_more = Some(false);
                break;
            }
            if self.ids {
                let hash = content_hash(raw.get().as_bytes());
                hashes.extend_from_slice(&hash);
                let id = match self.items.candidate(raw, window, &mut found) {
                    Ok(candidate) => {
                        decoded.skipped.filtered += u32::from(candidate.is_none());
                        decoded.candidates.extend(candidate);
                        self.items.id_of(raw, &mut found)
                    }
                    Err(flaw) => {
                        decoded.rejected.push(flaw.reject(index, raw));
                        None
                    }
                };
                decoded.facts.ids.push(id.map_or(hash, |id| id_hash(id.as_bytes())));
                continue;
            }
            let payload = self.items.payload(body, raw);
            let hash = content_hash(payload.as_bytes());
            hashes.extend_from_slice(&hash);
            let mut excluded = false;
            match self.items.record(raw, payload, hash, window, &mut found) {
                Ok(Some(record)) => {
                    decoded.facts.ids.push(id_hash(record.key.as_bytes()));
                    if self.outside && !window.contains(record.version.updated_at) {
                        decoded.skipped.out_of_window += 1;
                    } else {
                        decoded.records.push(record);
                    }
                    continue;
                }
                // Nothing is missing that came and was not wanted.
                Ok(None) => {
                    decoded.skipped.filtered += 1;
                    excluded = self.notes_excluded;
                    if self.single {
                        decoded.candidates.extend(self.items.id(&found));
                    }
                }
                Err(flaw) => decoded.rejected.push(flaw.reject(index, raw)),
            }
            let id = self.items.id_of(raw, &mut found);
            decoded.facts.ids.push(id.as_ref().map_or(hash, |id| id_hash(id.as_bytes())));
            if excluded {
                decoded.excluded.push(id);
            }
        }
        check_rejected(&decoded.rejected, count)?;
        decoded.content = content_hash(&hashes);
        Ok(decoded)
    }

    /// The facts of the page.
    fn facts(&self, found: &[Option<&RawValue>], items: usize) -> Result<PageFacts, RefusedResponse> {
        let at = |slot: Option<usize>| slot.and_then(|slot| found[slot]);
        Ok(PageFacts {
            items: u32::try_from(items).unwrap_or(u32::MAX),
            has_more: at(self.slots.has_more).and_then(flag),
            next_token: next(at(self.slots.token), "next_token_path")?,
            next_url: next(at(self.slots.url), "next_url_path")?,
            total: at(self.slots.total).and_then(text).and_then(|total| whole_number(&total)),
            ids: Vec::new(),
        })
    }

    /// A total that is no whole number is not known, and nothing can be compared with it.
    fn total_warning(&self, found: &[Option<&RawValue>], facts: &PageFacts) -> Option<String> {
        let raw = self.slots.total.and_then(|slot| found[slot]).filter(|raw| raw.get() != "null")?;
        let shown: String = raw.get().chars().take(40).collect();
        facts.total.is_none().then(|| format!("total_path finds {shown}, which is no number of records: it is ignored"))
    }

    /// A response without the list has another form: the upstream has changed (ING-12.1-04, G-11).
    fn list<'a>(&self, listed: Option<ListValue<'a>>, found: Option<&'a RawValue>) -> Result<Vec<&'a RawValue>, Fault> {
        let wrong = |what: &str| {
            Fault::new(
                Code::ParseError,
                Level::L4,
                format!("items_path {} finds {what} in the response", self.items_path),
            )
        };
        let listed = match (listed, found.map(RawValue::get)) {
            (Some(listed), _) => listed,
            (None, None) if self.absent_is_empty => return Ok(Vec::new()),
            (None, None) => {
                let mut fault = wrong("nothing");
                fault.message.push_str(" (if pages without records have no list, set response.absent: empty)");
                return Err(fault);
            }
            (None, Some("null")) => ListValue::Null,
            (None, Some(object)) if object.starts_with('{') => ListValue::Object,
            (None, Some(list)) => walk::listed(list).unwrap_or(ListValue::Other),
        };
        match listed {
            ListValue::List(items) => Ok(items),
            ListValue::TooLong(records) => Err(too_many_records(records)),
            // Some upstreams write null where they mean an empty list.
            ListValue::Null => Ok(Vec::new()),
            ListValue::Object if self.single => Ok(found.into_iter().collect()),
            ListValue::Object => Err(wrong("an object and no list (it must name the list within)")),
            ListValue::Other => Err(wrong("something that is no list")),
        }
    }
}

/// Refuses a page with too many records that cannot be stored: its format has changed, or the paths are wrong.
fn check_rejected(rejected: &[RejectedRecord], records: usize) -> Result<(), Fault> {
    if rejected.len() <= RejectedRecord::MAX_PER_PAGE {
        return Ok(());
    }
    let reason = rejected.first().map_or("", |first| first.reason.as_str());
    Err(too_large(&format!(
        "more than {} of its {records} records cannot be stored, so none is: fix the paths of the endpoint; the first \
         reason is: {reason}",
        RejectedRecord::MAX_PER_PAGE
    )))
}

/// A number of records: a whole number of any notation, and not negative.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let float = || text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
    text.parse().ok().or_else(|| float().map(|number| number as u64))
}

/// The next token or URL. Missing, null, false and empty mean that there is none. A list or an object means that the
/// path is wrong, and is an error: taking it for the end would lose the other pages.
fn next(found: Option<&RawValue>, path: &str) -> Result<Option<String>, RefusedResponse> {
    let Some(raw) = found.filter(|raw| !matches!(raw.get(), "null" | "false")) else { return Ok(None) };
    let wrong = |what: &str| {
        let fault = Fault::new(Code::ParseError, Level::L4, format!("{path} finds {what}"));
        Err(RefusedResponse { fault, throttled: false, retry_after: None })
    };
    match text(raw) {
        None => wrong("something that is neither text nor a number"),
        Some(text) if text.contains('\0') => wrong("a text with a NUL in it"),
        Some(text) => Ok(Some(text.into_owned()).filter(|text| !text.is_empty())),
    }
}

/// The address that relative ones in a feed or page are relative to: that of the response, or its `Content-Location`.
fn base(response: &HttpResponse, url: &str) -> Result<Url, Fault> {
    let base = Url::parse(url).map_err(|error| unreadable("page", error))?;
    let located = response.header("content-location").and_then(|written| base.join(written.trim()).ok());
    Ok(located.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()).unwrap_or(base))
}

/// A truncated or garbled body is a network fault until it has occurred several times: level L1.
fn unreadable(format: &str, reason: impl std::fmt::Display) -> Fault {
    Fault::new(Code::ParseError, Level::L1, format!("the response is no {format}: {reason}"))
}

#[cfg(test)]
#[path = "decode/tests/page.rs"]
mod tests;

//! Feeds and pages as JSON, for the paths of a manifest.

use serde::Serialize;
use serde_json::{Map, Value, json};
use url::Url;

use patra_core::record::MAX_KEY_BYTES;
use patra_core::{Code, Fault, Level, Ts, hash};
use patra_spec::manifest::HtmlConfig;

use super::memory::{max_feed_json, too_large};
use crate::feed::{self, Feed, FeedDate, FeedEntry, FeedTag, FeedText, IdentityRule, SharedIds};
use crate::page::{self, HtmlPageError, SelectField, SelectRules};

/// A feed or a page as JSON.
pub(super) struct WebDocument {
    pub(super) json: String,
    /// Why entries may be missing at the end.
    pub(super) cut: Option<String>,
    pub(super) shared_ids: SharedIds,
}

impl WebDocument {
    fn of_feed(
        feed: Feed,
        base: &Url,
        rule: IdentityRule,
        known: &SharedIds,
        length: usize,
    ) -> Result<WebDocument, Fault> {
        let shared_ids = feed::shared_ids(&feed, known.clone());
        let keys = feed::keys(&feed, rule, &shared_ids);
        let cut = feed.truncated.then(|| "the response ends inside the feed: entries may be missing".to_owned());
        Ok(WebDocument { json: feed_json(feed, base, rule, keys, max_feed_json(length))?, cut, shared_ids })
    }

    fn of_page(json: &Value) -> WebDocument {
        WebDocument { json: json.to_string(), cut: None, shared_ids: SharedIds::new() }
    }
}

/// A feed as JSON: its own fields, and its entries with a key each.
pub(super) fn of_feed(
    body: &[u8],
    content_type: Option<&str>,
    base: &Url,
    rule: IdentityRule,
    known: &SharedIds,
) -> Result<WebDocument, Fault> {
    let feed = feed::read(body, content_type, base).map_err(|error| unreadable(&error))?;
    WebDocument::of_feed(feed, base, rule, known, body.len())
}

/// A page as JSON: its feed, the feed that it names, or itself as the only entry.
pub(super) fn of_page(
    body: &[u8],
    content_type: Option<&str>,
    base: &Url,
    rule: IdentityRule,
    known: &SharedIds,
) -> Result<WebDocument, Fault> {
    let html = feed::decode(body, content_type);
    let named = match feed::read(body, content_type, base) {
        Ok(feed) => return WebDocument::of_feed(feed, base, rule, known, body.len()),
        Err(feed::FeedError::Page { feed }) => feed,
        // A page that does not start like one.
        Err(feed::FeedError::NotAFeed { .. }) => {
            let feeds = page::feeds(&html, base).map_err(|error| refused(&error))?;
            feeds.into_iter().find(|feed| feed.declared).map(|feed| feed.href)
        }
        Err(error) => return Err(unreadable(&error)),
    };
    if let Some(next) = named {
        return Ok(WebDocument::of_page(&json!({ entries(rule): [], "next_url": next, "has_more": true })));
    }
    let page = page::article(&html, base).map_err(|error| refused(&error))?;
    let entry = json!({
        // A page with another text is another entry.
        "key": format!("{base}#{}", page.hash),
        "title": page.title,
        "url": page.url,
        "author": page.author,
        "content": page.text,
        "summary": page.description,
        "published": page.published.and_then(|date| date.at),
        "image": page.image,
    });
    let whole = json!({ "feed": { "title": entry["title"], "link": entry["url"] }, entries(rule): [entry] });
    Ok(WebDocument::of_page(&whole))
}

/// Rows of a page as JSON.
pub(super) fn of_rows(
    body: &[u8],
    content_type: Option<&str>,
    base: &Url,
    html: &HtmlConfig,
    now: Ts,
) -> Result<String, Fault> {
    let text = feed::decode(body, content_type);
    let rules = rules(html);
    match page::select(&text, base, &rules) {
        Ok(mut rows) => {
            // A row has no time of its own.
            let day = now.to_micros_text()[..10].to_owned();
            rows.iter_mut().for_each(|row| drop(row.insert("observed_on".to_owned(), day.clone().into())));
            Ok(json!(rows).to_string())
        }
        Err(HtmlPageError::NoRows { .. }) if html.empty_text.as_ref().is_some_and(|none| text.contains(none)) => {
            Ok("[]".to_owned())
        }
        Err(error) => Err(refused(&error)),
    }
}

/// `selector @attribute []`: each part may be missing.
fn rules(html: &HtmlConfig) -> SelectRules {
    let field = |text: &str| {
        let (text, many) = match text.trim().strip_suffix("[]") {
            Some(one) => (one.trim(), true),
            None => (text.trim(), false),
        };
        let (selector, attr) = match text.rsplit_once('@') {
            Some((selector, attr)) => (selector.trim(), Some(attr.trim().to_owned())),
            None => (text, None),
        };
        SelectField { selector: Some(selector.to_owned()).filter(|text| !text.is_empty()), attr, many, required: false }
    };
    SelectRules {
        item: html.rows.clone().unwrap_or_default(),
        fields: html.fields.iter().map(|(name, text)| (name.clone(), field(text))).collect(),
    }
}

/// Path of the entries by their identity rule. Only the list of the requested rule is present.
const ENTRIES: [(IdentityRule, &str); 4] = [
    (IdentityRule::Guid, "entries"),
    (IdentityRule::Link, "entries_by_link"),
    (IdentityRule::LinkTitle, "entries_by_link_title"),
    (IdentityRule::Content, "entries_by_content"),
];

fn entries(rule: IdentityRule) -> &'static str {
    ENTRIES.iter().find(|(one, _)| *one == rule).map_or("entries", |(_, name)| name)
}

/// Identity rule of the entries, by the path that reads them.
pub(super) fn rule(items_path: &str) -> IdentityRule {
    let name = items_path.trim().trim_start_matches('$').trim_start_matches('.');
    ENTRIES.iter().find(|(_, one)| *one == name).map_or_else(IdentityRule::default, |(rule, _)| *rule)
}

/// A feed as JSON text of at most `limit` bytes. It is written entry by entry, and each entry is dropped then: a tree of
/// the whole would take several times the memory.
fn feed_json(feed: Feed, base: &Url, rule: IdentityRule, keys: Vec<String>, limit: usize) -> Result<String, Fault> {
    let head = json!({
        "title": feed.title,
        "link": feed.link,
        "subtitle": feed.subtitle,
        "language": feed.language,
        "updated": feed.updated.as_ref().and_then(|date| date.at),
        "ttl_minutes": feed.ttl_minutes,
    });
    let whole = whole_feed_json(&feed, base);
    let mut out = JsonWriter::default();
    out.begin(entries(rule));
    out.text.push(b'[');
    for (entry, key) in feed.entries.into_iter().zip(keys) {
        if out.text.last() != Some(&b'[') {
            out.text.push(b',');
        }
        out.text = entry_json(&entry, key, std::mem::take(&mut out.text));
        if out.text.len() > limit {
            return Err(too_large(&format!("as JSON its entries take more than {limit} bytes")));
        }
    }
    out.text.push(b']');
    out.put("feed", &head);
    out.put("feeds", &[whole]);
    String::from_utf8(out.end()).map_err(|error| super::unreadable("feed", error))
}

/// An object that is written member by member, in the order of their names.
#[derive(Default)]
struct JsonWriter {
    text: Vec<u8>,
    members: usize,
}

impl JsonWriter {
    /// Begins an object at the end of a text.
    fn after(text: Vec<u8>) -> JsonWriter {
        JsonWriter { text, members: 0 }
    }

    /// Begins a member.
    fn begin(&mut self, name: &str) {
        self.text.push(if self.members == 0 { b'{' } else { b',' });
        self.members += 1;
        self.write(name);
        self.text.push(b':');
    }

    fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.begin(name);
        self.write(value);
    }

    fn put_some(&mut self, name: &str, value: Option<&(impl Serialize + ?Sized)>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn write(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing to a text in memory does not fail.
        let _ = serde_json::to_writer(&mut self.text, value);
    }

    fn end(mut self) -> Vec<u8> {
        if self.members == 0 {
            self.text.push(b'{');
        }
        self.text.push(b'}');
        self.text
    }
}

/// The feed itself as a record: `items_path: $.feeds`. The key is the address that its links are relative to.
fn whole_feed_json(feed: &Feed, base: &Url) -> Value {
    let mut json = JsonObject::default();
    json.put("key", base.as_str().into());
    json.put("id", json!(feed.id));
    json.put("title", json!(feed.title));
    json.put("url", json!(feed.link));
    json.put("summary", json!(feed.subtitle));
    json.put("author", json!(feed.author));
    json.put("language", json!(feed.language));
    json.put("rights", json!(feed.rights));
    json.put("published", time(feed.published.as_ref()));
    json.put("updated", time(feed.updated.as_ref()));
    json.put_tags(&feed.tags);
    json.put("image", json!(feed.icon));
    json.0.into()
}

fn time(date: Option<&FeedDate>) -> Value {
    json!(date.and_then(|date| date.at))
}

/// An object without absent values.
#[derive(Default)]
struct JsonObject(Map<String, Value>);

impl JsonObject {
    fn put(&mut self, name: &str, value: Value) {
        if !value.is_null() && value != json!([]) {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// The names of tags; and their schemes and labels, where they have any.
    fn put_tags(&mut self, tags: &[FeedTag]) {
        let names: Vec<_> = tags.iter().filter_map(|tag| tag.term.as_deref().or(tag.label.as_deref())).collect();
        self.put("tags", json!(names));
        if tags.iter().any(|tag| tag.scheme.is_some() || tag.label.is_some()) {
            let whole = |tag: &FeedTag| {
                let mut json = JsonObject::default();
                json.put("term", json!(tag.term));
                json.put("scheme", json!(tag.scheme));
                json.put("label", json!(tag.label));
                Value::from(json.0)
            };
            self.put("categories", tags.iter().map(whole).collect());
        }
    }
}

/// Appends an entry to the text.
fn entry_json(entry: &FeedEntry, key: String, text: Vec<u8>) -> Vec<u8> {
    let key = if key.len() > MAX_KEY_BYTES { hash::digest(&["entry", &key]) } else { key };
    let content = entry.content.first().or(entry.summary.as_ref());
    let mut tags = JsonObject::default();
    tags.put_tags(&entry.tags);
    let mut json = JsonWriter::after(text);
    json.put_some("author", entry.author.as_ref());
    json.put_some("categories", tags.0.get("categories"));
    json.put_some("comments", entry.comments.as_ref());
    json.put_some("content", content.map(FeedText::to_html).as_ref());
    if !entry.enclosures.is_empty() {
        // As a tree, whose members are in the order of their names.
        json.put("enclosures", &json!(entry.enclosures));
    }
    json.put_some("id", entry.id.as_ref());
    json.put_some("image", entry.image.as_ref());
    json.put("key", &key);
    json.put_some("language", entry.language.as_ref());
    json.put_some("published", entry.date().and_then(|date| date.at).as_ref());
    json.put_some("rights", entry.rights.as_ref());
    json.put_some("summary", entry.summary.as_ref().map(FeedText::to_html).as_ref());
    json.put_some("tags", tags.0.get("tags"));
    json.put_some("title", entry.title.as_ref());
    json.put_some("updated", entry.changed().and_then(|date| date.at).as_ref());
    json.put_some("url", entry.link.as_ref());
    json.end()
}

/// Level L2: reading the same bytes again would give the same error. A response that was cut may be whole the next time.
fn unreadable(error: &feed::FeedError) -> Fault {
    let level = if *error == feed::FeedError::Cut { Level::L1 } else { Level::L2 };
    Fault::new(Code::ParseError, level, error.to_string())
}

fn refused(error: &HtmlPageError) -> Fault {
    Fault::new(Code::ParseError, Level::L2, error.to_string())
}

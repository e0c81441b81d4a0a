//! JSON Feed 1.0 and 1.1.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use super::date::FeedDate;
use super::links::absolute;
use super::text::{FeedText, guessed_label};
use super::xml::add_tag;
use super::{Enclosure, Feed, FeedEntry, FeedError, FeedLimit, FeedTag, MAX_ENTRIES};

/// Deepest nesting of lists and objects.
pub(super) const MAX_DEPTH: usize = 127;

pub(super) fn read(text: &str, base: &Url) -> Result<Feed, FeedError> {
    let members: BTreeMap<String, &RawValue> = if text.starts_with('{') {
        parse(text)?
    } else {
        return Err(FeedError::JsonShape { reason: "it is a list, not an object".to_owned() });
    };
    let head = JsonFeedHead { members: &members };
    let version = head.text("version")?.unwrap_or_default();
    let Some(items) = members.get("items") else {
        let reason = "it has no list `items`; for another API, say where its items are with a custom_api source";
        return Err(FeedError::JsonShape { reason: reason.to_owned() });
    };
    if !version.contains("jsonfeed") && !members.contains_key("title") {
        let reason = "its `version` does not name jsonfeed.org, and it has no title".to_owned();
        return Err(FeedError::JsonShape { reason });
    }
    let items: Vec<&RawValue> = parse(items.get())?;
    if items.len() > MAX_ENTRIES {
        return Err(FeedLimit::Entries.into());
    }
    let url = |name: &str| Ok::<_, FeedError>(head.text(name)?.and_then(|url| absolute(&url, base)));
    let hubs = head.value("hubs")?;
    let entries = items.into_iter().enumerate().map(|(at, item)| entry(at, item, base));
    Ok(Feed {
        title: head.text("title")?.map(guessed_label),
        link: url("home_page_url")?,
        subtitle: head.text("description")?.map(guessed_label),
        language: head.text("language")?,
        author: author(&head.value("authors")?).or(author(&head.value("author")?)),
        icon: url("icon")?.or(url("favicon")?),
        self_url: url("feed_url")?,
        next_url: url("next_url")?,
        hub: hubs.get(0).and_then(|hub| absolute(hub.get("url")?.as_str()?, base)),
        expired: head.value("expired")? == Value::Bool(true),
        entries: entries.collect::<Result<_, _>>()?,
        ..Feed::default()
    })
}

fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, FeedError> {
    serde_json::from_str(text).map_err(|error| broken(&error))
}

fn broken(error: &serde_json::Error) -> FeedError {
    let reason = error.to_string();
    if reason.contains("recursion limit") { FeedLimit::JsonDepth.into() } else { FeedError::Json { reason } }
}

struct JsonFeedHead<'a> {
    members: &'a BTreeMap<String, &'a RawValue>,
}

impl JsonFeedHead<'_> {
    fn value(&self, name: &str) -> Result<Value, FeedError> {
        self.members.get(name).map_or(Ok(Value::Null), |raw| owned(raw))
    }

    fn text(&self, name: &str) -> Result<Option<String>, FeedError> {
        Ok(scalar(&self.value(name)?))
    }
}

fn owned<T: DeserializeOwned>(raw: &RawValue) -> Result<T, FeedError> {
    serde_json::from_str(raw.get()).map_err(|error| broken(&error))
}

/// Texts, and numbers where texts belong.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The names of one author or of many.
fn author(value: &Value) -> Option<String> {
    let many = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let name = |one: &Value| one.as_str().map(str::to_owned).or_else(|| scalar(&one["name"]).or(scalar(&one["url"])));
    let names: Vec<String> = many.iter().filter_map(name).collect();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

fn entry(at: usize, raw: &RawValue, base: &Url) -> Result<FeedEntry, FeedError> {
    let item: Value = owned(raw)?;
    if !item.is_object() {
        return Err(FeedError::JsonShape { reason: format!("items[{at}] is no object") });
    }
    let text = |name: &str| scalar(&item[name]);
    let url = |name: &str| text(name).and_then(|url| absolute(&url, base));
    let mut tags = Vec::new();
    for tag in item["tags"].as_array().into_iter().flatten() {
        add_tag(&mut tags, FeedTag { term: scalar(tag), ..FeedTag::default() });
    }
    let html = text("content_html").map(|html| FeedText::html(&html, base));
    let enclosure = |file: &Value| {
        let href = absolute(file["url"].as_str()?, base)?;
        Some(Enclosure { href, media_type: scalar(&file["mime_type"]), length: file["size_in_bytes"].as_u64() })
    };
    Ok(FeedEntry {
        id: text("id"),
        title: text("title").map(guessed_label),
        link: url("url").or_else(|| url("external_url")),
        summary: text("summary").map(FeedText::plain),
        content: html.or_else(|| text("content_text").map(FeedText::plain)).into_iter().collect(),
        author: author(&item["authors"]).or_else(|| author(&item["author"])),
        published: text("date_published").map(FeedDate::new),
        updated: text("date_modified").map(FeedDate::new),
        language: text("language"),
        tags,
        enclosures: item["attachments"].as_array().into_iter().flatten().filter_map(enclosure).collect(),
        image: url("image").or_else(|| url("banner_image")),
        ..FeedEntry::default()
    })
}

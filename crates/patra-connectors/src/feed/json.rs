//! JSON Feed 1.0 and 1.1.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use super::date::FeedDate;
use super::entry::MAX_ENCLOSURES;
use super::links::absolute;
use super::text::{FeedText, guessed_label};
use super::xml::add_tag;
use super::{Enclosure, Feed, FeedEntry, FeedError, FeedLimit, FeedTag, MAX_ENTRIES, max_text_bytes};
use crate::json_size;

/// Deepest nesting of lists and objects.
pub(super) const MAX_DEPTH: usize = 127;

pub(super) fn read(text: &str, base: &Url) -> Result<Feed, FeedError> {
    if !text.starts_with('{') {
        return Err(FeedError::JsonShape { reason: "it is a list, not an object".to_owned() });
    }
    let head: JsonFeedHead<'_> = parse(text)?;
    let members = &head.members;
    let version = head.text("version")?.unwrap_or_default();
    let Some(items) = members.get("items") else {
        let reason = "it has no list `items`; for another API, say where its items are with a custom_api source";
        return Err(FeedError::JsonShape { reason: reason.to_owned() });
    };
    if !version.contains("jsonfeed") && !members.contains_key("title") {
        let reason = "its `version` does not name jsonfeed.org, and it has no title".to_owned();
        return Err(FeedError::JsonShape { reason });
    }
    let JsonFeedItems(Some(items)) = parse(items.get())? else { return Err(FeedLimit::Entries.into()) };
    let url = |name: &str| Ok::<_, FeedError>(head.text(name)?.and_then(|url| absolute(&url, base)));
    let hubs = head.value("hubs")?;
    let (mut entries, mut text_bytes, limit) = (Vec::new(), 0, max_text_bytes(text.len()));
    for (at, item) in items.into_iter().enumerate() {
        let entry = entry(at, item, base)?;
        text_bytes += entry.text_bytes();
        if text_bytes > limit {
            return Err(FeedLimit::Growth { limit }.into());
        }
        entries.push(entry);
    }
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
        entries,
        ..Feed::default()
    })
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, FeedError> {
    serde_json::from_str(text).map_err(|error| broken(&error))
}

fn broken(error: &serde_json::Error) -> FeedError {
    let reason = error.to_string();
    if reason.contains("recursion limit") { FeedLimit::JsonDepth.into() } else { FeedError::Json { reason } }
}

/// Members of a feed that are read.
const MEMBERS: [&str; 14] = [
    "author",
    "authors",
    "description",
    "expired",
    "favicon",
    "feed_url",
    "home_page_url",
    "hubs",
    "icon",
    "items",
    "language",
    "next_url",
    "title",
    "version",
];

/// The known members of a feed. Others are skipped: an object may have millions.
struct JsonFeedHead<'a> {
    members: BTreeMap<&'static str, &'a RawValue>,
}

impl<'de> Deserialize<'de> for JsonFeedHead<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonFeedHead<'de>, D::Error> {
        deserializer.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = JsonFeedHead<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonFeedHead<'de>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match MEMBERS.iter().find(|known| **known == name) {
                Some(known) => {
                    members.insert(*known, map.next_value()?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(JsonFeedHead { members })
    }
}

/// The items of a feed; `None` if there are more than [`MAX_ENTRIES`].
struct JsonFeedItems<'a>(Option<Vec<&'a RawValue>>);

impl<'de> Deserialize<'de> for JsonFeedItems<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonFeedItems<'de>, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = JsonFeedItems<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<JsonFeedItems<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
            if items.len() > MAX_ENTRIES {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(JsonFeedItems(None));
            }
        }
        Ok(JsonFeedItems(Some(items)))
    }
}

impl JsonFeedHead<'_> {
    fn value(&self, name: &str) -> Result<Value, FeedError> {
        self.members.get(name).map_or(Ok(Value::Null), |raw| tree(raw))
    }

    fn text(&self, name: &str) -> Result<Option<String>, FeedError> {
        Ok(scalar(&self.value(name)?))
    }
}

/// The value as a tree, if that is not too large.
fn tree(raw: &RawValue) -> Result<Value, FeedError> {
    json_size::check(raw.get()).map_err(FeedLimit::from)?;
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
    let item = tree(raw)?;
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
    let files = item["attachments"].as_array().into_iter().flatten();
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
        enclosures: files.filter_map(enclosure).take(MAX_ENCLOSURES).collect(),
        image: url("image").or_else(|| url("banner_image")),
        ..FeedEntry::default()
    })
}

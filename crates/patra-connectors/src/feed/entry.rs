//! One `<item>` or `<entry>`.

use url::Url;

use super::date::FeedDate;
use super::links::{self, BestLink};
use super::text::{self, DefaultMarkup, FeedText};
use super::tree::TreeElement;
use super::xml::add_tag;
use super::{Enclosure, FeedEntry, FeedTag};

/// Most enclosures of one entry; more are left out.
pub(super) const MAX_ENCLOSURES: usize = 200;
/// Most authors of one entry; more are left out.
const MAX_AUTHORS: usize = 100;
/// Default name of a category of Media RSS.
const MEDIA_SCHEME: &str = "http://search.yahoo.com/mrss/category_schema";

pub(super) fn read(element: &TreeElement<'_>, atom: bool, base: &Url) -> FeedEntry {
    let mut reader = EntryReader { atom, ..EntryReader::default() };
    let entry = &mut reader.entry;
    entry.id = element.attribute("rdf:about");
    entry.updated = element.attribute("lastmod").map(FeedDate::new);
    entry.language = element.attribute("xml:lang");
    reader.link.offer_href(element, base);
    for child in element.elements() {
        reader.field(child, &links::base_of(child, base));
    }
    reader.finish(base)
}

#[derive(Default)]
struct EntryReader {
    atom: bool,
    entry: FeedEntry,
    link: BestLink,
    origin: Option<String>,
    created: Option<FeedDate>,
    /// `dc:date` does not say of which event it is the time.
    undefined_date: Option<FeedDate>,
    /// Whether the guid is an address.
    permalink: bool,
    /// Values of extensions, for feeds without the elements of their own format.
    title: Option<String>,
    summary: Option<FeedText>,
    author: Option<String>,
    authors: Vec<String>,
}

impl EntryReader {
    fn field(&mut self, element: &TreeElement<'_>, base: &Url) {
        let usual = if self.atom { DefaultMarkup::Plain } else { DefaultMarkup::Guess };
        let label = || Some(text::label(element, usual, base));
        let plain = || Some(element.text()).filter(|text| !text.is_empty());
        let entry = &mut self.entry;
        match element.name() {
            "title" => {
                entry.title = label().filter(|title| !title.is_empty()).or(entry.title.take()).or(Some(String::new()));
            }
            "dc:title" | "itunes:title" | "media:title" => self.title = self.title.take().or_else(label),
            "link" => self.link(element, base),
            "feedburner:origlink" => self.origin = links::absolute(&element.text(), base),
            "id" | "guid" => {
                entry.id = plain();
                let denied = element.attribute("ispermalink").is_some_and(|value| !value.eq_ignore_ascii_case("true"));
                self.permalink = !denied;
            }
            "description" | "dc:description" | "abstract" | "summary" => {
                let usual = if matches!(element.name(), "description" | "dc:description") {
                    DefaultMarkup::Html
                } else {
                    usual
                };
                self.describe(text::construct(element, usual, base));
            }
            "content" => entry.content.push(text::construct(element, usual, base)),
            "content:encoded" | "fullitem" | "body" | "xhtml:body" | "xhtml:div" => {
                entry.content.push(text::construct(element, DefaultMarkup::Html, base));
            }
            "itunes:summary" | "itunes:subtitle" | "media:description" => {
                self.summary =
                    self.summary.take().or_else(|| Some(text::construct(element, DefaultMarkup::Guess, base)));
            }
            "author" | "dc:creator" | "dc:author" | "managingeditor" => {
                self.authors.extend(person(element).filter(|_| self.authors.len() < MAX_AUTHORS));
            }
            "itunes:author" | "media:credit" => self.author = self.author.take().or_else(|| person(element)),
            "rights" | "copyright" => entry.rights = label(),
            "dc:rights" | "media:copyright" => entry.rights = entry.rights.take().or_else(label),
            "updated" | "modified" | "lastbuilddate" | "dcterms:modified" => {
                entry.updated = FeedDate::of(element).or(entry.updated.take());
            }
            "dc:date" => self.undefined_date = FeedDate::of(element).or(self.undefined_date.take()),
            "published" | "pubdate" | "issued" | "dcterms:issued" => {
                entry.published = FeedDate::of(element).or(entry.published.take());
            }
            "created" | "dcterms:created" => self.created = FeedDate::of(element).or(self.created.take()),
            "language" | "dc:language" => entry.language = plain(),
            "comments" => entry.comments = links::absolute(&links::unescaped(&element.text()), base),
            "source" => entry.source = source(element),
            "enclosure" => self.enclose(element, base),
            "image" | "itunes:image" | "media:thumbnail" => {
                entry.image = entry.image.take().or_else(|| image(element, base));
            }
            "media:content" | "media:group" => self.media(element, base),
            _ => tags(element, &mut entry.tags),
        }
    }

    /// The longer of two descriptions tends to be the whole text; feeds that have two put it last.
    fn describe(&mut self, text: FeedText) {
        match &self.entry.summary {
            Some(_) if self.entry.content.is_empty() => self.entry.content.push(text),
            Some(_) => {}
            None => self.entry.summary = Some(text),
        }
    }

    fn link(&mut self, element: &TreeElement<'_>, base: &Url) {
        match links::relation(element).as_str() {
            "alternate" => self.link.offer(element, base),
            "enclosure" => self.enclose(element, base),
            "replies" if self.entry.comments.is_none() => self.entry.comments = links::href(element, base),
            "license" | "copyright" if self.entry.rights.is_none() => self.entry.rights = links::href(element, base),
            _ => {}
        }
    }

    fn enclose(&mut self, element: &TreeElement<'_>, base: &Url) {
        let Some(href) = links::href(element, base) else { return };
        let enclosures = &mut self.entry.enclosures;
        if enclosures.len() == MAX_ENCLOSURES || enclosures.iter().any(|known| known.href == href) {
            return;
        }
        let length = ["length", "filesize"].into_iter().find_map(|name| element.attribute(name)?.parse().ok());
        enclosures.push(Enclosure { href, media_type: element.attribute("type"), length });
    }

    fn media(&mut self, element: &TreeElement<'_>, base: &Url) {
        if element.name() == "media:content" {
            self.enclose(element, base);
        }
        for child in element.elements().filter(|child| child.name().starts_with("media:")) {
            self.field(child, base);
        }
    }

    fn finish(self, base: &Url) -> FeedEntry {
        let mut entry = self.entry;
        entry.link = self.origin.or(self.link.take());
        if entry.link.is_none() && self.permalink {
            // An id that is an address, and not only a name, leads to the entry.
            let address =
                entry.id.as_deref().filter(|id| links::scheme(id).is_none_or(|scheme| scheme.starts_with("http")));
            let address = address.filter(|id| id.contains(['/', '.', ':']) && !id.contains(char::is_whitespace));
            entry.link = address.and_then(|id| links::absolute(id, base));
        }
        entry.title = entry.title.filter(|title| !title.is_empty() || self.title.is_none()).or(self.title);
        entry.updated = entry.updated.or_else(|| self.undefined_date.clone());
        entry.published = entry.published.or(self.created).or(self.undefined_date);
        entry.summary = entry.summary.or(self.summary);
        entry.author = Some(self.authors.join(", ")).filter(|authors| !authors.is_empty()).or(self.author);
        entry
    }
}

/// `name (email)`, or any other text.
pub(super) fn person(element: &TreeElement<'_>) -> Option<String> {
    let part = |name: &str| element.named(name).next().map(TreeElement::text).filter(|text| !text.is_empty());
    match (part("name"), part("email")) {
        (Some(name), Some(email)) => Some(format!("{name} ({email})")),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => Some(element.text()).filter(|text| !text.is_empty()),
    }
}

/// The address of a picture, in an attribute, a child or the text.
pub(super) fn image(element: &TreeElement<'_>, base: &Url) -> Option<String> {
    let inside = || ["url", "href"].into_iter().find_map(|name| element.named(name).next()).map(TreeElement::text);
    let text = || Some(element.text()).filter(|_| element.elements().next().is_none());
    links::href(element, base).or_else(|| links::absolute(&inside().or_else(text)?, base))
}

fn source(element: &TreeElement<'_>) -> Option<String> {
    let title = element.named("title").next().map(TreeElement::text);
    let text = || Some(element.text()).filter(|_| element.elements().next().is_none());
    title.or_else(text).filter(|text| !text.is_empty()).or_else(|| element.attribute("url"))
}

/// Adds the tags of a category, a subject or keywords; any other element adds nothing.
pub(super) fn tags(element: &TreeElement<'_>, tags: &mut Vec<FeedTag>) {
    let text = || Some(element.text()).filter(|text| !text.is_empty());
    match element.name() {
        "category" | "keywords" | "dc:subject" | "media:category" => {
            let scheme = element.attribute("scheme").or_else(|| element.attribute("domain"));
            let usual = (element.name() == "media:category").then(|| MEDIA_SCHEME.to_owned());
            let scheme = scheme.or(usual);
            let term = element.attribute("term").or_else(text);
            add_tag(tags, FeedTag { term, scheme, label: element.attribute("label") });
        }
        "itunes:category" => {
            let scheme = Some("http://www.itunes.com/".to_owned());
            add_tag(tags, FeedTag { term: element.attribute("text").or_else(text), scheme, label: None });
            for inner in element.named("itunes:category") {
                self::tags(inner, tags);
            }
        }
        "itunes:keywords" | "media:keywords" | "tags" => {
            let split = |c: char| c == ',' || (c.is_whitespace() && element.name() == "itunes:keywords");
            let text = element.text();
            for term in text.split(split).map(str::trim).filter(|term| !term.is_empty()) {
                if tags.iter().all(|known| known.term.as_deref() != Some(term)) {
                    add_tag(tags, FeedTag { term: Some(term.to_owned()), ..FeedTag::default() });
                }
            }
        }
        _ => {}
    }
}

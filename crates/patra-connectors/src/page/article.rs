//! The one article of a page: its metadata and its main text.

use std::collections::HashMap;

use scraper::{ElementRef, Node};
use serde::Serialize;
use url::Url;

use patra_core::hash;

use super::HtmlPageError;
use super::document::{HtmlDocument, folded};
use crate::feed::FeedDate;

/// Elements that are not read: scripts, controls, and content around an article.
const APART: [&str; 17] = [
    "aside", "button", "canvas", "dialog", "footer", "form", "head", "header", "iframe", "nav", "noscript", "script",
    "select", "style", "svg", "template", "textarea",
];
/// Parts of a class or id that mark content around an article.
const APART_NAMES: [&str; 16] = [
    "advert",
    "banner",
    "breadcrumb",
    "comment",
    "cookie",
    "footer",
    "menu",
    "modal",
    "navbar",
    "newsletter",
    "popup",
    "promo",
    "related",
    "share",
    "sidebar",
    "social",
];
/// Elements that hold running text.
const RUNNING: [&str; 5] = ["p", "pre", "blockquote", "li", "td"];
/// Inline elements.
const INLINE: [&str; 24] = [
    "a", "abbr", "b", "bdi", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s", "small",
    "span", "strong", "sub", "sup", "time", "u", "var",
];
/// Shorter pieces of text do not show where the article is.
const MIN_RUNNING_CHARS: usize = 25;

/// The content of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArticlePage {
    pub title: Option<String>,
    /// The canonical address of the page.
    pub url: String,
    pub description: Option<String>,
    pub author: Option<String>,
    pub published: Option<FeedDate>,
    pub image: Option<String>,
    pub language: Option<String>,
    /// The main text, a line for each block.
    pub text: String,
    /// Changes with the main text, and with nothing else on the page.
    pub hash: String,
}

/// Reads the article of a page.
pub fn article(html: &str, address: &Url) -> Result<ArticlePage, HtmlPageError> {
    let document = HtmlDocument::parse(html, address)?;
    let meta = |name: &str| {
        let selector = format!("meta[property='{name}' i], meta[name='{name}' i], meta[itemprop='{name}' i]");
        document.attribute(&selector, "content")
    };
    let any = |names: &[&str]| names.iter().find_map(|name| meta(name));
    let text_of = |selector: &str| {
        let text = folded(&document.first(selector)?.text().collect::<String>());
        Some(text).filter(|text| !text.is_empty())
    };
    let canonical = document.attribute("link[rel~='canonical' i][href]", "href").or_else(|| meta("og:url"));
    let published = any(&["article:published_time", "datePublished", "date", "dc.date", "parsely-pub-date"]);
    let published = published.or_else(|| document.attribute("[itemprop='datePublished'], time", "datetime"));
    let author = any(&["author", "article:author", "dc.creator"]).filter(|author| !author.contains("://"));
    let text = document.html.root_element();
    let text = readable(text, main(&document));
    Ok(ArticlePage {
        title: meta("og:title").or_else(|| text_of("title")).or_else(|| text_of("h1")),
        url: canonical.and_then(|url| document.absolute(&url)).unwrap_or_else(|| address.to_string()),
        description: any(&["og:description", "description", "twitter:description"]),
        author: author.or_else(|| text_of("[rel~='author'], [itemprop='author'], .author, .byline")),
        published: published.map(FeedDate::new),
        image: any(&["og:image", "twitter:image"]).and_then(|url| document.absolute(&url)),
        language: document.attribute("html", "lang"),
        hash: hash::digest(&[&text]),
        text,
    })
}

/// The element that holds most running text, links not counted.
fn main(document: &HtmlDocument) -> Option<ElementRef<'_>> {
    let mut scores: HashMap<_, f64> = HashMap::new();
    let mut stack = vec![document.html.root_element()];
    while let Some(element) = stack.pop() {
        if stands_apart(element) {
            continue;
        }
        stack.extend(element.child_elements());
        if !RUNNING.contains(&element.value().name()) {
            continue;
        }
        let own = own_text(element);
        if own < MIN_RUNNING_CHARS {
            continue;
        }
        // Half of the score counts for the grandparent: an article has sections.
        let around = element.ancestors().filter_map(ElementRef::wrap).take(3);
        for (parent, weight) in around.zip([1.0, 0.6, 0.3]) {
            *scores.entry(parent.id()).or_default() += weight * f64::from(u32::try_from(own).unwrap_or(u32::MAX));
        }
    }
    let mut best: Option<(f64, ElementRef<'_>)> = None;
    // In page order, so that ties are always decided alike.
    for element in document.html.root_element().descendants().filter_map(ElementRef::wrap) {
        let Some(score) = scores.get(&element.id()) else { continue };
        let named =
            matches!(element.value().name(), "article" | "main") || element.value().attr("role") == Some("main");
        let score = if named { score * 1.5 } else { *score };
        if best.is_none_or(|(known, _)| score > known) {
            best = Some((score, element));
        }
    }
    best.map(|(_, element)| element).or_else(|| document.first("article, main, [role='main']"))
}

/// Characters of text outside links and nested elements of running text.
fn own_text(element: ElementRef<'_>) -> usize {
    let mut count = 0;
    let mut stack: Vec<_> = element.children().collect();
    while let Some(node) = stack.pop() {
        match node.value() {
            Node::Text(text) => count += text.split_whitespace().map(|word| word.chars().count() + 1).sum::<usize>(),
            Node::Element(inner) if inner.name() != "a" && !RUNNING.contains(&inner.name()) => {
                stack.extend(node.children());
            }
            _ => {}
        }
    }
    count
}

fn stands_apart(element: ElementRef<'_>) -> bool {
    let value = element.value();
    let named = |text: &str| {
        let text = text.to_ascii_lowercase();
        APART_NAMES.iter().any(|part| text.contains(part))
    };
    // Class and id of elements around the whole page are ignored.
    let whole = matches!(value.name(), "html" | "body" | "article" | "main");
    APART.contains(&value.name())
        || (!whole && (value.attr("class").is_some_and(named) || value.attr("id").is_some_and(named)))
}

/// The text of an element, or of the whole page where no element stands out.
fn readable(page: ElementRef<'_>, main: Option<ElementRef<'_>>) -> String {
    let mut lines = vec![String::new()];
    // Last in, first out; an end is the name of the element alone.
    let mut stack = vec![(*main.unwrap_or(page), false)];
    while let Some((node, ends)) = stack.pop() {
        match node.value() {
            Node::Text(text) if !ends => {
                if let Some(line) = lines.last_mut() {
                    line.push_str(text);
                }
            }
            Node::Element(value) => {
                let inner = ElementRef::wrap(node).filter(|element| !stands_apart(*element));
                if !INLINE.contains(&value.name()) {
                    lines.push(String::new());
                }
                if !ends && inner.is_some() {
                    stack.push((node, true));
                    stack.extend(node.children().rev().map(|child| (child, false)));
                }
            }
            _ => {}
        }
    }
    lines.iter().map(|line| folded(line)).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<html lang=en><head><title>Site: A title</title><meta property=og:title content='A title'>\
        <meta name=Description content=' About  it '><link rel=canonical href='/a'><meta name=author content='An Author'>\
        <meta property='article:published_time' content='2024-05-01T10:00:00Z'><meta property='og:image' content='/i.png'></head>\
        <body><nav><p>Home and other places that are long enough to count as text</p></nav><div id=content><h1>A title</h1>\
        <p>The first paragraph has <b>words</b> enough, and a comma.</p><p>The second one has words enough as well.</p></div>\
        <div class=sidebar><p>Something else altogether, which is rather long but is not part of it.</p></div>\
        <script>var x = 'not text';</script></body></html>";

    fn read(html: &str) -> ArticlePage {
        article(html, &Url::parse("http://example.org/a?utm_source=x").unwrap()).unwrap()
    }

    #[test]
    fn head_describes_the_page() {
        let page = read(PAGE);
        assert_eq!(page.title.as_deref(), Some("A title"));
        assert_eq!(page.url, "http://example.org/a");
        assert_eq!(page.description.as_deref(), Some("About it"));
        assert_eq!(page.author.as_deref(), Some("An Author"));
        assert_eq!(page.published.unwrap().at.unwrap().to_short_text(), "2024-05-01T10:00:00Z");
        assert_eq!(page.image.as_deref(), Some("http://example.org/i.png"));
        assert_eq!(page.language.as_deref(), Some("en"));
    }

    #[test]
    fn the_text_is_that_of_the_article() {
        let expected =
            "A title\nThe first paragraph has words enough, and a comma.\nThe second one has words enough as well.";
        assert_eq!(read(PAGE).text, expected);
        assert_eq!(read("<p>short</p>").text, "short");
        assert_eq!(read("").text, "");
    }

    #[test]
    fn the_hash_changes_with_the_text_alone() {
        let frame = PAGE.replace("Home and", "Other places and").replace("Something else", "An advertisement");
        assert_eq!(read(PAGE).hash, read(&frame).hash);
        assert_ne!(read(PAGE).hash, read(&PAGE.replace("second one", "third one")).hash);
    }
}

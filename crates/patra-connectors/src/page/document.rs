//! A page as a tree, built under limits. HTML can grow while it is parsed, so the tree is checked while it is built.

use html5ever::driver::{ParseOpts, parse_document};
use html5ever::tendril::TendrilSink as _;
use scraper::{ElementRef, Html, HtmlTreeSink, Selector};
use url::Url;

use super::HtmlPageError;
use super::tame::tame;
use crate::feed::MAX_URL_BYTES;

/// Most bytes of a page.
pub const MAX_BYTES: usize = 5 * 1024 * 1024;
/// Deepest nesting, as browsers have it.
pub const MAX_DEPTH: usize = 512;
/// Most nodes of a page: elements, texts and comments.
pub const MAX_NODES: usize = 250_000;
/// Bytes that are parsed between two checks of the tree.
const STEP_BYTES: usize = 1_024;

pub(super) struct HtmlDocument {
    pub(super) html: Html,
    /// Base of the page's relative addresses.
    pub(super) base: Url,
}

impl HtmlDocument {
    pub(super) fn parse(text: &str, address: &Url) -> Result<HtmlDocument, HtmlPageError> {
        let html = parse(text)?;
        let written = first(&html, "base[href]").and_then(|base| base.value().attr("href").map(str::to_owned));
        let base = written
            .and_then(|href| address.join(href.trim()).ok())
            .filter(|base| !base.cannot_be_a_base() && base.as_str().len() <= MAX_URL_BYTES);
        Ok(HtmlDocument { html, base: base.unwrap_or_else(|| address.clone()) })
    }

    pub(super) fn first(&self, selector: &str) -> Option<ElementRef<'_>> {
        first(&self.html, selector)
    }

    /// The value of an attribute of the first element that has it, trimmed and not empty.
    pub(super) fn attribute(&self, selector: &str, name: &str) -> Option<String> {
        let selector = Selector::parse(selector).ok()?;
        let mut values = self.html.select(&selector).filter_map(|element| element.value().attr(name));
        values.find_map(|value| Some(folded(value)).filter(|value| !value.is_empty()))
    }

    pub(super) fn absolute(&self, written: &str) -> Option<String> {
        let url = self.base.join(written.trim()).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.as_str().len() <= MAX_URL_BYTES).then(|| url.into())
    }
}

/// Normalises white space: single spaces, trimmed.
pub(super) fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn first<'a>(html: &'a Html, selector: &str) -> Option<ElementRef<'a>> {
    Selector::parse(selector).ok().and_then(|selector| html.select(&selector).next())
}

fn parse(text: &str) -> Result<Html, HtmlPageError> {
    if text.len() > MAX_BYTES {
        return Err(HtmlPageError::TooLarge);
    }
    let mut parser = parse_document(HtmlTreeSink::new(Html::new_document()), ParseOpts::default());
    let tamed = tame(text)?;
    let mut rest = tamed.as_str();
    while !rest.is_empty() {
        let mut end = rest.len().min(STEP_BYTES);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (step, left) = rest.split_at(end);
        rest = left;
        parser.process(step.into());
        let html = parser.tokenizer.sink.sink.0.borrow();
        let mut nodes = html.tree.nodes();
        if nodes.len() > MAX_NODES {
            return Err(HtmlPageError::TooManyNodes);
        }
        // The newest node is where the parser is.
        if nodes.next_back().is_some_and(|node| node.ancestors().take(MAX_DEPTH + 1).count() > MAX_DEPTH) {
            return Err(HtmlPageError::TooDeep);
        }
    }
    Ok(parser.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::MAX_PAGE_ATTRIBUTES;

    fn refused(text: &str) -> Option<HtmlPageError> {
        HtmlDocument::parse(text, &Url::parse("http://example.org/").unwrap()).err()
    }

    // covers: COLL-125
    #[test]
    fn hostile_pages_are_refused_with_the_limit() {
        assert_eq!(refused(&"x".repeat(MAX_BYTES + 1)), Some(HtmlPageError::TooLarge));
        assert_eq!(refused(&"<div>".repeat(100_000)), Some(HtmlPageError::TooDeep));
        assert_eq!(refused(&"<div><table><td></div></table>".repeat(20_000)), Some(HtmlPageError::TooDeep));
        let formats: String = (0..400).map(|at| format!("<b id={at}>")).collect();
        let grows = format!("<p>{formats}{}", "<p>x</p>".repeat(200_000));
        assert!(matches!(refused(&grows), Some(HtmlPageError::TooManyNodes | HtmlPageError::TooDeep)));
        assert!(HtmlPageError::TooDeep.to_string().contains("512"));
        let attributes: String = (0..50_000).map(|at| format!(" a{at}")).collect();
        assert_eq!(refused(&format!("<p{attributes}>")), None);
        assert_eq!(refused(&format!("<script>\"<a b='\"</script><p{attributes}>")), None);
        assert_eq!(refused(&"<p>x".repeat(10_000)), None);
        let tag: String = (0..100).map(|at| format!(" a{at}")).collect();
        let many = format!("<p{tag}>").repeat(MAX_PAGE_ATTRIBUTES / 100 + 1);
        assert_eq!(refused(&many), Some(HtmlPageError::TooManyAttributes));
        assert!(HtmlPageError::TooManyAttributes.to_string().contains("500000"));
    }
}

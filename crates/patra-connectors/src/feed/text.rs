//! Pieces of text in a feed: plain, HTML in references, markup in place, or base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;
use url::Url;

use super::token::{MarkupToken, MarkupTokens};
use super::tree::{TreeElement, TreeNode, VOID};
use super::{encoding, entity, sanitise};

/// A text in its intended form: plain, or sanitised HTML.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FeedText {
    pub value: String,
    pub html: bool,
}

impl FeedText {
    pub(super) fn plain(value: String) -> FeedText {
        FeedText { value, html: false }
    }

    pub(super) fn html(value: &str, base: &Url) -> FeedText {
        FeedText { value: sanitise::clean(value, base), html: true }
    }

    /// The text as HTML: plain text is escaped.
    pub fn to_html(&self) -> Cow<'_, str> {
        if self.html { Cow::Borrowed(&self.value) } else { Cow::Owned(sanitise::escaped(&self.value)) }
    }

    /// The text without markup.
    pub fn to_plain(&self) -> Cow<'_, str> {
        if self.html { Cow::Owned(sanitise::plain(&self.value)) } else { Cow::Borrowed(&self.value) }
    }
}

/// Default content type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultMarkup {
    Plain,
    /// Nominally plain text, in which HTML is as common.
    Guess,
    Html,
}

pub(super) fn construct(element: &TreeElement<'_>, usual: DefaultMarkup, base: &Url) -> FeedText {
    let kind = element.attribute("type").unwrap_or_default().to_ascii_lowercase();
    if element.elements().next().is_some() {
        let inner = around(element);
        // HTML in references inside a `div` is HTML still, where it is declared as such.
        let escaped = matches!(kind.as_str(), "html" | "text/html") && inner.elements().next().is_none();
        return FeedText::html(&if escaped { inner.text() } else { markup(inner) }, base);
    }
    let text = element.text();
    let is_base64 = element.attribute("mode").is_some_and(|mode| mode.eq_ignore_ascii_case("base64"));
    let text = if is_base64 || is_binary(&kind) { from_base64(text) } else { text };
    let html = match kind.as_str() {
        "html" | "text/html" => true,
        "text" | "plain" | "text/plain" | "" => match usual {
            DefaultMarkup::Html => kind.is_empty() || looks_like_html(&text),
            DefaultMarkup::Guess => looks_like_html(&text),
            DefaultMarkup::Plain => false,
        },
        _ => false,
    };
    if html { FeedText::html(&text, base) } else { FeedText::plain(text) }
}

/// The content as plain text.
pub(super) fn label(element: &TreeElement<'_>, usual: DefaultMarkup, base: &Url) -> String {
    folded(&construct(element, usual, base).to_plain())
}

/// Plain text from an element that should be plain but often contains markup.
pub(super) fn guessed_label(text: String) -> String {
    if looks_like_html(&text) { folded(&sanitise::plain(&text)) } else { text }
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The `div` around XHTML, else the element itself.
fn around<'t, 'a>(element: &'t TreeElement<'a>) -> &'t TreeElement<'a> {
    let blank = |node: &&TreeNode<'_>| !matches!(node, TreeNode::Text(text) if text.trim().is_empty());
    let mut inside = element.children.iter().filter(blank);
    match (inside.next(), inside.next()) {
        (Some(TreeNode::Element(only)), None) if only.local_name() == "div" => only,
        _ => element,
    }
}

/// The content of an element as HTML, its references and prefixes resolved.
fn markup(element: &TreeElement<'_>) -> String {
    let mut out = String::new();
    write_children(element, &mut out);
    out.trim().to_owned()
}

fn write_children(element: &TreeElement<'_>, out: &mut String) {
    for child in &element.children {
        match child {
            TreeNode::Text(text) => sanitise::escape_into(text, out),
            TreeNode::Element(element) => write_element(element, out),
        }
    }
}

fn write_element(element: &TreeElement<'_>, out: &mut String) {
    let name = element.local_name();
    out.push('<');
    out.push_str(name);
    for (name, value) in element.attributes() {
        // The raw value may hold the other kind of quote.
        out.push(' ');
        out.push_str(name.rsplit(':').next().unwrap_or_default());
        out.push_str("=\"");
        out.push_str(&value.replace('"', "&quot;"));
        out.push('"');
    }
    out.push('>');
    if !VOID.contains(&name) {
        write_children(element, out);
        out.push_str("</");
        out.push_str(name);
        out.push('>');
    }
}

fn is_binary(kind: &str) -> bool {
    let textual = kind.starts_with("text") || kind.ends_with("xml") || matches!(kind, "" | "html" | "xhtml" | "plain");
    !textual && kind.contains('/')
}

fn from_base64(text: String) -> String {
    let forgiving = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&STANDARD, forgiving.with_decode_allow_trailing_bits(true));
    let packed: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    match engine.decode(packed) {
        Ok(bytes) => encoding::decode(&bytes, None).into_owned(),
        Err(_) => text,
    }
}

/// Whether a text is HTML. A false positive loses text, so all conditions must hold: an end tag or a reference, and
/// only tags and names of HTML.
fn looks_like_html(text: &str) -> bool {
    let mut markup = text.contains('&') && entity::resolve(text, entity::EntityContext::Attribute) != text;
    for token in MarkupTokens::new(text) {
        match token {
            MarkupToken::Start { name, .. } if !sanitise::is_known(name) => return false,
            MarkupToken::End(name) if !sanitise::is_known(name) => return false,
            MarkupToken::End(_) => markup = true,
            MarkupToken::Start { name, empty, .. } => markup |= empty || VOID.contains(&name),
            MarkupToken::Text(text) if text.starts_with('<') => return false,
            _ => {}
        }
    }
    markup
}

/// The text without the characters that XML forbids. Control characters between U+0080 and U+009F are what Windows-1252
/// has there.
pub(super) fn without_illegal<'a>(text: &'a Cow<'a, str>) -> Cow<'a, str> {
    let bytes = text.as_bytes();
    let control = bytes.iter().any(|byte| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r'));
    let after =
        |lead: u8, wanted: fn(&[u8]) -> bool| memchr::memchr_iter(lead, bytes).any(|at| wanted(&bytes[at + 1..]));
    let misread = after(0xc2, |rest| matches!(rest, [0x80..=0x9f, ..]));
    if !control && !misread && !after(0xef, |rest| matches!(rest, [0xbf, 0xbe | 0xbf, ..])) {
        return Cow::Borrowed(text);
    }
    let fixed = |c: char| match c {
        '\t' | '\n' | '\r' => Some(c),
        '\0'..' ' | '\u{fffe}' | '\u{ffff}' => None,
        '\u{80}'..='\u{9f}' => Some(entity::windows_1252(c)),
        c => Some(c),
    };
    Cow::Owned(text.chars().filter_map(fixed).collect())
}

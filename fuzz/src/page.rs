//! HTML pages: their article, the feeds that they name, rows by selectors, and sanitized HTML.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;
use url::Url;

use patra_connectors::feed::{clean_html, decode, html_to_text};
use patra_connectors::page::{
    self, ArticlePage, FeedLink, HtmlPageError, MAX_ROWS, SelectField, SelectRow, SelectRules,
};
use patra_core::hash;

use crate::feed::{BASE, UNSAFE};
use crate::repeated;

/// Tags that run, load or ask for something.
const FORBIDDEN: [&str; 14] = [
    "base", "embed", "form", "frame", "iframe", "input", "link", "math", "meta", "object", "script", "style", "svg",
    "template",
];
/// Most feeds that a page names.
const MAX_FEEDS: usize = 100;

static ROWS: LazyLock<SelectRules> = LazyLock::new(|| {
    let field = |selector: Option<&str>, attr: Option<&str>, many| SelectField {
        selector: selector.map(str::to_owned),
        attr: attr.map(str::to_owned),
        many,
        required: false,
    };
    let fields = [
        ("link", field(Some("a[href]"), Some("href"), false)),
        ("name", field(None, None, false)),
        ("tags", field(Some("i, b > em"), None, true)),
        ("kind", field(None, Some("class"), false)),
    ];
    SelectRules {
        item: "li, tr, p.row".to_owned(),
        fields: fields.map(|(name, field)| (name.to_owned(), field)).into(),
    }
});

pub fn check(data: &[u8]) {
    let html = decode(data, None);
    let html = &*html;
    match page::article(html, &BASE) {
        Ok(page) => check_article(&page, html),
        Err(error) => check_error(&error),
    }
    match page::feeds(html, &BASE) {
        Ok(feeds) => check_feeds(&feeds),
        Err(error) => check_error(&error),
    }
    match page::select(html, &BASE, &ROWS) {
        Ok(rows) => check_rows(&rows),
        Err(error) => check_error(&error),
    }
    check_html(&clean_html(html, &BASE), &BASE);
    assert!(html_to_text(html).len() <= 2 * html.len());
}

fn check_error(error: &HtmlPageError) {
    assert!(error.to_string().len() <= 500, "{error}");
    assert!(!matches!(error, HtmlPageError::BadSelector { .. } | HtmlPageError::FieldGone { .. }), "{error}");
}

fn check_article(page: &ArticlePage, html: &str) {
    check_http(&page.url);
    page.image.iter().for_each(|image| check_http(image));
    // Some references name characters that take more bytes than they do.
    assert!(page.text.len() <= 2 * html.len(), "{} bytes of text in {} of HTML", page.text.len(), html.len());
    let folded = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") == line && !line.is_empty();
    assert!(page.text.is_empty() || page.text.split('\n').all(folded), "{:?}", page.text);
    assert_eq!(page.hash, hash::digest(&[&page.text]));
}

fn check_feeds(feeds: &[FeedLink]) {
    assert!(feeds.len() <= MAX_FEEDS);
    let hrefs: HashSet<_> = feeds.iter().map(|feed| &feed.href).collect();
    assert_eq!(hrefs.len(), feeds.len(), "a feed is there twice");
    feeds.iter().for_each(|feed| check_http(&feed.href));
    assert!(feeds.is_sorted_by_key(|feed| !feed.declared), "declared feeds come first");
}

fn check_rows(rows: &[SelectRow]) {
    assert!((1..=MAX_ROWS).contains(&rows.len()));
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty() && text.trim() == text);
    for row in rows {
        assert!(row.keys().eq(ROWS.fields.keys()), "{row:?}");
        for (name, value) in row {
            let fits = match value {
                Value::Array(values) => name == "tags" && values.iter().all(text),
                Value::Null => name != "tags",
                value => name != "tags" && text(value),
            };
            assert!(fits, "{name} of {row:?}");
        }
        row["link"].as_str().into_iter().for_each(check_http);
    }
}

fn check_http(url: &str) {
    let parsed = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    assert!(matches!(parsed.scheme(), "http" | "https"), "{url}");
}

/// Cleaned HTML: nothing in it runs, and a second cleaning changes nothing.
pub(crate) fn check_html(clean: &str, base: &Url) {
    for tag in clean.split('<').skip(1) {
        let (inside, _) = tag.split_once('>').unwrap_or_else(|| panic!("a tag without an end: {tag}"));
        let (name, mut attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        let name = name.trim_start_matches('/');
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "<{tag}");
        assert!(!FORBIDDEN.contains(&name), "<{tag}");
        while !attributes.is_empty() {
            let (name, rest) = attributes.split_once("=\"").unwrap_or_else(|| panic!("a bare attribute: <{tag}"));
            let (value, rest) = rest.split_once('"').unwrap_or_else(|| panic!("an open attribute: <{tag}"));
            assert!(!name.contains([' ', '"', '\'', '/']) && !name.starts_with("on") && name != "style", "<{tag}");
            check_address(name, value);
            attributes = rest.strip_prefix(' ').unwrap_or(rest);
        }
    }
    assert_eq!(clean_html(clean, base), clean, "cleaned twice");
}

/// An address leads somewhere and runs nothing.
fn check_address(name: &str, value: &str) {
    if matches!(name, "href" | "src" | "cite" | "action" | "poster" | "background" | "longdesc") {
        let written = value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let scheme = BASE.join(&written).map(|url| url.scheme().to_owned());
        assert!(!scheme.is_ok_and(|scheme| UNSAFE.contains(&scheme.as_str())), "{name}={value}");
    }
}

pub fn hostile() -> Vec<Vec<u8>> {
    let formats: String = (0..300).map(|at| format!("<b id={at}>")).collect();
    vec![
        repeated("", "<a href=x>", 5_000, ""),
        repeated("", "<div>", 5_000, ""),
        repeated("", "<div><table><td></div></table>", 500, ""),
        repeated(&format!("<p>{formats}"), "<p>x</p>", 300, ""),
        repeated("<p", " a=1", 5_000, ">x"),
        repeated("", &format!("<p{}>", " a b c d e f g h i j".repeat(20)), 2_600, "x"),
        repeated("", "<i>", 126_000, "x"),
        repeated("", "<div class=row>", 400, &"word ".repeat(3_000)),
        repeated("<table>", "<tr><td>x", 2_000, ""),
        repeated("<ul>", "<li class=row>x", 10_001, ""),
        repeated("", "<select><b><option>", 2_000, ""),
        repeated("", "&amp", 10_000, ""),
        repeated("<script>", "<!--<script>", 2_000, ""),
        repeated("", "<link rel=alternate type=application/rss+xml href=x>", 2_000, ""),
    ]
}

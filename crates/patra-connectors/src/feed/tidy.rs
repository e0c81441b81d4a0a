//! HTML to balanced HTML of few known tags, token by token. What comes out is safe by the way it is made: each `<` in
//! it begins a tag of the list, each value is quoted and escaped, each address has a scheme of the list, and no tag of
//! the list makes a browser read by other rules. It takes linear time and builds no tree: one that is built as the
//! standard says can be made to grow far larger than its input. Of what comes out it cannot, because every element is
//! closed in order, where the standard would close it, and none nests deep.

use url::Url;

use super::entity::{self, EntityContext};
use super::links;
use super::sanitise::escape_into;
use super::tag::{self, ElementName, ElementNameSet};
use super::token::{Attributes, MarkupToken, MarkupTokens};

/// How many times its size a text may grow by its tags, and what any text may grow by; tags beyond that are dropped, their
/// text stays.
const MAX_GROWTH: usize = 2;
const FREE_BYTES: usize = 16 * 1024;
/// Deepest nesting that is kept; tags below it are dropped, their text stays.
const MAX_NESTING: usize = 64;

const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("*", &["title", "lang", "dir"]),
    ("a", &["href", "hreflang"]),
    ("audio", &["src", "controls"]),
    ("blockquote", &["cite"]),
    ("del", &["cite", "datetime"]),
    ("img", &["src", "alt", "width", "height"]),
    ("ins", &["cite", "datetime"]),
    ("li", &["value"]),
    ("ol", &["start", "reversed", "type"]),
    ("q", &["cite"]),
    ("td", &["colspan", "rowspan"]),
    ("th", &["colspan", "rowspan", "scope"]),
    ("time", &["datetime"]),
    ("video", &["src", "poster", "controls", "width", "height"]),
];
/// Attributes that hold an address.
const ADDRESSES: [&str; 4] = ["href", "src", "cite", "poster"];
/// Parts of a table, and where nothing else may stand.
const TABLE_PARTS: ElementNameSet =
    ElementNameSet::of(&["caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"]);
const TABLE_FRAMES: ElementNameSet = ElementNameSet::of(&["table", "tbody", "tfoot", "thead", "tr", "colgroup"]);
const TABLE: ElementNameSet = ElementNameSet::of(&["table"]);
/// Inside these, what was opened outside stays open.
const WALLS: ElementNameSet = ElementNameSet::of(&["caption", "table", "td", "th"]);
const LISTS: ElementNameSet = ElementNameSet::of(&["ul", "ol", "dl", "caption", "table", "td", "th"]);
const ROW_WALLS: ElementNameSet = ElementNameSet::of(&["table", "tr"]);
const GROUP_WALLS: ElementNameSet = ElementNameSet::of(&["table", "tbody", "thead", "tfoot"]);
const PARAGRAPH: ElementNameSet = ElementNameSet::of(&["p"]);
const ITEM: ElementNameSet = ElementNameSet::of(&["li"]);
const TERMS: ElementNameSet = ElementNameSet::of(&["dd", "dt"]);
const LINK: ElementNameSet = ElementNameSet::of(&["a"]);
const CELLS: ElementNameSet = ElementNameSet::of(&["td", "th", "caption"]);
const ROWS: ElementNameSet = ElementNameSet::of(&["tr", "caption", "colgroup"]);
const GROUPS: ElementNameSet = ElementNameSet::of(&["tbody", "thead", "tfoot", "caption", "colgroup"]);
const HEADINGS: ElementNameSet = ElementNameSet::of(&["h1", "h2", "h3", "h4", "h5", "h6"]);
const VOID: ElementNameSet = ElementNameSet::of(&["br", "col", "hr", "img"]);

pub(super) fn tidy(html: &str, base: &Url) -> String {
    let mut tidy = HtmlTidier { out: String::with_capacity(html.len()), open: Vec::new(), base };
    let mut tokens = MarkupTokens::new(html);
    let most = MAX_GROWTH * html.len() + FREE_BYTES;
    while let Some(token) = tokens.next() {
        match token {
            MarkupToken::Text(text) => escape_into(&entity::resolve(text, EntityContext::Text), &mut tidy.out),
            MarkupToken::Raw(text) => escape_into(text, &mut tidy.out),
            MarkupToken::Start { name, .. } if tidy.out.len() > most => {
                if tag::is_silent(&name.to_ascii_lowercase()) {
                    tokens.skip_to_end_of(name);
                }
            }
            MarkupToken::Start { name, attributes, empty } => match ElementName::named(name) {
                Some(tag) => tidy.start(tag, attributes, empty),
                None if !empty && tag::is_silent(&name.to_ascii_lowercase()) => {
                    tokens.skip_to_end_of(name);
                }
                None => {}
            },
            MarkupToken::End(name) => {
                if let Some(tag) = ElementName::named(name) {
                    tidy.close_to(tag.alone(), WALLS);
                }
            }
            MarkupToken::Doctype(_) | MarkupToken::Other => {}
        }
    }
    while tidy.close() {}
    tidy.out
}

struct HtmlTidier<'u> {
    out: String,
    open: Vec<ElementName>,
    base: &'u Url,
}

impl HtmlTidier<'_> {
    fn start(&mut self, tag: ElementName, attributes: Attributes<'_>, empty: bool) {
        self.make_room(tag);
        // Elements that the standard would move elsewhere are dropped.
        let misplaced = if TABLE_PARTS.has(tag) {
            !self.open.iter().any(|open| TABLE.has(*open))
        } else {
            self.open.last().is_some_and(|open| TABLE_FRAMES.has(*open))
        };
        if misplaced || self.open.len() >= MAX_NESTING || (tag.name() == "img" && is_tracker(attributes)) {
            return;
        }
        self.out.push('<');
        self.out.push_str(tag.name());
        self.attributes(tag.name(), attributes);
        self.out.push('>');
        if VOID.has(tag) {
            return;
        }
        self.open.push(tag);
        if empty {
            self.close();
        }
    }

    /// Closes what the standard closes when this tag begins.
    fn make_room(&mut self, tag: ElementName) {
        for (begins, closes, walls) in [
            (ITEM, ITEM, LISTS),
            (TERMS, TERMS, LISTS),
            (LINK, LINK, WALLS),
            (CELLS, CELLS, ROW_WALLS),
            (ROWS, ROWS, GROUP_WALLS),
            (GROUPS, GROUPS, TABLE),
            (HEADINGS, HEADINGS, WALLS),
            (tag::BLOCKS, PARAGRAPH, WALLS),
        ] {
            if begins.has(tag) {
                self.close_to(closes, walls);
            }
        }
    }

    /// Closes up to the innermost of `tags`, if no wall stands between.
    fn close_to(&mut self, tags: ElementNameSet, walls: ElementNameSet) {
        let inner = self.open.iter().rposition(|open| tags.has(*open) || walls.has(*open));
        let Some(at) = inner.filter(|at| tags.has(self.open[*at])) else { return };
        while self.open.len() > at {
            self.close();
        }
    }

    fn close(&mut self) -> bool {
        let Some(tag) = self.open.pop() else { return false };
        self.out.push_str("</");
        self.out.push_str(tag.name());
        self.out.push('>');
        true
    }

    fn attributes(&mut self, tag: &str, attributes: Attributes<'_>) {
        let allowed = |name: &str| {
            let of =
                |wanted: &str| ATTRIBUTES.iter().find(|(tag, _)| *tag == wanted).map_or(&[][..], |(_, names)| *names);
            [of(tag), of("*")].into_iter().flatten().find(|known| known.eq_ignore_ascii_case(name)).copied()
        };
        let mut written: Vec<&str> = Vec::new();
        for (name, value) in attributes {
            let Some(name) = allowed(name).filter(|name| !written.contains(name)) else { continue };
            let value = entity::resolve(value, EntityContext::Attribute);
            let value = if ADDRESSES.contains(&name) { self.address(&value) } else { Some(value.into_owned()) };
            let Some(value) = value else { continue };
            written.push(name);
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            let from = self.out.len();
            escape_into(&value, &mut self.out);
            if value.contains('"') {
                let quoted = self.out.split_off(from).replace('"', "&quot;");
                self.out.push_str(&quoted);
            }
            self.out.push('"');
        }
    }

    fn address(&self, written: &str) -> Option<String> {
        links::absolute(written, self.base)
    }
}

/// A picture of one pixel or none counts readers.
fn is_tracker(attributes: Attributes<'_>) -> bool {
    let tiny = |name: &str| attributes.get(name).is_some_and(|size| matches!(size.trim_end_matches("px"), "0" | "1"));
    tiny("width") && tiny("height")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[track_caller]
    fn check(html: &str, expected: &str) {
        assert_eq!(tidy(html, &Url::parse("http://example.org/").unwrap()), expected);
    }

    #[test]
    fn everything_is_closed_in_order() {
        check("<b><i>x</b>y</i>", "<b><i>x</i></b>y");
        check("<p><b>x<p>y", "<p><b>x</b></p><p>y</p>");
        check("<ul><li>a<ul><li>b</ul><li>c</ul>", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>");
        check("<table><b>x<tr><td>y</b><td>z</table>", "<table>x<tr><td>y</td><td>z</td></tr></table>");
        check("</b>x<td>y", "xy");
        check("<h1>a<h2>b", "<h1>a</h1><h2>b</h2>");
    }

    #[test]
    fn deep_nesting_loses_its_tags_and_keeps_its_text() {
        let html = format!("{}x", "<b>".repeat(1_000));
        let tidied = tidy(&html, &Url::parse("http://example.org/").unwrap());
        assert_eq!(tidied.matches("<b>").count(), MAX_NESTING);
        assert!(tidied.contains('x'));
    }

    #[test]
    fn text_does_not_grow_without_end_by_its_addresses() {
        let base = Url::parse(&format!("http://example.org/{}/", "x".repeat(8_000))).unwrap();
        let html = format!("{}the end", "<a href=x>l</a>".repeat(10_000));
        let tidied = tidy(&html, &base);
        assert!(tidied.len() <= 3 * html.len() + 32 * 1024, "{}", tidied.len());
        assert!(tidied.ends_with("the end") && tidied.contains("</a>"));
    }

    /// Names and numbers of the tags and attributes; what a parser adds to tables left out.
    fn counted(html: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for token in MarkupTokens::new(html) {
            let MarkupToken::Start { name, attributes, .. } = token else { continue };
            if !["tbody", "tr", "colgroup"].contains(&name) {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
            for (attribute, _) in attributes {
                *counts.entry(format!("{name} {attribute}")).or_default() += 1;
            }
        }
        counts
    }

    fn judge() -> ammonia::Builder<'static> {
        let mut judge = ammonia::Builder::empty();
        let of = |wanted: fn(&str) -> bool| ATTRIBUTES.iter().filter(move |(tag, _)| wanted(tag));
        judge
            .tags(tag::TAGS.into_iter().collect())
            .tag_attributes(of(|tag| tag != "*").map(|(tag, names)| (*tag, names.iter().copied().collect())).collect())
            .generic_attributes(of(|tag| tag == "*").flat_map(|(_, names)| names.iter().copied()).collect())
            .url_schemes(links::SCHEMES.into_iter().collect())
            .url_relative(ammonia::UrlRelative::Deny)
            .link_rel(None);
        judge
    }

    /// Ammonia reads HTML as browsers do. It must find nothing to remove, whatever came in.
    #[test]
    fn a_browser_finds_nothing_that_is_not_on_the_lists() {
        let parts = [
            "<b>",
            "</b>",
            "<p>",
            "</p>",
            "<a href='javascript:x'>",
            "<a href=y title='\"><script>'>",
            "</a>",
            "<table>",
            "</table>",
            "<tr>",
            "<td>",
            "</td>",
            "<li>",
            "<ul>",
            "</ul>",
            "<script>",
            "</script>",
            "<svg>",
            "<math>",
            "<style>",
            "</style>",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "&lt;",
            "&#x3c;script&#x3e;",
            "x",
            "<img src=z onerror=y>",
            "<img src='",
            "\"",
            "'",
            ">",
            "<",
            "=",
            "<title>",
            "<textarea>",
            "</textarea>",
            "<select>",
            "<option>",
            "<noscript>",
            "<h1>",
            "</h1>",
            "<dl>",
            "<dd>",
            "<form>",
            "<iframe srcdoc='<script>'>",
            "<template>",
            "<a href='&#1;javascript:x'>",
            "<video src=v poster=p>",
            "\n",
            " ",
            "é",
            "<ruby>",
            "<rt>",
            "<details>",
            "<summary>",
            "<pre>",
            "<q cite='vbscript:x'>",
        ];
        let (base, judge) = (Url::parse("http://example.org/").unwrap(), judge());
        let mut state = 1_u32;
        for _ in 0..3_000 {
            let mut html = String::new();
            for _ in 0..24 {
                // Numerical Recipes' generator: the same cases each time.
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                html.push_str(parts[usize::try_from(state >> 8).unwrap() % parts.len()]);
            }
            let tidied = tidy(&html, &base);
            let judged = judge.clean(&tidied).to_string();
            let left = counted(&judged);
            // A parser may add a paragraph where one was closed; what it takes away must be nothing.
            let removed = |(what, times): (&String, &usize)| left.get(what).is_none_or(|left| left < times);
            assert!(!counted(&tidied).iter().any(removed), "{html}\n{tidied}\n{judged}");
        }
    }
}

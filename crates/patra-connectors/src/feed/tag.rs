//! The tags of HTML that may be shown, and sets of them.

/// The allowed tags, in order.
pub(super) const TAGS: [&str; 77] = [
    "a",
    "abbr",
    "acronym",
    "address",
    "article",
    "aside",
    "audio",
    "b",
    "bdi",
    "bdo",
    "big",
    "blockquote",
    "br",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "colgroup",
    "dd",
    "del",
    "details",
    "dfn",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "main",
    "mark",
    "nav",
    "ol",
    "p",
    "picture",
    "pre",
    "q",
    "rp",
    "rt",
    "ruby",
    "s",
    "samp",
    "section",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "time",
    "tr",
    "tt",
    "u",
    "ul",
    "var",
    "video",
];
/// Tags whose content is not meant to be read, or is read by other rules.
const SILENT: [&str; 13] = [
    "applet",
    "frameset",
    "head",
    "noembed",
    "noframes",
    "plaintext",
    "script",
    "select",
    "style",
    "svg",
    "template",
    "textarea",
    "xmp",
];

/// Tags that begin a line, and end an open paragraph.
pub(super) const BLOCKS: ElementNameSet = ElementNameSet::of(&[
    "address",
    "article",
    "aside",
    "blockquote",
    "caption",
    "center",
    "colgroup",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
]);

/// A tag of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ElementName(u8);

impl ElementName {
    /// The tag as it is known, in any case.
    pub(super) fn named(name: &str) -> Option<ElementName> {
        let lower;
        let name = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lower = name.to_ascii_lowercase();
            lower.as_str()
        } else {
            name
        };
        TAGS.binary_search(&name).ok().and_then(|at| u8::try_from(at).ok()).map(ElementName)
    }

    pub(super) fn name(self) -> &'static str {
        TAGS[usize::from(self.0)]
    }

    pub(super) fn alone(self) -> ElementNameSet {
        ElementNameSet(1 << self.0)
    }
}

/// Some tags of the list, a bit for each.
#[derive(Debug, Clone, Copy)]
pub(super) struct ElementNameSet(u128);

impl ElementNameSet {
    /// The tags of these names. One that is not on the list does not compile.
    pub(super) const fn of(names: &[&str]) -> ElementNameSet {
        let (mut bits, mut at) = (0, 0);
        while at < names.len() {
            bits |= 1 << position(names[at].as_bytes());
            at += 1;
        }
        ElementNameSet(bits)
    }

    pub(super) const fn has(self, tag: ElementName) -> bool {
        self.0 >> tag.0 & 1 == 1
    }
}

const fn position(name: &[u8]) -> usize {
    let mut at = 0;
    while !same(TAGS[at].as_bytes(), name) {
        at += 1;
    }
    at
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    let mut at = 0;
    while at < left.len() && at < right.len() && left[at] == right[at] {
        at += 1;
    }
    at == left.len() && at == right.len()
}

pub(super) fn is_silent(name: &str) -> bool {
    SILENT.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_fits_a_set() {
        assert!(TAGS.is_sorted() && TAGS.len() <= 128);
        assert!(SILENT.iter().all(|tag| ElementName::named(tag).is_none()));
        assert!(BLOCKS.has(ElementName::named("DIV").unwrap()) && !BLOCKS.has(ElementName::named("b").unwrap()));
    }
}

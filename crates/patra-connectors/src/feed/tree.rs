//! XML to a tree of elements, forgiving. Names are lower-case, with one prefix per known namespace, whatever the
//! document calls it; so `<dc:creator>` is `dc:creator` even where it is written `<x:Creator>`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::entity::Entities;
use super::token::{Attributes, MarkupToken, MarkupTokens};
use super::{FeedError, FeedLimit};

/// Most elements inside elements.
pub const MAX_DEPTH: usize = 256;
/// Most elements of a document.
pub const MAX_ELEMENTS: usize = 250_000;
/// Most prefixes in force at one element; further ones are used as they are written.
const MAX_PREFIXES: usize = 256;

/// Namespaces by what their URI holds in lower case; the first that fits counts. Feeds write them with and without
/// slashes, versions and `www`. An empty prefix is the feed's own vocabulary.
const NAMESPACES: &[(&str, &str)] = &[
    ("purl.org/dc/elements", "dc"),
    ("purl.org/dc/terms", "dcterms"),
    ("purl.org/rss/1.0/modules/content", "content"),
    ("purl.org/rss/1.0/modules/slash", "slash"),
    ("purl.org/rss/1.0/modules/rss091", ""),
    ("purl.org/rss/1.0/modules/", "module"),
    ("purl.org/rss/1.0", ""),
    ("purl.org/net/rss1.1", ""),
    ("search.yahoo.com/mrss", "media"),
    ("podcast-1.0.dtd", "itunes"),
    ("podcastindex.org/namespace", "podcast"),
    ("rssnamespace.org/feedburner", "feedburner"),
    ("w3.org/1999/02/22-rdf-syntax", "rdf"),
    ("w3.org/1999/xhtml", "xhtml"),
    ("w3.org/2005/atom", ""),
    ("purl.org/atom", ""),
    ("purl.org/pie", ""),
    ("purl.org/echo", ""),
    ("example.com/necho", ""),
    ("example.com/newformat", ""),
    ("uri/of/echo/namespace", ""),
    ("backend.userland.com/rss", ""),
    ("blogs.law.harvard.edu/tech/rss", ""),
    ("my.netscape.com/rdf/simple", ""),
];

/// Elements of HTML that never have an end tag.
pub(super) const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];

#[derive(Debug)]
pub(super) enum TreeNode<'a> {
    Element(TreeElement<'a>),
    Text(Cow<'a, str>),
}

#[derive(Debug, Default)]
pub(super) struct TreeElement<'a> {
    /// Shared by all elements of the name. `None`: the document.
    name: Option<Rc<str>>,
    attributes: Attributes<'a>,
    pub(super) children: Vec<TreeNode<'a>>,
    /// The document ended inside this element.
    pub(super) cut: bool,
}

impl<'a> TreeElement<'a> {
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The attribute, if it has a value.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        self.attributes.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    pub(super) fn attributes(&self) -> Attributes<'a> {
        self.attributes
    }

    pub(super) fn elements(&self) -> impl Iterator<Item = &TreeElement<'a>> {
        self.children.iter().filter_map(|child| match child {
            TreeNode::Element(element) => Some(element),
            TreeNode::Text(_) => None,
        })
    }

    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &TreeElement<'a>> {
        self.elements().filter(move |element| element.name() == name)
    }

    /// The name without its prefix.
    pub(super) fn local_name(&self) -> &str {
        self.name().rsplit(':').next().unwrap_or_default()
    }

    /// All text inside, trimmed.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.collect(&mut text);
        let trimmed = text.trim();
        if trimmed.len() == text.len() { text } else { trimmed.to_owned() }
    }

    fn collect(&self, out: &mut String) {
        for child in &self.children {
            match child {
                TreeNode::Element(element) => element.collect(out),
                TreeNode::Text(text) => out.push_str(text),
            }
        }
    }
}

/// The document as an element without a name, and whether it ended inside another.
pub(super) fn parse(text: &str) -> Result<(TreeElement<'_>, bool), FeedError> {
    let mut builder = TreeBuilder { stack: vec![TreeElement::default()], ..TreeBuilder::default() };
    for token in MarkupTokens::new(text) {
        builder.take(token)?;
    }
    let truncated = builder.stack.len() > 1;
    while let Some(open) = builder.stack.last_mut().filter(|_| builder.written.last().is_some()) {
        open.cut = true;
        builder.close();
    }
    Ok((builder.stack.pop().unwrap_or_default(), truncated))
}

#[derive(Debug, Default)]
struct TreeBuilder<'a> {
    /// The open elements, the document first.
    stack: Vec<TreeElement<'a>>,
    /// Names as they are written, for the end tags.
    written: Vec<&'a str>,
    /// Namespaces of prefixes, with the depth of their declaration.
    prefixes: Vec<(usize, &'a str, Option<&'static str>)>,
    names: BTreeMap<&'a str, Rc<str>>,
    entities: Entities,
    elements: usize,
}

impl<'a> TreeBuilder<'a> {
    fn take(&mut self, token: MarkupToken<'a>) -> Result<(), FeedError> {
        match token {
            MarkupToken::Start { name, attributes, empty } => self.open(name, attributes, empty)?,
            MarkupToken::End(name) => self.end(name),
            MarkupToken::Text(text) => {
                let text = self.entities.resolve(text)?;
                self.push(TreeNode::Text(text));
            }
            MarkupToken::Raw(text) => self.push(TreeNode::Text(Cow::Borrowed(text))),
            MarkupToken::Doctype(text) => self.entities.learn(text),
            MarkupToken::Other => {}
        }
        Ok(())
    }

    fn push(&mut self, node: TreeNode<'a>) {
        let Some(parent) = self.stack.last_mut() else { return };
        match (parent.children.last_mut(), node) {
            // Text in many pieces is joined: a node for each piece would be larger than the piece.
            (Some(TreeNode::Text(before)), TreeNode::Text(more)) => before.to_mut().push_str(&more),
            (_, node) => {
                // Most elements have one child.
                if parent.children.is_empty() {
                    parent.children.reserve_exact(1);
                }
                parent.children.push(node);
            }
        }
    }

    fn open(&mut self, name: &'a str, attributes: Attributes<'a>, empty: bool) -> Result<(), FeedError> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(FeedLimit::Elements.into());
        }
        let depth = self.stack.len();
        if attributes.mention("xmlns") {
            self.declare(depth, attributes);
        }
        let name_here = self.canonical(name);
        let void = !name_here.contains(':') && !matches!(&*name_here, "link" | "source");
        let empty = empty || (void && VOID.contains(&&*name_here) && self.inside_text());
        self.stack.push(TreeElement { name: Some(name_here), attributes, ..TreeElement::default() });
        self.written.push(name);
        if empty {
            self.close();
        } else if depth >= MAX_DEPTH {
            return Err(FeedLimit::Depth.into());
        }
        Ok(())
    }

    /// Whether HTML is expected: inside an element of a feed's entry or head.
    fn inside_text(&self) -> bool {
        self.stack.len() > 3
    }

    fn declare(&mut self, depth: usize, attributes: Attributes<'a>) {
        for (name, uri) in attributes {
            let prefix = match name.split_once(':') {
                Some(("xmlns", prefix)) => prefix,
                None if name == "xmlns" => "",
                _ => continue,
            };
            if self.prefixes.len() == MAX_PREFIXES {
                return;
            }
            let uri = uri.to_ascii_lowercase();
            let known = NAMESPACES.iter().find(|(part, _)| uri.contains(part)).map(|(_, prefix)| *prefix);
            self.prefixes.push((depth, prefix, known));
            self.names.clear();
        }
    }

    fn canonical(&mut self, written: &'a str) -> Rc<str> {
        if let Some(known) = self.names.get(written) {
            return Rc::clone(known);
        }
        let (prefix, local) = written.split_once(':').unwrap_or(("", written));
        let declared =
            self.prefixes.iter().rev().find(|(_, known, _)| *known == prefix).and_then(|(_, _, known)| *known);
        let prefix = declared.map_or_else(|| prefix.to_ascii_lowercase(), str::to_owned);
        let local = local.to_ascii_lowercase();
        let name: Rc<str> = if prefix.is_empty() { local } else { format!("{prefix}:{local}") }.into();
        self.names.insert(written, Rc::clone(&name));
        name
    }

    /// Closes up to the element of this name; an end tag without a start tag is ignored.
    fn end(&mut self, name: &str) {
        let Some(at) = self.written.iter().rposition(|open| open.eq_ignore_ascii_case(name)) else { return };
        while self.written.len() > at {
            self.close();
        }
    }

    fn close(&mut self) {
        self.written.pop();
        if let Some(element) = self.stack.pop() {
            self.push(TreeNode::Element(element));
        }
        let depth = self.stack.len();
        if self.prefixes.last().is_some_and(|(declared, _, _)| *declared >= depth) {
            self.prefixes.retain(|(declared, _, _)| *declared < depth);
            self.names.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(element: &TreeElement<'_>) -> String {
        let children = element.children.iter().map(|child| match child {
            TreeNode::Element(element) => shown(element),
            TreeNode::Text(text) => text.clone().into_owned(),
        });
        format!("{}({})", element.name(), children.collect::<String>())
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(shown(&parse(text).unwrap().0), expected);
    }

    #[test]
    fn namespaces_have_one_prefix_each() {
        check("<a xmlns:x='http://purl.org/dc/elements/1.1/'><x:Creator>b</x:Creator></a>", "(a(dc:creator(b)))");
        check("<dc:date/><my:own/>", "(dc:date()my:own())");
        check("<a><b xmlns='http://www.w3.org/1999/xhtml'><c/></b><b/></a>", "(a(xhtml:b(xhtml:c())b()))");
        check("<atom:link xmlns:atom='http://www.w3.org/2005/Atom'/>", "(link())");
    }

    #[test]
    fn wrong_ends_are_forgiven() {
        check("<a><b>c</a>d", "(a(b(c))d)");
        check("<a></b>c</a>", "(a(c))");
        check("<a>b", "(a(b))");
    }

    // covers: COLL-125
    #[test]
    fn limits_are_named() {
        let deep = "<a>".repeat(5_000_000);
        assert!(parse(&deep).unwrap_err().to_string().contains("256"));
        let many = "<a/>".repeat(MAX_ELEMENTS + 1);
        assert!(parse(&many).unwrap_err().to_string().contains("250000"));
    }
}

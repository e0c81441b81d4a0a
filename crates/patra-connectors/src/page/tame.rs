//! Rewrites markup in one plain form, for a parser whose time grows with the square of a tag's attributes. It is read
//! by forgiving rules and written by strict ones, so the parser sees no tag that was not counted here.

use std::fmt::Write as _;

use super::HtmlPageError;
use crate::feed::markup::{Attributes, EntityContext, MarkupToken, MarkupTokens, escape_into, resolve};

/// Most attributes of one tag; more are left out.
pub const MAX_ATTRIBUTES: usize = 256;
/// Most attributes of all tags of a page.
pub const MAX_PAGE_ATTRIBUTES: usize = 500_000;
/// Elements that are dropped with their content, unless it is data.
const DROPPED: [&str; 3] = ["script", "style", "template"];
/// Elements that occur once in a page. A parser adds the attributes of each repetition to the first.
const ONCE: [&str; 3] = ["html", "head", "body"];

pub(super) fn tame(html: &str) -> Result<String, HtmlPageError> {
    let mut out = String::with_capacity(html.len());
    let mut seen = [false; ONCE.len()];
    let mut in_data = false;
    let mut written = 0;
    let mut tokens = MarkupTokens::new(html);
    while let Some(token) = tokens.next() {
        match token {
            MarkupToken::Text(text) => escape_into(&resolve(text, EntityContext::Text), &mut out),
            MarkupToken::Raw(text) => escape_into(text, &mut out),
            MarkupToken::Start { name, attributes, empty } => {
                let name = name.to_ascii_lowercase();
                if let Some(at) = ONCE.iter().position(|once| *once == name) {
                    if std::mem::replace(&mut seen[at], true) {
                        continue;
                    }
                } else if name == "plaintext" || !is_name(&name) {
                    continue;
                }
                let data = || attributes.get("type").is_some_and(|kind| kind.contains("json"));
                if !empty && DROPPED.contains(&name.as_str()) && !(name == "script" && data()) {
                    tokens.skip_to_end_of(&name);
                    continue;
                }
                written += write_tag(&name, attributes, empty, &mut out);
                if written > MAX_PAGE_ATTRIBUTES {
                    return Err(HtmlPageError::TooManyAttributes);
                }
                in_data = name == "script";
                if in_data {
                    out.push_str(tokens.skip_to_end_of("script"));
                }
            }
            MarkupToken::End(name)
                if is_name(name) && (in_data || !DROPPED.iter().any(|dropped| dropped.eq_ignore_ascii_case(name))) =>
            {
                in_data = false;
                let _ = write!(out, "</{name}>");
            }
            MarkupToken::Doctype(_) => out.push_str("<!DOCTYPE html>"),
            MarkupToken::End(_) | MarkupToken::Other => {}
        }
    }
    Ok(out)
}

/// Writes a tag; returns the number of its attributes.
fn write_tag(name: &str, attributes: Attributes<'_>, empty: bool, out: &mut String) -> usize {
    let mut count = 0;
    out.push('<');
    out.push_str(name);
    for (name, value) in attributes.into_iter().filter(|(name, _)| is_name(name)).take(MAX_ATTRIBUTES) {
        count += 1;
        let mut escaped = String::new();
        escape_into(&resolve(value, EntityContext::Attribute), &mut escaped);
        let _ = write!(out, " {name}=\"{}\"", escaped.replace('"', "&quot;"));
    }
    // In SVG and MathML an empty tag closes its element.
    out.push_str(if empty { "/>" } else { ">" });
    count
}

fn is_name(name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | '@');
    !name.is_empty() && name.chars().all(part)
}

#[cfg(test)]
mod tests {
    fn tame(html: &str) -> String {
        super::tame(html).unwrap()
    }

    #[test]
    fn markup_is_written_in_one_spelling() {
        assert_eq!(
            tame("<!doctype x><P CLASS=a b='c\"d'>1 < 2 &lt; &eacute;</p\n>"),
            "<!DOCTYPE html><p CLASS=\"a\" b=\"c&quot;d\">1 &lt; 2 &lt; é</p>"
        );
        assert_eq!(tame("a<script>'<b x=\"'</script><!-- <i> -->b<br/>"), "ab<br/>");
        assert_eq!(
            tame("<script type='application/ld+json'>{\"a\":1}</script>"),
            "<script type=\"application/ld+json\">{\"a\":1}</script>"
        );
        assert_eq!(tame("<body a><body b>x"), "<body a=\"\">x");
    }

    #[test]
    fn a_tag_has_so_many_attributes_and_no_more() {
        let many: String = (0..100_000).map(|at| format!(" a{at}")).collect();
        assert_eq!(tame(&format!("<p{many}>")).matches('=').count(), super::MAX_ATTRIBUTES);
    }
}

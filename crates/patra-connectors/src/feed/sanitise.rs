//! Untrusted HTML to safe HTML, and to text.

use url::Url;

use super::entity::{self, EntityContext};
use super::tag::{self, BLOCKS, ElementName};
use super::tidy;
use super::token::{MarkupToken, MarkupTokens};

/// HTML that is safe to show: known tags and attributes only, no script, addresses absolute. Takes linear time.
pub fn clean(html: &str, base: &Url) -> String {
    if memchr::memchr3(b'<', b'&', b'>', html.as_bytes()).is_none() {
        return html.to_owned();
    }
    // Some feeds wrap CDATA twice.
    if memchr::memmem::find(html.as_bytes(), b"<![CDATA[").is_some() {
        let unwrapped = html.replace("<![CDATA[", "").replace("]]>", "").replace("]]&gt;", "");
        return tidy::tidy(&unwrapped, base);
    }
    tidy::tidy(html, base)
}

/// The text without markup; blocks stand on lines of their own.
pub fn plain(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut tokens = MarkupTokens::new(html);
    while let Some(token) = tokens.next() {
        match token {
            MarkupToken::Text(text) => out.push_str(&entity::resolve(text, EntityContext::Text)),
            MarkupToken::Raw(text) => out.push_str(text),
            MarkupToken::Start { name, empty, .. } => {
                let name = name.to_ascii_lowercase();
                if tag::is_silent(&name) && !empty {
                    tokens.skip_to_end_of(&name);
                }
                break_line(&name, &mut out);
            }
            MarkupToken::End(name) => break_line(&name.to_ascii_lowercase(), &mut out),
            MarkupToken::Doctype(_) | MarkupToken::Other => {}
        }
    }
    out
}

fn break_line(name: &str, out: &mut String) {
    let breaks = name == "br" || ElementName::named(name).is_some_and(|tag| BLOCKS.has(tag));
    if breaks && !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

/// Whether HTML has a tag of this name that may be shown.
pub(super) fn is_known(name: &str) -> bool {
    ElementName::named(name).is_some()
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_into(text, &mut out);
    out
}

pub(crate) fn escape_into(text: &str, out: &mut String) {
    let mut from = 0;
    for at in memchr::memchr3_iter(b'<', b'>', b'&', text.as_bytes()) {
        out.push_str(&text[from..at]);
        out.push_str(match text.as_bytes()[at] {
            b'<' => "&lt;",
            b'>' => "&gt;",
            _ => "&amp;",
        });
        from = at + 1;
    }
    out.push_str(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(html: &str, expected: &str) {
        let base = Url::parse("http://example.org/a/").unwrap();
        assert_eq!(clean(html, &base), expected);
    }

    #[test]
    fn safe_markup_stays() {
        check("<p>a <b>b</b><br/>c</p>", "<p>a <b>b</b><br>c</p>");
        check("<a href='x?y=1&amp;z'>t</a>", "<a href=\"http://example.org/a/x?y=1&amp;z\">t</a>");
        check("<img src=/i.png alt='a\"b' onerror=x()>", "<img src=\"http://example.org/i.png\" alt=\"a&quot;b\">");
        check("<ul><li>a<li>b</ul>", "<ul><li>a</li><li>b</li></ul>");
        check("<table><tr><td>a</table>", "<table><tr><td>a</td></tr></table>");
        check("1 < 2 && 3 > 2 &eacute;", "1 &lt; 2 &amp;&amp; 3 &gt; 2 é");
        check("plain", "plain");
    }

    #[test]
    fn unsafe_markup_is_removed() {
        check("a<script>alert('<b>')</script>b", "ab");
        check("<SCRIPT SRC=//x.org/y></SCRIPT >z", "z");
        check("<a href='javascript:x()'>t</a>", "<a>t</a>");
        check("<a href='java\nscript:x()'>t</a>", "<a>t</a>");
        check("<a href='&#106;avascript:x()'>t</a>", "<a>t</a>");
        check("<svg><style><img src=x onerror=alert(1)></style></svg>t", "t");
        check("<p style='position:fixed' onclick=x class=c id=i>t</p>", "<p>t</p>");
        check("<iframe src='http://x.org'>i</iframe><embed src=x>t", "it");
        check("<!--[if IE]><b>x</b><![endif]-->t", "t");
        check("<img src='http://t.org/p.gif' width=1 height=1>t", "t");
        check("<x-y>t</x-y><form action=z>f</form>", "tf");
        check("<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>", "<table></table>");
        check("<![CDATA[<script>x()</script><b>t</b>]]>", "<b>t</b>");
        check("<b", "&lt;b");
    }

    #[test]
    fn plain_text_keeps_words_and_lines_apart() {
        assert_eq!(plain("<p>a &lt;b&gt;</p><p>c<script>d</script><br>e"), "a <b>\nc\ne");
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
    }

    // covers: COLL-125
    #[test]
    fn markup_that_is_made_to_grow_does_not() {
        let many = |what: &str, times: usize| what.repeat(times);
        let formats: String = (0..1_000).map(|at| format!("<b title={at}>")).collect();
        let hostile = [
            many("<div>", 20_000),
            formats.clone() + &many("<p>x", 10_000),
            format!("<p>{formats}") + &many("<p>x</p>", 10_000),
            format!("<table>{formats}") + &many("<tr></tr>x", 10_000),
            many("<div><table><td></div></table>", 10_000),
            many("<a href=x>", 10_000),
            many("<table><tr><td>", 20_000),
            many("</p>", 20_000),
            many("<!--", 20_000),
            many("<a b='", 20_000),
            many("&", 20_000),
            many("<ul><li>", 10_000),
            many("<select><b><option>", 20_000),
        ];
        let base = Url::parse("http://example.org/").unwrap();
        for html in hostile {
            let cleaned = clean(&html, &base);
            assert!(cleaned.len() <= 8 * html.len(), "{}: {} to {}", &html[..20], html.len(), cleaned.len());
        }
    }
}

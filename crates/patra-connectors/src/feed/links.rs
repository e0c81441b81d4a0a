//! Addresses in a feed: made absolute, never a script, otherwise as they were written.

use std::borrow::Cow;

use url::Url;

use super::tree::TreeElement;

/// Schemes of addresses that may be shown as links. All others may run something, read local files or start programs.
pub(super) const SCHEMES: [&str; 9] = ["http", "https", "mailto", "ftp", "ftps", "magnet", "tel", "xmpp", "news"];

/// Longest address in a feed or a page; a longer one is left out. Each relative link repeats the address that it is
/// relative to.
pub const MAX_URL_BYTES: usize = 8_192;

/// The absolute address; `None` for an unsafe, invalid or too long one. An address that is absolute already stays unchanged,
/// because an identity may depend on it.
pub(super) fn absolute(written: &str, base: &Url) -> Option<String> {
    let written = written.trim();
    if written.is_empty() {
        return None;
    }
    if written.len() > MAX_URL_BYTES {
        return None;
    }
    match scheme(written) {
        Some(scheme) if SCHEMES.iter().any(|safe| scheme.eq_ignore_ascii_case(safe)) => Some(written.to_owned()),
        Some(_) => None,
        // The joined address may turn out to be absolute: control characters in front are ignored.
        None => {
            let joined = base.join(written).ok().filter(|url| SCHEMES.contains(&url.scheme()));
            joined.map(String::from).filter(|url| url.len() <= MAX_URL_BYTES)
        }
    }
}

/// The scheme, read as a browser does: it ignores line breaks and tabs inside.
pub(super) fn scheme(written: &str) -> Option<Cow<'_, str>> {
    let (scheme, _) = written.split_once(':')?;
    let scheme = if scheme.contains(['\t', '\n', '\r']) {
        Cow::Owned(scheme.replace(['\t', '\n', '\r'], ""))
    } else {
        Cow::Borrowed(scheme)
    };
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(part)).then_some(scheme)
}

/// A link that was escaped twice: `?a=1&amp;b=2`, or `?a=1&b;=2` as some repair it.
pub(super) fn unescaped(link: &str) -> String {
    let link = link.replace("&amp;", "&");
    let mut out = String::with_capacity(link.len());
    let mut parts = link.split('&');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push('&');
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        out.push_str(name);
        out.push_str(if name.is_empty() { rest } else { rest.strip_prefix(';').unwrap_or(rest) });
    }
    out
}

/// The base inside an element: its `xml:base`, if that is a safe address.
pub(super) fn base_of<'u>(element: &TreeElement<'_>, base: &'u Url) -> Cow<'u, Url> {
    if !element.attributes().mention("base") {
        return Cow::Borrowed(base);
    }
    let written = element.attribute("xml:base").or_else(|| element.attribute("base"));
    let joined = written
        .and_then(|written| base.join(&written).ok())
        .filter(|url| !url.cannot_be_a_base() && url.as_str().len() <= MAX_URL_BYTES);
    joined.map_or(Cow::Borrowed(base), Cow::Owned)
}

/// Relation of a `<link>`. Relations may be written as addresses of a registry.
pub(super) fn relation(element: &TreeElement<'_>) -> String {
    let rel = element.attribute("rel").unwrap_or_else(|| "alternate".to_owned()).to_ascii_lowercase();
    rel.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The address in an attribute, by any of its names.
pub(super) fn href(element: &TreeElement<'_>, base: &Url) -> Option<String> {
    let written = ["href", "url", "uri"].into_iter().find_map(|name| element.attribute(name))?;
    absolute(&written, base)
}

/// Links of one place, the best of which is kept: the first that leads to a page, else the first of any type.
#[derive(Debug, Default)]
pub(super) struct BestLink {
    page: Option<String>,
    other: Option<String>,
}

impl BestLink {
    pub(super) fn offer(&mut self, element: &TreeElement<'_>, base: &Url) {
        let Some(href) = href(element, base).or_else(|| absolute(&unescaped(&element.text()), base)) else { return };
        let kind = element.attribute("type").unwrap_or_else(|| "text/html".to_owned()).to_ascii_lowercase();
        let page = matches!(kind.as_str(), "text/html" | "application/xhtml+xml" | "html" | "xhtml");
        let place = if page { &mut self.page } else { &mut self.other };
        place.get_or_insert(href);
    }

    /// The address in the attributes of the described element, as in CDF.
    pub(super) fn offer_href(&mut self, element: &TreeElement<'_>, base: &Url) {
        let href = element.attribute("href").and_then(|href| absolute(&href, base));
        self.other = self.other.take().or(href);
    }

    pub(super) fn take(self) -> Option<String> {
        self.page.or(self.other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_absolute_and_stay_safe() {
        let base = Url::parse("http://example.org/a/b").unwrap();
        assert_eq!(absolute(" c?d ", &base).as_deref(), Some("http://example.org/a/c?d"));
        assert_eq!(absolute("HTTP://Example.com", &base).as_deref(), Some("HTTP://Example.com"));
        assert_eq!(absolute("//x.org/y", &base).as_deref(), Some("http://x.org/y"));
        assert_eq!(absolute("magnet:?xt=urn:btih:1", &base).as_deref(), Some("magnet:?xt=urn:btih:1"));
        for bad in [
            "javascript:alert(1)",
            "JavaScript:x",
            "java\nscript:x",
            "data:text/html,x",
            "\u{1}javascript:x",
            "ms-msdt:/id",
            "file:///etc/passwd",
            "intent://x#Intent;end",
            "view-source:javascript:x",
            "tag:a,2006:b",
            "",
        ] {
            assert_eq!(absolute(bad, &base), None, "{bad}");
        }
    }

    #[test]
    fn long_addresses_are_left_out() {
        let long = "x".repeat(MAX_URL_BYTES);
        let base = Url::parse("http://example.org/").unwrap();
        assert_eq!(absolute(&long, &base), None);
        assert_eq!(absolute(&format!("http://example.org/{long}"), &base), None);
        assert!(absolute(&long[40..], &base).is_some());
        let base = Url::parse(&format!("http://example.org/{}/", &long[40..])).unwrap();
        assert_eq!(absolute("a-relative-address-of-some-length", &base), None, "joined it is too long");
    }

    #[test]
    fn links_that_were_escaped_twice_are_fixed() {
        assert_eq!(unescaped("http://a/?b=1&amp;c=2&d;=3&e"), "http://a/?b=1&c=2&d=3&e");
    }
}

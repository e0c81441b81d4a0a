//! One form for all spellings of a URL (POOL-47 to 50, 122 to 124). A URL in normal form stays unchanged.

use memchr::memchr;
use url::{Host, Position, Url};

/// Longest URL that is kept, in its normal form.
pub const MAX_URL_BYTES: usize = 2048;
/// Longest URL that is read, as it is written: fragments, dot segments and escapes may go, and leave one that is kept.
pub const MAX_WRITTEN_BYTES: usize = 4 * MAX_URL_BYTES;
/// Longest host that a name server can know. So a domain has at most 255 characters.
pub const MAX_HOST_BYTES: usize = 253;
/// Longest part of a host between two dots.
const MAX_LABEL_BYTES: usize = 63;

/// Optional steps of normalising.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// Parameters that follow a reader instead of naming a page: `utm_*`, `gclid`, `fbclid`.
    pub remove_tracking: bool,
}

/// A URL in its normal form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NormalisedLink {
    pub url: String,
    /// The host without port and without one leading `www.`.
    pub domain: String,
}

/// Why a text is no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusableLink {
    #[error("it does not begin with http:// or https:// and a host")]
    Scheme,
    #[error("its host is no name or address that can exist")]
    Host,
    #[error("it is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    #[error("{0}")]
    Syntax(#[from] url::ParseError),
}

/// The normal form of a URL. White space around it does not count.
pub fn normalise(text: &str, options: LinkOptions) -> Result<NormalisedLink, UnusableLink> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    if !has_authority(text) {
        return Err(UnusableLink::Scheme);
    }
    if text.len() > MAX_WRITTEN_BYTES {
        return Err(UnusableLink::TooLong);
    }
    let parsed = anonymous(Url::parse(text)?)?;
    let domain = domain(&parsed)?;
    let mut url = String::with_capacity(parsed.as_str().len());
    url.push_str(&parsed[..Position::BeforePath]);
    tidy(parsed.path(), &mut url);
    // An empty query is removed, because a reader would take its mark for the end of a question.
    if let Some(query) = parsed.query().filter(|query| !query.is_empty()) {
        push_query(query, options, &mut url);
    }
    if url.len() > MAX_URL_BYTES {
        return Err(UnusableLink::TooLong);
    }
    Ok(NormalisedLink { url, domain })
}

/// Whether the URL has exactly two slashes. Parsers of the web forgive other numbers, but in a text that is a mistake.
fn has_authority(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let ours = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    ours && !rest.starts_with(['/', '\\', '\t', '\n', '\r'])
}

/// Without user name and password: no secret is stored (POOL-122).
fn anonymous(mut url: Url) -> Result<Url, UnusableLink> {
    if url.has_authority() && (!url.username().is_empty() || url.password().is_some()) {
        url.set_username("").map_err(|()| UnusableLink::Host)?;
        url.set_password(None).map_err(|()| UnusableLink::Host)?;
    }
    Ok(url)
}

fn domain(url: &Url) -> Result<String, UnusableLink> {
    let host = url.host_str().ok_or(UnusableLink::Host)?;
    if matches!(url.host(), Some(Host::Domain(_))) && !can_exist(host) {
        return Err(UnusableLink::Host);
    }
    let domain = host.strip_prefix("www.").filter(|rest| !rest.is_empty());
    Ok(domain.unwrap_or(host).to_owned())
}

/// Whether a name server can know the host. The parser accepts others: `{host}`, `*.example.org`, `a..b`.
fn can_exist(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let label = |label: &str| (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(letter);
    name.len() <= MAX_HOST_BYTES && name.split('.').all(label)
}

fn push_query(query: &str, options: LinkOptions, url: &mut String) {
    let end = url.len();
    url.push('?');
    tidy(query, url);
    if options.remove_tracking {
        let kept: Vec<&str> = url[end + 1..].split('&').filter(|pair| !is_tracking(pair)).collect();
        let kept = kept.join("&");
        url.truncate(end);
        if !kept.is_empty() {
            url.push('?');
            url.push_str(&kept);
        }
    }
}

fn is_tracking(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default().to_ascii_lowercase();
    name.starts_with("utm_") || matches!(name.as_str(), "gclid" | "fbclid")
}

/// Percent-encoding in one form: upper case, and none where the character may stand for itself. A lone `%` becomes
/// `%25`, or what is decoded behind it could make an escape that was not there.
fn tidy(part: &str, url: &mut String) {
    let mut rest = part;
    while let Some(at) = memchr(b'%', rest.as_bytes()) {
        url.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match escaped(rest) {
            Some(byte) if is_unreserved(byte) => url.push(char::from(byte)),
            Some(_) => {
                url.push('%');
                url.push_str(&rest[..2].to_ascii_uppercase());
            }
            None if is_old_escape(rest) => url.push('%'),
            None => url.push_str("%25"),
        }
        if escaped(rest).is_some() {
            rest = &rest[2..];
        }
    }
    url.push_str(rest);
}

/// The byte that two hexadecimal digits stand for.
fn escaped(rest: &str) -> Option<u8> {
    let digit = |at: usize| rest.as_bytes().get(at).and_then(|byte| char::from(*byte).to_digit(16));
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Whether the text after a `%` makes an escape like `%u4E2D`. Old servers would not find the page under another
/// spelling.
fn is_old_escape(rest: &str) -> bool {
    let rest = rest.as_bytes();
    matches!(rest.first(), Some(b'u' | b'U')) && rest.len() >= 5 && rest[1..5].iter().all(u8::is_ascii_hexdigit)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, url: &str) {
        let link = normalise(text, LinkOptions::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(link.url, url);
        assert_eq!(normalise(url, LinkOptions::default()).as_ref(), Ok(&link), "once more changes nothing");
    }

    fn domain_of(text: &str) -> String {
        normalise(text, LinkOptions::default()).unwrap().domain
    }

    // covers: POOL-47, POOL-49
    #[test]
    fn spellings_of_one_address_become_one() {
        check("HTTP://Example.COM", "http://example.com/");
        check("https://example.com:443/a", "https://example.com/a");
        check("http://example.com:80", "http://example.com/");
        check("http://example.com:443/", "http://example.com:443/");
        check("http://example.com:/a", "http://example.com/a");
        check("https://bücher.example/", "https://xn--bcher-kva.example/");
        check("https://例え.テスト/パス", "https://xn--r8jz45g.xn--zckzah/%E3%83%91%E3%82%B9");
        check("http://example.com/a/./b/../c/", "http://example.com/a/c/");
        check("http://example.com/../../a", "http://example.com/a");
        check("http://example.com/a/%2e%2E/b", "http://example.com/b");
        check("http://example.com/a#part", "http://example.com/a");
        check("http://example.com#", "http://example.com/");
        check("http://example.com?", "http://example.com/");
        check("http://example.com?q=1", "http://example.com/?q=1");
        check("http://example.com/%7euser/%41%2d%5f%2E", "http://example.com/~user/A-_.");
        check("http://example.com/%e4%b8%ad?q=%c3%a9%41", "http://example.com/%E4%B8%AD?q=%C3%A9A");
        check("http://example.com/a%2fb", "http://example.com/a%2Fb");
        check("http://example.com/a b\"c", "http://example.com/a%20b%22c");
        check(" \n http://example.com/a\t", "http://example.com/a");
        check("http://[2001:DB8:0:0::1]:8080/", "http://[2001:db8::1]:8080/");
    }

    // covers: POOL-47, POOL-49
    #[test]
    fn a_lone_percent_sign_makes_no_new_escape() {
        check("http://example.com/100%", "http://example.com/100%25");
        check("http://example.com/%%32e", "http://example.com/%252e");
        check("http://example.com/%252e", "http://example.com/%252e");
        check("http://example.com/?q=%zz%2", "http://example.com/?q=%25zz%252");
        check("http://example.com/?q=%u4e2d%u12", "http://example.com/?q=%u4e2d%25u12");
    }

    // covers: POOL-48
    #[test]
    fn the_query_is_kept_as_it_is() {
        check("http://example.com/?b=2&a=1&a=1", "http://example.com/?b=2&a=1&a=1");
        check("http://example.com/?a=1&utm_source=x", "http://example.com/?a=1&utm_source=x");
        check("http://example.com/?a[]=1&b=x+y;z&&", "http://example.com/?a[]=1&b=x+y;z&&");
    }

    // covers: POOL-124, POOL-49
    #[test]
    fn tracking_goes_when_asked() {
        let options = LinkOptions { remove_tracking: true };
        for (text, url) in [
            ("http://a.example/?utm_source=x&b=1&UTM_Medium=y&gclid=1&fbclid=2&c", "http://a.example/?b=1&c"),
            ("http://a.example/p?utm%5fsource=x#utm_y", "http://a.example/p"),
            ("http://a.example/p?utm_source&fbclid=", "http://a.example/p"),
            ("http://a.example/?utm=1&xgclid=2&q=utm_source", "http://a.example/?utm=1&xgclid=2&q=utm_source"),
            ("http://a.example/?a=1&&gclid=3&", "http://a.example/?a=1&&"),
        ] {
            let link = normalise(text, options).unwrap();
            assert_eq!(link.url, url);
            assert_eq!(normalise(url, options), Ok(link));
        }
    }

    // covers: POOL-122
    #[test]
    fn user_names_and_passwords_are_dropped() {
        check("https://user:p%40ss@example.com/a", "https://example.com/a");
        check("https://user@example.com:8443/", "https://example.com:8443/");
        check("https://user:a@b@example.com/", "https://example.com/");
        check("https://:secret@example.com/", "https://example.com/");
        check("https://@example.com/", "https://example.com/");
    }

    // covers: POOL-50
    #[test]
    fn the_domain_is_the_host_without_port_and_one_www() {
        assert_eq!(domain_of("https://WWW.Example.com:8443/www.x"), "example.com");
        assert_eq!(domain_of("https://www.www.example.com/"), "www.example.com");
        assert_eq!(domain_of("https://wwwx.example.com/"), "wwwx.example.com");
        assert_eq!(domain_of("http://www./"), "www.");
        assert_eq!(domain_of("http://[::1]:80/"), "[::1]");
        assert_eq!(domain_of("http://127.0.0.1:8080/"), "127.0.0.1");
        let longest = format!("{}.{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61));
        assert_eq!(domain_of(&format!("http://{longest}/")), longest);
        assert_eq!(normalise(&format!("http://{longest}d/"), LinkOptions::default()), Err(UnusableLink::Host));
    }

    // covers: POOL-123
    #[test]
    fn the_normal_form_is_measured() {
        let of = |bytes: usize| format!("http://a.example/{}", "x".repeat(bytes - 17));
        check(&of(MAX_URL_BYTES), &of(MAX_URL_BYTES));
        let long = |text: &str| assert_eq!(normalise(text, LinkOptions::default()), Err(UnusableLink::TooLong));
        long(&of(MAX_URL_BYTES + 1));
        long(&format!("http://a.example/{}", "中".repeat(MAX_URL_BYTES / 8)));
        check(&format!("http://a.example/#{}", "x".repeat(MAX_URL_BYTES)), "http://a.example/");
        long(&format!("http://a.example/#{}", "x".repeat(MAX_WRITTEN_BYTES)));
    }

    #[test]
    fn unusable_link_is_refused_with_the_reason() {
        let reason = |text: &str| normalise(text, LinkOptions::default()).unwrap_err();
        for text in
            ["", "example.com", "//example.com/", "ftp://example.com/", "http:example.com", "http:///a", "mailto:a@b"]
        {
            assert_eq!(reason(text), UnusableLink::Scheme, "{text}");
        }
        for text in ["http://{host}/", "http://*.example.com/", "http://a..b/", "http://a,b/", "http://./"] {
            assert_eq!(reason(text), UnusableLink::Host, "{text}");
        }
        for text in ["http://", "http://?a", "http://a:99999/", "http://[::g]/", "http://a b/", "http://xn--a-ecp.ru/"]
        {
            assert!(
                matches!(reason(text), UnusableLink::Syntax(_) | UnusableLink::Scheme),
                "{text}: {:?}",
                reason(text)
            );
        }
        assert!(reason("ftp://a/").to_string().contains("http://"));
    }
}

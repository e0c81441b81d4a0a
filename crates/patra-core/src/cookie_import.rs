//! Reads a cookie in the forms in which people have it: as a browser sends it (`sid=1; a=2`), as a Netscape
//! `cookies.txt`, and as the JSON that browser extensions, Playwright and Puppeteer export. All become the first form.

use serde_json::Value;

use crate::time::Ts;

/// Most cookies in one file.
const MAX_COOKIES: usize = 5_000;
/// Most domains that an error names.
const MAX_NAMED: usize = 10;

/// A cookie as it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedCookie {
    /// Without the words `Cookie:`.
    pub value: String,
    /// When the last of its parts expires; `None` when one of them has no expiry, or none is known.
    pub expires_at: Option<Ts>,
    /// Number of cookies that were taken from a file; 0 for a value as it is sent.
    pub parts: usize,
}

/// One cookie of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    name: String,
    value: String,
    /// Without a leading dot; empty if the file does not say.
    domain: String,
    /// Whether hosts below the domain get it too.
    is_wide: bool,
    expires_at: Option<Ts>,
}

/// Reads a cookie. Of a file, it takes what a browser would send to `host`; or with a `domain`, everything at it, below
/// it and above it. The errors contain no values.
pub fn read(text: &str, host: Option<&str>, domain: Option<&str>, now: Ts) -> Result<ImportedCookie, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("the cookie is empty".to_owned());
    }
    let parts = if text.starts_with(['[', '{']) {
        read_json(text)?
    } else if text.contains(['\n', '\t']) {
        read_netscape(text)?
    } else {
        return read_header(text);
    };
    if parts.is_empty() {
        return Err("the file holds no cookies".to_owned());
    }
    join(&parts, host, domain, now)
}

/// Checks a value as it is sent.
fn read_header(text: &str) -> Result<ImportedCookie, String> {
    let text = match text.get(..7) {
        Some(start) if start.eq_ignore_ascii_case("cookie:") => text.get(7..).unwrap_or_default().trim(),
        _ => text,
    };
    if text.chars().any(char::is_control) {
        return Err("the cookie holds control characters".to_owned());
    }
    let mut named = 0;
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        if let Some((name, _)) = part.split_once('=') {
            named += usize::from(is_name(name.trim()));
        }
    }
    if named == 0 {
        let forms = "expected `name=value; name=value`, a Netscape cookies.txt, or the JSON of a browser extension";
        return Err(format!("this is no cookie: {forms}"));
    }
    Ok(ImportedCookie { value: text.to_owned(), expires_at: None, parts: 0 })
}

/// Lines of seven fields with tabs between: domain, whether it is wide, path, secure, expiry, name, value.
fn read_netscape(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end_matches('\r').strip_prefix("#HttpOnly_").unwrap_or(line.trim_end_matches('\r'));
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields: Vec<&str> = line.split('\t').collect();
        if fields.len() < 6 {
            fields = line.split_whitespace().collect();
        }
        let [domain, wide, _, _, expires, name, ref rest @ ..] = fields[..] else {
            return Err(format!("line {number} is no line of a cookies.txt: it needs 7 fields with tabs between"));
        };
        let wrong = || format!("line {number} is no line of a cookies.txt");
        if !["TRUE", "FALSE"].contains(&wide.to_ascii_uppercase().as_str()) || rest.len() > 1 {
            return Err(wrong());
        }
        let seconds: f64 = expires.trim().parse().map_err(|_| wrong())?;
        parts.push(Part {
            name: name.to_owned(),
            value: rest.first().copied().unwrap_or_default().to_owned(),
            domain: plain_domain(domain),
            is_wide: wide.eq_ignore_ascii_case("TRUE"),
            expires_at: expiry(seconds),
        });
        check(parts.last(), parts.len())?;
    }
    Ok(parts)
}

fn read_json(text: &str) -> Result<Vec<Part>, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| {
        format!("this looks like JSON and is none (line {}, column {})", error.line(), error.column())
    })?;
    let list = match &json {
        Value::Array(list) => list,
        // Playwright's storage state, and extensions that add the address of the page.
        Value::Object(map) => match map.get("cookies") {
            Some(Value::Array(list)) => list,
            _ => return read_map(map),
        },
        _ => return Err("the JSON holds no cookies".to_owned()),
    };
    let mut parts = Vec::new();
    for (number, cookie) in (1..).zip(list) {
        let text = |names: &[&str]| names.iter().find_map(|name| cookie.get(name)?.as_str());
        let (Some(name), Some(value)) = (text(&["name", "Name raw"]), text(&["value", "Content raw"])) else {
            return Err(format!("entry {number} of the JSON is no cookie: it has no text `name` and `value`"));
        };
        let domain = text(&["domain", "Host raw", "host"]).unwrap_or_default();
        let is_wide = match cookie.get("hostOnly").and_then(Value::as_bool) {
            Some(host_only) => !host_only,
            None => domain.contains("://.") || domain.starts_with('.') || domain.is_empty(),
        };
        let seconds = ["expirationDate", "expires", "Expires raw", "expiry"]
            .iter()
            .find_map(|name| cookie.get(name))
            .and_then(|at| at.as_f64().or_else(|| at.as_str()?.parse().ok()));
        let is_session = cookie.get("session").and_then(Value::as_bool).unwrap_or(false);
        parts.push(Part {
            name: name.to_owned(),
            value: value.to_owned(),
            domain: plain_domain(domain),
            is_wide,
            expires_at: seconds.filter(|_| !is_session).and_then(expiry),
        });
        check(parts.last(), parts.len())?;
    }
    Ok(parts)
}

/// An object whose members are the cookies.
fn read_map(map: &serde_json::Map<String, Value>) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for (name, value) in map {
        let Value::String(value) = value else {
            return Err("the JSON holds no cookies: expected a list of objects with `name` and `value`".to_owned());
        };
        let (name, value) = (name.clone(), value.clone());
        parts.push(Part { name, value, domain: String::new(), is_wide: true, expires_at: None });
        check(parts.last(), parts.len())?;
    }
    Ok(parts)
}

fn check(part: Option<&Part>, number: usize) -> Result<(), String> {
    let is_sound =
        |part: &Part| is_name(&part.name) && !part.value.contains(';') && !part.value.chars().any(char::is_control);
    if !part.is_none_or(is_sound) {
        return Err(format!("cookie {number} of the file has a name or a value that cannot be sent"));
    }
    if number > MAX_COOKIES { Err(format!("the file holds more than {MAX_COOKIES} cookies")) } else { Ok(()) }
}

/// A token of RFC 9110.
fn is_name(name: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(is_token)
}

fn plain_domain(text: &str) -> String {
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    host.trim_matches(['.', '/', ' ']).to_ascii_lowercase()
}

/// An expiry in seconds since 1970, or in milliseconds; 0 and less: the cookie ends with the browser.
fn expiry(seconds: f64) -> Option<Ts> {
    let seconds = if seconds > 1e11 { seconds / 1e3 } else { seconds };
    (seconds >= 1.0).then(|| Ts::from_secs(seconds.min(2.5e11) as i64))
}

fn is_below(name: &str, domain: &str) -> bool {
    name == domain || name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

fn join(parts: &[Part], host: Option<&str>, domain: Option<&str>, now: Ts) -> Result<ImportedCookie, String> {
    let (host, domain) = (host.map(plain_domain), domain.map(plain_domain));
    let is_meant = |part: &Part| match (&domain, &host) {
        _ if part.domain.is_empty() => true,
        (Some(domain), _) => is_below(&part.domain, domain) || is_below(domain, &part.domain),
        (None, Some(host)) => *host == part.domain || (part.is_wide && is_below(host, &part.domain)),
        (None, None) => true,
    };
    let meant: Vec<&Part> = parts.iter().filter(|part| is_meant(part)).collect();
    if meant.is_empty() {
        let mut domains: Vec<&str> = parts.iter().map(|part| part.domain.as_str()).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.truncate(MAX_NAMED);
        let for_what = domain.or(host).unwrap_or_default();
        return Err(format!(
            "the file holds no cookie for {for_what}, only for {}: name another domain",
            domains.join(", ")
        ));
    }
    let mut valid: Vec<&Part> = meant.into_iter().filter(|part| part.expires_at.is_none_or(|at| at > now)).collect();
    if valid.is_empty() {
        return Err("all cookies of the file have expired: log in and export them again".to_owned());
    }
    // Of two with one name, the one of the narrower domain is sent.
    valid.sort_by_key(|part| std::cmp::Reverse(part.domain.len()));
    let mut kept: Vec<&Part> = Vec::new();
    for part in valid {
        if !kept.iter().any(|other| other.name == part.name) {
            kept.push(part);
        }
    }
    let last = kept.iter().map(|part| part.expires_at).collect::<Option<Vec<_>>>();
    let value: Vec<_> = kept.iter().map(|part| format!("{}={}", part.name, part.value)).collect();
    Ok(ImportedCookie {
        value: value.join("; "),
        expires_at: last.and_then(|all| all.into_iter().max()),
        parts: kept.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Ts = Ts::from_secs(1_800_000_000);

    fn of(text: &str) -> Result<ImportedCookie, String> {
        read(text, Some("edith.example.com"), None, NOW)
    }

    fn value(text: &str) -> String {
        of(text).unwrap_or_else(|error| panic!("{error}: {text}")).value
    }

    #[test]
    fn value_as_it_is_sent_stays_as_it_is() {
        assert_eq!(value(" sid=1; a=b=c== "), "sid=1; a=b=c==");
        assert_eq!(value("Cookie: sid=1; flag"), "sid=1; flag");
        assert_eq!(of("sid=1").unwrap().parts, 0);
    }

    #[test]
    fn netscape_file_becomes_what_a_browser_sends() {
        let file = "# Netscape HTTP Cookie File\r\n\r\n\
            .example.com\tTRUE\t/\tTRUE\t1900000000\tweb_session\tabc\r\n\
            #HttpOnly_.example.com\tTRUE\t/\tTRUE\t1950000000\ta1\tx=y\r\n\
            www.example.com\tFALSE\t/\tFALSE\t0\tonly_www\t1\r\n\
            .example.com\tTRUE\t/\tFALSE\t1700000000\tpast\t1\r\n\
            .tracker.net\tTRUE\t/\tFALSE\t1900000000\tid\t9\r\n";
        let read = of(file).unwrap();
        assert_eq!((read.value.as_str(), read.parts), ("web_session=abc; a1=x=y", 2));
        assert_eq!(read.expires_at, Some(Ts::from_secs(1_950_000_000)), "the last one");
        let whole = super::read(file, Some("127.0.0.1"), Some("example.com"), NOW).unwrap();
        assert_eq!((whole.value.as_str(), whole.expires_at), ("only_www=1; web_session=abc; a1=x=y", None));
        let other = super::read(file, Some("api.other.org"), None, NOW).unwrap_err();
        assert!(other.contains("no cookie for api.other.org") && other.contains("tracker.net"), "{other}");
    }

    #[test]
    fn json_of_extensions_becomes_what_a_browser_sends() {
        // EditThisCookie and Cookie-Editor.
        let extension = r#"[
          {"domain": ".example.com", "expirationDate": 1900000000.5, "hostOnly": false, "httpOnly": true, "name": "sid",
           "path": "/", "sameSite": "no_restriction", "secure": true, "session": false, "storeId": "0", "value": "1", "id": 1},
          {"domain": "www.example.com", "hostOnly": true, "name": "www", "path": "/", "session": true, "value": "2"}]"#;
        assert_eq!(value(extension), "sid=1");
        // Playwright.
        let state = r#"{"cookies": [{"name": "sid", "value": "1", "domain": ".example.com", "path": "/", "expires": -1,
          "httpOnly": false, "secure": false, "sameSite": "Lax"}], "origins": []}"#;
        assert_eq!((value(state), of(state).unwrap().expires_at), ("sid=1".to_owned(), None));
        // Cookie Quick Manager.
        let firefox = r#"[{"Host raw": "https://.example.com/", "Name raw": "sid", "Path raw": "/", "Content raw": "1",
          "Expires raw": "1900000000", "Send for": "Any type of connection"}]"#;
        assert_eq!(value(firefox), "sid=1");
        assert_eq!(value(r#"{"sid": "1", "a": "2"}"#), "a=2; sid=1");
    }

    #[test]
    fn nonsense_is_refused_without_quoting_it() {
        for text in [
            "",
            "   ",
            "hello",
            "{not json",
            "[1, 2]",
            "[]",
            "{}",
            "\"text\"",
            "42",
            r#"{"a": 1}"#,
            r#"[{"name": "a"}]"#,
            r#"[{"name": "a b", "value": "1"}]"#,
            r#"[{"name": "a", "value": "1; b=2"}]"#,
            "<html>\n<body>secret</body>",
            "a\tb\tc",
            "=secret",
            "sid\u{7}=1",
            ".example.com\tMAYBE\t/\tTRUE\t1900000000\tsid\tsecret",
            ".example.com\tTRUE\t/\tTRUE\tsoon\tsid\tsecret",
            ".example.com\tTRUE\t/\tTRUE\t1700000000\tsid\tsecret",
        ] {
            let error = of(text).expect_err(text);
            assert!(!error.contains("secret"), "{error}");
        }
    }
}

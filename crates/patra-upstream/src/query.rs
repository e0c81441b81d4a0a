//! The query of a request: escaping, and typed access with errors that name the parameter.

use crate::time;

/// An invalid parameter; the response is 400.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadParameter(pub(crate) String);

pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(key), unescape(value))
        });
        Self(pairs.collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<usize>, BadParameter> {
        self.typed(key, "a whole number", |text| text.parse().ok())
    }

    /// A time parameter, in microseconds since 1970.
    pub(crate) fn time(&self, key: &str) -> Result<Option<i64>, BadParameter> {
        self.typed(key, "an RFC 3339 time, a date or epoch seconds", time::parse)
    }

    /// An empty parameter is an error, not absent: a template that rendered nothing must be noticed.
    fn typed<T>(&self, key: &str, what: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, BadParameter> {
        let Some(text) = self.get(key) else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| BadParameter(format!("{key} must be {what}, not {text:?}")))
    }
}

/// Percent-encodes all but the unreserved characters.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Decodes like HTML forms: a plus is a space, so an unescaped cursor does not survive.
fn unescape(text: &str) -> String {
    if !text.bytes().any(|b| b == b'%' || b == b'+') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let decoded = if byte == b'%' { bytes.get(at + 1..at + 3).and_then(hex) } else { None };
        out.push(decoded.unwrap_or(if byte == b'+' { b' ' } else { byte }));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescapes_and_escapes() {
        let query = Query::parse("a=%2B%2f%3D&b=x+y&c=100%&d&e=%zz&caf%C3%A9=1&&");
        assert_eq!(query.get("a"), Some("+/="));
        assert_eq!(query.get("b"), Some("x y"));
        assert_eq!(query.get("c"), Some("100%"));
        assert_eq!(query.get("d"), Some(""));
        assert_eq!(query.get("e"), Some("%zz"));
        assert_eq!(query.get("café"), Some("1"));
        assert_eq!(escape("a+/= é"), "a%2B%2F%3D%20%C3%A9");
    }

    #[test]
    fn says_which_parameter_is_wrong() {
        let query = Query::parse("limit=ten&from=");
        assert_eq!(query.number("limit"), Err(BadParameter("limit must be a whole number, not \"ten\"".into())));
        assert!(query.time("from").is_err());
        assert_eq!(query.number("offset"), Ok(None));
    }
}

//! Parses the head of an HTTP/1.1 request from the received bytes. Strict if leniency could mix up two requests on one
//! connection: line ends, folded lines, bodies.

/// Largest head; a larger one gets 431.
pub(super) const MAX_BYTES: usize = 16 * 1024;
/// Largest body; a larger one gets 413.
pub(super) const MAX_BODY_BYTES: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a str,
    /// Path and query.
    pub(super) target: &'a str,
    pub(super) keep_alive: bool,
    /// Length of the head in the buffer.
    pub(super) len: usize,
    /// Length of the body after the head; only a POST has one.
    pub(super) body_len: usize,
    /// The body has a transfer encoding, so its length is unknown.
    pub(super) chunked: bool,
    fields: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    Malformed(&'static str),
    TooLarge,
    BodyTooLarge,
}

impl<'a> RequestHead<'a> {
    /// Parses a head; `None` if it is not complete yet.
    pub(super) fn parse(buf: &'a [u8]) -> Result<Option<Self>, HeadError> {
        // Some clients send an empty line after a request; RFC 9112 says to ignore it.
        let skipped = buf.chunks(2).take_while(|pair| *pair == b"\r\n").count() * 2;
        let Some(end) = buf[skipped..].windows(4).position(|four| four == b"\r\n\r\n") else {
            return if buf.len() >= MAX_BYTES { Err(HeadError::TooLarge) } else { Ok(None) };
        };
        if skipped + end > MAX_BYTES {
            return Err(HeadError::TooLarge);
        }
        let text = std::str::from_utf8(&buf[skipped..skipped + end]).map_err(|_| HeadError::Malformed("not text"))?;
        let (line, fields) = text.split_once("\r\n").unwrap_or((text, ""));
        let (method, target, version) = request_line(line)?;
        let len = skipped + end + 4;
        let keep_alive = version == 1;
        let mut head = Self { method, target, keep_alive, len, body_len: 0, chunked: false, fields };
        head.check_fields(version)?;
        Ok(Some(head))
    }

    pub(super) fn path_and_query(&self) -> (&'a str, &'a str) {
        self.target.split_once('?').unwrap_or((self.target, ""))
    }

    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        let mut found = self.fields.split("\r\n").filter_map(|line| line.split_once(':'));
        found.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    fn check_fields(&mut self, version: u8) -> Result<(), HeadError> {
        let (mut hosts, mut lengths) = (0, 0);
        for line in self.fields.split("\r\n").filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(HeadError::Malformed("header without a colon"))?;
            if name.is_empty() || !name.bytes().all(is_token) || value.contains(['\r', '\n', '\0']) {
                return Err(HeadError::Malformed("bad header"));
            }
            let value = value.trim();
            if name.eq_ignore_ascii_case("host") {
                hosts += 1;
            } else if name.eq_ignore_ascii_case("connection") {
                self.keep_alive &= !value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                // The end of such a body is unknown, so nothing after it may be taken for a request.
                (self.keep_alive, self.chunked) = (false, true);
            } else if name.eq_ignore_ascii_case("content-length") {
                lengths += 1;
                self.set_content_length(value)?;
            }
        }
        if lengths > 1 {
            return Err(HeadError::Malformed("one Content-Length is enough"));
        }
        if version == 1 && hosts != 1 { Err(HeadError::Malformed("one Host header is needed")) } else { Ok(()) }
    }
}

impl RequestHead<'_> {
    fn set_content_length(&mut self, value: &str) -> Result<(), HeadError> {
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        if !digits {
            return Err(HeadError::Malformed("bad Content-Length"));
        }
        // Only digits, so a parse error means that the number is too large.
        let len = value.parse().unwrap_or(usize::MAX);
        if self.method != "POST" {
            // The body of other methods is not read.
            self.keep_alive &= len == 0;
        } else if len > MAX_BODY_BYTES {
            return Err(HeadError::BodyTooLarge);
        } else {
            self.body_len = len;
        }
        Ok(())
    }

    /// Offset of the next request.
    pub(super) fn end(&self) -> usize {
        self.len + self.body_len
    }
}

/// Method, path with query, and the minor version.
fn request_line(line: &str) -> Result<(&str, &str, u8), HeadError> {
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(HeadError::Malformed("bad request line"));
    };
    let version = match version {
        "HTTP/1.1" => 1,
        "HTTP/1.0" => 0,
        _ => return Err(HeadError::Malformed("HTTP/1.1 only")),
    };
    // The absolute form is for proxies, but a server must accept it.
    let target = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let visible = target.bytes().all(|byte| byte.is_ascii_graphic());
    if method.is_empty() || !method.bytes().all(is_token) || !target.starts_with('/') || !visible {
        return Err(HeadError::Malformed("bad request line"));
    }
    Ok((method, target, version))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<RequestHead<'_>>, HeadError> {
        RequestHead::parse(text.as_bytes())
    }

    #[test]
    fn reads_one_of_two_pipelined_requests() {
        let text = "\r\nGET /a?b=c HTTP/1.1\r\nHost: x\r\nX-Key:  v \r\n\r\nGET /second HTTP/1.1\r\n";
        let head = parse(text).unwrap().unwrap();
        assert_eq!((head.method, head.path_and_query(), head.keep_alive), ("GET", ("/a", "b=c"), true));
        assert_eq!(head.header("x-key"), Some("v"));
        assert_eq!(head.header("key"), None);
        assert!(text[head.len..].starts_with("GET /second"));
    }

    #[test]
    fn waits_for_the_rest() {
        for part in ["", "\r\n", "GET", "GET / HTTP/1.1\r\nHost: x\r\n"] {
            assert_eq!(parse(part), Ok(None), "{part:?}");
        }
    }

    #[test]
    fn knows_when_to_close() {
        let keeps = |fields: &str| {
            let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
            parse(&text).unwrap().unwrap().keep_alive
        };
        assert!(keeps(""));
        assert!(keeps("Content-Length: 0\r\n"));
        assert!(!keeps("Connection: Upgrade, Close\r\n"));
        assert!(!keeps("Content-Length: 3\r\n"));
        assert!(!keeps("Transfer-Encoding: chunked\r\n"));
        assert!(!parse("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap().keep_alive);
    }

    #[test]
    fn only_a_post_has_a_body_and_one_length() {
        let head = parse("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET").unwrap().unwrap();
        assert_eq!((head.body_len, head.end() - head.len, head.keep_alive, head.chunked), (3, 3, true, false));
        let chunked = parse("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap().unwrap();
        assert_eq!((chunked.body_len, chunked.keep_alive, chunked.chunked), (0, false, true));
        let large = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", MAX_BODY_BYTES + 1);
        assert_eq!(parse(&large), Err(HeadError::BodyTooLarge));
        for bad in ["Content-Length: -1\r\n", "Content-Length: \r\n", "Content-Length: 1\r\nContent-Length: 1\r\n"] {
            let text = format!("POST / HTTP/1.1\r\nHost: x\r\n{bad}\r\n");
            assert!(matches!(parse(&text), Err(HeadError::Malformed(_))), "{bad:?}");
        }
    }

    #[test]
    fn takes_the_absolute_form() {
        let head = parse("GET http://x:1/a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.target, "/a");
    }

    #[test]
    fn refuses_the_malformed() {
        let bad = [
            "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/2\r\nHost: x\r\n\r\n",
            "GET a HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /é HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n",
        ];
        for text in bad {
            assert!(matches!(parse(text), Err(HeadError::Malformed(_))), "{text:?}");
        }
        assert_eq!(parse(&"x".repeat(MAX_BYTES)), Err(HeadError::TooLarge));
    }
}

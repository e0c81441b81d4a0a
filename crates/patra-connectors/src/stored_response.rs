//! Stored responses, so that a page can be read again without the upstream (ING-15-07): compressed, with the headers
//! that describe the page. Secrets are redacted before.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use patra_core::port::transport::HttpResponse;
use patra_core::tx::RawResponse;

/// Largest body that is stored, before compression, in bytes.
pub const MAX_KEPT: usize = 4 << 20;

/// Headers that describe the page and not the client. Headers that a spec reads are stored too.
const HARMLESS: &[&str] =
    &["content-type", "content-encoding", "retry-after", "link", "etag", "last-modified", "date", "x-total-count"];
const HARMLESS_BEGINNINGS: &[&str] = &["ratelimit", "x-ratelimit", "x-rate-limit"];

/// Why a stored response cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnreadableResponse {
    Headers,
    Body,
    TooLarge,
}

impl std::fmt::Display for UnreadableResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UnreadableResponse::Headers => f.write_str("the headers that were kept are damaged"),
            UnreadableResponse::Body => f.write_str("the body that was kept is damaged"),
            UnreadableResponse::TooLarge => write!(f, "the body that was kept is larger than {MAX_KEPT} bytes"),
        }
    }
}

/// A response in its stored form; `None` when its body is larger than [`MAX_KEPT`]. `declared` are headers that the
/// spec reads.
pub(crate) fn pack<'n>(
    response: &HttpResponse,
    keep: Duration,
    declared: impl Iterator<Item = &'n str>,
) -> Option<RawResponse> {
    if response.body.len() > MAX_KEPT {
        return None;
    }
    let declared: Vec<&str> = declared.collect();
    let is_kept = |name: &str| {
        HARMLESS.contains(&name)
            || HARMLESS_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
            || declared.iter().any(|declared| declared.eq_ignore_ascii_case(name))
    };
    let headers: Vec<_> = response.headers.iter().filter(|(name, _)| is_kept(name)).collect();
    Some(RawResponse {
        status: response.status,
        headers: serde_json::to_string(&headers).ok()?,
        body: compress(&response.body)?,
        keep,
    })
}

/// The stored response, as the pager read it.
pub fn open(status: u16, headers: &str, body: &[u8]) -> Result<HttpResponse, UnreadableResponse> {
    let headers = serde_json::from_str(headers).map_err(|_| UnreadableResponse::Headers)?;
    let mut opened = Vec::new();
    // One byte more than allowed shows that the body is too large, without reading all of it.
    let limit = MAX_KEPT as u64 + 1;
    GzDecoder::new(body).take(limit).read_to_end(&mut opened).map_err(|_| UnreadableResponse::Body)?;
    if opened.len() > MAX_KEPT {
        return Err(UnreadableResponse::TooLarge);
    }
    Ok(HttpResponse { status, headers, body: Bytes::from(opened), redirected: None })
}

/// The fastest level: the best one halves the size but takes six times as long on every page.
fn compress(body: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: impl Into<Bytes>) -> HttpResponse {
        let headers = [
            ("content-type", "application/json"),
            ("set-cookie", "canary"),
            ("x-request-id", "canary"),
            ("x-ratelimit-remaining", "3"),
            ("x-next", "7"),
            ("link", "</2>; rel=next"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        HttpResponse { status: 206, headers, body: body.into(), redirected: None }
    }

    // covers: ING-15-07
    #[test]
    fn an_answer_comes_back_as_it_was_without_the_headers_that_say_who_asked() {
        let body = r#"{"items":[{"id":"ü"},{"id":2}]}"#.repeat(500);
        let raw = pack(&answer(body.clone()), Duration::from_secs(9), ["X-Next"].into_iter()).unwrap();
        assert_eq!((raw.status, raw.keep), (206, Duration::from_secs(9)));
        assert!(raw.body.len() * 10 < body.len(), "{} of {}", raw.body.len(), body.len());
        assert!(!raw.headers.contains("canary"), "{}", raw.headers);
        let opened = open(raw.status, &raw.headers, &raw.body).unwrap();
        assert_eq!(opened.body, body.as_bytes());
        let names: Vec<_> = opened.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["content-type", "x-ratelimit-remaining", "x-next", "link"]);
    }

    #[test]
    fn too_large_body_is_not_stored_and_not_opened() {
        assert!(pack(&answer(vec![b' '; MAX_KEPT + 1]), Duration::ZERO, std::iter::empty()).is_none());
        let largest = pack(&answer(vec![b' '; MAX_KEPT]), Duration::ZERO, std::iter::empty()).unwrap();
        assert_eq!(open(200, "[]", &largest.body).unwrap().body.len(), MAX_KEPT);
        let bomb = compress(&vec![0; MAX_KEPT + 1]).unwrap();
        assert_eq!(open(200, "[]", &bomb).unwrap_err(), UnreadableResponse::TooLarge);
    }

    #[test]
    fn damage_is_noticed() {
        let raw = pack(&answer("some text"), Duration::ZERO, std::iter::empty()).unwrap();
        let mut changed = raw.body.to_vec();
        changed[14] ^= 1;
        assert_eq!(open(200, "[]", &changed).unwrap_err(), UnreadableResponse::Body);
        assert_eq!(open(200, "[]", &raw.body[..raw.body.len() - 3]).unwrap_err(), UnreadableResponse::Body);
        assert_eq!(open(200, "{}", &raw.body).unwrap_err(), UnreadableResponse::Headers);
    }
}

//! Parses `Content-Encoding`.

use http::header::{self, HeaderMap};

use patra_core::port::transport::Error;

/// Most encodings of one body; more are treated as an attack.
const MAX_LAYERS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentCoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl ContentCoding {
    /// The encodings of a body in the order in which they were applied; the last one is decoded first.
    pub(super) fn list(headers: &HeaderMap) -> Result<Vec<ContentCoding>, Error> {
        let mut codings = Vec::new();
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let names = value.to_str().map_err(|_| encoding("the name of its encoding is not text"))?;
            for name in names.split(',').map(str::trim) {
                codings.extend(ContentCoding::named(name)?);
            }
        }
        if codings.len() > MAX_LAYERS {
            return Err(encoding("it has more than two encodings"));
        }
        Ok(codings)
    }

    fn named(name: &str) -> Result<Option<ContentCoding>, Error> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "" | "identity" => None,
            "gzip" | "x-gzip" => Some(ContentCoding::Gzip),
            "deflate" => Some(ContentCoding::Deflate),
            "br" => Some(ContentCoding::Brotli),
            "zstd" => Some(ContentCoding::Zstd),
            _ => return Err(encoding("its encoding is not gzip, deflate, br or zstd")),
        })
    }
}

fn encoding(reason: &str) -> Error {
    Error::Encoding { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_read_in_all_its_spellings() {
        let cases: &[(&[&str], Option<&[ContentCoding]>)] = &[
            (&[], Some(&[])),
            (&["identity"], Some(&[])),
            (&[""], Some(&[])),
            (&["gzip"], Some(&[ContentCoding::Gzip])),
            (&["X-GZip"], Some(&[ContentCoding::Gzip])),
            (&["deflate ,br"], Some(&[ContentCoding::Deflate, ContentCoding::Brotli])),
            (&["gzip", "br"], Some(&[ContentCoding::Gzip, ContentCoding::Brotli])),
            (&["gzip, identity, gzip"], Some(&[ContentCoding::Gzip, ContentCoding::Gzip])),
            (&["gzip, gzip, gzip"], None),
            (&["ZSTD"], Some(&[ContentCoding::Zstd])),
            (&["compress"], None),
            (&["gzip;q=1"], None),
        ];
        for (values, expected) in cases {
            let mut headers = HeaderMap::new();
            for value in *values {
                headers.append(header::CONTENT_ENCODING, value.parse().unwrap());
            }
            assert_eq!(ContentCoding::list(&headers).ok().as_deref(), *expected, "{values:?}");
        }
    }
}

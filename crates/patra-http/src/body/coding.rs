//! What `Content-Encoding` says, as far as we understand it.

use http::header::{self, HeaderMap};

use patra_core::port::transport::Error;

/// More layers than this are no compression but an attack on whoever unpacks them.
const MAX_LAYERS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    /// The layers of a body, in the order in which they were applied: the last one comes off first.
    pub(super) fn list(headers: &HeaderMap) -> Result<Vec<Coding>, Error> {
        let mut codings = Vec::new();
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let names = value.to_str().map_err(|_| encoding("its name is not text"))?;
            for name in names.split(',').map(str::trim) {
                codings.extend(Coding::named(name)?);
            }
        }
        if codings.len() > MAX_LAYERS {
            return Err(encoding("it is packed more than twice"));
        }
        Ok(codings)
    }

    fn named(name: &str) -> Result<Option<Coding>, Error> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "" | "identity" => None,
            "gzip" | "x-gzip" => Some(Coding::Gzip),
            "deflate" => Some(Coding::Deflate),
            "br" => Some(Coding::Brotli),
            "zstd" => Some(Coding::Zstd),
            _ => return Err(encoding("its encoding is none of gzip, deflate, br and zstd")),
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
        let cases: &[(&[&str], Option<&[Coding]>)] = &[
            (&[], Some(&[])),
            (&["identity"], Some(&[])),
            (&[""], Some(&[])),
            (&["gzip"], Some(&[Coding::Gzip])),
            (&["X-GZip"], Some(&[Coding::Gzip])),
            (&["deflate ,br"], Some(&[Coding::Deflate, Coding::Brotli])),
            (&["gzip", "br"], Some(&[Coding::Gzip, Coding::Brotli])),
            (&["gzip, identity, gzip"], Some(&[Coding::Gzip, Coding::Gzip])),
            (&["gzip, gzip, gzip"], None),
            (&["ZSTD"], Some(&[Coding::Zstd])),
            (&["compress"], None),
            (&["gzip;q=1"], None),
        ];
        for (values, expected) in cases {
            let mut headers = HeaderMap::new();
            for value in *values {
                headers.append(header::CONTENT_ENCODING, value.parse().unwrap());
            }
            assert_eq!(Coding::list(&headers).ok().as_deref(), *expected, "{values:?}");
        }
    }
}

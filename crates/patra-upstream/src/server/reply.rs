//! A response before it is sent: status, headers, body parts, and how the connection ends.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

use bytes::{Buf, Bytes};
use serde_json::json;

use crate::content::JSON;

#[derive(Debug)]
pub(super) struct MockReply {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    /// Further header lines, each with its line end.
    pub(super) headers: String,
    pub(super) body: ReplyBody,
    /// Announced length; larger than the body if it is to be truncated.
    pub(super) content_length: usize,
    pub(super) ending: ConnectionEnd,
    pub(super) slow: Option<SlowBody>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// The connection stays open, if the client allows it.
    Keep,
    Close,
    /// Closed without an announcement, as a fault.
    Cut,
    /// Nothing is sent; the connection is reset.
    Reset,
}

/// A body that is sent in chunks with pauses.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlowBody {
    pub(super) chunk_bytes: usize,
    pub(super) pause: Duration,
}

impl MockReply {
    pub(super) fn new(status: u16, body: ReplyBody) -> Self {
        let promised = body.remaining();
        Self {
            status,
            content_type: JSON,
            headers: String::new(),
            body,
            content_length: promised,
            ending: ConnectionEnd::Keep,
            slow: None,
        }
    }

    pub(super) fn json(status: u16, text: String) -> Self {
        Self::new(status, ReplyBody::from(vec![Bytes::from(text)]))
    }

    /// `{"error":{"code","message"}}`
    pub(super) fn error(status: u16, code: &str, message: &str) -> Self {
        Self::json(status, json!({"error": {"code": code, "message": message}}).to_string())
    }

    pub(super) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.extend([name, ": ", value, "\r\n"]);
        self
    }

    pub(super) fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            411 => "Length Required",
            413 => "Content Too Large",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            // A script may use any status.
            _ => "Error",
        }
    }
}

/// Body parts that are written in sequence, without joining them in memory.
#[derive(Debug)]
pub(super) struct ReplyBody {
    parts: VecDeque<Bytes>,
    remaining: usize,
}

impl From<Vec<Bytes>> for ReplyBody {
    fn from(parts: Vec<Bytes>) -> Self {
        let remaining = parts.iter().map(Bytes::len).sum();
        Self { parts: parts.into(), remaining }
    }
}

impl ReplyBody {
    pub(super) fn push_front(&mut self, part: Bytes) {
        self.remaining += part.len();
        self.parts.push_front(part);
    }

    pub(super) fn truncate(&mut self, len: usize) {
        while let Some(last) = self.parts.back_mut() {
            let excess = self.remaining.saturating_sub(len);
            if excess < last.len() {
                last.truncate(last.len() - excess);
                self.remaining -= excess;
                return;
            }
            self.remaining -= last.len();
            self.parts.pop_back();
        }
    }

    /// Pads with spaces: the JSON stays valid.
    pub(super) fn pad(&mut self, len: usize) {
        static BLANKS: [u8; 64 * 1024] = [b' '; 64 * 1024];
        while self.remaining < len {
            let part = Bytes::from_static(&BLANKS[..(len - self.remaining).min(BLANKS.len())]);
            self.remaining += part.len();
            self.parts.push_back(part);
        }
    }
}

impl Buf for ReplyBody {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.parts.iter().find(|part| !part.is_empty()).map_or(&[], |part| part)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.iter_mut().zip(self.parts.iter().filter(|part| !part.is_empty()));
        filled.map(|(slice, part)| *slice = IoSlice::new(part)).count()
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "advanced past the end");
        self.remaining -= count;
        while let Some(first) = self.parts.front_mut() {
            if count < first.len() {
                return first.advance(count);
            }
            count -= first.len();
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> ReplyBody {
        ReplyBody::from(["ab", "", "cde", "f"].map(Bytes::from).to_vec())
    }

    fn text(mut body: ReplyBody) -> String {
        let len = body.remaining();
        String::from_utf8(body.copy_to_bytes(len).to_vec()).unwrap()
    }

    #[test]
    fn cut_at_any_length() {
        for len in 0..=7 {
            let mut body = body();
            body.truncate(len);
            assert_eq!(body.remaining(), len.min(6));
            assert_eq!(text(body), "abcdef"[..len.min(6)]);
        }
    }

    #[test]
    fn advances_over_the_joints() {
        for count in 0..=6 {
            let mut body = body();
            body.advance(count);
            let mut slices = [IoSlice::new(&[]); 8];
            let filled = body.chunks_vectored(&mut slices);
            assert_eq!(slices[..filled].iter().map(|slice| slice.len()).sum::<usize>(), 6 - count);
            assert_eq!(text(body), "abcdef"[count..]);
        }
    }

    #[test]
    fn grows_at_both_ends() {
        let mut body = body();
        body.push_front(Bytes::from_static(b"> "));
        body.pad(10);
        assert_eq!(text(body), "> abcdef  ");
        let mut body = self::body();
        body.pad(200_000);
        assert_eq!(body.remaining(), 200_000);
    }
}

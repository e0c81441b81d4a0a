//! Documents of any size, in bounded memory: one window of bytes moves over them.

use std::io::{self, ErrorKind, Read};

use super::finder::{FinderCursor, LinkFinder};
use super::frame::LEFT_BYTES;
use super::normal::MAX_WRITTEN_BYTES;

/// Bytes of a document that are in memory at a time. A URL that cannot be decided yet is carried over, so it must fit
/// in many times.
const WINDOW_BYTES: usize = 128 * 1024;

/// Bytes before the cursor that show the frame of a URL there, and hold the beginning of its scheme.
const CONTEXT_BYTES: usize = 2 * LEFT_BYTES;

const _: () = assert!(WINDOW_BYTES > 4 * MAX_WRITTEN_BYTES, "a window must hold the longest URL and more");

impl LinkFinder {
    /// Searches a document as [`text`](LinkFinder::text) does. Bytes that are not UTF-8 separate the texts around them.
    /// Links found before an error are kept.
    pub fn read(&mut self, document: impl Read) -> io::Result<()> {
        self.read_by(WINDOW_BYTES, document)
    }

    fn read_by(&mut self, window_bytes: usize, mut document: impl Read) -> io::Result<()> {
        let mut window = StreamBuffer { bytes: vec![0; window_bytes], held: 0, cursor: FinderCursor::default() };
        loop {
            let ended = window.fill(&mut document)?;
            window.search(self, ended);
            if ended || self.is_partial() {
                return Ok(());
            }
        }
    }
}

struct StreamBuffer {
    bytes: Vec<u8>,
    held: usize,
    cursor: FinderCursor,
}

impl StreamBuffer {
    /// Reads until the window is full. True at the end of the document.
    fn fill(&mut self, document: &mut impl Read) -> io::Result<bool> {
        while self.held < self.bytes.len() {
            match document.read(&mut self.bytes[self.held..]) {
                Ok(0) => return Ok(true),
                Ok(read) => self.held += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Searches the window, and keeps the text that the next piece may continue.
    fn search(&mut self, finder: &mut LinkFinder, ended: bool) {
        let mut begin = 0;
        loop {
            let (text, invalid) = valid(&self.bytes[begin..self.held]);
            // A character that the window cuts continues in the next one.
            let last = invalid.is_some() || ended;
            finder.scan(text, &mut self.cursor, last);
            match invalid {
                Some(length) => {
                    begin += text.len() + length;
                    self.cursor = FinderCursor::default();
                }
                None => {
                    let keep = begin + before(text, self.cursor.at);
                    self.cursor.at = begin + self.cursor.at - keep;
                    self.bytes.copy_within(keep..self.held, 0);
                    self.held -= keep;
                    return;
                }
            }
        }
    }
}

/// The text at the start of the bytes, and the number of invalid bytes after it. A cut character counts as neither.
fn valid(bytes: &[u8]) -> (&str, Option<usize>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let text = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            (text, error.error_len())
        }
    }
}

/// A little before a place, where a character begins.
fn before(text: &str, at: usize) -> usize {
    let from = at.saturating_sub(CONTEXT_BYTES);
    (0..=from).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests;

//! Documents of any size, in bounded memory: one window of bytes moves over them.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read};

use patra_core::hash::id_hash;

use super::finder::{FinderCursor, LinkFinder};
use super::frame::LEFT_BYTES;
use super::normal::{LinkOptions, MAX_WRITTEN_BYTES, NormalisedLink};

/// Bytes of a document that are in memory at a time. A URL that cannot be decided yet is carried over, so it must fit
/// in many times.
const WINDOW_BYTES: usize = 128 * 1024;

/// Bytes before the cursor that show the frame of a URL there, and hold the beginning of its scheme.
const CONTEXT_BYTES: usize = 2 * LEFT_BYTES;

const _: () = assert!(WINDOW_BYTES > 4 * MAX_WRITTEN_BYTES, "a window must hold the longest URL and more");

/// Distinct links of a document that [`LinkFinder::read_each`] remembers. Links behind them may be returned twice.
pub const MAX_REMEMBERED: usize = 4_000_000;

/// Result of a search that returned its links one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    pub links: u64,
    /// Links that were left out because they are longer than [`MAX_URL_BYTES`](super::MAX_URL_BYTES).
    pub too_long: usize,
    /// There were more distinct links than can be remembered: later ones may have been returned twice.
    pub repeats: bool,
}

impl LinkFinder {
    /// Searches a document of any size up to its end, and returns each link once, in the order of the first finding.
    pub fn read_each<E: From<io::Error>>(
        options: LinkOptions,
        document: impl Read,
        each: impl FnMut(NormalisedLink) -> Result<(), E>,
    ) -> Result<LinkCounts, E> {
        Self::read_each_by(WINDOW_BYTES, MAX_REMEMBERED, options, document, each)
    }

    fn read_each_by<E: From<io::Error>>(
        window_bytes: usize,
        remembered: usize,
        options: LinkOptions,
        mut document: impl Read,
        mut each: impl FnMut(NormalisedLink) -> Result<(), E>,
    ) -> Result<LinkCounts, E> {
        // A window has far fewer links than this.
        let mut finder = LinkFinder::new(options).at_most(window_bytes);
        let mut window = StreamBuffer { bytes: vec![0; window_bytes], held: 0, cursor: FinderCursor::default() };
        let (mut seen, mut counts) = (HashSet::new(), LinkCounts::default());
        loop {
            let ended = window.fill(&mut document);
            window.search(&mut finder, *ended.as_ref().unwrap_or(&true));
            for link in finder.take() {
                let hash = id_hash(link.url.as_bytes());
                if seen.contains(&hash) {
                    continue;
                }
                if seen.len() < remembered {
                    seen.insert(hash);
                } else {
                    counts.repeats = true;
                }
                counts.links += 1;
                each(link)?;
            }
            // Links found before an error are returned before it.
            if ended? {
                counts.too_long = finder.finish().too_long;
                return Ok(counts);
            }
        }
    }

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

//! Formats of the crawler's responses.

mod envelope;

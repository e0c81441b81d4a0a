//! The forms of the crawler's responses.

mod envelope;

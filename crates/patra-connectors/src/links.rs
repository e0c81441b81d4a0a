//! URLs in texts and values: found as a careful reader would find them, and normalised, so that one page has one URL.
//! Pure functions of their input, in linear time and bounded memory for any input.

mod chars;
mod escape;
mod finder;
mod frame;
mod normal;
mod scheme;
mod stream;
mod strings;
mod walk;

pub use finder::{FoundLinks, LinkFinder, MAX_LINKS};
pub use normal::{
    LinkOptions, MAX_HOST_BYTES, MAX_URL_BYTES, MAX_WRITTEN_BYTES, NormalisedLink, UnusableLink, normalise,
};
pub use stream::{LinkCounts, MAX_REMEMBERED};

//! Requests and records: a [`Pager`] renders the request for a position, and decodes the response into a page. Pure
//! functions of snapshot and bytes: no socket, no store, no clock of its own, so a page can be replayed from its bytes.

pub mod auth;
pub mod classify;
mod decode;
mod evidence;
mod explain;
pub mod feed;
mod headers;
mod hints;
mod json_size;
pub mod links;
pub mod mask;
pub mod opml;
pub mod page;
mod pager;
mod request;
pub mod stored_response;
pub mod tweet;

pub use decode::{MAX_COLUMNS, MAX_PAGE_RECORDS};
pub use evidence::MAX_SAMPLE;
pub use json_size::{MAX_JSON_VALUES, TooManyValues};
pub use pager::{PageExchange, PageRequest, Pager};

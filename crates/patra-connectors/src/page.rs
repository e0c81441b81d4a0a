//! HTML pages to values: the feeds that a page names, the article that it holds, or rows by CSS selectors. Pure, and bounded
//! on any input like [`crate::feed`]. Bytes become text with [`crate::feed::decode`].

mod article;
mod document;
mod feeds;
mod select;
mod tame;

pub use article::{ArticlePage, article};
pub use document::{MAX_BYTES, MAX_DEPTH, MAX_NODES};
pub use feeds::{FeedLink, feeds, looks_like_page};
pub use select::{MAX_ROWS, SelectField, SelectRow, SelectRules, select};
pub use tame::{MAX_ATTRIBUTES, MAX_PAGE_ATTRIBUTES};

/// Why a page was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HtmlPageError {
    #[error("the page is refused: it has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("the page is refused: its elements are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    #[error("the page is refused: it grows to more than {MAX_NODES} nodes")]
    TooManyNodes,
    #[error("the page is refused: it has more than {MAX_PAGE_ATTRIBUTES} attributes")]
    TooManyAttributes,
    #[error(
        "the page is refused: its rows hold more than {limit} bytes of text: the selector matches rows inside of rows"
    )]
    TooMuchText { limit: usize },
    #[error("the page is refused: `{selector}` matches more than {MAX_ROWS} elements")]
    TooManyRows { selector: String },
    #[error("`{selector}` is no CSS selector: {reason}")]
    BadSelector { selector: String, reason: String },
    #[error(
        "no element of the page matches `{selector}`: its layout may have changed, look at the page and fix the selector"
    )]
    NoRows { selector: String },
    #[error(
        "none of the {rows} rows has `{field}`, which is required (`{selector}`): the layout may have changed, look at the page and fix the selector"
    )]
    FieldGone { field: String, selector: String, rows: usize },
}

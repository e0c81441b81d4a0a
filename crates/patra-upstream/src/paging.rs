//! The listings as pure functions: a dataset, a script and the number of the request in, the parts of a JSON body
//! out. Nothing here knows of sockets, clocks or faults on the wire.

mod cursor;
mod numbered;
mod view;

use bytes::Bytes;

pub(crate) use self::view::Shape;
use self::view::{Order, View};
use crate::content::Refused;
use crate::dataset::Dataset;
use crate::query::{BadParameter, Query};
use crate::script::{CeilingMode, Script};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Offset,
    Page,
    Cursor,
    Link,
    Window,
}

impl Endpoint {
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/offset" => Some(Self::Offset),
            "/page" => Some(Self::Page),
            "/cursor" => Some(Self::Cursor),
            "/link" => Some(Self::Link),
            "/window" => Some(Self::Window),
            _ => None,
        }
    }
}

/// One answer of a listing.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) records: usize,
    /// The body, in order.
    pub(crate) parts: Vec<Bytes>,
    /// The value of the `Link` header.
    pub(crate) link: Option<String>,
}

/// What a page depends on besides its query.
pub(crate) struct Listing<'a> {
    pub(crate) dataset: &'a Dataset,
    pub(crate) script: &'a Script,
    /// Of the data request, from 1.
    pub(crate) number: u64,
    /// `http://host:port`, for absolute links.
    pub(crate) base_url: &'a str,
}

impl Listing<'_> {
    pub(crate) fn page(&self, endpoint: Endpoint, query: &Query) -> Result<Page, Refused> {
        self.walk(endpoint, query, &self.view(query)?)
    }

    /// The same listing of ids: `version=1` adds what tells one state of a record from the next.
    pub(crate) fn ids(&self, endpoint: Endpoint, query: &Query) -> Result<Page, Refused> {
        let shape = match query.get("version") {
            None | Some("0") => Shape::Id,
            Some("1") => Shape::Version,
            Some(other) => return Err(BadParameter(format!("version must be 0 or 1, not {other:?}")).into()),
        };
        self.walk(endpoint, query, &self.view(query)?.shaped(shape))
    }

    fn walk(&self, endpoint: Endpoint, query: &Query, view: &View<'_>) -> Result<Page, Refused> {
        match endpoint {
            Endpoint::Offset => numbered::offset(self, query, view),
            Endpoint::Page => numbered::page(self, query, view),
            Endpoint::Cursor => cursor::cursor(self, query, view),
            Endpoint::Link => numbered::link(self, query, view),
            Endpoint::Window => numbered::window(self, query, view),
        }
    }

    fn view(&self, query: &Query) -> Result<View<'_>, BadParameter> {
        let order = match query.get("order") {
            None | Some("asc") => Order::Ascending,
            Some("desc") => Order::Descending,
            Some(other) => return Err(BadParameter(format!("order must be asc or desc, not {other:?}"))),
        };
        let (from, to) = (query.time("from")?.unwrap_or(i64::MIN), query.time("to")?.unwrap_or(i64::MAX));
        let range = self.dataset.range(from, to);
        let visible = self.script.visible.unwrap_or(usize::MAX);
        let range = range.start.min(visible)..range.end.min(visible);
        let view = View::new(self.dataset, range, self.script.hidden_from(self.number), order);
        Ok(view.with_ceiling(self.script.ceiling.unwrap_or(usize::MAX)))
    }

    /// Refuses a page that begins behind the ceiling, where that is what the script wants.
    fn check_ceiling(&self, rank: usize) -> Result<(), Refused> {
        let Some(ceiling) = self.script.ceiling else { return Ok(()) };
        if rank < ceiling || self.script.ceiling_mode == CeilingMode::Clamp {
            return Ok(());
        }
        let message = format!("only the first {ceiling} records of a query are served: ask for a smaller window");
        Err(Refused::new(400, "result_window_too_large", message))
    }

    /// Whether the answer says that more follows behind the row of this rank.
    fn has_more(&self, view: &View<'_>, end: usize) -> bool {
        let clamped = self.script.ceiling_mode == CeilingMode::Clamp;
        end < if clamped { view.len().min(view.ceiling()) } else { view.len() }
    }

    /// Whether the record exists for this request.
    pub(crate) fn is_visible(&self, index: usize) -> bool {
        let hidden = self.script.late.iter().any(|late| late.index == index && self.number <= late.after);
        !hidden && index < self.script.visible.unwrap_or(usize::MAX)
    }

    /// The page size asked for under `key`, within bounds.
    pub(crate) fn size(&self, query: &Query, key: &str) -> Result<usize, BadParameter> {
        match query.number(key)? {
            Some(0) => Err(BadParameter(format!("{key} must be at least 1"))),
            size => Ok(size.unwrap_or(self.script.page_size).min(self.script.page_size_max).max(1)),
        }
    }

    /// The total as reported, which need not be true.
    fn total(&self, view: &View<'_>) -> i64 {
        self.script.total(view.len(), self.number)
    }

    /// Whether the page of this number loops onto itself.
    fn repeats(&self, page: usize) -> bool {
        self.script.repeat_token_after.is_some_and(|after| page > after as usize)
    }
}

/// Puts the records between the two ends of the envelope.
fn envelope(head: String, items: Vec<Bytes>, tail: &'static str) -> Vec<Bytes> {
    let mut parts = Vec::with_capacity(items.len() + 2);
    parts.push(Bytes::from(head));
    parts.extend(items);
    parts.push(Bytes::from_static(tail.as_bytes()));
    parts
}

#[cfg(test)]
mod tests;

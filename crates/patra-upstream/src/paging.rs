//! The listings as pure functions: from a dataset, a script and the number of the request to the parts of a JSON body.
//! Nothing here knows of sockets, clocks or connection faults.

mod cursor;
mod numbered;
mod view;

use bytes::Bytes;

pub(crate) use self::view::ItemForm;
use self::view::{DatasetView, SortOrder};
use crate::content::DataError;
use crate::dataset::Dataset;
use crate::query::{BadParameter, Query};
use crate::script::{CeilingMode, Script};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListEndpoint {
    Offset,
    Page,
    Cursor,
    Link,
    Window,
}

impl ListEndpoint {
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

/// One page of a listing.
#[derive(Debug)]
pub(crate) struct ListPage {
    pub(crate) records: usize,
    /// The parts of the body, in order.
    pub(crate) parts: Vec<Bytes>,
    /// The value of the `Link` header.
    pub(crate) link: Option<String>,
}

/// The inputs of a page besides its query.
pub(crate) struct ListRequest<'a> {
    pub(crate) dataset: &'a Dataset,
    pub(crate) script: &'a Script,
    /// Number of the data request, from 1.
    pub(crate) number: u64,
    /// `http://host:port`, for absolute links.
    pub(crate) base_url: &'a str,
}

impl ListRequest<'_> {
    pub(crate) fn page(&self, endpoint: ListEndpoint, query: &Query) -> Result<ListPage, DataError> {
        self.walk(endpoint, query, &self.view(query)?)
    }

    /// The listing of ids: `version=1` adds the version of each record.
    pub(crate) fn ids(&self, endpoint: ListEndpoint, query: &Query) -> Result<ListPage, DataError> {
        let shape = match query.get("version") {
            None | Some("0") => ItemForm::Id,
            Some("1") => ItemForm::Version,
            Some(other) => return Err(BadParameter(format!("version must be 0 or 1, not {other:?}")).into()),
        };
        self.walk(endpoint, query, &self.view(query)?.with_form(shape))
    }

    fn walk(&self, endpoint: ListEndpoint, query: &Query, view: &DatasetView<'_>) -> Result<ListPage, DataError> {
        match endpoint {
            ListEndpoint::Offset => numbered::offset(self, query, view),
            ListEndpoint::Page => numbered::page(self, query, view),
            ListEndpoint::Cursor => cursor::cursor(self, query, view),
            ListEndpoint::Link => numbered::link(self, query, view),
            ListEndpoint::Window => numbered::window(self, query, view),
        }
    }

    fn view(&self, query: &Query) -> Result<DatasetView<'_>, BadParameter> {
        let order = match query.get("order") {
            None | Some("asc") => SortOrder::Ascending,
            Some("desc") => SortOrder::Descending,
            Some(other) => return Err(BadParameter(format!("order must be asc or desc, not {other:?}"))),
        };
        let (from, to) = (query.time("from")?.unwrap_or(i64::MIN), query.time("to")?.unwrap_or(i64::MAX));
        let range = self.dataset.range(from, to);
        let visible = self.script.visible.unwrap_or(usize::MAX);
        let range = range.start.min(visible)..range.end.min(visible);
        let view = DatasetView::new(self.dataset, range, self.script.hidden_from(self.number), order);
        Ok(view.with_ceiling(self.script.ceiling.unwrap_or(usize::MAX)))
    }

    /// Rejects a page that begins beyond the ceiling, if the script says so.
    fn check_ceiling(&self, rank: usize) -> Result<(), DataError> {
        let Some(ceiling) = self.script.ceiling else { return Ok(()) };
        if rank < ceiling || self.script.ceiling_mode == CeilingMode::Clamp {
            return Ok(());
        }
        let message = format!("only the first {ceiling} records of a query are served: request a smaller window");
        Err(DataError::new(400, "result_window_too_large", message))
    }

    /// Whether the response reports more rows after this rank.
    fn has_more(&self, view: &DatasetView<'_>, end: usize) -> bool {
        let clamped = self.script.ceiling_mode == CeilingMode::Clamp;
        end < if clamped { view.len().min(view.ceiling()) } else { view.len() }
    }

    /// Whether the record exists for this request.
    pub(crate) fn is_visible(&self, index: usize) -> bool {
        let hidden = self.script.late.iter().any(|late| late.index == index && self.number <= late.after);
        !hidden && index < self.script.visible.unwrap_or(usize::MAX)
    }

    /// The requested page size, within bounds.
    pub(crate) fn size(&self, query: &Query, key: &str) -> Result<usize, BadParameter> {
        match query.number(key)? {
            Some(0) => Err(BadParameter(format!("{key} must be at least 1"))),
            size => Ok(size.unwrap_or(self.script.page_size).min(self.script.page_size_max).max(1)),
        }
    }

    /// The reported total, which the script may falsify.
    fn total(&self, view: &DatasetView<'_>) -> i64 {
        self.script.total(view.len(), self.number)
    }

    /// Whether the page of this number names itself as the next.
    fn repeats(&self, page: usize) -> bool {
        self.script.repeat_token_after.is_some_and(|after| page > after as usize)
    }
}

/// Wraps the records in the envelope.
fn envelope(head: String, items: Vec<Bytes>, tail: &'static str) -> Vec<Bytes> {
    let mut parts = Vec::with_capacity(items.len() + 2);
    parts.push(Bytes::from(head));
    parts.extend(items);
    parts.push(Bytes::from_static(tail.as_bytes()));
    parts
}

#[cfg(test)]
mod tests;

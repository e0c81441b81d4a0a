//! The listing by cursor, in the style of Crossref.

use super::{DatasetView, ListPage, ListRequest, envelope};
use crate::content::DataError;
use crate::cursor::CursorToken;
use crate::query::{BadParameter, Query};

/// `{status, message: {total-results, items-per-page, next-cursor, items}}`. With `endcursor=keep` the last page has a
/// cursor too, as in Crossref, and the end is an empty page.
pub(super) fn cursor(listing: &ListRequest<'_>, query: &Query, view: &DatasetView<'_>) -> Result<ListPage, DataError> {
    let size = listing.size(query, "rows")?;
    let here = match query.get("cursor") {
        None | Some("*") => CursorToken { boundary: view.boundary(0), page: 1 },
        Some(token) => {
            CursorToken::from_token(token).ok_or_else(|| BadParameter("cursor is not one of ours".into()))?
        }
    };
    let rank = view.rank(here.boundary);
    listing.check_ceiling(rank)?;
    let rows = view.rows(rank, size);
    let keep = query.get("endcursor") == Some("keep");
    let next = if listing.repeats(here.page as usize) {
        Some(here)
    } else if listing.has_more(view, rows.end) || keep {
        Some(CursorToken { boundary: view.boundary(rows.end), page: here.page.saturating_add(1) })
    } else {
        None
    };
    let next = next.map_or_else(|| "null".to_owned(), |cursor| format!("\"{}\"", cursor.to_token()));
    let total = listing.total(view);
    let head = format!(
        r#"{{"status":"ok","message":{{"total-results":{total},"items-per-page":{size},"next-cursor":{next},"items":["#
    );
    Ok(ListPage { records: rows.count, parts: envelope(head, rows.items, "]}}"), link: None })
}

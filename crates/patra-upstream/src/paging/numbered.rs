//! The listings by number: offset, page, link; and the window, which has no pages.

use super::{DatasetView, ItemForm, ListPage, ListRequest, envelope};
use crate::content::DataError;
use crate::query::{BadParameter, Query, escape};

/// `{total, offset, limit, items}`
pub(super) fn offset(listing: &ListRequest<'_>, query: &Query, view: &DatasetView<'_>) -> Result<ListPage, DataError> {
    let size = listing.size(query, "limit")?;
    let offset = query.number("offset")?.unwrap_or(0);
    listing.check_ceiling(offset)?;
    let rows = view.rows(offset, size);
    let total = listing.total(view);
    let head = format!(r#"{{"total":{total},"offset":{offset},"limit":{size},"items":["#);
    Ok(ListPage { records: rows.count, parts: envelope(head, rows.items, "]}"), link: None })
}

/// `{total, page, pages, size, has_more, items}`; pages count from `base`, which is 1 or 0.
pub(super) fn page(listing: &ListRequest<'_>, query: &Query, view: &DatasetView<'_>) -> Result<ListPage, DataError> {
    let size = listing.size(query, "size")?;
    let base = query.number("base")?.unwrap_or(1);
    if base > 1 {
        return Err(BadParameter(format!("base must be 0 or 1, not {base}")).into());
    }
    let (page, before) = page_number(query, base)?;
    listing.check_ceiling(before.saturating_mul(size))?;
    let rows = view.rows(before.saturating_mul(size), size);
    let has_more = listing.has_more(view, rows.end);
    let total = listing.total(view);
    let pages = total.unsigned_abs().div_ceil(size as u64);
    let head =
        format!(r#"{{"total":{total},"page":{page},"pages":{pages},"size":{size},"has_more":{has_more},"items":["#);
    Ok(ListPage { records: rows.count, parts: envelope(head, rows.items, "]}"), link: None })
}

/// `{total, next, items}`, with `next` also as a `Link` header. It contains the filter but no credential: a client that
/// follows a link must still authenticate.
pub(super) fn link(listing: &ListRequest<'_>, query: &Query, view: &DatasetView<'_>) -> Result<ListPage, DataError> {
    let size = listing.size(query, "size")?;
    let (page, before) = page_number(query, 1)?;
    listing.check_ceiling(before.saturating_mul(size))?;
    let rows = view.rows(before.saturating_mul(size), size);
    let next = match (listing.repeats(page), listing.has_more(view, rows.end)) {
        (true, _) => Some(next_url(listing, query, view, page, size)),
        (false, true) => Some(next_url(listing, query, view, page + 1, size)),
        (false, false) => None,
    };
    let total = listing.total(view);
    let quoted = next.as_ref().map_or_else(|| "null".to_owned(), |url| format!("\"{url}\""));
    let head = format!(r#"{{"total":{total},"next":{quoted},"items":["#);
    let link = next.map(|url| format!("<{url}>; rel=\"next\""));
    Ok(ListPage { records: rows.count, parts: envelope(head, rows.items, "]}"), link })
}

/// `{count, truncated, items}`: the first `limit` records of the window, and whether there are more.
pub(super) fn window(listing: &ListRequest<'_>, query: &Query, view: &DatasetView<'_>) -> Result<ListPage, DataError> {
    let limit = listing.size(query, "limit")?;
    let rows = view.rows(0, limit);
    let truncated = rows.end < view.len();
    let head = format!(r#"{{"count":{},"truncated":{truncated},"items":["#, rows.count);
    Ok(ListPage { records: rows.count, parts: envelope(head, rows.items, "]}"), link: None })
}

/// The requested page, and the number of pages before it.
fn page_number(query: &Query, base: usize) -> Result<(usize, usize), BadParameter> {
    let page = query.number("page")?.unwrap_or(base);
    let before = page.checked_sub(base).ok_or_else(|| BadParameter(format!("page must be at least {base}")))?;
    Ok((page, before))
}

/// The URL of the next page. It needs no JSON escaping: values are percent-encoded, and the base is the server's own or
/// a checked host.
fn next_url(listing: &ListRequest<'_>, query: &Query, view: &DatasetView<'_>, page: usize, size: usize) -> String {
    let path = if view.form() == ItemForm::Record { "/link" } else { "/ids/link" };
    let mut url = format!("{}{path}?page={page}&size={size}", listing.base_url);
    for key in ["from", "to", "order", "version"] {
        if let Some(value) = query.get(key) {
            url.push_str(&format!("&{key}={}", escape(value)));
        }
    }
    url
}

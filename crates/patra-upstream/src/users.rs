//! Users, their posts, and the comments on them. Each is a listing by page number, `{total, page, pages, size,
//! has_more, items}`.

use bytes::Bytes;

use crate::content::{DataContent, DataError};
use crate::dataset::People;
use crate::details::list;
use crate::paging::ListRequest;
use crate::query::Query;

pub(crate) fn users(listing: &ListRequest<'_>, query: &Query) -> Result<DataContent, DataError> {
    let people = people(listing);
    numbered(listing, query, &Vec::from_iter(0..people.len()), |user| people.user(*user).into())
}

/// The posts within `from` and `to`, oldest first.
pub(crate) fn posts(listing: &ListRequest<'_>, query: &Query, user: &str) -> Result<DataContent, DataError> {
    let people = people(listing);
    let user = open_user(listing, &people, user)?;
    let (from, to) = (query.time("from")?.unwrap_or(i64::MIN), query.time("to")?.unwrap_or(i64::MAX));
    let window = listing.dataset.range(from, to);
    let posts: Vec<usize> =
        people.posts(user).filter(|post| window.contains(post) && listing.is_visible(*post)).collect();
    numbered(listing, query, &posts, |post| listing.dataset.joined_records(*post..*post + 1))
}

pub(crate) fn comments(
    listing: &ListRequest<'_>,
    query: &Query,
    user: &str,
    post: &str,
) -> Result<DataContent, DataError> {
    let people = people(listing);
    let user = open_user(listing, &people, user)?;
    let index = listing.dataset.find(post).filter(|index| people.author(*index) == Some(user));
    let index = index.filter(|index| listing.is_visible(*index));
    let index = index.ok_or_else(|| DataError::not_found(format!("the user has no post {post:?}")))?;
    numbered(listing, query, &people.comments(index), |comment| comment.clone().into())
}

fn people<'a>(listing: &ListRequest<'a>) -> People<'a> {
    listing.dataset.people(listing.script.users)
}

fn open_user(listing: &ListRequest<'_>, people: &People<'_>, id: &str) -> Result<usize, DataError> {
    let user = people.find(id).ok_or_else(|| DataError::not_found(format!("there is no user {id:?}")))?;
    match listing.script.users_closed.iter().find(|closed| closed.index == user) {
        Some(closed) => Err(DataError::new(closed.status, "closed", format!("user {id} cannot be read"))),
        None => Ok(user),
    }
}

fn numbered<T>(
    listing: &ListRequest<'_>,
    query: &Query,
    all: &[T],
    render: impl Fn(&T) -> Bytes,
) -> Result<DataContent, DataError> {
    let size = listing.size(query, "size")?;
    let page = query.number("page")?.unwrap_or(1);
    let before = page.checked_sub(1).ok_or_else(|| DataError::new(400, "bad_parameter", "page must be at least 1"))?;
    let start = before.saturating_mul(size).min(all.len());
    let end = start.saturating_add(size).min(all.len());
    let (total, pages, has_more) = (all.len(), all.len().div_ceil(size), end < all.len());
    let head =
        format!(r#"{{"total":{total},"page":{page},"pages":{pages},"size":{size},"has_more":{has_more},"items":["#);
    Ok(DataContent::json(end - start, list(head, all[start..end].iter().map(render), "]}")))
}

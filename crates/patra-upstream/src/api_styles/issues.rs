//! `/rest/issues`, in the style of GitHub's issues: a bare array, newest first, with `Link` and rate headers and no
//! ETag. Parameters: `state=open|closed|all`, `since` (inclusive), `direction=asc|desc`, `per_page` up to 100, `page`.

use bytes::Bytes;
use serde_json::{Value, json};

use super::record;
use crate::content::{DataContent, DataError};
use crate::details::list;
use crate::paging::ListRequest;
use crate::query::{BadParameter, Query, escape};

const PER_PAGE: usize = 30;
const MAX_PER_PAGE: usize = 100;
/// Limit in the rate headers. They only count down; no request is rejected.
const RATE_LIMIT: u64 = 5000;

pub(crate) fn issues(listing: &ListRequest<'_>, query: &Query) -> Result<DataContent, DataError> {
    let per_page = query.number("per_page")?.unwrap_or(PER_PAGE).clamp(1, MAX_PER_PAGE);
    let page = query.number("page")?.unwrap_or(1).max(1);
    let issues = matching_issues(listing, query)?;
    let start = (page - 1).saturating_mul(per_page).min(issues.len());
    let end = start.saturating_add(per_page).min(issues.len());
    let items = issues[start..end].iter().map(|index| Bytes::from(issue(listing, *index).to_string()));
    let mut content = DataContent::json(end - start, list("[", items, "]"));
    let remaining = RATE_LIMIT.saturating_sub(listing.number).to_string();
    content.headers = vec![("X-RateLimit-Limit", RATE_LIMIT.to_string()), ("X-RateLimit-Remaining", remaining)];
    let last = issues.len().div_ceil(per_page).max(1);
    content.headers.extend(links(listing, query, page, last).map(|links| ("Link", links)));
    Ok(content)
}

fn matching_issues(listing: &ListRequest<'_>, query: &Query) -> Result<Vec<usize>, DataError> {
    let since = query.time("since")?.unwrap_or(i64::MIN);
    let state = query.get("state").unwrap_or("open");
    if !["open", "closed", "all"].contains(&state) {
        return Err(BadParameter(format!("state must be open, closed or all, not {state:?}")).into());
    }
    let matches = |index: &usize| listing.is_visible(*index) && (state == "all" || state == state_of(*index));
    let mut issues: Vec<usize> = listing.dataset.range(since, i64::MAX).filter(matches).collect();
    match query.get("direction") {
        Some("asc") => {}
        None | Some("desc") => issues.reverse(),
        Some(other) => return Err(BadParameter(format!("direction must be asc or desc, not {other:?}")).into()),
    }
    Ok(issues)
}

/// Every third issue is closed.
fn state_of(index: usize) -> &'static str {
    if index % 3 == 2 { "closed" } else { "open" }
}

fn issue(listing: &ListRequest<'_>, index: usize) -> Value {
    let record = record(listing.dataset, index);
    let labels: Vec<Value> =
        record["keywords"].as_array().into_iter().flatten().map(|word| json!({"name": word})).collect();
    json!({
        "id": 1_000_000 + index,
        "node_id": record["id"],
        "number": index + 1,
        "title": record["title"],
        "state": state_of(index),
        "user": {"login": record["authors"][0]["name"]},
        "labels": labels,
        "comments": record["cited_by_count"],
        "created_at": record["created_at"],
        "updated_at": record["updated_at"],
        "html_url": record["url"],
        "body": record["abstract"],
    })
}

/// `prev` and `first` from the second page on, `next` and `last` up to the last but one; nothing for a single page.
fn links(listing: &ListRequest<'_>, query: &Query, page: usize, last: usize) -> Option<String> {
    let mut links = Vec::new();
    let mut link = |page: usize, rel: &str| {
        let mut url = format!("{}/rest/issues?page={page}", listing.base_url);
        for (name, value) in query.iter().filter(|(name, _)| ["per_page", "state", "since", "direction"].contains(name))
        {
            url.push_str(&format!("&{name}={}", escape(value)));
        }
        links.push(format!("<{url}>; rel=\"{rel}\""));
    };
    if page > 1 {
        link(page - 1, "prev");
    }
    if page < last {
        link(page + 1, "next");
        link(last, "last");
    }
    if page > 1 {
        link(1, "first");
    }
    (!links.is_empty()).then(|| links.join(", "))
}

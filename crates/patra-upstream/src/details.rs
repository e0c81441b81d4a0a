//! The second phase: records by id, many or one at a time.

use bytes::Bytes;

use crate::content::{Content, Refused};
use crate::paging::Listing;
use crate::query::Query;
use crate::script::Unknown;

/// `{"items":[…]}` in the order asked for. The ids come in `ids=a,b,c` or in a JSON body, `{"ids":["a","b","c"]}`.
pub(crate) fn details(listing: &Listing<'_>, query: &Query, body: &[u8]) -> Result<Content, Refused> {
    let ids = asked_for(query, body)?;
    let detail = &listing.script.detail;
    if ids.len() > detail.max_ids {
        let message = format!("{} ids are more than the {} of one request", ids.len(), detail.max_ids);
        return Err(Refused::new(400, "too_many_ids", message));
    }
    let mut items = Vec::new();
    for id in &ids {
        match (look_up(listing, id)?, detail.unknown) {
            (Some(index), _) => items.push(listing.dataset.run(index..index + 1)),
            (None, Unknown::Omit) => {}
            (None, Unknown::Status(status)) => {
                return Err(Refused::new(status, "unknown_id", format!("there is no {id:?}")));
            }
        }
    }
    let records = items.len();
    Ok(Content::json(records, list(r#"{"items":["#, items, "]}")))
}

/// The record itself, or 404.
pub(crate) fn detail(listing: &Listing<'_>, id: &str) -> Result<Content, Refused> {
    let index = look_up(listing, id)?.ok_or_else(|| Refused::not_found(format!("there is no {id:?}")))?;
    Ok(Content::json(1, vec![listing.dataset.run(index..index + 1)]))
}

fn asked_for(query: &Query, body: &[u8]) -> Result<Vec<String>, Refused> {
    #[derive(serde::Deserialize)]
    struct Body {
        ids: Vec<String>,
    }
    let ids: Vec<String> = if body.is_empty() {
        let lists = query.iter().filter(|(name, _)| *name == "ids").flat_map(|(_, value)| value.split(','));
        lists.filter(|id| !id.is_empty()).map(str::to_owned).collect()
    } else {
        let body: Result<Body, _> = serde_json::from_slice(body);
        body.map_err(|_| Refused::new(400, "bad_body", "the body must be {\"ids\": [\"…\"]}"))?.ids
    };
    if ids.is_empty() { Err(Refused::new(400, "bad_parameter", "ids must name at least one")) } else { Ok(ids) }
}

/// The record, if it may be seen; an error if it is one of those that spoil a request.
fn look_up(listing: &Listing<'_>, id: &str) -> Result<Option<usize>, Refused> {
    let detail = &listing.script.detail;
    let Some(index) = listing.dataset.find(id).filter(|index| listing.is_visible(*index)) else { return Ok(None) };
    match detail.poison.iter().find(|poison| poison.index == index) {
        Some(poison) => Err(Refused::new(poison.status, "poison", format!("{id:?} cannot be served"))),
        None => Ok(Some(index).filter(|index| !detail.gone.contains(index))),
    }
}

/// The elements between head and tail, with commas.
pub(crate) fn list(head: impl Into<Bytes>, items: impl IntoIterator<Item = Bytes>, tail: &'static str) -> Vec<Bytes> {
    let mut parts = vec![head.into()];
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            parts.push(Bytes::from_static(b","));
        }
        parts.push(item);
    }
    parts.push(Bytes::from_static(tail.as_bytes()));
    parts
}

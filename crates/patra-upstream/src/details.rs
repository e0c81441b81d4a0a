//! Records by id, several or one at a time.

use bytes::Bytes;

use crate::content::{DataContent, DataError};
use crate::paging::ListRequest;
use crate::query::Query;
use crate::script::UnknownIdPolicy;

/// Returns `{"items":[…]}` in the requested order. The ids come in `ids=a,b,c` or in a JSON body,
/// `{"ids":["a","b","c"]}`.
pub(crate) fn details(listing: &ListRequest<'_>, query: &Query, body: &[u8]) -> Result<DataContent, DataError> {
    let ids = requested_ids(query, body)?;
    let detail = &listing.script.detail;
    if ids.len() > detail.max_ids {
        let message = format!("{} ids are more than the {} of one request", ids.len(), detail.max_ids);
        return Err(DataError::new(400, "too_many_ids", message));
    }
    let mut items = Vec::new();
    for id in &ids {
        match (look_up(listing, id)?, detail.unknown) {
            (Some(index), _) => items.push(listing.dataset.joined_records(index..index + 1)),
            (None, UnknownIdPolicy::Omit) => {}
            (None, UnknownIdPolicy::Status(status)) => {
                return Err(DataError::new(status, "unknown_id", format!("there is no {id:?}")));
            }
        }
    }
    let records = items.len();
    Ok(DataContent::json(records, list(r#"{"items":["#, items, "]}")))
}

/// The record itself, or 404.
pub(crate) fn detail(listing: &ListRequest<'_>, id: &str) -> Result<DataContent, DataError> {
    let index = look_up(listing, id)?.ok_or_else(|| DataError::not_found(format!("there is no {id:?}")))?;
    Ok(DataContent::json(1, vec![listing.dataset.joined_records(index..index + 1)]))
}

fn requested_ids(query: &Query, body: &[u8]) -> Result<Vec<String>, DataError> {
    #[derive(serde::Deserialize)]
    struct DetailsBody {
        ids: Vec<String>,
    }
    let ids: Vec<String> = if body.is_empty() {
        let lists = query.iter().filter(|(name, _)| *name == "ids").flat_map(|(_, value)| value.split(','));
        lists.filter(|id| !id.is_empty()).map(str::to_owned).collect()
    } else {
        let body: Result<DetailsBody, _> = serde_json::from_slice(body);
        body.map_err(|_| DataError::new(400, "bad_body", "the body must be {\"ids\": [\"…\"]}"))?.ids
    };
    if ids.is_empty() { Err(DataError::new(400, "bad_parameter", "ids must name at least one")) } else { Ok(ids) }
}

/// The index of the record, if it is visible; an error if the script makes requests for it fail.
fn look_up(listing: &ListRequest<'_>, id: &str) -> Result<Option<usize>, DataError> {
    let detail = &listing.script.detail;
    let Some(index) = listing.dataset.find(id).filter(|index| listing.is_visible(*index)) else { return Ok(None) };
    match detail.poison.iter().find(|poison| poison.index == index) {
        Some(poison) => Err(DataError::new(poison.status, "poison", format!("{id:?} cannot be served"))),
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

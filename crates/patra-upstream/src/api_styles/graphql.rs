//! `POST /graphql` with `{"query", "variables"}`. There is one field, the connection `works(first: Int, after: String,
//! from: String, to: String)`, always returned with all its fields: `{data: {works: {totalCount, edges: [{cursor,
//! node}], pageInfo: {hasNextPage, endCursor}}}}`.
//!
//! Errors are in the body of a 200: `{data: null, errors: [{message, extensions: {code}}]}`.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::content::DataContent;
use crate::cursor::CursorToken;
use crate::details::list;
use crate::paging::ListRequest;
use crate::time;

/// Largest `first`; more is an error, as in similar APIs.
const MAX_FIRST: u64 = 100;

#[derive(serde::Deserialize)]
struct GraphqlBody {
    query: String,
    #[serde(default)]
    variables: Value,
}

pub(crate) fn respond(listing: &ListRequest<'_>, body: &[u8]) -> DataContent {
    let request = serde_json::from_slice::<GraphqlBody>(body)
        .map_err(|error| GraphqlError::new("BAD_REQUEST", error.to_string()));
    let script = listing.script;
    let result = match request {
        Ok(_) if script.graphql_error.applies_to(listing.number) => {
            Err(GraphqlError::new(&script.graphql_code, "failed on purpose".to_owned()))
        }
        request => request.and_then(|body| works(listing, &body)),
    };
    result.unwrap_or_else(|problem| {
        let error = json!({"message": problem.message, "path": ["works"], "extensions": {"code": problem.code}});
        DataContent::json(0, vec![Bytes::from(json!({"data": null, "errors": [error]}).to_string())])
    })
}

struct GraphqlError {
    code: String,
    message: String,
}

impl GraphqlError {
    fn new(code: &str, message: String) -> Self {
        Self { code: code.to_owned(), message }
    }

    fn input(message: impl Into<String>) -> Self {
        Self::new("BAD_USER_INPUT", message.into())
    }
}

fn works(listing: &ListRequest<'_>, body: &GraphqlBody) -> Result<DataContent, GraphqlError> {
    let arguments = arguments(&body.query, &body.variables)?;
    let first = match arguments.get("first") {
        Some(Value::Number(first)) => first.as_u64().filter(|first| (1..=MAX_FIRST).contains(first)),
        _ => None,
    };
    let first =
        first.ok_or_else(|| GraphqlError::input(format!("first must be a number from 1 to {MAX_FIRST}")))? as usize;
    let moment = |name: &str, otherwise: i64| match arguments.get(name) {
        None | Some(Value::Null) => Ok(otherwise),
        Some(value) => {
            let micros = value.as_str().and_then(time::parse);
            micros.ok_or_else(|| GraphqlError::input(format!("{name} must be a time")))
        }
    };
    let window = listing.dataset.range(moment("from", i64::MIN)?, moment("to", i64::MAX)?);
    let visible: Vec<usize> = window.filter(|index| listing.is_visible(*index)).collect();
    let after = match arguments.get("after") {
        None | Some(Value::Null) => 0,
        Some(token) => token
            .as_str()
            .and_then(CursorToken::from_token)
            .map(|cursor| visible.partition_point(|index| (*index as u64) < cursor.boundary))
            .ok_or_else(|| {
                GraphqlError::new("INVALID_CURSOR", "after is not a cursor of this connection".to_owned())
            })?,
    };
    Ok(connection(listing, &visible, after, first))
}

fn connection(listing: &ListRequest<'_>, visible: &[usize], after: usize, first: usize) -> DataContent {
    let end = after.saturating_add(first).min(visible.len());
    let page = &visible[after.min(end)..end];
    let token = |index: usize| CursorToken { boundary: index as u64 + 1, page: 0 }.to_token();
    let edges = page.iter().flat_map(|index| {
        let head = Bytes::from(format!(r#"{{"cursor":"{}","node":"#, token(*index)));
        [head, listing.dataset.joined_records(*index..*index + 1), Bytes::from_static(b"}")]
    });
    // Three parts make one edge; they are joined so that the commas are between edges.
    let edges: Vec<Bytes> = edges.collect::<Vec<_>>().chunks(3).map(|edge| Bytes::from(edge.concat())).collect();
    let last = page.last().map_or_else(|| "null".to_owned(), |index| format!("\"{}\"", token(*index)));
    let (total, more) = (visible.len(), end < visible.len());
    let head = format!(
        r#"{{"data":{{"works":{{"totalCount":{total},"pageInfo":{{"hasNextPage":{more},"endCursor":{last}}},"edges":["#
    );
    DataContent::json(page.len(), list(head, edges, "]}}}"))
}

/// The arguments of `works`, with variables resolved. Parses only this subset of GraphQL.
fn arguments(query: &str, variables: &Value) -> Result<HashMap<String, Value>, GraphqlError> {
    let invalid = |message: &str| GraphqlError::new("GRAPHQL_VALIDATION_FAILED", message.to_owned());
    let field = query.split_once('{').map(|(_, fields)| fields.trim_start()).unwrap_or_default();
    let rest = field.strip_prefix("works").ok_or_else(|| invalid("there is no field but works"))?;
    let Some(list) = rest.trim_start().strip_prefix('(') else { return Ok(HashMap::new()) };
    let list = list.split_once(')').ok_or_else(|| invalid("the arguments of works do not end"))?.0;
    let mut arguments = HashMap::new();
    // In GraphQL a comma is whitespace; none of our values contains either.
    let mut words = list.split([',', ' ', '\n', '\t', '\r']).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let (name, value) = word.split_once(':').unwrap_or((word, ""));
        let value = if value.is_empty() { words.next().unwrap_or_default().trim_start_matches(':') } else { value };
        let value = match value.strip_prefix('$') {
            Some(variable) => variables[variable].clone(),
            None => serde_json::from_str(value).map_err(|_| invalid("an argument of works has no value"))?,
        };
        if !["first", "after", "from", "to"].contains(&name) {
            return Err(invalid("works takes first, after, from and to"));
        }
        arguments.insert(name.to_owned(), value);
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_inline_and_from_variables() {
        let variables = json!({"n": 5, "cursor": null, "since": "2024-01-01"});
        let read = |query: &str| {
            arguments(query, &variables).ok().map(|found| {
                ["first", "after", "from", "to"].map(|name| found.get(name).map_or_else(String::new, Value::to_string))
            })
        };
        let all = |parts: [&str; 4]| Some(parts.map(str::to_owned));
        assert_eq!(read("{ works(first: 10) { edges { node } } }"), all(["10", "", "", ""]));
        assert_eq!(read("{works(first:10,after:\"+/x\"){edges}}"), all(["10", "\"+/x\"", "", ""]));
        let named =
            "query Q($n: Int!, $cursor: String) {\n  works(\n first: $n\n after: $cursor, from: $since) { x } }";
        assert_eq!(read(named), all(["5", "null", "\"2024-01-01\"", ""]));
        assert_eq!(read("{ works { edges } }"), all(["", "", "", ""]));
        for bad in ["", "works", "{ users }", "{ works(first: ) }", "{ works(last: 3) }", "{ works(first: 3"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}

//! The routes as an OpenAPI document, and as a page for people.

use serde_json::{Map, Value, json};

use super::{Body, Needs, Operation};
use crate::auth::PROJECT_HEADER;
use crate::routes::crawler;

/// Statuses of failures of any route that needs a key.
const FAILURES: [u16; 7] = [400, 401, 403, 404, 500, 503, 504];
/// Statuses of failures of any route with a body.
const BODY_FAILURES: [u16; 2] = [413, 415];

/// Renders the OpenAPI 3.1 document.
pub(crate) fn document(operations: &[Operation]) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method.to_lowercase()] = describe(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Patra",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "docs/http.md explains every route.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "responses": {
                "Answer": response("success", &envelope("ok")),
                "Refused": response("failure", &envelope("error")),
                "RefusedBare": response("failure", &json!({ "type": "object" })),
            },
        },
    })
}

/// Schema of the envelope `{status, data, error, meta}`.
fn envelope(status: &str) -> Value {
    json!({
        "type": "object",
        "required": ["status", "data", "error", "meta"],
        "properties": {
            "status": { "const": status },
            "meta": { "type": "object", "required": ["request_id"], "properties": { "request_id": { "type": "string" } } },
        },
    })
}

fn describe(operation: &Operation) -> Value {
    let mut description = json!({
        "summary": operation.says,
        "operationId": id(operation),
        "tags": [tag(operation.path)],
        "responses": responses(operation),
    });
    let mut parameters: Vec<_> = names(operation.path).map(in_path).collect();
    parameters.extend(
        operation.query.iter().map(
            |field| json!({ "name": field.name, "in": "query", "required": field.needed, "schema": field.schema() }),
        ),
    );
    if let Some(scope) = operation.needs.scope() {
        description["security"] = json!([{ "key": [] }]);
        description["x-scope"] = scope.as_str().into();
        let header =
            json!({ "name": PROJECT_HEADER, "in": "header", "required": false, "schema": { "type": "string" } });
        parameters.push(header);
    }
    if operation.public {
        description["x-public-read"] = true.into();
    }
    if matches!(operation.needs, Needs::Operator(_)) {
        description["x-all-projects"] = true.into();
    }
    description["parameters"] = parameters.into();
    match operation.body {
        Body::None => {}
        Body::Of(media) => {
            description["requestBody"] = json!({ "required": true, "content": { media: { "schema": {} } } });
        }
        Body::Json(fields) => {
            let needed: Vec<_> = fields.iter().filter(|field| field.needed).map(|field| field.name).collect();
            let properties: Map<_, _> = fields.iter().map(|field| (field.name.to_owned(), field.schema())).collect();
            let schema = json!({ "type": "object", "properties": properties, "required": needed });
            description["requestBody"] =
                json!({ "required": !needed.is_empty(), "content": { "application/json": { "schema": schema } } });
        }
    }
    description
}

/// The operation id, from method and path: `get_api_v1_jobs_public_id`.
fn id(operation: &Operation) -> String {
    let words = operation.path.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<_> = words.collect();
    format!("{}_{}", operation.method.to_lowercase(), words.join("_"))
}

/// The first distinctive word of a path.
fn tag(path: &str) -> &str {
    let mut words = path.split('/').filter(|word| !matches!(*word, "" | "api" | "v1" | "admin"));
    words.next().filter(|word| !word.starts_with('{')).unwrap_or("lists")
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}'))
}

fn in_path(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
}

fn responses(operation: &Operation) -> Value {
    let mut responses = Map::new();
    let success = match has_envelope(operation) {
        true => reference("Answer"),
        false => json!({ "description": "success", "content": { operation.media: { "schema": {} } } }),
    };
    responses.extend(operation.statuses.iter().map(|status| (status.to_string(), success.clone())));
    let failure = reference(if has_envelope(operation) { "Refused" } else { "RefusedBare" });
    let mut failures: Vec<u16> = operation.failures.to_vec();
    if operation.needs != Needs::Nothing {
        failures.extend(FAILURES);
    }
    if operation.body != Body::None {
        failures.extend(BODY_FAILURES);
    }
    for status in failures {
        responses.entry(status.to_string()).or_insert_with(|| failure.clone());
    }
    responses.into()
}

fn response(description: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/responses/{name}") })
}

/// Whether responses have the envelope `{status, data, error, meta}` (MAP-X-01).
fn has_envelope(operation: &Operation) -> bool {
    operation.path.starts_with("/api/v1/") && !crawler::is_ours(operation.path) && operation.media == "application/json"
}

/// The routes as a plain HTML page, without scripts, styles or other hosts.
pub(crate) fn page(operations: &[Operation]) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Patra API</title></head>\n<body>\n<main>\n<h1>Patra API</h1>\n\
         <p>The same for programs: <a href=\"/openapi.json\">openapi.json</a>. Send <code>Authorization: Bearer KEY</code>.</p>\n",
    );
    for operation in operations {
        let Operation { method, path, says, .. } = operation;
        page.push_str(&format!(
            "<section>\n<h2><code>{method} {path}</code></h2>\n<p>{says}. {}</p>\n",
            who(operation)
        ));
        list(&mut page, "Query", operation.query.iter().map(|field| (field.name, field.needed)));
        if let Body::Json(fields) = operation.body {
            list(&mut page, "Body", fields.iter().map(|field| (field.name, field.needed)));
        }
        page.push_str("</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn who(operation: &Operation) -> String {
    match operation.needs {
        Needs::Nothing => "Needs no key.".to_owned(),
        Needs::Key(scope) => format!("Needs <code>{}</code>.", scope.as_str()),
        Needs::Operator(scope) => format!("Needs <code>{}</code>, for all projects.", scope.as_str()),
    }
}

fn list(page: &mut String, heading: &str, fields: impl Iterator<Item = (&'static str, bool)>) {
    let fields: Vec<_> = fields
        .map(
            |(name, needed)| {
                if needed { format!("<b><code>{name}</code></b>") } else { format!("<code>{name}</code>") }
            },
        )
        .collect();
    if !fields.is_empty() {
        page.push_str(&format!("<p>{heading}: {}</p>\n", fields.join(", ")));
    }
}

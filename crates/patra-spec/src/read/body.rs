//! The `body` of a request.

use super::inputs::request_params;
use super::reader::Reader;
use super::scalar;
use crate::manifest::Body;
use crate::yaml::{Data, Node};

pub(super) fn body(reader: &mut Reader, path: &str, node: &Node) -> Option<Body> {
    let Data::Map(_) = node.data else {
        return match &node.data {
            Data::Text(text) => Some(Body::raw(text.as_str())),
            _ => reader.wrong(path, node, "a text, or a section with `json`, `form` or `raw`"),
        };
    };
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let body = Body {
        json: reader.get(s, "json", json),
        form: reader.get(s, "form", request_params),
        raw: reader.get(s, "raw", Reader::text),
    };
    reader.close(&section);
    Some(body)
}

/// The places of its texts are remembered, as each is a template that may be wrong.
fn json(reader: &mut Reader, path: &str, node: &Node) -> Option<serde_json::Value> {
    let (Data::Map(_) | Data::List(_)) = node.data else {
        return reader.wrong(path, node, "a section or a list");
    };
    places(reader, path, node);
    Some(scalar::to_json(node))
}

fn places(reader: &mut Reader, path: &str, node: &Node) {
    match &node.data {
        Data::Map(entries) => {
            for entry in entries {
                let path = reader.enter(path, &entry.key, entry);
                places(reader, &path, &entry.value);
            }
        }
        Data::List(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = reader.element(path, at, item);
                places(reader, &path, item);
            }
        }
        _ => {}
    }
}

//! What a run is given: the sections `params`, `partitions` and `expr`, and the values of requests.

use std::collections::BTreeMap;

use super::reader::Reader;
use crate::manifest::{Expr, Param, Parent, Partition, RequestParam};
use crate::yaml::{Data, Node};

pub(super) fn params(reader: &mut Reader, path: &str, node: &Node) -> Option<BTreeMap<String, Param>> {
    let section = reader.section(path, node)?;
    let mut params = BTreeMap::new();
    for entry in section.entries {
        let path = reader.enter(path, &entry.key, entry);
        params.insert(entry.key.clone(), param(reader, &path, &entry.value).unwrap_or_default());
    }
    Some(params)
}

fn param(reader: &mut Reader, path: &str, node: &Node) -> Option<Param> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let param = Param {
        default: reader.get(s, "default", Reader::scalar),
        required: reader.get(s, "required", Reader::flag),
        pattern: reader.get(s, "pattern", Reader::text),
        secret: reader.get(s, "secret", Reader::flag),
        description: reader.get(s, "description", Reader::text),
    };
    reader.close(&section);
    Some(param)
}

pub(super) fn partitions(reader: &mut Reader, path: &str, node: &Node) -> Option<Vec<Partition>> {
    reader.list(path, node, partition)
}

fn partition(reader: &mut Reader, path: &str, node: &Node) -> Option<Partition> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let partition = Partition {
        param: reader.get(s, "param", Reader::text),
        values: reader.get(s, "values", Reader::scalars).unwrap_or_default(),
        parent: reader.get(s, "parent", parent),
    };
    reader.close(&section);
    Some(partition)
}

fn parent(reader: &mut Reader, path: &str, node: &Node) -> Option<Parent> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let parent =
        Parent { endpoint: reader.get(s, "endpoint", Reader::code), path: reader.get(s, "path", Reader::text) };
    reader.close(&section);
    Some(parent)
}

pub(super) fn expr(reader: &mut Reader, path: &str, node: &Node) -> Option<Expr> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let expr = Expr {
        allowed_functions: reader.get(s, "allowed_functions", Reader::scalars),
        null_policy: reader.get(s, "null_policy", Reader::word),
        time_format: reader.get(s, "time_format", Reader::text),
        timezone: reader.get(s, "timezone", Reader::text),
    };
    reader.close(&section);
    Some(expr)
}

/// Name to value, as in `query`, `headers` and forms.
pub(super) fn request_params(reader: &mut Reader, path: &str, node: &Node) -> Option<BTreeMap<String, RequestParam>> {
    let section = reader.section(path, node)?;
    let mut params = BTreeMap::new();
    for entry in section.entries {
        let path = reader.enter(path, &entry.key, entry);
        if let Some(param) = request_param(reader, &path, &entry.value) {
            params.insert(entry.key.clone(), param);
        }
    }
    Some(params)
}

fn request_param(reader: &mut Reader, path: &str, node: &Node) -> Option<RequestParam> {
    match &node.data {
        Data::Text(text) | Data::Number(text) => return Some(RequestParam::plain(text.as_str())),
        Data::Bool(yes) => return Some(RequestParam::plain(yes.to_string())),
        Data::Map(_) => {}
        Data::Null | Data::List(_) => {
            return reader.wrong(path, node, "a text, a number, a boolean, or a section with `expr`");
        }
    }
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let expr = reader.get(s, "expr", Reader::scalar);
    let param = RequestParam {
        default: reader.get(s, "default", Reader::scalar),
        required: reader.get(s, "required", Reader::flag).unwrap_or_default(),
        pattern: reader.get(s, "pattern", Reader::text),
        expr: expr.clone().unwrap_or_default(),
    };
    reader.close(&section);
    if expr.is_none() {
        reader.missing(&section, "expr");
    }
    Some(param)
}

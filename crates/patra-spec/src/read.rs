//! YAML to a [`Manifest`], with every problem of the file at once: first each section is decoded, then what was decoded
//! is checked; a check that only repeats a decoding problem is left out.

mod auth;
mod body;
mod detail;
mod endpoint;
mod inputs;
mod limits;
mod reader;
mod record;
mod response;
mod scalar;
mod schedule;
pub(crate) mod tour;

use crate::manifest::Manifest;
use crate::origin::{Origin, Place, Pos};
use crate::problem::Problems;
use crate::yaml::{self, Data, Node};
use reader::Reader;

/// Reads and checks a manifest. `file` is only used to name places.
pub fn read(file: &str, text: &str) -> Result<Manifest, Problems> {
    let root = yaml::parse(file, text).map_err(Problems::one)?;
    let mut reader = Reader::new(file);
    let start = Pos { line: 1, column: 1 };
    reader.origin.places.insert(String::new(), Place { key: start, value: start, shift: None });
    let Some(manifest) = manifest(&mut reader, &root) else {
        return Problems::or(reader.problems, None).and_then(|none| none.ok_or_else(|| unreadable(file)));
    };
    let manifest = Manifest { origin: reader.origin.clone(), ..manifest };
    let found = crate::check::manifest(&manifest);
    let news: Vec<_> = found.into_iter().filter(|problem| !reader.is_excused(&problem.path)).collect();
    reader.problems.extend(news);
    Problems::or(reader.problems, manifest)
}

/// Cannot happen: no manifest without a problem. Said rather than asserted.
fn unreadable(file: &str) -> Problems {
    let origin = Origin { file: file.to_owned(), ..Origin::default() };
    Problems::one(origin.problem("", "the manifest cannot be read", None))
}

fn manifest(reader: &mut Reader, root: &Node) -> Option<Manifest> {
    let mut section = reader.section("", root)?;
    let provenance = reader.get(&mut section, "provenance", Reader::code);
    let name = reader.get(&mut section, "name", Reader::text);
    let description = reader.get(&mut section, "description", Reader::text);
    let project = reader.get(&mut section, "project", Reader::text);
    let allow_http = reader.get(&mut section, "allow_http", Reader::flag).unwrap_or(false);
    let defaults = reader.get(&mut section, "defaults", endpoint::defaults).unwrap_or_default();
    let endpoints = reader.get(&mut section, "endpoints", endpoint::endpoints);
    let tests = reader.get(&mut section, "tests", tests).unwrap_or_default();
    reader.close(&section);
    for (key, missing) in [("provenance", provenance.is_none()), ("endpoints", endpoints.is_none())] {
        if missing {
            reader.missing(&section, key);
        }
    }
    let provenance = provenance.unwrap_or_default();
    let name = name.unwrap_or_else(|| provenance.clone());
    let (endpoints, origin) = (endpoints.unwrap_or_default(), Default::default());
    Some(Manifest { provenance, name, description, project, allow_http, defaults, endpoints, tests, origin })
}

/// Tests belong to the test runner: kept as JSON, only the outer list is looked at.
fn tests(reader: &mut Reader, path: &str, node: &Node) -> Option<Vec<serde_json::Value>> {
    match &node.data {
        Data::List(items) => Some(items.iter().map(scalar::to_json).collect()),
        _ => reader.wrong(path, node, "a list of tests"),
    }
}

#[cfg(test)]
mod tests;

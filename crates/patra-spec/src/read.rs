//! Reads YAML into a [`Manifest`] and reports every problem of the file at once: first each section is decoded, then
//! the result is checked. A check that only repeats a decoding problem is left out.

mod auth;
mod body;
mod detail;
mod endpoint;
mod inputs;
pub(crate) mod key_schema;
mod limits;
mod reader;
mod record;
mod response;
mod scalar;
mod schedule;

use crate::manifest::Manifest;
use crate::origin::{ManifestOrigin, SourceSpan, TextPosition};
use crate::problem::Problems;
use crate::yaml::{self, YamlNode, YamlValue};
use reader::ManifestReader;

/// Reads and checks a manifest. `file` is only used in problem messages.
pub fn read(file: &str, text: &str) -> Result<Manifest, Problems> {
    let root = yaml::parse(file, text).map_err(Problems::one)?;
    let mut reader = ManifestReader::new(file);
    let start = TextPosition { line: 1, column: 1 };
    reader.origin.spans.insert(String::new(), SourceSpan { key: start, value: start, shift: None });
    let Some(manifest) = manifest(&mut reader, &root) else {
        return Problems::or(reader.problems, None).and_then(|none| none.ok_or_else(|| unreadable(file)));
    };
    let manifest = Manifest { origin: reader.origin.clone(), ..manifest };
    let found = crate::check::manifest(&manifest);
    let news: Vec<_> = found.into_iter().filter(|problem| !reader.is_covered(&problem.path)).collect();
    reader.problems.extend(news);
    Problems::or(reader.problems, manifest)
}

/// Fallback for an unreadable manifest without a problem, which cannot happen.
fn unreadable(file: &str) -> Problems {
    let origin = ManifestOrigin { file: file.to_owned(), ..ManifestOrigin::default() };
    Problems::one(origin.problem("", "the manifest cannot be read", None))
}

fn manifest(reader: &mut ManifestReader, root: &YamlNode) -> Option<Manifest> {
    let mut section = reader.section("", root)?;
    let provenance = reader.get(&mut section, "provenance", ManifestReader::code);
    let name = reader.get(&mut section, "name", ManifestReader::text);
    let description = reader.get(&mut section, "description", ManifestReader::text);
    let project = reader.get(&mut section, "project", ManifestReader::text);
    let allow_http = reader.get(&mut section, "allow_http", ManifestReader::flag).unwrap_or(false);
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

/// Tests are kept as JSON for the test runner; only the outer list is checked.
fn tests(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<Vec<serde_json::Value>> {
    match &node.data {
        YamlValue::List(items) => Some(items.iter().map(scalar::to_json).collect()),
        _ => reader.expected(path, node, "a list of tests"),
    }
}

#[cfg(test)]
mod tests;

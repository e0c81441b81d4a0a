//! `--record`: writes responses as fixtures, each with a test that `patra test` accepts.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::HttpResponse;
use patra_core::record::Record;
use patra_core::{Ts, Window};
use patra_engine::try_run::{method_name, next_value};
use patra_engine::{TriedPage, TryWalk};
use patra_spec::{ResponseFormat, Snapshot};

use crate::error::Error;

/// Records of a page that its test names.
const FIRST: usize = 2;
/// Most responses of one name in a folder.
const MAX_COPIES: u32 = 1_000;
/// A longer body of a request is not part of its test.
const MAX_BODY: usize = 4_096;

pub(super) struct Recorder<'a> {
    pub(super) folder: &'a Path,
    pub(super) manifest: &'a Path,
    pub(super) spec: &'a Snapshot,
    pub(super) window: Window,
    pub(super) params: &'a Params,
    /// Page size, if it differs from the manifest's.
    pub(super) page_size: Option<u32>,
    pub(super) now: Ts,
    pub(super) entries: Vec<Entry>,
}

/// A test: keys in the order in which they are written.
pub(super) struct Entry {
    given: Pairs,
    expect: Pairs,
}

type Pairs = Vec<(&'static str, Value)>;

impl Recorder<'_> {
    /// Writes the body of a response and remembers its test. Without a response there is nothing to keep.
    pub(super) fn keep(&mut self, tried: &TriedPage) -> Result<(), Error> {
        let Some(response) = &tried.answer else { return Ok(()) };
        let file = self.write(tried, response)?;
        let entry = self.entry(tried, response, &file);
        self.entries.push(entry);
        Ok(())
    }

    /// Never overwrites a file: somebody may have trimmed it by hand.
    fn write(&self, tried: &TriedPage, response: &HttpResponse) -> Result<PathBuf, Error> {
        let failed = |path: &Path, error: &std::io::Error| {
            Error::configuration(format!("cannot write {}: {error}", path.display()))
                .hint("name a writable folder with --record")
        };
        std::fs::create_dir_all(self.folder).map_err(|error| failed(self.folder, &error))?;
        let details = if matches!(tried.position, Position::Ids { .. }) { "-details" } else { "" };
        let stem = format!("{}-page{}{details}", self.spec.endpoint_code, tried.number);
        let named = |suffix: &str| self.folder.join(format!("{stem}{suffix}.{}", self.extension(tried)));
        let mut path = named("");
        for copy in 2..=MAX_COPIES {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(&response.body).map_err(|error| failed(&path, &error))?;
                    return Ok(path);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => path = named(&format!("-{copy}")),
                Err(error) => return Err(failed(&path, &error)),
            }
        }
        let message = format!("{} has too many responses of this name", self.folder.display());
        Err(Error::configuration(message).hint("name another folder with --record"))
    }

    fn extension(&self, tried: &TriedPage) -> &'static str {
        let detail = self.spec.two_phase.as_ref().filter(|_| matches!(tried.position, Position::Ids { .. }));
        match detail.map_or(&self.spec.response, |two_phase| &two_phase.detail.response).format {
            ResponseFormat::Json | ResponseFormat::Tweets => "json",
            ResponseFormat::Xml => "xml",
            ResponseFormat::Csv => "csv",
            ResponseFormat::Feed => "feed",
            ResponseFormat::Page | ResponseFormat::Html => "html",
        }
    }

    fn entry(&self, tried: &TriedPage, response: &HttpResponse, file: &Path) -> Entry {
        let page = format!("page {} of {}", tried.number, self.spec.endpoint_code);
        let (what, at) = match &tried.position {
            Position::Ids { ids, .. } => (format!("details of {page}"), json!({ "ids": ids })),
            position if *position == TryWalk::new(self.spec).first() => (page, Value::Null),
            position => (page, json!(position)),
        };
        let day = self.now.to_short_text();
        let headers: Vec<_> = response.headers.iter().filter(|(name, _)| self.matters(name)).collect();
        let uses_now = serde_json::to_string(&self.spec.http).is_ok_and(|http| http.contains("now("));
        let given = [
            ("name", json!(format!("{what}, as of {}", day.split('T').next().unwrap_or_default()))),
            ("endpoint", json!(self.spec.endpoint_code)),
            ("recorded", json!(relative(self.manifest, file))),
            ("status", if response.status == 200 { Value::Null } else { json!(response.status) }),
            ("headers", if headers.is_empty() { Value::Null } else { json!(headers) }),
            ("at", at),
            ("page_size", json!(self.page_size)),
            ("params", if self.params.is_empty() { Value::Null } else { json!(self.params) }),
            ("from", json!(self.window.from.to_short_text())),
            ("to", json!(self.window.to.to_short_text())),
            ("now", if uses_now { json!(self.now.to_short_text()) } else { Value::Null }),
        ];
        let given = given.into_iter().filter(|(_, value)| !value.is_null()).collect();
        Entry { given, expect: expect(tried) }
    }

    /// Only headers that reading depends on are kept: others may contain secrets.
    fn matters(&self, name: &str) -> bool {
        let (response, paging) = (&self.spec.response, self.spec.pagination.clone().unwrap_or_default());
        let named = [response.total_header.as_ref(), response.has_more_header.as_ref()];
        let named = named.into_iter().chain([paging.next_token_header.as_ref(), paging.next_url_header.as_ref()]);
        name == "retry-after" || named.flatten().any(|header| header.eq_ignore_ascii_case(name))
    }
}

/// The request and the page, as the test must find them again.
fn expect(tried: &TriedPage) -> Pairs {
    let mut expect = Vec::new();
    if let Some(request) = &tried.request {
        expect.push(("method", json!(method_name(request.method))));
        expect.push(("url", json!(parts(&request.url))));
        let body = request.body.as_deref().filter(|body| body.len() <= MAX_BODY);
        let json = body.and_then(|body| serde_json::from_slice::<Value>(body).ok());
        expect.extend(json.map(|json| ("body", json)));
    }
    match &tried.result {
        Ok(page) => {
            expect.push(("items", json!(page.facts.items)));
            expect.extend(page.facts.total.map(|total| ("total", json!(total))));
            let (candidates, records) = (page.candidates.len(), &page.records);
            expect.extend((candidates > 0).then(|| ("candidates", json!(candidates))));
            expect.push(("records", json!(records.len())));
            expect.push(("rejected", json!(page.rejected.len())));
            let updated_at = |record: &Record| record.version.updated_at.to_short_text();
            let first = records.iter().take(FIRST).map(|r| json!({ "id": r.key, "updated_at": updated_at(r) }));
            expect.extend((!records.is_empty()).then(|| ("first", first.collect())));
        }
        Err(refusal) => expect.push(("refused", json!(refusal.fault.level))),
    }
    expect.extend(tried.outlook.as_ref().map(|outlook| ("next", next_value(outlook))));
    expect
}

/// The address and each parameter by itself: the next request may have a credential among them or not.
fn parts(url: &str) -> Vec<&str> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    std::iter::once(address).chain(query.split('&').filter(|pair| !pair.is_empty())).collect()
}

impl Entry {
    /// The entry under `tests:`. JSON is YAML, so values need no conversion.
    pub(super) fn to_yaml(&self) -> String {
        let mut yaml = String::new();
        for (at, (key, value)) in self.given.iter().enumerate() {
            yaml.push_str(&format!("{}{key}: {value}\n", if at == 0 { "  - " } else { "    " }));
        }
        yaml.push_str("    expect:\n");
        for (key, value) in &self.expect {
            yaml.push_str(&format!("      {key}: {value}\n"));
        }
        yaml
    }

    pub(super) fn to_json(&self) -> Value {
        let mut entry = object(&self.given);
        entry.insert("expect".into(), object(&self.expect).into());
        entry.into()
    }
}

fn object(pairs: &Pairs) -> serde_json::Map<String, Value> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

/// The path of a file relative to the manifest's folder.
fn relative(manifest: &Path, file: &Path) -> String {
    let full = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (mut folder, file) = (normal(&full(manifest)), normal(&full(file)));
    folder.pop();
    let same = folder.iter().zip(&file).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), folder.len() - same);
    up.chain(file[same..].iter().cloned()).collect::<Vec<_>>().join("/")
}

fn normal(path: &Path) -> Vec<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_are_named_relative_to_the_manifest() {
        for (manifest, file, expected) in [
            ("sources/a.yaml", "sources/fixtures/a/1.json", "fixtures/a/1.json"),
            ("a.yaml", "./fixtures/1.json", "fixtures/1.json"),
            ("/x/y/a.yaml", "/x/z/1.json", "../z/1.json"),
            ("/x/y/a.yaml", "/x/y/../y/1.json", "1.json"),
        ] {
            assert_eq!(relative(Path::new(manifest), Path::new(file)), expected);
        }
    }
}

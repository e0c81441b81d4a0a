//! Manifests. Problems point into the file; a manifest that is accepted compiles to specs that can be stored, read and used
//! to make requests.

use url::Url;

use patra_connectors::Pager;
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_spec::{Manifest, Operation, Problems, Snapshot, compile, diff, read};

use crate::{endpoint, repeated};

const FILE: &str = "fuzz.yaml";
/// A whole manifest takes long to compile.
const MAX_ENDPOINTS: usize = 2;
/// Longest message of a problem.
const MAX_MESSAGE: usize = 2_000;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match read(FILE, text) {
        Ok(manifest) => check_manifest(&manifest),
        Err(problems) => check_problems(&problems, text),
    }
}

fn check_problems(problems: &Problems, text: &str) {
    // YAML knows three kinds of line breaks.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(!problems.as_slice().is_empty());
    let places = problems.as_slice().iter().map(|problem| (problem.line, problem.column));
    assert!(places.is_sorted(), "not in the order of the file: {problems}");
    for problem in problems.as_slice() {
        let line = usize::try_from(problem.line).ok().and_then(|line| lines.get(line.checked_sub(1)?));
        // A problem at the end of the file stands on the line behind it.
        let columns = line.map_or(0, |line| line.chars().count());
        let inside = line.is_some() || usize::try_from(problem.line).is_ok_and(|line| line == lines.len() + 1);
        let column = usize::try_from(problem.column).unwrap_or(usize::MAX);
        assert!(
            inside && (1..=columns + 1).contains(&column),
            "{problem:?} is outside a file of {} lines",
            lines.len()
        );
        assert!(!problem.message.trim().is_empty() && problem.message.len() <= MAX_MESSAGE, "{problem:?}");
        assert!(problem.to_string().starts_with(&format!("{FILE}:{}:{}: ", problem.line, problem.column)));
    }
}

fn check_manifest(manifest: &Manifest) {
    assert_eq!(diff(Some(manifest), manifest), [], "a manifest differs from itself");
    for name in manifest.endpoints.keys().take(MAX_ENDPOINTS) {
        for operation in [Operation::Harvest, Operation::Backfill, Operation::Update] {
            if let Ok(compiled) = compile(manifest, name, operation) {
                check_spec(&compiled.snapshot);
            }
        }
    }
}

fn check_spec(spec: &Snapshot) {
    let stored = Snapshot::from_body(&spec.body());
    assert_eq!(
        stored.as_ref().ok(),
        Some(spec),
        "what is stored is not what was compiled: {:?}",
        stored.as_ref().err()
    );
    let pager = Pager::new(spec).unwrap_or_else(|fault| panic!("a spec that cannot be used: {fault}"));
    for position in [Position::Time, Position::Page(1), Position::Offset(0), Position::Token(None), Position::Url(None)]
    {
        match pager.request(&endpoint::page_request(&position, &Params::new())) {
            Ok(exchange) => {
                let url = Url::parse(&exchange.request.url);
                assert!(url.is_ok_and(|url| matches!(url.scheme(), "http" | "https")), "{}", exchange.request.url);
            }
            Err(failure) => endpoint::check_fault(&failure.fault),
        }
    }
}

pub fn hostile() -> Vec<Vec<u8>> {
    let mut bomb = "b0: &b0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..8 {
        bomb += &format!("b{level}: &b{level} [{}]\n", vec![format!("*b{}", level - 1); 9].join(","));
    }
    vec![
        bomb.into_bytes(),
        repeated("x: ", "[", 5_000, ""),
        repeated("x: ", "{a: ", 5_000, ""),
        repeated("a: &a [*a]\n", "b: *a\n", 500, ""),
        repeated("provenance: p\nendpoints:\n", "  e: {}\n", 500, ""),
        repeated("", "k", 100_000, ": 1"),
        repeated("provenance: p\nx: \"", "\\u00e4", 10_000, "\""),
        repeated("", "- ", 2_000, "a"),
    ]
}

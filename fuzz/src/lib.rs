//! Fuzz targets. Each takes any bytes, gives them to one reader of the product and asserts what must hold of the
//! result: limits, valid positions, round trips, agreement with a second and simpler reader.
//!
//! The same functions run in two ways. `tests/it` runs the seeds of `corpus/`, hostile inputs and mutations of the
//! seeds, in every test run. The binaries in `fuzz_targets/` run under libFuzzer, guided by coverage: see
//! `scripts/fuzz`.

pub mod cookies;
pub mod csv;
mod endpoint;
pub mod expression;
pub mod feed;
pub mod json_path;
pub mod links;
pub mod manifest;
pub mod page;
mod unique;
pub mod xml;

/// One target: its name is that of its module, its binary and its folder in `corpus/`.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    pub name: &'static str,
    /// Panics on a finding.
    pub check: fn(&[u8]),
    /// Inputs that are too long for `corpus/`, made when they are needed.
    pub hostile: fn() -> Vec<Vec<u8>>,
}

pub const TARGETS: [FuzzTarget; 9] = [
    FuzzTarget { name: "cookies", check: cookies::check, hostile: cookies::hostile },
    FuzzTarget { name: "csv", check: csv::check, hostile: csv::hostile },
    FuzzTarget { name: "expression", check: expression::check, hostile: expression::hostile },
    FuzzTarget { name: "feed", check: feed::check, hostile: feed::hostile },
    FuzzTarget { name: "json_path", check: json_path::check, hostile: json_path::hostile },
    FuzzTarget { name: "links", check: links::check, hostile: links::hostile },
    FuzzTarget { name: "manifest", check: manifest::check, hostile: manifest::hostile },
    FuzzTarget { name: "page", check: page::check, hostile: page::hostile },
    FuzzTarget { name: "xml", check: xml::check, hostile: xml::hostile },
];

/// `before`, `piece` repeated, `after`.
fn repeated(before: &str, piece: &str, times: usize, after: &str) -> Vec<u8> {
    format!("{before}{}{after}", piece.repeat(times)).into_bytes()
}

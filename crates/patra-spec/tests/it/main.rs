//! The public API: manifests to snapshots, rows, YAML, differences and the schema.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

mod compile;
mod examples;
mod export;
mod layers;
mod overrides;
mod registry;
mod schema;
mod sections;
mod thresholds;
mod update;
mod whole_list;

use patra_spec::{Manifest, Operation, compile};

const WORKS: &str = include_str!("works.yaml");
const DEMO: &str = include_str!("../../../../sources/demo.yaml");
/// A manifest with every key.
const EVERYTHING: &str = include_str!("everything.yaml");

fn manifest(yaml: &str) -> Manifest {
    patra_spec::read("t.yaml", yaml).unwrap_or_else(|problems| panic!("{problems}\n{yaml}"))
}

/// The hash of every endpoint that compiles, by endpoint and operation.
fn fingerprints(manifest: &Manifest) -> Vec<String> {
    let mut all = Vec::new();
    for name in manifest.endpoints.keys() {
        for operation in Operation::ALL {
            if let Ok(compiled) = compile(manifest, name, *operation) {
                all.push(format!("{name} {operation} {}", compiled.labels.hash));
            }
        }
    }
    all
}

/// The shipped manifests, and those of these tests.
fn sources() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sources");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let manifests = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let mut texts: Vec<_> = manifests.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(texts.len() >= 2, "the manifests are not where they were");
    texts.extend([WORKS, EVERYTHING].map(str::to_owned));
    texts
}

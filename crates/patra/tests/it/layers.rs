//! Layers within the core, and the implementations of its ports.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::root;

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Lines of code that contain a name, with their file.
fn naming(folder: &Path, text: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for path in sources(folder) {
        let code = fs::read_to_string(&path).unwrap();
        let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//") && line.contains(text));
        found.extend(lines.map(|line| (path.clone(), line.to_owned())));
    }
    found
}

/// Planner and executor depend on the domain and the ports, which depend on neither. The table of crate dependencies
/// ensures that the core uses no other crate.
// covers: ING-2.1-04
#[test]
fn planner_and_executor_depend_on_domain_and_ports_only() {
    let core = root().join("crates/patra-core/src");
    let use_cases = core.join("protocol");
    assert!(sources(&use_cases).iter().any(|path| path.ends_with("planner.rs")));
    let upward: Vec<_> =
        naming(&core, "crate::protocol").into_iter().filter(|(path, _)| !path.starts_with(&use_cases)).collect();
    assert!(upward.is_empty(), "the domain or a port uses the use cases: {upward:?}");
    // Events leave through a port that only the transport implements.
    let ports = naming(&root().join("crates"), "impl Notifier for");
    let outside = |path: &PathBuf| !path.components().any(|part| part.as_os_str() == "tests");
    let crates: Vec<_> = ports.iter().map(|(path, _)| path).filter(|path| outside(path)).collect();
    assert!(
        !crates.is_empty() && crates.iter().all(|path| path.starts_with(root().join("crates/patra-http"))),
        "{crates:?}"
    );
}

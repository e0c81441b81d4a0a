//! Rules of the repository, as ordinary tests: crate dependencies, the style of sources, links in documents, and one
//! schema in both databases. A broken rule names the place.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

mod sql;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use patra_core::port::query::View;
use serde_json::Value;

use crate::support::root;

/// Crates of the workspace that each crate may use. ARCHITECTURE.md has the same table with the reasons.
const EDGES: &[(&str, &[&str])] = &[
    ("patra-core", &[]),
    ("patra-spec", &["patra-core"]),
    ("patra-connectors", &["patra-core", "patra-spec"]),
    ("patra-engine", &["patra-core", "patra-spec", "patra-connectors"]),
    ("patra-http", &["patra-core"]),
    ("patra-store-sqlite", &["patra-core"]),
    ("patra-store-postgres", &["patra-core"]),
    ("patra-api", &["patra-core", "patra-engine"]),
    ("patra-upstream", &["patra-core"]),
    ("patra-testkit", &["patra-core", "patra-engine"]),
    ("patra-fuzz", &["patra-core", "patra-spec", "patra-connectors"]),
    (
        "patra",
        &[
            "patra-api",
            "patra-connectors",
            "patra-core",
            "patra-engine",
            "patra-http",
            "patra-spec",
            "patra-store-postgres",
            "patra-store-sqlite",
            "patra-upstream",
        ],
    ),
];

/// Additional crates that tests may use.
const DEV_EDGES: &[(&str, &[&str])] = &[
    ("patra-store-sqlite", &["patra-testkit"]),
    ("patra-store-postgres", &["patra-testkit"]),
    ("patra-api", &["patra-testkit"]),
    ("patra-engine", &["patra-testkit"]),
    ("patra", &["patra-testkit"]),
];

/// Longest source file; a longer one should be split.
const MAX_LINES: usize = 500;

// covers: TWEET-12
// covers: ING-0.1-06, ING-2.1-01, ING-2.1-03, ING-2.1-05, ING-2.1-06, ING-2.1-07, ING-2.1-08
#[test]
fn crates_use_only_what_the_table_allows() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    let mut broken = Vec::new();
    for package in packages {
        let name = text(&package["name"]);
        if !EDGES.iter().any(|(known, _)| *known == name) {
            broken.push(format!("{name} is not in the table"));
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = text(&dependency["name"]);
            let dev = dependency["kind"] == "dev";
            let allowed = may_use(EDGES, name, used) || (dev && may_use(DEV_EDGES, name, used));
            if ours.contains(used) && !allowed {
                broken.push(format!("{name} uses {used}{}", if dev { " in its tests" } else { "" }));
            }
        }
    }
    assert_none("edges that are not in the table", &broken);
}

/// The store itself shows the rows of all projects.
// covers: POOL-08, POOL-120
#[test]
fn routes_read_rows_only_through_the_store_of_their_project() {
    let reads = ["list", "sources", "raw_items", "progress", "lineage", "evidence"];
    let mut broken = Vec::new();
    for path in sources().filter(|path| shown(path).starts_with("crates/patra-api/src/")) {
        if shown(&path).ends_with("project_store.rs") || shown(&path).contains("tests") {
            continue;
        }
        let text: String = read(&path).split_whitespace().collect();
        let direct = |name: &&&str| text.contains(&format!("api.store.{name}("));
        broken.extend(reads.iter().filter(direct).map(|name| format!("{}: api.store.{name}", shown(&path))));
    }
    assert_none("read through `tenant.store(api)`", &broken);
}

#[test]
fn no_file_is_called_mod_rs() {
    let broken: Vec<_> = sources().filter(|path| path.ends_with("mod.rs")).map(|path| shown(&path)).collect();
    assert_none("use foo.rs next to foo/", &broken);
}

#[test]
fn no_source_file_is_longer_than_its_limit() {
    let long = |path: &PathBuf| Some(read(path).lines().count()).filter(|lines| *lines > MAX_LINES);
    let broken: Vec<_> =
        sources().filter_map(|path| Some(format!("{}: {} lines", shown(&path), long(&path)?))).collect();
    assert_none("split these in two ideas", &broken);
}

#[test]
fn links_in_documents_point_to_files_that_exist() {
    let mut broken = Vec::new();
    for path in files(&["md"]) {
        let folder = path.parent().unwrap();
        for target in links(&read(&path)) {
            let file = target.split('#').next().unwrap_or_default();
            let outside = file.is_empty() || file.contains("://") || file.starts_with("mailto:");
            if !outside && !folder.join(file).exists() {
                broken.push(format!("{}: {target}", shown(&path)));
            }
        }
    }
    assert_none("dead links", &broken);
}

#[test]
fn sources_have_no_todo_marks() {
    // In two pieces, so that the rule does not find this file.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("dbg", "!("), concat!("to", "do!(")];
    assert_none("left behind", &lines_with(files(&["rs", "sql", "toml", "yaml", "yml"]), &marks));
}

/// Compiling them takes longer than all that they could show: an example belongs into a test, where it is also checked by lints.
#[test]
fn doc_comments_have_no_code_that_would_be_a_test() {
    let mut broken = Vec::new();
    for path in sources() {
        let mut open = false;
        for (at, line) in read(&path).lines().enumerate() {
            let comment = line.trim().strip_prefix("//!").or_else(|| line.trim().strip_prefix("///"));
            let Some(kind) = comment.and_then(|comment| comment.trim().strip_prefix("```")) else { continue };
            open = !open;
            if open && kind != "text" {
                broken.push(format!("{}:{}", shown(&path), at + 1));
            }
        }
    }
    assert_none("write ```text in doc comments", &broken);
    for path in
        files(&["toml"]).filter(|path| path.ends_with("Cargo.toml") && path.with_file_name("src/lib.rs").exists())
    {
        assert!(read(&path).contains("doctest = false"), "{}: no `doctest = false`", shown(&path));
    }
}

#[test]
fn lints_are_expected_with_a_reason_and_never_just_allowed() {
    let marks = [concat!("#[", "allow("), concat!("#![", "allow(")];
    assert_none("write #[expect(lint, reason = \"…\")]", &lines_with(sources(), &marks));
}

// covers: TWEET-150
#[test]
fn files_with_secrets_stay_out_of_the_repository() {
    let ignored = read(&root().join(".gitignore"));
    assert!(ignored.lines().any(|line| line == ".env"), "{ignored}");
}

// covers: ING-0.1-04
#[test]
fn both_databases_have_one_schema() {
    let folder = |store: &str| root().join("crates").join(store).join("migrations");
    let (sqlite, postgres) = (folder("patra-store-sqlite"), folder("patra-store-postgres"));
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.collect::<BTreeSet<_>>().into_iter().collect()
    };
    assert_eq!(names(&sqlite), names(&postgres), "the migrations differ in number or name");
    for (at, name) in names(&sqlite).iter().enumerate() {
        assert!(name.starts_with(&format!("{:03}_", at + 1)), "{name} is not number {:03}", at + 1);
        let (left, right) = (sql::schema(&read(&sqlite.join(name))), sql::schema(&read(&postgres.join(name))));
        let only = |of: &BTreeSet<String>, than: &BTreeSet<String>, store: &str| -> Vec<String> {
            of.difference(than).map(|what| format!("{name}: {what} is only in {store}")).collect()
        };
        let mut broken = only(&left, &right, "SQLite");
        broken.extend(only(&right, &left, "PostgreSQL"));
        assert_none("the schemas differ", &broken);
        assert!(!left.is_empty(), "{name} defines nothing");
    }
}

#[test]
fn changelog_has_an_unreleased_section() {
    let changelog = read(&root().join("CHANGELOG.md"));
    assert!(changelog.lines().any(|line| line.trim() == "## [Unreleased]"), "no section `## [Unreleased]`");
}

#[test]
fn the_documented_commands_are_those_of_the_program() {
    let documented: BTreeSet<String> = read(&root().join("docs/cli.md"))
        .lines()
        .filter_map(|line| line.trim_start_matches('#').trim().strip_prefix("`patra ")?.strip_suffix('`'))
        .map(str::to_owned)
        .collect();
    let mut real = BTreeSet::new();
    for command in subcommands(&[]) {
        let inner = subcommands(&[&command]);
        if inner.is_empty() {
            real.insert(command.clone());
        }
        real.extend(inner.into_iter().map(|inner| format!("{command} {inner}")));
    }
    assert!(real.contains("key create"), "the help was not understood: {real:?}");
    assert_eq!(documented, real, "docs/cli.md and `patra --help` differ");
}

/// Every requirement that a test covers must exist.
#[test]
fn covered_requirements_exist() {
    let mut known = BTreeSet::new();
    for path in files(&["md"]).filter(|path| path.starts_with(root().join("docs/requirements"))) {
        let text = read(&path);
        known.extend(text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))).map(str::to_owned));
    }
    let mut broken = Vec::new();
    for path in sources() {
        for (at, line) in read(&path).lines().enumerate() {
            let Some(ids) = line.trim().strip_prefix(concat!("// ", "covers:")) else { continue };
            // Words next to the ids are comments, and are not looked up.
            let ids = ids.split(',').map(str::trim).filter(|id| id.starts_with(|c: char| c.is_ascii_uppercase()));
            let unknown = ids.filter(|id| !known.contains(*id));
            broken.extend(unknown.map(|id| format!("{}:{}: {id}", shown(&path), at + 1)));
        }
    }
    assert_none("no such requirement in docs/requirements", &broken);
}

/// A long list of ids above one function does not show which of them would fail. Each id belongs to the test or
/// contract case whose assertions prove it.
#[test]
fn no_function_names_more_than_25_requirements() {
    const MAX_COVERED: usize = 25;
    let mut broken = Vec::new();
    for path in sources() {
        let (mut named, mut first) = (0, 0);
        for (at, line) in read(&path).lines().chain([""]).enumerate() {
            if let Some(ids) = line.trim().strip_prefix(concat!("// ", "covers:")) {
                first = if named == 0 { at + 1 } else { first };
                named += ids.split(',').filter(|id| !id.trim().is_empty()).count();
                continue;
            }
            if named > MAX_COVERED {
                broken.push(format!("{}:{first}: {named} ids", shown(&path)));
            }
            named = 0;
        }
    }
    assert_none("functions that name too many requirements", &broken);
}

/// The page lists the tests that prove each item.
// covers: ING-5.10-01, ING-9.9-01, ING-11.11-01, ING-12.7-01, ING-13.10-01, ING-14.12-01
#[test]
fn the_definition_of_done_names_tests_that_exist() {
    let page = read(&root().join("docs/definition-of-done.md"));
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|line| line.starts_with("| ING-DOD-")).map(|line| line.split(" | ").collect()).collect();
    let items: Vec<String> = rows.iter().map(|row| row[0].trim_start_matches("| ").to_owned()).collect();
    let expected: Vec<String> = (1..=28).map(|number| format!("ING-DOD-{number:02}")).collect();
    assert_eq!(items, expected, "each item of the six lists, once, in its order");
    let mut broken = Vec::new();
    for row in rows {
        let (item, files) = (row[0], row[2].split("](../").skip(1));
        let mut named = 0;
        for (path, rest) in files.filter_map(|file| file.split_once(')')) {
            let text = read(&root().join(path));
            for name in rest.split('[').next().unwrap_or_default().split('`').skip(1).step_by(2) {
                named += 1;
                if !text.contains(&format!("fn {name}(")) {
                    broken.push(format!("{item}: {path} has no `{name}`"));
                }
            }
        }
        if named == 0 {
            broken.push(format!("{item}: nothing shows it"));
        }
    }
    assert_none("tests that docs/definition-of-done.md names", &broken);
}

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn may_use(table: &[(&str, &[&str])], name: &str, used: &str) -> bool {
    table.iter().any(|(known, allowed)| *known == name && allowed.contains(&used))
}

/// The names under `Commands:` in the help, except `help`.
fn subcommands(of: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_patra")).args(of).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Continuation lines of a long description are indented further.
    let names = list.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Targets of links and pictures, except in code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for start in ["](", "src=\"", "srcset=\"", "href=\""] {
            let end = if start == "](" { ')' } else { '"' };
            let targets = plain.split(start).skip(1).filter_map(|rest| rest.split(end).next());
            found.extend(targets.map(|target| target.split(' ').next().unwrap_or_default().to_owned()));
        }
    }
    found
}

fn lines_with(paths: impl Iterator<Item = PathBuf>, marks: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in paths {
        let text = read(&path);
        let lines = text.lines().enumerate().filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)));
        found.extend(lines.map(|(at, line)| format!("{}:{}: {}", shown(&path), at + 1, line.trim())));
    }
    found
}

#[track_caller]
#[test]
fn docs_name_every_view_of_get() {
    for page in ["docs/cli.md", "docs/http.md"] {
        let text = read(&root().join(page));
        let names = View::ALL.iter().map(|view| view.as_str().to_owned());
        let missing: Vec<_> = names.filter(|name| !text.contains(&format!("`{name}`"))).collect();
        assert_none(&format!("views that {page} must name"), &missing);
    }
}

fn assert_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

fn sources() -> impl Iterator<Item = PathBuf> {
    files(&["rs"])
}

/// Files of the repository by the end of their names, without build output and collected data.
fn files(extensions: &'static [&'static str]) -> impl Iterator<Item = PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "patra-data") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|end| extensions.iter().any(|wanted| end == *wanted)) {
                found.insert(path, ());
            }
        }
    }
    assert!(!found.is_empty(), "no {extensions:?} found: is the test looking in the right place?");
    found.into_keys()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

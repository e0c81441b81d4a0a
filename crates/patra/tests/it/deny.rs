//! Checks deny.toml against the dependencies of the workspace on all platforms: licences, bans, sources. Reads the file
//! as cargo-deny does, but needs no tool that a bare machine lacks. A key that this module does not evaluate is an
//! error.
//!
//! Security advisories are the exception: their database is a download. `cargo deny check advisories` reads it.

mod licence;
mod planted;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::support::root;

#[test]
fn dependencies_follow_deny_toml() {
    let rules = Rules::parse(&fs::read_to_string(root().join("deny.toml")).unwrap()).unwrap();
    let found = rules.check(&metadata(rules.graph.all_features));
    if !found.warnings.is_empty() {
        eprintln!("deny.toml warns:\n  {}", found.warnings.join("\n  "));
    }
    assert!(found.broken.is_empty(), "deny.toml is broken:\n  {}", found.broken.join("\n  "));
}

/// Metadata of every package in the lock file. Downloads packages of other platforms once.
fn metadata(all_features: bool) -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked"]).current_dir(root());
    if all_features {
        command.arg("--all-features");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every key of deny.toml. All are required, so that none is dropped by accident.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    graph: Graph,
    advisories: Advisories,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Graph {
    all_features: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advisories {
    ignore: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
    private: Private,
}

/// Licences that are allowed for one crate only.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Private {
    ignore: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Lint,
    wildcards: Lint,
    allow_wildcard_paths: bool,
    deny: Vec<Banned>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Lint,
    unknown_git: Lint,
    allow_registry: Vec<String>,
    allow_git: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Lint {
    Allow,
    Warn,
    Deny,
}

/// One package of `cargo metadata`.
#[derive(Debug)]
struct Package<'m> {
    name: &'m str,
    version: &'m str,
    license: Option<&'m str>,
    /// `None` for a package in a local folder.
    source: Option<&'m str>,
    is_private: bool,
    dependencies: Vec<Dependency<'m>>,
}

#[derive(Debug)]
struct Dependency<'m> {
    name: &'m str,
    requirement: &'m str,
    is_path: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    broken: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn add(&mut self, lint: Lint, message: String) {
        match lint {
            Lint::Allow => {}
            Lint::Warn => self.warnings.push(message),
            Lint::Deny => self.broken.push(message),
        }
    }

    fn deny(&mut self, message: String) {
        self.add(Lint::Deny, message);
    }
}

impl Rules {
    fn parse(text: &str) -> Result<Rules, String> {
        let rules: Rules = basic_toml::from_str(text).map_err(|error| format!("unknown rule: {error}"))?;
        // `name@version` and `name:version` select less than the whole crate.
        let names = rules.bans.deny.iter().map(|banned| &banned.name);
        let mut names = names.chain(rules.licenses.exceptions.iter().map(|exception| &exception.name));
        match names.find(|name| name.contains(['@', ':', ' ', '='])) {
            Some(name) => Err(format!("unknown rule: `{name}` is no plain crate name")),
            None => Ok(rules),
        }
    }

    fn check(&self, metadata: &Value) -> Findings {
        let packages = packages(metadata);
        let mut findings = Findings::default();
        if !self.advisories.ignore.is_empty() {
            findings.deny(format!("advisories are ignored: {}", self.advisories.ignore.join(", ")));
        }
        self.licenses.check(&packages, &mut findings);
        self.bans.check(&packages, &mut findings);
        for package in &packages {
            self.sources.check(package, &mut findings);
        }
        findings
    }
}

impl Licenses {
    fn check(&self, packages: &[Package<'_>], findings: &mut Findings) {
        let mut met: BTreeSet<(&str, String)> = BTreeSet::new();
        for package in packages.iter().filter(|package| !(package.is_private && self.private.ignore)) {
            let Some(text) = package.license else {
                findings.deny(format!("{package} names no licence"));
                continue;
            };
            match licence::parse(text) {
                Ok(expression) if expression.is_met(&|id| self.allows(package.name, id)) => {
                    met.extend(expression.ids().into_iter().map(|id| (package.name, id)));
                }
                Ok(_) => findings.deny(format!("{package}: the licence `{text}` is not allowed")),
                Err(reason) => findings.deny(format!("{package}: the licence `{text}` cannot be read: {reason}")),
            }
        }
        for id in self.allow.iter().filter(|id| !met.iter().any(|(_, met)| met == *id)) {
            findings.deny(format!("the licence {id} is allowed, but no crate has it"));
        }
        for Exception { name, allow } in &self.exceptions {
            let unused = allow.iter().filter(|id| !met.contains(&(name.as_str(), (*id).clone())));
            unused.for_each(|id| findings.deny(format!("the exception of {id} for {name} is not needed")));
        }
    }

    fn allows(&self, name: &str, id: &str) -> bool {
        let exceptions = self.exceptions.iter().filter(|exception| exception.name == name);
        self.allow.iter().chain(exceptions.flat_map(|exception| &exception.allow)).any(|allowed| allowed == id)
    }
}

impl Bans {
    fn check(&self, packages: &[Package<'_>], findings: &mut Findings) {
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages {
            versions.entry(package.name).or_default().push(package.version);
            for Banned { reason, .. } in self.deny.iter().filter(|banned| banned.name == package.name) {
                let users = packages.iter().filter(|user| user.dependencies.iter().any(|one| one.name == package.name));
                let users: Vec<_> = users.map(ToString::to_string).collect();
                findings.deny(format!("{package} is banned ({reason}); used by {}", users.join(", ")));
            }
            let wild = package.dependencies.iter().filter(|dependency| dependency.requirement == "*");
            for dependency in wild.filter(|dependency| !(dependency.is_path && self.allow_wildcard_paths)) {
                findings.add(self.wildcards, format!("{package} uses any version of {}", dependency.name));
            }
        }
        for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
            findings.add(self.multiple_versions, format!("{name} is there in versions {}", versions.join(", ")));
        }
    }
}

impl Sources {
    fn check(&self, package: &Package<'_>, findings: &mut Findings) {
        let Some(source) = package.source else { return };
        let (kind, url) = source.split_once('+').unwrap_or(("", source));
        let (known, lint) = match kind {
            "registry" | "sparse" => (&self.allow_registry, self.unknown_registry),
            "git" => (&self.allow_git, self.unknown_git),
            _ => return findings.deny(format!("{package} comes from {source}, which is neither a registry nor git")),
        };
        // The branch and the commit follow.
        let bare = url.split(['?', '#']).next().unwrap_or_default();
        if !known.iter().any(|known| known == bare) {
            findings.add(lint, format!("{package} comes from {source}"));
        }
    }
}

impl std::fmt::Display for Package<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The packages that are part of the resolved graph.
fn packages(metadata: &Value) -> Vec<Package<'_>> {
    let list = |value: &'static str, of: &'_ Value| of[value].as_array().cloned().unwrap_or_default();
    let members: BTreeSet<String> = strings(&list("workspace_members", metadata));
    let nodes: Vec<Value> = list("nodes", &metadata["resolve"]).iter().map(|node| node["id"].clone()).collect();
    let resolved = strings(&nodes);
    let all = metadata["packages"].as_array().unwrap().iter();
    let packages: Vec<_> = all
        .filter(|package| resolved.contains(text(&package["id"])))
        .map(|package| {
            let is_ours = members.contains(text(&package["id"]));
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            // Dev-dependencies of other packages are not built here.
            let dependencies = dependencies.filter(|dependency| is_ours || dependency["kind"] != "dev");
            let dependencies = dependencies.map(|dependency| Dependency {
                name: text(&dependency["name"]),
                requirement: text(&dependency["req"]),
                is_path: dependency["path"].is_string(),
            });
            Package {
                name: text(&package["name"]),
                version: text(&package["version"]),
                license: package["license"].as_str(),
                source: package["source"].as_str(),
                is_private: package["publish"].as_array().is_some_and(Vec::is_empty),
                dependencies: dependencies.collect(),
            }
        })
        .collect();
    assert_eq!(packages.len(), resolved.len(), "cargo metadata was not understood");
    assert!(!packages.is_empty(), "cargo metadata names no package");
    packages
}

fn strings(values: &[Value]) -> BTreeSet<String> {
    values.iter().map(|value| text(value).to_owned()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

//! The checker on packages that break each rule.

use serde_json::{Value, json};

use super::{Findings, Rules};

const RULES: &str = r#"
[graph]
all-features = true
[advisories]
ignore = []
[licenses]
allow = ["MIT"]
exceptions = [{ crate = "special", allow = ["MPL-2.0"] }]
[licenses.private]
ignore = false
[bans]
multiple-versions = "warn"
wildcards = "deny"
allow-wildcard-paths = true
deny = [{ crate = "openssl", reason = "one TLS stack" }]
[sources]
unknown-registry = "deny"
unknown-git = "deny"
allow-registry = ["https://github.com/rust-lang/crates.io-index"]
allow-git = ["https://example.org/known"]
"#;
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Our own package `own`, and `special` with its exception; `more` are added.
fn metadata(more: &[Value]) -> Value {
    let path = json!({ "name": "special", "req": "*", "kind": null, "path": "/w/special" });
    let own = json!({
        "name": "own", "version": "1.0.0", "license": "MIT", "source": null, "publish": [], "dependencies": [path],
    });
    let mut packages = vec![own, package("special", "MPL-2.0", CRATES_IO)];
    packages.extend_from_slice(more);
    for package in &mut packages {
        package["id"] = json!(format!("{}@{}", package["name"], package["version"]));
    }
    let nodes: Vec<_> = packages.iter().map(|package| json!({ "id": package["id"] })).collect();
    json!({ "workspace_members": [packages[0]["id"]], "resolve": { "nodes": nodes }, "packages": packages })
}

fn package(name: &str, license: &str, source: &str) -> Value {
    json!({ "name": name, "version": "2.0.0", "license": license, "source": source, "publish": null, "dependencies": [] })
}

fn found(rules: &str, more: &[Value]) -> Findings {
    Rules::parse(rules).unwrap().check(&metadata(more))
}

#[track_caller]
fn check(more: &[Value], expected: &str) {
    let expected = Findings { broken: vec![expected.to_owned()], warnings: vec![] };
    assert_eq!(found(RULES, more), expected);
}

#[test]
fn packages_that_keep_the_rules_pass() {
    assert_eq!(found(RULES, &[package("good", "GPL-3.0 OR MIT", CRATES_IO)]), Findings::default());
}

#[test]
fn licences_that_are_not_allowed_are_broken() {
    let refused = "bad 2.0.0: the licence `GPL-3.0-only` is not allowed";
    check(&[package("bad", "GPL-3.0-only", CRATES_IO)], refused);
    let for_another = "bad 2.0.0: the licence `MIT AND MPL-2.0` is not allowed";
    check(&[package("bad", "MIT AND MPL-2.0", CRATES_IO)], for_another);
    let mut silent = package("bad", "", CRATES_IO);
    silent["license"] = Value::Null;
    check(&[silent], "bad 2.0.0 names no licence");
    let unread = "bad 2.0.0: the licence `see LICENSE` cannot be read: `LICENSE` is not expected";
    check(&[package("bad", "see LICENSE", CRATES_IO)], unread);
}

#[test]
fn private_packages_are_checked_unless_the_file_says_otherwise() {
    let mut private = package("mine", "Secret", CRATES_IO);
    private["publish"] = json!([]);
    check(std::slice::from_ref(&private), "mine 2.0.0: the licence `Secret` is not allowed");
    let rules = RULES.replace("ignore = false", "ignore = true").replace("allow = [\"MIT\"]", "allow = []");
    assert_eq!(found(&rules, &[private]), Findings::default());
}

#[test]
fn allowances_that_nothing_needs_are_broken() {
    let rules = RULES.replace("[\"MIT\"]", "[\"MIT\", \"Zlib\"]").replace("[\"MPL-2.0\"]", "[\"MPL-2.0\", \"ISC\"]");
    let unused = ["the licence Zlib is allowed, but no crate has it", "the exception of ISC for special is not needed"];
    assert_eq!(found(&rules, &[]).broken, unused);
}

#[test]
fn banned_crates_are_broken_and_their_users_are_named() {
    let mut user = package("user", "MIT", CRATES_IO);
    user["dependencies"] = json!([{ "name": "openssl", "req": "^2", "kind": null }]);
    let expected = "openssl 2.0.0 is banned (one TLS stack); used by user 2.0.0";
    check(&[package("openssl", "MIT", CRATES_IO), user], expected);
}

#[test]
fn wildcard_versions_are_broken_except_for_paths_and_tests_of_others() {
    let with = |kind: Value, path: Value| {
        let mut user = package("user", "MIT", CRATES_IO);
        user["dependencies"] = json!([{ "name": "loose", "req": "*", "kind": kind, "path": path }]);
        user
    };
    check(&[with(Value::Null, Value::Null)], "user 2.0.0 uses any version of loose");
    check(&[with(json!("build"), Value::Null)], "user 2.0.0 uses any version of loose");
    assert_eq!(found(RULES, &[with(json!("dev"), Value::Null)]), Findings::default());
    assert_eq!(found(RULES, &[with(Value::Null, json!("/w/loose"))]), Findings::default());
    let strict = RULES.replace("allow-wildcard-paths = true", "allow-wildcard-paths = false");
    assert_eq!(found(&strict, &[]).broken, ["own 1.0.0 uses any version of special"]);
}

#[test]
fn several_versions_of_a_crate_are_as_bad_as_the_file_says() {
    let mut older = package("special", "MPL-2.0", CRATES_IO);
    older["version"] = json!("0.1.0");
    let message = vec!["special is there in versions 2.0.0, 0.1.0".to_owned()];
    assert_eq!(
        found(RULES, std::slice::from_ref(&older)),
        Findings { warnings: message.clone(), ..Findings::default() }
    );
    let rule = |lint: &str| RULES.replace("multiple-versions = \"warn\"", &format!("multiple-versions = \"{lint}\""));
    assert_eq!(found(&rule("deny"), std::slice::from_ref(&older)).broken, message);
    assert_eq!(found(&rule("allow"), &[older]), Findings::default());
}

#[test]
fn unknown_sources_are_broken() {
    for source in [
        "git+https://example.org/other?branch=main#0123456",
        "git+https://example.org/known.evil#0123456",
        "registry+https://example.org/index",
        "sparse+https://index.example.org/",
    ] {
        check(&[package("odd", "MIT", source)], &format!("odd 2.0.0 comes from {source}"));
    }
    let odd = "odd 2.0.0 comes from ftp://example.org, which is neither a registry nor git";
    check(&[package("odd", "MIT", "ftp://example.org")], odd);
    let known = package("odd", "MIT", "git+https://example.org/known?rev=1#0123456");
    assert_eq!(found(RULES, &[known]), Findings::default());
}

#[test]
fn ignored_advisories_are_broken() {
    let rules = RULES.replace("[advisories]\nignore = []", "[advisories]\nignore = [\"RUSTSEC-2024-0001\"]");
    assert_eq!(found(&rules, &[]).broken, ["advisories are ignored: RUSTSEC-2024-0001"]);
}

#[test]
fn a_rule_that_is_not_evaluated_is_an_error() {
    for (section, key) in [
        ("[graph]", "targets = []"),
        ("[advisories]", "yanked = \"deny\""),
        ("[licenses]", "confidence-threshold = 0.9"),
        ("[licenses.private]", "registries = []"),
        ("[bans]", "skip = []"),
        ("[sources]", "private = []"),
        ("[sources]", "[sources.allow-org]\ngithub = []"),
    ] {
        let error = Rules::parse(&RULES.replace(section, &format!("{section}\n{key}"))).unwrap_err();
        assert!(error.starts_with("unknown rule"), "{key}: {error}");
    }
    for (from, to) in [
        ("reason = \"one TLS stack\"", "reason = \"x\", wrappers = [\"a\"]"),
        ("crate = \"openssl\"", "crate = \"openssl@0.10\""),
        ("crate = \"special\"", "crate = \"special:=1.0.0\""),
        ("wildcards = \"deny\"", "wildcards = \"maybe\""),
    ] {
        let error = Rules::parse(&RULES.replace(from, to)).unwrap_err();
        assert!(error.starts_with("unknown rule"), "{to}: {error}");
    }
}

#[test]
fn no_rule_can_be_left_out() {
    let keys = RULES.lines().filter(|line| line.contains(" = "));
    for key in keys {
        assert!(Rules::parse(&RULES.replace(key, "")).is_err(), "{key} is not missed");
    }
}

//! `patra explain`: codes, levels and exit codes. The table itself is tested next to its source.

use std::path::Path;

use crate::snapshot::{check, patra, transcript};

#[test]
fn explain_prints_meaning_level_and_actions() {
    let folder = &std::env::temp_dir();
    let all = [&["explain", "RATE_LIMITED"][..], &["explain", "l4"], &["explain", "78"], &["explain", "UNAUTHORIZED"]];
    check("explain", &all.map(|args| transcript(folder, args)).join("\n"));
    check("explain_list", &transcript(folder, &["explain"]));
}

#[test]
fn explain_suggests_the_closest_code() {
    let folder = &std::env::temp_dir();
    let all = [&["explain", "RATELIMITED"][..], &["explain", "nonsense"], &["explain", "3"]];
    check("explain_unknown", &all.map(|args| transcript(folder, args)).join("\n"));
    assert_eq!(patra(folder, &["explain", "nonsense"]).status.code(), Some(64));
}

#[test]
fn explain_knows_the_code_of_every_error_that_a_command_prints() {
    let place = crate::support::Workspace::sqlite();
    for args in [&["gte"][..], &["get", "items"], &["validate", "nowhere.yaml"]] {
        let output = place.run(args);
        let error = String::from_utf8(output.stderr).unwrap();
        let code = error.split_once("error[").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
        assert!(place.run(&["explain", code]).status.success(), "{code}");
    }
}

#[test]
fn explain_as_json_lists_levels_and_actions() {
    let output = patra(Path::new("."), &["explain", "-o", "json"]);
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let limited = entries.iter().find(|entry| entry["code"] == "RATE_LIMITED").unwrap();
    assert_eq!(limited["levels"], serde_json::json!(["L1"]));
    assert!(limited["actions"].as_array().unwrap().len() > 1);
}

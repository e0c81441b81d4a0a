//! Workflow files, which people share: they must name credentials and never contain one.

use std::path::Path;

use serde_json::Value;

use patra_core::mask::{SecretKind, SecretSpan};

use super::files::{MAX_OF_FILE, all};
use super::needles::Needles;
use super::patterns;
use super::report::{Level, Report};
use crate::error::Error;

/// Largest workflow file that is checked.
const MAX_FILE: u64 = 16 << 20;
const HINT: &str = "put it into a credential of the workflow engine, or into its environment, and replace the secret";

/// Headers that carry a secret.
const HEADERS: &[&str] = &["authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token"];
/// Members whose value is a secret.
const MEMBERS: &[&str] = &[
    "cookie_value",
    "cookie_encrypted",
    "token",
    "access_token",
    "api_key",
    "apikey",
    "password",
    "secret",
    "client_secret",
];

pub(super) fn check(folder: &Path, needles: &Needles, report: &mut Report) -> Result<(), Error> {
    for file in all(folder)? {
        report.count("workflow_files", 1);
        let place = file.display().to_string();
        let large = std::fs::metadata(&file).is_ok_and(|meta| meta.len() > MAX_FILE);
        let text = if large { None } else { std::fs::read(&file).ok() };
        let Some(text) = text else {
            let hint = "move it elsewhere if it is not a workflow";
            report.add(Level::Medium, "workflows", place, "not checked: the file is too large or not readable", hint);
            continue;
        };
        if let Some(owner) = needles.find(&text) {
            let message = format!("a secret of `{owner}` is in this file");
            report.add(Level::Critical, "workflows", place.clone(), message, HINT);
        }
        let text = String::from_utf8_lossy(&text);
        let mut findings = Vec::new();
        match serde_json::from_str(&text) {
            Ok(value) => walk(&value, "$", &mut findings),
            Err(_) => code(&text, "", &mut findings),
        }
        for (level, path, what) in findings.into_iter().take(MAX_OF_FILE) {
            report.add(level, "workflows", format!("{place} {path}").trim(), what, HINT);
        }
    }
    Ok(())
}

type WorkflowFinding = (Level, String, String);

fn walk(value: &Value, path: &str, findings: &mut Vec<WorkflowFinding>) {
    match value {
        Value::Object(members) => {
            let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
            let header = text("name").to_ascii_lowercase();
            if HEADERS.contains(&header.as_str()) && patterns::is_literal(text("value")) {
                findings.push((Level::Critical, path.to_owned(), format!("the header {header} has a literal value")));
            }
            for (name, value) in members {
                let path = format!("{path}.{name}");
                let is_secret = MEMBERS.contains(&name.to_ascii_lowercase().as_str());
                if is_secret && value.as_str().is_some_and(patterns::is_literal) {
                    findings.push((
                        Level::High,
                        path.clone(),
                        "a literal secret instead of a reference to one".to_owned(),
                    ));
                }
                walk(value, &path, findings);
            }
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| walk(value, &format!("{path}[{at}]"), findings));
        }
        Value::String(text) => code(text, path, findings),
        _ => {}
    }
}

/// Searches text and code for literal secrets; computed values do not count.
fn code(text: &str, path: &str, findings: &mut Vec<WorkflowFinding>) {
    let is_written_out = |span: &SecretSpan| {
        let before = text[..span.range.start].chars().next_back();
        !matches!(span.kind, SecretKind::Member | SecretKind::Cookie)
            || matches!(before, Some('"' | '\'' | '`'))
            || span.name == "web_session"
    };
    for span in patterns::secrets(text).filter(is_written_out) {
        findings.push((Level::Critical, path.to_owned(), format!("{} is here", patterns::word(&span))));
    }
}

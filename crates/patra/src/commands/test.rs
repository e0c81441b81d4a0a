//! `test`: the offline tests inside manifests. A recorded response is read as if it had just arrived; the records, and
//! the request that leads to it, must be as the test expects. No network, no database.

mod case;
mod check;
mod diff;

use std::path::Path;

use serde::Deserialize as _;
use serde_json::{Value, json};

use patra_engine::try_run::{compiled, endpoint};
use patra_spec::{Manifest, Overrides};

use super::apply;
use crate::cli::{Global, Output, Test};
use crate::error::{Error, Exit};
use crate::output;
use crate::progress::say;

use case::Case;
use diff::Difference;

/// Results of all tests.
#[derive(Default)]
struct Report {
    manifests: usize,
    tests: Vec<Value>,
    passed: usize,
    failed: usize,
    /// Manifests and tests that cannot be read.
    problems: Vec<String>,
}

pub(crate) fn run(global: &Global, args: &Test) -> Result<Exit, Error> {
    let mut report = Report::default();
    for file in apply::files(&args.files)? {
        match apply::read(&file) {
            Ok(Ok((manifest, _))) => report.manifest(global.output, &file, &manifest)?,
            Ok(Err(problems)) => report.problem(problems.to_string()),
            Err(error) => report.problem(error.to_string()),
        }
    }
    report.end(global.output)
}

impl Report {
    fn manifest(&mut self, format: Output, file: &Path, manifest: &Manifest) -> Result<(), Error> {
        self.manifests += 1;
        for (number, test) in manifest.tests.iter().enumerate() {
            match Case::deserialize(test) {
                Ok(case) => {
                    let outcome = one(file, manifest, &case);
                    self.add(format, file, &format!("{}: {}", manifest.provenance, case.name), &outcome)?;
                }
                Err(error) => self.problem(format!("{}: tests[{number}]: {error}", file.display())),
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        format: Output,
        file: &Path,
        name: &str,
        outcome: &Result<Vec<Difference>, String>,
    ) -> Result<(), Error> {
        let passed = outcome.as_ref().is_ok_and(Vec::is_empty);
        *(if passed { &mut self.passed } else { &mut self.failed }) += 1;
        let mut value = json!({ "test": name, "file": file.display().to_string(), "passed": passed });
        let mut text = format!("{:6} {name}", if passed { "ok" } else { "FAILED" });
        match outcome {
            Ok(differences) => {
                value["differences"] = differences.iter().map(Difference::to_json).collect();
                for difference in differences {
                    text.push_str(&format!("\n{}", difference.to_text("         ")));
                }
            }
            Err(reason) => {
                value["error"] = json!(reason);
                text.push_str(&format!("\n         {reason}"));
            }
        }
        match format {
            Output::Table => output::line(&text)?,
            Output::Ndjson => output::line(&value.to_string())?,
            // Printed as one document at the end.
            Output::Json => {}
        }
        self.tests.push(value);
        Ok(())
    }

    fn problem(&mut self, problem: String) {
        say(&problem);
        self.problems.push(problem);
    }

    fn end(self, format: Output) -> Result<Exit, Error> {
        let Report { manifests, tests, passed, failed, problems } = self;
        if format == Output::Json {
            let value = json!({ "passed": passed, "failed": failed, "tests": tests, "problems": problems });
            output::result(format, "", &value)?;
        }
        match manifests {
            _ if passed + failed > 0 || !problems.is_empty() => say(&format!("{passed} passed, {failed} failed")),
            1 => say("no tests in 1 manifest"),
            _ => say(&format!("no tests in {manifests} manifests")),
        }
        match problems.len() {
            0 if failed == 0 => Ok(Exit::Ok),
            0 => Ok(Exit::Failures),
            count => {
                let message = format!("{count} manifests or tests cannot be read");
                Err(Error::configuration(message).hint("fix the problems above; docs/manifest.md describes tests"))
            }
        }
    }
}

fn one(file: &Path, manifest: &Manifest, case: &Case) -> Result<Vec<Difference>, String> {
    let name = endpoint(manifest, case.endpoint.as_deref()).map_err(|error| error.to_string())?;
    let compiled = compiled(manifest, &name, &Overrides::default()).map_err(|problems| problems.to_string())?;
    let folder = file.parent().unwrap_or(Path::new("."));
    check::check(folder, &compiled.snapshot, &compiled.warnings, case)
}

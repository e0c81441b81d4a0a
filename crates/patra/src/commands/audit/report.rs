//! The report: what was checked, and the findings.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

/// Findings that are listed; more are only counted.
const MAX_LISTED: usize = 200;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// A secret is in plaintext, or lost.
    Critical,
    /// Somebody could get access to a secret.
    High,
    /// Worth knowing. The audit passes with it.
    Medium,
}

#[derive(Debug, Serialize)]
struct Finding {
    level: Level,
    check: &'static str,
    r#where: String,
    message: String,
    hint: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    counts: BTreeMap<Level, u64>,
    checked: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(super) fn add(
        &mut self,
        level: Level,
        check: &'static str,
        place: impl Into<String>,
        message: impl Into<String>,
        hint: &'static str,
    ) {
        *self.counts.entry(level).or_default() += 1;
        if self.findings.len() < MAX_LISTED {
            self.findings.push(Finding { level, check, r#where: place.into(), message: message.into(), hint });
        }
    }

    pub(super) fn count(&mut self, what: &'static str, more: u64) {
        *self.checked.entry(what).or_default() += more;
    }

    fn of(&self, level: Level) -> u64 {
        self.counts.get(&level).copied().unwrap_or_default()
    }

    pub(super) fn passed(&self) -> bool {
        self.of(Level::Critical) == 0 && self.of(Level::High) == 0
    }

    pub(super) fn to_value(&self) -> Value {
        let known =
            ["cookies", "credentials", "tokens", "rows", "log_files", "workflow_files", "config_files", "files"];
        let mut checked: BTreeMap<_, _> = known.into_iter().map(|what| (what, 0)).collect();
        checked.extend(&self.checked);
        json!({
            "passed": self.passed(),
            "critical": self.of(Level::Critical),
            "high": self.of(Level::High),
            "medium": self.of(Level::Medium),
            "checked": checked,
            "findings": self.findings,
            "not_listed": self.counts.values().sum::<u64>().saturating_sub(self.findings.len() as u64),
        })
    }
}

//! The report of a replay: the difference table, the cause of a failure, the decisions of a commit, and a verdict
//! (ING-14.9-12).

use serde::Serialize;

use patra_core::{Code, Level};

use super::recording::RecordingKeys;

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    pub keys: RecordingKeys,
    pub mode: ReplayMode,
    pub verdict: ReplayVerdict,
    /// SUCCEEDED or FAILED, as the ledger has it.
    pub status: String,
    pub checks: Vec<ReplayCheck>,
    /// Cause of a failed batch.
    pub cause: Option<ReplayCause>,
    pub healing: HealingDecisions,
    /// None without a store to compare with, and for a response that is no page.
    pub decisions: Option<ReplayDecisions>,
    pub notes: Vec<String>,
}

/// Origin of the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayMode {
    Archive,
    Live,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReplayVerdict {
    Same,
    Different,
    /// The request is the same and the response is not: the upstream has changed since (ING-14.9-11).
    TimePointMismatch,
}

impl ReplayVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            ReplayVerdict::Same => "SAME",
            ReplayVerdict::Different => "DIFFERENT",
            ReplayVerdict::TimePointMismatch => "time-point mismatch",
        }
    }
}

/// One row of the difference table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReplayCheck {
    pub what: &'static str,
    pub recorded: String,
    pub replayed: String,
    pub result: Agreement,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    Same,
    Different,
    /// This batch alone does not show it, or it was not recorded.
    Unknown,
}

impl Agreement {
    pub fn as_str(self) -> &'static str {
        match self {
            Agreement::Same => "same",
            Agreement::Different => "different",
            Agreement::Unknown => "unknown",
        }
    }
}

impl ReplayCheck {
    pub(super) fn of(what: &'static str, recorded: impl Into<String>, replayed: impl Into<String>) -> ReplayCheck {
        let (recorded, replayed) = (recorded.into(), replayed.into());
        let result = if recorded == replayed { Agreement::Same } else { Agreement::Different };
        ReplayCheck { what, recorded, replayed, result }
    }
}

/// Why a batch failed, and whether the replay fails the same way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReplayCause {
    pub code: Code,
    pub level: Level,
    pub message: String,
    /// None where the page alone cannot fail: no response came, or the pages before it decided.
    pub reproduced: Option<bool>,
}

/// Self-healing during the batch, the action that the rules choose for the recorded and the replayed response, and
/// whether these agree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealingDecisions {
    /// Actions such as `qpsDownshift` while the batch was read.
    pub actions: Vec<&'static str>,
    pub retries: u32,
    #[serde(rename = "429Count")]
    pub throttled: u32,
    pub recorded: &'static str,
    /// None when no response was replayed.
    pub replayed: Option<&'static str>,
    pub agrees: Option<bool>,
}

/// Decisions of the recorded commit, and of one now. Nothing is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReplayDecisions {
    pub recorded: ReplayCounts,
    pub now: ReplayCounts,
    /// The first [`MAX_SAMPLES`].
    pub samples: Vec<ReplaySample>,
}

/// Most decisions that are shown one by one (ING-14.9-04).
pub const MAX_SAMPLES: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReplayCounts {
    pub inserted: u32,
    pub updated: u32,
    pub skipped: u32,
    pub failed: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplaySample {
    pub key: String,
    pub decision: &'static str,
    pub version: String,
    pub stored_version: Option<String>,
}

impl ReplayReport {
    /// The verdict by the comparisons.
    pub(super) fn verdict(mode: ReplayMode, checks: &[ReplayCheck]) -> ReplayVerdict {
        let differs = |check: &&ReplayCheck| check.result == Agreement::Different;
        let asked = |check: &&ReplayCheck| matches!(check.what, "context" | "request");
        if !checks.iter().any(|check| differs(&check)) {
            return ReplayVerdict::Same;
        }
        match mode {
            ReplayMode::Live if !checks.iter().filter(asked).any(|check| differs(&check)) => {
                ReplayVerdict::TimePointMismatch
            }
            ReplayMode::Live | ReplayMode::Archive => ReplayVerdict::Different,
        }
    }
}

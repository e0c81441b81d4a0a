//! A compiled trigger, and what a plan is made of.

use serde_json::{Value, json};

use super::Options;
use super::slice::Shape;
use crate::cursor;
use crate::hash::canonical;
use crate::id::CredentialId;
use crate::time::{Ts, iso_text};
use crate::tx::{NewPlan, NewSlice, SavePlan, TriggerTaken};
use crate::window::{Cut, Window};

/// What the compiler hands to the planner.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Canonical JSON of the compiled spec.
    pub snapshot_body: String,
    pub cursor: cursor::Name,
    pub cut: Cut,
    /// Where a namespace begins that has no cursor.
    pub initial: Ts,
    pub shape: Shape,
    /// The credential that the tasks use, by reference (ING-3.10-03).
    pub credential: Option<CredentialId>,
    /// What the merge of the settings was made from (ING-3.3-05).
    pub labels: Value,
    pub warnings: Vec<String>,
}

impl Draft {
    pub(super) fn new_plan(&self, window: Window) -> NewPlan {
        let Shape { safety_lag, budget, priority, params, partition, .. } = &self.shape;
        let remarks = json!({
            "window": { "from": window.from, "to": window.to, "safetyLag": iso_text(*safety_lag) },
            "namespace": { "scope": self.cursor.scope.as_str(), "key": self.cursor.namespace_key },
            "budget": {
                "maxRequests": budget.max_requests,
                "maxDurationSec": budget.max_duration_secs,
                "priority": priority,
            },
            "params": params,
            "partition": partition,
            "labels": self.labels,
            "warnings": self.warnings,
        });
        NewPlan {
            window,
            snapshot_hash: self.shape.snapshot_hash.clone(),
            snapshot_body: self.snapshot_body.clone(),
            remarks: canonical(&remarks),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one place assembles the operation from what the planner decided")]
    pub(super) fn save(
        &self,
        trigger: &TriggerTaken,
        origin: Ts,
        epoch: i64,
        window: Window,
        slices: Vec<NewSlice>,
        complete: bool,
        options: &Options,
    ) -> SavePlan {
        let (instance, fence) = trigger.lease();
        SavePlan {
            instance,
            fence,
            target: trigger.target(self, window),
            project_key: trigger.project_key.clone(),
            cursor: self.cursor.clone(),
            origin,
            epoch,
            slices,
            complete,
            resume_delay: options.inventory_wait,
            priority: self.shape.priority,
            credential: self.credential,
        }
    }
}

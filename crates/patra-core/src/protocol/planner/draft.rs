//! A compiled trigger, and how its slices and task keys are derived. Everything here is a pure function of what the
//! planner saw, so two planners derive the same rows.

use std::time::Duration;

use serde_json::{Value, json};

use super::Options;
use crate::cursor;
use crate::hash::{canonical, digest};
use crate::state::TriggerType;
use crate::time::Ts;
use crate::tx::{NewPlan, NewSlice, SavePlan, TriggerTaken};
use crate::window::{Cut, Window};

/// What the compiler hands to the planner.
#[derive(Clone, Debug)]
pub struct Draft {
    pub snapshot_hash: String,
    /// Canonical JSON.
    pub snapshot_body: String,
    pub cursor: cursor::Name,
    pub cut: Cut,
    pub safety_lag: Duration,
    /// Where a namespace begins that has no cursor.
    pub initial: Ts,
    pub priority: i32,
    /// The `pagination` part of a slice's spec.
    pub pagination: Value,
    pub warnings: Vec<String>,
}

impl Draft {
    pub(super) fn new_plan(&self, window: Window) -> NewPlan {
        let remarks = json!({
            "window": { "from": window.from, "to": window.to, "safetyLag": iso_seconds(self.safety_lag) },
            "namespace": { "scope": self.cursor.scope.as_str(), "key": self.cursor.namespace_key },
            "warnings": self.warnings,
        });
        NewPlan {
            window,
            snapshot_hash: self.snapshot_hash.clone(),
            snapshot_body: self.snapshot_body.clone(),
            remarks: canonical(&remarks),
        }
    }

    pub(super) fn slice(&self, trigger: &TriggerTaken, window: Window, epoch: i64) -> NewSlice {
        let bounds = json!({ "from": window.from.to_micros_text(), "to": window.to.to_micros_text() });
        let expr_snapshot =
            canonical(&json!({ "proto": self.snapshot_hash, "window": bounds, "pagination": self.pagination }));
        let expr_hash = digest(&["expr", &expr_snapshot]);
        let spec = canonical(&json!({
            "dimension": "TIME",
            "bounds": { "time": bounds },
            "phase": { "twoPhase": false },
            "pagination": self.pagination,
            "window": { "safetyLag": iso_seconds(self.safety_lag), "watermarkKey": self.cursor.cursor_key },
            "budget": { "priority": self.priority },
        }));
        let cursor::Name { provenance_code, endpoint_name, operation, .. } = &self.cursor;
        let signature = digest(&["slice", provenance_code, endpoint_name, operation.as_str(), &expr_hash, &spec]);
        let task_params = canonical(&json!({ "window": bounds }));
        let task_key = digest(&[
            "task",
            &trigger.project_key,
            &signature,
            &expr_hash,
            operation.as_str(),
            &trigger_component(trigger),
            &task_params,
            // What the planner saw: the same state gives the same key, so a race makes one task; a window that must be
            // read again after a failure was seen in a later state, so it gets a task of its own (C-47, G-04).
            &epoch.to_string(),
        ]);
        NewSlice { window, spec, signature, expr_snapshot, expr_hash, task_params, task_key }
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
            priority: self.priority,
        }
    }
}

/// Scheduled firings over the same window collapse; a person who asks again with a new id gets new work (C-47).
fn trigger_component(trigger: &TriggerTaken) -> String {
    match trigger.trigger_type {
        TriggerType::Schedule => TriggerType::Schedule.as_str().to_owned(),
        other => format!("{}:{}", other.as_str(), trigger.public_id),
    }
}

fn iso_seconds(span: Duration) -> String {
    format!("PT{}S", span.as_secs())
}

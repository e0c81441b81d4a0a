//! A compiled trigger, and how its slices and task keys are derived. Everything here is a pure function of what the
//! planner saw, so two planners derive the same rows.

use std::time::Duration;

use serde_json::{Value, json};

use super::Options;
use crate::cursor;
use crate::hash::{canonical, canonical_text, digest};
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
        let Texts { bounds, expr_snapshot, spec } = self.texts(window);
        let expr_hash = digest(&["expr", &expr_snapshot]);
        let cursor::Name { provenance_code, endpoint_name, operation, .. } = &self.cursor;
        let signature = digest(&["slice", provenance_code, endpoint_name, operation.as_str(), &expr_hash, &spec]);
        let task_params = format!(r#"{{"window":{bounds}}}"#);
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

    /// Canonical JSON, put together by hand: a plan has thousands of slices, and they differ in their bounds only.
    fn texts(&self, window: Window) -> Texts {
        let (from, to) = (window.from.to_micros_text(), window.to.to_micros_text());
        let bounds = format!(r#"{{"from":"{from}","to":"{to}"}}"#);
        let (proto, pagination) = (canonical_text(&self.snapshot_hash), canonical(&self.pagination));
        let expr_snapshot = format!(r#"{{"pagination":{pagination},"proto":{proto},"window":{bounds}}}"#);
        let (lag, key) = (iso_seconds(self.safety_lag), canonical_text(&self.cursor.cursor_key));
        let spec = format!(
            r#"{{"bounds":{{"time":{bounds}}},"budget":{{"priority":{}}},"dimension":"TIME","pagination":{pagination},"#,
            self.priority
        ) + &format!(
            r#""phase":{{"twoPhase":false}},"window":{{"safetyLag":"{lag}","watermarkKey":{key}}}}}"#
        );
        Texts { bounds, expr_snapshot, spec }
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

/// What a slice says of itself.
#[derive(PartialEq, Debug)]
struct Texts {
    bounds: String,
    expr_snapshot: String,
    spec: String,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Scope;
    use crate::state::Operation;

    #[test]
    fn the_texts_of_a_slice_are_canonical_json() {
        let draft = Draft {
            snapshot_hash: "v1:\"quoted\"".into(),
            snapshot_body: "{}".into(),
            cursor: cursor::Name {
                provenance_code: "p".into(),
                endpoint_name: "e".into(),
                operation: Operation::Harvest,
                cursor_key: "updated\\at\n".into(),
                scope: Scope::Expr,
                namespace_key: "n".into(),
            },
            cut: Cut { max_width: Duration::from_secs(60), align: None },
            safety_lag: Duration::from_secs(90),
            initial: Ts::from_secs(0),
            priority: -3,
            pagination: json!({ "size": 100, "kind": "to\"ken", "deep": { "b": [1, null], "a": 0.5 } }),
            warnings: Vec::new(),
        };
        let window = Window { from: Ts::from_micros(-1), to: Ts::from_secs(1_767_225_600) };
        let bounds = json!({ "from": window.from.to_micros_text(), "to": window.to.to_micros_text() });
        let expr = json!({ "proto": draft.snapshot_hash, "window": bounds, "pagination": draft.pagination });
        let spec = json!({
            "dimension": "TIME",
            "bounds": { "time": bounds },
            "phase": { "twoPhase": false },
            "pagination": draft.pagination,
            "window": { "safetyLag": "PT90S", "watermarkKey": draft.cursor.cursor_key },
            "budget": { "priority": draft.priority },
        });
        let expected = Texts { bounds: canonical(&bounds), expr_snapshot: canonical(&expr), spec: canonical(&spec) };
        assert_eq!(draft.texts(window), expected);
    }
}

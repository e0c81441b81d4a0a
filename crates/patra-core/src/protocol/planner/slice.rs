//! Derives a slice, its signature and its task key from a window. A pure function of what the planner saw, so two
//! planners derive the same rows, and a run that splits its window derives slices of the same form.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bounds::{self, PageRange};
use crate::hash::{canonical, canonical_text, digest};
use crate::paging::{self, PagingRule, Position};
use crate::params::{self, Params};
use crate::state::{Operation, TriggerType};
use crate::time::iso_text;
use crate::tx::{ClaimedJob, NewSlice, SegmentPosition};
use crate::window::Window;

/// Maximum requests of one slice (G-07).
pub const MAX_REQUESTS: u32 = 800;

/// Maximum duration of one slice (G-07).
pub const MAX_DURATION_SECS: u32 = 900;

/// Properties that all slices of a plan share.
#[derive(Clone, PartialEq, Debug)]
pub struct SliceContext {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    /// The key that orders the records of a window, e.g. `updated_at`.
    pub watermark_key: String,
    pub snapshot_hash: String,
    /// Position of the first page.
    pub first: Position,
    /// Params for templates, including defaults.
    pub params: Params,
    /// The params that bind the slice to its partition.
    pub partition: Params,
    pub safety_lag: Duration,
    pub phase: PhaseSpec,
    pub budget: SliceBudget,
    pub priority: i32,
    /// The job's part of the task key, see [`job_component`].
    pub job: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PhaseSpec {
    pub two_phase: bool,
    /// Ids of one detail request.
    pub id_batch_size: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceBudget {
    pub max_requests: u32,
    pub max_duration_secs: u32,
}

impl Default for SliceBudget {
    fn default() -> SliceBudget {
        SliceBudget { max_requests: MAX_REQUESTS, max_duration_secs: MAX_DURATION_SECS }
    }
}

/// The texts of a slice around its bounds, assembled once: a plan has thousands of slices, and they differ in their
/// bounds only.
#[derive(Clone, Debug)]
pub struct SliceTemplate {
    context: SliceContext,
    expr_head: String,
    params_head: String,
    spec_tail: String,
    spec_window: String,
    estimate: Option<SliceEstimate>,
}

/// The planner's estimate for each slice. It depends on other work, so it is not part of the slice's identity (C-50).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceEstimate {
    pub expected_requests: u64,
    /// Remaining requests of the quota for the plan.
    pub budget_hint: Option<u64>,
}

impl SliceTemplate {
    pub fn new(shape: SliceContext) -> SliceTemplate {
        let params = params::to_text(&shape.params);
        let paging = canonical(&pagination(&shape.first));
        let phase = canonical(&shape.phase.to_json());
        let proto = canonical_text(&shape.snapshot_hash);
        let partition = match shape.partition.is_empty() {
            true => String::new(),
            false => format!(r#","partition":{}"#, params::to_text(&shape.partition)),
        };
        SliceTemplate {
            expr_head: format!(r#"{{"pagination":{paging},"params":{params},"proto":{proto},"window":"#),
            params_head: format!(r#"{{"pagination":{paging},"params":{params},"phase":{phase},"window":"#),
            spec_tail: format!(
                r#"}},"budget":{},"dimension":"TIME","pagination":{paging}{partition},"phase":{phase}"#,
                canonical(&shape.budget_json())
            ),
            spec_window: format!(r#","window":{}}}"#, canonical(&shape.window_json())),
            estimate: None,
            context: shape,
        }
    }

    /// The same template, with an estimate for each slice.
    pub fn with_estimate(self, estimate: SliceEstimate) -> SliceTemplate {
        SliceTemplate { estimate: Some(estimate), ..self }
    }

    pub fn shape(&self) -> &SliceContext {
        &self.context
    }

    /// The slice of a window. `generation` is the state that its maker saw: the same state gives the same task key,
    /// so a race makes one task; a window that must be read again after a failure was seen in a later state, so it
    /// gets a task of its own (C-47, G-04).
    pub fn derive(&self, window: Window, generation: &str) -> NewSlice {
        self.slice(window, generation, "", "")
    }

    /// The slice of a part of a window that was cut because of its total.
    pub fn derive_part(&self, window: Window, total: u64, generation: &str) -> NewSlice {
        self.slice(window, generation, "", &format!(r#","total":{total}"#))
    }

    /// The slice of a range of the pages of a window.
    pub fn derive_pages(&self, window: Window, pages: PageRange, rule: &PagingRule, generation: &str) -> NewSlice {
        let first = rule.nth(pages.from);
        let base = u64::from(matches!(rule.kind, paging::PagingKind::Page { base } if base == 1));
        let page = json!({
            "fromPage": pages.from + base,
            "toPage": pages.to.map(|to| to + base),
            "pageSize": rule.page_size,
            "base1": base == 1,
        });
        // Hashes use one form of a time only.
        let time = json!({ "from": window.from.to_micros_text(), "to": window.to.to_micros_text() });
        let bounds = json!({ "time": time, "page": page });
        let extra = [("window", time), ("pages", json!(pages))];
        self.assemble("PAGE", &bounds, &extra, &first, Some(window), None, generation)
    }

    /// The slice of a segment of ids; `ordinal` is its position in the namespace.
    pub fn derive_ids(&self, ids: &bounds::IdSegment, ordinal: i64, generation: &str) -> NewSlice {
        let bounds = json!({ "id": { "from": ids.range.after, "to": ids.range.through } });
        let segment = SegmentPosition { ordinal, last_id: ids.range.through.clone() };
        let first = Position::Keys { after: ids.range.after.clone() };
        self.assemble("ID", &bounds, &[("ids", json!(ids))], &first, None, Some(segment), generation)
    }

    #[expect(clippy::too_many_arguments, reason = "one place puts the three texts of a slice together")]
    fn assemble(
        &self,
        dimension: &str,
        bounds: &Value,
        extra: &[(&str, Value)],
        first: &Position,
        window: Option<Window>,
        segment: Option<SegmentPosition>,
        generation: &str,
    ) -> NewSlice {
        let shape = &self.context;
        let with = |mut object: Value| {
            for (name, value) in extra {
                object[*name] = value.clone();
            }
            canonical(&object)
        };
        let (pagination, phase) = (pagination(first), shape.phase.to_json());
        let expr = json!({ "pagination": pagination, "params": shape.params, "proto": shape.snapshot_hash });
        let expr_snapshot = with(expr);
        let task_params = with(json!({ "pagination": pagination, "params": shape.params, "phase": phase }));
        let mut spec = json!({
            "dimension": dimension,
            "bounds": bounds,
            "phase": phase,
            "pagination": pagination,
            "budget": shape.budget_json(),
        });
        if !shape.partition.is_empty() {
            spec["partition"] = json!(shape.partition);
        }
        if window.is_some() {
            spec["window"] = shape.window_json();
        }
        let (expr_hash, signature, task_key) = self.keys(&expr_snapshot, &canonical(&spec), &task_params, generation);
        if let Some(estimate) = &self.estimate {
            spec["budget"] = shape.budget_with_estimate(estimate);
        }
        NewSlice { window, segment, spec: canonical(&spec), signature, expr_snapshot, expr_hash, task_params, task_key }
    }

    fn keys(&self, expr: &str, spec: &str, task_params: &str, generation: &str) -> (String, String, String) {
        let SliceContext { project_key, provenance_code, endpoint_name, operation, job: claimed, .. } = &self.context;
        let operation = operation.as_str();
        let expr_hash = digest(&["expr", expr]);
        let signature = digest(&["slice", provenance_code, endpoint_name, operation, &expr_hash, spec]);
        let task_key =
            digest(&["task", project_key, &signature, &expr_hash, operation, claimed, task_params, generation]);
        (expr_hash, signature, task_key)
    }

    /// The slice of a window with telemetry for display, which is not part of its identity (ING-8.2-10).
    pub fn derive_with(&self, window: Window, generation: &str, telemetry: &Value) -> NewSlice {
        self.slice(window, generation, &format!(r#","telemetry":{}"#, canonical(telemetry)), "")
    }

    fn slice(&self, window: Window, generation: &str, telemetry: &str, bound: &str) -> NewSlice {
        let (from, to) = (window.from.to_micros_text(), window.to.to_micros_text());
        let bounds = format!(r#"{{"from":"{from}","to":"{to}"}}"#);
        let expr_snapshot = format!("{}{bounds}}}", self.expr_head);
        let task_params = format!("{}{bounds}{bound}}}", self.params_head);
        let spec = |telemetry: &str| {
            format!(r#"{{"bounds":{{"time":{bounds}{}{telemetry}{}"#, self.spec_tail, self.spec_window)
        };
        let normalized = spec("");
        let (expr_hash, signature, task_key) = self.keys(&expr_snapshot, &normalized, &task_params, generation);
        let mut spec = if telemetry.is_empty() { normalized } else { spec(telemetry) };
        if let Some(estimate) = &self.estimate {
            let (plain, noted) =
                (canonical(&self.context.budget_json()), canonical(&self.context.budget_with_estimate(estimate)));
            spec = spec.replacen(&plain, &noted, 1);
        }
        let (window, segment) = (Some(window), None);
        NewSlice { window, segment, spec, signature, expr_snapshot, expr_hash, task_params, task_key }
    }
}

impl SliceContext {
    fn budget_json(&self) -> Value {
        json!({
            "maxDurationSec": self.budget.max_duration_secs,
            "maxRequests": self.budget.max_requests,
            "priority": self.priority,
        })
    }

    fn budget_with_estimate(&self, estimate: &SliceEstimate) -> Value {
        let mut budget = self.budget_json();
        budget["expectedRequests"] = json!(estimate.expected_requests);
        if let Some(hint) = estimate.budget_hint {
            budget["budgetHint"] = json!({ "quotaRemaining": hint });
        }
        budget
    }

    fn window_json(&self) -> Value {
        json!({ "safetyLag": iso_text(self.safety_lag), "watermarkKey": self.watermark_key })
    }
}

impl PhaseSpec {
    fn to_json(self) -> Value {
        json!({ "twoPhase": self.two_phase, "idBatchSize": self.id_batch_size })
    }
}

/// Scheduled jobs over the same window collapse; a person who requests a job again with a new id gets new work
/// (C-47).
pub fn job_component(claimed: &ClaimedJob) -> String {
    match claimed.trigger_type {
        TriggerType::Schedule => TriggerType::Schedule.as_str().to_owned(),
        other => format!("{}:{}", other.as_str(), claimed.public_id),
    }
}

/// The `pagination` part of a slice: the kind of paging, and the first page.
fn pagination(first: &Position) -> Value {
    let initial = |offset: Option<u64>, page: Option<u64>, token: Option<&str>, url: Option<&str>| json!({ "offset": offset, "page": page, "token": token, "url": url });
    let (kind, initial) = match first {
        Position::Offset(offset) => ("OFFSET", initial(Some(*offset), None, None, None)),
        Position::Page(no) => ("PAGE", initial(None, Some(*no), None, None)),
        Position::Token(token) => ("TOKEN", initial(None, None, token.as_deref(), None)),
        Position::Url(url) => ("URL", initial(None, None, None, url.as_deref())),
        Position::Time | Position::Ids { .. } => ("TIME", initial(None, None, None, None)),
        // The ids come from the store; the upstream is asked for their details.
        Position::Keys { after } => ("ID", initial(None, None, after.as_deref(), None)),
    };
    json!({ "type": kind, "initial": initial })
}

#[cfg(test)]
#[path = "tests/slice.rs"]
mod tests;

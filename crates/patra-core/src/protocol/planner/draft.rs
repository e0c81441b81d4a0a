//! A compiled trigger, and what a plan is made of.

use std::time::Duration;

use serde_json::{Value, json};

use super::slice::Shape;
use crate::cursor;
use crate::gate;
use crate::hash::canonical;
use crate::id::CredentialId;
use crate::record::Stream;
use crate::state::{Operation, UpdateReason};
use crate::time::{Ts, iso_text, micros};
use crate::tx::{AskGate, NewPlan, NewSlice, PlanTarget, SavePlan, TriggerTaken, Wanted};
use crate::window::{Cut, Window};

/// What the compiler hands to the planner.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Canonical JSON of the compiled spec.
    pub snapshot_body: String,
    pub cursor: cursor::Name,
    pub span: Span,
    pub shape: Shape,
    /// Tasks of the partition that may be held at once.
    pub c_max: u32,
    /// QUEUED tasks of the partition above which no more are emitted; the planner's own limit when there is none.
    pub inventory: Option<u32>,
    /// What the requests of the plan count for, where a quota is declared (ING-4.10-20).
    pub quota: Option<Quota>,
    /// Requests in a second that the manifest allows, for the record.
    pub qps: f64,
    /// Records that one request brings at most; 0 when nobody knows.
    pub per_request: u32,
    /// The credential that the tasks use, by reference (ING-3.10-03).
    pub credential: Option<CredentialId>,
    /// What the merge of the settings was made from (ING-3.3-05).
    pub labels: Value,
    /// What the far side cannot do, and so is done in another way (ING-12.4-02).
    pub degradations: Vec<&'static str>,
    pub warnings: Vec<String>,
}

/// A key of the rate gate with a quota.
#[derive(Clone, PartialEq, Debug)]
pub struct Quota {
    pub key: String,
    pub limits: gate::Limits,
}

impl Quota {
    /// Only to look: asks for nothing.
    pub(super) fn look(&self) -> AskGate {
        AskGate { key: self.key.clone(), limits: self.limits, ask: gate::Ask::default() }
    }

    /// What a plan of this operation may use of what is left. Something is kept for what comes first, and more of it from those
    /// who come later (ING-4.10-20, ING-4.10-25).
    pub(super) fn budget(view: &gate::View, operation: Operation) -> Option<u64> {
        windows(view, operation).map(|(_, left)| left).min()
    }

    /// When more of it may be free, where nothing is.
    pub(super) fn frees_at(view: &gate::View, operation: Operation) -> Option<Ts> {
        windows(view, operation).filter(|(_, left)| *left == 0).filter_map(|(of, _)| of.frees_at).max()
    }
}

/// Each window, and what of it this operation may use.
fn windows(view: &gate::View, operation: Operation) -> impl Iterator<Item = (gate::Standing, u64)> {
    let kept = match operation {
        Operation::Harvest => 0.1,
        Operation::Update => 0.2,
        Operation::Backfill => 0.3,
    };
    let left = move |of: gate::Standing| of.remaining.saturating_sub((of.limit as f64 * kept) as u64);
    [view.hourly, view.daily].into_iter().flatten().map(move |of| (of, left(of)))
}

/// What a plan is cut along.
#[derive(Clone, Debug)]
pub enum Span {
    Time {
        cut: Cut,
        /// Where a namespace begins that has no cursor.
        initial: Ts,
        /// No slice is made narrower than this because of what history tells.
        narrowest: Duration,
        /// Records that one slice should not exceed.
        depth: u64,
    },
    Ids {
        stream: Stream,
        refresh: Refresh,
    },
}

/// Which stored records an UPDATE fetches again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refresh {
    pub reason: UpdateReason,
    pub stale_after: Duration,
    /// The mapping of today.
    pub generation: String,
    /// Ids per slice.
    pub size: u32,
}

impl Refresh {
    pub fn wanted(&self, now: Ts) -> Wanted {
        match self.reason {
            UpdateReason::Staleness => Wanted::Stale { before: now - self.stale_after },
            UpdateReason::ExprChange => Wanted::MappedOtherThan { generation: self.generation.clone() },
            UpdateReason::Signals => Wanted::Signalled,
        }
    }
}

/// What was decided about a plan, or about a part of one.
pub(super) struct Part {
    /// Of the whole plan.
    pub(super) window: Option<Window>,
    pub(super) origin: Option<Ts>,
    pub(super) epoch: i64,
    pub(super) slices: Vec<NewSlice>,
    pub(super) complete: bool,
    /// The windows of the whole plan, added up.
    pub(super) span: Duration,
    /// Records that the plan will bring, where history has something to say.
    pub(super) estimate: Option<u64>,
    /// Slices of the whole plan, as far as is known.
    pub(super) slice_count: usize,
}

impl Draft {
    fn new_plan(&self, part: &Part) -> NewPlan {
        let Shape { safety_lag, budget, priority, params, partition, .. } = &self.shape;
        let mut remarks = json!({
            "namespace": {
                "scope": self.cursor.scope.as_str(),
                "key": self.cursor.namespace_key,
                "direction": self.cursor.operation.direction().as_str(),
            },
            "budget": {
                "maxRequests": budget.max_requests,
                "maxDurationSec": budget.max_duration_secs,
                "priority": priority,
                "qps": self.qps,
            },
            "totalEstimated": part.estimate,
            "sliceCount": part.slice_count,
            "params": params,
            "partition": partition,
            "labels": self.labels,
            "degradation": self.degradations,
            "warnings": self.warnings,
        });
        if let Some(window) = part.window {
            remarks["window"] = json!({ "from": window.from, "to": window.to, "safetyLag": iso_text(*safety_lag) });
            let width = micros(part.span) / (part.slice_count.max(1) as i64);
            remarks["avgWindow"] = json!(iso_text(Duration::from_micros(width.max(0) as u64)));
        }
        if let Span::Ids { refresh, .. } = &self.span {
            remarks["reason"] = json!(refresh.reason);
        }
        NewPlan {
            window: part.window,
            strategy: if part.window.is_some() { "TIME" } else { "ID" },
            snapshot_hash: self.shape.snapshot_hash.clone(),
            snapshot_body: self.snapshot_body.clone(),
            remarks: canonical(&remarks),
        }
    }

    pub(super) fn save(&self, trigger: &TriggerTaken, part: Part, resume_delay: Duration) -> SavePlan {
        let (instance, fence) = trigger.lease();
        SavePlan {
            instance,
            fence,
            target: match &trigger.plan {
                Some(open) => PlanTarget::Existing(open.plan),
                None => PlanTarget::New(self.new_plan(&part)),
            },
            project_key: trigger.project_key.clone(),
            cursor: self.cursor.clone(),
            origin: part.origin,
            epoch: part.epoch,
            slices: part.slices,
            complete: part.complete,
            resume_delay,
            priority: self.shape.priority,
            c_max: self.c_max,
            credential: self.credential,
        }
    }
}

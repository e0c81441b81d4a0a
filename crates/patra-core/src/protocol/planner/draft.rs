//! A compiled job, and the parts of a plan.

use std::time::Duration;

use serde_json::{Value, json};

use super::slice::SliceContext;
use crate::cursor;
use crate::gate;
use crate::hash::canonical;
use crate::id::CredentialId;
use crate::record::RecordStream;
use crate::state::{Operation, UpdateReason};
use crate::time::{Ts, iso_text, micros};
use crate::tx::{ClaimedJob, NewPlan, NewSlice, PlanTarget, RefreshCriteria, RequestPermits, SavePlan};
use crate::window::{Cut, Window};

/// The compiler's result for the planner.
#[derive(Clone, Debug)]
pub struct PlanDraft {
    /// Canonical JSON of the compiled spec.
    pub snapshot_body: String,
    pub cursor: cursor::CursorName,
    pub span: PlanSpan,
    pub context: SliceContext,
    /// Maximum leased tasks of the partition.
    pub c_max: u32,
    /// QUEUED tasks of the partition above which no more are emitted; `None` uses the planner's own limit.
    pub inventory: Option<u32>,
    /// The quota that the plan's requests count against, where one is declared (ING-4.10-20).
    pub quota: Option<PlanQuota>,
    /// Declared requests per second, for the record.
    pub qps: f64,
    /// Maximum records of one request; 0 when unknown.
    pub per_request: u32,
    /// The credential that the tasks use, by reference (ING-3.10-03).
    pub credential: Option<CredentialId>,
    /// Origins of the merged settings (ING-3.3-05).
    pub labels: Value,
    /// Missing features of the upstream that are worked around (ING-12.4-02).
    pub degradations: Vec<&'static str>,
    pub warnings: Vec<String>,
}

/// A key of the rate gate with a quota.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanQuota {
    pub key: String,
    pub limits: gate::GateLimits,
}

impl PlanQuota {
    /// Reads the state only: requests no permits.
    pub(super) fn status_request(&self) -> RequestPermits {
        RequestPermits { key: self.key.clone(), limits: self.limits, request: gate::GateRequest::default() }
    }

    /// Requests of the remaining quota that a plan of this operation may use. A reserve is kept for more important
    /// operations, a larger one from less important ones (ING-4.10-20, ING-4.10-25).
    pub(super) fn budget(view: &gate::GateView, operation: Operation) -> Option<u64> {
        windows(view, operation).map(|(_, left)| left).min()
    }

    /// When more of the quota may be free, where nothing is.
    pub(super) fn frees_at(view: &gate::GateView, operation: Operation) -> Option<Ts> {
        windows(view, operation).filter(|(_, left)| *left == 0).filter_map(|(of, _)| of.frees_at).max()
    }
}

/// Each window, and what this operation may use of it.
fn windows(view: &gate::GateView, operation: Operation) -> impl Iterator<Item = (gate::QuotaStatus, u64)> {
    let kept = match operation {
        Operation::Harvest => 0.1,
        Operation::Update => 0.2,
        Operation::Backfill => 0.3,
    };
    let left = move |of: gate::QuotaStatus| of.remaining.saturating_sub((of.limit as f64 * kept) as u64);
    [view.hourly, view.daily].into_iter().flatten().map(move |of| (of, left(of)))
}

/// The dimension that a plan is cut along.
#[derive(Clone, Debug)]
pub enum PlanSpan {
    Time {
        cut: Cut,
        /// Where a namespace without a cursor begins.
        initial: Ts,
        /// No slice is made narrower than this because of history.
        narrowest: Duration,
        /// Maximum records of one slice.
        depth: u64,
    },
    /// The whole list in one slice, every time.
    Whole,
    Ids {
        stream: RecordStream,
        refresh: RefreshSpec,
    },
}

/// Selects the stored records that an UPDATE fetches again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefreshSpec {
    pub reason: UpdateReason,
    pub stale_after: Duration,
    /// The current mapping generation.
    pub generation: String,
    /// Ids per slice.
    pub size: u32,
}

impl RefreshSpec {
    pub fn criteria(&self, now: Ts) -> RefreshCriteria {
        match self.reason {
            UpdateReason::Staleness => RefreshCriteria::Stale { before: now - self.stale_after },
            UpdateReason::ExprChange => RefreshCriteria::MappedOtherThan { generation: self.generation.clone() },
            UpdateReason::Signals => RefreshCriteria::Signalled,
        }
    }
}

/// A plan, or a part of one, that is to be saved.
pub(super) struct PlanPart {
    /// The window of the whole plan.
    pub(super) window: Option<Window>,
    pub(super) origin: Option<Ts>,
    pub(super) epoch: i64,
    pub(super) slices: Vec<NewSlice>,
    pub(super) complete: bool,
    /// Sum of the windows of the whole plan.
    pub(super) span: Duration,
    /// Estimated records of the plan, where there is history.
    pub(super) estimate: Option<u64>,
    /// Slices of the whole plan, as far as is known.
    pub(super) slice_count: usize,
}

impl PlanDraft {
    fn new_plan(&self, part: &PlanPart) -> NewPlan {
        let SliceContext { safety_lag, budget, priority, params, partition, .. } = &self.context;
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
        if let PlanSpan::Ids { refresh, .. } = &self.span {
            remarks["reason"] = json!(refresh.reason);
        }
        NewPlan {
            window: part.window,
            strategy: if part.window.is_some() { "TIME" } else { "ID" },
            snapshot_hash: self.context.snapshot_hash.clone(),
            snapshot_body: self.snapshot_body.clone(),
            remarks: canonical(&remarks),
        }
    }

    pub(super) fn save(&self, claimed: &ClaimedJob, part: PlanPart, resume_delay: Duration) -> SavePlan {
        let (job, fence) = claimed.lease();
        SavePlan {
            job,
            fence,
            target: match &claimed.plan {
                Some(open) => PlanTarget::Existing(open.plan),
                None => PlanTarget::New(self.new_plan(&part)),
            },
            project_key: claimed.project_key.clone(),
            cursor: self.cursor.clone(),
            origin: part.origin,
            epoch: part.epoch,
            slices: part.slices,
            complete: part.complete,
            resume_delay,
            priority: self.context.priority,
            c_max: self.c_max,
            credential: self.credential,
        }
    }
}

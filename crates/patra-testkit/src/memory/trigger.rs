//! Triggers: fired by hand or by schedule, claimed by a planner, settled without a plan.

use std::sync::Arc;

use patra_core::state::{JobStatus, PauseKind, PlanStatus, TriggerType};
use patra_core::tx::{
    ADVISORY_TTL, ClaimJob, ClaimedJob, FireDue, FiredDue, JobRequested, JobSettled, JobSettlement, OpenPlan,
    PartitionKey, RemainingPlan, RequestJob, ResumeWork, SettleJob, TxError, job_type,
};
use patra_core::{Fence, JobId, PlanId, Ts};
use serde_json::json;

use super::{Instance, MemStore, Origin, PauseRow, Plan, next_id, place};

impl MemStore {
    pub(super) fn fire(&mut self, now: Ts, op: &RequestJob) -> JobRequested {
        self.insert_trigger(now, op, None)
    }

    pub(super) fn insert_trigger(&mut self, now: Ts, op: &RequestJob, schedule: Option<i64>) -> JobRequested {
        if let Some(instance) = self.index.instance_by_public_id.get(&op.public_id) {
            return JobRequested { job: *instance, existed: true };
        }
        let instance = JobId(next_id(&self.instances));
        self.instances.push(Instance {
            id: instance,
            public_id: op.public_id.clone(),
            schedule,
            source: None,
            scrape: false,
            job_type: job_type(&op.provenance_code, &op.endpoint_name).to_owned(),
            request_id: None,
            result: None,
            started_at: None,
            finished_at: None,
            trigger_type: op.trigger_type,
            origin: Arc::new(Origin {
                project_key: op.project_key.clone(),
                provenance_code: op.provenance_code.clone(),
                endpoint_name: op.endpoint_name.clone(),
                operation: op.operation,
            }),
            reason: op.reason,
            activity: op.activity.clone(),
            window_from: op.window_from,
            window_to: op.window_to,
            priority: op.priority,
            params: op.params.clone(),
            overrides: op.overrides.clone(),
            parent: None,
            root: None,
            place: None,
            status: JobStatus::Requested,
            not_before: now,
            lease: None,
            fence: Fence(0),
            remarks: None,
            plans: Vec::new(),
            created_at: now,
        });
        self.index.instance_by_public_id.insert(op.public_id.clone(), instance);
        self.index.waiting.insert(instance);
        JobRequested { job: instance, existed: false }
    }

    pub(super) fn fire_due(&mut self, now: Ts, op: FireDue) -> FiredDue {
        let mut due: Vec<_> = self
            .schedules
            .iter()
            .enumerate()
            .filter(|(_, row)| row.next_due_at <= now)
            .map(|(at, row)| (row.next_due_at, row.id, at))
            .collect();
        due.sort_unstable();
        due.truncate(op.limit as usize);
        let mut fired = 0;
        for (due_at, id, at) in due {
            let project_key = self.project_of(&self.schedules[at].provenance_code);
            let row = &mut self.schedules[at];
            row.next_due_at = FireDue::next_due(due_at, &row.when, now);
            let mut public_id = format!("schedule-{id}-{}", due_at.micros());
            if self.index.instance_by_public_id.contains_key(&public_id) {
                public_id = format!("{public_id}-{}", now.micros());
            }
            let trigger = RequestJob {
                public_id,
                trigger_type: TriggerType::Schedule,
                project_key,
                provenance_code: row.provenance_code.clone(),
                endpoint_name: row.endpoint_name.clone(),
                operation: row.operation,
                reason: row.reason,
                activity: None,
                window_from: None,
                window_to: None,
                priority: 0,
                params: "{}".into(),
                overrides: "{}".into(),
            };
            let waits = self.index.waiting.iter().any(|waiting| self.instances[place(waiting.0)].schedule == Some(id));
            if !waits && !self.insert_trigger(now, &trigger, Some(id)).existed {
                fired += 1;
            }
        }
        FiredDue { fired, next_due: self.schedules.iter().map(|row| row.next_due_at).min(), now }
    }

    pub(super) fn take_trigger(&mut self, now: Ts, op: &ClaimJob) -> Option<ClaimedJob> {
        let old = |row: &PauseRow| row.kind == PauseKind::Advisory && row.created_at <= now - ADVISORY_TTL;
        self.release_where(now, ResumeWork::BY_TIME, old);
        let stops = self.trigger_stops();
        let free = |id: &&JobId| {
            let row = &self.instances[place(id.0)];
            if row.is_background_job() {
                return false;
            }
            if stops.iter().any(|subject| row.origin.is_covered(subject)) {
                return false;
            }
            let is_of = |partition: &PartitionKey| {
                let Origin { provenance_code, endpoint_name, operation, .. } = &*row.origin;
                (&partition.provenance_code, &partition.endpoint_name, &partition.operation)
                    == (provenance_code, endpoint_name, operation)
            };
            if op.only.as_ref().is_some_and(|only| !is_of(only)) {
                return false;
            }
            let full = op.full.iter().any(is_of);
            row.not_before <= now && row.lease.as_ref().is_none_or(|(_, until)| *until <= now) && !full
        };
        let id = *self.index.waiting.iter().find(free)?;
        let row = &mut self.instances[place(id.0)];
        row.lease = Some((op.owner.clone(), now + op.lease));
        row.fence.0 += 1;
        let row = &self.instances[place(id.0)];
        let partial = |plan: &&PlanId| self.plans[place(plan.0)].status == PlanStatus::Partial;
        let plan = row.plans.iter().rev().find(partial).map(|plan| &self.plans[place(plan.0)]);
        Some(ClaimedJob {
            job: id,
            fence: row.fence,
            public_id: row.public_id.clone(),
            trigger_type: row.trigger_type,
            project_key: row.origin.project_key.clone(),
            provenance_code: row.origin.provenance_code.clone(),
            endpoint_name: row.origin.endpoint_name.clone(),
            operation: row.origin.operation,
            reason: row.reason,
            activity: row.activity.clone(),
            window_from: row.window_from,
            window_to: row.window_to,
            priority: row.priority,
            params: row.params.clone(),
            overrides: row.overrides.clone(),
            position: row.place.clone(),
            plan: plan.map(|plan| OpenPlan {
                plan: plan.id,
                snapshot_hash: plan.snapshot_hash.clone(),
                rest: self.rest(plan),
            }),
            now,
        })
    }

    fn rest(&self, plan: &Plan) -> RemainingPlan {
        if let Some(whole) = plan.window {
            return RemainingPlan::Time(RemainingPlan::of(
                whole,
                plan.origin.operation.direction(),
                self.sliced(plan.id),
            ));
        }
        let segments = self.index.namespaces[place(plan.cursor.0)].segments.iter().rev();
        let last = segments.map(|(_, task)| &self.tasks[place(task.0)]).find(|task| task.lineage.plan == plan.id);
        RemainingPlan::Ids { after: last.and_then(|task| Some(task.what.segment.as_ref()?.last_id.clone())) }
    }

    /// The trigger, if it waits and is leased under this fence.
    pub(super) fn leased_trigger(&mut self, id: JobId, fence: Fence) -> Result<&mut Instance, TxError> {
        self.instances
            .get_mut(place(id.0))
            .filter(|row| row.status == JobStatus::Requested && row.fence == fence && row.lease.is_some())
            .ok_or(TxError::Fenced)
    }

    /// Frees the triggers of planners that are known to be dead.
    pub(super) fn drop_trigger_leases(&mut self) {
        for id in &self.index.waiting {
            self.instances[place(id.0)].lease = None;
        }
    }

    pub(super) fn settle_trigger(&mut self, now: Ts, op: &SettleJob) -> Result<JobSettled, TxError> {
        let row = self.leased_trigger(op.job, op.fence)?;
        row.lease = None;
        match &op.settlement {
            JobSettlement::Nothing { remark } => {
                row.remarks = Some(json!({ "remark": remark }).to_string());
                self.close_trigger(op.job, JobStatus::Planned);
            }
            JobSettlement::Refused { error } => {
                row.remarks = Some(json!({ "error": error }).to_string());
                self.close_trigger(op.job, JobStatus::Failed);
            }
            JobSettlement::Later { delay } => row.not_before = now + *delay,
        }
        Ok(JobSettled)
    }

    pub(super) fn close_trigger(&mut self, id: JobId, status: JobStatus) {
        let row = &mut self.instances[place(id.0)];
        assert!(row.status.may_become(status), "trigger {id} must not go from {} to {status}", row.status);
        row.status = status;
        row.lease = None;
        self.index.waiting.remove(&id);
    }
}

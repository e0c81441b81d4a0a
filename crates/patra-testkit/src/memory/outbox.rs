//! Background jobs and outbox events: leased without a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::state::{JobStatus, Operation, TriggerType};
use patra_core::tx::{
    BACKGROUND_JOBS, BackgroundJobUpdated, ClaimBackgroundJob, ClaimEvents, ClaimedBackgroundJob, EVENTS_KEPT,
    EventSettled, EventUpdate, EventsClaimed, EventsRetried, JobRequested, NewEvent, OutboxEvent, RETRY_BATCH,
    RequestBackgroundJob, RetryEvents, SettleEvent, TxError, UpdateBackgroundJob,
};
use patra_core::{Fence, JobId, Ts};
use serde_json::json;

use super::{Instance, MemStore, Origin, next_id, place};

#[derive(Clone, Debug)]
pub struct OutboxRow {
    pub project_key: String,
    pub event_type: String,
    pub topic: String,
    pub idempotency_key: String,
    pub payload: String,
    pub status: &'static str,
    pub tries: u32,
    pub last_error: Option<String>,
    pub not_before: Ts,
    /// Owner and end of the lease.
    pub lease: Option<(String, Ts)>,
    pub created_at: Ts,
    pub ended_at: Option<Ts>,
}

impl OutboxRow {
    fn is_pending(&self) -> bool {
        self.ended_at.is_none()
    }

    fn is_leased(&self, now: Ts) -> bool {
        self.lease.as_ref().is_some_and(|(_, until)| *until > now)
    }
}

impl Instance {
    pub(super) fn is_background_job(&self) -> bool {
        self.origin.provenance_code == BACKGROUND_JOBS
    }
}

impl MemStore {
    pub(super) fn request_background_job(&mut self, now: Ts, op: &RequestBackgroundJob) -> JobRequested {
        if let Some(instance) = self.index.instance_by_public_id.get(&op.public_id) {
            return JobRequested { job: *instance, existed: true };
        }
        let id = JobId(next_id(&self.instances));
        self.index.instance_by_public_id.insert(op.public_id.clone(), id);
        self.index.waiting.insert(id);
        self.instances.push(Instance {
            id,
            public_id: op.public_id.clone(),
            schedule: None,
            source: None,
            scrape: false,
            job_type: op.job_type.clone(),
            request_id: op.request_id.clone(),
            result: None,
            started_at: None,
            finished_at: None,
            trigger_type: TriggerType::Api,
            origin: Arc::new(Origin {
                project_key: op.project_key.clone(),
                provenance_code: BACKGROUND_JOBS.into(),
                endpoint_name: op.job_type.clone(),
                operation: Operation::Harvest,
            }),
            reason: None,
            activity: None,
            window_from: None,
            window_to: None,
            priority: 0,
            params: op.params.clone(),
            overrides: "{}".into(),
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
        JobRequested { job: id, existed: false }
    }

    pub(super) fn claim_background_job(&mut self, now: Ts, op: &ClaimBackgroundJob) -> Option<ClaimedBackgroundJob> {
        let free = |id: &&JobId| {
            let row = &self.instances[place(id.0)];
            row.is_background_job() && row.lease.as_ref().is_none_or(|(_, until)| *until <= now)
        };
        let id = *self.index.waiting.iter().find(free)?;
        let row = &mut self.instances[place(id.0)];
        row.lease = Some((op.owner.clone(), now + op.lease));
        row.fence.0 += 1;
        row.started_at = row.started_at.or(Some(now));
        Some(ClaimedBackgroundJob {
            job: id,
            fence: row.fence,
            public_id: row.public_id.clone(),
            project_key: row.origin.project_key.clone(),
            job_type: row.job_type.clone(),
            params: row.params.clone(),
        })
    }

    pub(super) fn update_background_job(
        &mut self,
        now: Ts,
        op: &UpdateBackgroundJob,
    ) -> Result<BackgroundJobUpdated, TxError> {
        let row = self.leased_trigger(op.job, op.fence)?;
        if !row.is_background_job() {
            return Err(TxError::Fenced);
        }
        let status = match &op.done {
            None => {
                row.lease = row.lease.take().map(|(owner, _)| (owner, now + op.lease));
                return Ok(BackgroundJobUpdated);
            }
            Some(Ok(result)) => {
                row.result = Some(result.clone());
                JobStatus::Finished
            }
            Some(Err(error)) => {
                row.remarks = Some(json!({ "error": error }).to_string());
                JobStatus::Failed
            }
        };
        row.finished_at = Some(now);
        self.close_trigger(op.job, status);
        Ok(BackgroundJobUpdated)
    }

    pub(super) fn put_event(&mut self, now: Ts, event: NewEvent) {
        if self.outbox.values().any(|row| row.idempotency_key == event.idempotency_key) {
            return;
        }
        self.index.event_ids += 1;
        let row = OutboxRow {
            project_key: event.project_key,
            event_type: event.event_type.to_owned(),
            topic: event.topic,
            idempotency_key: event.idempotency_key,
            payload: event.payload,
            status: "PENDING",
            tries: 0,
            last_error: None,
            not_before: now,
            lease: None,
            created_at: now,
            ended_at: None,
        };
        self.outbox.insert(self.index.event_ids, row);
    }

    pub(super) fn free_events(&mut self) {
        self.outbox.values_mut().for_each(|row| row.lease = None);
    }

    pub(super) fn take_events(&mut self, now: Ts, op: &ClaimEvents) -> EventsClaimed {
        self.outbox.retain(|_, row| row.ended_at.is_none_or(|at| at >= now - EVENTS_KEPT));
        let leased = self.outbox.values().filter(|row| row.is_leased(now));
        let mut held: BTreeSet<_> = leased.map(|row| row.topic.clone()).collect();
        let mut events = Vec::new();
        for (id, row) in self.outbox.iter_mut().filter(|(_, row)| row.is_pending()) {
            if row.not_before > now {
                held.insert(row.topic.clone());
            }
            if row.event_type != op.event_type || held.contains(&row.topic) || events.len() >= op.limit as usize {
                continue;
            }
            row.lease = Some((op.owner.clone(), now + op.lease));
            events.push(OutboxEvent {
                id: *id,
                project_key: row.project_key.clone(),
                event_type: row.event_type.clone(),
                topic: row.topic.clone(),
                idempotency_key: row.idempotency_key.clone(),
                payload: row.payload.clone(),
                tries: row.tries,
                created_at: row.created_at,
            });
        }
        EventsClaimed { events, now }
    }

    pub(super) fn settle_event(&mut self, now: Ts, op: &SettleEvent) -> EventSettled {
        let held =
            |row: &&mut OutboxRow| row.is_pending() && row.lease.as_ref().is_some_and(|(owner, _)| *owner == op.owner);
        let Some(row) = self.outbox.get_mut(&op.id).filter(held) else { return EventSettled };
        row.lease = None;
        let EventUpdate { status, tries, error, retry_in: again } = op.delivery.settle(row.tries);
        (row.status, row.tries) = (status, tries);
        row.last_error = error.map(str::to_owned).or(row.last_error.take());
        row.not_before = now + again.unwrap_or_default();
        row.ended_at = again.is_none().then_some(now);
        EventSettled
    }

    pub(super) fn retry_events(&mut self, now: Ts, op: &RetryEvents) -> EventsRetried {
        let meant = |(id, row): &(&i64, &mut OutboxRow)| {
            row.status == "FAILED"
                && op.project_key.as_ref().is_none_or(|key| *key == row.project_key)
                && op.event.is_none_or(|event| event == **id)
        };
        let mut events = 0;
        for (_, row) in self.outbox.iter_mut().filter(meant).take(RETRY_BATCH as usize) {
            (row.status, row.tries, row.not_before, row.ended_at) = ("PENDING", 0, now, None);
            events += 1;
        }
        EventsRetried { events }
    }
}

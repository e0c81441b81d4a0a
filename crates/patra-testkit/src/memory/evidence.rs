//! Whole rows as JSON: the evidence of a batch, and the lineage of a plan.

use patra_core::paging::Position;
use patra_core::port::query::{BatchEvidence, BatchPage, PlanLineage, StoredRawResponse, View, ViewRow};
use patra_core::{JobId, PlanId, RunId, Ts};
use serde_json::{Value, json};

use super::{Batch, Event, MemStore, Quarantined, Run, Task, place, view};

impl MemStore {
    pub fn evidence(&self, run: RunId, batch_no: u32) -> Option<BatchEvidence> {
        let row = self.runs.get(place(run.0)).filter(|row| !self.forgotten.runs.contains(&row.id))?;
        let batches = row.batches.iter().map(|batch| &self.batches[place(batch.0)]);
        let batch = batches.into_iter().find(|batch| batch.batch_no == batch_no)?;
        let task = &self.tasks[place(row.task.0)];
        let events = self.events.iter().filter(|event| event.cause.is_some_and(|cause| cause.run == run));
        let kept = self.quarantine.iter().filter(|kept| kept.run == run && kept.batch_no == batch_no);
        Some(BatchEvidence {
            batch: self.batch_json(batch),
            run: run_json(row, task),
            task: task_json(task),
            slice: self.slice_json(task.lineage.slice.0),
            plan: self.plan_json(task.lineage.plan),
            events: events.map(|event| self.event_json(event)).collect(),
            quarantine: kept.map(quarantine_json).collect(),
        })
    }

    pub fn kept(&self, now: Ts, run: RunId, batch_no: u32) -> Option<StoredRawResponse> {
        let row = self.raw.get(&(run, batch_no)).filter(|row| now < row.expires_at)?;
        let (headers, body) = (row.headers.clone(), row.body.clone());
        Some(StoredRawResponse { status: row.status, headers, body, expires_at: row.expires_at })
    }

    pub fn lineage(&self, plan: PlanId, page: BatchPage) -> Option<PlanLineage> {
        let row = self.plans.get(place(plan.0)).filter(|row| !self.forgotten.plans.contains(&row.id))?;
        let tasks = || self.tasks.iter().filter(|task| task.lineage.plan == plan);
        let runs = self.runs.iter().filter(|run| self.tasks[place(run.task.0)].lineage.plan == plan);
        let batches: Vec<_> =
            self.batches.iter().filter(|batch| batch.lineage.plan == plan && batch.id.0 > page.after).collect();
        let shown = batches.len().min(page.limit.min(BatchPage::MAX) as usize);
        let without_digests = |batch: &&Batch| {
            let mut row = self.batch_json(batch);
            if let Some(row) = row.as_object_mut() {
                row.remove("request_digest");
                row.remove("response_digest");
            }
            row
        };
        Some(PlanLineage {
            job: self.trigger_json(row.instance),
            plan: self.plan_json(plan),
            slices: self.slices.iter().filter(|row| row.plan == plan).map(|row| self.slice_json(row.id.0)).collect(),
            tasks: tasks().map(task_json).collect(),
            runs: runs.map(|run| run_json(run, &self.tasks[place(run.task.0)])).collect(),
            batches: batches[..shown].iter().map(without_digests).collect(),
            batches_left_out: (batches.len() - shown) as u64,
        })
    }

    pub(super) fn batch_json(&self, batch: &Batch) -> Value {
        let task = &self.tasks[place(batch.task.0)];
        let mut row = object(View::Batches, &view::batch(batch, task));
        row["schedule_instance_id"] = json!(batch.lineage.job);
        row["slice_id"] = json!(batch.lineage.slice);
        row["expr_hash"] = json!(batch.expr_hash);
        row["idempotent_key"] = json!(batch.idempotent_key);
        row["position"] = json!(batch.position);
        row["next_position"] = json!(batch.next);
        row["before_url"] = json!(url(Some(&batch.position)));
        row["next_url"] = json!(url(batch.next.as_ref()));
        with_window(row, task)
    }

    pub(super) fn event_json(&self, event: &Event) -> Value {
        object(View::Events, &view::event(event, &self.cursors[place(event.cursor.0)]))
    }

    fn trigger_json(&self, id: JobId) -> Value {
        let trigger = &self.instances[place(id.0)];
        let mut row = object(View::Jobs, &view::job(trigger, 0));
        // Computed for the list: not a column of the table.
        row.as_object_mut().map(|row| row.remove("tasks_failed"));
        let polls = trigger.source.map(|source| format!("source-{source}"));
        row["scheduler_code"] = json!(match (&polls, trigger.scrape) {
            (Some(_), _) => "collector",
            (None, true) => "scrape",
            (None, false) => "patra",
        });
        let job = polls.or_else(|| trigger.schedule.map(|id| id.to_string()));
        row["scheduler_job_id"] = json!(job.unwrap_or_else(|| trigger.public_id.clone()));
        row["scheduler_log_id"] = json!(trigger.public_id);
        let plan = trigger.plans.last().map(|plan| &self.plans[place(plan.0)].snapshot_hash);
        row["expr_proto_hash"] = json!(plan);
        row
    }

    fn slice_json(&self, id: i64) -> Value {
        let slice = &self.slices[place(id)];
        let mut row = object(View::Slices, &view::slice(slice));
        row["expr_hash"] = json!(slice.what.expr_hash);
        row["expr_snapshot"] = serde_json::from_str(&slice.what.expr_snapshot).unwrap_or_default();
        row
    }

    fn plan_json(&self, id: PlanId) -> Value {
        let plan = &self.plans[place(id.0)];
        let mut row = object(View::Plans, &view::plan(plan));
        row["expr_proto_hash"] = json!(plan.snapshot_hash);
        row
    }
}

fn task_json(task: &Task) -> Value {
    let mut row = object(View::Tasks, &view::task(task));
    row["schedule_instance_id"] = json!(task.lineage.job);
    row["cursor_id"] = json!(task.cursor);
    row["project_key"] = json!(task.origin.project_key);
    row["expr_hash"] = json!(task.what.expr_hash);
    row["idempotent_key"] = json!(task.what.task_key);
    row
}

fn run_json(run: &Run, task: &Task) -> Value {
    with_window(object(View::Runs, &view::run(run, task)), task)
}

fn with_window(mut row: Value, task: &Task) -> Value {
    row["window_from"] = json!(task.what.window.map(|window| window.from));
    row["window_to"] = json!(task.what.window.map(|window| window.to));
    row
}

fn url(position: Option<&Position>) -> Option<&str> {
    match position {
        Some(Position::Url(url)) => url.as_deref(),
        _ => None,
    }
}

fn quarantine_json(kept: &Quarantined) -> Value {
    let mut row = object(View::Quarantine, &view::quarantined(kept));
    row["project_key"] = json!(kept.project_key);
    row["request_digest"] = serde_json::from_str(&kept.request_digest).unwrap_or_default();
    row
}

/// A row of a view, with its JSON nested.
fn object(view: View, row: &ViewRow) -> Value {
    serde_json::from_str(&view.to_json_text(row)).unwrap_or_default()
}

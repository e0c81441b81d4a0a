//! The contents of boards, counted from the ledger; the databases maintain the same counts incrementally.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use patra_core::cursor::CursorValue;
use patra_core::port::board::{
    A_MINUTE, ActivePause, CursorFilter, CursorStep, HttpStatusCount, MAX_ROWS, MAX_STEPS, QueueDepth, SeriesStep,
    TopError, Watermark, WorkCounts, WorkFilter,
};
use patra_core::port::{BoardQueries, BoxFuture};
use patra_core::state::{BatchStatus, RunStatus, TaskStatus};
use patra_core::tx::{BatchStats, PartitionKey, PauseSubject, TxError};
use patra_core::{Code, CursorId, Level, RunId, TaskId, Ts, Window};

use super::shared::{SharedMem, ready};
use super::{Batch, MemStore, Origin, Run, Task, place};

impl BoardQueries for SharedMem {
    fn queued(&self, about: WorkFilter) -> BoxFuture<'_, Result<(Vec<QueueDepth>, Ts), TxError>> {
        let now = self.clock.now();
        ready((self.lock().queued(&about, now), now))
    }

    fn active_pauses(&self) -> BoxFuture<'_, Result<Vec<ActivePause>, TxError>> {
        ready(self.lock().held())
    }

    fn counts(
        &self,
        about: WorkFilter,
        window: Window,
    ) -> BoxFuture<'_, Result<Vec<(PartitionKey, WorkCounts)>, TxError>> {
        ready(self.lock().counts(&about, window))
    }

    fn series(
        &self,
        about: WorkFilter,
        window: Window,
        minutes: u32,
    ) -> BoxFuture<'_, Result<Vec<SeriesStep>, TxError>> {
        let mut sums = BTreeMap::<Ts, WorkCounts>::new();
        for (_, minute, counts) in self.lock().counted(&about, window) {
            sums.entry(minute.floor_to(A_MINUTE * minutes.max(1))).or_default().add(&counts);
        }
        ready(sums.into_iter().take(MAX_STEPS as usize).map(|(at, counts)| SeriesStep { at, counts }).collect())
    }

    fn errors(
        &self,
        about: WorkFilter,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<TopError>, TxError>> {
        ready(self.lock().top_errors(&about, level, window, limit))
    }

    fn watermarks(&self, ask: CursorFilter) -> BoxFuture<'_, Result<Vec<Watermark>, TxError>> {
        ready(self.lock().watermarks(&ask))
    }

    fn advances(
        &self,
        cursor: CursorId,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<CursorStep>, TxError>> {
        ready(self.lock().advances(cursor, window, limit))
    }

    fn statuses(&self, run: RunId) -> BoxFuture<'_, Result<Vec<HttpStatusCount>, TxError>> {
        let mut sums = BTreeMap::<u16, u64>::new();
        for batch in self.lock().batches.iter().filter(|batch| batch.run == run && !batch.archived) {
            *sums.entry(batch.stats.http.status).or_default() += 1;
        }
        ready(sums.into_iter().map(|(status, batches)| HttpStatusCount { status, batches }).collect())
    }
}

fn fits<T: PartialEq>(filter: &Option<T>, value: &T) -> bool {
    filter.as_ref().is_none_or(|filter| filter == value)
}

fn is_about(about: &WorkFilter, origin: &Origin) -> bool {
    fits(&about.project_key, &origin.project_key)
        && fits(&about.provenance_code, &origin.provenance_code)
        && fits(&about.endpoint_name, &origin.endpoint_name)
        && fits(&about.operation, &origin.operation)
}

fn inventory(origin: &Origin) -> PartitionKey {
    let Origin { provenance_code, endpoint_name, operation, .. } = origin.clone();
    PartitionKey { provenance_code, endpoint_name, operation }
}

fn of_batch(batch: &Batch) -> WorkCounts {
    let BatchStats { self_healing, rate, .. } = batch.stats;
    let [latency_ms, inserted, updated, skipped, rejected, late, retries, throttled] = [
        batch.stats.latency_ms,
        batch.stats.inserted,
        batch.stats.updated,
        batch.stats.skipped,
        batch.stats.failed,
        batch.stats.late,
        batch.stats.retry_count,
        batch.stats.throttled_count,
    ]
    .map(u64::from);
    WorkCounts {
        batches: u64::from(batch.status == BatchStatus::Succeeded),
        batches_failed: u64::from(batch.status == BatchStatus::Failed),
        latency_ms,
        inserted,
        updated,
        skipped,
        rejected,
        late,
        retries,
        throttled,
        permits: rate.permits_total.into(),
        wait_ms: rate.wait_total_ms,
        retry_after: rate.retry_after_hits.into(),
        demoted: rate.demote_events.into(),
        quota_soft: rate.quota_soft_hits.into(),
        quota_hard: rate.quota_hard_hits.into(),
        qps_downshift: self_healing.qps_downshift.into(),
        page_size_shrink: self_healing.page_size_shrink.into(),
        concurrency_down: self_healing.concurrency_down.into(),
        circuit_open: self_healing.circuit_open.into(),
        ..WorkCounts::default()
    }
}

fn of_end(run: &Run) -> WorkCounts {
    WorkCounts {
        succeeded: u64::from(run.status == RunStatus::Succeeded),
        partial: u64::from(run.status == RunStatus::Partial),
        failed: u64::from(run.status == RunStatus::Failed),
        ..WorkCounts::default()
    }
}

impl MemStore {
    fn counted_task(&self, task: TaskId) -> &Task {
        &self.tasks[place(task.0)]
    }

    fn queued(&self, about: &WorkFilter, now: Ts) -> Vec<QueueDepth> {
        let mut lines = BTreeMap::<PartitionKey, QueueDepth>::new();
        let open = self.tasks.iter().filter(|task| !task.status.is_final() && is_about(about, &task.origin));
        for task in open {
            let of = inventory(&task.origin);
            let line = lines.entry(of.clone()).or_insert_with(|| QueueDepth {
                partition: of,
                depth: 0,
                due: 0,
                oldest_at: None,
                next_at: None,
                active: 0,
                c_max: 0,
            });
            line.c_max = line.c_max.max(task.c_max.into());
            if task.status != TaskStatus::Queued {
                line.active += 1;
                continue;
            }
            line.depth += 1;
            let first = if task.scheduled_at <= now { &mut line.oldest_at } else { &mut line.next_at };
            *first = Some(first.map_or(task.scheduled_at, |first| first.min(task.scheduled_at)));
            line.due += u64::from(task.scheduled_at <= now);
        }
        lines.into_values().collect()
    }

    fn held(&self) -> Vec<ActivePause> {
        let wide = |subject: &PauseSubject| {
            subject.plan.is_none() && subject.slice.is_none() && subject.task.is_none() && subject.credential.is_none()
        };
        let lasting = self.holds.values().filter(|hold| hold.released.is_none() && wide(&hold.subject));
        let pauses = lasting.map(|hold| ActivePause {
            kind: hold.kind,
            subject: hold.subject.clone(),
            reason: hold.reason.clone(),
            created_at: hold.created_at,
        });
        pauses.take(MAX_ROWS as usize).collect()
    }

    pub(crate) fn counts(&self, about: &WorkFilter, window: Window) -> Vec<(PartitionKey, WorkCounts)> {
        let mut sums = BTreeMap::<PartitionKey, WorkCounts>::new();
        for (of, _, counts) in self.counted(about, window) {
            sums.entry(of).or_default().add(&counts);
        }
        sums.into_iter().collect()
    }

    /// All counted events, with their minutes.
    fn counted(&self, about: &WorkFilter, window: Window) -> Vec<(PartitionKey, Ts, WorkCounts)> {
        let mut all: Vec<(TaskId, Ts, WorkCounts)> = Vec::new();
        all.extend(self.batches.iter().map(|batch| (batch.task, batch.created_at, of_batch(batch))));
        let pick = WorkCounts { picks: 1, ..WorkCounts::default() };
        all.extend(self.runs.iter().map(|run| (run.task, run.created_at, pick)));
        all.extend(self.runs.iter().filter_map(|run| Some((run.task, run.finished_at?, of_end(run)))));
        let split = WorkCounts { resliced: 1, ..WorkCounts::default() };
        all.extend(self.split_tasks().filter_map(|task| Some((task.id, task.finished_at?, split))));
        let minutes =
            all.into_iter().map(|(task, at, counts)| (self.counted_task(task), at.floor_to(A_MINUTE), counts));
        let within = minutes.filter(|(task, minute, counts)| {
            window.from <= *minute
                && *minute < window.to
                && is_about(about, &task.origin)
                && *counts != WorkCounts::default()
        });
        within.map(|(task, minute, counts)| (inventory(&task.origin), minute, counts)).collect()
    }

    /// Tasks that were replaced by narrower ones, without those that were redriven.
    fn split_tasks(&self) -> impl Iterator<Item = &Task> {
        let driven = |id: TaskId| self.tasks.iter().any(|task| task.redrive.as_ref().is_some_and(|(of, _)| *of == id));
        self.tasks.iter().filter(move |task| task.replaced && !driven(task.id))
    }

    pub(crate) fn top_errors(
        &self,
        about: &WorkFilter,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> Vec<TopError> {
        let runs = self.runs.iter().filter_map(|run| {
            let batches = run.batches.iter().map(|batch| &self.batches[place(batch.0)]);
            let failed = batches.filter(|batch| batch.status == BatchStatus::Failed).map(|batch| batch.batch_no).max();
            let counts = run.status == RunStatus::Failed || run.status == RunStatus::Partial && failed.is_some();
            let error = run.error.as_ref().filter(|_| counts)?;
            Some((run.task, run.id, failed, run.finished_at?, error.level, error.code, &error.message))
        });
        let records = self.quarantine.iter().map(|row| {
            let (code, reason) = (row.what.code, &row.what.reason);
            (row.task, row.run, Some(row.batch_no), row.created_at, Level::L3, code, reason)
        });
        let mut kinds = BTreeMap::<(PartitionKey, Level, &str), TopError>::new();
        for (task, run, batch_no, at, of_level, code, message) in runs.chain(records) {
            let (origin, minute) = (&self.counted_task(task).origin, at.floor_to(A_MINUTE));
            let within = window.from <= minute && minute < window.to;
            if !within || !is_about(about, origin) || !fits(&level, &of_level) {
                continue;
            }
            let kind = kinds.entry((inventory(origin), of_level, Code::as_str(code)));
            let met = TopError {
                partition: inventory(origin),
                level: of_level,
                code,
                errors: 0,
                message: message.clone(),
                last_at: at,
                task_id: task,
                run_id: run,
                batch_no,
            };
            let top = kind.or_insert_with(|| met.clone());
            let errors = top.errors + 1;
            if (top.last_at, top.run_id) <= (at, run) {
                *top = met;
            }
            top.errors = errors;
        }
        let mut top: Vec<_> = kinds.into_values().collect();
        // A stable sort: equals stay ordered by name.
        top.sort_by_key(|error| Reverse((error.errors, error.last_at)));
        top.truncate(limit.min(MAX_ROWS) as usize);
        top
    }

    fn watermarks(&self, ask: &CursorFilter) -> Vec<Watermark> {
        let cursors = self.cursors.iter().map(|row| {
            let name = &row.name;
            let of = PartitionKey {
                provenance_code: name.provenance_code.clone(),
                endpoint_name: name.endpoint_name.clone(),
                operation: name.operation,
            };
            Watermark {
                cursor: row.id,
                project_key: name.project_key.clone(),
                partition: of,
                scope: name.scope.as_str().to_owned(),
                namespace: name.namespace_key.clone(),
                direction: row.direction(),
                value: row.value.as_ref().map(CursorValue::to_text),
                instant: row.value.as_ref().and_then(CursorValue::instant),
                updated_at: row.updated_at,
            }
        });
        let wanted = cursors.filter(|row| {
            fits(&ask.work.project_key, &row.project_key)
                && fits(&ask.work.provenance_code, &row.partition.provenance_code)
                && fits(&ask.work.endpoint_name, &row.partition.endpoint_name)
                && fits(&ask.work.operation, &row.partition.operation)
                && fits(&ask.namespace, &row.namespace)
        });
        let mut wanted: Vec<_> = wanted.collect();
        wanted.sort_by_key(|row| (row.instant.is_none(), row.instant, row.cursor));
        wanted.truncate(ask.limit.min(MAX_ROWS) as usize);
        wanted
    }

    fn advances(&self, cursor: CursorId, window: Window, limit: u32) -> Vec<CursorStep> {
        let within = |at: Ts| window.from <= at && at < window.to;
        let steps = self.events.iter().filter(|row| row.cursor == cursor && !row.archived && within(row.created_at));
        let mut steps: Vec<_> = steps
            .map(|row| CursorStep {
                id: row.id,
                cursor,
                from: row.previous.as_ref().map(CursorValue::to_text),
                to: row.value.to_text(),
                observed_max_value: row.observed_max.map(|at| at.to_string()),
                late: row.cause.map_or(0, |cause| cause.late.into()),
                run_id: row.lineage.as_ref().map(|lineage| lineage.run),
                batch_no: row.lineage.as_ref().map(|lineage| lineage.batch_no),
                created_at: row.created_at,
            })
            .collect();
        steps.sort_by_key(|step| Reverse((step.created_at, step.id)));
        steps.truncate(limit.min(MAX_ROWS) as usize);
        steps
    }
}

//! Maps the ids of the model to those of the store, which numbers its rows differently. Pairs of ids are learned from
//! pairs of results, and operations of the model are translated into the store's ids.

use std::collections::BTreeMap;
use std::sync::Arc;

use patra_core::port::query::{Cell, JobProgress, View, ViewRow};
use patra_core::tx::{
    CancelSubject, CommitBatch, CookiePaused, CookiePicked, CookieReactivated, Done, LeaseRef, PauseSelector,
    PauseSubject, PlanTarget, RedriveTarget, Redriven, RunStarted, TaskLineage, Tx,
};
use patra_core::{BatchId, CredentialId, CursorId, JobId, PauseId, PlanId, RunId, SliceId, TaskId};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Instance,
    Plan,
    Slice,
    Task,
    Run,
    Batch,
    Cursor,
    Hold,
    Quarantine,
    Credential,
}

/// The store's id for each of the model's.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids(BTreeMap<(Kind, i64), i64>);

/// Called with every id in a value, which it may change.
type Visit<'a> = &'a mut dyn FnMut(Kind, &mut i64);

impl Ids {
    /// Learns from two results of the same operation; returns false if they contradict known pairs.
    pub(super) fn pair(&mut self, model: &Done, store: &Done) -> bool {
        let collect = |done: &Done| {
            let mut found = Vec::new();
            visit_done(&mut done.clone(), &mut |kind, id| found.push((kind, *id)));
            found
        };
        self.pair_all(&collect(model), &collect(store))
    }

    pub(super) fn pair_rows(&mut self, view: View, model: &[ViewRow], store: &[ViewRow]) -> bool {
        let Some(kind) = kind_of(view, "id") else { return true };
        let collect = |rows: &[ViewRow]| -> Vec<_> {
            rows.iter().filter_map(|row| if let Cell::Int(id) = row[0] { Some((kind, id)) } else { None }).collect()
        };
        self.pair_all(&collect(model), &collect(store))
    }

    fn pair_all(&mut self, model: &[(Kind, i64)], store: &[(Kind, i64)]) -> bool {
        model.len() == store.len()
            && model.iter().zip(store).all(|((kind, mine), (other, theirs))| {
                kind == other && *self.0.entry((*kind, *mine)).or_insert(*theirs) == *theirs
            })
    }

    /// Rows of the quarantine are identified by their order; no result names them.
    pub(super) fn pair_quarantine(&mut self, model: &[ViewRow], store: &[ViewRow]) {
        let place = |row: &ViewRow| {
            let cells = ["run_id", "batch_no", "item_index"].map(|column| View::Quarantine.cell(row, column));
            format!("{cells:?}")
        };
        let theirs: BTreeMap<_, _> = store.iter().map(|row| (place(row), row[0].as_int())).collect();
        for row in model {
            let found = theirs.get(&place(&self.in_row(View::Quarantine, row.clone())));
            if let (Some(mine), Some(Some(theirs))) = (row[0].as_int(), found) {
                self.0.insert((Kind::Quarantine, mine), *theirs);
            }
        }
    }

    pub(super) fn run(&self, mut id: RunId) -> RunId {
        self.translate(Kind::Run, &mut id.0);
        id
    }

    pub(super) fn plan(&self, mut id: PlanId) -> PlanId {
        self.translate(Kind::Plan, &mut id.0);
        id
    }

    fn translate(&self, kind: Kind, id: &mut i64) {
        // An unknown id does not exist in either numbering.
        *id = self.0.get(&(kind, *id)).copied().unwrap_or(*id);
    }

    pub(super) fn in_done(&self, done: &Done) -> Done {
        let mut done = done.clone();
        visit_done(&mut done, &mut |kind, id| self.translate(kind, id));
        done
    }

    pub(super) fn in_tx(&self, tx: &Tx) -> Tx {
        let mut tx = tx.clone();
        visit_tx(&mut tx, &mut |kind, id| self.translate(kind, id));
        tx
    }

    pub(super) fn in_progress(&self, mut progress: JobProgress) -> JobProgress {
        self.translate(Kind::Instance, &mut progress.job.0);
        progress
    }

    pub(super) fn in_row(&self, view: View, mut row: ViewRow) -> ViewRow {
        for (cell, column) in row.iter_mut().zip(view.columns()) {
            match (cell, kind_of(view, column.name)) {
                (Cell::Int(id), Some(kind)) => self.translate(kind, id),
                (Cell::Json(text), None) if column.name == "checkpoint" => self.in_checkpoint(text),
                (Cell::Text(text), None) if (view, column.name) == (View::Holds, "subject") => self.in_subject(text),
                _ => {}
            }
        }
        row
    }

    /// Words like `plan=7`.
    fn in_subject(&self, text: &mut String) {
        let word = |word: &str| {
            let Some((name, value)) = word.split_once('=') else { return word.to_owned() };
            let kind = match name {
                "plan" => Kind::Plan,
                "slice" => Kind::Slice,
                "task" => Kind::Task,
                _ => return word.to_owned(),
            };
            let mut id = value.parse().unwrap_or_default();
            self.translate(kind, &mut id);
            format!("{name}={id}")
        };
        *text = text.split(' ').map(word).collect::<Vec<_>>().join(" ");
    }

    fn in_checkpoint(&self, text: &mut String) {
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(text) else { return };
        for (kind, place) in [(Kind::Run, "/resumedFrom/runId"), (Kind::Task, "/replay/task")] {
            if let Some(id) = value.pointer_mut(place)
                && let Some(mut number) = id.as_i64()
            {
                self.translate(kind, &mut number);
                *id = number.into();
            }
        }
        *text = value.to_string();
    }
}

/// Views whose rows are referred to by id.
pub(super) fn has_own_ids(view: View) -> bool {
    kind_of(view, "id").is_some()
}

fn kind_of(view: View, column: &str) -> Option<Kind> {
    match (view, column) {
        (View::Jobs, "id" | "parent_id") | (_, "schedule_instance_id") => Some(Kind::Instance),
        (View::Plans, "id") | (_, "plan_id") => Some(Kind::Plan),
        (View::Slices, "id") | (_, "slice_id") => Some(Kind::Slice),
        (View::Tasks, "id" | "redrive_of") | (_, "task_id") => Some(Kind::Task),
        (View::Runs, "id") | (_, "run_id") => Some(Kind::Run),
        (View::Batches, "id") => Some(Kind::Batch),
        (View::Cursors, "id") | (_, "cursor_id") => Some(Kind::Cursor),
        (View::Holds, "id") => Some(Kind::Hold),
        (View::Credentials, "id") | (View::CredentialStates, "credential_id") => Some(Kind::Credential),
        _ => None,
    }
}

fn visit_done(done: &mut Done, visit: Visit<'_>) {
    match done {
        Done::RequestJob(done) => instance(&mut done.job, visit),
        Done::ClaimJob(Some(done)) => {
            instance(&mut done.job, visit);
            if let Some(open) = &mut done.plan {
                plan(&mut open.plan, visit);
            }
        }
        Done::ReadCoverage(done) => {
            if let Some(id) = &mut done.cursor {
                cursor(id, visit);
            }
        }
        Done::SavePlan(done) => {
            plan(&mut done.plan, visit);
            cursor(&mut done.cursor, visit);
        }
        Done::ClaimTasks(done) => {
            for lease in &mut done.leases {
                task(&mut lease.task, visit);
                lineage(&mut lease.lineage, visit);
                cursor(&mut lease.cursor, visit);
            }
        }
        Done::Renew(done) => done.held.iter_mut().chain(&mut done.paused).for_each(|lease| held(lease, visit)),
        Done::StartRun(RunStarted::Go { run: id, resume, .. }) => {
            run(id, visit);
            if let Some(resume) = resume {
                run(&mut resume.run, visit);
            }
        }
        Done::CommitBatch(done) => batch(&mut done.batch, visit),
        Done::CommitBatches(done) => done.iter_mut().for_each(|done| batch(&mut done.batch, visit)),
        Done::Sweep(done) => done.requeued.iter_mut().chain(&mut done.failed).for_each(|id| task(id, visit)),
        Done::PauseWork(done) => hold(&mut done.pause, visit),
        Done::RecordAdvance(done) => {
            if let Some(id) = &mut done.by {
                run(id, visit);
            }
        }
        Done::RedriveWork(Redriven::Queued { task: id, .. }) => task(id, visit),
        Done::SaveCookie(done) => credential(&mut done.id, visit),
        Done::PickCookie(CookiePicked::Picked { credential: picked, .. }) => credential(&mut picked.id, visit),
        Done::PauseCookie(CookiePaused { id: Some(id) })
        | Done::ReactivateCookie(CookieReactivated { id: Some(id) }) => {
            credential(id, visit);
        }
        Done::RedriveWork(Redriven::ReadBack { batch: id, .. }) => batch(id, visit),
        _ => {}
    }
}

fn visit_tx(tx: &mut Tx, visit: Visit<'_>) {
    match tx {
        Tx::SettleJob(op) => instance(&mut op.job, visit),
        Tx::FanOut(op) => instance(&mut Arc::make_mut(op).job, visit),
        Tx::SavePlan(op) => {
            let op = Arc::make_mut(op);
            instance(&mut op.job, visit);
            if let PlanTarget::Existing(id) = &mut op.target {
                plan(id, visit);
            }
        }
        Tx::Renew(op) => op.leases.iter_mut().for_each(|lease| held(lease, visit)),
        Tx::StartRun(op) => held(&mut op.lease, visit),
        Tx::CommitBatch(op) => page(op, visit),
        Tx::CommitBatches(ops) => Arc::make_mut(ops).iter_mut().for_each(|op| page(op, visit)),
        Tx::MarkMissing(op) => {
            held(&mut op.lease, visit);
            lineage(&mut op.lineage, visit);
        }
        Tx::EndRun(op) => {
            let op = Arc::make_mut(op);
            held(&mut op.lease, visit);
            lineage(&mut op.lineage, visit);
            run(&mut op.run, visit);
            if let Some(hold) = &mut op.pause {
                subject(&mut hold.subject, visit);
            }
        }
        Tx::PauseWork(op) => subject(&mut op.subject, visit),
        Tx::ResumeWork(op) => match &mut op.target {
            PauseSelector::Id(id) => hold(id, visit),
            PauseSelector::On(what) => subject(what, visit),
        },
        Tx::CancelWork(op) => match &mut op.target {
            CancelSubject::Job(_) => {}
            CancelSubject::Plan(id) => plan(id, visit),
            CancelSubject::Slice(id) => slice(id, visit),
            CancelSubject::Task(id) => task(id, visit),
        },
        Tx::RedriveWork(op) => match &mut op.target {
            RedriveTarget::Batch { run: id, .. } => run(id, visit),
            RedriveTarget::Task(id) => task(id, visit),
        },
        Tx::AbandonRecord(op) => visit(Kind::Quarantine, &mut op.quarantine),
        Tx::RecordExport(op) => visit(Kind::Run, &mut op.run),
        Tx::RecordAdvance(op) => {
            cursor(&mut op.cursor, visit);
            if let Some(cause) = &mut op.cause {
                task(&mut cause.task, visit);
                run(&mut cause.run, visit);
            }
        }
        Tx::AdvanceCursor(op) => cursor(&mut op.cursor, visit),
        Tx::RecordCookieOutcome(op) => credential(&mut op.credential, visit),
        Tx::AcceptGap(op) => cursor(&mut op.cursor, visit),
        _ => {}
    }
}

fn held(lease: &mut LeaseRef, visit: Visit<'_>) {
    task(&mut lease.task, visit);
}

fn lineage(lineage: &mut TaskLineage, visit: Visit<'_>) {
    instance(&mut lineage.job, visit);
    plan(&mut lineage.plan, visit);
    slice(&mut lineage.slice, visit);
}

fn subject(subject: &mut PauseSubject, visit: Visit<'_>) {
    if let Some(id) = &mut subject.plan {
        plan(id, visit);
    }
    if let Some(id) = &mut subject.slice {
        slice(id, visit);
    }
    if let Some(id) = &mut subject.task {
        task(id, visit);
    }
}

fn slice(id: &mut SliceId, visit: Visit<'_>) {
    visit(Kind::Slice, &mut id.0);
}

fn hold(id: &mut PauseId, visit: Visit<'_>) {
    visit(Kind::Hold, &mut id.0);
}

fn instance(id: &mut JobId, visit: Visit<'_>) {
    visit(Kind::Instance, &mut id.0);
}

fn credential(id: &mut CredentialId, visit: Visit<'_>) {
    visit(Kind::Credential, &mut id.0);
}

fn plan(id: &mut PlanId, visit: Visit<'_>) {
    visit(Kind::Plan, &mut id.0);
}

fn task(id: &mut TaskId, visit: Visit<'_>) {
    visit(Kind::Task, &mut id.0);
}

fn run(id: &mut RunId, visit: Visit<'_>) {
    visit(Kind::Run, &mut id.0);
}

fn page(op: &mut Arc<CommitBatch>, visit: Visit<'_>) {
    let op = Arc::make_mut(op);
    held(&mut op.lease, visit);
    lineage(&mut op.lineage, visit);
    run(&mut op.run, visit);
}

fn batch(id: &mut BatchId, visit: Visit<'_>) {
    visit(Kind::Batch, &mut id.0);
}

fn cursor(id: &mut CursorId, visit: Visit<'_>) {
    visit(Kind::Cursor, &mut id.0);
}

//! The fixture of a case: a store, and helpers that run one operation or establish a state.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::BoxFuture;
use patra_core::port::next_due::NextDue;
use patra_core::port::query::{BatchPage, Cell, JobProgress, PlanLineage, View, ViewFilter, ViewRow};
use patra_core::record::Record;
use patra_core::state::{Operation, TaskStatus};
use patra_core::tx::{
    self, BatchCommitted, ClaimedJob, Coverage, Done, Lease, LeaseRef, PlanSaved, ReadCoverage, RecordAdvance,
    RequestJob, RunEnd, RunStarted, SavePlan, StartRun, Sweep, Swept, Tx, TxError,
};
use patra_core::{CursorId, JobId, PlanId, RunId, Ts, Window};

use super::{Subject, make};

/// The store of one case.
#[derive(Clone, Debug)]
pub struct Fixture {
    pub subject: Subject,
}

/// Rows of a view, with cells by column name.
#[derive(Clone, Debug)]
pub struct Rows {
    pub view: View,
    pub rows: Vec<ViewRow>,
}

impl Fixture {
    pub fn new(subject: Subject) -> Fixture {
        Fixture { subject }
    }

    /// Runs an operation. Retries while the store is busy, as the engine does.
    pub async fn run<O: tx::TxOperation>(&self, operation: O) -> Result<O::Done, TxError> {
        O::from_done(self.execute(operation.into()).await?)
    }

    /// Runs an operation that must be applied. If it finds work, the store must have reported that work as due.
    pub async fn ok<O: tx::TxOperation>(&self, operation: O) -> O::Done {
        let tx = operation.into();
        let name = tx.name();
        match self.execute_announced(tx).await.and_then(O::from_done) {
            Ok(done) => done,
            Err(error) => panic!("{name} was refused: {error}"),
        }
    }

    fn execute_announced(&self, tx: Tx) -> BoxFuture<'_, Result<Done, TxError>> {
        let first: fn(&NextDue) -> Option<Ts> = match &tx {
            Tx::FireDue(_) => |ahead| ahead.schedule,
            Tx::ClaimJob(_) => |ahead| ahead.job,
            Tx::ClaimBackgroundJob(_) => |ahead| ahead.background_job,
            Tx::ClaimTasks(_) => |ahead| ahead.task,
            Tx::ClaimPolls(_) => |ahead| ahead.poll,
            Tx::Sweep(sweep) if !sweep.all_owners => |ahead| ahead.lease,
            _ => return self.execute(tx),
        };
        Box::pin(async move {
            let (name, first) = (tx.name(), first(&self.ahead().await));
            let answer = self.execute(tx).await;
            let found = match &answer {
                Ok(Done::FireDue(done)) => done.fired > 0,
                Ok(Done::ClaimJob(done)) => done.is_some(),
                Ok(Done::ClaimBackgroundJob(done)) => done.is_some(),
                Ok(Done::ClaimTasks(done) | Done::ClaimPolls(done)) => !done.leases.is_empty(),
                Ok(Done::Sweep(done)) => !done.requeued.is_empty() || !done.failed.is_empty(),
                _ => false,
            };
            let after = self.ahead().await.now;
            assert!(
                !found || first.is_some_and(|first| first <= after),
                "{name} found what was announced for {first:?}"
            );
            answer
        })
    }

    pub async fn ahead(&self) -> NextDue {
        self.subject.store.next_due().await.expect("what lies ahead")
    }

    /// Boxed and not generic: hundreds of cases call it, and each would have its own copy.
    fn execute(&self, tx: Tx) -> BoxFuture<'_, Result<Done, TxError>> {
        Box::pin(async move {
            for _ in 0..500 {
                match self.subject.store.execute(tx.clone()).await {
                    Err(TxError::Busy) => tokio::time::sleep(Duration::from_millis(5)).await,
                    answer => return answer,
                }
            }
            Err(TxError::Busy)
        })
    }

    pub async fn pass(&self, span: Duration) {
        self.subject.time.pass(span).await;
    }

    /// Sets the wall clock forward, or back if this is negative.
    pub async fn step_clock(&self, micros: i64) {
        self.subject.time.step(micros).await;
    }

    pub async fn fire(&self, public_id: &str) -> JobId {
        self.ok(make::fire(public_id, Operation::Harvest)).await.job
    }

    pub async fn take(&self) -> Option<ClaimedJob> {
        self.ok(make::take(make::LONG)).await.map(|taken| *taken)
    }

    /// Fires a HARVEST and claims its trigger.
    pub async fn trigger(&self, public_id: &str) -> ClaimedJob {
        self.fire(public_id).await;
        self.take().await.expect("the trigger that was fired")
    }

    pub async fn coverage(&self) -> Coverage {
        self.ok(ReadCoverage { cursor: make::namespace(Operation::Harvest, "ns") }).await
    }

    /// Makes a trigger with a complete plan of one slice per window.
    pub async fn plan(&self, public_id: &str, windows: &[Window]) -> PlanSaved {
        self.plan_of(public_id, Operation::Harvest, windows).await
    }

    pub async fn plan_of(&self, public_id: &str, operation: Operation, windows: &[Window]) -> PlanSaved {
        self.ok(make::fire(public_id, operation)).await;
        let taken = self.take().await.expect("the trigger that was fired");
        let epoch = self.ok(ReadCoverage { cursor: make::namespace(operation, "ns") }).await.epoch;
        self.ok(Arc::new(make::plan(&taken, epoch, windows))).await
    }

    /// Makes any trigger with a plan of one slice per window, adapted by `change`.
    pub async fn plan_with(
        &self,
        fire: RequestJob,
        windows: &[Window],
        change: impl FnOnce(&mut SavePlan),
    ) -> PlanSaved {
        self.ok(fire).await;
        let taken = self.take().await.expect("the trigger that was fired");
        let mut plan = make::plan(&taken, 0, windows);
        change(&mut plan);
        plan.epoch = self.ok(ReadCoverage { cursor: plan.cursor.clone() }).await.epoch;
        self.ok(Arc::new(plan)).await
    }

    /// A trigger over segments of ids, the first of which is number `first`, which end at these ids.
    pub async fn plan_ids(&self, public_id: &str, first: i64, ids: &[&str]) -> PlanSaved {
        self.ok(make::fire(public_id, Operation::Update)).await;
        let taken = self.take().await.expect("the trigger that was fired");
        let epoch = self.ok(ReadCoverage { cursor: make::namespace_of(&taken) }).await.epoch;
        self.ok(Arc::new(make::id_plan(&taken, epoch, first, ids))).await
    }

    /// The store's time.
    pub async fn now(&self) -> Ts {
        self.coverage().await.now
    }

    pub async fn claim_for(&self, limit: u32, lease: Duration) -> Vec<Lease> {
        self.ok(make::claim(limit, lease)).await.leases
    }

    pub async fn claim(&self, limit: u32) -> Vec<Lease> {
        self.claim_for(limit, make::LONG).await
    }

    /// Claims the one task that is next.
    pub async fn next(&self) -> Lease {
        self.claim(1).await.pop().expect("a task in the queue")
    }

    /// Starts a run, which must not be cancelled, and returns the result.
    pub async fn start_fully(&self, lease: &Lease) -> (RunId, Option<tx::ResumePoint>) {
        match self.ok(StartRun { lease: LeaseRef::from(lease) }).await {
            RunStarted::Go { run, resume, .. } => (run, resume),
            RunStarted::Cancelled => panic!("task {} was cancelled", lease.task),
        }
    }

    pub async fn start(&self, lease: &Lease) -> RunId {
        self.start_fully(lease).await.0
    }

    /// Plans this many tasks, and starts the first.
    pub async fn running(&self, tasks: i64) -> (Lease, RunId) {
        self.plan("a", &make::windows(0, tasks)).await;
        let lease = self.next().await;
        let run = self.start(&lease).await;
        (lease, run)
    }

    pub async fn commit(&self, lease: &Lease, run: RunId, no: u32, records: Vec<Record>, more: bool) -> BatchCommitted {
        self.ok(Arc::new(make::page(lease, run, no, records, more))).await
    }

    pub async fn end(&self, lease: &Lease, run: RunId, end: RunEnd) -> TaskStatus {
        self.ok(Arc::new(make::end(lease, run, end))).await.task_status
    }

    /// Starts and ends a run of a claimed task without a page.
    pub async fn finish(&self, lease: &Lease, end: RunEnd) -> TaskStatus {
        let run = self.start(lease).await;
        self.end(lease, run, end).await
    }

    pub async fn sweep(&self, everyone: bool) -> Swept {
        self.ok(Sweep { limit: 1_000, max_attempts: 3, all_owners: everyone, longest_lease: make::LONG }).await
    }

    pub async fn advance(&self, cursor: CursorId) -> tx::AdvanceRecorded {
        self.ok(RecordAdvance { cursor, cause: None, observed_max: None }).await
    }

    pub async fn progress(&self, public_id: &str) -> JobProgress {
        self.subject.store.progress(public_id).await.expect("an answer").expect("a trigger of this name")
    }

    pub async fn lineage(&self, plan: PlanId) -> PlanLineage {
        self.subject.store.lineage(plan, BatchPage::default()).await.expect("an answer").expect("the plan")
    }

    /// The rows of a view, newest first.
    pub async fn rows(&self, view: View) -> Rows {
        self.filtered(view, ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() }).await
    }

    pub async fn filtered(&self, view: View, filter: ViewFilter) -> Rows {
        let rows = self.subject.store.list(view, filter).await.expect("a list");
        for row in &rows {
            assert_eq!(row.len(), view.columns().len(), "cells of {}", view.as_str());
        }
        Rows { view, rows }
    }

    /// The cell of the row with this id.
    pub async fn cell(&self, view: View, id: i64, column: &str) -> Cell {
        self.rows(view).await.of(id, column)
    }

    pub async fn task_status(&self, lease: &Lease) -> String {
        self.rows(View::Tasks).await.text_of(lease.task.0, "status_code")
    }
}

impl Rows {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The cell at an index in the list.
    pub fn at(&self, row: usize, column: &str) -> Cell {
        self.rows[row][self.index(column)].clone()
    }

    pub fn of(&self, id: i64, column: &str) -> Cell {
        let found = self.rows.iter().position(|row| row[0] == Cell::Int(id));
        self.at(found.unwrap_or_else(|| panic!("no row {id} in {}", self.view.as_str())), column)
    }

    pub fn text_of(&self, id: i64, column: &str) -> String {
        text(&self.of(id, column))
    }

    /// A column from top to bottom.
    pub fn column(&self, column: &str) -> Vec<Cell> {
        (0..self.len()).map(|row| self.at(row, column)).collect()
    }

    pub fn texts(&self, column: &str) -> Vec<String> {
        self.column(column).iter().map(text).collect()
    }

    pub fn ids(&self) -> Vec<i64> {
        self.column("id").iter().map(int).collect()
    }

    fn index(&self, column: &str) -> usize {
        self.view.columns().iter().position(|known| known.name == column).expect("a column of the view")
    }
}

pub fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) | Cell::Json(text) => text.clone(),
        other => panic!("expected text, got {other:?}"),
    }
}

pub fn int(cell: &Cell) -> i64 {
    match cell {
        Cell::Int(value) => *value,
        other => panic!("expected a number, got {other:?}"),
    }
}

pub fn time(cell: &Cell) -> Ts {
    match cell {
        Cell::Time(at) => *at,
        other => panic!("expected a time, got {other:?}"),
    }
}

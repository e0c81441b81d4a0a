//! The tables as lists.

use std::collections::BTreeMap;

use patra_core::JobId;
use patra_core::port::query::{Cell, RowOwner, View, ViewCondition, ViewFilter, ViewRow};
use patra_core::state::TaskStatus;
use patra_core::tx::TxError;

use super::{MemStore, Task, place, view};

fn holds(view: View, row: &ViewRow, ViewCondition { column, is, value }: &ViewCondition) -> bool {
    let order = match (view.cell(row, column), value) {
        (Some(Cell::Int(is)), Cell::Int(than)) => is.cmp(than),
        (Some(Cell::Time(is)), Cell::Time(than)) => is.cmp(than),
        (Some(Cell::Text(is)), Cell::Text(than)) => is.cmp(than),
        _ => return false,
    };
    match *is {
        "<" => order.is_lt(),
        ">=" => order.is_ge(),
        _ => order.is_eq(),
    }
}

impl MemStore {
    /// Rows of one view, newest first.
    pub fn list(&self, view: View, filter: &ViewFilter) -> Result<Vec<ViewRow>, TxError> {
        let conditions = view.conditions(filter)?;
        if filter.project_key.is_some() && view.owner().is_none() {
            return Ok(Vec::new());
        }
        let mut rows = self.rows(view);
        rows.retain(|row| {
            let own = filter.project_key.as_deref().is_none_or(|project| self.is_of(view, row, project));
            own && conditions.iter().all(|condition| holds(view, row, condition))
        });
        rows.reverse();
        rows.truncate(filter.effective_limit() as usize);
        Ok(rows)
    }

    /// Whether a row is of a project.
    fn is_of(&self, view: View, row: &ViewRow, project_key: &str) -> bool {
        let id = |column: &str| view.cell(row, column).and_then(|cell| cell.as_int()).unwrap_or_default();
        let owner = match view.owner() {
            None => return false,
            Some(RowOwner::Own) => return view.cell(row, "project_key") == Some(Cell::Text(project_key.to_owned())),
            Some(RowOwner::Plan) => self.plans.get(place(id("plan_id"))).map(|plan| &plan.origin.project_key),
            Some(RowOwner::Cursor) => self.cursors.get(place(id("cursor_id"))).map(|cursor| &cursor.name.project_key),
        };
        owner.is_some_and(|owner| owner == project_key)
    }

    /// Tasks that ended FAILED or PARTIAL, by their job and by the job that it was made from.
    fn tasks_failed(&self) -> BTreeMap<JobId, i64> {
        let mut failed = BTreeMap::new();
        let bad = |task: &&Task| matches!(task.status, TaskStatus::Failed | TaskStatus::Partial) && !task.replaced;
        for task in self.tasks.iter().filter(bad).filter(|task| !self.forgotten.tasks.contains(&task.id)) {
            let root = self.instances[place(task.lineage.job.0)].root;
            for job in [Some(task.lineage.job), root].into_iter().flatten() {
                *failed.entry(job).or_default() += 1;
            }
        }
        failed
    }

    /// All rows, by id.
    fn rows(&self, view: View) -> Vec<ViewRow> {
        match view {
            View::Provenances => self.provenances.iter().map(view::provenance).collect(),
            View::Endpoints => self.endpoints.iter().map(view::endpoint).collect(),
            View::Schedules => self.schedules.iter().map(view::schedule).collect(),
            View::Jobs => {
                let there = self.instances.iter().filter(|row| !self.forgotten.instances.contains(&row.id));
                let failed = self.tasks_failed();
                there.map(|row| view::job(row, failed.get(&row.id).copied().unwrap_or_default())).collect()
            }
            View::Plans => {
                self.plans.iter().filter(|row| !self.forgotten.plans.contains(&row.id)).map(view::plan).collect()
            }
            View::Slices => {
                self.slices.iter().filter(|row| !self.forgotten.slices.contains(&row.id)).map(view::slice).collect()
            }
            View::Tasks => {
                self.tasks.iter().filter(|row| !self.forgotten.tasks.contains(&row.id)).map(view::task).collect()
            }
            View::Runs => {
                let there = self.runs.iter().filter(|row| !self.forgotten.runs.contains(&row.id));
                there.map(|row| view::run(row, &self.tasks[place(row.task.0)])).collect()
            }
            View::Batches => {
                let in_ledger = self.batches.iter().filter(|row| !row.archived);
                in_ledger.map(|row| view::batch(row, &self.tasks[place(row.task.0)])).collect()
            }
            View::Cursors => self.cursors.iter().map(view::cursor).collect(),
            View::Events => {
                let in_table = self.events.iter().filter(|row| !row.archived);
                in_table.map(|row| view::event(row, &self.cursors[place(row.cursor.0)])).collect()
            }
            View::Items => self.items.iter().map(|row| view::item(row, &self.streams[row.stream])).collect(),
            View::Quarantine => self.quarantine.iter().map(view::quarantined).collect(),
            View::Candidates => self.candidates.iter().map(view::candidate).collect(),
            View::Signals => self.signals.values().map(view::signal).collect(),
            View::Holds => self.holds.values().map(view::hold).collect(),
            View::Gates => self.gates.iter().zip(1..).map(view::gate).collect(),
            View::Archive => self.archive.iter().map(view::archived).collect(),
            View::Outbox => self.outbox.iter().map(view::outbox).collect(),
            View::Exports => self.exports.iter().map(view::export).collect(),
            View::Keys => self.keys.iter().map(view::key).collect(),
            View::Credentials => self.credentials.iter().map(view::credential).collect(),
            View::CredentialStates => self.credential_states.iter().map(view::credential_state).collect(),
        }
    }
}

//! Compares the store with the upstream's own list, and the ledger with itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;

use super::sql;
use super::world::World;
use crate::support::Workspace;

/// Errors found by a check.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Records of the upstream that the store lacks.
    pub(super) gaps: usize,
    /// Records stored, or committed to the ledger, more than once.
    pub(super) doubles: usize,
    pub(super) faults: Vec<String>,
}

impl Findings {
    pub(super) fn is_empty(&self) -> bool {
        self.gaps == 0 && self.doubles == 0 && self.faults.is_empty()
    }

    fn fault(&mut self, wrong: bool, text: impl FnOnce() -> String) {
        if wrong {
            self.faults.push(text());
        }
    }
}

/// Progress of the checks: a round checks only new rows.
#[derive(Debug, Default)]
pub(super) struct Marks {
    item: i64,
    task: i64,
    run: i64,
    batch: i64,
    /// End of the last task's window, in the database's format.
    until: String,
}

/// Checks everything that a round added, after its job has ended.
pub(super) fn round(world: &World, new: Range<usize>, marks: &mut Marks) -> Findings {
    let mut findings = Findings::default();
    let items = sql::rows(
        &world.place,
        &format!("SELECT id, dedup_key, payload FROM item WHERE id > {} ORDER BY id", marks.item),
    );
    marks.item = last(&items, marks.item);
    records(world, new.clone(), items.iter().map(|row| (row[1].as_str(), row[2].as_str())), &mut findings);
    let tasks = tasks(&world.place, marks, &mut findings);
    ledger(&world.place, new.len(), &tasks, marks, &mut findings);
    at_any_moment(&world.place, &mut findings);
    findings
}

/// Checks every record of the store, at the end of its life.
pub(super) fn everything(world: &World) -> Findings {
    let mut findings = Findings::default();
    let items = sql::rows(&world.place, "SELECT dedup_key, payload FROM item");
    let all = 0..world.mock_api.dataset().range(0, world.shown.micros()).end;
    records(world, all, items.iter().map(|row| (row[0].as_str(), row[1].as_str())), &mut findings);
    world.place.check_integrity();
    findings
}

/// Checks the invariants of every commit, which also hold while processes run or have just died: the ledger counts
/// exactly the records, no cursor is beyond its newest event, and none is beyond open work.
pub(super) fn at_any_moment(place: &Workspace, findings: &mut Findings) {
    let statement = "
        SELECT (SELECT count(*) FROM item),
          (SELECT coalesce(sum(inserted), 0) FROM ing_task_run_batch WHERE status_code = 'SUCCEEDED'),
          (SELECT count(*) FROM ing_cursor c WHERE c.normalized_instant IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM ing_cursor_event e WHERE e.cursor_id = c.id AND e.new_instant >= c.normalized_instant)),
          (SELECT count(*) FROM ing_task t JOIN ing_cursor c ON c.id = t.cursor_id
            WHERE t.status_code <> 'SUCCEEDED' AND t.window_from < c.normalized_instant)";
    let row = &sql::rows(place, statement)[0];
    findings.fault(row[0] != row[1], || format!("{} records, but the ledger counts {}", row[0], row[1]));
    findings.fault(row[2] != "0", || "a cursor stands beyond its newest event".to_owned());
    findings.fault(row[3] != "0", || format!("a cursor stands beyond {} tasks that have not succeeded", row[3]));
}

/// Whether the cursor is at the end of all planned windows.
pub(super) fn cursor_is_at_its_end(place: &Workspace, marks: &Marks) -> bool {
    sql::rows(place, "SELECT normalized_instant FROM ing_cursor") == [[marks.until.clone()]]
}

fn records<'a>(
    world: &World,
    expected: Range<usize>,
    stored: impl Iterator<Item = (&'a str, &'a str)>,
    findings: &mut Findings,
) {
    let dataset = world.mock_api.dataset();
    let mut missing: BTreeMap<&str, &str> =
        expected.filter_map(|at| dataset.get(at)).map(|(id, _, json)| (id, json)).collect();
    let mut seen = BTreeSet::new();
    for (key, payload) in stored {
        if !seen.insert(key) {
            findings.doubles += 1;
        }
        match missing.remove(key) {
            Some(json) => findings.fault(json != payload, || format!("{key} differs: {payload}")),
            None => findings.fault(dataset.find(key).is_none(), || format!("{key} is not of the upstream")),
        }
    }
    findings.gaps += missing.len();
    let some: Vec<_> = missing.keys().take(5).collect();
    findings.fault(!missing.is_empty(), || format!("missing: {some:?} and so on"));
}

/// Checks the new tasks: all succeeded, and their windows follow the last round's without a gap.
fn tasks(place: &Workspace, marks: &mut Marks, findings: &mut Findings) -> Vec<String> {
    let statement = format!(
        "SELECT id, status_code, window_from, window_to FROM ing_task WHERE id > {} ORDER BY window_from, id",
        marks.task
    );
    let rows = sql::rows(place, &statement);
    for row in &rows {
        let [id, status, from, to] = &row[..] else { continue };
        findings.fault(status != "SUCCEEDED", || format!("task {id} is {status}"));
        let follows = marks.until.is_empty() || marks.until == *from;
        findings.fault(!follows, || format!("task {id} begins at {from}, not at {}", marks.until));
        marks.until.clone_from(to);
    }
    marks.task = rows.iter().filter_map(|row| row[0].parse().ok()).max().unwrap_or(marks.task).max(marks.task);
    rows.into_iter().map(|mut row| row.swap_remove(0)).collect()
}

/// Checks the new runs and batches: each page committed once, consistent counts, no open run.
fn ledger(place: &Workspace, records: usize, tasks: &[String], marks: &mut Marks, findings: &mut Findings) {
    let batches = sql::rows(
        place,
        &format!(
            "SELECT id, task_id, run_id, inserted, updated, skipped, failed, position, next_position, stats
             FROM ing_task_run_batch WHERE id > {} AND status_code = 'SUCCEEDED' ORDER BY task_id, run_id, batch_no",
            marks.batch
        ),
    );
    let runs = sql::rows(
        place,
        &format!("SELECT id, task_id, status_code, stats FROM ing_task_run WHERE id > {} ORDER BY id", marks.run),
    );
    let number = |row: &[String], at: usize| row[at].parse::<i64>().unwrap();
    marks.batch = batches.iter().map(|row| number(row, 0)).max().unwrap_or(marks.batch);
    marks.run = last(&runs, marks.run);

    let sum = |at: usize| batches.iter().map(|row| number(row, at)).sum::<i64>();
    findings.fault(sum(3) != records as i64, || format!("{} records entered the ledger, not {records}", sum(3)));
    // A page that is read a second time skips its stored records. Pages by offset overlap by one record.
    let overlaps = batches.iter().filter(|row| json(&row[7])["offset"].as_u64().is_some_and(|at| at > 0)).count();
    findings.doubles += ((sum(4) + sum(5)) as usize).saturating_sub(overlaps);
    findings.fault(sum(6) != 0, || format!("{} records were rejected", sum(6)));
    for row in &batches {
        let (stats, parts) = (json(&row[9]), (3..7).map(|at| number(row, at)).sum::<i64>());
        findings.fault(stats["itemsCount"] != parts, || format!("batch {}: {parts} of {stats}", row[0]));
    }
    for task in tasks {
        let own: Vec<_> = batches.iter().filter(|row| row[1] == *task).collect();
        for pair in own.windows(2) {
            let follows = json(&pair[0][8]) == json(&pair[1][7]);
            findings.fault(!follows, || format!("task {task}: batch {} does not follow {}", pair[1][0], pair[0][0]));
        }
        let ends = own.last().is_some_and(|row| json(&row[8]).is_null());
        findings.fault(!ends, || format!("task {task} ended before its last page"));
        let own: Vec<_> = runs.iter().filter(|row| row[1] == *task).collect();
        let good = own.iter().filter(|row| row[2] == "SUCCEEDED").count();
        let last_is_good = own.last().is_some_and(|row| row[2] == "SUCCEEDED");
        findings.fault(good != 1 || !last_is_good, || format!("task {task} has these runs: {own:?}"));
    }
    for run in &runs {
        findings.fault(run[2] == "RUNNING", || format!("run {} was left open", run[0]));
        if run[2] == "SUCCEEDED" {
            let (stats, own) = (json(&run[3]), batches.iter().filter(|row| row[2] == run[0]));
            let inserted: i64 = own.map(|row| number(row, 3)).sum();
            findings.fault(stats["inserted"] != inserted, || format!("run {}: {inserted} of {stats}", run[0]));
        }
    }
}

fn json(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { serde_json::from_str(text).unwrap() }
}

/// The highest id of rows that are sorted by it.
fn last(rows: &[Vec<String>], before: i64) -> i64 {
    rows.last().map_or(before, |row| row[0].parse().unwrap())
}

//! What must hold of the SQL itself: every statement fits the schema, the hot ones use their index, and the schema
//! knows every word of the core.

use std::fmt::Display;

use patra_core::port::query::{Filter, View};
use patra_core::state::{
    AuthType, BatchStatus, CredentialStatus, Operation, PlanStatus, RunStatus, SliceStatus, TaskStatus, TokenStatus,
    TriggerStatus, TriggerType,
};
use patra_core::tx::Scope;
use patra_testkit::ManualClock;
use rusqlite::Connection;

use crate::{exec, migrate, query, sql};

fn migrated() -> Connection {
    let mut db = Connection::open_in_memory().unwrap();
    migrate::run(&mut db, &ManualClock::default()).unwrap();
    db
}

#[test]
fn every_statement_fits_the_schema() {
    let db = migrated();
    let mut count = 0;
    for statement in sql::statements() {
        db.prepare(statement).unwrap_or_else(|error| panic!("{statement}\n{error}"));
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[test]
fn every_view_can_be_listed_by_every_column_that_it_has() {
    let db = migrated();
    let text = || Some("x".to_owned());
    let filters = [
        Filter::default(),
        Filter { provenance_code: text(), ..Filter::default() },
        Filter { endpoint_name: text(), status: text(), ..Filter::default() },
        Filter { plan: Some(1), task: Some(1), run: Some(1), ..Filter::default() },
    ];
    for view in View::ALL {
        for filter in &filters {
            let Ok(conditions) = view.conditions(filter) else { continue };
            let columns: Vec<_> = conditions.iter().map(|(column, _)| *column).collect();
            for before in [false, true] {
                let statement = query::list_statement(*view, &columns, before);
                db.prepare(&statement).unwrap_or_else(|error| panic!("{statement}\n{error}"));
            }
        }
    }
}

/// The plan's lines, joined.
fn plan(db: &Connection, statement: &str) -> String {
    let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    for parameter in 1..=explain.parameter_count() {
        explain.raw_bind_parameter(parameter, 1).unwrap();
    }
    let mut rows = explain.raw_query();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get::<_, String>(3).unwrap());
    }
    lines.join("\n")
}

#[test]
fn the_hot_statements_use_their_indexes_and_sort_nothing() {
    let db = migrated();
    let check = |statement: &str, needed: &str| {
        let plan = plan(&db, statement);
        assert!(plan.contains(needed), "{needed} is not in the plan of {statement}:\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{statement} sorts:\n{plan}");
    };
    check(exec::hot::NEXT_PRIORITY, "SEARCH ing_task USING COVERING INDEX idx_task_pick (priority>?)");
    check(exec::hot::PICK, "SEARCH task USING INDEX idx_task_pick (priority=? AND scheduled_at<?)");
    check(
        exec::hot::COUNT_CHILDREN,
        "SEARCH ing_schedule_instance USING COVERING INDEX idx_instance_parent (parent_id=?)",
    );
    check(
        exec::hot::COUNT_WAITING,
        "SEARCH ing_schedule_instance USING COVERING INDEX idx_instance_parent (parent_id=? AND status_code=?)",
    );
    check(
        exec::hot::READ_PARENTS,
        "SEARCH item USING INDEX uk_item (project_key=? AND provenance_code=? AND dedup_scope=? AND dedup_key>?)",
    );
    check(exec::hot::READ_EXPIRED, "SEARCH ing_task USING INDEX idx_task_queue (leased_until<?)");
    check(exec::hot::READ_COVERED, "SEARCH ing_task USING INDEX idx_task_cover (cursor_id=? AND window_to>?)");
    check(exec::hot::READ_SUCCEEDED, "SEARCH ing_task USING INDEX idx_task_cover (cursor_id=? AND window_to>?)");
    check(exec::hot::COUNT_QUEUED, "USING COVERING INDEX idx_task_inventory");
    check(exec::hot::READ_NEWEST_EVENT, "USING COVERING INDEX idx_cur_evt_instant");
    check(exec::hot::READ_RESUME, "USING INDEX idx_batch_task (task_id=?)");
    check(exec::hot::READ_DUE, "USING INDEX idx_schedule_due (next_due_at<?)");
    check(exec::hot::READ_DUE, "USING COVERING INDEX idx_instance_schedule (schedule_id=?)");
    check(exec::hot::TAKE, "USING INDEX idx_instance_waiting");
    check(
        exec::hot::REPLACE_ITEM,
        "USING INDEX uk_item (project_key=? AND provenance_code=? AND dedup_scope=? AND dedup_key=?)",
    );
}

#[test]
fn no_statement_reads_a_whole_table_that_grows() {
    let db = migrated();
    for statement in sql::statements() {
        let plan = plan(&db, statement);
        // These hold still: a partial index of what waits or is under way, a JSON list, the dictionary, which is the
        // program's own, the triggers that one was made into, and tables of which only one row is looked at.
        let small = [
            "SCAN family",
            "idx_instance_waiting",
            "json_each",
            "CONSTANT ROW",
            "api_key",
            "patra_migration",
            "idx_schedule_due",
            "sys_dict",
            "idx_credential_refreshing",
        ];
        let harmless = |line: &str| !line.starts_with("SCAN") || small.iter().any(|name| line.contains(name));
        assert!(plan.lines().all(harmless), "{statement}\n{plan}");
    }
}

/// A row may be given each of `words` in `column`, and no other word.
fn check_words<W: Display>(db: &Connection, table: &str, column: &str, words: impl IntoIterator<Item = W>) {
    let schema: String =
        db.query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0)).unwrap();
    let (_, check) = schema.split_once(&format!("CHECK ({column} IN (")).unwrap_or_else(|| panic!("{table}.{column}"));
    let (list, _) = check.split_once("))").unwrap();
    let mut allowed: Vec<_> = list.split(", ").map(|word| word.trim_matches('\'').to_owned()).collect();
    let mut words: Vec<_> = words.into_iter().map(|word| word.to_string()).collect();
    allowed.sort_unstable();
    words.sort_unstable();
    assert_eq!(allowed, words, "{table}.{column}");
}

#[test]
fn the_checks_of_the_schema_accept_exactly_the_words_of_the_core() {
    let db = migrated();
    check_words(&db, "ing_schedule_instance", "status_code", TriggerStatus::ALL);
    check_words(&db, "ing_schedule_instance", "trigger_type_code", TriggerType::ALL);
    check_words(&db, "ing_plan", "status_code", PlanStatus::ALL);
    check_words(&db, "ing_plan_slice", "status_code", SliceStatus::ALL);
    check_words(&db, "ing_task", "status_code", TaskStatus::ALL);
    check_words(&db, "ing_task_run", "status_code", RunStatus::ALL);
    check_words(&db, "ing_task_run_batch", "status_code", BatchStatus::ALL);
    check_words(&db, "reg_prov_credential", "type_code", AuthType::ALL);
    check_words(&db, "reg_prov_credential", "status_code", CredentialStatus::ALL);
    check_words(&db, "ing_credential_state", "status_code", TokenStatus::ALL);
    check_words(&db, "api_key", "scope", [Scope::Read, Scope::Write, Scope::Admin].map(Scope::as_str));
    for table in ["reg_schedule", "ing_schedule_instance", "ing_plan", "ing_task", "ing_task_run", "ing_cursor"] {
        check_words(&db, table, "operation_code", Operation::ALL);
    }
}

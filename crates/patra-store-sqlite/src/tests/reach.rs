//! Tables that the statements of a part may read, and tables that they must not.

use super::*;

/// These tables grow with every page that is read.
const LARGE: [&str; 4] = ["ing_task_run ", "ing_task_run_batch ", "ing_cursor_event ", "item "];

// covers: ING-7.1-03
#[test]
fn executor_statements_do_not_read_triggers() {
    let db = migrated();
    db.execute_batch("DROP TABLE ing_schedule_instance").unwrap();
    for statement in exec::EXECUTOR.iter().copied().flatten() {
        db.prepare(statement).unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

// covers: ING-7.9-03
#[test]
fn planner_statements_never_update_tasks() {
    for statement in exec::PLANNER.iter().copied().flatten() {
        assert!(!statement.contains("UPDATE ing_task"), "{statement}");
    }
}

// covers: ING-13.6-02
#[test]
fn queries_never_join_two_large_tables() {
    let lists = View::ALL.iter().map(|view| query::list_statement(*view, &[], true));
    for statement in lists {
        assert!(!statement.contains("JOIN"), "a list reads one table: {statement}");
    }
    for statement in query::STATEMENTS.iter().copied().flatten() {
        let statement = statement.replace(['\n', ')'], " ");
        let joined = statement.contains("JOIN") || statement.contains("EXISTS");
        let large = LARGE.iter().filter(|table| statement.contains(*table)).count();
        // One run by its id is not a large read.
        assert!(!joined || large < 2 || statement.contains("WHERE run.id = ?1"), "{statement}");
    }
}

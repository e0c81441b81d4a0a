//! Which tables the statements of a part reach, and which they must leave alone.

use super::*;

/// The rows of these grow with every page that is read.
const LARGE: [&str; 4] = ["ing_task_run ", "ing_task_run_batch ", "ing_cursor_event ", "item "];

// covers: ING-7.1-03
#[test]
fn what_an_executor_does_needs_nothing_of_the_trigger() {
    let db = migrated();
    db.execute_batch("DROP TABLE ing_schedule_instance").unwrap();
    for statement in exec::EXECUTOR.iter().copied().flatten() {
        db.prepare(statement).unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

// covers: ING-7.9-03
#[test]
fn what_a_planner_does_moves_no_task() {
    for statement in exec::PLANNER.iter().copied().flatten() {
        assert!(!statement.contains("UPDATE ing_task"), "{statement}");
    }
}

// covers: ING-13.6-02
#[test]
fn what_reads_for_people_joins_no_two_large_tables() {
    let lists = View::ALL.iter().map(|view| query::list_statement(*view, &[], true));
    for statement in lists {
        assert!(!statement.contains("JOIN"), "a list reads one table: {statement}");
    }
    for statement in query::STATEMENTS.iter().copied().flatten() {
        let statement = statement.replace(['\n', ')'], " ");
        let joined = statement.contains("JOIN") || statement.contains("EXISTS");
        let large = LARGE.iter().filter(|table| statement.contains(*table)).count();
        // One run, known by its number, is no large table.
        assert!(!joined || large < 2 || statement.contains("WHERE run.id = ?1"), "{statement}");
    }
}

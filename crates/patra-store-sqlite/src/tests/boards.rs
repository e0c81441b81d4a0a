//! The boards: how far each namespace has come, the line of its events, and what was counted. PostgreSQL has the same indexes.

use super::*;
use crate::query::board;

// covers: ING-10.7-01
#[test]
fn the_watermark_and_event_boards_are_served_by_their_indexes() {
    let db = migrated();
    let check = |statement: &str, needed: &str| {
        let plan = plan(&db, statement);
        assert!(plan.contains(needed) && !plan.contains("TEMP B-TREE"), "{statement}:\n{plan}");
    };
    let of = "WHERE provenance_code = ?1 AND operation_code = ?2";
    check(
        &format!("SELECT * FROM ing_cursor {of} ORDER BY normalized_instant DESC"),
        "USING INDEX idx_cursor_time (provenance_code=? AND operation_code=?)",
    );
    check(
        &format!("SELECT * FROM ing_cursor {of} ORDER BY normalized_numeric DESC"),
        "USING INDEX idx_cursor_id (provenance_code=? AND operation_code=?)",
    );
    let namespace = "AND namespace_scope_code = ?3 AND namespace_key = ?4";
    check(
        &format!("SELECT * FROM ing_cursor_event {of} {namespace} AND created_at >= ?5 ORDER BY created_at DESC"),
        "USING INDEX idx_cur_evt_timeline (provenance_code=? AND operation_code=? AND namespace_scope_code=? AND \
         namespace_key=? AND created_at>?)",
    );
}

// covers: ING-13.6-02
#[test]
fn a_board_reads_what_it_shows_and_no_history() {
    let db = migrated();
    let check = |statement: &str, needed: &str| {
        let plan = plan(&db, statement);
        assert!(plan.contains(needed) && !plan.contains("SCAN ing_task_run_batch"), "{statement}:\n{plan}");
    };
    check(board::READ_QUEUED, "USING COVERING INDEX idx_task_open");
    for statement in [board::READ_COUNTS, board::READ_SERIES] {
        check(statement, "SEARCH ing_minute USING PRIMARY KEY (minute>? AND minute<?)");
    }
    check(board::READ_ERRORS, "SEARCH ing_error_minute USING PRIMARY KEY (minute>? AND minute<?)");
    check(board::READ_ADVANCES, "USING INDEX idx_cur_evt_timeline");
    check(board::READ_STATUSES, "ing_task_run_batch USING INDEX");
}

//! The boards: the progress of each namespace, the timeline of its events, and the counters. PostgreSQL has the same
//! indexes.

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
fn board_reads_only_its_rows_and_no_history() {
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

// covers: ING-14.1-02
#[test]
fn gauges_read_only_open_work() {
    let db = migrated();
    for (statement, needed) in [
        (query::load::COUNT_QUEUED, "SCAN ing_task USING INDEX idx_task_pick"),
        (query::load::COUNT_POLLS, "SCAN ing_task USING INDEX idx_task_poll"),
        (query::load::READ_REACHED, "SEARCH ing_cursor USING INDEX idx_cursor_moved (updated_at>?)"),
    ] {
        let plan = plan(&db, statement);
        assert!(plan.contains(needed), "{statement}:\n{plan}");
    }
    assert!(!plan(&db, query::load::COUNT_QUEUED).contains("TEMP B-TREE"), "it counts in the order of the index");
}

/// The contract checks that nothing is lost; this checks that it takes less space.
// covers: ING-14.11-02
#[test]
fn minutes_are_merged_into_quarters_and_hours_and_then_deleted() {
    let db = migrated();
    let now = Ts::from_secs(1_000 * 86_400);
    for age in [0, 1, 3, 200] {
        db.execute(
            "INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code, shard, batches)
             WITH RECURSIVE ago (minutes) AS (SELECT 1 UNION ALL SELECT minutes + 1 FROM ago WHERE minutes < 120)
             SELECT ?1 - minutes * 60000000, 'default', 'p', 'e', 'HARVEST', 0, 1 FROM ago",
            [(now - Duration::from_secs(age * 86_400)).micros()],
        )
        .unwrap();
    }
    let left = |from: u64, to: u64| -> (i64, i64) {
        let at = |days: u64| (now - Duration::from_secs(days * 86_400)).micros();
        db.query_row(
            "SELECT count(*), coalesce(sum(batches), 0) FROM ing_minute WHERE minute < ?1 AND minute >= ?2",
            [at(from), at(to)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap()
    };
    for _ in 0..2 {
        exec::minute::fold(&db, now).unwrap();
        assert_eq!([left(0, 1), left(1, 2), left(2, 9), left(9, 999)], [(120, 120), (8, 120), (2, 120), (0, 0)]);
    }
}

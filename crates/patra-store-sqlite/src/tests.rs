//! Tests of the SQL itself: every statement fits the schema, the hot ones use their index, and the schema knows every
//! word of the core.

mod boards;
mod pool;
mod reach;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use patra_core::Ts;
use patra_core::gate::{GateLimits, GateRequest, Rate};
use patra_core::port::query::{View, ViewFilter};
use patra_core::state::{
    AlertLevel, AuthType, BatchStatus, CandidateStatus, CookieStatus, CredentialStatus, Direction, ExecutionStatus,
    IntervalFrom, JobStatus, Operation, PauseKind, PausedReason, PlanStatus, QuarantineStatus, RunStatus, SignalStatus,
    SliceStatus, TaskStatus, TokenStatus, TriggerType, UpdateReason,
};
use patra_core::tx::{Done, KeyScope, RequestPermits, Tx};
use patra_testkit::ManualClock;
use rusqlite::{Connection, StatementStatus};

use crate::{connect, exec, migrate, query, sql};

fn migrated() -> Connection {
    let mut db = Connection::open_in_memory().unwrap();
    connect::common(&db).unwrap();
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
fn no_statement_is_prepared_again_for_other_values() {
    let db = migrated();
    for statement in sql::statements() {
        let mut prepared = db.prepare(statement).unwrap();
        for value in 1..=2 {
            for parameter in 1..=prepared.parameter_count() {
                prepared.raw_bind_parameter(parameter, value).unwrap();
            }
            // The result of the statement does not matter here.
            let _ = prepared.raw_query().next();
        }
        assert_eq!(prepared.get_status(StatementStatus::RePrepare), 0, "{statement}");
    }
}

#[test]
fn every_view_can_be_listed_by_every_column_that_it_has() {
    let db = migrated();
    let text = || Some("x".to_owned());
    let filters = [
        ViewFilter::default(),
        ViewFilter { provenance_code: text(), ..ViewFilter::default() },
        ViewFilter { endpoint_name: text(), status: text(), ..ViewFilter::default() },
        ViewFilter { plan: Some(1), task: Some(1), run: Some(1), ..ViewFilter::default() },
        ViewFilter { id: Some(1), before_id: Some(1), ..ViewFilter::default() },
        ViewFilter { from: Some(Ts::MIN), to: Some(Ts::MAX), ..ViewFilter::default() },
    ];
    for view in View::ALL {
        for filter in &filters {
            let Ok(conditions) = view.conditions(filter) else { continue };
            for of_project in [false, true] {
                let statement = query::list_statement(*view, &conditions, of_project);
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

// covers: ING-13.3-01, ING-7.11-01
#[test]
fn the_hot_statements_use_their_indexes_and_sort_nothing() {
    let db = migrated();
    let check = |statement: &str, needed: &str| {
        let plan = plan(&db, statement);
        assert!(plan.contains(needed), "{needed} is not in the plan of {statement}:\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{statement} sorts:\n{plan}");
    };
    let lane = "idx_task_pick (provenance_code=? AND endpoint_name=? AND operation_code=? AND c_max=? AND <expr>";
    check(exec::hot::NEXT_LANE, &format!("{lane}=? AND priority>?)"));
    check(exec::hot::NEXT_LANE, &format!("{lane}>?)"));
    check(exec::hot::NEXT_LANE, "idx_task_pick ((provenance_code,endpoint_name,operation_code,c_max)>(?,?,?,?))");
    check(exec::hot::HEAD, &format!("{lane}=? AND priority=? AND scheduled_at<?)"));
    check(exec::hot::HEAD_WITH_HOLDS, &format!("{lane}=? AND priority=? AND scheduled_at<?)"));
    for index in ["idx_schedule_due", "idx_instance_waiting", "idx_instance_chore", "idx_task_poll", "idx_task_queue"] {
        check(query::next_due::LOOK, index);
    }
    check(exec::hot::READ_STOPPING, "USING INDEX uk_hold_active (kind_code=?)");
    check(
        exec::hot::COUNT_CHILDREN,
        "SEARCH ing_schedule_instance USING COVERING INDEX idx_instance_parent (parent_id=?)",
    );
    check(
        exec::hot::COUNT_WAITING,
        "SEARCH ing_schedule_instance USING COVERING INDEX idx_instance_parent (parent_id=? AND status_code=?)",
    );
    check(exec::hot::READ_PARENTS, "SEARCH item USING INDEX uk_item (scope_id=? AND dedup_key>?)");
    check(exec::hot::READ_PART, "SEARCH item_listed USING PRIMARY KEY (list_id=? AND item_id>?)");
    check(exec::hot::MARK_ITEM, "SEARCH item_listed USING INDEX idx_item_listed_item (item_id=?)");
    check(exec::hot::READ_EXPIRED, "SEARCH ing_task USING INDEX idx_task_queue (leased_until<?)");
    check(exec::hot::BEYOND_FORWARD, "SEARCH ing_task USING INDEX idx_task_cover (cursor_id=? AND window_to>?)");
    check(
        exec::hot::BEYOND_BACKFILL,
        "SEARCH ing_task USING INDEX idx_task_cover_past (cursor_id=? AND window_from<?)",
    );
    let segments = "(cursor_id=? AND window_to=? AND window_from=? AND ordinal>?)";
    check(exec::hot::SEGMENTS, &format!("SEARCH ing_task USING INDEX idx_task_cover {segments}"));
    check(exec::hot::NEXT_ORDINAL, &format!("SEARCH ing_task USING COVERING INDEX idx_task_cover {segments}"));
    check(exec::hot::NEWEST_PLAN, "USING COVERING INDEX idx_plan_cursor (cursor_id=?)");
    check(exec::hot::READ_HARVESTED, "USING INDEX idx_cursor_time (provenance_code=? AND operation_code=?)");
    check(exec::hot::COUNT_QUEUED, "USING INDEX idx_task_pick (provenance_code=? AND endpoint_name=?");
    check(exec::hot::LAST_FORWARD, "USING INDEX idx_cur_evt_instant (cursor_id=?)");
    check(exec::hot::LAST_BACKFILL, "USING INDEX idx_cur_evt_instant (cursor_id=?)");
    check(exec::hot::LAST_NUMERIC, "USING INDEX idx_cur_evt_numeric (cursor_id=?)");
    check(exec::hot::REACHES_FORWARD, "USING INDEX idx_cur_evt_instant (cursor_id=? AND new_instant>?)");
    check(exec::hot::REACHES_BACKFILL, "USING INDEX idx_cur_evt_instant (cursor_id=? AND new_instant<?)");
    check(exec::hot::REACHES_NUMERIC, "USING INDEX idx_cur_evt_numeric (cursor_id=? AND new_numeric>?)");
    let of_stream = "(project_key=? AND provenance_code=? AND endpoint_name=?)";
    check(exec::hot::HAS_ISOLATED, &format!("USING COVERING INDEX idx_quarantine_key {of_stream}"));
    check(exec::hot::HAS_ISOLATED, &format!("USING INDEX uk_signal_open {of_stream}"));
    let of_key = "uk_item (scope_id=? AND dedup_key>?)";
    check(exec::hot::STALE, of_key);
    check(exec::hot::MAPPED_OTHERWISE, of_key);
    check(exec::hot::SIGNALLED, "USING COVERING INDEX uk_signal_open");
    check(exec::hot::READ_BATCHES, "USING INDEX idx_batch_created (created_at<?)");
    check(exec::hot::READ_RESUME, "USING INDEX idx_batch_task (task_id=?)");
    check(exec::hot::READ_DUE, "USING INDEX idx_schedule_due (next_due_at<?)");
    check(exec::hot::READ_DUE, "USING COVERING INDEX idx_instance_schedule (schedule_id=?)");
    check(exec::hot::TAKE, "USING INDEX idx_instance_waiting");
    check(exec::hot::NEXT_POLLS, "SEARCH ing_task USING INDEX idx_task_poll (scheduled_at<?)");
    check(exec::hot::CLAIM_NOTES, "SEARCH crawl_candidate USING INDEX idx_crawl_status (status=?)");
    check(exec::hot::READ_FORGOTTEN, "SEARCH crawl_candidate USING INDEX idx_crawl_locked (locked_at<?)");
    for statement in [exec::hot::COUNT_COOKIES, query::COUNT_COOKIES, query::COUNT_PLATFORM_COOKIES] {
        let plan = plan(&db, statement);
        assert!(plan.contains("USING COVERING INDEX idx_cookie_count"), "{statement}\n{plan}");
    }
    // A pick reads the first row of an index, in its order.
    let pick = plan(&db, exec::hot::PICK_COOKIE);
    let ready =
        "SEARCH ing_credential_state USING COVERING INDEX idx_cookie_ready (provenance_code=? AND endpoint_name=?)";
    let ready = [ready, &ready.replace("COVERING ", "")];
    let found = pick.lines().filter(|line| ready.iter().any(|ready| line.contains(ready))).count();
    let sorts = pick.lines().filter(|line| line.contains("TEMP B-TREE")).count();
    assert!(found == 2 && sorts == 1, "only the two heads are compared:\n{pick}");
    for index in ["idx_cookie_lease", "idx_cookie_cooled", "idx_cookie_expiry", "idx_cookie_spent"] {
        check(exec::hot::ARE_COOKIES_DUE, &format!("{index} (provenance_code=? AND"));
    }
    // Only due rows are sorted, and nothing else is read.
    let due = plan(&db, query::source::READ_DUE);
    assert!(due.contains("SEARCH source USING INDEX idx_source_due (next_due_at"), "{due}");
    check(exec::hot::REPLACE_ITEM, "USING INDEX uk_item (scope_id=? AND dedup_key=?)");
}

// covers: ING-13.3-01
#[test]
fn no_statement_reads_a_whole_table_that_grows() {
    let db = migrated();
    for statement in sql::statements() {
        let plan = plan(&db, statement);
        // These scans are bounded: a partial index of waiting or running work, a JSON list, the program's own
        // dictionary, the triggers made of one trigger, and tables of which only one row is read.
        let small = [
            "SCAN family",
            "SCAN (subquery",
            "idx_instance_waiting",
            "json_each",
            "CONSTANT ROW",
            "api_key",
            "patra_migration",
            "idx_schedule_due",
            "sys_dict",
            // As many as there are source types, live collectors, and settings.
            "source_type",
            "collector_beat",
            "SCAN config",
            "idx_credential_refreshing",
            "idx_task_queue",
            // As many as wait or are in progress, which the inventory bounds.
            "idx_task_open",
            "idx_task_pick",
            "idx_task_poll",
            // As many as manifests name.
            "uk_schedule",
            // Read from the one furthest behind, until there are enough.
            "idx_cursor_lag",
            // Read in the order of creation, up to the first young row.
            "SCAN event",
            "SCAN ing_signal",
            "SCAN ing_hold",
            // As many as there are rate keys, and uses of cookies in progress; read when the clock has stepped.
            "SCAN ing_gate",
            "SCAN ing_cookie_lease",
            // As many as there are accounts, platforms and kinds of alerts; for platforms, the last hour.
            "uk_cookie_name",
            "SCAN crawl_minute",
            "SCAN alert_state",
            // As many as there are projects and their settings, waiting events, and requested jobs.
            "SCAN project",
            "SCAN resource_pool_capture",
            "idx_outbox_pending",
            "idx_outbox_failed",
            "idx_outbox_leased",
            "idx_instance_chore",
            "idx_instance_scrape",
            // Read from the newest on, until there are enough of the project.
            "SCAN job",
        ];
        let harmless = |line: &str| !line.starts_with("SCAN") || small.iter().any(|name| line.contains(name));
        assert!(plan.lines().all(harmless), "{statement}\n{plan}");
    }
}

/// Checks that `column` accepts each of `words` and no other word.
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
    check_words(&db, "ing_schedule_instance", "status_code", JobStatus::ALL);
    check_words(&db, "ing_schedule_instance", "trigger_type_code", TriggerType::ALL);
    check_words(&db, "ing_plan", "status_code", PlanStatus::ALL);
    check_words(&db, "ing_plan_slice", "status_code", SliceStatus::ALL);
    check_words(&db, "ing_task", "status_code", TaskStatus::ALL);
    check_words(&db, "ing_task_run", "status_code", RunStatus::ALL);
    check_words(&db, "ing_task_run_batch", "status_code", BatchStatus::ALL);
    check_words(&db, "reg_prov_credential", "type_code", AuthType::ALL);
    check_words(&db, "reg_prov_credential", "status_code", CredentialStatus::ALL);
    check_words(&db, "ing_credential_state", "status_code", TokenStatus::ALL);
    check_words(&db, "ing_credential_state", "cookie_code", CookieStatus::ALL);
    check_words(&db, "ing_execution", "status", ExecutionStatus::ALL);
    check_words(&db, "crawl_candidate", "status", CandidateStatus::ALL);
    check_words(&db, "alert_state", "level", AlertLevel::ALL);
    check_words(&db, "api_key", "scope", [KeyScope::Read, KeyScope::Write, KeyScope::Admin].map(KeyScope::as_str));
    check_words(&db, "ing_hold", "kind_code", PauseKind::ALL);
    check_words(&db, "ing_signal", "status_code", SignalStatus::ALL);
    check_words(&db, "item_quarantine", "status_code", QuarantineStatus::ALL);
    check_words(&db, "ing_cursor", "direction_code", Direction::ALL);
    check_words(&db, "ing_schedule_instance", "reason_code", UpdateReason::ALL);
    check_words(&db, "source", "paused_reason", PausedReason::ALL);
    let of_types = IntervalFrom::ALL.iter().filter(|from| **from != IntervalFrom::Source);
    check_words(&db, "source_type", "interval_from", of_types);
    let or_none = UpdateReason::ALL.iter().map(|reason| reason.as_str()).chain([""]);
    check_words(&db, "reg_schedule", "reason_code", or_none);
    for table in ["reg_schedule", "ing_schedule_instance", "ing_plan", "ing_task", "ing_task_run", "ing_cursor"] {
        check_words(&db, table, "operation_code", Operation::ALL);
    }
}

/// A cursor with two events, the first of which is archived.
fn with_cursor() -> Connection {
    let db = migrated();
    db.execute_batch(
        "INSERT INTO ing_cursor
           (id, project_key, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
            cursor_type_code, direction_code, origin_instant, normalized_instant, created_at, updated_at)
         VALUES (1, 'default', 'p', 'e', 'HARVEST', 'u', 'EXPR', 'a', 'TIME', 'FORWARD', 0, 5, 0, 0),
                (2, 'default', 'p', 'e', 'BACKFILL', 'u', 'CUSTOM', 'b', 'TIME', 'BACKFILL', 9, 5, 0, 0);
         INSERT INTO ing_cursor
           (id, project_key, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
            cursor_type_code, direction_code, normalized_numeric, created_at, updated_at)
         VALUES (3, 'default', 'p', 'e', 'UPDATE', 'u', 'CUSTOM', 'c', 'ID', 'FORWARD', 5, 0, 0);
         INSERT INTO ing_cursor_event
           (id, cursor_id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code,
            namespace_key, direction_code, new_value, idempotent_key, created_at)
         VALUES (1, 1, 'p', 'e', 'HARVEST', 'u', 'EXPR', 'a', 'FORWARD', 'x', 'x', 0),
                (2, 1, 'p', 'e', 'HARVEST', 'u', 'EXPR', 'a', 'FORWARD', 'y', 'y', 0);
         INSERT INTO ing_archive (kind_code, row_id, body, created_at, archived_at)
         VALUES ('EVENT', 1, '{}', 0, 0), ('BATCH', 2, '{}', 0, 0)",
    )
    .unwrap();
    db
}

// covers: ING-4.4-06, ING-7.8-05
#[test]
fn database_refuses_forbidden_ledger_changes() {
    let db = with_cursor();
    let check = |sql: &str, refusal: Option<&str>| {
        let error = db.execute(sql, ()).err().map(|error| error.to_string());
        match refusal {
            None => assert_eq!(error, None, "{sql}"),
            Some(refusal) => assert!(error.as_ref().is_some_and(|error| error.contains(refusal)), "{sql}: {error:?}"),
        }
    };
    let onward = Some("ing_cursor only moves onward");
    check("UPDATE ing_cursor SET normalized_instant = 4 WHERE id = 1", onward);
    check("UPDATE ing_cursor SET normalized_instant = NULL WHERE id = 1", onward);
    check("UPDATE ing_cursor SET normalized_instant = 6 WHERE id = 1", None);
    check("UPDATE ing_cursor SET normalized_instant = 6 WHERE id = 2", onward);
    check("UPDATE ing_cursor SET normalized_instant = 4 WHERE id = 2", None);
    check("UPDATE ing_cursor SET normalized_numeric = 4 WHERE id = 3", onward);
    check("UPDATE ing_cursor SET normalized_numeric = 6 WHERE id = 3", None);
    check("UPDATE ing_cursor SET direction_code = 'BACKFILL' WHERE id = 3", Some("direction of a cursor is fixed"));
    check("UPDATE ing_cursor SET normalized_instant = 1 WHERE id = 3", Some("CHECK constraint failed"));
    check("UPDATE ing_cursor SET origin_instant = NULL WHERE id = 1", Some("CHECK constraint failed"));
    check("UPDATE ing_cursor_event SET new_value = 'z' WHERE id = 1", Some("append-only"));
    check("DELETE FROM ing_cursor_event WHERE id = 2", Some("append-only"));
    check("DELETE FROM ing_cursor_event WHERE id = 1", None);
}

// covers: CRAWL-11, CRAWL-25, CRAWL-41, CRAWL-49
#[test]
fn database_refuses_invalid_lock_states() {
    let db = migrated();
    db.execute_batch(
        "INSERT INTO crawl_candidate (id, project_key, platform, note_id, note_url, status, tokens, exec_meta, created_at,
           updated_at)
         VALUES (1, 'p', 'x', 'a', 'u', 'pending', '{}', '{}', 0, 0);
         INSERT INTO ing_execution (project_key, workflow_name, execution_id, status, started_at, heartbeat_at)
         VALUES ('p', 'w', 'one', 'running', 0, 0);
         INSERT INTO reg_prov_credential (alias, provenance_code, endpoint_name, version, type_code, priority, sealed,
           key_id, status_code, created_at, updated_at)
         VALUES ('a', 'x', '*', 1, 'COOKIE', 1, 's', 'k', 'ACTIVE', 0, 0), ('a', 'x', '*', 2, 'BEARER', 1, 's', 'k', 'ACTIVE', 0, 0);
         INSERT INTO ing_credential_state (credential_id, status_code, updated_at) VALUES (1, 'ACTIVE', 0)",
    )
    .unwrap();
    for sql in [
        "UPDATE crawl_candidate SET status = 'processing'",
        "UPDATE crawl_candidate SET processing_lock = 'one', locked_at = 1",
        "UPDATE crawl_candidate SET status = 'processing', processing_lock = 'one'",
        "UPDATE crawl_candidate SET locked_at = 1",
        "UPDATE crawl_candidate SET exec_meta = '[]'",
        "UPDATE ing_execution SET completed_at = 1",
        "UPDATE ing_execution SET status = 'timeout'",
        "INSERT INTO ing_execution (project_key, workflow_name, execution_id, status, started_at, heartbeat_at)
         VALUES ('p', 'w', 'two', 'running', 0, 0)",
        "UPDATE ing_credential_state SET cooling_until = 1",
        "UPDATE ing_credential_state SET cookie_code = 'cooling'",
        "UPDATE reg_prov_credential SET type_code = 'COOKIE' WHERE version = 2",
        "UPDATE reg_prov_credential SET daily_limit = 1 WHERE version = 2",
    ] {
        let error = db.execute(sql, ()).expect_err(sql).to_string();
        assert!(
            error.contains("CHECK constraint failed") || error.contains("UNIQUE constraint failed"),
            "{sql}: {error}"
        );
    }
    db.execute("UPDATE crawl_candidate SET status = 'processing', processing_lock = 'one', locked_at = 1", ()).unwrap();
}

#[test]
fn unreadable_gate_state_starts_over_without_burst() {
    let (db, now) = (migrated(), Ts::from_secs(1_800_000_000));
    let limits = GateLimits { rate: Rate { per_sec: 1.0, burst: 50.0 }, ..GateLimits::default() };
    let request = GateRequest {
        member: "m".into(),
        now: 5,
        percent: 100,
        deadline: Duration::from_secs(60),
        ..GateRequest::default()
    };
    let question = Tx::from(Arc::new(RequestPermits { key: "k".into(), limits, request }));
    let answer = || match exec::execute(&db, &question, now).unwrap() {
        Done::RequestPermits(answer) => answer,
        other => panic!("{other:?}"),
    };
    assert!(answer().slots[0].at < now, "a new key has its burst");
    db.execute(r#"UPDATE ing_gate SET state = '{"limits":7}'"#, ()).unwrap();
    assert!(answer().slots.iter().all(|slot| slot.at > now));
    assert!(!answer().slots.is_empty(), "it has been written again");
}

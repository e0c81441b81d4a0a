use std::time::Duration;

use patra_testkit::ManualClock;
use rusqlite::StatementStatus;

use super::*;
use crate::{connect, migrate};

const NOW: Ts = Ts::from_secs(1_000_000);

/// A queue of `rows` tasks in five partitions and two priorities. The first partition is full, and the credential of
/// the second is paused.
fn queue(rows: u32) -> Connection {
    let mut db = Connection::open_in_memory().unwrap();
    connect::common(&db).unwrap();
    migrate::run(&mut db, &ManualClock::default()).unwrap();
    db.execute(
        "INSERT INTO ing_task
           (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name,
            operation_code, credential_id, params, expr_hash, idempotent_key, window_from, window_to, status_code,
            priority, scheduled_at, c_max, created_at)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         SELECT 1, 1, 1, 1, 'default', 'p' || (i % 5), 'e', 'HARVEST', nullif(i % 5, 0), '{}', 'h', i, i, i + 1, 'QUEUED',
           100 + (i / 5) % 2, i, 4, 0
         FROM n",
        [rows],
    )
    .unwrap();
    let first: Vec<i64> = (1..=4).map(|at| at * 5).collect();
    for task in first {
        db.prepare_cached(LEASE).unwrap().query_row(params![task, "w", NOW.micros() + 1], |_| Ok(())).unwrap();
    }
    db.execute(
        "INSERT INTO ing_hold (kind_code, subject, credential_id, reason, created_by, created_at)
         VALUES ('BREAK', 'credential=1', 1, 'r', 'b', 0)",
        (),
    )
    .unwrap();
    db
}

fn claim_of(limit: u32) -> ClaimTasks {
    ClaimTasks {
        owner: "w".into(),
        limit,
        lease: Duration::from_secs(1),
        caps: Vec::new(),
        reverse_priority: false,
        only: None,
    }
}

fn provenances(claimed: &ClaimedTasks) -> Vec<&str> {
    claimed.leases.iter().map(|lease| &*lease.provenance_code).collect()
}

#[test]
fn claim_skips_full_and_paused_partitions_and_alternates_the_others() {
    let db = queue(1_000);
    let claimed = claim(&db, &claim_of(5), NOW).unwrap();
    assert_eq!(provenances(&claimed), ["p2", "p3", "p4", "p2", "p3"]);
    let claimed = claim(&db, &claim_of(100), NOW).unwrap();
    assert_eq!(provenances(&claimed), ["p4", "p2", "p3", "p4", "p2", "p3", "p4"]);
    assert_eq!(claim(&db, &claim_of(100), NOW).unwrap().leases, []);
}

/// Steps of SQLite's virtual machine for one claim.
fn steps(rows: u32) -> i32 {
    let db = queue(rows);
    claim(&db, &claim_of(16), NOW).unwrap();
    [NEXT_LANE, HEAD, COUNT_HELD]
        .map(|sql| db.prepare_cached(sql).unwrap().get_status(StatementStatus::VmStep))
        .into_iter()
        .sum()
}

// covers: ING-9.7-01
#[test]
fn long_queue_does_not_raise_the_cost_of_a_claim() {
    assert_eq!(steps(1_000), steps(20_000));
}

#[test]
fn claim_skips_a_task_that_is_paused_alone() {
    let db = queue(1_000);
    db.execute("UPDATE ing_hold SET credential_id = NULL, provenance_code = 'p2', task_id = 2", ()).unwrap();
    let ids = |claimed: ClaimedTasks| claimed.leases.into_iter().map(|lease| lease.task.0).collect::<Vec<_>>();
    // 2 and 12 are the first of `p2` in the first priority.
    assert_eq!(ids(claim(&db, &claim_of(4), NOW).unwrap()), [1, 3, 4, 12]);
}

//! States that no operation leads to, or not within the time of a test. The tests write past the store.

use std::sync::Arc;

use patra_core::Ts;
use patra_core::port::query::{Cell, View};
use patra_core::state::{Operation, PauseKind};
use patra_core::tx::{ADVISORY_TTL, ArchiveLedger, LeaseRef, ResumeWork, RunStarted, StartRun};
use patra_testkit::contract::{Fixture, Subject, make};

use crate::support::{Schema, run};

/// No operation fails a plan that has tasks, so this writes past the store.
// covers: ING-5.5-04
#[tokio::test]
async fn a_task_is_executed_only_while_its_plan_is_ready_or_partial() {
    for (status, goes) in [("READY", true), ("PARTIAL", true), ("FAILED", false), ("CANCELLED", false)] {
        let Some(schema) = Schema::new() else { return };
        let fx = Fixture::new(Subject::untimed(Arc::new(schema.open().await)));
        fx.plan("a", &make::windows(0, 1)).await;
        let lease = fx.next().await;
        let client = schema.client().await;
        client.execute("UPDATE ing_plan SET status_code = $1", &[&status]).await.expect("a status");
        let started = fx.ok(StartRun { lease: LeaseRef::from(&lease) }).await;
        assert_eq!(matches!(started, RunStarted::Go { .. }), goes, "{status}: {started:?}");
        assert_eq!(fx.task_status(&lease).await, if goes { "EXECUTING" } else { "CANCELLED" });
        assert_eq!(fx.rows(View::Runs).await.is_empty(), !goes);
    }
}

/// The contract tests the waiting on a clock that can be moved.
#[tokio::test]
async fn advisory_pause_ends_after_its_time() {
    let Some(schema) = Schema::new() else { return };
    let fx = Fixture::new(Subject::untimed(Arc::new(schema.open().await)));
    fx.fire("waiting").await;
    fx.ok(make::hold(PauseKind::Advisory, make::partition(Operation::Harvest))).await;
    let client = schema.client().await;
    let age = async |secs: f64| {
        let made = "UPDATE ing_hold SET created_at = clock_timestamp() - $1::float8 * interval '1 second'";
        client.execute(made, &[&secs]).await.expect("an age");
    };
    age(ADVISORY_TTL.as_secs_f64() - 60.0).await;
    assert_eq!(fx.take().await, None);
    assert_eq!(fx.rows(View::Holds).await.at(0, "released_by"), Cell::Null);
    age(ADVISORY_TTL.as_secs_f64()).await;
    assert!(fx.take().await.is_some());
    assert_eq!(fx.rows(View::Holds).await.at(0, "released_by"), Cell::Text(ResumeWork::BY_TIME.into()));
}

/// The contract tests the waiting on a clock that can be moved.
// covers: ING-14.11-02
#[tokio::test]
async fn minutes_are_merged_into_quarters_and_hours_and_then_deleted() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    let client = schema.client().await;
    client
        .batch_execute(
            "INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code, shard, batches)
             SELECT date_bin('1 day', now(), to_timestamp(0)) - age * interval '1 day' + n % 120 * interval '1 minute',
               'default', 'p', 'e', 'HARVEST', n / 120, 1
             FROM generate_series(0, 239) n, (VALUES (-1), (1), (3), (200)) AS days (age)
             UNION ALL
             SELECT date_trunc('minute', now()) - interval '30 minutes', 'default', 'p', 'e', 'HARVEST', shard, 1
             FROM generate_series(0, 15) shard;
             INSERT INTO ing_error_minute (minute, project_key, provenance_code, endpoint_name, operation_code, level,
               error_code, shard, errors, message, last_at, task_id, run_id)
             SELECT minute, project_key, provenance_code, endpoint_name, operation_code, 'L1', 'NETWORK_ERROR', shard, 1,
               last_at::text, last_at, 1, 1
             FROM (SELECT *, minute + (16 - shard) * interval '1 second' AS last_at FROM ing_minute) AS counted",
        )
        .await
        .expect("old rows");
    for _ in 0..2 {
        run(&store, ArchiveLedger { before: Ts::from_secs(0), limit: 9 }).await.expect("an archive");
        for (table, column) in [("ing_minute", "batches"), ("ing_error_minute", "errors")] {
            let sql =
                format!("SELECT count(*), sum({column})::bigint FROM {table} WHERE minute < now() - interval '2 days'");
            let row = client.query_one(&sql, &[]).await.expect("a sum");
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 240), "{table}: two hours, nothing lost");
            let sql = format!(
                "SELECT count(*) FILTER (WHERE minute < now()), count(*) FILTER (WHERE minute > now()) FROM {table}"
            );
            let row = client.query_one(&sql, &[]).await.expect("a count");
            assert_eq!(row.get::<_, i64>(0), 2 + 8 + 1, "{table}: eight quarters of yesterday, a minute of today");
            assert_eq!(row.get::<_, i64>(1), 240, "{table}: young rows stay unchanged");
        }
    }
    let last = "SELECT message = last_at::text AND last_at - minute = interval '16 seconds' + CASE
        WHEN minute < now() - interval '2 days' THEN interval '59 minutes'
        WHEN minute < now() - interval '2 hours' THEN interval '14 minutes' ELSE interval '0' END
      FROM ing_error_minute WHERE minute < now()";
    let rows = client.query(last, &[]).await.expect("rows");
    assert_eq!(rows.len(), 11);
    for row in rows {
        assert!(row.get::<_, bool>(0), "where it was met last");
    }
}

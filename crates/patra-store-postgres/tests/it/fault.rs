//! Faults of the server: it disappears, turns read-only, refuses, or does not respond.

use std::time::Duration;

use patra_core::port::Queries;
use patra_core::state::Operation;
use patra_core::tx::{CreateKey, KeyScope, Renew, Sweep, TxError};
use patra_store_postgres::{Options, PostgresStore};
use patra_testkit::contract::make;

use crate::support::{Schema, run};

const END_SESSIONS: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";

// Class 7: silent after a blip until restart.
#[tokio::test]
async fn the_pool_recovers_from_killed_sessions_without_help() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    let client = schema.client().await;
    for round in 0..5 {
        run(&store, make::fire(&format!("before-{round}"), Operation::Harvest)).await.unwrap();
        client.execute(END_SESSIONS, &[&schema.name]).await.unwrap();
        let mut answers = Vec::new();
        for attempt in 0..5 {
            answers.push(run(&store, make::fire(&format!("after-{round}-{attempt}"), Operation::Harvest)).await);
        }
        assert!(
            answers.iter().all(|answer| answer.as_ref().map_or_else(TxError::is_transient, |_| true)),
            "{answers:?}"
        );
        assert!(answers.last().unwrap().is_ok(), "{answers:?}");
    }
}

// Class 8: sockets left on a node that was demoted.
#[tokio::test]
async fn read_only_server_is_unavailable_until_it_is_writable() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    let client = schema.client().await;
    let role = format!("{}_demoted", schema.name);
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET default_transaction_read_only = on"
        ))
        .await
        .unwrap();
    let host = schema.url.split_once('@').unwrap().1;
    let demoted =
        PostgresStore::open(Options { url: format!("postgres://{role}@{host}"), ..schema.options() }).await.unwrap();
    let answer = run(&demoted, make::fire("x", Operation::Harvest)).await;
    assert!(matches!(answer, Err(TxError::Unavailable(_))), "{answer:?}");
    client.batch_execute(&format!("ALTER ROLE {role} RESET default_transaction_read_only")).await.unwrap();
    // The old connection was dropped, so the next one has the new setting, as after a failover.
    run(&demoted, make::fire("x", Operation::Harvest)).await.unwrap();
    drop((demoted, store));
    client.execute(END_SESSIONS, &[&schema.name]).await.unwrap();
    client.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn locked_row_makes_an_operation_busy() {
    let Some(schema) = Schema::new() else { return };
    let store =
        PostgresStore::open(Options { lock_timeout: Duration::from_millis(100), ..schema.options() }).await.unwrap();
    let key = |prefix: &str| CreateKey {
        prefix: prefix.into(),
        hash: "h".into(),
        name: "n".into(),
        scope: KeyScope::Read,
        projects: Vec::new(),
        shared: false,
        only_first: false,
    };
    let mut client = schema.client().await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("LOCK TABLE api_key IN EXCLUSIVE MODE").await.unwrap();
    assert_eq!(run(&store, key("a")).await, Err(TxError::Busy));
    transaction.rollback().await.unwrap();
    assert!(run(&store, key("a")).await.unwrap().created);
}

// Class 10: every call ends, and heartbeats do not wait for a full pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saturated_pool_stops_neither_its_callers_nor_the_heartbeat() {
    let Some(schema) = Schema::new() else { return };
    let options = Options {
        pool_size: 2,
        lock_timeout: Duration::from_secs(60),
        statement_timeout: Duration::from_secs(60),
        deadline: Duration::from_secs(1),
        acquire_timeout: Duration::from_millis(300),
        ..schema.options()
    };
    let store = PostgresStore::open(options).await.unwrap();
    let mut client = schema.client().await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("LOCK TABLE ing_schedule_instance IN EXCLUSIVE MODE").await.unwrap();
    let stuck: Vec<_> = (0..6)
        .map(|no| {
            let store = store.clone();
            tokio::spawn(async move { run(&store, make::fire(&format!("s-{no}"), Operation::Harvest)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let renew = Renew { owner: "w".into(), leases: Vec::new(), lease: make::LONG };
    let renewed = tokio::time::timeout(Duration::from_millis(800), run(&store, renew)).await;
    assert!(renewed.expect("at once").unwrap().held.is_empty());
    for answer in stuck {
        let answer = answer.await.unwrap();
        assert!(matches!(answer, Err(TxError::Unavailable(_))), "{answer:?}");
    }
    transaction.rollback().await.unwrap();
    run(&store, make::fire("after", Operation::Harvest)).await.unwrap();
}

// Class 18: the response to a COMMIT is lost.
#[tokio::test]
async fn session_killed_in_an_autocommit_statement_leaves_the_outcome_unknown() {
    let Some(schema) = Schema::new() else { return };
    // One connection that has prepared the statement, so that it is killed while it executes.
    let store = PostgresStore::open(Options { pool_size: 1, ..schema.options() }).await.unwrap();
    let sweep = Sweep { limit: 1, max_attempts: 5, all_owners: false, longest_lease: Duration::from_secs(60) };
    run(&store, sweep).await.unwrap();
    let mut client = schema.client().await;
    let killer = schema.client().await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("LOCK TABLE ing_task IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let swept = {
        let store = store.clone();
        tokio::spawn(async move { run(&store, sweep).await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    killer.execute(END_SESSIONS, &[&schema.name]).await.unwrap();
    let answer = swept.await.unwrap();
    assert!(matches!(answer, Err(TxError::Unknown(_))), "{answer:?}");
    transaction.rollback().await.unwrap();
    assert!(run(&store, sweep).await.unwrap().requeued.is_empty());
}

#[tokio::test]
async fn what_postgres_cannot_store_is_refused_without_showing_it() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    let nul = run(&store, make::fire("s3cret\0", Operation::Harvest)).await;
    let Err(TxError::Refused(message)) = nul else { panic!("{nul:?}") };
    assert!(message.contains("NUL") && !message.contains("s3cret"), "{message}");
    let nul = store.progress("s3cret\0").await;
    assert!(matches!(nul, Err(TxError::Refused(_))), "{nul:?}");

    let mut broken = make::provenance("h", &[("works", None)]);
    broken.endpoints[0].role = "s3cret".into();
    let answer = run(&store, broken).await;
    let Err(TxError::Refused(message)) = answer else { panic!("{answer:?}") };
    assert!(!message.contains("s3cret"), "{message}");
    // The connection is still usable.
    assert_eq!(store.ping().await, Ok(1));
}

// covers: ING-4.4-06, ING-7.8-05
#[tokio::test]
async fn database_refuses_event_changes_and_backward_cursors() {
    let Some(schema) = Schema::new() else { return };
    let _store = schema.open().await;
    let client = schema.client().await;
    client
        .batch_execute(
            "INSERT INTO ing_cursor (project_key, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code,
               namespace_key, cursor_type_code, direction_code, origin_instant, normalized_instant, created_at, updated_at)
             VALUES ('d', 'p', 'e', 'HARVEST', 'k', 'GLOBAL', '', 'TIME', 'FORWARD', 'epoch', '2026-01-02', now(), now()),
               ('d', 'p', 'e', 'BACKFILL', 'k', 'GLOBAL', '', 'TIME', 'BACKFILL', '2026-01-05', '2026-01-02', now(), now());
             INSERT INTO ing_cursor (project_key, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code,
               namespace_key, cursor_type_code, direction_code, normalized_numeric, created_at, updated_at)
             VALUES ('d', 'p', 'e', 'UPDATE', 'k', 'GLOBAL', '', 'ID', 'FORWARD', 7, now(), now());
             INSERT INTO ing_cursor_event (cursor_id, provenance_code, endpoint_name, operation_code, cursor_key,
               namespace_scope_code, namespace_key, direction_code, new_value, idempotent_key, created_at)
             VALUES (1, 'p', 'e', 'HARVEST', 'k', 'GLOBAL', '', 'FORWARD', 'x', 'i', now())",
        )
        .await
        .unwrap();
    let onward = [
        "UPDATE ing_cursor SET normalized_instant = '2026-01-03' WHERE id = 1",
        "UPDATE ing_cursor SET normalized_instant = '2026-01-01' WHERE id = 2",
        "UPDATE ing_cursor SET normalized_numeric = 8 WHERE id = 3",
    ];
    for sql in onward {
        client.batch_execute(sql).await.unwrap();
    }
    let back = [
        "UPDATE ing_cursor SET normalized_instant = '2026-01-02' WHERE id = 1",
        "UPDATE ing_cursor SET normalized_instant = NULL, cursor_value = NULL WHERE id = 1",
        "UPDATE ing_cursor SET direction_code = 'BACKFILL' WHERE id = 1",
        "UPDATE ing_cursor SET normalized_instant = '2026-01-02' WHERE id = 2",
        "UPDATE ing_cursor SET normalized_numeric = 7 WHERE id = 3",
    ];
    for sql in back {
        let error = client.batch_execute(sql).await.expect_err(sql);
        assert_eq!(error.as_db_error().unwrap().message(), "ing_cursor only moves onward", "{sql}");
    }
    for sql in ["UPDATE ing_cursor_event SET new_value = 'y'", "DELETE FROM ing_cursor_event"] {
        let error = client.batch_execute(sql).await.expect_err(sql);
        assert_eq!(error.as_db_error().unwrap().message(), "ing_cursor_event is append-only", "{sql}");
    }
}

//! Operations of many tasks are committed together, and one that fails affects no other. Each test has one thread: all
//! operations are submitted before the first of them is sent.

use std::sync::Arc;

use futures_util::future::join_all;
use patra_core::port::query::View;
use patra_core::port::{Commands as _, Queries as _};
use patra_core::tx::{Done, Lease, LeaseRef, RunEnd, RunStarted, StartRun, Tx, TxError};
use patra_core::{RunId, TaskId};
use patra_store_postgres::PostgresStore;
use patra_testkit::contract::{Fixture, Subject, make};

use crate::support::Schema;

/// Claimed tasks.
async fn leases(store: &PostgresStore, tasks: i64) -> (Fixture, Vec<Lease>) {
    let fx = Fixture::new(Subject::untimed(Arc::new(store.clone())));
    fx.plan("a", &make::windows(0, tasks)).await;
    let leases = fx.claim(tasks as u32).await;
    assert_eq!(leases.len() as i64, tasks);
    (fx, leases)
}

async fn at_once(store: &PostgresStore, asked: impl IntoIterator<Item = Tx>) -> Vec<Result<Done, TxError>> {
    join_all(asked.into_iter().map(|tx| store.execute(tx))).await
}

fn start(lease: &Lease) -> Tx {
    StartRun { lease: LeaseRef::from(lease) }.into()
}

async fn start_all(store: &PostgresStore, leases: &[Lease]) -> Vec<RunId> {
    let started = at_once(store, leases.iter().map(start)).await;
    let run = |answer| match answer {
        Ok(Done::StartRun(RunStarted::Go { run, .. })) => run,
        answer => panic!("{answer:?}"),
    };
    started.into_iter().map(run).collect()
}

#[tokio::test]
async fn concurrent_operations_share_a_transaction() {
    let Some(schema) = Schema::new() else { return };
    let (store, client) = (schema.open().await, schema.client().await);
    let (_, leases) = leases(&store, 20).await;
    let transactions = async |table: &str| {
        let sql = format!("SELECT count(DISTINCT xmin::text), count(*) FROM {table}");
        let row = client.query_one(&sql, &[]).await.expect("a count");
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    let runs = start_all(&store, &leases).await;
    assert_eq!(transactions("ing_task_run").await, (1, 20));
    let page = |(at, (lease, run)): (usize, (&Lease, &RunId))| {
        Tx::from(Arc::new(make::page(lease, *run, 1, vec![make::record(&at.to_string(), 1)], false)))
    };
    let stored = at_once(&store, leases.iter().zip(&runs).enumerate().map(page)).await;
    assert!(stored.iter().all(Result::is_ok), "{stored:?}");
    assert_eq!(transactions("item").await, (1, 20));
    assert_eq!(transactions("ing_task_run_batch").await, (1, 20));
    let ends = leases.iter().zip(&runs).map(|(lease, run)| Arc::new(make::end(lease, *run, RunEnd::Succeeded)).into());
    let ended = at_once(&store, ends).await;
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(transactions("ing_task").await, (1, 20));
    // The counters of the boards include each of them.
    let counted =
        client.query_one("SELECT sum(picks)::int, sum(batches)::int, sum(succeeded)::int FROM ing_minute", &[]);
    let counted = counted.await.expect("sums");
    assert_eq!([0, 1, 2].map(|at| counted.get::<_, i32>(at)), [20; 3]);
}

#[tokio::test]
async fn invalid_operation_fails_alone() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    let (fx, leases) = leases(&store, 6).await;
    let runs = start_all(&store, &leases).await;
    let mut pages = Vec::new();
    for (at, (lease, run)) in leases.iter().zip(&runs).enumerate() {
        let mut record = make::record(&at.to_string(), 1);
        if at == 3 {
            record.payload = "a NUL: \0".into();
        }
        pages.push(Tx::from(Arc::new(make::page(lease, *run, 1, vec![record], false))));
    }
    for (at, answer) in at_once(&store, pages).await.into_iter().enumerate() {
        assert_eq!(answer.is_ok(), at != 3, "page {at}: {answer:?}");
        assert!(at != 3 || matches!(&answer, Err(TxError::Refused(reason)) if reason.contains("NUL")), "{answer:?}");
    }
    assert_eq!((fx.rows(View::Batches).await.len(), fx.rows(View::Items).await.len()), (5, 5));
}

// covers: ING-5.5-04
#[tokio::test]
async fn start_with_a_failed_slice_cancels_only_its_task() {
    let Some(schema) = Schema::new() else { return };
    let (store, client) = (schema.open().await, schema.client().await);
    let (fx, leases) = leases(&store, 4).await;
    let slice = leases[2].lineage.slice.0;
    client.execute("UPDATE ing_plan_slice SET status_code = 'FAILED' WHERE id = $1", &[&slice]).await.expect("a slice");
    let started = at_once(&store, leases.iter().map(start)).await;
    for (at, answer) in started.into_iter().enumerate() {
        let Ok(Done::StartRun(started)) = answer else { panic!("task {at}: {answer:?}") };
        assert_eq!(started == RunStarted::Cancelled, at == 2, "task {at}: {started:?}");
        let TaskId(task) = leases[at].task;
        let expected = if at == 2 { "CANCELLED" } else { "EXECUTING" };
        assert_eq!(fx.rows(View::Tasks).await.text_of(task, "status_code"), expected);
    }
    assert_eq!(fx.rows(View::Runs).await.len(), 3);
    assert_eq!(store.ping().await, Ok(1));
}

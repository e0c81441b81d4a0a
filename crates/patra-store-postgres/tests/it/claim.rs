//! Concurrent claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::state::Operation;
use patra_core::tx::{ClaimTasks, Lease, ReadCoverage, RequestJob, SavePlan};
use patra_store_postgres::PostgresStore;
use patra_testkit::contract::make;

use crate::support::{Schema, run};

fn claim(no: usize, limit: u32) -> ClaimTasks {
    ClaimTasks { owner: format!("worker-{no}"), ..make::claim(limit, make::LONG) }
}

/// Plans so many tasks in a partition of their own.
async fn plan(store: &PostgresStore, endpoint: &str, tasks: i64, c_max: u32) {
    let fire = RequestJob { endpoint_name: endpoint.into(), ..make::fire(endpoint, Operation::Harvest) };
    run(store, fire).await.unwrap();
    let taken = run(store, make::take(make::LONG)).await.unwrap().unwrap();
    let epoch = run(store, ReadCoverage { cursor: make::namespace_of(&taken) }).await.unwrap().epoch;
    let plan = SavePlan { c_max, ..make::plan(&taken, epoch, &make::windows(0, tasks)) };
    let saved = run(store, Arc::new(plan)).await.unwrap();
    assert_eq!((saved.created, saved.existing), (tasks as u32, 0));
}

/// Runs `count` claimers at once, each until nothing is left, and returns what each got.
async fn claim_all(store: &PostgresStore, count: usize, limit: u32) -> Vec<Vec<Lease>> {
    let claimers: Vec<_> = (0..count)
        .map(|no| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let claimed = run(&store, claim(no, limit)).await.unwrap();
                    if claimed.leases.is_empty() {
                        return mine;
                    }
                    assert!(claimed.leases.iter().all(|lease| lease.until == claimed.now + make::LONG));
                    mine.extend(claimed.leases);
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for claimer in claimers {
        all.push(claimer.await.unwrap());
    }
    all
}

// covers: class 1, at most one live lease
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_claimers_never_share_a_task_and_leave_none() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    plan(&store, make::ENDPOINT, 2_000, make::C_MAX).await;
    let (mut all, mut count) = (BTreeSet::new(), 0);
    for mine in claim_all(&store, 8, 7).await {
        let mine: Vec<_> = mine.iter().map(|lease| lease.task).collect();
        assert!(mine.is_sorted(), "each in queue order");
        count += mine.len();
        all.extend(mine);
    }
    assert_eq!((count, all.len()), (2_000, 2_000));
}

// covers: ING-9.7-01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_claims_respect_the_cap_of_a_partition() {
    const COUNT_HELD: &str = "
        SELECT endpoint_name, count(*) FROM ing_task WHERE status_code = 'DISPATCHED' GROUP BY endpoint_name ORDER BY 1";
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    for (endpoint, c_max) in [("one", 1), ("three", 3), ("nine", 9)] {
        plan(&store, endpoint, 150, c_max).await;
    }
    let client = schema.client().await;
    for round in 1..=10 {
        let claimed: usize = claim_all(&store, 8, 4).await.iter().map(Vec::len).sum();
        assert_eq!(claimed, 13, "round {round}");
        let rows = client.query(COUNT_HELD, &[]).await.unwrap();
        let held: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(held, [("nine".into(), 9), ("one".into(), 1), ("three".into(), 3)], "round {round}");
        let end = "UPDATE ing_task SET status_code = 'FAILED', lease_owner = NULL, leased_until = NULL
                   WHERE status_code = 'DISPATCHED'";
        client.batch_execute(end).await.unwrap();
    }
}

#[tokio::test]
async fn claim_skips_partitions_locked_by_another_claim() {
    const LOCK: &str = "
        SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' demo busy HARVEST', 0))";
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    plan(&store, "busy", 5, 5).await;
    plan(&store, "free", 5, 5).await;
    let mut rival = schema.client().await;
    let claiming = rival.transaction().await.unwrap();
    claiming.query_one(LOCK, &[]).await.unwrap();
    let claimed = run(&store, claim(0, 4)).await.unwrap().leases;
    assert!(!claimed.is_empty() && claimed.iter().all(|lease| lease.endpoint_name == "free"), "{claimed:?}");
    claiming.rollback().await.unwrap();
    assert_eq!(claimed.len() + run(&store, claim(0, 10)).await.unwrap().leases.len(), 10);
}

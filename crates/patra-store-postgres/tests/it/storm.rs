//! Callers that are dropped in the middle (class 9, D3).

use std::time::Duration;

use patra_core::port::Queries;
use patra_core::port::query::{View, ViewFilter};
use patra_core::state::Operation;
use patra_testkit::contract::make;

use crate::support::{Schema, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_futures_leave_no_transaction_and_lose_no_acknowledged_row() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    let callers: Vec<_> = (0..8u64)
        .map(|no| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut acked = Vec::new();
                for round in 0..63 {
                    let name = format!("storm-{no}-{round}");
                    // However fast the machine is, one caller always waits for the answer and one never does.
                    let patience = match no {
                        0 => Duration::ZERO,
                        7 => Duration::from_secs(60),
                        _ => Duration::from_micros((no * 9_700 + round * 1_310) % 30_000),
                    };
                    let fire = run(&store, make::fire(&name, Operation::Harvest));
                    if let Ok(answer) = tokio::time::timeout(patience, fire).await {
                        answer.expect("a pool that is only shared, not broken");
                        acked.push(name);
                    }
                }
                acked
            })
        })
        .collect();
    let mut acked = Vec::new();
    for caller in callers {
        acked.extend(caller.await.unwrap());
    }
    assert!(!acked.is_empty() && acked.len() < 504, "{} of 504 were acknowledged: no storm", acked.len());
    settle(&schema).await;
    for name in &acked {
        assert!(store.progress(name).await.unwrap().is_some(), "{name} was acknowledged");
    }
    // The pool is intact: it runs more operations at once than it has connections.
    let again: Vec<_> = (0..40)
        .map(|no| {
            let store = store.clone();
            tokio::spawn(async move { run(&store, make::fire(&format!("after-{no}"), Operation::Harvest)).await })
        })
        .collect();
    for answer in again {
        answer.await.unwrap().unwrap();
    }
    assert_eq!(store.list(View::Jobs, ViewFilter { limit: 500, ..ViewFilter::default() }).await.unwrap().len(), 500);
}

/// Waits until dropped operations have run to their end; then no session may be inside a transaction.
async fn settle(schema: &Schema) {
    let client = schema.client().await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state <> 'idle'";
    for _ in 0..100 {
        let row = client.query_one(open, &[&schema.name]).await.expect("a count");
        if row.get::<_, i64>(0) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("sessions are still in a transaction");
}

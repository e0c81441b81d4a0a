//! Many claim at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::state::Operation;
use patra_core::tx::{Claim, ReadCoverage};
use patra_testkit::contract::make;

use crate::support::{Schema, run};

// covers: class 1, at most one live lease
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_claimers_never_share_a_task_and_leave_none() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    run(&store, make::fire("many", Operation::Harvest)).await.unwrap();
    let taken = run(&store, make::take(make::LONG)).await.unwrap().unwrap();
    let epoch = run(&store, ReadCoverage { cursor: make::namespace(Operation::Harvest, "ns") }).await.unwrap().epoch;
    let saved = run(&store, Arc::new(make::plan(&taken, epoch, &make::windows(0, 2_000)))).await.unwrap();
    assert_eq!((saved.created, saved.existing), (2_000, 0));

    let claimers: Vec<_> = (0..8)
        .map(|no| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let claim = Claim { owner: format!("worker-{no}"), limit: 7, lease: make::LONG };
                    let claimed = run(&store, claim).await.unwrap();
                    if claimed.leases.is_empty() {
                        return mine;
                    }
                    assert!(claimed.leases.iter().all(|lease| lease.until == claimed.now + make::LONG));
                    mine.extend(claimed.leases.iter().map(|lease| lease.task));
                }
            })
        })
        .collect();
    let (mut all, mut count) = (BTreeSet::new(), 0);
    for claimer in claimers {
        let mine = claimer.await.unwrap();
        assert!(mine.is_sorted(), "each in queue order");
        count += mine.len();
        all.extend(mine);
    }
    assert_eq!((count, all.len()), (2_000, 2_000));
}

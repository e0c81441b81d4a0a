use std::sync::Arc;
use patra_core::state::Operation;
use patra_core::tx::*;
use patra_testkit::contract::make;
use crate::support::{Schema, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    run(&store, make::fire("many", Operation::Harvest)).await.unwrap();
    let taken = run(&store, TakeTrigger { owner: "planner".into(), lease: make::LONG }).await.unwrap().unwrap();
    let t0 = tokio::time::Instant::now();
    run(&store, Arc::new(make::plan(&taken, 0, &make::windows(0, 4000)))).await.unwrap();
    eprintln!("plan 4000: {:?}", t0.elapsed());
    let claimed = run(&store, Claim { owner: "w".into(), limit: 8, lease: make::LONG }).await.unwrap();
    for (size, writers) in [(100usize, 1usize), (1000, 1), (100, 4), (1000, 4)] {
        let t0 = tokio::time::Instant::now();
        let pages = 20_000 / size / writers;
        let mut hs = vec![];
        for w in 0..writers {
            let lease = claimed.leases[w].clone();
            let store = store.clone();
            hs.push(tokio::spawn(async move {
                let RunStarted::Go { run: r, .. } = run(&store, StartRun { lease: LeaseRef::from(&lease) }).await.unwrap() else { panic!() };
                for p in 0..pages {
                    let recs: Vec<_> = (0..size).map(|i| { let mut x = make::record(&format!("{writers}-{size}-{w}-{p:05}-{i:05}"), 1); x.payload = format!(r#"{{"t":"{}"}}"#, "x".repeat(1000)).into(); x }).collect();
                    let mut page = make::page(&lease, r, (writers*100000 + size*100 + p + 1) as u32, recs, true);
                    page.idempotent_key = format!("{writers}-{size}-{w}-{p}");
                    let c = run(&store, Arc::new(page)).await.unwrap();
                    assert_eq!(c.stats.inserted as usize, size);
                }
            }));
        }
        for h in hs { h.await.unwrap(); }
        let e = t0.elapsed();
        eprintln!("size {size} writers {writers}: {:.0} items/s, {:?}/page", 20_000.0 / e.as_secs_f64(), e / (pages as u32));
    }
}

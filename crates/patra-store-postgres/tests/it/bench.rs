//! Duration of the two central operations. Not tests: they print figures. Run them alone, with `cargo test -p
//! patra-store-postgres --release -- --ignored --nocapture bench`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use patra_core::state::Operation;
use patra_core::tx::{ClaimTasks, ReadCoverage, RunEnd, RunStarted, StartRun};
use patra_store_postgres::{Options, PostgresStore};
use patra_testkit::contract::make;

use crate::support::{Schema, run};

/// Reads a number from the environment.
pub(crate) fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[expect(clippy::print_stdout, reason = "figures are what it is for")]
pub(crate) fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1_000.0;
    println!("{what}: n = {}, p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms", times.len(), at(50), at(95), at(99));
}

/// So many QUEUED tasks over so many partitions, as one plan with one slice.
fn fill(tasks: usize, partitions: usize) -> String {
    format!(
        "INSERT INTO ing_plan (schedule_instance_id, cursor_id, project_key, provenance_code, endpoint_name,
           operation_code, plan_strategy, expr_proto_hash, spec_fingerprint, status_code, created_at)
         VALUES (1, 1, 'default', 'p', 'e', 'HARVEST', 'TIME', 'h', 'h', 'READY', now());
         INSERT INTO ing_plan_slice (plan_id, provenance_code, endpoint_name, slice_spec, slice_signature_hash, expr_hash,
           expr_snapshot, status_code, created_at)
         VALUES (1, 'p', 'e', '{{}}', 's', 'h', '{{}}', 'READY', now());
         INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code,
           endpoint_name, operation_code, params, expr_hash, idempotent_key, window_from, window_to, status_code, priority,
           scheduled_at, created_at, c_max)
         SELECT 1, 1, 1, n % {partitions}, 'default', 'source-' || n % {partitions} / 5, 'endpoint-' || n % 5, 'HARVEST',
           '{{}}', repeat('h', 67), repeat('k', 60) || n, 'epoch', now(), 'QUEUED', 100,
           now() - random() * interval '1 day', now(), 8
         FROM generate_series(1, {tasks}) n;
         VACUUM ANALYZE ing_task"
    )
}

// PATRA_BENCH_TASKS, PATRA_BENCH_PARTITIONS, PATRA_BENCH_EXECUTORS and PATRA_BENCH_CLAIMS (of each) change the scene.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn bench_claims_by_several_executors_in_a_long_queue() {
    let Some(schema) = Schema::new() else { return };
    let (tasks, partitions) = (setting("PATRA_BENCH_TASKS", 1_000_000), setting("PATRA_BENCH_PARTITIONS", 500));
    let (executors, claims) = (setting("PATRA_BENCH_EXECUTORS", 4), setting("PATRA_BENCH_CLAIMS", 100));
    let patient = Duration::from_secs(600);
    let options = Options { statement_timeout: patient, deadline: patient, pool_size: executors, ..schema.options() };
    let store = PostgresStore::open(options).await.unwrap();
    let client = schema.client().await;
    for statement in fill(tasks, partitions).split(';') {
        client.batch_execute(statement).await.unwrap();
    }
    let working: Vec<_> = (0..executors)
        .map(|no| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for _ in 0..claims {
                    let claim = ClaimTasks { owner: format!("worker-{no}"), ..make::claim(16, make::LONG) };
                    let started = Instant::now();
                    let claimed = run(&store, claim).await.unwrap();
                    times.push(started.elapsed());
                    assert!(!claimed.leases.is_empty());
                    for lease in &claimed.leases {
                        let RunStarted::Go { run: id, .. } =
                            run(&store, StartRun { lease: lease.into() }).await.unwrap()
                        else {
                            panic!("cancelled")
                        };
                        run(&store, Arc::new(make::end(lease, id, RunEnd::Succeeded))).await.unwrap();
                    }
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for executor in working {
        times.extend(executor.await.unwrap());
    }
    report(&format!("{executors} executors, {tasks} tasks queued in {partitions} partitions, claims of 16"), times);
}

// PATRA_BENCH_PAGES and PATRA_BENCH_RECORDS (of each) change the scene.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn bench_commits_of_plain_pages() {
    let Some(schema) = Schema::new() else { return };
    let (pages, records) = (setting("PATRA_BENCH_PAGES", 1_000), setting("PATRA_BENCH_RECORDS", 100));
    let store = schema.open().await;
    run(&store, make::fire("bench", Operation::Harvest)).await.unwrap();
    let taken = run(&store, make::take(make::LONG)).await.unwrap().unwrap();
    let epoch = run(&store, ReadCoverage { cursor: make::namespace_of(&taken) }).await.unwrap().epoch;
    run(&store, Arc::new(make::plan(&taken, epoch, &make::windows(0, 1)))).await.unwrap();
    let claimed = run(&store, make::claim(1, make::LONG)).await.unwrap();
    let lease = &claimed.leases[0];
    let RunStarted::Go { run: id, .. } = run(&store, StartRun { lease: lease.into() }).await.unwrap() else {
        panic!("cancelled")
    };
    let mut times = Vec::new();
    for no in 1..=pages {
        let keys = (0..records).map(|key| make::record(&format!("{no:06}-{key:04}"), 1_000));
        let page = Arc::new(make::page(lease, id, no as u32, keys.collect(), true));
        let started = Instant::now();
        let done = run(&store, page).await.unwrap();
        times.push(started.elapsed());
        assert_eq!(done.stats.inserted as usize, records);
    }
    report(&format!("commits of {records} new records"), times);
}

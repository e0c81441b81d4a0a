//! Time that boards take over a long history during a harvest at full speed, and what they cost the harvest
//! (ING-DOD-22). Not a test: it prints figures. Run it alone, with `cargo test -p patra-store-postgres --release --
//! --ignored --nocapture board`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on has nothing to say")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use patra_core::port::BoardQueries as _;
use patra_core::port::board::{CursorFilter, WorkFilter};
use patra_core::state::Operation;
use patra_core::tx::{ClaimTasks, Lease, ReadCoverage, RunStarted, StartRun};
use patra_core::{RunId, Window};
use patra_store_postgres::{Options, PostgresStore};
use patra_testkit::contract::make;

use crate::bench::{report, setting};
use crate::support::{Schema, run};

const DAY: Duration = Duration::from_secs(86_400);
const HARVESTERS: i64 = 4;

/// Ninety days of work of fifty endpoints, rolled up as the store does: three hours by the minute (the hour that
/// retention has not merged yet with its shards), two days by the quarter of an hour, the rest by the hour.
fn history(batches: usize, tasks: usize) -> String {
    format!(
        "ALTER TABLE ing_task_run_batch DISABLE TRIGGER USER;
         INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name,
           operation_code, params, expr_hash, idempotent_key, window_from, window_to, status_code, priority, scheduled_at,
           created_at, finished_at, c_max)
         SELECT 1, n / 100, n, n % 50, 'default', 'source-' || n % 50 / 5, 'endpoint-' || n % 5, 'BACKFILL', '{{}}',
           repeat('h', 67), repeat('k', 60) || n, 'epoch', now(), CASE WHEN n % 20 = 0 THEN 'QUEUED' ELSE 'SUCCEEDED' END, 100,
           now() - random() * interval '1 day', now(), now(), 8
         FROM generate_series(1, {tasks}) n;
         INSERT INTO ing_task_run_batch (run_id, task_id, slice_id, plan_id, schedule_instance_id, provenance_code,
           endpoint_name, expr_hash, batch_no, position, status_code, has_next, latency_ms, inserted, updated, skipped, failed,
           retries, throttled, stats, request_digest, response_digest, idempotent_key, created_at)
         SELECT -n / 10, n / 10, n / 10, n / 1000, 1, 'source-' || n / 10 % 50 / 5, 'endpoint-' || n / 10 % 5, repeat('h', 67),
           1 + n % 10, '{{}}', 'SUCCEEDED', 1, 7, 100, 0, 0, 0, 0, 0, '{{\"http\":{{\"status\":200,\"bytes\":1}}}}', '{{}}', '{{}}',
           repeat('k', 60) || n, now() - n * interval '0.7 second'
         FROM generate_series(1, {batches}) n;
         ALTER TABLE ing_task_run_batch ENABLE TRIGGER USER;
         INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code, shard, picks, batches,
           latency_ms, inserted)
         SELECT date_trunc('minute', now()) - n * interval '1 minute', 'default', 'source-' || e / 5, 'endpoint-' || e % 5,
           'BACKFILL', s, 2, 20, 140, 2000
         FROM generate_series(0, 179) n, generate_series(0, 49) e, generate_series(0, 3) s
         WHERE n < 60 OR s = 0
         UNION ALL
         SELECT date_bin('15 minutes', now(), to_timestamp(0)) - n * interval '15 minutes', 'default', 'source-' || e / 5,
           'endpoint-' || e % 5, 'BACKFILL', 15, 120, 1200, 8400, 120000
         FROM generate_series(13, 192) n, generate_series(0, 49) e
         UNION ALL
         SELECT date_trunc('hour', now()) - n * interval '1 hour', 'default', 'source-' || e / 5, 'endpoint-' || e % 5,
           'BACKFILL', 15, 120, 1200, 8400, 120000
         FROM generate_series(50, 2160) n, generate_series(0, 49) e;
         INSERT INTO ing_error_minute (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code,
           shard, errors, message, last_at, task_id, run_id)
         SELECT date_trunc('minute', now()) - n * interval '1 minute', 'default', 'source-' || e / 5, 'endpoint-' || e % 5,
           'BACKFILL', 'L' || 1 + e % 4, 'NETWORK_ERROR', 0, 3, 'no answer', now(), 1, 1
         FROM (
           SELECT generate_series(0, 179) UNION ALL SELECT 15 * generate_series(13, 192)
         ) AS ages (n), generate_series(0, 49) e;
         INSERT INTO ing_cursor (project_key, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code,
           namespace_key, cursor_type_code, direction_code, origin_instant, normalized_instant, created_at, updated_at)
         SELECT 'default', 'source-' || n % 10, 'endpoint-0', 'HARVEST', 'updated_at', 'CUSTOM', n, 'TIME', 'FORWARD', 'epoch',
           now() - n * interval '1 second', now(), now()
         FROM generate_series(1, 10000) n;
         VACUUM ANALYZE"
    )
}

/// Commits pages until `stop` is set, and counts them.
async fn harvest(store: PostgresStore, lease: Lease, id: RunId, commits: Arc<AtomicU32>, stop: Arc<AtomicBool>) {
    for no in 1.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let records = (0..100).map(|key| make::record(&format!("{id}-{no:06}-{key:04}"), 1_000));
        run(&store, Arc::new(make::page(&lease, id, no, records.collect(), true))).await.unwrap();
        commits.fetch_add(1, Ordering::Relaxed);
    }
}

async fn lease_tasks(store: &PostgresStore) -> Vec<(Lease, RunId)> {
    run(store, make::fire("bench", Operation::Harvest)).await.unwrap();
    let taken = run(store, make::take(make::LONG)).await.unwrap().unwrap();
    let epoch = run(store, ReadCoverage { cursor: make::namespace_of(&taken) }).await.unwrap().epoch;
    run(store, Arc::new(make::plan(&taken, epoch, &make::windows(0, HARVESTERS)))).await.unwrap();
    let claim = ClaimTasks { owner: "bench".into(), ..make::claim(HARVESTERS as u32, make::LONG) };
    let mut leased = Vec::new();
    for lease in run(store, claim).await.unwrap().leases {
        let RunStarted::Go { run: id, .. } = run(store, StartRun { lease: (&lease).into() }).await.unwrap() else {
            panic!("cancelled")
        };
        leased.push((lease, id));
    }
    leased
}

// PATRA_BENCH_BATCHES, PATRA_BENCH_TASKS and PATRA_BENCH_SECS (of each half) change the scene.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn bench_board_queries_during_a_harvest() {
    let Some(schema) = Schema::new() else { return };
    let (batches, tasks) = (setting("PATRA_BENCH_BATCHES", 10_000_000), setting("PATRA_BENCH_TASKS", 1_000_000));
    let half = Duration::from_secs(setting("PATRA_BENCH_SECS", 20) as u64);
    let patient = Duration::from_secs(3_600);
    let store = PostgresStore::open(Options { statement_timeout: patient, deadline: patient, ..schema.options() })
        .await
        .unwrap();
    let leased = lease_tasks(&store).await;
    let client = schema.client().await;
    for statement in history(batches, tasks).split(';') {
        client.batch_execute(statement).await.unwrap();
    }
    let (commits, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let harvesters: Vec<_> = leased
        .into_iter()
        .map(|(lease, id)| tokio::spawn(harvest(store.clone(), lease, id, Arc::clone(&commits), Arc::clone(&stop))))
        .collect();
    tokio::time::sleep(half).await;
    let alone = commits.swap(0, Ordering::Relaxed);
    let began = Instant::now();
    let mut times: [Vec<Duration>; 6] = Default::default();
    while began.elapsed() < half {
        let (_, now) = timed(&mut times[0], store.queued(WorkFilter::default())).await;
        let window = |span: Duration| Window { from: now - span, to: now + Duration::from_secs(60) };
        timed(&mut times[1], store.counts(WorkFilter::default(), window(DAY / 24))).await;
        timed(&mut times[2], store.series(WorkFilter::default(), window(DAY), 15)).await;
        timed(&mut times[3], store.errors(WorkFilter::default(), None, window(DAY), 20)).await;
        timed(&mut times[4], store.watermarks(CursorFilter { limit: 20, ..CursorFilter::default() })).await;
        timed(&mut times[5], store.statuses(RunId(-1_000))).await;
        // Ten boards, each refreshed every five seconds.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let with_boards = commits.load(Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    for harvester in harvesters {
        harvester.await.unwrap();
    }
    for (board, times) in
        ["queue", "counts, 1 h", "series, 24 h", "errors, 24 h", "cursors", "statuses"].iter().zip(times)
    {
        report(&format!("{batches} batches, {tasks} tasks, harvesting: {board}"), times);
    }
    println!("commits in {half:?}: {alone} alone, {with_boards} with boards");
}

async fn timed<T, E: std::fmt::Debug>(times: &mut Vec<Duration>, question: impl Future<Output = Result<T, E>>) -> T {
    let began = Instant::now();
    let answer = question.await.unwrap();
    times.push(began.elapsed());
    answer
}

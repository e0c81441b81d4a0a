//! Duration of reading a page of the URL pool, and the cost of adding to it. Not tests: they print figures. See
//! [`crate::bench`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use patra_core::port::PoolQueries as _;
use patra_core::port::pool::UrlFilter;
use patra_core::project::{Library, LibraryScope};
use patra_core::tx::{AddUrls, FoundUrl, UrlSource};
use patra_store_postgres::{Options, PostgresStore};

use crate::bench::{report, setting};
use crate::support::{Schema, run};

/// So many URLs spread over so many projects, and so many shared ones, of which every project has a tenth.
fn fill(urls: usize, projects: usize, shared: usize) -> String {
    let (own, covered) = (urls / projects, shared / 10);
    format!(
        "INSERT INTO resource_pool_urls (url, domain, source, source_ref, scope, project_key, created_at)
         SELECT 'https://www.example-' || n % 5000 || '.com/articles/2026/' || md5(n::text), 'example-' || n % 5000 || '.com',
           'document', '{{\"document_id\": 1}}', 'shared', '', timestamptz '2026-01-01' + n * interval '10 seconds'
         FROM generate_series(0, {shared} - 1) n;
         INSERT INTO resource_pool_urls (url, domain, source, source_ref, scope, project_key, created_at)
         SELECT 'https://www.example-' || k % 5000 || '.com/articles/2026/' || md5(k::text), 'example-' || k % 5000 || '.com',
           CASE WHEN n % 3 = 0 THEN 'task' ELSE 'document' END, '{{\"document_id\": 1}}', 'project', 'p' || n % {projects},
           timestamptz '2026-01-01' + n * interval '1 second'
         FROM generate_series(0, {urls} - 1) n
         CROSS JOIN LATERAL (
           SELECT CASE WHEN n / {projects} < {covered} THEN n / {projects} * 10 + n % {projects} % 10
             ELSE {shared} + n END AS k) AS picked;
         INSERT INTO resource_pool_count (scope, project_key, shard, urls, covered)
         SELECT 'project', 'p' || p, s, {own} / 16, {covered} / 16
         FROM generate_series(0, {projects} - 1) p, generate_series(0, 15) s
         UNION ALL SELECT 'shared', '', s, {shared} / 16, 0 FROM generate_series(0, 15) s;
         VACUUM ANALYZE resource_pool_urls;
         VACUUM ANALYZE resource_pool_count"
    )
}

// PATRA_BENCH_URLS, PATRA_BENCH_PROJECTS, PATRA_BENCH_SHARED and PATRA_BENCH_READS (of each kind) change the scene.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn bench_pages_of_a_large_pool() {
    let Some(schema) = Schema::new() else { return };
    let (urls, projects) = (setting("PATRA_BENCH_URLS", 5_000_000), setting("PATRA_BENCH_PROJECTS", 50));
    let (shared, reads) = (setting("PATRA_BENCH_SHARED", 500_000), setting("PATRA_BENCH_READS", 300));
    let patient = Duration::from_secs(600);
    let options = Options { statement_timeout: patient, deadline: patient, ..schema.options() };
    let store = PostgresStore::open(options).await.unwrap();
    let client = schema.client().await;
    for statement in fill(urls, projects, shared).split(';') {
        client.batch_execute(statement).await.unwrap();
    }
    let page = |at: usize, offset: u64, limit: u32| UrlFilter {
        project_key: format!("p{}", at * 7 % projects),
        scope: LibraryScope::Effective,
        offset,
        limit,
        ..UrlFilter::default()
    };
    let scene = format!("{urls} URLs of {projects} projects, {shared} shared");
    for (what, offset, limit) in [
        ("page 1 of 20", 0, 20),
        ("page 100 of 20", 1_980, 20),
        ("page 1 of 100", 0, 100),
        ("page 100 of 100", 9_900, 100),
    ] {
        let mut times = Vec::new();
        for at in 0..reads {
            let started = Instant::now();
            let got = store.pool_urls(page(at, offset, limit)).await.unwrap();
            times.push(started.elapsed());
            assert_eq!(got.items.len(), limit as usize);
            assert!(got.total > urls as u64 / projects as u64);
        }
        report(&format!("{scene}: {what}, effective"), times);
    }
    let filters = [("source", Some(UrlSource::Task), None), ("domain", None, Some("example-77".to_owned()))];
    for (what, source, domain) in filters {
        let mut times = Vec::new();
        for at in 0..reads.div_ceil(10) {
            let started = Instant::now();
            let filter = UrlFilter { source, domain: domain.clone(), ..page(at, 0, 20) };
            assert_eq!(store.pool_urls(filter).await.unwrap().items.len(), 20);
            times.push(started.elapsed());
        }
        report(&format!("{scene}: page 1 of 20, effective, by {what}"), times);
    }
    for (what, library) in [("a project", Library::Project), ("the shared library", Library::Shared)] {
        let mut times = Vec::new();
        for round in 0..reads.div_ceil(10) {
            let found = (0..1_000).map(|at| FoundUrl {
                url: format!("https://www.example-{}.com/{what}/{round}/{at}", at * 7_919 % 5_000),
                domain: format!("example-{}.com", at * 7_919 % 5_000),
                source_ref: "{}".into(),
            });
            let project_key = if library == Library::Shared { String::new() } else { "p1".into() };
            let add = AddUrls { library, project_key, source: UrlSource::Task, urls: found.collect() };
            let started = Instant::now();
            assert_eq!(run(&store, Arc::new(add)).await.unwrap().new, 1_000);
            times.push(started.elapsed());
        }
        report(&format!("{scene}: 1,000 new URLs for {what}"), times);
    }
}

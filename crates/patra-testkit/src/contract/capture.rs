//! Capture of URLs from pages and notes.

use std::sync::Arc;

use patra_core::port::pool::CaptureRule;
use patra_core::port::query::View;
use patra_core::project::{Library, LibraryScope};
use patra_core::tx::{Capture, Captured, CommitBatch, ConfigureCapture, MAX_JOB_TYPES, MAX_URLS, TxError, UrlSource};
use serde_json::{Value, json};

use super::note::write;
use super::urls::{OWN, ask};
use super::{Fixture, lock, make};

fn configure(project_key: &str, library: Library, job_types: &[&str], enabled: bool) -> ConfigureCapture {
    ConfigureCapture {
        project_key: project_key.into(),
        library,
        job_types: job_types.iter().map(|of| (*of).to_owned()).collect(),
        enabled,
    }
}

fn capture(library: Library, urls: &[&str]) -> Capture {
    let found = |url: &&str| ((*url).to_owned(), "a.example".to_owned());
    Capture { library, job_type: "ingest_policy".into(), urls: urls.iter().map(found).collect() }
}

// covers: POOL-67
pub(super) async fn capture_rules_apply_by_project_and_job_type(fx: Fixture) {
    let rules = async |project: Option<&str>| {
        let rules = fx.subject.store.capture_rules(project).await.expect("rules");
        let described = |rule: CaptureRule| {
            (format!("{} {}", rule.project_key, rule.job_type), rule.library.as_str(), rule.enabled)
        };
        rules.into_iter().map(described).collect::<Vec<_>>()
    };
    let rule = |name: &str, library, enabled| (name.to_owned(), library, enabled);
    assert_eq!(rules(None).await, []);
    fx.ok(configure(OWN, Library::Project, &["google_news", "market_info"], true)).await;
    fx.ok(configure("two", Library::Shared, &["google_news"], true)).await;
    fx.ok(configure(OWN, Library::Shared, &["google_news"], false)).await;
    let own = [rule("one google_news", "shared", false), rule("one market_info", "project", true)];
    assert_eq!(rules(Some(OWN)).await, own);
    assert_eq!(rules(None).await, [&own[..], &[rule("two google_news", "shared", true)]].concat());
    assert_eq!(rules(Some("three")).await, []);
    let many: Vec<_> = (0..=MAX_JOB_TYPES).map(|no| format!("t{no}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let refused = fx.run(configure(OWN, Library::Project, &many, true)).await;
    assert!(matches!(refused, Err(TxError::Refused(_))), "{refused:?}");
    assert_eq!(rules(Some(OWN)).await.len(), 2);
}

// covers: POOL-86, POOL-89, POOL-84
pub(super) async fn page_adds_its_urls_to_the_pool_once(fx: Fixture) {
    fx.plan("job 7", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let page = |no: u32, capture| {
        let records = vec![make::record(&format!("k{no}"), 1)];
        Arc::new(CommitBatch { capture, ..make::page(&lease, run, no, records, true) })
    };
    assert_eq!(fx.ok(page(1, None)).await.captured, Captured::None);
    let urls = ["https://a.example/1", "https://a.example/2"];
    let first = page(2, Some(capture(Library::Project, &urls)));
    assert_eq!(fx.ok(first.clone()).await.captured, Captured::Stored { new: 2 });
    let again = fx.ok(first).await;
    assert_eq!((again.replayed, again.captured), (true, Captured::None));
    let more = ["https://a.example/2", "https://a.example/3"];
    assert_eq!(fx.ok(page(3, Some(capture(Library::Project, &more)))).await.captured, Captured::Stored { new: 1 });
    assert_eq!(fx.ok(page(4, Some(capture(Library::Shared, &more)))).await.captured, Captured::Stored { new: 2 });
    let pool = fx.pool(ask("default", LibraryScope::Project)).await;
    assert_eq!((pool.total, pool.items.len()), (3, 3));
    for item in &pool.items {
        let source_ref: Value = serde_json::from_str(&item.source_ref).expect("JSON");
        assert_eq!(source_ref, json!({ "task_id": "job 7", "job_type": "ingest_policy" }));
        assert_eq!((item.source, &*item.domain), (UrlSource::Task, "a.example"));
    }
    assert_eq!(fx.pool(ask("default", LibraryScope::Effective)).await.total, 3);
}

// covers: POOL-88
pub(super) async fn failed_capture_does_not_fail_the_page(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let many: Vec<_> = (0..=MAX_URLS).map(|no| format!("https://a.example/{no:05}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let mut long = capture(Library::Project, &["https://a.example/1", "https://a.example/2"]);
    long.urls[1].1 = "d".repeat(256);
    for (no, flawed) in (1..).zip([capture(Library::Project, &many), long]) {
        let records = vec![make::record(&format!("k{no}"), 1)];
        let page = CommitBatch { capture: Some(flawed), ..make::page(&lease, run, no, records, true) };
        let done = fx.ok(Arc::new(page)).await;
        assert_eq!((done.captured, done.stats.inserted), (Captured::Failed, 1));
    }
    assert_eq!((fx.rows(View::Items).await.len(), fx.rows(View::Batches).await.len()), (2, 2));
    assert_eq!(fx.pool(ask("default", LibraryScope::Project)).await.total, 0, "nor is half of it there");
    let good = CommitBatch {
        capture: Some(capture(Library::Project, &["https://a.example/1"])),
        ..make::page(&lease, run, 3, Vec::new(), false)
    };
    assert_eq!(fx.ok(Arc::new(good)).await.captured, Captured::Stored { new: 1 });
}

// covers: POOL-84
pub(super) async fn note_adds_its_urls_to_the_pool(fx: Fixture) {
    let mut op = write("n1");
    assert_eq!(fx.ok(Arc::new(op.clone())).await.captured, Captured::None);
    op.capture = Some(capture(Library::Project, &["https://a.example/1"]));
    let done = fx.ok(Arc::new(op.clone())).await;
    assert_eq!((done.created, done.captured), (false, Captured::Stored { new: 1 }));
    op.note.note_id = "n2".into();
    let done = fx.ok(Arc::new(op.clone())).await;
    assert_eq!((done.created, done.captured), (true, Captured::Stored { new: 0 }));
    let pool = fx.pool(ask(lock::PROJECT, LibraryScope::Project)).await;
    let source_ref: Value = serde_json::from_str(&pool.items[0].source_ref).expect("JSON");
    assert_eq!(source_ref, json!({ "task_id": null, "job_type": "ingest_policy" }));
    op.note.note_id = "n3".into();
    op.capture.as_mut().expect("a capture").urls[0].1 = "d".repeat(256);
    op.capture.as_mut().expect("a capture").urls[0].0 = "https://a.example/2".into();
    let done = fx.ok(Arc::new(op)).await;
    assert_eq!((done.created, done.captured), (true, Captured::Failed));
    assert_eq!(fx.rows(View::Items).await.len(), 3);
}

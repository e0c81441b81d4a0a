//! The URL pool on a server: counts under concurrent writers, captures that fail alone, and readable views.

use std::sync::Arc;

use patra_core::crawl::CandidateAttempt;
use patra_core::port::PoolQueries as _;
use patra_core::port::pool::{DocumentFilter, TweetFilter, UrlFilter};
use patra_core::project::{Library, LibraryScope};
use patra_core::tx::{AddUrls, Capture, Captured, CreateProject, FoundUrl, NewNote, PutDocument, UrlSource, WriteNote};
use patra_store_postgres::{Options, PostgresStore};

use crate::support::{Schema, run};

fn urls(library: Library, project: &str, numbers: impl Iterator<Item = u32>) -> Arc<AddUrls> {
    let found = numbers.map(|number| FoundUrl {
        url: format!("https://example.com/{number}"),
        domain: "example.com".into(),
        source_ref: r#"{"document_id":1}"#.into(),
    });
    Arc::new(AddUrls { library, project_key: project.into(), source: UrlSource::Document, urls: found.collect() })
}

async fn total(store: &PostgresStore, project: &str, sight: LibraryScope) -> u64 {
    let filter = UrlFilter { project_key: project.into(), scope: sight, limit: 1, ..UrlFilter::default() };
    store.pool_urls(filter).await.expect("a page").total
}

/// Concurrent writers add the same URLs in different orders: to two projects and to the shared library.
// covers: POOL-59, POOL-109
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_with_concurrent_writers_of_both_libraries() {
    let Some(schema) = Schema::new() else { return };
    let store = PostgresStore::open(Options { pool_size: 24, ..schema.options() }).await.expect("a store");
    let libraries = [(Library::Shared, ""), (Library::Project, "a"), (Library::Project, "b")];
    for round in 0..20_u32 {
        let writers = (0..24_u32).map(|writer| {
            let (library, project) = libraries[writer as usize % libraries.len()];
            // Each writer leaves out some URLs, and some exist already.
            let numbers =
                (0..20).map(move |at| round * 15 + (at * 7 + writer) % 20).filter(move |n| n % 5 != writer % 5);
            let (store, add) = (store.clone(), urls(library, project, numbers));
            tokio::spawn(async move { run(&store, add).await.expect("URLs").new })
        });
        let writers: Vec<_> = writers.collect();
        for writer in writers {
            writer.await.expect("a writer");
        }
        let client = schema.client().await;
        for project in ["a", "b"] {
            let count = "
                SELECT count(DISTINCT url), count(DISTINCT url) FILTER (WHERE project_key = $1),
                  count(DISTINCT url) FILTER (WHERE scope = 'shared')
                FROM resource_pool_urls WHERE project_key IN ($1, '')";
            let row = client.query_one(count, &[&project]).await.expect("a count");
            let scopes = [LibraryScope::Effective, LibraryScope::Project, LibraryScope::Shared];
            for (at, scope) in scopes.into_iter().enumerate() {
                let counted = row.get::<_, i64>(at).cast_unsigned();
                assert_eq!(total(&store, project, scope).await, counted, "round {round}, {project}, {scope:?}");
            }
        }
    }
}

/// A note is stored although its URLs could not be.
// covers: POOL-88, POOL-AC-10
#[tokio::test]
async fn failed_capture_does_not_fail_the_note() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    let note = |id: &str| {
        Arc::new(WriteNote {
            project_key: "default".into(),
            platform: "xhs".into(),
            note: NewNote {
                note_id: id.into(),
                note_url: None,
                fields: "{}".into(),
                payload: "{}".into(),
                content_hash: [0; 16],
                published_at: None,
            },
            attempt: CandidateAttempt::default(),
            capture: Some(Capture {
                library: Library::Project,
                job_type: "xhs".into(),
                urls: vec![(format!("https://example.com/{id}"), "example.com".into())],
            }),
        })
    };
    let client = schema.client().await;
    let written = run(&store, note("a")).await.expect("a note");
    assert_eq!(written.captured, Captured::Stored { new: 1 });
    for (away, back) in [
        ("ALTER TABLE resource_pool_urls RENAME TO gone", "ALTER TABLE gone RENAME TO resource_pool_urls"),
        (
            "ALTER TABLE resource_pool_count ADD CHECK (urls < 2)",
            "ALTER TABLE resource_pool_count DROP CONSTRAINT resource_pool_count_urls_check",
        ),
    ] {
        client.batch_execute(away).await.expect("no pool");
        let id = format!("b{}", away.len());
        let written = run(&store, note(&id)).await.expect("a note without a pool");
        assert_eq!((written.created, written.captured), (true, Captured::Failed));
        client.batch_execute(back).await.expect("a pool");
        let stored = "SELECT count(*) FROM item_note WHERE note_id = $1";
        assert_eq!(client.query_one(stored, &[&id]).await.expect("a count").get::<_, i64>(0), 1);
    }
    assert_eq!(total(&store, "default", LibraryScope::Project).await, 1);
    let written = run(&store, note("c")).await.expect("a note");
    assert_eq!(written.captured, Captured::Stored { new: 1 });
    assert_eq!(total(&store, "default", LibraryScope::Effective).await, 2);
}

/// JSON can express a character that no text of this database can contain: it must not keep other items from being
/// read.
// covers: POOL-119, TWEET-136
#[tokio::test]
async fn views_can_be_read_with_any_item() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    run(&store, CreateProject { project_key: "p".into(), name: "P".into() }).await.expect("a project");
    for (uri, title) in [("https://a", r"a\u0000b"), ("https://b", r"c\\u0000")] {
        let fields = format!(r#"{{"uri":"{uri}","title":"{title}","doc_type":"news","state":"CA"}}"#);
        let document = PutDocument {
            project_key: "p".into(),
            uri: uri.into(),
            payload: fields.clone(),
            fields,
            content_hash: [1; 16],
        };
        run(&store, Arc::new(document)).await.expect("a document");
    }
    let client = schema.client().await;
    let tweet = |id: i32, author: &str, fields: &str| {
        format!(
            "INSERT INTO item (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at,
               source_version, content_hash, fields, payload, run_id, batch_no, mapping_generation, refresh_checked_at,
               created_at, stored_at, emptied_at)
             VALUES ('p', 'x', -1, '{id}', 'e', 'tweet', now(), 0, '', '{fields}', '', 0, 0, '', now(), now(), now(),
               CASE WHEN '{author}' = '' THEN now() END)"
        )
    };
    for (id, author, fields) in [
        (1, "Ann", r#"{"tweet_id":"1","text":"x\u0000y","author_username":"Ann","media":[{"media_key":"m"}]}"#),
        (2, "Bob", r#"{"tweet_id":"2","text":"z","author_username":"Bob","media":null,"referenced_tweet_media":null}"#),
        (3, "", ""),
    ] {
        client.batch_execute(&tweet(id, author, fields)).await.expect("a tweet");
    }
    let rows = client.query("SELECT tweet_id, text, media::text FROM tweets ORDER BY tweet_id", &[]).await;
    let rows: Vec<(String, String, Option<String>)> =
        rows.expect("tweets").iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(rows[0], ("1".into(), "x y".into(), Some(r#"[{"media_key":"m"}]"#.into())));
    assert_eq!(rows[1..], [("2".to_owned(), "z".to_owned(), None)]);
    let rows =
        client.query("SELECT tweet_id FROM tweets WHERE media IS NULL AND referenced_tweet_media IS NULL", &[]).await;
    assert_eq!(rows.expect("tweets").iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["2"], "no JSON null");
    let rows = client.query("SELECT DISTINCT project_key FROM tweets", &[]).await.expect("tweets");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["p"]);
    let kinds = client.query("SELECT doc_type, count(*) FROM documents GROUP BY 1 ORDER BY 1", &[]).await;
    let kinds: Vec<(String, i64)> = kinds.expect("documents").iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(kinds, [("news".to_owned(), 2), ("tweet".to_owned(), 2)]);
    let filter = DocumentFilter {
        project_key: "p".into(),
        doc_types: vec!["news".into()],
        states: vec!["CA".into()],
        limit: 9,
        ..DocumentFilter::default()
    };
    assert_eq!(store.documents(filter).await.expect("documents").len(), 2);
    let filter = TweetFilter { author: Some("aNN".into()), limit: 9, ..TweetFilter::default() };
    assert_eq!(store.tweets(filter).await.expect("tweets").len(), 1);
    client.query("SELECT project_key, username FROM scraper_fetch_stats", &[]).await.expect("statistics");
}

//! The pool, jobs and tweets: their statements use their indexes, and their views have the columns that others read.

use patra_core::project::Library;
use patra_core::tx::UrlSource;

use super::*;

// covers: POOL-60, POOL-110, TWEET-133, TWEET-135
#[test]
fn page_of_urls_or_tweets_reads_only_its_rows() {
    let db = migrated();
    let check = |statement: &str, needed: &[&str], sorts: bool| {
        let plan = plan(&db, statement);
        for needed in needed {
            assert!(plan.contains(needed), "{needed} is not in the plan of {statement}:\n{plan}");
        }
        assert_eq!(plan.contains("TEMP B-TREE"), sorts, "{statement}:\n{plan}");
    };
    let (list, url) = (
        "USING INDEX idx_pool_list (scope=? AND project_key=? AND created_at<?)",
        "uk_pool_url (scope=? AND project_key=? AND url=?)",
    );
    check(query::pool::READ_LIBRARY, &[list], false);
    check(query::pool::READ_EFFECTIVE, &["MERGE (UNION ALL)", list, url], false);
    check(exec::hot::IS_SHARED, &[url], false);
    check(exec::hot::COVER, &["resource_pool_count USING PRIMARY KEY (scope=?)", url], false);
    check(query::pool::READ_DOCUMENTS, &["USING INDEX idx_item_project (project_key=?)"], false);
    let author = "idx_tweets_author_created (<expr>=?";
    check(query::tweet::OF_AUTHOR, &[author, "updated_at<?"], false);
    // Only the tweets of the author are sorted.
    check(query::tweet::OF_AUTHOR_SINCE, &[author], true);
    check(query::tweet::OF_PROJECT, &["idx_tweets_created (project_key=? AND <expr><?)"], false);
    check(query::tweet::OF_PROJECT_SINCE, &["idx_tweets_stored (project_key=? AND <expr>>? AND <expr><?)"], false);
    check(query::tweet::OF_ALL, &["idx_tweets_written_at (<expr><?)"], false);
    check(query::tweet::OF_ALL_SINCE, &["idx_tweets_db_created_at (<expr>>? AND <expr><?)"], false);
    check(query::job::READ_ITEMS, &["idx_item_run (run_id=? AND rowid>?)"], false);
    check(query::job::READ_ENDED_OF_TYPE, &["idx_instance_job (project_key=? AND job_type=?)"], false);
    check(query::job::NEXT_TYPE, &["COVERING INDEX idx_instance_job (project_key=? AND job_type>?)"], false);
    check(exec::hot::CLAIM_BACKGROUND_JOB, &["idx_instance_chore"], false);
    check(exec::hot::TAKE_EVENTS, &["idx_outbox_pending"], false);
    check(exec::hot::FORGET_BACKGROUND_JOBS, &["idx_instance_finished (finished_at<?)"], false);
    check(exec::hot::OLD_POLLS, &["idx_task_poll_ended (finished_at<?)"], false);
    check(exec::hot::OLD_SCRAPES, &["idx_instance_scrape", "idx_instance_root (root_id=?)"], false);
    check(exec::hot::READ_KEYS, &["idx_item_run (run_id=?)", "uk_run_attempt (task_id=?)"], true);
}

#[test]
fn project_lists_are_read_from_the_newest_on() {
    let db = migrated();
    let before = |view: View| view.conditions(&ViewFilter { before_id: Some(1), ..ViewFilter::default() }).unwrap();
    for view in View::ALL.iter().filter(|view| view.owner().is_some()) {
        let statement = query::list_statement(*view, &before(*view), true);
        let plan = plan(&db, &statement);
        assert!(!plan.contains("TEMP B-TREE"), "{statement}:\n{plan}");
    }
    let items = plan(&db, &query::list_statement(View::Items, &before(View::Items), true));
    assert!(items.contains("idx_item_project (project_key=? AND id<?)") || items.contains("rowid<?"), "{items}");
}

fn columns(db: &Connection, table: &str) -> Vec<String> {
    let mut statement = db.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid").unwrap();
    statement.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

// covers: TWEET-136, POOL-119
#[test]
fn views_have_the_columns_that_others_read() {
    let db = migrated();
    let check =
        |view: &str, names: &str| assert_eq!(columns(&db, view), names.split(' ').collect::<Vec<_>>(), "{view}");
    check(
        "tweets",
        "tweet_id text created_at author_username author_display_name referenced_tweet_id reference_type media \
         referenced_tweet_text referenced_tweet_media referenced_tweet_author_username db_created_at db_updated_at project_key",
    );
    check(
        "scraper_fetch_stats",
        "username last_fetch_at last_fetched_count last_new_count total_fetches avg_new_rate \
         consecutive_empty_fetches created_at updated_at project_key",
    );
    check("documents", "id project_key doc_type state title uri content extracted_data created_at");
}

// covers: TWEET-120, TWEET-123, TWEET-127, TWEET-131, TWEET-162, POOL-119
#[test]
fn an_item_reads_as_a_tweet_and_as_a_document() {
    let db = migrated();
    let item = "INSERT INTO item (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at, \
        source_version, content_hash, mapping_generation, refresh_checked_at, fields, payload, run_id, batch_no, created_at, \
        stored_at, emptied_at) VALUES ('default', 'p', 1, ?1, 'e', ?2, 7, 0, x'00', '', 0, ?3, '{}', 1, 1, 8, 9, ?4)";
    let nothing = None::<i64>;
    let tweet = r#"{"text":"hi","author_username":"Ann","media":[{"type":"photo"}],"referenced_tweet_media":null}"#;
    db.execute(item, rusqlite::params!["1", "tweet", tweet, nothing]).unwrap();
    db.execute(item, rusqlite::params!["2", "article", "", nothing]).unwrap();
    db.execute(item, rusqlite::params!["3", "tweet", "", 10]).unwrap();
    let document = r#"{"doc_type":"policy","state":"CA","uri":"https://a.b/","extracted_data":{"a":[1]}}"#;
    db.execute(item, rusqlite::params!["4", "document", document, nothing]).unwrap();
    let row = db.query_row("SELECT * FROM tweets", (), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(7)?, row.get(9)?, row.get(11)?, row.get(12)?))
    });
    let tweet: (String, String, String, String, String, Option<String>, String, String) = row.unwrap();
    let media = r#"[{"type":"photo"}]"#.to_owned();
    let at = |micros: i64| Ts::from_micros(micros).to_micros_text();
    assert_eq!(tweet, ("1".into(), "hi".into(), at(7), "Ann".into(), media, None, at(8), at(9)));
    let mut statement = db.prepare("SELECT doc_type, state, extracted_data FROM documents ORDER BY id").unwrap();
    type Shown = (String, Option<String>, Option<String>);
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let shown: Vec<Shown> = rows.map(Result::unwrap).collect();
    let plain = |kind: &str| (kind.to_owned(), None, None);
    let policy = ("policy".to_owned(), Some("CA".to_owned()), Some(r#"{"a":[1]}"#.to_owned()));
    assert_eq!(shown, [plain("tweet"), plain("article"), policy]);
}

// covers: TWEET-139, POOL-119
#[test]
fn views_show_times_as_the_rest_of_the_program() {
    let db = migrated();
    let times =
        [0, 1, -1, -1_000_001, 999_999, 1_700_000_000_123_456, -62_135_596_800_000_000, 253_402_200_000_999_999];
    for (id, micros) in times.into_iter().enumerate() {
        let item = "INSERT INTO item (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at, \
            source_version, content_hash, mapping_generation, refresh_checked_at, fields, payload, run_id, batch_no, \
            created_at, stored_at) VALUES ('default', 'p', 1, ?1, 'e', 'tweet', ?2, 0, x'00', '', 0, '{}', '{}', 1, 1, ?2, ?2)";
        db.execute(item, rusqlite::params![id.to_string(), micros]).unwrap();
        let text = Ts::from_micros(micros).to_micros_text();
        let read = |sql: &str| db.query_row(sql, [id.to_string()], |row| row.get::<_, String>(0)).unwrap();
        for column in ["created_at", "db_created_at", "db_updated_at"] {
            assert_eq!(read(&format!("SELECT {column} FROM tweets WHERE tweet_id = ?1")), text, "{column}");
        }
        assert_eq!(read("SELECT created_at FROM documents WHERE id = ?1 + 1"), text);
    }
    let sorted = |column: &str| {
        let mut statement = db.prepare(&format!("SELECT id FROM item ORDER BY {column}")).unwrap();
        statement.query_map((), |row| row.get::<_, i64>(0)).unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    let by_view: Vec<i64> = {
        let mut statement = db.prepare("SELECT tweet_id + 1 FROM tweets ORDER BY created_at").unwrap();
        statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(by_view, sorted("updated_at"), "text sorts as the time");
}

// covers: TWEET-133, TWEET-134, TWEET-135, TWEET-136
#[test]
fn queries_of_the_tweets_view_use_an_index() {
    let db = migrated();
    for (condition, needed) in [
        ("tweet_id = '1'", "idx_tweets_id (dedup_key=?)"),
        ("tweet_id IN ('1', '2')", "idx_tweets_id (dedup_key=?)"),
        ("lower(author_username) = 'ann' ORDER BY created_at DESC", "idx_tweets_author_created (<expr>=?)"),
        ("db_created_at >= '2026-01-01'", "idx_tweets_db_created_at (<expr>>?)"),
        ("db_created_at >= '2026-01-01' ORDER BY db_created_at DESC LIMIT 9", "idx_tweets_db_created_at (<expr>>?)"),
        ("created_at >= '2026-01-01' ORDER BY created_at DESC LIMIT 9", "idx_tweets_written_at (<expr>>?)"),
        ("project_key = 'p' AND tweet_id = '1'", "idx_tweets_id (dedup_key=? AND project_key=?)"),
        ("project_key = 'p' AND db_created_at >= '2026'", "idx_tweets_stored (project_key=? AND <expr>>?)"),
        (
            "project_key = 'p' AND created_at >= '2026' ORDER BY created_at DESC",
            "idx_tweets_created (project_key=? AND",
        ),
    ] {
        let plan = plan(&db, &format!("SELECT * FROM tweets WHERE {condition}"));
        assert!(plan.contains(needed), "{condition}: {plan}");
    }
}

// covers: POOL-01, POOL-100, POOL-101, POOL-102, POOL-103, POOL-104, POOL-105, POOL-106, POOL-107, POOL-108, POOL-118
#[test]
fn the_table_of_urls_has_the_columns_and_words_of_the_pool() {
    let db = migrated();
    let names = ["id", "url", "domain", "source", "source_ref", "scope", "project_key", "created_at"];
    assert_eq!(columns(&db, "resource_pool_urls"), names);
    check_words(&db, "resource_pool_urls", "source", [UrlSource::Document, UrlSource::Task].map(UrlSource::as_str));
    for table in ["resource_pool_urls", "resource_pool_capture", "resource_pool_count"] {
        check_words(&db, table, "scope", [Library::Shared, Library::Project].map(Library::as_str));
    }
    check_words(&db, "outbox_event", "status_code", View::Outbox.statuses());
    let insert = |url: &str, scope: &str, project: &str| {
        let sql = "INSERT INTO resource_pool_urls (url, domain, source, source_ref, scope, project_key, created_at) \
            VALUES (?1, 'a.b', 'task', '{}', ?2, ?3, 0)";
        db.execute(sql, [url, scope, project]).map_err(|error| error.to_string())
    };
    assert_eq!(insert("u", "project", "one"), Ok(1));
    assert_eq!(insert("u", "project", "two"), Ok(1));
    assert_eq!(insert("u", "shared", ""), Ok(1));
    for (scope, project) in [("project", "one"), ("shared", ""), ("project", ""), ("shared", "one")] {
        let error = insert("u", scope, project).unwrap_err();
        assert!(error.contains("constraint failed"), "{scope} {project}: {error}");
    }
}

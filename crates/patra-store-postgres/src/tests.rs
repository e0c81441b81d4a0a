//! Statements against a real server: each one prepares, and the most important ones have their intended plan.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use patra_core::gate::{GateLimits, GateRequest, Rate};
use patra_core::port::CommandsExt as _;
use patra_core::port::query::{Cell, View, ViewCondition};
use patra_core::tx::{RequestPermits, TxError};
use tokio_postgres::{Client, NoTls};

use crate::error::{Fail, Health, Phase};
use crate::pool::BEGIN_BY_KEY;
use crate::{Options, PostgresStore, exec, query};

/// A store in a schema of its own, or `None` where there is no server.
async fn migrated() -> Option<(PostgresStore, Client, String)> {
    let Ok(url) = std::env::var("PATRA_TEST_POSTGRES_URL") else {
        println!("skipped: PATRA_TEST_POSTGRES_URL is not set");
        return None;
    };
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let schema = format!("patra_unit_{random:016x}");
    let options = Options { schema: Some(schema.clone()), ..Options::new(&url) };
    let store = PostgresStore::open(options).await.expect("a store");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path = {schema}")).await.expect("the schema");
    Some((store, client, schema))
}

async fn drop_schema(client: &Client, schema: &str) {
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("a schema to drop");
}

#[tokio::test]
async fn every_statement_can_be_prepared() {
    let Some((_store, client, schema)) = migrated().await else { return };
    let mut statements: Vec<String> = exec::statements()
        .iter()
        .chain(query::STATEMENTS)
        .chain(query::board::STATEMENTS)
        .chain(query::crawl::STATEMENTS)
        .chain(query::load::STATEMENTS)
        .chain(query::credential::STATEMENTS)
        .chain(query::document::STATEMENTS)
        .chain(query::evidence::STATEMENTS)
        .chain(query::job::STATEMENTS)
        .chain(query::lineage::STATEMENTS)
        .chain(query::pool::STATEMENTS)
        .chain(query::source::STATEMENTS)
        .map(|sql| (*sql).to_owned())
        .collect();
    for view in View::ALL {
        let filters =
            ["id", "provenance_code", "endpoint_name", "status_code", "plan_id", "task_id", "run_id", "created_at"];
        let known = filters.into_iter().filter(|column| view.has(column));
        let known: Vec<_> = known.map(|column| ViewCondition { column, is: ">=", value: Cell::Null }).collect();
        statements.push(query::list::statement(*view, &known, view.owner()));
        statements.push(query::list::statement(*view, &[], None));
    }
    assert!(statements.len() > 130, "{} statements", statements.len());
    for sql in &statements {
        if let Err(error) = client.prepare(sql).await {
            panic!("{error:?} in {sql}");
        }
    }
    drop_schema(&client, &schema).await;
}

#[tokio::test]
async fn claim_uses_its_index_in_a_long_queue() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client
        .batch_execute(
            "INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code,
               endpoint_name, operation_code, params, expr_hash, idempotent_key, window_from, window_to, status_code,
               priority, scheduled_at, created_at, finished_at, c_max)
             SELECT 1, 1 + n % 2000, n, 1, 'default', 'p' || n % 7, 'e', 'HARVEST', '{}', 'h', 'k' || n, 'epoch', now(),
               CASE WHEN n % 2 = 0 THEN 'QUEUED' ELSE 'SUCCEEDED' END, 100 * (1 + n % 3),
               now() - n * interval '1 second', now(), now(), 8
             FROM generate_series(1, 60000) n;
             ANALYZE ing_task; SET patra.lanes = '1'",
        )
        .await
        .unwrap();
    let lanes = "ARRAY['p1'], ARRAY['e'], ARRAY['HARVEST'], ARRAY[8], ARRAY[0], ARRAY[100], ARRAY[8], ARRAY[8]";
    let take = format!("('w', 10, 30000000, {lanes}, 1)");
    let statements = [(exec::LOOK, String::new()), (query::next_due::LOOK, "(1)".to_owned()), (exec::TAKE, take)];
    for (sql, values) in statements {
        for mode in ["force_custom_plan", "force_generic_plan"] {
            client.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
            client.batch_execute(&format!("PREPARE claim AS {sql}")).await.unwrap();
            let rows = client.query(&format!("EXPLAIN EXECUTE claim {values}"), &[]).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let plan = plan.join("\n");
            assert!(plan.contains("Index Scan using idx_task_pick"), "{mode}:\n{plan}");
            assert!(plan.contains("Index Only Scan using idx_task_queue"), "{mode}:\n{plan}");
            assert!(!plan.contains("Seq Scan on ing_task"), "{mode}:\n{plan}");
            client.batch_execute("DEALLOCATE claim").await.unwrap();
        }
    }
    drop_schema(&client, &schema).await;
}

/// The plans of a prepared statement: custom for these values, and generic.
async fn plans(client: &Client, sql: &str, values: &str) -> Vec<String> {
    let mut plans = Vec::new();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        client.batch_execute(&format!("SET plan_cache_mode = {mode}; PREPARE asked AS {sql}")).await.unwrap();
        let rows = client.query(&format!("EXPLAIN EXECUTE asked ({values})"), &[]).await.unwrap();
        let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        plans.push(lines.join("\n"));
        client.batch_execute("DEALLOCATE asked").await.unwrap();
    }
    plans
}

#[tokio::test]
async fn named_rows_are_looked_up_even_if_tables_were_empty() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client.batch_execute(&format!("{BEGIN_BY_KEY}; SET LOCAL patra.lanes = '1'")).await.unwrap();
    for sql in exec::by_key() {
        let params = (1..).take_while(|number| sql.contains(&format!("${number}"))).count();
        client.batch_execute(&format!("PREPARE asked AS {sql}")).await.unwrap();
        let values = vec!["NULL"; params].join(", ");
        let rows = client.query(&format!("EXPLAIN EXECUTE asked ({values})"), &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        for found in ["Seq Scan on ing_", "Bitmap", "Hash Join", "Merge Join"] {
            assert!(!plan.contains(found), "{found} in {sql}:\n{plan}");
        }
        client.batch_execute("DEALLOCATE asked").await.unwrap();
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    drop_schema(&client, &schema).await;
}

#[tokio::test]
async fn marks_read_only_their_part_of_a_list() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client
        .batch_execute(
            "INSERT INTO item_listed (list_id, item_id, slice_id) SELECT n % 5, n, 1 FROM generate_series(1, 100000) n;
             ANALYZE item_listed",
        )
        .await
        .unwrap();
    for plan in plans(&client, exec::READ_PART, "1, 5000, 1000").await {
        assert!(plan.contains("Index Scan using item_listed_pkey"), "{plan}");
    }
    for plan in plans(&client, exec::MARK_ITEMS, "ARRAY[1, 2, 3], now()").await {
        assert!(plan.contains("idx_item_listed_item") && !plan.contains("Seq Scan on item_listed"), "{plan}");
    }
    drop_schema(&client, &schema).await;
}

// covers: CRAWL-22, CRAWL-25
#[tokio::test]
async fn pick_reads_only_the_first_cookies_of_a_large_pool() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client
        .batch_execute(
            "INSERT INTO reg_prov_credential (alias, provenance_code, endpoint_name, version, type_code, priority, sealed,
               key_id, status_code, created_at, updated_at)
             SELECT 'c' || n, 'p' || n % 3, '*', 1, 'COOKIE', 1, 's', 'k', 'ACTIVE', now(), now()
             FROM generate_series(1, 30000) n;
             INSERT INTO ing_credential_state (credential_id, status_code, cookie_name, provenance_code, endpoint_name,
               daily_used, used_day, last_used_at, updated_at)
             SELECT id, 'ACTIVE', alias, provenance_code, '*', id % 50, 'epoch', 'epoch', now() FROM reg_prov_credential;
             ANALYZE reg_prov_credential; ANALYZE ing_credential_state; ANALYZE ing_cookie_lease",
        )
        .await
        .unwrap();
    let values = "'p1', 'search', now(), ARRAY['c1'], ARRAY['holder', 'other'], 1000000";
    for sql in [exec::PICK_COOKIE, exec::PICK_AND_WAIT] {
        for plan in plans(&client, sql, values).await {
            assert_eq!(plan.matches("using idx_cookie_ready").count(), 2, "{plan}");
            // The table of leases is empty here, so the planner may read it as a whole.
            assert!(!plan.contains("Seq Scan on ing_credential") && !plan.contains("Seq Scan on reg_"), "{plan}");
        }
    }
    for plan in plans(&client, query::crawl::PLATFORM_COOKIES, "'p1', 'c5', 100").await {
        assert!(plan.contains("using idx_cookie_list") && !plan.contains("Seq Scan"), "{plan}");
    }
    for plan in plans(&client, query::crawl::COOKIE, "NULL, 'c5', 100").await {
        assert!(plan.contains("using uk_cookie_name") && !plan.contains("Seq Scan"), "{plan}");
    }
    drop_schema(&client, &schema).await;
}

// covers: COLL-27, COLL-32
#[tokio::test]
async fn tick_reads_only_due_sources() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client
        .batch_execute(
            "INSERT INTO source (project_key, type, name, config, source_key, is_public, is_active, last_fetched_at,
               next_due_at, created_at, updated_at)
             SELECT 'default', 'rss', n, '{}', n, 1, 1, 'epoch',
               now() + CASE WHEN n <= 100 THEN -n ELSE n END * interval '1 minute', now(), now()
             FROM generate_series(1, 100000) n;
             ANALYZE source",
        )
        .await
        .unwrap();
    for plan in plans(&client, query::source::DUE, "500").await {
        assert!(plan.contains("Index Scan using idx_source_due") || plan.contains("Scan on idx_source_due"), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
    drop_schema(&client, &schema).await;
}

// covers: ING-13.6-02
#[tokio::test]
async fn board_reads_only_its_rows_and_no_history() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client
        .batch_execute(
            "INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code,
               endpoint_name, operation_code, params, expr_hash, idempotent_key, status_code, priority, scheduled_at,
               created_at, finished_at, c_max)
             SELECT 1, 1, n, 1, 'default', 'p' || n % 7, 'e', 'HARVEST', '{}', 'h', 'k' || n,
               CASE WHEN n % 50 = 0 THEN 'QUEUED' ELSE 'SUCCEEDED' END, 100, now(), now(), now(), 8
             FROM generate_series(1, 60000) n;
             INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code, shard)
             SELECT to_timestamp(60 * n), 'default', 'p', 'e', 'HARVEST', 0 FROM generate_series(1, 60000) n;
             INSERT INTO ing_error_minute (minute, project_key, provenance_code, endpoint_name, operation_code, level,
               error_code, shard, errors, message, last_at, task_id, run_id)
             SELECT to_timestamp(60 * n), 'default', 'p', 'e', 'HARVEST', 'L1', 'c', 0, 1, '', now(), 1, 1
             FROM generate_series(1, 60000) n;
             ANALYZE ing_task; ANALYZE ing_minute; ANALYZE ing_error_minute",
        )
        .await
        .unwrap();
    let (of, hour) = ("NULL, NULL, NULL, NULL", "to_timestamp(3000), to_timestamp(6600)");
    let cases = [
        (query::board::QUEUED, format!("{of}, now()"), "idx_task_open"),
        (query::board::COUNTS, format!("{of}, {hour}"), "ing_minute_pkey"),
        (query::board::SERIES, format!("{of}, {hour}, 1, 100"), "ing_minute_pkey"),
        (query::board::ERRORS, format!("{of}, {hour}, NULL, 10"), "ing_error_minute_pkey"),
        (query::board::STATUSES, "1".to_owned(), "run_batch"),
    ];
    for (sql, values, index) in cases {
        for plan in plans(&client, sql, &values).await {
            assert!(plan.contains(index), "{sql}:\n{plan}");
            assert!(
                !plan.contains("Seq Scan on ing_task") && !plan.contains("Seq Scan on ing_minute"),
                "{sql}:\n{plan}"
            );
        }
    }
    drop_schema(&client, &schema).await;
}

#[tokio::test]
async fn claim_of_polls_uses_its_index_in_a_long_queue() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client
        .batch_execute(
            "INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code,
               endpoint_name, operation_code, params, expr_hash, idempotent_key, status_code, priority, scheduled_at,
               created_at, finished_at, c_max, source_id, host)
             SELECT n, n, n, 0, 'default', 'p', 'e', 'HARVEST', '{}', 'h', 'k' || n,
               CASE WHEN n % 2 = 0 THEN 'QUEUED' ELSE 'SUCCEEDED' END, 100, now() - n * interval '1 second', now(),
               now(), 0, n, 'host' || n % 1000
             FROM generate_series(1, 60000) n;
             ANALYZE ing_task",
        )
        .await
        .unwrap();
    for plan in plans(&client, exec::NEXT_POLLS, "now(), 'epoch', 0, ARRAY['host1'], 500").await {
        assert!(plan.contains("Index Scan using idx_task_poll"), "{plan}");
        assert!(!plan.contains("Seq Scan on ing_task") && !plan.contains("Sort"), "{plan}");
    }
    drop_schema(&client, &schema).await;
}

// covers: CRAWL-43
#[tokio::test]
async fn claim_of_notes_uses_its_index() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client
        .batch_execute(
            "INSERT INTO crawl_candidate (project_key, platform, note_id, note_url, status, tokens, exec_meta, created_at,
               updated_at)
             SELECT 'default', 'xhs', n, n, CASE WHEN n % 2 = 0 THEN 'pending' ELSE 'collected' END, '{}', '{}',
               now() - n * interval '1 second', now()
             FROM generate_series(1, 60000) n;
             ANALYZE crawl_candidate",
        )
        .await
        .unwrap();
    for plan in plans(&client, exec::CLAIM_NOTES, "'default', 'e', now(), 'xhs', 10").await {
        assert!(plan.contains("Index Scan using idx_crawl_status"), "{plan}");
        assert!(!plan.contains("Seq Scan on crawl_candidate") && !plan.contains("Sort"), "{plan}");
    }
    drop_schema(&client, &schema).await;
}

// covers: POOL-60, POOL-110
#[tokio::test]
async fn page_of_both_libraries_uses_its_indexes() {
    let Some((_store, client, schema)) = migrated().await else { return };
    // Every project has a tenth of the shared URLs.
    let fill = "
        INSERT INTO resource_pool_urls (url, domain, source, source_ref, scope, project_key, created_at)
        SELECT 'https://example.com/' || CASE WHEN n % 40 < 4 THEN n - n % 4 ELSE n END, 'example.com', 'task', '{}', CASE WHEN n % 4 = 0 THEN 'shared' ELSE 'project' END,
          CASE WHEN n % 4 = 0 THEN '' ELSE 'p' || n % 4 END, now() + n * interval '1 second'
        FROM generate_series(1, 200000) n";
    for sql in [fill, "VACUUM ANALYZE resource_pool_urls", "SET max_parallel_workers_per_gather = 0"] {
        client.batch_execute(sql).await.unwrap();
    }
    for page in ["'p1', 20, 0, NULL, NULL", "'p1', 20, 1980, NULL, NULL", "'p1', 20, 0, now() + interval '5 hours', 7"]
    {
        // It is planned for its values, so the custom plan counts.
        let plan = plans(&client, query::pool::EFFECTIVE, page).await.swap_remove(0);
        assert!(plan.contains("Index Only Scan Backward using idx_pool_list"), "{plan}");
        assert!(plan.contains("Index Only Scan using uk_pool_url") && !plan.contains("Seq Scan"), "{plan}");
    }
    drop_schema(&client, &schema).await;
}

// covers: TWEET-133, TWEET-134, TWEET-135, TWEET-136
#[tokio::test]
async fn tweets_are_read_by_their_indexes() {
    let Some((_store, client, schema)) = migrated().await else { return };
    client
        .batch_execute(
            r#"INSERT INTO item (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at,
               source_version, content_hash, fields, payload, run_id, batch_no, mapping_generation, refresh_checked_at,
               created_at, stored_at)
             SELECT CASE WHEN n % 50 = 0 THEN 'default' ELSE 'p' || n % 50 END, 'x', 1, n, 'e', 'tweet',
               now() - (n * 7919 % 20000) * interval '1 second', 0, '', '{"author_username":"User' || n % 100 || '"}', '{}', 1,
               1, '', now(), now() - n * interval '1 second', now()
             FROM generate_series(1, 20000) n;
             ANALYZE item; SET max_parallel_workers_per_gather = 0"#,
        )
        .await
        .unwrap();
    let since = "now() - interval '5000 seconds'";
    for (statement, values, index, sorts) in [
        (query::document::TWEETS[0], "NULL, NULL, NULL, 20, NULL, NULL".to_owned(), "idx_tweets_written_at", false),
        (query::document::TWEETS[1], format!("NULL, NULL, {since}, 20, NULL, NULL"), "idx_tweets_db_created_at", false),
        (query::document::TWEETS[1], format!("NULL, NULL, {since}, 20, now(), 7"), "idx_tweets_db_created_at", false),
        (
            query::document::TWEETS_OF_PROJECT[0],
            "'default', NULL, NULL, 20, now(), 7".into(),
            "idx_tweets_created",
            false,
        ),
        (
            query::document::TWEETS_OF_PROJECT[1],
            format!("'default', NULL, {since}, 20, NULL, NULL"),
            "idx_tweets_stored",
            false,
        ),
        (
            query::document::TWEETS_OF_AUTHOR[0],
            "NULL, 'uSER7', NULL, 20, NULL, NULL".into(),
            "idx_tweets_author_created",
            false,
        ),
        (query::document::TWEETS_OF_AUTHOR[1], format!("NULL, 'uSER7', {since}, 20, NULL, NULL"), "idx_tweets_", true),
        (
            query::document::TWEETS_OF_BOTH[0],
            "'p7', 'uSER7', NULL, 20, NULL, NULL".into(),
            "idx_tweets_author_created",
            true,
        ),
    ] {
        for plan in plans(&client, statement, &values).await {
            assert!(plan.contains(index) && !plan.contains("Seq Scan"), "{values}: {plan}");
            assert!(sorts || !plan.contains("Sort"), "{values}: {plan}");
        }
    }
    // The view is read by the same indexes.
    for (condition, index) in [
        ("tweet_id = '77'", "idx_tweets_id"),
        ("lower(author_username) = 'user7' ORDER BY created_at DESC LIMIT 20", "idx_tweets_author_created"),
        ("db_created_at >= now() - interval '90 seconds'", "idx_tweets_db_created_at"),
        (
            "db_created_at >= now() - interval '90 seconds' ORDER BY db_created_at DESC LIMIT 20",
            "idx_tweets_db_created_at",
        ),
        ("created_at >= now() - interval '90 seconds' ORDER BY created_at DESC LIMIT 20", "idx_tweets_written_at"),
        ("project_key = 'default' AND db_created_at >= now() - interval '90 seconds'", "idx_tweets_"),
    ] {
        let sql = format!("EXPLAIN SELECT * FROM tweets WHERE {condition}");
        let rows = client.query(&sql, &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(index) && !plan.contains("Seq Scan"), "{condition}: {plan}");
    }
    drop_schema(&client, &schema).await;
}

#[tokio::test]
async fn server_errors_are_mapped_to_outcomes() {
    let Some((_store, client, schema)) = migrated().await else { return };
    let unavailable = || TxError::Unavailable(String::new());
    let cases = [
        ("40001", TxError::Busy, Health::Good),
        ("40P01", TxError::Busy, Health::Good),
        ("55P03", TxError::Busy, Health::Good),
        ("53100", unavailable(), Health::Good),
        ("53300", unavailable(), Health::Good),
        ("57014", unavailable(), Health::Good),
        ("25006", unavailable(), Health::Lost),
        ("57P01", TxError::Unknown(String::new()), Health::Lost),
        ("57P03", TxError::Unknown(String::new()), Health::Lost),
        ("08006", TxError::Unknown(String::new()), Health::Lost),
        ("23505", TxError::Refused(String::new()), Health::Good),
        ("22P02", TxError::Refused(String::new()), Health::Good),
        ("42P01", TxError::Refused(String::new()), Health::Good),
        ("42501", unavailable(), Health::Good),
        ("0A000", unavailable(), Health::Lost),
        ("26000", unavailable(), Health::Lost),
        ("40003", TxError::Unknown(String::new()), Health::Lost),
        ("54000", unavailable(), Health::Good),
        ("55000", unavailable(), Health::Good),
        ("58030", unavailable(), Health::Good),
        ("58P01", unavailable(), Health::Good),
        ("F0000", unavailable(), Health::Good),
        ("P0001", unavailable(), Health::Good),
        ("XX000", unavailable(), Health::Good),
        ("XX001", unavailable(), Health::Good),
    ];
    for (code, expected, health) in cases {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}', DETAIL = 's3cret'; END $$");
        let error = Fail::from(client.batch_execute(&raise).await.expect_err("an error"));
        let (answer, left) = error.settle(Phase::CommitSent);
        assert_eq!(std::mem::discriminant(&answer), std::mem::discriminant(&expected), "{code}: {answer}");
        assert_eq!(left, health, "{code}");
        assert!(!answer.to_string().contains("s3cret"), "{answer}");
        // Before a COMMIT was sent, the outcome is never unknown.
        let error = Fail::from(client.batch_execute(&raise).await.expect_err("an error"));
        assert!(!matches!(error.settle(Phase::Open).0, TxError::Unknown(_)), "{code}");
    }
    drop_schema(&client, &schema).await;
}

#[tokio::test]
async fn unreadable_gate_state_starts_over_without_burst() {
    let Some((store, client, schema)) = migrated().await else { return };
    let limits = GateLimits { rate: Rate { per_sec: 1.0, burst: 50.0 }, ..GateLimits::default() };
    let request = GateRequest {
        member: "m".into(),
        now: 5,
        percent: 100,
        deadline: Duration::from_secs(60),
        ..GateRequest::default()
    };
    let question = Arc::new(RequestPermits { key: "k".into(), limits, request });
    let answer = || async { store.run(Arc::clone(&question)).await.expect("an answer") };
    let fresh = answer().await;
    assert!(fresh.slots[0].at < fresh.now, "a new key has its burst");
    client.batch_execute(r#"UPDATE ing_gate SET state = '{"limits":7}'"#).await.expect("an update");
    let again = answer().await;
    assert!(!again.slots.is_empty() && again.slots.iter().all(|slot| slot.at > again.now), "{again:?}");
    assert_eq!(answer().await.refused, None, "it has been written again");
    drop_schema(&client, &schema).await;
}

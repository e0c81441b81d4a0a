//! Opening: error messages, and any number of processes at once.

use patra_core::port::Queries;
use patra_store_postgres::{OpenError, Options, PostgresStore};

use crate::support::Schema;

/// The URL of the server with another user, host part and database.
fn other(url: &str, user: &str, database: &str) -> String {
    let host = url.split_once('@').expect("a user").1;
    format!("postgres://{user}@{}/{database}", host.split_once('/').expect("a database").0)
}

async fn refused(options: Options) -> OpenError {
    PostgresStore::open(options).await.expect_err("must not open")
}

// Class 25: migrations race when several processes start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_may_open_an_empty_schema_at_once() {
    for _ in 0..5 {
        let Some(schema) = Schema::new() else { return };
        let opening: Vec<_> = (0..8).map(|_| tokio::spawn(PostgresStore::open(schema.options()))).collect();
        for opened in opening {
            let store = opened.await.unwrap().expect("no error");
            assert_eq!(store.ping().await, Ok(1));
        }
    }
}

#[tokio::test]
async fn failed_opening_reports_its_reason() {
    let Some(schema) = Schema::new() else { return };
    let nowhere = refused(Options::new("postgres://u:s3cret@127.0.0.1:1/x")).await;
    assert!(matches!(&nowhere, OpenError::Unreachable { address, .. } if address == "127.0.0.1:1"), "{nowhere}");
    assert!(!format!("{nowhere} {nowhere:?}").contains("s3cret") && nowhere.hint().is_some());

    let none = refused(Options::new(other(&schema.url, "patra", "no_such_database"))).await;
    assert!(matches!(&none, OpenError::NoDatabase { database, .. } if database == "no_such_database"), "{none}");

    let stranger = refused(Options::new(other(&schema.url, "no_such_user", "patra"))).await;
    assert!(matches!(&stranger, OpenError::Authentication { user, .. } if user == "no_such_user"), "{stranger}");
}

#[tokio::test]
async fn opening_requires_rights_and_says_which_are_missing() {
    let Some(schema) = Schema::new() else { return };
    let store = schema.open().await;
    let client = schema.client().await;
    let user = format!("{}_user", schema.name);
    client.batch_execute(&format!("CREATE ROLE {user} LOGIN")).await.unwrap();
    let url = other(&schema.url, &user, "patra");
    let missing = Options { schema: Some(format!("{}_more", schema.name)), ..Options::new(&url) };
    let denied = refused(missing).await;
    assert!(matches!(denied, OpenError::NoPermission(_)), "{denied}");
    // It may use the existing schema without the right to create anything.
    let grants =
        format!("GRANT USAGE ON SCHEMA {0} TO {user}; GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO {user}", schema.name);
    client.batch_execute(&grants).await.unwrap();
    let reader = PostgresStore::open(Options { url, ..schema.options() }).await;
    assert_eq!(reader.expect("a store").ping().await, Ok(1));
    drop(store);
    client.batch_execute(&format!("DROP OWNED BY {user}; DROP ROLE {user}")).await.unwrap();
}

#[tokio::test]
async fn a_schema_of_another_program_is_left_alone() {
    let Some(schema) = Schema::new() else { return };
    drop(schema.open().await);
    let client = schema.client().await;
    let newer = "INSERT INTO patra_migration VALUES (7, 'later', 'x', now())";
    client.batch_execute(newer).await.unwrap();
    assert!(matches!(refused(schema.options()).await, OpenError::Newer { found: 7, known: 1 }));
    client.batch_execute("DELETE FROM patra_migration WHERE version = 7").await.unwrap();
    client.batch_execute("UPDATE patra_migration SET checksum = 'edited'").await.unwrap();
    assert!(matches!(refused(schema.options()).await, OpenError::Changed { version: 1, .. }));
}

//! Copies of the database: taken, listed, restored; and undoing a migration (docs/operations.md).

use std::process::Output;

use serde_json::Value;

use super::patra;
use crate::support::{On, Workspace, manifest, psql};

#[track_caller]
fn json_of(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn db(place: &Workspace, args: &[&str]) -> Output {
    patra(place).arg("db").args(args).args(["-o", "json"]).output().unwrap()
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

/// The content of a few tables, as text.
fn content(place: &Workspace) -> Vec<Value> {
    ["provenances", "schedules", "keys"].iter().flat_map(|view| place.list(&[view])).collect()
}

// covers: CRAWL-DAY3-4
on_both!(fn restore_returns_to_the_state_of_the_backup);
fn restore_returns_to_the_state_of_the_backup(on: On) {
    on.run(|place| {
        place.apply(&manifest("http://127.0.0.1:1"));
        place.run(&["key", "create", "first"]);
        let before = content(place);
        let taken = json_of(&db(place, &["backup"]));
        let path = taken["path"].as_str().unwrap();
        assert!(path.contains("data/backups/patra-") && taken["bytes"].as_u64() > Some(1_000), "{taken}");
        let listed = json_of(&db(place, &["backups"]));
        assert_eq!((&listed[0]["path"], &listed[0]["schema_version"]), (&taken["path"], &taken["schema_version"]));
        assert_eq!(listed[0]["before_migration"], false);
        refused(&db(place, &["backup", "--to", path]), 78, &["exists already", "hint: "]);
        let elsewhere = place.folder.path().join("elsewhere.copy").display().to_string();
        assert_eq!(json_of(&db(place, &["backup", "--to", &elsewhere]))["path"], elsewhere);

        place.apply(&manifest("http://127.0.0.1:2").replace("provenance: far", "provenance: other"));
        place.run(&["key", "create", "second"]);
        let after = content(place);
        assert_ne!(before, after);
        let restored = json_of(&db(place, &["restore", path]));
        assert_eq!(content(place), before);
        // The replaced database is kept, complete.
        let kept = restored["replaced"].as_str().unwrap();
        match place.database_url() {
            Some(url) => {
                let schema = kept.strip_prefix("schema ").unwrap();
                assert_eq!(psql(&url, &format!("SELECT count(*) FROM {schema}.api_key")).trim(), "2");
            }
            None => {
                json_of(&db(place, &["restore", kept]));
                assert_eq!(content(place), after);
            }
        }
        super::passes(place, &[]);
        // A file that is no copy or does not exist changes nothing.
        let broken = place.file("broken", "no copy of anything, but long enough to be looked at");
        let before = content(place);
        refused(&db(place, &["restore", &broken]), 78, &["hint: "]);
        refused(&db(place, &["restore", "nowhere"]), 78, &["nowhere", "hint: "]);
        assert_eq!(content(place), before);
    });
}

// covers: CRAWL-DAY3-4
on_both!(fn running_server_refuses_restore_and_allows_backup);
fn running_server_refuses_restore_and_allows_backup(on: On) {
    on.run(|place| {
        let serving = crate::cli::serve(place);
        let taken = json_of(&db(place, &["backup"]));
        let path = taken["path"].as_str().unwrap().to_owned();
        let words: &[&str] = if place.database_url().is_some() {
            &["other Patra processes", "stop"]
        } else {
            &["in use by another process", "stop the server"]
        };
        refused(&db(place, &["restore", &path]), 78, words);
        drop(serving);
        if place.database_url().is_none() {
            json_of(&db(place, &["restore", &path]));
        }
    });
}

on_both!(fn migration_takes_a_backup_that_undoes_it);
/// Undoing a migration step by step as the document has it: a migration of an existing database turns out to be wrong,
/// and is undone with the copy that was taken before it.
// covers: CRAWL-DAY3-4
fn migration_takes_a_backup_that_undoes_it(on: On) {
    on.run_on_empty(|place| {
        // A database from before the first version, with data in it.
        let older = [
            "CREATE TABLE patra_migration (version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at TIME NOT NULL)",
            "CREATE TABLE precious (x text)",
            "INSERT INTO precious VALUES ('older')",
        ];
        let kind = if place.database_url().is_some() { "timestamptz" } else { "integer" };
        let data = place.folder.path().join("data");
        std::fs::create_dir_all(&data).unwrap();
        for statement in older {
            place.sql(&statement.replace("TIME", kind));
        }
        if place.database_url().is_some() {
            // Without the programs there is no copy, and no migration unless it is forced.
            let output = patra(place).env("PATH", data.display().to_string()).arg("migrate").output().unwrap();
            refused(
                &output,
                78,
                &["the backup before it failed", "pg_dump is not installed", "PATRA_MIGRATE_WITHOUT_BACKUP"],
            );
            let output = patra(place).env("PATH", data.display().to_string()).args(["db", "backup"]).output().unwrap();
            refused(&output, 78, &["pg_dump is not installed", "hint: install"]);
        }
        let output = patra(place).arg("migrate").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let copies = json_of(&db(place, &["backups"]));
        assert_eq!(
            (copies.as_array().unwrap().len(), &copies[0]["schema_version"], &copies[0]["before_migration"]),
            (1, &0.into(), &true.into())
        );
        place.sql("INSERT INTO precious VALUES ('newer')");
        // A second start has nothing to migrate, and takes no copy.
        assert!(patra(place).arg("migrate").output().unwrap().status.success());
        assert_eq!(json_of(&db(place, &["backups"])).as_array().unwrap().len(), 1);

        let restored = json_of(&db(place, &["restore", copies[0]["path"].as_str().unwrap()]));
        assert_eq!(restored["schema_version"], 0);
        let precious = match place.database_url() {
            Some(url) => psql(&url, "SELECT string_agg(x, ',') FROM precious").trim().to_owned(),
            None => {
                let database = rusqlite::Connection::open(data.join("patra.db")).unwrap();
                assert!(database.prepare("SELECT 1 FROM ing_task").is_err(), "the newer tables are gone");
                database.query_row("SELECT group_concat(x) FROM precious", [], |row| row.get(0)).unwrap()
            }
        };
        assert_eq!(precious, "older");
        // Migrating again works.
        let output = patra(place).arg("migrate").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

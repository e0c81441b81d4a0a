//! Error texts of typical mistakes, as snapshots: what failed, why, what to do.

use std::path::Path;

use crate::snapshot::{check, transcript};
use crate::support::manifest;

/// A folder with one valid and one invalid manifest.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let good = manifest("http://127.0.0.1:1");
    let wrong = good
        .replace("page_size: 50", "pagesize: 50")
        .replace("type: token", "type: tokens")
        .replace("id_path: \"$.id\"", "id_path: \"id\"")
        .replace("max_window: PT6H", "max_window: 6 hours");
    std::fs::write(folder.path().join("good.yaml"), good).unwrap();
    std::fs::write(folder.path().join("wrong.yaml"), wrong).unwrap();
    folder
}

#[track_caller]
fn snapshot(name: &str, folder: &Path, commands: &[&[&str]]) {
    let all: Vec<_> = commands.iter().map(|args| transcript(folder, args)).collect();
    check(name, &all.join("\n"));
}

#[test]
fn unknown_commands_views_and_values_suggest_the_right_one() {
    let folder = folder();
    snapshot(
        "error_unknown_word",
        folder.path(),
        &[
            &["gte"],
            &["sorce", "list"],
            &["source", "lst"],
            &["get", "taks"],
            &["get", "overvew"],
            &["get", "nonsense"],
            &["get", "tasks", "--status", "faild"],
            &["get", "tasks", "--output", "jsn"],
            &["get", "tasks", "--staus", "FAILED"],
            &["run", "far", "records", "--operation", "harvst"],
            &["run", "far", "records", "--operation", "update", "--reason", "signal"],
            &["get", "errors", "--level", "L5"],
            &["credential", "add", "x", "--type", "apikey"],
            &["key", "create", "x", "--scope", "wirte"],
            &["crawl", "list", "cokies"],
            &["pool", "list", "--scope", "efective"],
            &["serve", "--role", "planer"],
            &["resume", "sorce", "far"],
        ],
    );
}

#[test]
fn wrong_arguments_say_what_is_expected() {
    let folder = folder();
    snapshot(
        "error_wrong_argument",
        folder.path(),
        &[
            &["run", "far"],
            &["run", "far", "records", "--from", "tomorrow"],
            &["run", "far", "records", "--from", "2024-01-02", "--to", "2024-01-01"],
            &["run", "far", "records", "--concurrency", "0"],
            &["run", "far", "records", "--param", "x"],
            &["pause", "task", "x"],
            &["get", "items", "--limit", "0"],
            &["get", "schedules", "--plan", "1"],
            &["archive", "--older-than", "PT1H"],
            &["archive", "--older-than", "3d"],
            &["--allow-net", "everything", "migrate"],
            &["serve", "--listen", "nowhere"],
            &["apply", "-f", "good.yaml", "--prune"],
        ],
    );
}

#[test]
fn missing_files_folders_and_databases_say_what_to_do() {
    let folder = folder();
    std::fs::write(folder.path().join("blocked"), "a file where a folder should be").unwrap();
    snapshot(
        "error_missing",
        folder.path(),
        &[
            &["get", "items"],
            &["validate", "nowhere.yaml"],
            &["apply", "-f", "nowhere"],
            &["--data", "blocked/data", "migrate"],
            &["--database-url", "postgres://someone:hunter2@127.0.0.1:1/patra", "migrate"],
            &["--database-url", "nonsense", "migrate"],
            &["db", "restore", "nowhere.db"],
            &["health", "--url", "http://127.0.0.1:1"],
            &["health", "--url", "nonsense"],
            &["bundle", "show", "nowhere.json"],
        ],
    );
}

#[test]
fn wrong_manifests_list_every_problem_with_its_line() {
    let folder = folder();
    snapshot("error_manifest", folder.path(), &[&["validate", "wrong.yaml"], &["apply", "-f", "wrong.yaml"]]);
}

#[test]
fn names_that_do_not_exist_say_where_to_look() {
    let folder = folder();
    assert!(transcript(folder.path(), &["apply", "-f", "good.yaml"]).contains("[exit code 0]"));
    snapshot(
        "error_not_found",
        folder.path(),
        &[
            &["run", "fra", "records"],
            &["run", "far", "record"],
            &["run", "far", "records", "--set", "pagination.pagesize=5"],
            &["get", "manifest", "fra"],
            &["get", "lineage", "77"],
            &["pause", "task", "77"],
            &["resume", "source", "far"],
            &["cancel", "job", "nothing"],
            &["outbox", "retry", "77"],
            &["key", "revoke", "00000000"],
            &["source", "pause", "77"],
            &["credential", "rotate", "nobody"],
            &["quarantine", "abandon", "77"],
            &["--project", "nobody", "signal", "far", "records", "--id", "1"],
            &["replay", "1", "1"],
        ],
    );
}

/// Only one process can write to an embedded database.
#[test]
fn second_writer_exits_with_78_and_names_the_first() {
    let place = crate::support::Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    let _serving = crate::cli::serve(&place);
    let data = place.folder.path().join("data");
    let text = transcript(place.folder.path(), &["--data", &data.display().to_string(), "migrate"]);
    assert!(text.contains("[exit code 78]"), "{text}");
    check("error_second_writer", &text);
}

//! A run minds its own business: other sources' halts and other endpoints' leftovers do not concern it.

use std::process::Output;

use patra_upstream::{Dataset, MockApi, MockAuth, Script};
use serde_json::Value;

use crate::support::{On, Workspace, manifest};

const KEY: &str = "secret-of-this-test";

fn upstream(key: &str) -> MockApi {
    let auth = MockAuth::Header { name: "X-Key".into(), value: key.into() };
    let script = Script { auth, ..Script::default() };
    MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 300), script).unwrap()
}

/// The usual manifest as another source, with the credential of its name.
fn with_key(server: &MockApi, source: &str, credential: &str) -> String {
    let auth = format!("    auth: {{ type: api_key, name: X-Key, credential: {credential} }}\n    query:");
    manifest(server.base_url()).replace("provenance: far", &format!("provenance: {source}")).replacen(
        "    query:",
        &auth,
        1,
    )
}

fn add_credential(place: &Workspace, name: &str, value: &str) {
    let value = format!("apiKey={}", place.file("secret", value));
    let added = patra(place, &["credential", "add", name, "--type", "api_key", "--from-file", &value]);
    assert!(added.status.success(), "{}", text(&added));
}

/// The program with a master key, which PostgreSQL needs for credentials.
fn patra(place: &Workspace, args: &[&str]) -> Output {
    place.patra().env("PATRA_MASTER_KEY", "0123456789abcdef".repeat(4)).args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(place: &Workspace, source: &str, endpoint: &str, to: &str) -> Output {
    patra(place, &["run", source, endpoint, "--to", to, "--concurrency", "1", "-o", "json"])
}

#[track_caller]
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

on_both!(rejected_credential_halts_only_the_sources_that_use_it);
async fn rejected_credential_halts_only_the_sources_that_use_it(on: On) {
    on.run(|place| {
        let (shut, open) = (upstream("another"), upstream(KEY));
        add_credential(place, "first", KEY);
        add_credential(place, "second", KEY);
        place.apply(&with_key(&shut, "shut", "first"));
        place.apply(&with_key(&open, "open", "second"));
        let refused = run(place, "shut", "records", "2024-01-02");
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
        assert!(text(&refused).contains("patra resume hold"), "{}", text(&refused));
        assert!(place.list(&["holds"])[0]["subject"].as_str().unwrap().starts_with("credential="));

        // Everything of the other source goes on, and its cursor moves, in this run and in the next.
        let first = report(&run(place, "open", "records", "2024-01-01T12:00:00Z"));
        assert_eq!(first["cursor"], "2024-01-01T12:00:00Z", "{first}");
        let second = report(&run(place, "open", "records", "2024-01-02"));
        assert_eq!(second["cursor"], "2024-01-02T00:00:00Z", "{second}");
        assert_eq!(place.list(&["items"]).len(), open.dataset().len());

        // The halted one still says why it does not go on, and goes on once the credential works.
        let halted = run(place, "shut", "records", "2024-01-02");
        assert_eq!(halted.status.code(), Some(1), "{}", text(&halted));
        assert!(text(&halted).contains("the work is halted (BREAK, credential="), "{}", text(&halted));
        shut.script().update(|script| {
            script.auth = MockAuth::Header { name: "X-Key".into(), value: KEY.into() };
        });
        let hold = place.list(&["holds"])[0]["id"].to_string();
        assert!(place.run(&["resume", "hold", &hold]).status.success());
        let resumed = report(&run(place, "shut", "records", "2024-01-02"));
        assert_eq!(resumed["cursor"], "2024-01-02T00:00:00Z", "{resumed}");
    });
}

on_both!(queued_tasks_use_the_credential_that_the_manifest_names_now);
async fn queued_tasks_use_the_credential_that_the_manifest_names_now(on: On) {
    on.run(|place| {
        let server = upstream(KEY);
        add_credential(place, "shared", "wrong");
        place.apply(&with_key(&server, "open", "shared"));
        let refused = run(place, "open", "records", "2024-01-02");
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
        let waiting = place.list(&["tasks"]).iter().filter(|task| task["status_code"] == "QUEUED").count();
        assert!(waiting > 0, "some of its tasks wait");

        add_credential(place, "own", KEY);
        place.apply(&with_key(&server, "open", "own"));
        let hold = place.list(&["holds"])[0]["id"].to_string();
        assert!(place.run(&["resume", "hold", &hold]).status.success());
        let before = server.stats().r401;
        let resumed = report(&run(place, "open", "records", "2024-01-02"));
        assert_eq!(resumed["cursor"], "2024-01-02T00:00:00Z", "{resumed}");
        assert_eq!(server.stats().r401, before, "the old key is not sent again");
        assert_eq!(place.list(&["holds"]).len(), 1, "and halts nobody");
    });
}

/// Two endpoints of one source.
fn two(server: &MockApi) -> String {
    let one = manifest(server.base_url());
    let (head, endpoint) = one.split_once("  records:").unwrap();
    format!("{head}  records:{endpoint}  others:{endpoint}")
}

on_both!(run_leaves_the_work_of_other_endpoints_alone);
async fn run_leaves_the_work_of_other_endpoints_alone(on: On) {
    on.run(|place| {
        let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 300), Script::default()).unwrap();
        place.apply(&two(&server));
        let queued = place.run(&["run", "far", "others", "--to", "2024-01-02", "--no-wait"]);
        assert!(queued.status.success(), "{}", text(&queued));
        let first = report(&run(place, "far", "records", "2024-01-01T06:00:00Z"));
        let pages = first["pages"].as_u64().unwrap();
        assert_eq!(place.list(&["batches"]).len() as u64, pages, "{first}");
        assert!(place.list(&["tasks"]).iter().all(|task| task["endpoint_name"] == "records"));
        let jobs = place.list(&["jobs"]);
        let other = jobs.iter().find(|job| job["endpoint_name"] == "others").unwrap();
        assert_eq!(other["status_code"], "REQUESTED", "{other}");

        // Its own leftovers are what a run waits for, so it runs and counts them.
        let own = place.run(&["run", "far", "records", "--to", "2024-01-01T12:00:00Z", "--no-wait"]);
        assert!(own.status.success(), "{}", text(&own));
        let second = report(&run(place, "far", "records", "2024-01-01T18:00:00Z"));
        assert_eq!(second["cursor"], "2024-01-01T18:00:00Z", "{second}");
        assert_eq!(place.list(&["batches"]).len() as u64, pages + second["pages"].as_u64().unwrap());
        let third = report(&run(place, "far", "others", "2024-01-02"));
        assert_eq!(third["cursor"], "2024-01-02T00:00:00Z", "{third}");
    });
}

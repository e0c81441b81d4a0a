//! Selection of credentials and master keys, and the errors without one.

use super::*;
use crate::support::http;

fn header(value: &str) -> Script {
    with(MockAuth::Header { name: "X-Key".into(), value: value.into() })
}

const KEY: &str = "{ type: api_key, name: X-Key }";

#[track_caller]
fn fails(output: &Output, exit: i32, parts: &[&str]) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(exit), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains("panicked") && !text.contains(CANARY), "{text}");
}

// covers: ING-3.6-03
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_fatal_and_says_so() {
    let (server, place) = (upstream(header("canary-right")), Workspace::sqlite());
    place.apply(&manifest(&server, KEY));
    add(&place, "api_key", "canary-wrong");
    fails(&collect(&place, &[]), 1, &["slices failed", "patra credential rotate far", "patra credential add"]);
    let task = &place.list(&["tasks"])[0];
    assert_eq!((&task["error"]["code"], &task["error"]["level"]), (&"UPSTREAM_AUTH_FAILED".into(), &"L4".into()));
    assert_eq!(task["attempt_count"], 1, "it is not tried again: {task}");
    assert!(succeeds(&place.run(&["credential", "list"])).contains("REJECTED"));

    succeeds(&fed(&place, &["credential", "rotate", "far"], "canary-right"));
    collects_all(&place, &server, &[]);
}

// covers: ING-4.2-02, ING-3.6-03
#[tokio::test(flavor = "multi_thread")]
async fn without_a_credential_no_request_is_sent_unless_allowed() {
    let (server, place) = (upstream(Script::default()), Workspace::sqlite());
    place.apply(&manifest(&server, KEY));
    let output = collect(&place, &[]);
    fails(&output, 1, &["patra credential add far --type api_key --provenance far"]);
    assert_eq!(place.list(&["tasks"])[0]["error"]["code"], "NOT_CONFIGURED");
    assert_eq!(server.stats().data_requests, 0);

    place.apply(&manifest(&server, "{ type: api_key, name: X-Key, required: false }"));
    collects_all(&place, &server, &[]);
}

// covers: MAP-X-07, G-15, C-59
#[tokio::test(flavor = "multi_thread")]
async fn another_credential_of_the_source_takes_over() {
    let (server, place) = (upstream(header("canary-spare")), Workspace::sqlite());
    place.apply(&manifest(&server, KEY));
    add(&place, "api_key", "canary-old");
    let args = ["credential", "add", "spare", "--type", "api_key", "--provenance", "far", "--priority", "500"];
    succeeds(&fed(&place, &args, "canary-spare"));
    // A credential of another source is not used.
    let args = ["credential", "add", "other", "--type", "api_key", "--provenance", "near"];
    succeeds(&fed(&place, &args, "canary-other"));
    collects_all(&place, &server, &[]);
    let tasks = place.list(&["tasks"]);
    assert!(tasks.iter().all(|task| task["status_code"] == "SUCCEEDED"));
    let batches = place.list(&["batches"]);
    assert!(batches.iter().all(|batch| batch["request_digest"]["credentialId"] == 2), "{batches:?}");
    assert!(server.stats().r401 <= 4, "a rejected key is not asked about with every page: {:?}", server.stats());
    assert_eq!(place.list(&["credential-states"]).len(), 1);
}

/// The key is rotated while a plan is in progress, and another plan is made after it.
// covers: C-59, ING-5.9-05
#[tokio::test(flavor = "multi_thread")]
async fn rotated_key_applies_to_new_plans_only() {
    let (server, place) = (upstream(Script { latency_ms: 300, ..Script::default() }), Workspace::sqlite());
    place.apply(&manifest(&server, KEY));
    add(&place, "api_key", "canary-old");
    let first = ["run", "far", "records", "--to", "2024-01-01T12:00:00Z", "--concurrency", "1", "--lease-secs", "2"];
    let mut child = place.patra().args(first).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while server.stats().data_requests < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let plan = place.list(&["plans"])[0]["id"].clone();
    assert!(place.list(&["tasks"]).iter().any(|task| task["status_code"] != "SUCCEEDED"), "it is still open");

    succeeds(&fed(&place, &["credential", "rotate", "far", "--provenance", "far"], "canary-new"));
    server.script().update(|script| script.latency_ms = 0);
    succeeds(&place.run(&first));
    succeeds(&place.run(&["run", "far", "records", "--to", "2024-01-02"]));
    let of = |batch: &serde_json::Value| batch["request_digest"]["credentialId"].as_i64();
    let (old, new): (Vec<_>, Vec<_>) = place.list(&["batches"]).into_iter().partition(|batch| batch["plan_id"] == plan);
    assert!(old.len() > 1 && old.iter().all(|batch| of(batch) == Some(1)), "{old:?}");
    assert!(!new.is_empty() && new.iter().all(|batch| of(batch) == Some(2)), "{new:?}");
}

// covers: MAP-X-19
#[tokio::test(flavor = "multi_thread")]
async fn key_is_fixed_per_task_and_cookies_rotate() {
    let used = |auth: &str, kind: &str| {
        let (server, place) = (upstream(Script::default()), Workspace::sqlite());
        place.apply(&manifest(&server, auth));
        add(&place, kind, "canary=one");
        succeeds(&fed(&place, &["credential", "add", "two", "--type", kind, "--provenance", "far"], "canary=two"));
        collects_all(&place, &server, &[]);
        let ids = |rows: Vec<serde_json::Value>, id: fn(&serde_json::Value) -> Option<i64>| {
            rows.iter().map(id).collect::<std::collections::BTreeSet<_>>()
        };
        let planned = ids(place.list(&["tasks"]), |task| task["credential_id"].as_i64());
        let sent = ids(place.list(&["batches"]), |batch| batch["request_digest"]["credentialId"].as_i64());
        (planned, sent)
    };
    let (planned, sent) = used("{ type: api_key, name: X-Key }", "api_key");
    assert_eq!((planned, sent), ([Some(1)].into(), [Some(1)].into()));
    let (planned, sent) = used("{ type: cookie }", "cookie");
    assert_eq!((planned, sent), ([None].into(), [Some(1), Some(2)].into()));
}

// covers: C-38
#[tokio::test(flavor = "multi_thread")]
async fn status_403_rejects_the_credential_only_if_the_manifest_says_so() {
    for (declared, code) in [("", "PLATFORM_ERROR"), (", credential_status: [403]", "UPSTREAM_AUTH_FAILED")] {
        let script = Script { auth_status: 403, ..header("canary-right") };
        let (server, place) = (upstream(script), Workspace::sqlite());
        place.apply(&manifest(&server, &format!("{{ type: api_key, name: X-Key{declared} }}")));
        add(&place, "api_key", "canary-wrong");
        assert_eq!(collect(&place, &[]).status.code(), Some(1));
        assert_eq!(place.list(&["tasks"])[0]["error"]["code"], code);
    }
}

// covers: MAP-C-03
#[tokio::test(flavor = "multi_thread")]
async fn master_key_is_created_next_to_the_database_and_required_to_open() {
    let (server, place) = (upstream(header("canary-key")), Workspace::sqlite());
    place.apply(&manifest(&server, KEY));
    let file = place.folder.path().join("data/master.key");
    assert!(!file.exists(), "no command has needed it yet");
    add(&place, "api_key", "canary-key");
    assert!(is_private(&file));
    let key = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let output = collect(&place, &[]);
    fails(&output, 1, &["PATRA_MASTER_KEY"]);
    assert!(!text(&output).contains(key.trim()), "the key itself is shown");

    std::fs::write(&file, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    fails(&collect(&place, &[]), 1, &["which is not given"]);
    std::fs::write(&file, "no key").unwrap();
    fails(&collect(&place, &[]), 78, &["master.key is not a master key", "openssl rand -base64 32"]);
    std::fs::remove_file(&file).unwrap();

    let elsewhere = place.file("elsewhere.key", &key);
    collects_all(&place, &server, &["--master-key-file", &elsewhere]);
    let output =
        place.patra().env("PATRA_MASTER_KEY", key.trim()).args(["credential", "check", "far"]).output().unwrap();
    assert!(succeeds(&output).contains("far can be decrypted: version 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgresql_the_master_key_must_be_given() {
    let Some(place) = Workspace::postgres() else { return };
    let output = fed(&place, &["credential", "add", "far", "--type", "bearer"], "canary-token");
    fails(&output, 78, &["need a master key", "PATRA_MASTER_KEY=$(openssl rand -base64 32)"]);
}

// covers: ING-3.8-01
#[test]
fn values_come_from_stdin_the_environment_and_files_and_never_from_the_command_line() {
    let place = Workspace::sqlite();
    let file = place.file("secret", "canary-file\r\n");
    let add = ["credential", "add", "both", "--type", "oauth2", "--from-env", "clientId=ID", "--from-file"];
    let mut command = place.patra();
    command.env("ID", "canary-id").args(add).arg(format!("client_secret={file}"));
    succeeds(&command.output().unwrap());
    fails(&fed(&place, &add[..7], ""), 64, &["variable ID is not set"]);
    fails(&fed(&place, &["credential", "add", "x", "--type", "bearer"], ""), 64, &["stdin is empty"]);
    fails(&fed(&place, &["credential", "add", "x", "--type", "oauth2"], "canary"), 64, &["needs named values"]);
    fails(
        &fed(&place, &["credential", "add", "x", "--type", "oauth2"], "{\"a\": [\"canary\"]}"),
        64,
        &["not a JSON object"],
    );
    fails(
        &fed(&place, &["credential", "add", "x", "--type", "basic"], "{\"username\": \"canary\"}"),
        64,
        &["`password`"],
    );
    fails(&fed(&place, &["credential", "add", "x", "--type", "magic"], ""), 64, &["one of: api_key, bearer"]);
    fails(
        &fed(&place, &["credential", "add", "X Y", "--type", "bearer"], "canary"),
        64,
        &["an alias has small letters"],
    );
    fails(&fed(&place, &["credential", "add", "both", "--type", "bearer"], "canary"), 64, &["already", "rotate both"]);
    fails(&fed(&place, &["credential", "rotate", "none"], "canary"), 78, &["no credential `none`"]);
    fails(&fed(&place, &["credential", "revoke", "none"], ""), 78, &["credential list"]);
    let long = "canary".repeat(20_000);
    fails(&fed(&place, &["credential", "add", "x", "--type", "bearer"], &long), 64, &["more than 65536 bytes"]);

    let one = ["credential", "add", "both", "--type", "bearer", "--provenance", "far"];
    succeeds(&fed(&place, &one, "canary"));
    fails(&fed(&place, &["credential", "revoke", "both"], ""), 64, &["several", "*/*, far/*", "--provenance"]);
    succeeds(&fed(&place, &["credential", "revoke", "both", "--provenance", "far"], ""));
    let listed: Vec<serde_json::Value> =
        String::from_utf8(fed(&place, &["credential", "list", "-o", "ndjson"], "").stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
    let shown: Vec<_> = listed.iter().map(|row| (row["alias"].as_str(), row["status"].as_str())).collect();
    assert_eq!(shown, [(Some("both"), Some("REVOKED")), (Some("both"), Some("ACTIVE"))]);
    shows_nothing(&place);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_is_missing_or_fails_stops_the_source() {
    let (server, place) = (upstream(with(MockAuth::Signed)), Workspace::sqlite());
    place.apply(&manifest(&server, "{ type: custom, signing_hook: far.hmac }"));
    add(&place, "custom", r#"{"account": "canary"}"#);
    fails(&collect(&place, &[]), 1, &["--signer far.hmac=URL", "PATRA_SIGNER_FAR_HMAC=URL"]);
    assert_eq!(place.list(&["tasks"])[0]["error"]["level"], "L4");
    server.script().update(|script| script.signing.token = Some("canary-signer".into()));
    let signer = format!("far.hmac={}/sign", server.base_url());
    fails(
        &collect(&place, &["--signer", &signer]),
        1,
        &["the signing hook `far.hmac` failed: the signer returned 401"],
    );
    fails(&collect(&place, &["--signer", "far.hmac=nonsense"]), 78, &["cannot use the signer `far.hmac`"]);
    assert_eq!(server.stats().data_requests, 0);

    server.script().update(|script| script.signing.token = None);
    let signer = format!("{}/sign", server.base_url());
    let held = place.list(&["holds"]);
    assert_eq!((&held[0]["kind_code"], &held[0]["subject"]), (&"BREAK".into(), &"credential=1".into()));
    succeeds(&place.run(&["resume", "hold", "1"]));
    let mut command = place.patra();
    succeeds(&command.env("PATRA_SIGNER_FAR_HMAC", signer).arg("run").args(ALL).output().unwrap());
}

// covers: ING-4.2-10
#[tokio::test(flavor = "multi_thread")]
async fn try_shows_the_request_and_not_its_secrets() {
    let script = with(MockAuth::Query { name: "key".into(), value: "canary key".into() });
    let (server, place) = (upstream(script), Workspace::sqlite());
    let text = manifest(&server, "{ type: api_key, location: query, name: key }");
    let file = place.file("far.yaml", &text);
    place.apply(&text);
    add(&place, "api_key", "canary key");
    let shown = succeeds(&place.run(&["try", &file, "--from", "2024-01-01", "--to", "2024-01-02"]));
    assert!(shown.contains("***") && shown.contains("200"), "{shown}");
}

// covers: ING-3.8-01
#[tokio::test(flavor = "multi_thread")]
async fn credential_added_over_http_is_used_by_the_same_process() {
    let (server, place) = (upstream(header("canary-key")), Workspace::sqlite());
    place.apply(&manifest(&server, KEY));
    let key = String::from_utf8(place.run(&["key", "create", "test", "--scope", "admin"]).stdout).unwrap();
    let log = place.folder.path().join("log");
    let mut child = place
        .patra()
        .env("RUST_LOG", "trace")
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let address = loop {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let text = std::fs::read_to_string(&log).unwrap();
        if let Some((_, rest)) = text.split_once("the API listens address=") {
            break rest.split_whitespace().next().unwrap().to_owned();
        }
    };
    let url = |path: &str| format!("http://{address}/api/v1/{path}");
    let body = r#"{"alias":"far","provenance":"far","type":"api_key","secret":"canary-key"}"#;
    let (status, answer) = http(&url("credentials"), Some(key.trim()), Some(body));
    assert_eq!(status, 201, "{answer}");
    let job = r#"{"provenance":"far","endpoint":"records","to":"2024-01-02T00:00:00Z","public_id":"j"}"#;
    assert_eq!(http(&url("jobs"), Some(key.trim()), Some(job)).0, 202);
    let finished = loop {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let (_, answer) = http(&url("jobs/j"), Some(key.trim()), None);
        if answer["meta"]["finished"] == true {
            break answer;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(finished["data"]["inserted"], server.dataset().len(), "{finished}");
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("audit: a credential was put in") && !log.contains(CANARY), "{log}");
    assert!(is_private(&place.folder.path().join("data/master.key")));
    shows_nothing(&place);
}

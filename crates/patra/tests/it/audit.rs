//! Secrets and backups: `patra audit`, masked logs, and copies of the database.

mod copies;

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use patra_upstream::{Dataset, MockApi, MockAuth, Script};

use crate::support::{On, Workspace, manifest};

/// Part of every secret of these tests, and of no output.
const CANARY: &str = "canary-0300379a";

/// The program with a fixed master key: on PostgreSQL none is created.
fn patra(place: &Workspace) -> std::process::Command {
    let mut command = place.patra();
    let key = "0d".repeat(3) + &"7f3a91c2b45e60d8".repeat(3) + "1122334455";
    command.env("PATRA_MASTER_KEY", key);
    command.current_dir(place.folder.path());
    command
}

fn fed(place: &Workspace, args: &[&str], stdin: &str) -> Output {
    use std::io::Write as _;
    let mut command = patra(place);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn cookie(place: &Workspace) {
    let value = format!("a1=18c2; web_session={CANARY}");
    let output = fed(place, &["credential", "add", "acct-1", "--type", "cookie", "--provenance", "far"], &value);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[track_caller]
fn read(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains(CANARY), "a finding shows the secret: {text}");
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code() == Some(0), report["passed"] == true, "{report}");
    report
}

#[track_caller]
fn audit(place: &Workspace, args: &[&str]) -> Value {
    read(&patra(place).args(["audit", "security"]).args(args).output().unwrap())
}

#[track_caller]
fn passes(place: &Workspace, args: &[&str]) -> Value {
    let report = audit(place, args);
    assert_eq!(
        (&report["passed"], &report["critical"], &report["high"]),
        (&true.into(), &0.into(), &0.into()),
        "{report:#}"
    );
    report
}

/// Checks that the audit fails with a finding of this level at a place with this name.
#[track_caller]
fn finds(place: &Workspace, args: &[&str], level: &str, at: &str) {
    let report = audit(place, args);
    let findings = report["findings"].as_array().unwrap();
    let is_it = |one: &&Value| one["level"] == level && one["where"].as_str().unwrap().contains(at);
    assert!(findings.iter().any(|one| is_it(&one)), "no {level} finding at {at}: {report:#}");
    assert_eq!(report["passed"], report["critical"] == 0 && report["high"] == 0);
}

// covers: CRAWL-154, CRAWL-155, CRAWL-RULE-7, CRAWL-DAY1-5
on_both!(fn audit_passes_on_a_clean_database_and_fails_on_a_planted_cookie);
fn audit_passes_on_a_clean_database_and_fails_on_a_planted_cookie(on: On) {
    on.run(|place| {
        place.apply(&manifest("http://127.0.0.1:1"));
        cookie(place);
        let report = passes(place, &[]);
        assert_eq!((&report["checked"]["cookies"], &report["checked"]["credentials"]), (&1.into(), &0.into()));
        assert!(report["checked"]["rows"].as_u64() > Some(10), "{report:#}");
        // The changes are undone one by one, which is faster than a copy of the place for each.
        let plant = |statement: &str, undo: &str, level: &str, at: &str| {
            place.sql(statement);
            finds(place, &[], level, at);
            place.sql(undo);
            passes(place, &[]);
        };
        let config = |value: &str| {
            format!("INSERT INTO config (config_key, config_value, updated_at) VALUES ('x', '{value}', {})", now(place))
        };
        let gone = "DELETE FROM config WHERE config_key = 'x'";
        // A stored cookie anywhere in the data, and text that looks like a cookie.
        plant(&config(&format!("before {CANARY} after")), gone, "critical", "config.config_value config_key=x");
        plant(&config("web_session=something-else"), gone, "critical", "config.config_value");
        plant(&config("Authorization: Bearer abcdef123456"), gone, "critical", "config.config_value");
        plant(&config(r#"{"cookie_value":"something"}"#), gone, "critical", "config.config_value");
        let snapshot = format!(
            "INSERT INTO ing_snapshot (hash, body, created_at) VALUES ('h', '{{\"headers\":{{\"X\":\"{CANARY}\"}}}}', {})",
            now(place)
        );
        plant(&snapshot, "DELETE FROM ing_snapshot WHERE hash = 'h'", "critical", "ing_snapshot.body hash=h");
        // After the first page of a table, by a key of two columns, and in bytes.
        let bytes = if place.database_url().is_some() { "bytea" } else { "BLOB" };
        let many = format!(
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1200)
             INSERT INTO ing_raw (run_id, batch_no, status, headers, body, created_at, expires_at)
             SELECT x / 7, x, 200, '{{}}', CAST(CASE x WHEN 1200 THEN '{CANARY}' ELSE 'web_session=of-a-story' END AS {bytes}), {at}, {at} FROM n",
            at = now(place)
        );
        plant(&many, "DELETE FROM ing_raw WHERE batch_no = 1200", "critical", "ing_raw.body run_id=171 batch_no=1200");
        // A placeholder for a secret is not a finding.
        place.sql(&config("Authorization: Bearer ${ credential.token }"));
        passes(place, &[]);
        // The cookie in plaintext, and one that was moved to another name.
        place.sql("CREATE TABLE kept AS SELECT sealed, alias FROM reg_prov_credential");
        let back =
            "UPDATE reg_prov_credential SET sealed = (SELECT sealed FROM kept), alias = (SELECT alias FROM kept)";
        plant(
            &format!("UPDATE reg_prov_credential SET sealed = 'web_session={CANARY}'"),
            back,
            "critical",
            "reg_prov_credential.sealed id=1",
        );
        plant("UPDATE reg_prov_credential SET alias = 'acct-2'", back, "critical", "reg_prov_credential.sealed id=1");
        let state = "UPDATE ing_credential_state SET sealed = 'clear-token'";
        let insert = format!(
            "INSERT INTO ing_credential_state (credential_id, status_code, updated_at) SELECT 1, 'ACTIVE', {} WHERE NOT EXISTS (SELECT 1 FROM ing_credential_state)",
            now(place)
        );
        place.sql(&insert);
        plant(state, "UPDATE ing_credential_state SET sealed = NULL", "critical", "ing_credential_state.sealed");
    });
}

/// A time in the format of the database.
fn now(place: &Workspace) -> &'static str {
    if place.database_url().is_some() { "now()" } else { "0" }
}

// covers: CRAWL-155
#[test]
fn missing_wrong_or_weak_master_key_is_an_audit_finding() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    cookie(&place);
    let with = |name: &str, value: &str| {
        let mut command = place.patra();
        command.current_dir(place.folder.path()).env(name, value).args(["audit", "security"]);
        read(&command.output().unwrap())
    };
    for (name, value, level, check) in [
        ("RUST_LOG", "error", "high", "master_key"),
        ("PATRA_MASTER_KEY", &"5e".repeat(32) as &str, "high", "master_key"),
        ("PATRA_MASTER_KEY", &"5e".repeat(32), "high", "weak_key"),
        ("PATRA_MASTER_KEY", "short", "critical", "weak_key"),
        ("COOKIE_MASTER_KEY", "short", "critical", "weak_key"),
        ("COOKIE_MASTER_KEY", &"x".repeat(40), "high", "weak_key"),
        ("PATRA_PUBLIC_READ", "1", "medium", "authentication"),
        ("PATRA_LISTEN", "0.0.0.0:80", "medium", "listen"),
    ] {
        let report = with(name, value);
        let is_it = |one: &Value| one["level"] == level && one["check"] == check && one["hint"] != "";
        assert!(report["findings"].as_array().unwrap().iter().any(is_it), "{name}={value}: {report:#}");
        assert!(!report.to_string().contains("5e5e5e") && !report.to_string().contains("xxxx"), "{report}");
    }
}

// covers: CRAWL-155, CRAWL-152
#[test]
fn audit_checks_logs_workflows_and_settings() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    cookie(&place);
    let log = |text: &str| place.file("server.log", text);
    let quiet =
        log("INFO serving\nWARN a cookie is worn cookie=\"acct-1\" before=active\nnext_token=abcdefgh tokens=3\n");
    assert_eq!(passes(&place, &["--logs", &quiet])["checked"]["log_files"], 1);
    for line in [
        format!("x {CANARY} y"),
        "web_session=abcdefgh".into(),
        "Cookie: a=bcdefgh".into(),
        "Authorization: Bearer abcdefgh".into(),
    ] {
        let path = log(&format!("INFO one\n{line}\n"));
        finds(&place, &["--logs", &path], "critical", "server.log:2");
        finds(&place, &["--logs", &place.folder.path().display().to_string()], "critical", "server.log:2");
    }
    finds(&place, &["--logs", &log(r#"{"token":"abcdefgh"}"#)], "high", "server.log:1");
    // Masked: the audit passes, and reports that the mask was needed.
    finds(&place, &["--logs", &log("web_session=***REDACTED***")], "medium", "server.log:1");

    let flows = place.folder.path().join("flows");
    std::fs::create_dir(&flows).unwrap();
    let flow = |text: &str| std::fs::write(flows.join("wf.json"), text).unwrap();
    let folder = flows.display().to_string();
    flow(
        r#"{"nodes":[{"parameters":{"headerParameters":{"parameters":[{"name":"Authorization","value":"=Bearer {{ $json.token }}"}]},
        "jsCode":"const token = $input.first().json.token; const password = process.env.PASSWORD;"},
        "credentials":{"httpHeaderAuth":{"id":"1","name":"Patra API key"}}}]}"#,
    );
    log("");
    assert_eq!(passes(&place, &["--workflows", &folder])["checked"]["workflow_files"], 1);
    for (text, level, at) in [
        (r#"{"a":[{"name":"Authorization","value":"=Bearer abcdef123"}]}"#.to_owned(), "critical", "$.a[0]"),
        (format!(r#"{{"keyword":"{CANARY}"}}"#), "critical", "wf.json"),
        (r#"{"jsCode":"const headers = { 'Cookie': 'web_session=abcdefgh' };"}"#.to_owned(), "critical", "$.jsCode"),
        (r#"{"parameters":{"password":"hunter22"}}"#.to_owned(), "high", "$.parameters.password"),
    ] {
        flow(&text);
        finds(&place, &["--workflows", &folder], level, at);
    }

    let settings =
        place.file("patra.env", "PATRA_DATA=/var/lib/patra\nCOOKIE_MASTER_KEY=tN3vK8rQ0zL5yH2mB7xC4wJ9pF6sD1gA\n");
    set_mode(Path::new(&settings), 0o640);
    finds(&place, &["--config", &settings], "high", "patra.env");
    set_mode(Path::new(&settings), 0o600);
    assert_eq!(passes(&place, &["--config", &settings])["checked"]["config_files"], 1);
    place.file("patra.env", &format!("SESSION=web_session={CANARY}\n"));
    finds(&place, &["--config", &settings], "high", "patra.env:1");
    // A .env next to the program is checked without being named.
    let own = place.file(".env", "PATRA_API_TOKEN=x\n");
    set_mode(Path::new(&own), 0o644);
    finds(&place, &[], "high", ".env");
    assert_eq!(
        patra(&place).args(["audit", "security", "--logs", "nowhere"]).output().unwrap().status.code(),
        Some(78)
    );
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

// covers: CRAWL-155
#[test]
fn files_are_private_to_their_owner_even_while_a_server_runs() {
    let place = Workspace::sqlite();
    // The key that the first credential creates, next to the database.
    let value = format!("web_session={CANARY}");
    let output = {
        use std::io::Write as _;
        let mut command = place.patra();
        command
            .args(["credential", "add", "acct-1", "--type", "cookie", "--provenance", "far"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    assert!(output.status.success());
    let serving = crate::cli::serve(&place);
    let data = place.folder.path().join("data");
    let look = || read(&place.patra().current_dir(place.folder.path()).args(["audit", "security"]).output().unwrap());
    let report = look();
    assert!(report["passed"] == true && report["checked"]["files"].as_u64() >= Some(5), "{report:#}");
    for name in ["patra.db", "patra.db-wal", "patra.db-shm", "master.key", ""] {
        let path = if name.is_empty() { data.clone() } else { data.join(name) };
        set_mode(&path, if name.is_empty() { 0o755 } else { 0o644 });
        let report = look();
        assert_eq!((&report["passed"], &report["high"]), (&false.into(), &1.into()), "{name}: {report:#}");
        set_mode(&path, if name.is_empty() { 0o700 } else { 0o600 });
    }
    assert_eq!(look()["passed"], true);
    drop(serving);
}

// covers: CRAWL-152
#[tokio::test(flavor = "multi_thread")]
async fn trace_level_logs_no_cookie_in_either_format() {
    for format in ["text", "json"] {
        let place = Workspace::sqlite();
        let auth = MockAuth::Cookie { name: "web_session".into(), value: CANARY.into() };
        let server =
            MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 300), Script { auth, ..Script::default() })
                .unwrap();
        let with_cookie = manifest(server.base_url())
            .replace("    query:", "    auth: { type: cookie, credential: acct-1 }\n    query:");
        place.apply(&with_cookie);
        cookie(&place);
        let mut command = patra(&place);
        command.env("RUST_LOG", "trace").args(["--log-format", format, "run", "far", "records", "--to", "2024-01-02"]);
        let output = command.output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{log}");
        assert!(log.len() > 1_000, "nothing was logged");
        assert!(!log.contains(CANARY) && !log.contains("web_session="), "{format}");
        let path = place.file("run.log", &log);
        passes(&place, &["--logs", &path]);
    }
}

/// A cookie reaches the logger: here, as a setting that is not a number and is quoted in a warning.
// covers: CRAWL-149, CRAWL-150, CRAWL-151
#[test]
fn logged_cookie_is_masked_in_either_format() {
    let place = Workspace::sqlite();
    for format in ["text", "json"] {
        let quoted = format!(r#"web_session={CANARY}; "cookie_value": "{CANARY}"; Bearer {CANARY}; a1={CANARY}"#);
        let mut command = patra(&place);
        command.env("RUST_LOG", "trace").env("FETCH_INTERVAL_RSS", quoted).args(["--log-format", format, "collect"]);
        let output = command.output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(!log.contains(CANARY), "{format}: {log}");
        for masked in ["web_session=***REDACTED***", "Bearer ***REDACTED***", "a1=***REDACTED***"] {
            assert!(log.contains(masked), "{masked} is not in {format}: {log}");
        }
        let member = log.replace('\\', "").contains(r#""cookie_value": "***REDACTED***""#);
        assert!(member, "{format}: {log}");
    }
}

// covers: CRAWL-151
#[test]
fn errors_that_quote_a_secret_are_masked() {
    let place = Workspace::sqlite();
    place.apply(&manifest("http://127.0.0.1:1"));
    let output = place.run(&["get", "tasks", "--status", &format!("web_session={CANARY}")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(64) && text.to_lowercase().contains("web_session=***redacted***"), "{text}");
}

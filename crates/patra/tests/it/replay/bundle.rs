//! Diagnostic bundles: signed, recorded, valid for a while, and sufficient for a replay elsewhere.

use serde_json::Value;

use super::{RUN, SECRET, code, dump::dump, keeping, line, locked, upstream, with_echo};
use crate::support::{On, Workspace};
use patra_upstream::Script;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Exports a batch and returns the package.
#[track_caller]
fn export(place: &Workspace, batch: &Value, options: &[&str]) -> (String, Value) {
    let (run, no) = (batch["run_id"].to_string(), batch["batch_no"].to_string());
    let args = ["bundle", "export", &run, &no, "--reason", "ticket 7", "--by", "ann"];
    let output = place.patra().env("PATRA_MASTER_KEY", KEY).args(args).args(options).output().unwrap();
    code(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let package = serde_json::from_str(&text).unwrap_or_default();
    (text, package)
}

// covers: ING-DOD-25, ING-14.11-04, ING-14.9-01, ING-14.9-02, ING-14.9-03, ING-14.9-04, ING-14.9-05, ING-14.9-06, ING-14.10-04, G-14
on_both!(bundle_has_all_evidence_is_recorded_and_replays_elsewhere);
async fn bundle_has_all_evidence_is_recorded_and_replays_elsewhere(on: On) {
    on.run(|place| {
        let server = upstream(Script::default());
        place.apply(&keeping(server.base_url()));
        code(&place.run(&RUN), 0);
        drop(server);
        let before = dump(place);
        let batches = place.list(&["batches"]);
        let last = batches.iter().find(|batch| batch["has_next"] == 0).unwrap();
        let (text, package) = export(place, last, &["--with-raw"]);
        for (section, member) in [
            ("keys", "sliceSignatureHash"),
            ("keys", "exprHash"),
            ("keys", "specFingerprint"),
            ("request", "template"),
            ("request", "digest"),
            ("response", "status"),
            ("response", "itemsPath"),
            ("response", "next"),
            ("response", "bodyHash"),
            ("processing", "stats"),
            ("processing", "selfHealing"),
            ("ledger", "plan"),
            ("snapshot", "body"),
            ("export", "reason"),
        ] {
            assert!(!package[section][member].is_null(), "{section}.{member} is missing: {package}");
        }
        assert!(package["response"]["sampleText"].as_str().unwrap().len() <= 1_024);
        assert_eq!(package["processing"]["decisions"]["samples"].as_array().unwrap().len(), 3);
        let event = &package["cursor"][0];
        assert!(!event["new_value"].is_null() && event["run_id"] == package["keys"]["runId"], "{package}");

        let at = |member: &str| package["export"][member].as_str().unwrap().parse::<patra_core::Ts>().unwrap();
        assert_eq!(at("expiresAt").since(at("createdAt")).as_secs(), 7 * 86_400);
        let exports = place.list(&["exports"]);
        assert_eq!(exports.len(), 1);
        assert_eq!((&exports[0]["created_by"], &exports[0]["reason"]), (&"ann".into(), &"ticket 7".into()));
        let of = |text: &str| {
            text.lines().filter(|line| !line.contains("ing_export")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of(&before), of(&dump(place)), "an export writes its own row and nothing else");

        let empty = Workspace::sqlite();
        let file = empty.file("package.json", &text);
        let shown = empty.patra().env("PATRA_MASTER_KEY", KEY).args(["bundle", "show", &file]).output().unwrap();
        let shown = code(&shown, 0);
        assert!(shown.contains("by ann") && shown.contains("ticket 7") && shown.contains("SUCCEEDED"), "{shown}");
        let again = empty
            .patra()
            .env("PATRA_MASTER_KEY", KEY)
            .args(["replay", "--file", &file, "-o", "json"])
            .output()
            .unwrap();
        code(&again, 0);
        let report: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(report["verdict"], "SAME", "{report}");
        for what in ["request", "itemsCount", "nextHint", "rows", "body hash"] {
            assert_eq!(line(&report, what)["result"], "same");
        }
        assert!(!empty.folder.path().join("data").exists(), "no database was made for it");
    });
}

// covers: ING-DOD-25, ING-14.0-01
#[tokio::test(flavor = "multi_thread")]
async fn bundle_of_a_failed_batch_fails_the_same_way_elsewhere() {
    let place = Workspace::sqlite();
    let server = upstream(locked());
    place.apply(&keeping(server.base_url()));
    code(&place.run(&RUN), 1);
    drop(server);
    let batch = &place.list(&["batches", "--status", "FAILED"])[0];
    let (text, package) = export(&place, batch, &["--with-raw"]);
    assert_eq!(package["processing"]["error"]["level"], "L4");
    let empty = Workspace::sqlite();
    let file = empty.file("package.json", &text);
    let output = empty.patra().env("PATRA_MASTER_KEY", KEY).args(["replay", "--file", &file, "-o", "json"]).output();
    let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!((&report["verdict"], &report["cause"]["reproduced"]), (&"SAME".into(), &true.into()), "{report}");
}

// covers: G-14, ING-14.10-04
#[tokio::test(flavor = "multi_thread")]
async fn changed_or_unverifiable_bundle_is_refused() {
    let place = Workspace::sqlite();
    let server = upstream(Script::default());
    place.apply(&keeping(server.base_url()));
    code(&place.run(&RUN), 0);
    let batch = &place.list(&["batches"])[0];
    let (text, package) = export(&place, batch, &[]);
    let open = |text: &str, key: Option<&str>| {
        let file = place.file("package.json", text);
        let mut show = place.patra();
        show.args(["bundle", "show", &file]);
        if let Some(key) = key {
            show.env("PATRA_MASTER_KEY", key);
        }
        show.output().unwrap()
    };
    code(&open(&text, Some(KEY)), 0);
    let file = place.file("package.json", &text);
    let replayed = place.patra().env("PATRA_MASTER_KEY", KEY).args(["replay", "--file", &file]).output().unwrap();
    let refusal = code(&replayed, 78);
    assert!(refusal.contains("the bundle has no response in it: it was made without --with-raw"), "{refusal}");
    assert!(refusal.contains("bundle export RUN BATCH --with-raw") && !refusal.contains("--live"), "{refusal}");
    // Reformatting is not a change.
    code(&open(&serde_json::to_string_pretty(&package).unwrap(), Some(KEY)), 0);
    for changed in [
        text.replace("ticket 7", "ticket 8"),
        text.replacen("\"expiresAt\":\"2", "\"expiresAt\":\"3", 1),
        text.replacen("\"status\":200", "\"status\":201", 1),
    ] {
        assert_ne!(changed, text);
        let refusal = code(&open(&changed, Some(KEY)), 1);
        assert!(refusal.contains("was changed after it was exported"), "{refusal}");
    }
    let other = open(&text, Some("ICECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="));
    assert!(code(&other, 78).contains("which is not given"));
    assert!(code(&open(&text, None), 78).contains("signed with the master key, and none is given"));
    assert!(code(&open("{}", Some(KEY)), 64).contains("no diagnostic bundle"));

    let (run, no) = (batch["run_id"].to_string(), batch["batch_no"].to_string());
    let keyless = place.run(&["bundle", "export", &run, &no, "--reason", "x"]);
    assert!(code(&keyless, 78).contains("PATRA_MASTER_KEY"));
    let file = place.folder.path().join("not-there.json").display().to_string();
    let unknown = ["bundle", "export", &run, "999", "--reason", "x", "--out", &file];
    let unknown = place.patra().env("PATRA_MASTER_KEY", KEY).args(unknown).output().unwrap();
    assert!(code(&unknown, 78).contains("has no batch 999"));
    assert!(!std::path::Path::new(&file).exists(), "no empty file is left behind");
    assert_eq!(place.list(&["exports"]).len(), 1, "a refused export is not recorded");
}

// covers: ING-14.10-01, ING-14.10-02
#[tokio::test(flavor = "multi_thread")]
async fn bundle_with_raw_response_has_no_secret() {
    let place = Workspace::sqlite();
    let batch = with_echo(&place);
    let (run, no) = (batch["run_id"].to_string(), batch["batch_no"].to_string());
    // Signed with the key that the credential was sealed with.
    let output = place.run(&["bundle", "export", &run, &no, "--reason", "look", "--with-raw"]);
    let text = code(&output, 0);
    assert!(!text.contains("canary") && !text.contains("ann@example.org"), "{text}");
    let file = place.file("package.json", &String::from_utf8(output.stdout).unwrap());
    let replayed = place.run(&["replay", "--file", &file]);
    assert!(!code(&replayed, 0).contains(SECRET));
}

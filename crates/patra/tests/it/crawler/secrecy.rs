//! Twenty secrets in requests that fail in every way: none of them leaks.

use std::path::Path;

use patra_upstream::{FaultSchedule, Script};
use serde_json::json;

use super::server::{TestServer, mock_api};
use super::{script, search};
use crate::support::On;

const CANARIES: usize = 20;

/// Every file below this folder, as text.
fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push((path.display().to_string(), std::fs::read(&path).unwrap_or_default())),
        }
    }
}

// covers: CRAWL-RULE-7, CRAWL-149, CRAWL-150, CRAWL-151, CRAWL-152, CRAWL-153, CRAWL-DAY2-6, CRAWL-GAP-08
on_both!(no_secret_is_in_any_log_row_response_or_file);
async fn no_secret_is_in_any_log_row_response_or_file(on: On) {
    for place in on.places() {
        let script = Script {
            e500: FaultSchedule::every(5),
            truncate: FaultSchedule::every(7),
            reset: FaultSchedule::every(11),
            ..script()
        };
        let mut server = TestServer::open(
            place,
            mock_api(script),
            &[("RUST_LOG", "trace"), ("COOKIE_MASTER_KEY", "CANARY-master-key-of-more-than-32-characters")],
        );
        let mut answers = String::new();
        for n in 0..CANARIES {
            let value =
                format!("a1=CANARY-a{n:02}; web_session=CANARY-w{n:02}{}", if n % 4 == 0 { "expired" } else { "" });
            server.add_cookie(&format!("c{n:02}"), &value, 1);
            // All kinds of wrong requests.
            for wrong in [
                format!(r#"{{"cookie_name":"c","platform":"xhs","cookie_value":"CANARY-x{n:02}","priority":"high"}}"#),
                format!(r#"{{"cookie_name":"c","platform":"xhs","cookie_value":"CANARY-y{n:02}"#),
                format!(r#"{{"cookie_name":"c","platform":"no","cookie_value":"CANARY-z{n:02}"}}"#),
            ] {
                let key = server.key.clone();
                answers.push_str(
                    &server.call_as(Some(&key), "POST", "/api/v1/crawler/cookies", None, Some(&wrong)).body.to_string(),
                );
            }
            answers.push_str(&server.post("/search", &search("tea")).body.to_string());
        }
        let items: Vec<_> = (0..5)
            .map(|n| json!({ "note_id": format!("n{n}"), "tokens": { "xsec_token": "t", "xsec_source": "s" } }))
            .collect();
        answers.push_str(&server.post("/candidates", &json!({ "platform": "xhs", "items": items })).body.to_string());
        let ids: Vec<_> = (0..5).map(|n| format!("n{n}")).collect();
        answers
            .push_str(&server.post("/notes/detail", &json!({ "platform": "xhs", "note_ids": ids })).body.to_string());
        for path in ["/cookies", "/candidates", "/executions", "/notes"] {
            answers.push_str(&server.get(path).body.to_string());
        }
        answers.push_str(&server.call("GET", "/api/v1/credentials", None, None).body.to_string());
        assert!(!answers.contains("CANARY"), "{answers}");
        server.restart();
        let log = server.log();
        assert!(!log.contains("web_session="), "cookies are not handed to the log at all");
        let mut found = Vec::new();
        files(server.place.folder.path(), &mut found);
        assert!(found.iter().any(|(path, _)| path.contains("serve-")), "the logs are among them");
        for (path, bytes) in &found {
            assert!(!String::from_utf8_lossy(bytes).contains("CANARY"), "a secret is in {path}");
        }
        if let Some(url) = server.place.database_url() {
            let dump = std::process::Command::new("pg_dump").arg(&url).output().unwrap();
            assert!(dump.status.success() && !String::from_utf8_lossy(&dump.stdout).contains("CANARY"));
        }
    }
}

// covers: CRAWL-RULE-1, CRAWL-141, CRAWL-198
#[test]
fn crawler_writes_no_foreign_table_and_signs_nothing_itself() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&root).unwrap() {
        files(&entry.unwrap().path().join("src"), &mut found);
    }
    assert!(found.len() > 100);
    for (path, bytes) in &found {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        assert!(!text.contains("feishu") && !text.contains("larksuite"), "{path}");
    }
}

//! The cookie pool: selection, usage and sealing.

use patra_upstream::Script;
use serde_json::{Value, json};

use super::server::{GOOD, MASTER_KEY, TestServer, everywhere, mock_api};
use super::{check_single, script, search};
use crate::support::{On, Workspace};

// covers: CRAWL-01, CRAWL-04, CRAWL-06, CRAWL-07, CRAWL-08, CRAWL-12, CRAWL-13, CRAWL-22, CRAWL-23, CRAWL-24, CRAWL-75
// covers: CRAWL-104, CRAWL-106, CRAWL-108
on_both!(best_cookie_is_picked_within_its_daily_limit);
async fn best_cookie_is_picked_within_its_daily_limit(on: On) {
    everywhere(on, &script(), &[], |server| {
        let none = server.post("/search", &search("tea"));
        check_single(&none);
        assert_eq!((none.status, &none.body["error"]["code"]), (503, &"COOKIE_EXHAUSTED".into()), "{}", none.body);
        server.add_cookie("low", GOOD, 1);
        server.add_cookie("high", GOOD, 5);
        server.add_cookie("also", GOOD, 5);
        let used = || server.post("/search", &search("tea")).body["meta"]["cookie_used"].as_str().unwrap().to_owned();
        let order: Vec<_> = (0..4).map(|_| used()).collect();
        assert_eq!(order, ["high", "also", "high", "also"], "the largest priority, then the least recently used");
        // Repeating it changes nothing and adds no row.
        let before = server.cookie("high");
        server.add_cookie("high", GOOD, 5);
        let after = server.cookie("high");
        assert_eq!((&after["daily_used"], &after["created_at"]), (&before["daily_used"], &before["created_at"]));
        assert_eq!(server.data("GET", "/cookies", None)["items"].as_array().map(Vec::len), Some(3));
        // At its limit a cookie stays active and is not used.
        for (name, limit) in [("high", 2), ("also", 3)] {
            let body = json!({ "cookie_name": name, "platform": "xhs", "cookie_value": GOOD, "priority": 5, "daily_limit": limit });
            server.data("POST", "/cookies", Some(&body));
        }
        let order: Vec<_> = (0..3).map(|_| used()).collect();
        assert_eq!(order, ["also", "low", "low"]);
        assert_eq!(
            (&server.cookie("high")["status"], &server.cookie("high")["daily_used"]),
            (&"active".into(), &2.into())
        );
        // A batch of notes counts as many uses.
        let items = server.candidates("tea");
        let ids: Vec<_> = items.iter().take(10).map(|item| item["note_id"].clone()).collect();
        let before = server.cookie("low")["daily_used"].as_u64().unwrap();
        let batch = server.post("/notes/detail", &json!({ "platform": "xhs", "note_ids": ids }));
        assert_eq!((batch.status, &batch.body["meta"]["cookie_used"]), (200, &"low".into()), "{}", batch.body);
        assert_eq!(server.cookie("low")["daily_used"], before + 10);
        // A request for one cookie by name.
        let search_with =
            |name: &str| server.post("/search", &json!({ "platform": "xhs", "keyword": "tea", "cookie_name": name }));
        assert_eq!(search_with("low").body["meta"]["cookie_used"], "low");
        assert_eq!(
            (search_with("never").status, &search_with("never").body["error"]["code"]),
            (400, &"INVALID_INPUT".into())
        );
        let spent = search_with("high");
        assert_eq!((spent.status, &spent.body["error"]["code"]), (502, &"COOKIE_INVALID".into()), "{}", spent.body);
        assert_eq!(spent.body["error"]["details"]["status"], "active");
        let excluded =
            server.post("/search", &json!({ "platform": "xhs", "keyword": "tea", "exclude_cookies": ["low"] }));
        assert_eq!((excluded.status, &excluded.body["error"]["code"]), (503, &"COOKIE_EXHAUSTED".into()));
        server.data("DELETE", "/cookies/low", None);
        server.data("DELETE", "/cookies/low", None);
        let gone = server.post("/search", &search("tea"));
        assert_eq!(gone.body["error"]["code"], "COOKIE_EXHAUSTED", "{}", gone.body);
        server.age("ing_credential_state", "used_day", 24 * 60);
        assert_eq!(used(), "high", "another day");
    });
}

// covers: CRAWL-05, CRAWL-09, CRAWL-10, CRAWL-11, CRAWL-14, CRAWL-15, CRAWL-16, CRAWL-17, CRAWL-18, CRAWL-20, CRAWL-21
// covers: CRAWL-76, CRAWL-79, CRAWL-107, CRAWL-196, CRAWL-83
on_both!(only_errors_of_the_cookie_count_against_it);
async fn only_errors_of_the_cookie_count_against_it(on: On) {
    let place = || on.places();
    for place in place() {
        let server = TestServer::open(place, mock_api(script()), &[]);
        let ask =
            |name: &str| server.post("/search", &json!({ "platform": "xhs", "keyword": "tea", "cookie_name": name }));
        server.add_cookie("expired", "a1=1; web_session=expired", 1);
        for n in 1..=3 {
            let answer = ask("expired");
            check_single(&answer);
            assert_eq!(
                (answer.status, &answer.body["error"]["code"]),
                (502, &"COOKIE_INVALID".into()),
                "{}",
                answer.body
            );
            assert_eq!(answer.body["error"]["retryable"], true);
            assert_eq!(answer.body["meta"]["cookie_used"], "expired", "the response names the cookie");
            assert_eq!(server.cookie("expired")["total_errors"], n, "one question is one request: no try of its own");
        }
        let cooling = server.cookie("expired");
        assert_eq!((&cooling["status"], &cooling["consecutive_errors"]), (&"cooling".into(), &0.into()));
        assert!(cooling["cooling_until"].is_string());
        let unusable = ask("expired");
        assert_eq!(
            (&unusable.body["error"]["code"], &unusable.body["error"]["details"]["status"]),
            (&"COOKIE_INVALID".into(), &"cooling".into())
        );
        let all = server.post("/search", &search("tea"));
        assert_eq!(all.body["error"]["code"], "COOKIE_EXHAUSTED");
        let details = &all.body["error"]["details"];
        assert_eq!((&details["cooling"], &details["active"]), (&1.into(), &0.into()), "{details}");
        assert_eq!(details["next_active_at"], cooling["cooling_until"]);
        // Half an hour later it is tried again; the tenth error disables it for good.
        for round in 0..2 {
            for column in ["cooling_until", "cooling_since"] {
                server.age("ing_credential_state", column, 31);
            }
            assert_eq!(server.cookie("expired")["status"], "active", "round {round}");
            (0..3).for_each(|_| drop(ask("expired")));
        }
        for column in ["cooling_until", "cooling_since"] {
            server.age("ing_credential_state", column, 31);
        }
        ask("expired");
        assert_eq!(
            (&server.cookie("expired")["status"], &server.cookie("expired")["total_errors"]),
            (&"invalid".into(), &10.into())
        );
        server.data("POST", "/cookies/expired/reactivate", Some(&json!({})));
        assert_eq!(
            (&server.cookie("expired")["status"], &server.cookie("expired")["total_errors"]),
            (&"active".into(), &0.into())
        );
        server.data("DELETE", "/cookies/expired", None);

        // A challenge has a status of its own. Flagged accounts return an error in a 200 response.
        for value in ["captcha", "flagged"] {
            server.add_cookie(value, &format!("a1=1; web_session={value}"), 1);
            assert_eq!(ask(value).body["error"]["code"], "COOKIE_INVALID");
            assert_eq!(server.cookie(value)["total_errors"], 1);
            server.data("DELETE", &format!("/cookies/{value}"), None);
        }
        // One error reveals a dead account in a batch; the other notes are requested with a good one.
        server.add_cookie("dead", "a1=1; web_session=expired", 9);
        server.add_cookie("alive", GOOD, 5);
        let items = (0..8)
            .map(|n| json!({ "note_id": format!("{n:06x}007465610000000000"), "tokens": { "xsec_token": "x" } }))
            .collect::<Vec<_>>();
        let ids: Vec<_> = items.iter().map(|item| item["note_id"].clone()).collect();
        let batch = server.post("/notes/detail", &json!({ "platform": "xhs", "note_ids": ids, "tokens": {} }));
        assert_eq!(batch.status, 400, "no tokens: {}", batch.body);
        let found = server.data(
            "POST",
            "/search",
            Some(&json!({ "platform": "xhs", "keyword": "tea", "cookie_name": "alive" })),
        );
        let (ids, tokens): (Vec<_>, serde_json::Map<_, _>) = found["items"]
            .as_array()
            .unwrap()
            .iter()
            .take(8)
            .map(|item| {
                (item["note_id"].clone(), (item["note_id"].as_str().unwrap().to_owned(), item["tokens"].clone()))
            })
            .unzip();
        let batch = server.post("/notes/detail", &json!({ "platform": "xhs", "note_ids": ids, "tokens": tokens }));
        assert_eq!((batch.status, &batch.body["summary"]["failed"]), (207, &1.into()), "{}", batch.body);
        assert_eq!(
            (&server.cookie("dead")["total_errors"], &batch.body["meta"]["cookie_used"]),
            (&1.into(), &"alive".into())
        );
        server.data("DELETE", "/cookies/dead", None);
        server.data("DELETE", "/cookies/alive", None);
        // A blocked address, a broken platform and a cut connection do not count against a cookie.
        server.add_cookie("good", GOOD, 1);
        server.data("POST", "/cookies/good/validate", Some(&json!({})));
        for change in [
            |s: &mut Script| s.e500 = patra_upstream::FaultSchedule::every(1),
            |s: &mut Script| {
                (s.e500, s.reset) = (patra_upstream::FaultSchedule::never(), patra_upstream::FaultSchedule::every(1));
            },
        ] {
            server.mock_api.script().update(change);
            let answer = ask("good");
            check_single(&answer);
            let code = answer.body["error"]["code"].as_str().unwrap();
            assert!(["PLATFORM_ERROR", "NETWORK_ERROR"].contains(&code), "{}", answer.body);
            assert_eq!(
                (answer.status, &answer.body["error"]["retryable"]),
                (if code == "PLATFORM_ERROR" { 502 } else { 503 }, &true.into())
            );
        }
        server.mock_api.script().update(|s| s.reset = patra_upstream::FaultSchedule::never());
        assert_eq!(
            (&server.cookie("good")["total_errors"], &server.cookie("good")["status"]),
            (&0.into(), &"active".into())
        );
        server.add_cookie("blocked", "a1=1; web_session=blocked", 9);
        let blocked = server.post("/search", &search("tea"));
        assert_eq!(blocked.body["error"]["code"], "PLATFORM_ERROR", "{}", blocked.body);
        assert_eq!(server.cookie("blocked")["total_errors"], 0, "the address cools, not the cookie");
    }
}

// covers: CRAWL-03, CRAWL-142, CRAWL-143, CRAWL-144, CRAWL-146, CRAWL-148, CRAWL-GAP-03, CRAWL-DAY1-4, CRAWL-147, CRAWL-GAP-21
on_both!(master_key_is_rotated_while_cookies_are_used);
async fn master_key_is_rotated_while_cookies_are_used(on: On) {
    for place in on.places() {
        let mut server = TestServer::open(place, mock_api(script()), &[]);
        for n in 0..30 {
            server.add_cookie(&format!("c{n:02}"), &format!("a1={n}; web_session=CANARY-{n}"), 1);
        }
        let old_id = server.cookie("c00")["encryption_key_id"].as_str().unwrap().to_owned();
        for sealed in server.place.sql("SELECT sealed FROM reg_prov_credential") {
            assert!(sealed.starts_with("v1.") && !sealed.contains("CANARY"), "{sealed}");
        }
        // A sealed text moved to another row does not open, and neither does a changed one.
        let whole = server.place.sql("SELECT sealed FROM reg_prov_credential WHERE alias = 'c01'").remove(0);
        server.place.sql("UPDATE reg_prov_credential SET sealed = (SELECT sealed FROM reg_prov_credential WHERE alias = 'c00') WHERE alias = 'c01'");
        let ask = |server: &TestServer, name: &str| {
            server.post("/search", &json!({ "platform": "xhs", "keyword": "tea", "cookie_name": name }))
        };
        let moved = ask(&server, "c01");
        assert_eq!((moved.status, &moved.body["error"]["code"]), (503, &"NOT_CONFIGURED".into()), "{}", moved.body);
        let other = server.post("/search", &json!({ "platform": "xhs", "keyword": "tea", "exclude_cookies": ["c00"] }));
        assert_eq!(other.status, 200, "a cookie that does not open blocks no other: {}", other.body);
        server.place.sql(&format!("UPDATE reg_prov_credential SET sealed = '{whole}' WHERE alias = 'c01'"));

        // The new key first, the old one stays readable; the resealing is killed and run again.
        let new = "another text of more than thirty-two characters";
        let older = format!("COOKIE_KEY_{}", old_id.to_uppercase());
        server.change_variables(&[("COOKIE_MASTER_KEY", new), (&older, MASTER_KEY)]);
        server.restart();
        assert_eq!(ask(&server, "c02").status, 200);
        let alone = server.place.database_url().is_none();
        if alone {
            server.stop();
        }
        let reseal = || {
            let mut command = server.place.patra();
            command.args(["credential", "reseal", "-o", "json"]).env("COOKIE_MASTER_KEY", new).env(&older, MASTER_KEY);
            command
        };
        let mut killed =
            reseal().stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60));
        killed.kill().unwrap();
        killed.wait().unwrap();
        let output = reseal().output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["stuck"], json!([]));
        server.change_variables(&[("COOKIE_MASTER_KEY", new)]);
        server.restart();
        let cookies = server.data("GET", "/cookies", None);
        let ids: std::collections::BTreeSet<_> = cookies["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cookie| cookie["encryption_key_id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, [report["key_id"].as_str().unwrap()].into(), "all of them, without the old key");
        for name in ["c00", "c01", "c29"] {
            let answer = ask(&server, name);
            assert_eq!(answer.status, 200, "{name}: {}", answer.body);
        }
        // Imports cookies from their previous store.
        let mut brought = server.place.patra();
        brought.args([
            "credential",
            "add",
            "old",
            "--type",
            "cookie",
            "--provenance",
            "xhs",
            "--fernet-key",
            "OLD_KEY",
        ]);
        brought.env("OLD_KEY", "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=").env("COOKIE_MASTER_KEY", new);
        if alone {
            server.stop();
        }
        brought.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = brought.spawn().unwrap();
        let token =
            "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA==";
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), token.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

// covers: CRAWL-145, CRAWL-189
on_both!(without_a_master_key_everything_else_works);
async fn without_a_master_key_everything_else_works(on: On) {
    everywhere(on, &script(), &[("COOKIE_MASTER_KEY", "")], |server| {
        let cookie = json!({ "cookie_name": "x", "platform": "xhs", "cookie_value": GOOD });
        for answer in [server.post("/cookies", &cookie), server.post("/search", &search("tea"))] {
            check_single(&answer);
            assert_eq!(
                (answer.status, &answer.body["error"]["code"]),
                (503, &"NOT_CONFIGURED".into()),
                "{}",
                answer.body
            );
            assert!(answer.body["error"]["message"].as_str().unwrap().contains("COOKIE_MASTER_KEY"));
        }
        assert_eq!(server.lock("w")["locked"], true);
        assert_eq!(server.call("GET", "/api/v1/jobs", None, None).status, 200);
    });
    let place = Workspace::sqlite();
    let refused =
        place.patra().args(["serve", "--listen", "127.0.0.1:0"]).env("COOKIE_MASTER_KEY", "short").output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && stderr.contains("32 characters") && stderr.contains("openssl rand"),
        "{stderr}"
    );
}

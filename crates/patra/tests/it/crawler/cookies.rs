//! Cookies of the pool: files of browsers, pauses, expiry, checks, pages; and what stops requests to a platform.

use patra_upstream::{FaultSchedule, Script};
use serde_json::{Value, json};

use super::server::{GOOD, TestServer, everywhere};
use super::{check_single, script, search};
use crate::support::On;

const BAD: &str = "a1=1; web_session=expired";

fn store(server: &TestServer, cookie: &Value) -> Value {
    server.data("POST", "/cookies", Some(cookie))
}

fn refused(server: &TestServer, body: &Value) -> (u16, String, Value) {
    let answer = server.post("/search", body);
    check_single(&answer);
    (answer.status, answer.body["error"]["code"].as_str().unwrap_or_default().to_owned(), answer.body["error"].clone())
}

// covers: CRAWL-18, CRAWL-107, CRAWL-GAP-06
on_both!(cooling_cookie_can_be_validated_and_an_error_bans_it);
async fn cooling_cookie_can_be_validated_and_an_error_bans_it(on: On) {
    everywhere(on, &script(), &[], |server| {
        server.add_cookie("bad", BAD, 1);
        for _ in 0..3 {
            refused(server, &search("tea"));
        }
        assert_eq!(server.cookie("bad")["status"], "cooling");
        let pinned = json!({ "platform": "xhs", "keyword": "tea", "cookie_name": "bad" });
        let (status, code, error) = refused(server, &pinned);
        assert_eq!((status, &*code, &error["details"]["status"]), (502, "COOKIE_INVALID", &"cooling".into()));
        assert_eq!(server.cookie("bad")["status"], "cooling", "a request that was not sent does not ban");
        let validated = server.post("/cookies/bad/validate", &json!({}));
        check_single(&validated);
        assert_eq!((validated.status, &validated.body["error"]["code"]), (502, &"COOKIE_INVALID".into()));
        assert_eq!(server.cookie("bad")["status"], "banned");
        let (_, code, error) = refused(server, &search("tea"));
        assert_eq!((&*code, &error["details"]["banned"]), ("COOKIE_EXHAUSTED", &1.into()));
        // A person leads it out.
        server.add_cookie("bad", GOOD, 1);
        assert_eq!(server.cookie("bad")["status"], "active");
        assert_eq!(server.post("/search", &search("tea")).status, 200);
    });
}

on_both!(pause_of_the_platform_and_an_open_circuit_stop_requests);
async fn pause_of_the_platform_and_an_open_circuit_stop_requests(on: On) {
    everywhere(on, &script(), &[], |server| {
        server.add_cookie("good", GOOD, 1);
        let arrived = || server.mock_api.log().len();
        let hold =
            |subject: Value| server.call("POST", "/api/v1/holds", None, Some(&subject)).body["data"]["hold"].clone();
        let (before, used) = (arrived(), server.cookie("good")["daily_used"].clone());
        let id = hold(json!({ "provenance": "xhs", "reason": "the account was reported", "by": "me" }));
        let (status, code, error) = refused(server, &search("tea"));
        assert_eq!((status, &*code, &error["retryable"]), (503, "NOT_CONFIGURED", &false.into()), "{error}");
        assert_eq!(
            (&error["details"]["paused"], &error["details"]["reason"]),
            (&true.into(), &"the account was reported".into())
        );
        assert_eq!(server.post("/cookies/good/validate", &json!({})).status, 503);
        assert_eq!((arrived(), &server.cookie("good")["daily_used"]), (before, &used), "no request, no use");
        server.call("DELETE", &format!("/api/v1/holds/{id}"), None, None);
        assert_eq!(server.post("/search", &search("tea")).status, 200);
        let other = hold(json!({ "provenance": "dy", "reason": "another one", "by": "me" }));
        assert_eq!(server.post("/search", &search("tea")).status, 200);
        server.call("DELETE", &format!("/api/v1/holds/{other}"), None, None);

        // Three failures in a row open the circuit: the platform is left alone, and no use is counted.
        server.mock_api.script().update(|script: &mut Script| script.e500 = FaultSchedule::every(1));
        for _ in 0..3 {
            assert_eq!(refused(server, &search("tea")).1, "PLATFORM_ERROR");
        }
        let (before, used) = (arrived(), server.cookie("good")["daily_used"].clone());
        let (status, code, error) = refused(server, &search("tea"));
        assert_eq!((status, &*code, &error["retryable"]), (502, "PLATFORM_ERROR", &true.into()), "{error}");
        assert!(error["details"]["retry_after_seconds"].as_u64().is_some_and(|wait| wait > 0), "{error}");
        assert_eq!((arrived(), &server.cookie("good")["daily_used"]), (before, &used));
    });
}

// covers: CRAWL-104
on_both!(cookies_are_imported_from_files_of_browsers);
async fn cookies_are_imported_from_files_of_browsers(on: On) {
    everywhere(on, &script(), &[], |server| {
        let netscape = "# Netscape HTTP Cookie File\n\
            .xiaohongshu.com\tTRUE\t/\tTRUE\t1900000000\ta1\tCANARY-1\n\
            #HttpOnly_.xiaohongshu.com\tTRUE\t/\tTRUE\t1900000001\tweb_session\tCANARY-2\n\
            .tracker.example\tTRUE\t/\tFALSE\t1900000000\tid\tCANARY-3\n";
        let extension = json!([
            { "domain": ".xiaohongshu.com", "hostOnly": false, "name": "a1", "value": "CANARY-1", "session": true },
            { "domain": "127.0.0.1", "hostOnly": true, "name": "web_session", "value": "CANARY-2", "session": true },
        ]);
        let file = |name: &str, value: &str, domain: Option<&str>| json!({ "cookie_name": name, "platform": "xhs", "cookie_value": value, "domain": domain });
        let stored = store(server, &file("netscape", netscape, Some("xiaohongshu.com")));
        let expires_at = stored["expires_at"].as_str().unwrap_or_default();
        assert!(expires_at.starts_with("2030-03-17T17:46:41"), "that of its last part: {stored}");
        assert_eq!(server.post("/search", &search("tea")).status, 200, "the platform sees both parts");
        server.data("DELETE", "/cookies/netscape", None);
        let stored = store(server, &file("json", &extension.to_string(), None));
        assert_eq!(stored["expires_at"], Value::Null);
        let lacking = server.post("/search", &search("tea"));
        assert_ne!(lacking.status, 400, "only the part of 127.0.0.1 is sent: {}", lacking.body);
        server.data("DELETE", "/cookies/json", None);
        for value in [netscape, "{}", "[1]", "nonsense", "<html></html>", "{\"a\": 1}"] {
            let answer = server.post("/cookies", &file("x", value, None));
            check_single(&answer);
            assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &"INVALID_INPUT".into()), "{value}");
            assert!(!answer.text.contains("CANARY"), "{}", answer.text);
        }
        assert_eq!(server.data("GET", "/cookies", None)["items"], json!([]));
        assert!(!server.log().contains("CANARY"));
    });
}

// covers: CRAWL-105
on_both!(cookie_is_paused_expires_and_is_listed_in_pages);
async fn cookie_is_paused_expires_and_is_listed_in_pages(on: On) {
    everywhere(on, &script(), &[], |server| {
        for name in ["c", "a", "b"] {
            server.add_cookie(name, GOOD, 1);
        }
        let page = |query: &str| {
            let list = server.data("GET", &format!("/cookies?{query}"), None);
            let names: Vec<_> =
                list["items"].as_array().unwrap().iter().map(|item| item["cookie_name"].clone()).collect();
            (json!(names), list["next_after"].clone())
        };
        assert_eq!(page("limit=2"), (json!(["a", "b"]), "b".into()));
        assert_eq!(page("limit=2&after=b&platform=xhs"), (json!(["c"]), Value::Null));
        assert_eq!(server.get("/cookies?limit=0").status, 400);
        let paused = server.data("POST", "/cookies/a/pause", Some(&json!({})));
        assert!(paused["paused_at"].is_string() && paused["status"] == "active", "{paused}");
        let past = json!({ "cookie_name": "b", "platform": "xhs", "cookie_value": GOOD, "expires_at": "2020-01-01T00:00:00Z" });
        store(server, &past);
        assert_eq!(server.post("/search", &search("tea")).body["meta"]["cookie_used"], "c");
        let counts = server.data("GET", "/cookies?limit=1", None)["counts"].clone();
        let expected = json!({ "active": 1, "cooling": 0, "invalid": 0, "banned": 0, "paused": 1, "expired": 1 });
        assert_eq!(counts, expected);
        assert_eq!(server.call("GET", "/health", None, None).body["checks"]["cookies"]["xhs"], expected);
        server.data("DELETE", "/cookies/c", None);
        let (_, code, error) = refused(server, &search("tea"));
        assert_eq!(
            (&*code, &error["details"]["paused"], &error["details"]["expired"]),
            ("COOKIE_EXHAUSTED", &1.into(), &1.into())
        );
        server.data("POST", "/cookies/a/resume", Some(&json!({})));
        assert_eq!(server.post("/search", &search("tea")).body["meta"]["cookie_used"], "a");
        // One request at a time: afterwards the cookie is free again.
        let single = json!({ "cookie_name": "a", "platform": "xhs", "cookie_value": GOOD, "max_parallel": 1 });
        assert_eq!(store(server, &single)["max_parallel"], 1);
        for _ in 0..3 {
            assert_eq!(server.post("/search", &search("tea")).body["meta"]["cookie_used"], "a");
        }
        assert_eq!(server.cookie("a")["in_use"], 0);
        let reader = server.call("GET", "/api/v1/crawler/cookies/a/value", None, None);
        assert_eq!(reader.status, 404, "no route returns a value");
    });
}

// covers: CRAWL-96
on_both!(released_execution_frees_its_records_at_once);
async fn released_execution_frees_its_records_at_once(on: On) {
    everywhere(on, &script(), &[], |server| {
        let items = json!([{ "note_id": "n1" }, { "note_id": "n2" }]);
        server.data("POST", "/candidates", Some(&json!({ "platform": "xhs", "items": items })));
        for (status, retries) in [("completed", 0), ("failed", 1)] {
            let id = server.lock("w")["execution_id"].as_str().unwrap().to_owned();
            let claimed = server.data("POST", "/candidates/claim", Some(&json!({ "execution_id": id })));
            assert_eq!(claimed["locked_count"], 2, "nobody waits for half an hour: {status}");
            server.data("POST", &format!("/executions/{id}/release"), Some(&json!({ "status": status })));
            let list = server.data("GET", "/candidates?status=pending", None);
            let freed: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| &item["retry_count"]).collect();
            assert_eq!(json!(freed), json!([retries, retries]), "{status}");
        }
    });
}

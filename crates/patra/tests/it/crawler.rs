//! The crawler's contract, through HTTP, on both stores: requests to a platform, locks, candidates, notes, the pool.

#![expect(clippy::disallowed_methods, reason = "threads of their own, alongside the real program")]
use crate::support::On;

mod batch;
mod cookies;
pub(crate) mod flow;
mod pool;
mod secrecy;
pub(crate) mod server;

use std::collections::BTreeSet;

use patra_upstream::Script;
use serde_json::{Value, json};

use server::{GOOD, TestServer, everywhere};

fn script() -> Script {
    Script { notes: 25, ..Script::default() }
}

fn members(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// `{success, data, error, meta}` and their content (CRAWL-60..63).
// covers: CRAWL-60, CRAWL-61, CRAWL-62, CRAWL-63, CRAWL-85
#[track_caller]
fn check_single(answer: &server::Response) {
    let body = &answer.body;
    assert_eq!(members(body), ["data", "error", "meta", "success"].into(), "{body}");
    assert_eq!(members(&body["meta"]), ["cookie_used", "latency_ms", "request_id"].into());
    assert_eq!(body["meta"]["request_id"], answer.request_id.as_str());
    match body["success"].as_bool().unwrap() {
        true => assert!(answer.status == 200 && body["error"].is_null() && !body["data"].is_null(), "{body}"),
        false => {
            assert!(answer.status >= 400 && body["data"].is_null(), "{body}");
            for name in ["code", "message", "retryable"] {
                assert!(!body["error"][name].is_null(), "{body}");
            }
        }
    }
}

fn search(keyword: &str) -> Value {
    json!({ "platform": "xhs", "keyword": keyword })
}

// covers: CRAWL-02, CRAWL-58, CRAWL-59, CRAWL-84, CRAWL-91, CRAWL-97, CRAWL-98, CRAWL-101, CRAWL-103, CRAWL-105
// covers: CRAWL-108, CRAWL-109, CRAWL-DAY1-2, CRAWL-GAP-02, CRAWL-GAP-16, CRAWL-GAP-17, CRAWL-GAP-22, MAP-R-01
on_both!(every_route_answers_in_one_envelope);
async fn every_route_answers_in_one_envelope(on: On) {
    everywhere(on, &script(), &[], |server| {
        server.add_cookie("account_01", GOOD, 1);
        let execution = server.lock("w")["execution_id"].as_str().unwrap().to_owned();
        let good = [
            ("POST", "/search".to_owned(), Some(search("tea"))),
            ("GET", "/executions?workflow_name=w&status=running".into(), None),
            ("GET", "/candidates?status=pending&platform=xhs&source_keyword=tea".into(), None),
            ("GET", "/notes?platform=xhs".into(), None),
            ("GET", "/cookies?platform=xhs".into(), None),
            ("POST", "/candidates".into(), Some(json!({ "platform": "xhs", "items": [{ "note_id": "n1" }] }))),
            ("POST", "/candidates/claim".into(), Some(json!({ "execution_id": execution }))),
            ("POST", format!("/executions/{execution}/heartbeat"), Some(json!({}))),
            ("POST", "/recover".into(), Some(json!({}))),
            ("POST", "/cookies/account_01/reactivate".into(), Some(json!({}))),
            ("POST", "/cookies/account_01/validate".into(), Some(json!({}))),
            ("DELETE", "/cookies/never".into(), None),
        ];
        for (method, path, body) in &good {
            let answer = server.call(method, &format!("/api/v1/crawler{path}"), Some("wf-1-abc-x"), body.as_ref());
            check_single(&answer);
            assert_eq!((answer.status, answer.request_id.as_str()), (200, "wf-1-abc-x"), "{path}: {}", answer.body);
        }
        let bad = [
            ("POST", "/search", json!({ "platform": "xhs" }), 400, "INVALID_INPUT"),
            ("POST", "/search", json!({ "platform": "dy", "keyword": "x" }), 400, "INVALID_INPUT"),
            ("POST", "/search", json!({ "platform": "xhs", "keyword": "", "page": 1 }), 400, "INVALID_INPUT"),
            ("POST", "/search", json!({ "platform": "xhs", "keyword": "x", "page_size": 51 }), 400, "INVALID_INPUT"),
            (
                "POST",
                "/search",
                json!({ "platform": "xhs", "keyword": "x", "sort_type": "best" }),
                400,
                "INVALID_INPUT",
            ),
            ("POST", "/search", json!({ "platform": "xhs", "keyword": "x", "nonsense": 1 }), 400, "INVALID_INPUT"),
            ("POST", "/executions/acquire", json!({ "workflow_name": "" }), 400, "INVALID_INPUT"),
            ("POST", "/executions/exec-1-x/heartbeat", json!({}), 409, "LOCK_LOST"),
            ("POST", "/executions/exec-1-x/release", json!({ "status": "timeout" }), 400, "INVALID_INPUT"),
            ("POST", "/candidates", json!({ "platform": "xhs", "items": [] }), 400, "INVALID_INPUT"),
            ("POST", "/candidates/claim", json!({ "execution_id": "exec-1-x" }), 409, "LOCK_LOST"),
            ("POST", "/candidates/claim", json!({ "execution_id": "e", "batch_size": 0 }), 400, "INVALID_INPUT"),
            ("POST", "/cookies", json!({ "cookie_name": "x" }), 400, "INVALID_INPUT"),
            (
                "POST",
                "/cookies",
                json!({ "cookie_name": "x", "platform": "dy", "cookie_value": "a=1" }),
                400,
                "INVALID_INPUT",
            ),
            ("POST", "/cookies/never/reactivate", json!({}), 404, "NOT_FOUND"),
            ("POST", "/search", json!({ "platform": "xhs", "keyword": "x", "page": 0 }), 400, "INVALID_INPUT"),
            ("POST", "/candidates/claim", json!({ "execution_id": "e", "platform": "\0" }), 400, "INVALID_INPUT"),
            ("POST", "/candidates/requeue", json!({ "platform": "\0" }), 400, "INVALID_INPUT"),
            (
                "POST",
                "/notes",
                json!({ "record_info": { "note_id": "n", "platform": "zz" }, "crawl_result": {} }),
                400,
                "INVALID_INPUT",
            ),
            ("POST", "/executions/exec-1-x/heartbeat", json!({ "status": "odd" }), 400, "INVALID_INPUT"),
            ("GET", "/cookies?platform=%00", Value::Null, 400, "INVALID_INPUT"),
            ("GET", "/candidates?status=odd", Value::Null, 400, "INVALID_INPUT"),
            ("GET", "/executions?limit=0", Value::Null, 400, "INVALID_INPUT"),
            ("GET", "/nowhere", Value::Null, 404, "NOT_FOUND"),
            ("DELETE", "/search", Value::Null, 405, "INVALID_INPUT"),
        ];
        for (method, path, body, status, code) in bad {
            let body = (!body.is_null()).then_some(body);
            let answer = server.call(method, &format!("/api/v1/crawler{path}"), None, body.as_ref());
            check_single(&answer);
            assert_eq!(
                (answer.status, &answer.body["error"]["code"]),
                (status, &code.into()),
                "{path}: {}",
                answer.body
            );
            assert!(answer.request_id.starts_with("req-"), "{}", answer.request_id);
        }
        let far_away = server.post("/search", &json!({ "platform": "xhs", "keyword": "x", "page": u64::MAX }));
        check_single(&far_away);
        let reader = server.call("POST", "/api/v1/crawler/search", None, None);
        assert_eq!(reader.status, 400);
        let unknown = server.post("/search", &json!({ "platform": "dy", "keyword": "x" }));
        assert!(unknown.body["error"]["message"].as_str().unwrap().contains("xhs"), "it names those that are known");
        let broken = server.call_as(Some(&server.key), "POST", "/api/v1/crawler/search", Some("bad id\t"), Some("{"));
        check_single(&broken);
        assert!(broken.status == 400 && broken.request_id.starts_with("req-"), "{}", broken.body);

        // A missing key and a key without the scope are refused.
        for path in ["/api/v1/crawler/cookies", "/api/search", "/api/note/detail"] {
            let method = if path.ends_with("cookies") { "GET" } else { "POST" };
            for key in [None, Some("patra_00000000_wrong")] {
                let answer = server.call_as(key, method, path, None, Some("{}"));
                check_single(&answer);
                assert_eq!((answer.status, &answer.body["error"]["code"]), (401, &"UNAUTHORIZED".into()));
                assert_eq!(answer.body["error"]["retryable"], false);
            }
        }
        let aliased = server.call("POST", "/api/search", None, Some(&search("tea")));
        check_single(&aliased);
        assert_eq!(aliased.body["data"]["items"].as_array().map(Vec::len), Some(20));
        let health = server.call_as(None, "GET", "/health", None, None);
        assert_eq!((health.status, &health.body["status"]), (200, &"ok".into()));
        assert_eq!(health.body["checks"]["cookies"]["xhs"]["active"], 1);
        assert!(health.body["version"].is_string() && health.body["time"].is_string());
    });
}

// covers: CRAWL-RULE-8, CRAWL-66, CRAWL-68, CRAWL-69, CRAWL-70, CRAWL-71, CRAWL-73, CRAWL-74, CRAWL-77, CRAWL-78
// covers: CRAWL-92, CRAWL-93, CRAWL-187, CRAWL-195, CRAWL-197, CRAWL-DAY3-3, CRAWL-FIX-3, CRAWL-GAP-15
on_both!(a_batch_may_fail_in_part);
async fn a_batch_may_fail_in_part(on: On) {
    let script = Script {
        notes_slow: vec![3],
        notes_slow_ms: 60_000,
        notes_gone: vec![4],
        notes_broken: vec![5, 6],
        ..script()
    };
    everywhere(on, &script, &[("DETAIL_TIMEOUT", "2"), ("DETAIL_BATCH_TIMEOUT", "20")], |server| {
        server.add_cookie("account_01", GOOD, 1);
        let first = server.data("POST", "/search", Some(&search("tea")));
        assert_eq!((&first["has_more"], first["items"].as_array().map(Vec::len)), (&true.into(), Some(20)));
        let second = json!({ "platform": "xhs", "keyword": "tea", "page": 2, "search_id": first["search_id"] });
        let second = server.data("POST", "/search", Some(&second));
        assert_eq!((&second["has_more"], second["items"].as_array().map(Vec::len)), (&false.into(), Some(5)));
        assert_eq!(second["search_id"], first["search_id"], "all pages of one search share its id");
        let items = first["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["tokens"]["xsec_token"].is_string()), "{items:?}");
        let id = |n: usize| items[n]["note_id"].as_str().unwrap().to_owned();
        let tokens = |wanted: &[usize]| -> Value {
            wanted.iter().map(|n| (id(*n), items[*n]["tokens"].clone())).collect::<serde_json::Map<_, _>>().into()
        };
        let batch = |wanted: &[usize]| {
            let ids: Vec<_> = wanted.iter().map(|n| id(*n)).collect();
            server.post("/notes/detail", &json!({ "platform": "xhs", "note_ids": ids, "tokens": tokens(wanted) }))
        };
        let three = batch(&[0, 1, 3]);
        assert_eq!(members(&three.body), ["error", "items", "meta", "success", "summary"].into());
        assert_eq!((three.status, &three.body["success"]), (207, &false.into()), "{}", three.body);
        assert_eq!(three.body["summary"], json!({ "total": 3, "succeeded": 2, "failed": 1 }));
        let error = &three.body["error"];
        assert_eq!((&error["code"], &error["retryable"]), (&"PARTIAL_FAIL".into(), &true.into()));
        assert_eq!(error["details"]["failed_ids"], json!([id(3)]));
        let last = &three.body["items"][2];
        assert_eq!((&last["success"], &last["error"]["code"]), (&false.into(), &"TIMEOUT_ERROR".into()));
        assert_eq!(three.body["items"][0]["data"]["title"], "tea 0");
        assert_eq!(three.body["meta"]["cookie_used"], "account_01");
        // Failures may have one code, or several.
        let alike = batch(&[5, 6]);
        assert_eq!((alike.status, &alike.body["error"]["code"]), (502, &"PLATFORM_ERROR".into()), "{}", alike.body);
        let unlike = batch(&[4, 5]);
        assert_eq!((unlike.status, &unlike.body["error"]["code"]), (207, &"PARTIAL_FAIL".into()), "{}", unlike.body);
        // In the order of the request, without duplicates.
        let all = batch(&[2, 0, 2, 1]);
        assert_eq!((all.status, &all.body["error"]), (200, &Value::Null), "{}", all.body);
        let order: Vec<_> = all.body["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect();
        assert_eq!(order, [json!(id(2)), json!(id(0)), json!(id(1))]);
        // Tokens are required; those of the candidate are used if none are given.
        let bare = server.post("/notes/detail", &json!({ "platform": "xhs", "note_ids": [id(7)] }));
        assert_eq!((bare.status, &bare.body["error"]["code"]), (400, &"INVALID_INPUT".into()), "{}", bare.body);
        server.candidates("tea");
        let kept = server.get(&format!("/notes/{}?platform=xhs", id(7)));
        check_single(&kept);
        assert_eq!(kept.body["data"]["note_id"], id(7).as_str());
        let token = items[8]["tokens"]["xsec_token"].as_str().unwrap().replace('=', "%3D");
        let given = server.get(&format!("/notes/{}?platform=xhs&xsec_token={token}", id(8)));
        assert_eq!(given.status, 200, "{}", given.body);
        let gone = server.get(&format!("/notes/{}?platform=xhs", id(4)));
        check_single(&gone);
        assert_eq!((gone.status, &gone.body["error"]["code"]), (404, &"NOT_FOUND".into()), "the item's fault");
        assert_eq!(server.cookie("account_01")["total_errors"], 0, "and not the cookie's");
        for ids in [vec![], vec!["x".to_owned(); 21]] {
            let answer = server.post("/notes/detail", &json!({ "platform": "xhs", "note_ids": ids }));
            assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &"INVALID_INPUT".into()));
        }
    });
}

// covers: CRAWL-170, CRAWL-78, TWEET-145
on_both!(slow_search_times_out);
async fn slow_search_times_out(on: On) {
    everywhere(on, &Script { latency_ms: 60_000, ..script() }, &[("SEARCH_TIMEOUT", "1")], |server| {
        server.add_cookie("account_01", GOOD, 1);
        let late = server.post("/search", &search("tea"));
        check_single(&late);
        assert_eq!((late.status, &late.body["error"]["code"]), (504, &"TIMEOUT_ERROR".into()), "{}", late.body);
        assert_eq!(
            (&late.body["error"]["retryable"], &late.body["meta"]["cookie_used"]),
            (&true.into(), &"account_01".into())
        );
        assert_eq!(server.cookie("account_01")["total_errors"], 0, "not the cookie's fault");
    });
}

// covers: CRAWL-RULE-3, CRAWL-44, CRAWL-45, CRAWL-46, CRAWL-47, CRAWL-48, CRAWL-49, CRAWL-50, CRAWL-51, CRAWL-190
// covers: CRAWL-191, CRAWL-192, CRAWL-95, CRAWL-96, CRAWL-110, CRAWL-111, CRAWL-112, CRAWL-113, CRAWL-114, CRAWL-116
// covers: CRAWL-DAY2-1, CRAWL-GAP-07, CRAWL-GAP-11, CRAWL-GAP-18, CRAWL-GAP-19
on_both!(one_execution_of_a_workflow_runs_at_a_time);
async fn one_execution_of_a_workflow_runs_at_a_time(on: On) {
    everywhere(on, &script(), &[], |server| {
        let winners = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..50).map(|_| scope.spawn(|| server.lock("w")["locked"] == true)).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(winners, 1);
        let other = server.lock("other");
        assert_eq!(other["locked"], true, "another workflow is not blocked");
        let id = other["execution_id"].as_str().unwrap().to_owned();
        let (stem, number) = (id.starts_with("exec-"), id.split('-').nth(1).unwrap().parse::<u64>().is_ok());
        assert!(stem && number, "{id}");
        assert_eq!(other["started_at"], other["heartbeat_at"]);
        assert!(other["expires_at"].as_str() > other["started_at"].as_str());
        let refused = server.lock("other");
        assert_eq!((&refused["locked"], &refused["reason_code"]), (&false.into(), &"ALREADY_RUNNING".into()));
        assert_eq!(refused["holder"]["execution_id"], id.as_str());
        let beat = json!({ "items_processed": 12, "items_failed": 1 });
        let kept = server.data("POST", &format!("/executions/{id}/heartbeat"), Some(&beat));
        assert_eq!((&kept["items_processed"], &kept["status"]), (&12.into(), &"running".into()));
        let end = json!({ "status": "completed", "items_processed": 20, "items_failed": 1 });
        let released = server.data("POST", &format!("/executions/{id}/release"), Some(&end));
        assert!(released["completed_at"].is_string(), "{released}");
        server.data("POST", &format!("/executions/{id}/release"), Some(&end));
        for path in ["heartbeat", "release"] {
            let body = if path == "release" { json!({ "status": "failed" }) } else { json!({}) };
            let late = server.post(&format!("/executions/{id}/{path}"), &body);
            assert_eq!((late.status, &late.body["error"]["code"]), (409, &"LOCK_LOST".into()), "{}", late.body);
        }
        assert_eq!(server.lock("other")["locked"], true, "the next run starts at once");
        // Half an hour without a heartbeat: nothing waits for the recovery.
        server.age("ing_execution", "heartbeat_at", 30);
        assert_eq!(server.lock("other")["locked"], true);
        let timed_out = server.data("GET", "/executions?workflow_name=other&status=timeout", None);
        assert_eq!(timed_out["items"].as_array().map(Vec::len), Some(1));
        assert!(timed_out["items"][0]["completed_at"].is_string());
    });
}

// covers: CRAWL-RULE-2, CRAWL-RULE-4, CRAWL-RULE-5, CRAWL-42, CRAWL-87, CRAWL-99, CRAWL-100, CRAWL-102, CRAWL-115
// covers: CRAWL-117, CRAWL-119, CRAWL-121, CRAWL-123, CRAWL-126, CRAWL-130, CRAWL-131, CRAWL-132, CRAWL-DAY2-2
// covers: CRAWL-DAY2-3
on_both!(record_has_one_owner_and_a_note_is_stored_once);
async fn record_has_one_owner_and_a_note_is_stored_once(on: On) {
    for place in on.places() {
        let mut server = TestServer::open(place, server::mock_api(script()), &[]);
        server.add_cookie("account_01", GOOD, 1);
        server.candidates("tea");
        let known = server.data(
            "POST",
            "/candidates",
            Some(&json!({ "platform": "xhs", "items": [{ "note_id": "n1" }, { "note_id": "n1" }] })),
        );
        assert_eq!(known, json!({ "created": 1, "existing": 1 }));
        let a = server.lock("a")["execution_id"].as_str().unwrap().to_owned();
        let b = server.lock("b")["execution_id"].as_str().unwrap().to_owned();
        let claim = |execution: &str, size: u32| {
            let body = json!({ "execution_id": execution, "batch_size": size, "platform": "xhs" });
            server.data("POST", "/candidates/claim", Some(&body))["records"].as_array().unwrap().clone()
        };
        let (server_ref, claim_ref) = (&server, &claim);
        let both = std::thread::scope(|scope| {
            let callers: Vec<_> = [&a, &b, &a, &b].map(|execution| scope.spawn(move || claim_ref(execution, 7))).into();
            callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
        });
        let distinct: BTreeSet<_> = both.iter().map(|record| record["note_id"].as_str().unwrap()).collect();
        assert_eq!((both.len(), distinct.len()), (26, 26), "none twice, none left");
        let record = both.iter().find(|record| record["processing_lock"] == a.as_str()).unwrap().clone();
        assert!(record["locked_at"].is_string() && record["status"] == "processing", "{record}");
        let note_id = record["note_id"].as_str().unwrap();

        // Written twice, by any execution: one note, and its candidate is done.
        let write = json!({
            "execution_id": b, "record_info": record,
            "crawl_result": { "title": "A", "content": "...", "author": "someone", "published_at": "2026-02-25T08:00:00Z", "extra": [1] },
            "exec_meta": { "latency_ms": 1234 },
        });
        let written = server.call("POST", "/api/v1/crawler/notes", Some("wf-9-abc-write"), Some(&write));
        assert_eq!(written.body["data"]["action"], "created", "{}", written.body);
        let again = server.data("POST", "/notes", Some(&write));
        assert_eq!((&again["action"], &again["existing_id"]), (&"skipped".into(), &written.body["data"]["id"]));
        assert_eq!(again["idempotency_key"], format!("{note_id}_v1"));
        let notes = server.data("GET", &format!("/notes?note_id={note_id}"), None);
        let note = &notes["items"][0];
        assert_eq!(notes["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            (&note["title"], &note["published_at"].as_str().map(|at| at.starts_with("2026-02-25T08"))),
            (&"A".into(), &Some(true))
        );
        assert_eq!(note["crawl_result"]["extra"], json!([1]), "all of it is kept");
        assert_eq!(
            (&note["exec_meta"]["request_id"], &note["exec_meta"]["workflow_trace_id"]),
            (&"wf-9-abc-write".into(), &"wf-9-abc".into())
        );
        let one = |id: &str| server_ref.data("GET", &format!("/candidates?note_id={id}"), None)["items"][0].clone();
        let done = one(note_id);
        assert_eq!(
            (&done["status"], &done["processing_lock"], &done["locked_at"]),
            (&"collected".into(), &Value::Null, &Value::Null)
        );
        for name in ["request_id", "workflow_trace_id", "crawled_at", "source_keyword", "latency_ms", "retry_count"] {
            assert!(done["exec_meta"].get(name).is_some(), "{name}: {done}");
        }
        // Only the execution that holds the record can report its failure.
        let failing =
            both.iter().find(|record| record["processing_lock"] == a.as_str() && record["note_id"] != note_id).unwrap();
        let failing = failing["note_id"].as_str().unwrap();
        let fail = |execution: &str| {
            server_ref.post(
                &format!("/candidates/{failing}/fail"),
                &json!({ "execution_id": execution, "platform": "xhs", "error_code": "TIMEOUT_ERROR" }),
            )
        };
        let stranger = fail(&b);
        assert_eq!((stranger.status, &stranger.body["error"]["code"]), (409, &"LOCK_LOST".into()));
        assert_eq!(fail(&a).body["data"], json!({ "note_id": failing, "status": "pending", "retry_count": 1 }));
        assert_eq!(fail(&a).status, 409, "the lock is lost");
        for retries in 2..=4 {
            assert_eq!(claim(&a, 1)[0]["note_id"], failing, "the oldest first");
            let expected = if retries < 4 { "pending" } else { "failed" };
            assert_eq!(fail(&a).body["data"]["status"], expected);
        }
        assert_eq!(one(failing)["last_error_code"], "TIMEOUT_ERROR");
        let requeued =
            server.data("POST", "/candidates/requeue", Some(&json!({ "platform": "xhs", "note_id": failing })));
        assert_eq!(requeued["requeued"], 1);
        assert_eq!((&one(failing)["status"], &one(failing)["retry_count"]), (&"pending".into(), &0.into()));

        // A heartbeat keeps the records too; without one, all of them are released, also at a start.
        server.age("crawl_candidate", "locked_at", 31);
        server.data("POST", &format!("/executions/{a}/heartbeat"), Some(&json!({})));
        let held = |execution: &str| both.iter().filter(|record| record["processing_lock"] == execution).count();
        let recovered = server.data("POST", "/recover", Some(&json!({})));
        assert_eq!(recovered["executions_timed_out"], 0);
        assert_eq!(recovered["records_requeued"], held(&b), "{recovered}");
        server.age("ing_execution", "heartbeat_at", 31);
        server.age("crawl_candidate", "locked_at", 31);
        server.restart();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while server.data("GET", "/candidates?status=processing", None)["items"] != json!([]) {
            assert!(std::time::Instant::now() < deadline, "nothing was recovered");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let timed_out = server.data("GET", "/executions?status=timeout", None);
        assert_eq!(timed_out["items"].as_array().map(Vec::len), Some(2));
        let again = server.data("POST", "/recover", Some(&json!({})));
        assert_eq!(again["executions_timed_out"], 0, "nothing more");
    }
}

// covers: CRAWL-DAY1-1, CRAWL-01, CRAWL-25, CRAWL-41, CRAWL-43, CRAWL-53, CRAWL-54, CRAWL-55, CRAWL-194, CRAWL-193
on_both!(crawler_tables_have_all_fields_and_constraints);
async fn crawler_tables_have_all_fields_and_constraints(on: On) {
    everywhere(on, &script(), &[], |server| {
        for (table, columns) in [
            ("reg_prov_credential", "alias, provenance_code, sealed, key_id, priority, daily_limit, created_at"),
            (
                "ing_credential_state",
                "cookie_code, daily_used, consecutive_errors, total_errors, cooling_until, last_used_at, updated_at",
            ),
            (
                "crawl_candidate",
                "note_id, platform, note_url, status, processing_lock, locked_at, retry_count, source_keyword, exec_meta",
            ),
            (
                "ing_execution",
                "workflow_name, execution_id, status, started_at, heartbeat_at, completed_at, items_processed, items_failed",
            ),
            (
                "item_note",
                "idempotency_key, processing_lock, locked_at, retry_count, last_error_code, exec_meta, note_id, note_url, published_at",
            ),
        ] {
            assert!(server.place.sql(&format!("SELECT {columns} FROM {table} WHERE 1 = 0")).is_empty());
        }
        let catalogue = match server.place.database_url() {
            Some(_) => "SELECT indexname FROM pg_indexes",
            None => "SELECT name FROM sqlite_master WHERE type = 'index'",
        };
        let indexes = server.place.sql(catalogue);
        for wanted in ["uk_cookie_name", "idx_cookie_pick", "uk_execution_running"] {
            assert!(indexes.iter().any(|name| name == wanted), "{wanted}: {indexes:?}");
        }
    });
}

//! The URL pool through its interfaces: documents, look-back, capture, both libraries, background jobs.

#![expect(clippy::disallowed_methods, reason = "a test that waits for another process")]

use std::time::Duration;

use patra_upstream::Script;
use serde_json::{Value, json};

use crate::crawler::server::{Response, TestServer, everywhere};
use crate::support::{On, manifest, preamble};

const POOL: &str = "/api/v1/resource_pool";

/// A client with the key of a project.
struct Member<'a> {
    server: &'a TestServer,
    project: &'a str,
}

impl Member<'_> {
    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let head = format!("X-Project-Key: {}\r\n", self.project);
        let body = body.map(Value::to_string);
        self.server.call_with(Some(&self.server.key), method, path, None, body.as_deref(), &head)
    }

    #[track_caller]
    fn ok(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.call(method, path, body);
        assert!(answer.status < 300 && answer.body["status"] == "ok", "{path}: {} {}", answer.status, answer.body);
        assert_eq!(answer.body["error"], Value::Null);
        assert!(answer.body["meta"]["request_id"].is_string());
        answer.body
    }

    fn document(&self, uri: &str, doc_type: &str, content: &str, extracted: &Value) -> i64 {
        let body = json!({
            "uri": uri, "doc_type": doc_type, "state": "CA", "content": content, "extracted_data": extracted,
        });
        self.ok("POST", "/api/v1/documents", Some(&body))["data"]["document_id"].as_i64().unwrap()
    }

    fn extract(&self, body: &Value) -> Value {
        self.ok("POST", &format!("{POOL}/extract/from-documents"), Some(body))["data"].clone()
    }

    fn urls(&self, query: &str) -> (Vec<Value>, u64) {
        let answer = self.ok("GET", &format!("{POOL}/urls{query}"), None);
        let total = answer["meta"]["pagination"]["total"].as_u64().unwrap();
        (answer["data"]["items"].as_array().unwrap().clone(), total)
    }

    /// Collects from an endpoint of the upstream; returns the id of the job and its result.
    fn job(&self, endpoint: &str, to: &str) -> (String, Value) {
        let body = json!({ "provenance": "far", "endpoint": endpoint, "to": to });
        let id = self.ok("POST", "/api/v1/jobs", Some(&body))["data"]["public_id"].as_str().unwrap().to_owned();
        let job = wait(|| {
            let answer = self.ok("GET", &format!("/api/v1/jobs/{id}"), None);
            (answer["meta"]["finished"] == true).then_some(answer["data"].clone())
        });
        (id, job)
    }
}

#[track_caller]
fn apply(server: &TestServer, manifest: &str) {
    let applied = server.call_with(Some(&server.key), "POST", "/api/v1/manifests", None, Some(manifest), "");
    assert!([200, 201].contains(&applied.status), "{}", applied.body);
}

fn project<'a>(server: &'a TestServer, project: &'a str) -> Member<'a> {
    let body = json!({ "project_key": project });
    let made = server.call("POST", "/api/v1/projects", None, Some(&body));
    assert!([200, 201].contains(&made.status), "{}", made.body);
    Member { server, project }
}

fn counts(result: &Value) -> [u64; 3] {
    ["urls_extracted", "urls_new", "urls_duplicate"].map(|name| result[name].as_u64().unwrap())
}

// covers: POOL-15, POOL-13, POOL-27, POOL-28, POOL-29, POOL-30, POOL-31, POOL-32, POOL-33, POOL-35, POOL-36, POOL-38, POOL-39,
// covers: POOL-40, POOL-41, POOL-42, POOL-43, POOL-46, POOL-119, POOL-AC-01, POOL-AC-02, POOL-AC-07, POOL-24, POOL-125
on_both!(urls_of_documents_are_added_once_and_kept);
async fn urls_of_documents_are_added_once_and_kept(on: On) {
    everywhere(on, &Script::default(), &[], |server| {
        let lottery = project(server, "online_lottery");
        let one =
            lottery.document("doc:1", "policy", "see https://Example.com/a and https://example.com/b.", &json!(null));
        let two = lottery.document(
            "doc:2",
            "market",
            "again HTTPS://example.com:443/a#top",
            &json!({ "l": ["http://x.org"] }),
        );
        lottery.document("doc:3", "other", "", &json!({ "deep": { "er": "text with https://y.net/?q=1 in it" } }));
        let done = lottery.extract(&json!({ "async_mode": false }));
        assert_eq!(
            (&done["task_id"], &done["async"], &done["status"]),
            (&json!(null), &json!(false), &json!("finished"))
        );
        assert_eq!((&done["result"]["documents_scanned"], &done["result"]["scope"]), (&json!(3), &json!("project")));
        assert_eq!(counts(&done["result"]), [4, 4, 0]);
        assert_eq!(counts(&lottery.extract(&json!({}))["result"]), [4, 0, 4]);
        // Filters: values of one filter are alternatives, several filters must all match; ids override them.
        let filtered =
            |filters: Value| lottery.extract(&json!({ "filters": filters }))["result"]["documents_scanned"].clone();
        assert_eq!(filtered(json!({ "doc_type": ["policy", "market"] })), 2);
        assert_eq!(filtered(json!({ "doc_type": ["policy"], "state": ["NV"] })), 0);
        assert_eq!(filtered(json!({ "document_ids": [one, two], "doc_type": ["none"] })), 2);
        let newest = lottery.extract(&json!({ "filters": { "limit": 1 }, "scope": "shared" }));
        assert_eq!((counts(&newest["result"]), &newest["result"]["scope"]), ([1, 1, 0], &json!("shared")));
        // The documents' own addresses only on request.
        lottery.document("https://own.example/page", "web", "nothing", &json!(null));
        assert_eq!(counts(&lottery.extract(&json!({ "filters": { "doc_type": ["web"] } }))["result"]), [0, 0, 0]);
        let with = lottery.extract(&json!({ "filters": { "doc_type": ["web"], "include_uri": true } }));
        assert_eq!(counts(&with["result"]), [1, 1, 0]);
        // A missing id fails the whole request.
        let (_, before) = lottery.urls("");
        let missing = lottery.call(
            "POST",
            &format!("{POOL}/extract/from-documents"),
            Some(&json!({ "filters": { "document_ids": [one, 999_999] } })),
        );
        assert_eq!((missing.status, &missing.body["error"]["code"]), (404, &json!("NOT_FOUND")));
        assert_eq!(missing.body["error"]["details"]["missing_ids"], json!([999_999]));
        let many = json!({ "filters": { "document_ids": [one, two], "limit": 1 } });
        assert_eq!(lottery.call("POST", &format!("{POOL}/extract/from-documents"), Some(&many)).status, 400);
        assert_eq!(lottery.urls("").1, before);
        let item = &lottery.urls("?source=document&domain=EXAMPLE.com").0[0];
        for name in ["id", "url", "domain", "source", "source_ref", "scope", "created_at"] {
            assert!(!item[name].is_null(), "{name}: {item}");
        }
    });
}

// covers: POOL-02, POOL-03, POOL-04, POOL-05, POOL-07, POOL-08, POOL-09, POOL-12, POOL-52, POOL-53, POOL-54, POOL-55,
// covers: POOL-56, POOL-57, POOL-58, POOL-59, POOL-21, POOL-AC-03, POOL-AC-04, POOL-AC-05, POOL-AC-06, POOL-51, POOL-08, POOL-126
on_both!(project_url_covers_the_shared_one_and_is_private);
async fn project_url_covers_the_shared_one_and_is_private(on: On) {
    everywhere(on, &Script::default(), &[], |server| {
        let (a, b) = (project(server, "aa"), project(server, "bb"));
        a.document("doc:1", "x", "https://both.example/ https://mine.example/", &json!(null));
        b.document("doc:1", "x", "https://both.example/", &json!(null));
        assert_eq!(counts(&a.extract(&json!({ "scope": "project" }))["result"]), [2, 2, 0]);
        assert_eq!(counts(&b.extract(&json!({ "scope": "project" }))["result"]), [1, 1, 0]);
        assert_eq!(counts(&a.extract(&json!({ "scope": "shared" }))["result"]), [2, 2, 0]);
        assert_eq!(counts(&b.extract(&json!({ "scope": "shared" }))["result"]), [1, 0, 1]);
        let scopes = |member: &Member<'_>, query: &str| -> Vec<String> {
            member
                .urls(query)
                .0
                .iter()
                .map(|url| format!("{} {}", url["domain"].as_str().unwrap(), url["scope"].as_str().unwrap()))
                .collect()
        };
        let mut seen = scopes(&b, "");
        seen.sort();
        assert_eq!(seen, ["both.example project", "mine.example shared"]);
        assert_eq!(scopes(&b, "?scope=project"), ["both.example project"]);
        assert_eq!(b.urls("?scope=shared").1, 2);
        // Covering applies before filtering: no URL from `task` is listed, even if the shared library has it.
        assert_eq!(b.urls("?source=task").1, 0);
        assert_eq!(b.urls("?domain=both").1, 1);
        assert_eq!(b.urls("?domain=%25").1, 0, "a percent sign is one");
        let (page, total) = b.urls("?page=2&page_size=1");
        assert_eq!((page.len(), total), (1, 2));
        let beyond = b.ok("GET", &format!("{POOL}/urls?page=9"), None);
        assert_eq!(beyond["data"]["items"], json!([]));
        assert_eq!(
            beyond["meta"]["pagination"],
            json!({ "page": 9, "page_size": 20, "total": 2, "total_pages": 1, "next_before": null })
        );
        let shared = server.call("GET", &format!("{POOL}/urls?scope=shared"), None, None);
        assert_eq!(shared.status, 200, "the shared library needs no project: {}", shared.body);
        // Only administration sees the document of a shared URL: no project does, not even the one that found it.
        let found_in =
            |items: &Value| items.as_array().unwrap().iter().map(|url| url["source_ref"].clone()).collect::<Vec<_>>();
        assert!(found_in(&shared.body["data"]["items"]).iter().all(|found| found["document_id"].is_number()));
        for member in [&a, &b] {
            assert_eq!(found_in(&member.urls("?scope=shared").0.into()), [json!({}), json!({})]);
            assert!(
                found_in(&member.urls("?scope=project").0.into()).iter().all(|found| found["document_id"].is_number())
            );
        }
        let effective = b.urls("?domain=mine").0;
        assert_eq!((&effective[0]["scope"], &effective[0]["source_ref"]), (&json!("shared"), &json!({})));
    });
}

// covers: POOL-121, POOL-06, POOL-16, POOL-17, POOL-19, POOL-20, POOL-22, POOL-23, POOL-25, POOL-26, POOL-AC-11, POOL-AC-12,
// covers: POOL-AC-13, POOL-18
on_both!(what_is_wrong_is_refused_by_name);
async fn what_is_wrong_is_refused_by_name(on: On) {
    everywhere(on, &Script::default(), &[], |server| {
        let a = project(server, "aa");
        let extract = format!("{POOL}/extract/from-documents");
        let refused = |answer: Response, status: u16, code: &str, field: Option<&str>| {
            assert_eq!((answer.status, &answer.body["error"]["code"]), (status, &json!(code)), "{}", answer.body);
            assert_eq!((&answer.body["status"], &answer.body["data"]), (&json!("error"), &json!(null)));
            assert!(answer.body["meta"]["request_id"].is_string() && answer.body["error"]["details"].is_object());
            if let Some(field) = field {
                assert_eq!(answer.body["error"]["details"]["field"], field, "{}", answer.body);
            }
        };
        refused(a.call("GET", &format!("{POOL}/urls?page_size=101"), None), 400, "INVALID_INPUT", Some("page_size"));
        refused(a.call("GET", &format!("{POOL}/urls?page=0"), None), 400, "INVALID_INPUT", Some("page"));
        refused(a.call("GET", &format!("{POOL}/urls?source=x"), None), 400, "INVALID_INPUT", Some("source"));
        refused(a.call("POST", &extract, Some(&json!({ "scope": "effective" }))), 400, "INVALID_INPUT", Some("scope"));
        refused(server.call("POST", &extract, None, Some(&json!({}))), 400, "INVALID_INPUT", Some("project_key"));
        refused(
            a.call("POST", &extract, Some(&json!({ "project_key": "bb" }))),
            400,
            "INVALID_INPUT",
            Some("project_key"),
        );
        let nobody = Member { server, project: "nobody" };
        refused(nobody.call("POST", &extract, Some(&json!({}))), 404, "NOT_FOUND", None);
        refused(server.call_as(None, "GET", &format!("{POOL}/urls"), None, None), 401, "UNAUTHORIZED", None);
        let reader = String::from_utf8(server.place.run(&["key", "create", "reader"]).stdout).unwrap();
        if server.place.database_url().is_some() {
            refused(server.call_as(Some(reader.trim()), "POST", &extract, None, Some("{}")), 403, "FORBIDDEN", None);
        }
        let last = (0..40).map(|_| a.call("POST", &extract, Some(&json!({})))).find(|answer| answer.status == 429);
        let last = last.unwrap();
        assert!(last.retry_after.as_deref().unwrap().parse::<u64>().unwrap() <= 60);
        refused(last, 429, "RATE_LIMITED", None);
    });
}

// covers: POOL-77, POOL-34, POOL-37, POOL-44, POOL-96, POOL-97, POOL-98, POOL-116, POOL-117, POOL-AC-08
on_both!(background_search_survives_a_restart);
async fn background_search_survives_a_restart(on: On) {
    for place in on.places() {
        let mut server = TestServer::open(place, crate::crawler::server::mock_api(Script::default()), &[]);
        let task = {
            let a = project(&server, "aa");
            a.document("doc:1", "x", "https://one.example/ https://two.example/", &json!(null));
            let answer =
                a.call("POST", &format!("{POOL}/extract/from-documents"), Some(&json!({ "async_mode": true })));
            assert_eq!(answer.status, 202, "{}", answer.body);
            let data = &answer.body["data"];
            assert_eq!(
                (&data["async"], &data["status"], &data["result"]),
                (&json!(true), &json!("queued"), &json!(null))
            );
            let back = a.call("POST", &format!("{POOL}/capture/from-tasks"), Some(&json!({ "async_mode": true })));
            assert_eq!((back.status, &back.body["data"]["status"]), (202, &json!("queued")), "{}", back.body);
            let now = a.ok("POST", &format!("{POOL}/capture/from-tasks"), Some(&json!({})));
            assert_eq!(now["data"]["async"], json!(false), "at once unless it says so: {now}");
            data["task_id"].as_str().unwrap().to_owned()
        };
        server.restart();
        let a = Member { server: &server, project: "aa" };
        let job = wait(|| {
            let job = a.ok("GET", &format!("/api/v1/jobs/{task}"), None)["data"].clone();
            (job["status"] == "finished").then_some(job)
        });
        let [found, new, known] = counts(&job["result"]);
        assert_eq!((found, new + known), (2, 2), "a job killed after its write finds its own rows");
        assert_eq!(a.urls("?source=document").1, 2);
        assert_eq!((&job["job_type"], &job["project_key"]), (&json!("resource_pool_extract_documents"), &json!("aa")));
        assert!(["created_at", "started_at", "finished_at"].iter().all(|name| job[*name].is_string()), "{job}");
        let foreign = project(&server, "bb").call("GET", &format!("/api/v1/jobs/{task}"), None);
        assert_eq!(foreign.status, 404);
    }
}

// covers: POOL-14, POOL-66, POOL-67, POOL-68, POOL-69, POOL-73, POOL-74, POOL-81, POOL-82, POOL-83, POOL-85, POOL-89
// covers: POOL-AC-09
on_both!(task_urls_are_captured_if_configured_and_found_by_look_back_otherwise);
async fn task_urls_are_captured_if_configured_and_found_by_look_back_otherwise(on: On) {
    everywhere(on, &Script::default(), &[], |server| {
        let a = project(server, "aa");
        let enabled = a.ok(
            "POST",
            &format!("{POOL}/capture/enable"),
            Some(&json!({ "job_types": ["far", "google_news"], "enabled": true })),
        );
        assert_eq!(enabled["data"]["unknown_job_types"], json!(["far", "google_news"]));
        let off = a.ok(
            "POST",
            &format!("{POOL}/capture/enable"),
            Some(&json!({ "job_types": ["google_news"], "enabled": false })),
        );
        let types: Vec<_> = off["data"]["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (item["job_type"].as_str().unwrap().to_owned(), item["enabled"].as_bool().unwrap()))
            .collect();
        assert_eq!(types, [("far".to_owned(), true), ("google_news".to_owned(), false)]);
        assert_eq!(a.ok("GET", &format!("{POOL}/capture/config"), None)["data"]["items"], off["data"]["items"]);
        // Each record of the upstream has one link.
        let applied = server.call("POST", "/api/v1/manifests", None, Some(&json!(null)));
        assert_ne!(applied.status, 200, "an invalid manifest is refused");
        apply(server, &manifest(server.mock_api.base_url()));
        let (id, _) = a.job("records", "2024-01-03T12:00:00Z");
        let (found, total) = a.urls("?source=task");
        assert!(total > 0, "{found:?}");
        assert_eq!(found[0]["source_ref"], json!({ "task_id": id, "job_type": "far" }));
        // With capture off, the next task adds no URLs.
        a.ok("POST", &format!("{POOL}/capture/enable"), Some(&json!({ "job_types": ["far"], "enabled": false })));
        std::thread::sleep(Duration::from_millis(1_100));
        a.job("records", "2024-01-06T12:00:00Z");
        assert_eq!(a.urls("?source=task").1, total);
        // Another project has no capture and uses look-back.
        let b = project(server, "bb");
        let (other, _) = b.job("records", "2024-01-03T12:00:00Z");
        assert_eq!(b.urls("?scope=project").1, 0);
        let look =
            |body: Value| b.ok("POST", &format!("{POOL}/capture/from-tasks"), Some(&body))["data"]["result"].clone();
        let result = look(json!({ "task_ids": [other] }));
        assert_eq!((result["tasks_scanned"].as_u64(), result["urls_new"].as_u64()), (Some(1), Some(total)));
        assert_eq!(look(json!({ "job_type": "far", "since": "2024-01-01T00:00:00Z" }))["urls_new"], 0);
        assert_eq!(look(json!({ "job_type": "nothing" }))["tasks_scanned"], 0);
        let foreign = b.call("POST", &format!("{POOL}/capture/from-tasks"), Some(&json!({ "task_ids": [id] })));
        assert_eq!((foreign.status, &foreign.body["error"]["details"]["missing_ids"]), (404, &json!([id])));
    });
}

/// A search that returns addresses of pages, and an endpoint that fetches them; none of the pages exists any more.
fn discovery(base_url: &str) -> String {
    preamble(base_url)
        + r#"  discovery_search:
    path: /offset
    query: { offset: "${ page.offset }", limit: "${ page.size }", from: "${ window.from | iso }", to: "${ window.to | iso }" }
    pagination: { type: offset, page_size: 40 }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT1M, max_window: P10D, align: hour, initial: 2024-01-01 }
    two_phase: { detail: page, missing: ignore }
    response: { items_path: $.items, id_path: $.url, total_path: $.total }
  page:
    role: detail
    path: /details
    query: { ids: "${ ids | join(',') }" }
    response: { items_path: $.items, id_path: $.url, updated_at_path: $.updated_at }
"#
}

// covers: POOL-87, POOL-90, POOL-14
on_both!(links_found_by_a_search_are_captured_without_records);
async fn links_found_by_a_search_are_captured_without_records(on: On) {
    everywhere(on, &Script::default(), &[], |server| {
        let a = project(server, "aa");
        apply(server, &discovery(server.mock_api.base_url()));
        a.ok("POST", &format!("{POOL}/capture/enable"), Some(&json!({ "job_types": ["far"] })));
        let (id, job) = a.job("discovery_search", "2024-01-03T12:00:00Z");
        let (found, total) = a.urls("?source=task");
        assert!(total > 0, "{job}");
        assert_eq!(job["inserted"], 0, "{job}");
        assert_eq!(found[0]["source_ref"], json!({ "task_id": id, "job_type": "far" }));
        assert!(found.iter().all(|url| url["url"].as_str().unwrap().starts_with("https://example.org/works/")));
    });
}

// covers: POOL-88, POOL-AC-10
on_both!(unwritable_pool_loses_no_record);
async fn unwritable_pool_loses_no_record(on: On) {
    everywhere(on, &Script::default(), &[], |server| {
        let a = project(server, "aa");
        a.ok("POST", &format!("{POOL}/capture/enable"), Some(&json!({ "job_types": ["far"] })));
        server.place.sql("ALTER TABLE resource_pool_urls RENAME TO gone");
        apply(server, &manifest(server.mock_api.base_url()));
        let (_, job) = a.job("records", "2024-01-03T12:00:00Z");
        assert_eq!((job["tasks_failed"].as_u64(), job["inserted"].as_u64()), (Some(0), Some(10)), "{job}");
        assert!(server.log().contains("could not be captured"));
    });
}

// covers: POOL-91, POOL-92, POOL-93, POOL-94, POOL-95
on_both!(project_lists_what_it_can_collect_from);
async fn project_lists_what_it_can_collect_from(on: On) {
    everywhere(on, &Script::default(), &[], |server| {
        let (a, b) = (project(server, "aa"), project(server, "bb"));
        let source = json!({ "type": "rss", "name": "CA Lottery", "config": { "url": "https://example.com/feed", "resource_id": "xhs" } });
        let made = a.call("POST", "/api/sources", Some(&source));
        assert_eq!(made.status, 201, "{}", made.body);
        let of = |member: &Member<'_>, query: &str| {
            let answer = member.ok("GET", &format!("/api/v1/ingest/news-resources{query}"), None);
            answer["data"]["items"].clone()
        };
        assert_eq!(of(&a, ""), json!([{ "resource_id": "xhs", "name": "CA Lottery", "scope": "project" }]));
        assert_eq!(of(&b, ""), json!([{ "resource_id": "xhs", "name": "Xiaohongshu", "scope": "shared" }]));
        assert_eq!(of(&a, "?scope=shared")[0]["scope"], "shared");
        assert_eq!(of(&b, "?scope=project"), json!([]));
        // Every source has a resource of its own, whatever its name is.
        for (no, name) in ["Daily News", "daily-news", "DAILY NEWS", "!!!", "?", "Xiaohongshu"].into_iter().enumerate()
        {
            let config = json!({ "url": format!("https://example.com/feed/{no}") });
            let source = json!({ "type": "rss", "name": name, "config": config });
            let made = b.call("POST", "/api/sources", Some(&source));
            assert_eq!(made.status, 201, "{}", made.body);
        }
        let listed = of(&b, "");
        let ids: Vec<&str> =
            listed.as_array().unwrap().iter().map(|one| one["resource_id"].as_str().unwrap()).collect();
        let names: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 7, "six sources and the shared connector: {listed}");
        assert!(ids.iter().all(|id| !id.is_empty()) && ids.contains(&"daily_news") && ids.contains(&"xhs"), "{ids:?}");
        for name in ["Daily News", "daily-news", "DAILY NEWS", "!!!", "?"] {
            assert!(names.contains(&name), "{name}: {listed}");
        }
        assert_eq!(of(&b, ""), listed, "codes stay");
    });
}

// covers: POOL-33, POOL-41, POOL-53, POOL-54, POOL-59
on_both!(every_document_and_every_url_is_reached_page_by_page);
async fn every_document_and_every_url_is_reached_page_by_page(on: On) {
    everywhere(on, &Script::default(), &[], |server| {
        let a = project(server, "aa");
        for no in 0..5 {
            a.document(
                &format!("doc:{no}"),
                "x",
                &format!("https://{no}.example/ https://{no}.example/b"),
                &json!(null),
            );
        }
        let (mut found, mut filters) = (Vec::new(), json!({ "limit": 2 }));
        loop {
            let result = a.extract(&json!({ "filters": filters }))["result"].clone();
            found.push(counts(&result)[1]);
            let Some(next) = result["next_before_id"].as_i64() else { break };
            filters["before_id"] = json!(next);
        }
        assert_eq!(found, [4, 4, 2], "the last search says that nothing is left");
        let read = |query: &str| a.ok("GET", &format!("{POOL}/urls?{query}"), None);
        let all = read("limit=1000")["data"]["items"].clone();
        let (mut paged, mut query) = (Vec::new(), "limit=3".to_owned());
        loop {
            let page = read(&query);
            assert!(page["meta"]["pagination"]["total"].as_u64().unwrap() >= 10);
            paged.extend(page["data"]["items"].as_array().unwrap().clone());
            let Some(next) = page["meta"]["pagination"]["next_before"].as_str() else { break };
            query = format!("limit=3&before={next}");
            // An entry that is added meanwhile moves no page.
            let no = paged.len();
            a.document(&format!("new:{no}"), "y", &format!("https://new{no}.example/"), &json!(null));
            a.extract(&json!({ "filters": { "doc_type": ["y"] } }));
        }
        assert_eq!(Value::from(paged), all);
        let first = read("page_size=3")["meta"]["pagination"]["next_before"].as_str().unwrap().to_owned();
        assert_eq!(read(&format!("before={first}&limit=1"))["data"]["items"].as_array().unwrap().len(), 1);
        for wrong in ["limit=1001", "limit=0", "before=x", "before=1.2&page=2", "limit=5&page_size=5"] {
            let refused = a.call("GET", &format!("{POOL}/urls?{wrong}"), None);
            assert_eq!((refused.status, &refused.body["error"]["code"]), (400, &json!("INVALID_INPUT")), "{wrong}");
        }
    });
}

// covers: POOL-45
#[test]
fn pool_find_prints_every_url_of_a_file() {
    let place = crate::support::Workspace::sqlite();
    let count = 100_500;
    let text: String = (0..count).map(|no| format!("http://a.example/{no} ")).collect();
    let file = place.folder.path().join("many.txt");
    std::fs::write(&file, text).unwrap();
    let output = place.run(&["pool", "find", file.to_str().unwrap()]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert_eq!(printed.lines().count(), count);
    assert_eq!(printed.lines().last(), Some("http://a.example/100499"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let missing = place.run(&["pool", "find", place.folder.path().to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(78), "{}", String::from_utf8_lossy(&missing.stderr));
}

#[track_caller]
fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    // Jobs of a killed process are taken over when their lease of a minute has expired.
    for _ in 0..1_500 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it did not come");
}

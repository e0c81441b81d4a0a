//! Jobs by HTTP: filtered by status, and found by name.

use std::sync::Arc;

use axum::http::StatusCode;
use patra_core::port::CommandsExt as _;
use patra_core::state::Operation;
use patra_core::tx::{CancelSubject, CancelWork, KeyScope, RequestJob, RunEnd};
use patra_testkit::contract::{Fixture, Subject, make};
use serde_json::Value;

use super::TestServer;

impl TestServer {
    async fn listed(&self, key: &str, query: &str) -> (Vec<String>, Option<i64>) {
        let (status, text) = self.request("GET", &format!("/api/v1/jobs?{query}"), Some(key)).await;
        assert_eq!(status, StatusCode::OK, "{query}: {text}");
        let response: Value = serde_json::from_str(&text).unwrap();
        let items = response["data"]["items"].as_array().unwrap().iter();
        let ids = items.map(|item| item["public_id"].as_str().unwrap().to_owned()).collect();
        (ids, response["meta"]["next_before_id"].as_i64())
    }
}

// covers: POOL-97, POOL-99
#[tokio::test]
async fn jobs_are_filtered_by_status_and_time() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Read).await;
    let fx = Fixture::new(Subject::untimed(Arc::clone(&server.api.store)));
    fx.plan("failed", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    fx.finish(&lease, RunEnd::Failed { error: make::fault("refused") }).await;
    fx.plan("running", &make::windows(10, 1)).await;
    fx.next().await;
    for job in ["waiting", "ended", "waiting too"] {
        fx.fire(job).await;
    }
    let (target, by) = (CancelSubject::Job("ended".into()), "somebody".to_owned());
    server.api.store.run(CancelWork { target, reason: String::new(), by }).await.unwrap();
    for (query, expected) in [
        ("status=failed", &["failed"][..]),
        ("status=running", &["running"]),
        ("status=Queued", &["waiting too", "waiting"]),
        ("status=cancelled", &["ended"]),
        ("status=finished", &[]),
        ("status=requested", &["waiting too", "waiting"]),
        ("status=queued&since=1971-01-01T00:00:00Z", &[]),
        ("status=queued&since=1970-01-01T00:00:00Z", &["waiting too", "waiting"]),
        ("to=1970-01-01T00:00:00Z", &[]),
    ] {
        assert_eq!(server.listed(&key, query).await.0, expected, "{query}");
    }
    // Pagination.
    let (first, next) = server.listed(&key, "status=queued&limit=1").await;
    assert_eq!(first, ["waiting too"]);
    let (second, _) = server.listed(&key, &format!("status=queued&limit=1&before_id={}", next.unwrap())).await;
    assert_eq!(second, ["waiting"]);
    for (wrong, said) in [("status=odd", "REQUESTED"), ("colour=red", "since"), ("since=yesterday", "since")] {
        let (status, text) = server.request("GET", &format!("/api/v1/jobs?{wrong}"), Some(&key)).await;
        assert!(status == StatusCode::BAD_REQUEST && text.contains(said), "{wrong}: {text}");
    }
    // A failed job has its error.
    let (_, text) = server.request("GET", "/api/v1/jobs/failed", Some(&key)).await;
    let response: Value = serde_json::from_str(&text).unwrap();
    let data = &response["data"];
    assert_eq!((&data["status"], &data["error"]["message"]), (&"failed".into(), &"refused".into()));
}

// covers: POOL-97
#[tokio::test]
async fn job_with_a_failed_task_is_failed_with_the_newest_error() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Read).await;
    let fx = Fixture::new(Subject::untimed(Arc::clone(&server.api.store)));
    let end = async |job: &str, first: i64, ends: Vec<RunEnd>| {
        fx.plan(job, &make::windows(first, ends.len() as i64)).await;
        for end in ends {
            let lease = fx.next().await;
            fx.finish(&lease, end).await;
        }
    };
    let failed = |reason| RunEnd::Failed { error: make::fault(reason) };
    let partial = RunEnd::Partial { error: make::fault("the rest is missing") };
    end("good", 0, vec![RunEnd::Succeeded, RunEnd::Succeeded]).await;
    end("one of three", 10, vec![failed("first"), failed("second"), RunEnd::Succeeded]).await;
    end("read in part", 20, vec![RunEnd::Succeeded, partial]).await;
    end("nothing", 30, vec![failed("third")]).await;
    assert_eq!(server.listed(&key, "status=failed").await.0, ["nothing", "read in part", "one of three"]);
    assert_eq!(server.listed(&key, "status=finished").await.0, ["good"]);
    for (job, status, is_partial, error) in [
        ("good", "finished", false, Value::Null),
        ("one%20of%20three", "failed", true, "second".into()),
        ("read%20in%20part", "failed", true, "the rest is missing".into()),
        ("nothing", "failed", false, "third".into()),
    ] {
        let (_, text) = server.request("GET", &format!("/api/v1/jobs/{job}"), Some(&key)).await;
        let data = &serde_json::from_str::<Value>(&text).unwrap()["data"];
        let expected = (&Value::from(status), &Value::from(is_partial), &error);
        assert_eq!((&data["status"], &data["partial"], &data["error"]["message"]), expected, "{text}");
    }
    let (_, text) = server.request("GET", "/api/v1/jobs", Some(&key)).await;
    let items = serde_json::from_str::<Value>(&text).unwrap()["data"]["items"].take();
    let failed: Vec<_> = items.as_array().unwrap().iter().map(|job| job["tasks_failed"].as_i64().unwrap()).collect();
    assert_eq!(failed, [1, 1, 2, 0]);
}

#[tokio::test]
async fn job_is_found_by_its_name_within_the_project() {
    let server = TestServer::new();
    for project_key in ["one", "two"] {
        server.project(project_key).await;
    }
    let fx = Fixture::new(Subject::untimed(Arc::clone(&server.api.store)));
    fx.fire("feb-2024").await;
    let keys = [
        server.key_of(KeyScope::Write, vec!["one".into()]).await,
        server.key_of(KeyScope::Write, vec!["two".into()]).await,
    ];
    let fire = RequestJob { project_key: "two".into(), ..make::fire("two.feb-2024", Operation::Harvest) };
    server.api.store.run(fire).await.unwrap();
    for (job, found) in [("feb-2024", true), ("two.feb-2024", true), ("two.two.feb-2024", false)] {
        let (status, text) = server.request("GET", &format!("/api/v1/jobs/{job}"), Some(&keys[1])).await;
        assert_eq!(status == StatusCode::OK, found, "{job}: {text}");
        assert_eq!(text.contains(r#""task_id":"two.feb-2024""#), found, "{job}: {text}");
        let (status, _) = server.request("GET", &format!("/api/v1/jobs/{job}"), Some(&keys[0])).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{job}");
    }
    let (status, text) = server.send("POST", "/api/v1/jobs/feb-2024/cancel", Some(&keys[1]), String::new()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    // The job of the same name in the default project is another one.
    let operator = server.key(KeyScope::Read).await;
    let (_, text) = server.request("GET", "/api/v1/jobs/feb-2024", Some(&operator)).await;
    assert!(text.contains(r#""status":"queued""#) && text.contains(r#""task_id":"feb-2024""#), "{text}");
}

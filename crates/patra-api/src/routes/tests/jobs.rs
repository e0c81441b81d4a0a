//! Jobs by HTTP: found by what became of them, and by their name.

use std::sync::Arc;

use axum::http::StatusCode;
use patra_core::port::CommandsExt as _;
use patra_core::state::Operation;
use patra_core::tx::{CancelSubject, CancelWork, KeyScope, RequestJob, RunEnd};
use patra_testkit::contract::{Fixture, Subject, make};
use serde_json::Value;

use super::Door;

impl Door {
    async fn listed(&self, key: &str, query: &str) -> (Vec<String>, Option<i64>) {
        let (status, text) = self.ask("GET", &format!("/api/v1/jobs?{query}"), Some(key)).await;
        assert_eq!(status, StatusCode::OK, "{query}: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        let items = answer["data"]["items"].as_array().unwrap().iter();
        let ids = items.map(|item| item["public_id"].as_str().unwrap().to_owned()).collect();
        (ids, answer["meta"]["next_before_id"].as_i64())
    }
}

// covers: POOL-97, POOL-99
#[tokio::test]
async fn jobs_are_listed_by_what_became_of_them_and_since_when() {
    let door = Door::new();
    let key = door.key(KeyScope::Read).await;
    let fx = Fixture::new(Subject::untimed(Arc::clone(&door.api.store)));
    fx.plan("failed", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    fx.finish(&lease, RunEnd::Failed { error: make::fault("refused") }).await;
    fx.plan("running", &make::windows(10, 1)).await;
    fx.next().await;
    for job in ["waiting", "ended", "waiting too"] {
        fx.fire(job).await;
    }
    let (target, by) = (CancelSubject::Job("ended".into()), "somebody".to_owned());
    door.api.store.run(CancelWork { target, reason: String::new(), by }).await.unwrap();
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
        assert_eq!(door.listed(&key, query).await.0, expected, "{query}");
    }
    // Page by page.
    let (first, next) = door.listed(&key, "status=queued&limit=1").await;
    assert_eq!(first, ["waiting too"]);
    let (second, _) = door.listed(&key, &format!("status=queued&limit=1&before_id={}", next.unwrap())).await;
    assert_eq!(second, ["waiting"]);
    for (wrong, said) in [("status=odd", "REQUESTED"), ("colour=red", "since"), ("since=yesterday", "since")] {
        let (status, text) = door.ask("GET", &format!("/api/v1/jobs?{wrong}"), Some(&key)).await;
        assert!(status == StatusCode::BAD_REQUEST && text.contains(said), "{wrong}: {text}");
    }
    // A job that failed says what of.
    let (_, text) = door.ask("GET", "/api/v1/jobs/failed", Some(&key)).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answer["data"]["status"], &answer["data"]["error"]["message"]), (&"failed".into(), &"refused".into()));
}

#[tokio::test]
async fn a_job_is_found_by_the_name_that_its_project_gave_it() {
    let door = Door::new();
    for project_key in ["one", "two"] {
        door.project(project_key).await;
    }
    let fx = Fixture::new(Subject::untimed(Arc::clone(&door.api.store)));
    fx.fire("feb-2024").await;
    let keys = [
        door.key_of(KeyScope::Write, vec!["one".into()]).await,
        door.key_of(KeyScope::Write, vec!["two".into()]).await,
    ];
    let fire = RequestJob { project_key: "two".into(), ..make::fire("two.feb-2024", Operation::Harvest) };
    door.api.store.run(fire).await.unwrap();
    for (job, found) in [("feb-2024", true), ("two.feb-2024", true), ("two.two.feb-2024", false)] {
        let (status, text) = door.ask("GET", &format!("/api/v1/jobs/{job}"), Some(&keys[1])).await;
        assert_eq!(status == StatusCode::OK, found, "{job}: {text}");
        assert_eq!(text.contains(r#""task_id":"two.feb-2024""#), found, "{job}: {text}");
        let (status, _) = door.ask("GET", &format!("/api/v1/jobs/{job}"), Some(&keys[0])).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{job}");
    }
    let (status, text) = door.send("POST", "/api/v1/jobs/feb-2024/cancel", Some(&keys[1]), String::new()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    // That of nobody's project is another.
    let operator = door.key(KeyScope::Read).await;
    let (_, text) = door.ask("GET", "/api/v1/jobs/feb-2024", Some(&operator)).await;
    assert!(text.contains(r#""status":"queued""#) && text.contains(r#""task_id":"feb-2024""#), "{text}");
}

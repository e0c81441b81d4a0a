//! Boards by HTTP.

use std::sync::Arc;

use axum::http::StatusCode;
use patra_core::port::CommandsExt as _;
use patra_core::tx::{AdvanceCause, CreateProject, KeyScope, RecordAdvance, RunEnd};
use patra_testkit::contract::{Fixture, Subject, make};
use serde_json::Value;

use super::TestServer;

const BOARDS: [&str; 6] = ["overview", "queue", "throughput", "errors", "timeline", "budget"];

// covers: ING-14.7-01, ING-14.7-06, ING-14.7-08, ING-14.7-09
#[tokio::test]
async fn every_board_responds_and_refuses_invalid_parameters() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Read).await;
    for board in BOARDS {
        let (status, text) = server.request("GET", &format!("/api/v1/ops/{board}"), Some(&key)).await;
        assert_eq!(status, StatusCode::OK, "{board}: {text}");
        let response: Value = serde_json::from_str(&text).unwrap();
        assert!(response["data"].is_object() && response["status"] == "ok", "{board}: {text}");
    }
    let wrong = [
        "queue?from=2024-01-01T00:00:00Z",
        "queue?operation=steal",
        "throughput?step=0",
        "throughput?from=1970-01-01T00:00:00Z&to=1970-03-01T00:00:00Z&step=1",
        "throughput?from=1970-01-02T00:00:00Z&to=1970-01-01T00:00:00Z",
        "errors?level=L5",
        "errors?limit=201",
        "errors?from=1970-01-01T00:00:00Z&to=1971-01-01T00:00:00Z",
        "timeline?limit=51",
        "timeline?namespace=%00",
        "budget?from=yesterday",
    ];
    for path in wrong {
        let (status, text) = server.request("GET", &format!("/api/v1/ops/{path}"), Some(&key)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {text}");
    }
}

impl TestServer {
    async fn data(&self, key: &str, path: &str) -> Value {
        let (status, text) = self.request("GET", path, Some(key)).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        serde_json::from_str::<Value>(&text).unwrap()["data"].take()
    }
}

/// A plan with three tasks: one is done, one failed at its second page, one waits.
async fn world(server: &TestServer) -> (i64, i64) {
    let fx = Fixture::new(Subject::untimed(Arc::clone(&server.api.store)));
    let cursor = fx.plan("a", &make::windows(0, 3)).await.cursor;
    let leases = fx.claim(2).await;
    let run = fx.start(&leases[0]).await;
    fx.commit(&leases[0], run, 1, vec![make::record("a", 1)], false).await;
    fx.end(&leases[0], run, RunEnd::Succeeded).await;
    let cause = AdvanceCause { task: leases[0].task, run, batch_no: 1, late: 1 };
    fx.ok(RecordAdvance { cursor, cause: Some(cause), observed_max: Some(server.api.clock.now()) }).await;
    let failed = fx.start(&leases[1]).await;
    let mut page = make::page(&leases[1], failed, 1, vec![make::record("b", 1)], true);
    page.stats.http.status = 200;
    fx.ok(Arc::new(page)).await;
    let mut end = make::end(&leases[1], failed, RunEnd::Failed { error: make::fault("gone") });
    end.failure = Some(make::failure(&leases[1], failed, 2));
    fx.ok(Arc::new(end)).await;
    (leases[0].lineage.plan.0, failed.0)
}

// covers: ING-14.0-01, ING-9.8-04, ING-14.3-06, ING-14.7-02, ING-14.7-03, ING-14.7-04, ING-14.7-05, ING-14.7-07
#[tokio::test]
async fn failure_is_traceable_from_the_overview_to_its_batch() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Read).await;
    let (plan, run) = world(&server).await;

    let overview = server.data(&key, "/api/v1/ops/overview").await;
    assert_eq!((&overview["queue"][0]["depth"], &overview["throughput"]["counts"]["batches"]), (&1.into(), &2.into()));
    let error = &overview["errors"][0];
    assert_eq!((&error["run_id"], &error["batch_no"], &error["message"]), (&run.into(), &2.into(), &"gone".into()));

    let lineage = server.data(&key, &format!("/api/v1/ops/lineage/{plan}")).await;
    let sizes = ["slices", "tasks", "runs", "batches"].map(|level| lineage[level].as_array().unwrap().len());
    assert_eq!(sizes, [3, 3, 2, 3]);
    let failed = lineage["batches"].as_array().unwrap().iter().find(|batch| batch["status_code"] == "FAILED").unwrap();
    assert_eq!((&failed["run_id"], &failed["batch_no"]), (&run.into(), &2.into()));
    assert_eq!((&failed["error"]["code"], &failed["stats"]["retryCount"]), (&"NETWORK_ERROR".into(), &4.into()));
    let read = lineage["batches"].as_array().unwrap().iter().find(|batch| batch["has_next"] == 1).unwrap();
    assert!(read["next_position"].is_object(), "{read}");
    // Batches are paginated; the last page has no next one.
    let mut ids = Vec::new();
    let mut after = Some(0);
    while let Some(last) = after {
        let path = format!("/api/v1/ops/lineage/{plan}?limit=2&after_batch={last}");
        let (status, text) = server.request("GET", &path, Some(&key)).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        let response: Value = serde_json::from_str(&text).unwrap();
        let page = response["data"]["batches"].as_array().unwrap();
        assert!(page.len() <= 2);
        ids.extend(page.iter().map(|batch| batch["id"].clone()));
        after = response["meta"]["next_after_batch"].as_i64();
    }
    let all: Vec<_> = lineage["batches"].as_array().unwrap().iter().map(|batch| batch["id"].clone()).collect();
    assert_eq!(ids, all);
    for wrong in ["limit=0", "limit=10001", "after=1"] {
        let (status, _) = server.request("GET", &format!("/api/v1/ops/lineage/{plan}?{wrong}"), Some(&key)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let statuses = server.data(&key, &format!("/api/v1/ops/runs/{run}/statuses")).await;
    assert_eq!(statuses["items"].to_string(), r#"[{"batches":1,"status":0},{"batches":1,"status":200}]"#);

    let timeline = server.data(&key, "/api/v1/ops/timeline?provenance=demo&operation=harvest").await;
    let step = &timeline["items"][0]["steps"][0];
    assert_eq!((&timeline["items"][0]["late"], &step["late"], &step["batch_no"]), (&1.into(), &1.into(), &1.into()));
    let event = &server.data(&key, "/api/v1/cursor-events").await["items"][0];
    let members = ["direction_code", "new_value", "observed_max_value"].map(|member| event[member].is_string());
    assert_eq!(members, [true; 3], "{event}");
    assert_eq!(event["record_remarks"].to_string(), r#"{"batchNo":1,"lateArrival":1,"reason":"HARVEST"}"#);

    let budget = server.data(&key, "/api/v1/ops/budget").await;
    assert_eq!(budget["items"][0]["slowdowns"]["throttled"], 0);
}

#[tokio::test]
async fn boards_of_another_project_are_empty() {
    let server = TestServer::new();
    let (plan, run) = world(&server).await;
    server.api.store.run(CreateProject { project_key: "mine".into(), name: "mine".into() }).await.unwrap();
    let key = server.key_of(KeyScope::Admin, vec!["mine".into()]).await;
    for board in ["queue", "errors", "timeline", "budget"] {
        let data = server.data(&key, &format!("/api/v1/ops/{board}")).await;
        assert_eq!(data["items"].as_array().map(Vec::len), Some(0), "{board}: {data}");
    }
    assert_eq!(server.data(&key, "/api/v1/ops/throughput").await["steps"].as_array().map(Vec::len), Some(0));
    for path in [format!("lineage/{plan}"), format!("runs/{run}/statuses")] {
        let (status, text) = server.request("GET", &format!("/api/v1/ops/{path}"), Some(&key)).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {text}");
    }
}

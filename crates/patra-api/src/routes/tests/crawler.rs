//! Locks, candidates and notes of the crawler, from an orchestrator's view.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use patra_core::tx::KeyScope;

use super::TestServer;

struct Orchestrator {
    server: TestServer,
    key: String,
}

impl Orchestrator {
    async fn new() -> Orchestrator {
        let server = TestServer::new();
        let key = server.key(KeyScope::Write).await;
        Orchestrator { server, key }
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let path = format!("/api/v1/crawler{path}");
        let (status, text) = self.server.send("POST", &path, Some(&self.key), body.to_string()).await;
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn data(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.post(path, body).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body["data"].clone()
    }

    async fn lock(&self, workflow: &str) -> Value {
        self.data("/executions/acquire", &json!({ "workflow_name": workflow })).await
    }

    async fn execution(&self, workflow: &str) -> String {
        self.lock(workflow).await["execution_id"].as_str().unwrap().to_owned()
    }

    async fn add(&self, notes: &[&str]) -> Value {
        let items: Vec<_> = notes.iter().map(|note| json!({ "note_id": note, "tokens": { "t": "1" } })).collect();
        self.data("/candidates", &json!({ "platform": "xhs", "items": items })).await
    }

    async fn claim(&self, execution: &str, size: u32) -> Vec<Value> {
        let body = json!({ "execution_id": execution, "batch_size": size });
        let data = self.data("/candidates/claim", &body).await;
        let records = data["records"].as_array().unwrap().clone();
        assert_eq!(data["locked_count"], records.len());
        records
    }
}

fn members(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

// covers: CRAWL-94
#[tokio::test]
async fn lock_is_granted_once_and_refused_while_held() {
    let one = Orchestrator::new().await;
    let granted = one.lock("wf-crawl-main").await;
    for name in ["execution_id", "workflow_name", "status", "started_at", "heartbeat_at", "expires_at"] {
        assert!(granted[name].is_string(), "{name}: {granted}");
    }
    assert_eq!((&granted["locked"], &granted["status"]), (&json!(true), &json!("running")));
    let refused = one.lock("wf-crawl-main").await;
    assert_eq!(members(&refused), ["holder", "locked", "reason", "reason_code"].into());
    assert_eq!((&refused["locked"], &refused["reason_code"]), (&json!(false), &json!("ALREADY_RUNNING")));
    let holder = json!({ "execution_id": granted["execution_id"], "heartbeat_at": granted["heartbeat_at"] });
    assert_eq!(refused["holder"], holder);
    assert_eq!(one.lock("another").await["locked"], true);
}

// covers: CRAWL-99, CRAWL-100, CRAWL-DAY2-2
#[tokio::test]
async fn records_are_claimed_and_failed_by_their_holder_only() {
    let one = Orchestrator::new().await;
    one.add(&["n1", "n2", "n3"]).await;
    let (a, b) = (one.execution("a").await, one.execution("b").await);
    let first = one.claim(&a, 2).await;
    let ids: Vec<_> = first.iter().map(|record| record["note_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["n1", "n2"], "the oldest first");
    for record in &first {
        assert_eq!((&record["status"], &record["processing_lock"]), (&json!("processing"), &json!(a)));
        assert!(record["locked_at"].is_string() && record["tokens"] == json!({ "t": "1" }), "{record}");
    }
    assert_eq!(one.claim(&b, 9).await.len(), 1, "what is held is nobody else's");
    let fail = |execution: &str| json!({ "execution_id": execution, "platform": "xhs", "error_code": "TIMEOUT_ERROR" });
    let (status, body) = one.post("/candidates/n1/fail", &fail(&b)).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::CONFLICT, &json!("LOCK_LOST")));
    let failed = one.data("/candidates/n1/fail", &fail(&a)).await;
    assert_eq!(failed, json!({ "note_id": "n1", "status": "pending", "retry_count": 1 }));
    assert_eq!(one.claim(&b, 9).await[0]["note_id"], "n1", "and may be taken again");
}

// covers: CRAWL-102
#[tokio::test]
async fn note_is_created_once_and_then_skipped() {
    let one = Orchestrator::new().await;
    one.add(&["n1"]).await;
    let execution = one.execution("a").await;
    let record = one.claim(&execution, 1).await.remove(0);
    let write = json!({ "execution_id": execution, "record_info": record, "crawl_result": { "title": "A" } });
    let created = one.data("/notes", &write).await;
    assert_eq!((&created["action"], &created["idempotency_key"]), (&json!("created"), &json!("n1_v1")));
    let again = one.data("/notes", &write).await;
    assert_eq!((&again["action"], &again["existing_id"]), (&json!("skipped"), &created["id"]));
}

// covers: CRAWL-103
#[tokio::test]
async fn recovery_requeues_records_of_silent_executions() {
    let one = Orchestrator::new().await;
    one.add(&["n1", "n2", "n3"]).await;
    let silent = one.execution("silent").await;
    one.claim(&silent, 2).await;
    let recover = async || one.data("/recover", &json!({})).await;
    let nothing = recover().await;
    assert_eq!((&nothing["executions_timed_out"], &nothing["records_requeued"]), (&json!(0), &json!(0)));
    one.server.clock.advance(Duration::from_secs(31 * 60));
    let alive = one.execution("alive").await;
    let taken = recover().await;
    assert_eq!((&taken["executions_timed_out"], &taken["records_requeued"]), (&json!(1), &json!(2)), "{taken}");
    assert_eq!(one.claim(&alive, 9).await.len(), 3);
}

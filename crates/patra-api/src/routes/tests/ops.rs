//! The boards by HTTP.

use axum::http::StatusCode;
use patra_core::tx::Scope;
use serde_json::Value;

use super::Door;

const BOARDS: [&str; 6] = ["overview", "queue", "throughput", "errors", "timeline", "budget"];

// covers: ING-14.7-01, ING-14.7-06, ING-14.7-08, ING-14.7-09
#[tokio::test]
async fn every_board_answers_and_refuses_what_it_does_not_know() {
    let door = Door::new();
    let key = door.key(Scope::Read).await;
    for board in BOARDS {
        let (status, text) = door.ask("GET", &format!("/api/v1/ops/{board}"), Some(&key)).await;
        assert_eq!(status, StatusCode::OK, "{board}: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert!(answer["data"].is_object() && answer["status"] == "ok", "{board}: {text}");
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
        let (status, text) = door.ask("GET", &format!("/api/v1/ops/{path}"), Some(&key)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {text}");
    }
}

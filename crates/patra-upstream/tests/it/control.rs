//! The control routes, the log, and the lifetime of a server.

use std::io::ErrorKind;

use patra_upstream::{Dataset, FaultSchedule, MockApi, Script};

use crate::client::TestClient;
use crate::start;

#[tokio::test]
async fn stats_by_http_are_the_stats() {
    let (server, mut client) = start(Script::default()).await;
    client.get("/page?size=7").await;
    client.get("/cursor?cursor=bogus").await;
    client.get("/nowhere").await;
    let stats = client.get("/stats").await.json();
    assert_eq!(stats, serde_json::to_value(server.stats()).unwrap());
    let counts = ["requests", "data_requests", "ok", "records", "bad", "connections"].map(|name| stats[name].as_u64());
    assert_eq!(counts, [4, 2, 1, 7, 1, 1].map(Some));
    assert_eq!(client.get("/reset").await.json()["data_requests"], 0);
}

#[tokio::test]
async fn knobs_are_set_all_or_none() {
    let (server, mut client) = start(Script::default()).await;
    let script = client.get("/knobs?e429=7&at_e500=1,2&retry_after=0").await;
    assert_eq!(script.json(), serde_json::to_value(server.script().get()).unwrap());
    assert_eq!(server.script().get().e500, FaultSchedule::at([1, 2]));
    let refused = client.get("/knobs?latency_ms=5&bogus=1").await;
    assert_eq!((refused.status, refused.error_code().as_str()), (400, "bad_parameter"));
    assert_eq!(server.script().get().latency_ms, 0);
    client.get("/knobs?clear=1&latency_ms=1").await;
    assert_eq!(server.script().get(), Script { latency_ms: 1, ..Script::default() });
}

#[tokio::test]
async fn errors_are_json_with_a_code() {
    let (_server, mut client) = start(Script::default()).await;
    let cases = [
        ("/nowhere", 404, "not_found"),
        ("/", 404, "not_found"),
        ("/offset?limit=x", 400, "bad_parameter"),
        ("/cursor?cursor=+/abc==", 400, "bad_parameter"),
        ("/visible", 400, "bad_parameter"),
        ("/visible?n=51", 400, "bad_parameter"),
    ];
    for (target, status, code) in cases {
        let response = client.get(target).await;
        assert_eq!((response.status, response.error_code().as_str()), (status, code), "{target}");
        assert_eq!(response.header("content-type"), Some("application/json"));
    }
    assert_eq!(client.get("/health").await.json()["status"], "ok");
}

#[tokio::test]
async fn log_keeps_the_latest_data_requests() {
    let (server, mut client) = start(Script { log_limit: 2, ..Script::default() }).await;
    for target in ["/page?page=1", "/page?page=x", "/health", "/offset?limit=1"] {
        client.get(target).await;
    }
    let log = server.log();
    let logged: Vec<_> = log.iter().map(|entry| (entry.number, entry.target.as_str(), entry.status)).collect();
    assert_eq!(logged, [(2, "/page?page=x", 400), (3, "/offset?limit=1", 200)]);
    assert!(log[0].at <= log[1].at);
}

#[tokio::test]
async fn stopped_server_frees_its_port_and_disconnects_its_clients() {
    let (server, mut client) = start(Script::default()).await;
    client.get("/page").await;
    let addr = server.addr();
    server.stop().await;
    assert!(client.is_closed().await);
    let again = MockApi::start(addr, Dataset::new(1, 1), Script::default()).unwrap();
    assert_eq!(TestClient::connect(addr).await.get("/page").await.ids().len(), 1);
    drop(again);
    tokio::task::yield_now().await;
    let refused = tokio::net::TcpStream::connect(addr).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn without_a_runtime_starting_is_an_error() {
    assert!(MockApi::start("127.0.0.1:0".parse().unwrap(), Dataset::new(1, 1), Script::default()).is_err());
}

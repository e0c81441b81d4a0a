//! Time limit of a batch.

use patra_upstream::Script;
use serde_json::{Value, json};

use super::search;
use super::server::{GOOD, TestServer, mock_api};
use crate::support::Workspace;

// covers: CRAWL-72, CRAWL-176
#[tokio::test(flavor = "multi_thread")]
async fn batch_fetches_ten_notes_concurrently_and_times_out_per_item() {
    let script = Script { notes: 25, notes_slow: (0..10).collect(), notes_slow_ms: 1_000, ..Script::default() };
    let times = [("DETAIL_TIMEOUT", "30"), ("DETAIL_BATCH_TIMEOUT", "6")];
    let server = TestServer::open(Workspace::sqlite(), mock_api(script), &times);
    server.add_cookie("account_01", GOOD, 1);
    let found = server.data("POST", "/search", Some(&search("tea")));
    let items = found["items"].as_array().unwrap();
    let batch = |count: usize| {
        let notes = &items[..count];
        let ids: Vec<_> = notes.iter().map(|note| note["note_id"].clone()).collect();
        let token = |note: &Value| (note["note_id"].as_str().unwrap().to_owned(), note["tokens"].clone());
        let tokens: serde_json::Map<_, _> = notes.iter().map(token).collect();
        server.post("/notes/detail", &json!({ "platform": "xhs", "note_ids": ids, "tokens": tokens }))
    };
    // In sequence they would take ten of the six seconds.
    let all = batch(10);
    assert_eq!(all.body["summary"], json!({ "total": 10, "succeeded": 10, "failed": 0 }), "{}", all.body);
    server.mock_api.script().update(|script| (script.notes_slow, script.notes_slow_ms) = (vec![3], 60_000));
    let most = batch(5);
    assert_eq!(most.body["summary"], json!({ "total": 5, "succeeded": 4, "failed": 1 }), "{}", most.body);
    assert_eq!((most.status, &most.body["items"][3]["error"]["code"]), (207, &json!("TIMEOUT_ERROR")));
}

//! Two-phase reading: ids first, then the records.

use patra_upstream::{Dataset, DetailEndpoints, FailingItem, LateRecord, Script, UnknownIdPolicy};
use serde_json::json;

use crate::client::TestClient;
use crate::start;

fn ids(dataset: &Dataset, indexes: impl IntoIterator<Item = usize>) -> Vec<String> {
    indexes.into_iter().map(|index| dataset.get(index).unwrap().0.to_owned()).collect()
}

#[tokio::test]
async fn ids_are_listed_by_every_style_and_window() {
    let (server, mut client) = start(Script::default()).await;
    let all = ids(server.dataset(), 0..50);
    assert_eq!(client.get("/ids").await.json(), json!({"total": 50, "offset": 0, "limit": 100, "items": all}));
    assert_eq!(client.get("/ids/offset?offset=10&limit=5").await.ids(), all[10..15]);
    assert_eq!(client.get("/ids/page?page=2&size=20").await.ids(), all[20..40]);
    assert_eq!(client.get("/ids/cursor?rows=7").await.ids(), all[..7]);
    assert_eq!(client.get("/ids/window?limit=7").await.json()["truncated"], true);
    let backwards: Vec<String> = all.iter().rev().take(4).cloned().collect();
    assert_eq!(client.get("/ids?order=desc&limit=4").await.ids(), backwards);
    let window = "from=2024-01-01T00:10:00Z&to=2024-01-01T00:20:00Z";
    let within: Vec<&str> =
        server.dataset().ids_in(1_704_067_200_000_000 + 600_000_000, 1_704_067_200_000_000 + 1_200_000_000).collect();
    assert_eq!(client.get(&format!("/ids?{window}")).await.ids(), within);

    let page = client.get("/ids/link?size=30&version=1").await;
    let (_, updated_at, _) = server.dataset().get(1).unwrap();
    assert_eq!(updated_at, 1_704_067_260_000_000);
    assert_eq!(page.json()["items"][1], json!({"id": all[1], "version": "2024-01-01T00:01:00Z"}));
    let next = page.json()["next"].as_str().unwrap().strip_prefix("http://api.test:80").unwrap().to_owned();
    assert_eq!(next, "/ids/link?page=2&size=30&version=1");
    assert_eq!(client.get(&next).await.ids(), all[30..]);
    assert_eq!(client.get("/ids?version=x").await.status, 400);
}

#[tokio::test]
async fn details_are_the_requested_records_in_order() {
    let (server, mut client) = start(Script::default()).await;
    let requested = ids(server.dataset(), [7, 3, 41]);
    let response = client.get(&format!("/details?ids={}", requested.join(","))).await;
    let records: Vec<&str> = [7, 3, 41].iter().map(|index| server.dataset().get(*index).unwrap().2).collect();
    assert_eq!(response.text(), format!(r#"{{"items":[{}]}}"#, records.join(",")));
    let posted = client.post("/details", &json!({"ids": requested}).to_string()).await;
    assert_eq!(posted.body, response.body);
    assert_eq!(server.log()[1].body, json!({"ids": requested}).to_string());
    assert_eq!(client.get(&format!("/detail/{}", requested[0])).await.text(), records[0]);
    assert_eq!(server.stats().records, 7);
    for target in ["/details", "/details?ids=", "/details?ids=,"] {
        assert_eq!(client.get(target).await.error_code(), "bad_parameter", "{target}");
    }
    assert_eq!(client.post("/details", "ids=1").await.error_code(), "bad_body");
}

async fn fetch(client: &mut TestClient, ids: &[String]) -> (u16, Vec<String>) {
    let response = client.get(&format!("/details?ids={}", ids.join(","))).await;
    (response.status, if response.status == 200 { response.ids() } else { vec![response.error_code()] })
}

#[tokio::test]
async fn too_many_ids_are_refused() {
    let (server, mut client) =
        start(Script { detail: DetailEndpoints { max_ids: 3, ..DetailEndpoints::default() }, ..Script::default() })
            .await;
    let four = ids(server.dataset(), 0..4);
    assert_eq!(fetch(&mut client, &four[..3]).await, (200, four[..3].to_vec()));
    assert_eq!(fetch(&mut client, &four).await, (400, vec!["too_many_ids".to_owned()]));
}

#[tokio::test]
async fn unknown_ids_are_left_out_or_fail_the_request() {
    let detail = DetailEndpoints { gone: vec![1], ..DetailEndpoints::default() };
    let late = vec![LateRecord { index: 2, after: 99 }];
    let (server, mut client) = start(Script { detail, late, visible: Some(40), ..Script::default() }).await;
    let mut requested = ids(server.dataset(), [0, 1, 2, 45, 5]);
    requested.push("Wffffffffff".to_owned());
    assert_eq!(fetch(&mut client, &requested).await, (200, vec![requested[0].clone(), requested[4].clone()]));
    assert!(client.get("/ids").await.ids().contains(&requested[1]), "the first phase still lists deleted records");
    for status in [404, 400] {
        server.script().update(|script| script.detail.unknown = UnknownIdPolicy::Status(status));
        assert_eq!(fetch(&mut client, &requested).await, (status, vec!["unknown_id".to_owned()]));
        assert_eq!(fetch(&mut client, &requested[..1]).await.0, 200);
    }
    for id in &requested[1..4] {
        let response = client.get(&format!("/detail/{id}")).await;
        assert_eq!((response.status, response.error_code().as_str()), (404, "not_found"));
    }
}

#[tokio::test]
async fn failing_id_fails_the_request() {
    let poison = vec![FailingItem { index: 4, status: 400 }, FailingItem { index: 6, status: 500 }];
    let (server, mut client) =
        start(Script { detail: DetailEndpoints { poison, ..DetailEndpoints::default() }, ..Script::default() }).await;
    let eight = ids(server.dataset(), 0..8);
    let poisoned = |status| (status, vec!["poison".to_owned()]);
    assert_eq!(fetch(&mut client, &eight[..6]).await, poisoned(400));
    assert_eq!(fetch(&mut client, &eight[5..]).await, poisoned(500));
    assert_eq!(fetch(&mut client, &eight[..4]).await, (200, eight[..4].to_vec()));
    assert_eq!(client.get(&format!("/detail/{}", eight[6])).await.status, 500);
    let stats = server.stats();
    assert_eq!((stats.bad, stats.r500, stats.ok), (1, 2, 1));
}

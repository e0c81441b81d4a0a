//! Reads each listing from its first page to its last: together they are the dataset, byte for byte.

use patra_upstream::{Dataset, Script};

use crate::client::TestClient;
use crate::start;

fn known(dataset: &Dataset) -> Vec<String> {
    dataset.records().map(|(id, ..)| id.to_owned()).collect()
}

/// Escapes `+`, `/` and `=`, the only special characters of a cursor.
fn escape(token: &str) -> String {
    token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

#[tokio::test]
async fn offsets_end_with_an_empty_page() {
    let (server, mut client) = start(Script::default()).await;
    let mut all = Vec::new();
    loop {
        let page = client.get(&format!("/offset?limit=8&offset={}", all.len())).await;
        assert_eq!(page.json()["total"], 50);
        if page.ids().is_empty() {
            break;
        }
        all.extend(page.ids());
    }
    assert_eq!(all, known(server.dataset()));
}

#[tokio::test]
async fn pages_report_their_number() {
    let (server, mut client) = start(Script::default()).await;
    let pages = client.get("/page?size=8").await.json()["pages"].as_u64().unwrap();
    let mut all = Vec::new();
    for page in 1..=pages {
        let response = client.get(&format!("/page?size=8&page={page}")).await;
        assert_eq!(response.json()["has_more"], page < pages);
        all.extend(response.ids());
    }
    assert_eq!(all, known(server.dataset()));
}

#[tokio::test]
async fn cursors_end_with_null() {
    let (server, mut client) = start(Script::default()).await;
    let (mut all, mut token) = (Vec::new(), Some("*".to_owned()));
    while let Some(cursor) = token {
        let page = client.get(&format!("/cursor?rows=8&cursor={}", escape(&cursor))).await;
        all.extend(page.ids());
        token = page.json()["message"]["next-cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(all, known(server.dataset()));
}

#[tokio::test]
async fn links_are_absolute_and_lead_to_the_end() {
    let (server, mut client) = start(Script::default()).await;
    let (mut all, mut target) = (Vec::new(), Some("/link?size=8&from=2024-01-01T00:00:00%2B00:00".to_owned()));
    while let Some(here) = target {
        let page = client.get(&here).await;
        all.extend(page.ids());
        let next = page.json()["next"].as_str().map(str::to_owned);
        assert_eq!(page.header("link"), next.as_ref().map(|url| format!("<{url}>; rel=\"next\"")).as_deref());
        target = next.map(|url| url.strip_prefix("http://api.test:80").unwrap().to_owned());
    }
    assert_eq!(all, known(server.dataset()));
}

/// Splits a truncated window in half, as a client of such an API must.
#[tokio::test]
async fn windows_can_be_halved_until_they_fit() {
    let (server, mut client) = start(Script::default()).await;
    let start = server.dataset().get(0).unwrap().1 / 1_000_000;
    let mut windows = vec![(start, start + 3600)];
    let mut all = Vec::new();
    while let Some((from, to)) = windows.pop() {
        let page = client.get(&format!("/window?limit=8&from={from}&to={to}")).await;
        if page.json()["truncated"] == true {
            let middle = i64::midpoint(from, to);
            windows.extend([(middle, to), (from, middle)]);
        } else {
            all.extend(page.ids());
        }
    }
    assert_eq!(all, known(server.dataset()));
}

#[tokio::test]
async fn records_are_served_as_they_are() {
    let (server, mut client) = start(Script::default()).await;
    let all: Vec<&str> = server.dataset().records().map(|(_, _, json)| json).collect();
    let expected = format!(r#"{{"total":50,"offset":0,"limit":50,"items":[{}]}}"#, all.join(","));
    assert_eq!(String::from_utf8(client.get("/offset?limit=50").await.body).unwrap(), expected);
    let mut second = TestClient::connect(server.addr()).await;
    let backwards: Vec<&str> = all.iter().rev().copied().collect();
    let expected = format!(r#"{{"count":50,"truncated":false,"items":[{}]}}"#, backwards.join(","));
    assert_eq!(String::from_utf8(second.get("/window?order=desc").await.body).unwrap(), expected);
}

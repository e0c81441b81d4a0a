//! The same records in other API styles.

use patra_upstream::{FaultSchedule, Script};
use serde_json::{Value, json};

use crate::client::TestClient;
use crate::start;

fn field(items: &Value, name: &str) -> Vec<String> {
    items.as_array().unwrap().iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn issues_are_a_bare_list_with_links() {
    let (server, mut client) = start(Script::default()).await;
    let (mut all, mut target) = (Vec::new(), Some("/rest/issues?state=all&direction=asc&per_page=20".to_owned()));
    let mut pages = 0;
    while let Some(here) = target {
        let page = client.get(&here).await;
        assert_eq!((page.header("etag"), page.header("x-ratelimit-limit")), (None, Some("5000")));
        all.extend(field(&page.json(), "node_id"));
        pages += 1;
        let link = page.header("link").unwrap().to_owned();
        let next = link.split(", ").find_map(|link| link.strip_suffix("; rel=\"next\""));
        target = next.map(|url| url.trim_matches(['<', '>']).strip_prefix("http://api.test:80").unwrap().to_owned());
        assert_eq!((link.contains("rel=\"prev\""), link.contains("rel=\"last\"")), (pages > 1, pages < 3), "{link}");
    }
    assert_eq!(all, server.dataset().records().map(|(id, ..)| id).collect::<Vec<_>>());
}

#[tokio::test]
async fn issues_are_filtered() {
    let (server, mut client) = start(Script::default()).await;
    let first = client.get("/rest/issues").await;
    assert_eq!(first.json().as_array().unwrap().len(), 30);
    assert_eq!(first.json()[0]["number"], 50, "newest first, and the fiftieth is open");
    assert!(field(&first.json(), "state").iter().all(|state| state == "open"));
    let since = client.get("/rest/issues?state=all&since=2024-01-01T00:45:00Z").await;
    assert_eq!(since.json().as_array().unwrap().len(), 5);
    assert_eq!(since.header("link"), None);
    let closed = client.get("/rest/issues?state=closed&per_page=100").await;
    assert_eq!(closed.json().as_array().unwrap().len(), 16);
    for bad in ["state=x", "direction=up", "since=x", "page=x"] {
        assert_eq!(client.get(&format!("/rest/issues?{bad}")).await.status, 400, "{bad}");
    }
    server.script().update(|script| script.visible = Some(0));
    assert_eq!(client.get("/rest/issues").await.text(), "[]");
}

const QUERY: &str = "query Works($first: Int!, $after: String, $from: String) {
  works(first: $first, after: $after, from: $from) { totalCount edges { node { id } } pageInfo { hasNextPage endCursor } }
}";

async fn query_works(client: &mut TestClient, variables: Value) -> Value {
    let response = client.post("/graphql", &json!({"query": QUERY, "variables": variables}).to_string()).await;
    assert_eq!(response.status, 200);
    response.json()
}

#[tokio::test]
async fn graphql_connection_is_read_to_its_end() {
    let (server, mut client) = start(Script::default()).await;
    let (mut all, mut after) = (Vec::new(), Value::Null);
    loop {
        let works = query_works(&mut client, json!({"first": 20, "after": after})).await["data"]["works"].clone();
        assert_eq!(works["totalCount"], 50);
        for edge in works["edges"].as_array().unwrap() {
            all.push(edge["node"]["id"].as_str().unwrap().to_owned());
        }
        after = works["pageInfo"]["endCursor"].clone();
        assert_eq!(works["edges"].as_array().unwrap().last().unwrap()["cursor"], after);
        if works["pageInfo"]["hasNextPage"] == false {
            break;
        }
    }
    assert_eq!(all, server.dataset().records().map(|(id, ..)| id).collect::<Vec<_>>());
    let works =
        query_works(&mut client, json!({"first": 9, "from": "2024-01-01T00:45:00Z"})).await["data"]["works"].clone();
    assert_eq!((&works["totalCount"], &works["pageInfo"]["hasNextPage"]), (&5.into(), &false.into()));
    assert_eq!(server.stats().records, 55);
}

#[tokio::test]
async fn graphql_errors_are_in_a_200() {
    let (server, mut client) = start(Script::default()).await;
    let code = |response: &Value| response["errors"][0]["extensions"]["code"].as_str().unwrap_or_default().to_owned();
    for (variables, expected) in [
        (json!({}), "BAD_USER_INPUT"),
        (json!({"first": 101}), "BAD_USER_INPUT"),
        (json!({"first": 0}), "BAD_USER_INPUT"),
        (json!({"first": 1, "from": "x"}), "BAD_USER_INPUT"),
        (json!({"first": 1, "after": "x"}), "INVALID_CURSOR"),
    ] {
        let response = query_works(&mut client, variables.clone()).await;
        assert_eq!((code(&response).as_str(), &response["data"]), (expected, &Value::Null), "{variables}");
    }
    for (body, expected) in [("nonsense", "BAD_REQUEST"), (r#"{"query": "{ me }"}"#, "GRAPHQL_VALIDATION_FAILED")] {
        assert_eq!(code(&client.post("/graphql", body).await.json()), expected);
    }
    server.reset();
    server.script().update(|script| script.graphql_error = FaultSchedule::at([2]));
    let responses =
        [query_works(&mut client, json!({"first": 1})).await, query_works(&mut client, json!({"first": 1})).await];
    assert_eq!(responses.map(|response| code(&response)), ["", "RATE_LIMITED"]);
}

#[tokio::test]
async fn day_is_exported_as_csv_and_atom() {
    let (server, mut client) = start(Script::default()).await;
    let known: Vec<String> = server.dataset().records().map(|(id, ..)| id.to_owned()).collect();
    let csv = client.get("/export?date=2024-01-01&api_key=export-key").await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let mut lines = csv.text().lines();
    assert_eq!(lines.next(), Some("id,doi,title,type,language,cited_by_count,updated_at"));
    let ids: Vec<&str> = lines.map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(ids, known);

    let atom = client.get_with("/export?date=2024-01-01&format=atom", "X-Api-Key: export-key\r\n").await;
    assert_eq!(atom.header("content-type"), Some("application/atom+xml; charset=utf-8"));
    let ids: Vec<&str> =
        atom.text().split("<id>urn:work:").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
    assert_eq!(ids, known);
    assert!(atom.text().contains("p &lt; 0.05") && !atom.text().contains("p < 0.05"));

    let empty = client.get("/export?date=2023-12-31&api_key=export-key").await;
    assert_eq!((empty.status, empty.text().lines().count()), (200, 1));
    assert_eq!(server.stats().records, 100);
}

#[tokio::test]
async fn export_needs_a_key_and_a_day() {
    let (_server, mut client) = start(Script::default()).await;
    for (target, status) in [
        ("/export?date=2024-01-01", 403),
        ("/export?date=2024-01-01&api_key=x", 403),
        ("/export?api_key=export-key", 400),
        ("/export?api_key=export-key&date=2024-01-01T00:00:00Z", 400),
        ("/export?api_key=export-key&date=2024-13-01", 400),
        ("/export?api_key=export-key&date=2024-01-01&format=pdf", 400),
    ] {
        assert_eq!(client.get(target).await.status, status, "{target}");
    }
}

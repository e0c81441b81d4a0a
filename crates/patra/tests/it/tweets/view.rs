//! Stored tweets as the database view and the API show them.

use patra_upstream::TweetProvider;
use serde_json::{Value, json};

use super::{everywhere, scrape};
use crate::support::On;

fn items(body: &Value) -> Vec<Value> {
    body["data"]["items"].as_array().unwrap().clone()
}

// covers: TWEET-103, TWEET-127, TWEET-136, TWEET-139
on_both!(view_shows_the_same_values_on_both_stores);
async fn view_shows_the_same_values_on_both_stores(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |server| {
        scrape(server, &json!({ "usernames": "alice", "limit": 45 }));
        let stored = server.call("GET", "/api/v1/tweets?limit=1000", None, None);
        let mut expected: Vec<String> = items(&stored.body)
            .iter()
            .map(|tweet| {
                let text = |name: &str| tweet[name].as_str().unwrap().to_owned();
                let time = |name: &str| {
                    let micros = text(name).trim_end_matches('Z').to_owned();
                    let (whole, part) = micros.split_once('.').unwrap_or((&micros, ""));
                    format!("{whole}.{part:0<6.6}Z")
                };
                let is_null = |name: &str| if tweet[name].is_null() { "null" } else { "list" };
                [
                    text("tweet_id"),
                    time("created_at"),
                    time("db_created_at"),
                    time("db_updated_at"),
                    is_null("media").to_owned(),
                    is_null("referenced_tweet_media").to_owned(),
                    "default".to_owned(),
                ]
                .join("|")
            })
            .collect();
        expected.sort();
        assert_eq!(expected.len(), 45, "{}", stored.body);
        let both = |kind: &str| expected.iter().any(|row| row.split('|').nth(4) == Some(kind));
        assert!(both("null") && both("list"), "{expected:?}");
        let time = |column: &str| match server.place.database_url() {
            Some(_) => format!("to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"),
            None => column.to_owned(),
        };
        let list = |column: &str| format!("CASE WHEN {column} IS NULL THEN 'null' ELSE 'list' END");
        let sql = format!(
            "SELECT tweet_id, {}, {}, {}, {}, {}, project_key FROM tweets",
            time("created_at"),
            time("db_created_at"),
            time("db_updated_at"),
            list("media"),
            list("referenced_tweet_media")
        );
        let mut seen = server.place.sql(&sql);
        seen.sort();
        assert_eq!(seen, expected);
        let now = format!(
            "SELECT count(*) FROM scraper_fetch_stats WHERE project_key = 'default' AND {} LIKE '2%Z'",
            time("last_fetch_at")
        );
        assert_eq!(server.place.sql(&now), ["1"]);
    });
}

// covers: TWEET-60, TWEET-103
on_both!(tweets_are_paged_behind_a_position);
async fn tweets_are_paged_behind_a_position(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |server| {
        scrape(server, &json!({ "usernames": "alice,bob", "limit": 30 }));
        for filter in ["", "&since=2020-01-01T00:00:00Z", "&author=bob"] {
            let read = |query: &str| server.call("GET", &format!("/api/v1/tweets?{query}{filter}"), None, None).body;
            let all = read("limit=1000");
            assert_eq!(all["meta"]["next_before"], Value::Null);
            let (mut paged, mut query) = (Vec::new(), "limit=7".to_owned());
            loop {
                let page = read(&query);
                paged.extend(items(&page));
                let Some(next) = page["meta"]["next_before"].as_str() else { break };
                query = format!("limit=7&before={next}");
            }
            assert_eq!(paged, items(&all), "{filter}");
            assert_eq!(paged.len(), if filter.contains("bob") { 30 } else { 60 });
        }
        let wrong = server.call("GET", "/api/v1/tweets?before=yesterday", None, None);
        assert_eq!((wrong.status, &wrong.body["error"]["details"]["field"]), (400, &json!("before")), "{}", wrong.body);
    });
}

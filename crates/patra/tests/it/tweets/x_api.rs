//! Tweets from X's own API v2, from a small server with constructed responses.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{KEY, MASTER_KEY};
use crate::support::On;

/// Answers like the recent search and the look-up of users, and keeps the heads of the requests.
fn serve() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &kept);
        }
    });
    (address, heads)
}

fn answer(mut stream: TcpStream, heads: &Mutex<Vec<String>>) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let head = head.join("\n");
    let body = match head.as_str() {
        head if head.contains("/2/users/by/username/nobody") => {
            json!({ "errors": [{ "title": "Not Found Error", "detail": "Could not find user with username: [nobody]." }] })
        }
        head if head.contains("/2/users/by/username/") => {
            json!({ "data": { "id": "7", "username": "quiet", "name": "Quiet", "created_at": "2009-06-02T20:12:29.000Z" } })
        }
        head if head.contains("from%3Aalice") && head.contains("next_token=more") => page(&[3, 2, 1], None),
        head if head.contains("from%3Aalice") => page(&[6, 5, 4], Some("more")),
        _ => json!({ "meta": { "result_count": 0 } }),
    };
    heads.lock().unwrap().push(head);
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close");
    let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
}

fn page(ids: &[u32], next: Option<&str>) -> Value {
    let tweets = ids.iter().map(|id| {
        json!({
            "id": format!("200000000000000000{id}"), "text": format!("post {id}"), "author_id": "42",
            "created_at": format!("2026-09-09T06:0{id}:00.000Z"),
        })
    });
    let mut meta = json!({ "result_count": ids.len() });
    if let Some(next) = next {
        meta["next_token"] = json!(next);
    }
    let users = json!([{ "id": "42", "username": "alice", "name": "Alice" }]);
    json!({ "data": tweets.collect::<Vec<_>>(), "includes": { "users": users }, "meta": meta })
}

// covers: TWEET-08, TWEET-23, TWEET-41, TWEET-168, TWEET-GAP-01
on_both!(x_api_is_read_with_a_bearer_token);
async fn x_api_is_read_with_a_bearer_token(on: On) {
    for place in on.places() {
        let (address, heads) = serve();
        let scrape = |user: &str| {
            let mut patra = place.patra();
            patra.env("PATRA_MASTER_KEY", MASTER_KEY).env("TWITTER_API_KEY", KEY).env("TWITTER_API", "x");
            patra.env("TWITTER_BASE_URL", &address).env("TWITTER_RATE_PER_SEC", "1000");
            patra.args(["scrape", user, "-o", "json"]).output().unwrap()
        };
        let output = scrape("alice");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let done: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(done["result"]["new_tweets"], 6, "{done}");
        let seen = heads.lock().unwrap().clone();
        assert_eq!(seen.len(), 2, "{seen:?}");
        for head in &seen {
            let head = head.to_lowercase();
            assert!(head.starts_with("get /2/tweets/search/recent?"), "{head}");
            assert!(head.contains(&format!("authorization: bearer {KEY}")) && !head.contains("x-api-key"), "{head}");
        }
        assert_eq!(
            place.sql("SELECT tweet_id, author_username, author_display_name FROM tweets ORDER BY tweet_id LIMIT 1"),
            ["2000000000000000001|alice|Alice"]
        );
        // One scrape changes nothing for the others.
        let stored = place.sql("SELECT config_key FROM config WHERE config_key LIKE 'twitter.%'");
        assert_eq!(stored, ["twitter.key_fingerprint"]);
        // An empty result of an unknown user is not taken for a user without tweets.
        assert!(scrape("quiet").status.success());
        let nobody = scrape("nobody");
        assert_eq!(nobody.status.code(), Some(1));
        let done: Value = serde_json::from_slice(&nobody.stdout).unwrap();
        assert_eq!(done["result"]["users"][0]["error_code"], "NOT_FOUND", "{done}");
    }
}

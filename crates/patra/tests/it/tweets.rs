//! Tweets: scraped by HTTP and by command, and by the collector, from a mock TwitterAPI.io.

#![expect(clippy::disallowed_methods, reason = "a test that waits for another process")]

mod key;
mod schedule;
mod view;
mod x_api;

use std::time::Duration;

use patra_upstream::{MockApi, Script, TweetFault, TweetFaultKind, TweetProvider};
use serde_json::{Value, json};

use crate::crawler::server::{Response, TestServer, WITH_COLLECTOR, mock_api};
use crate::emit::webhook;
use crate::support::On;

const KEY: &str = "tweets-key";
/// Master key; the same for every process on PostgreSQL.
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn provider(tweets: TweetProvider) -> MockApi {
    mock_api(Script { tweets, ..Script::default() })
}

/// The variables that point the program at the provider.
fn variables(mock_api: &MockApi) -> Vec<(String, String)> {
    [
        ("PATRA_MASTER_KEY", MASTER_KEY),
        ("TWITTER_API_KEY", KEY),
        ("TWITTER_BASE_URL", mock_api.base_url()),
        ("TWITTER_RATE_PER_SEC", "1000"),
        (WITH_COLLECTOR, "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn everywhere(on: On, tweets: &TweetProvider, more: &[(&str, &str)], test: impl Fn(&TestServer)) {
    for place in on.places() {
        let mock_api = provider(tweets.clone());
        let mut variables = variables(&mock_api);
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        test(&TestServer::open(place, mock_api, &variables));
    }
}

fn start(server: &TestServer, body: &Value) -> Response {
    server.call("POST", "/api/admin/scrape", None, Some(body))
}

#[track_caller]
fn finished(server: &TestServer, task: &str) -> Value {
    for _ in 0..600 {
        let answer = server.call("GET", &format!("/api/admin/scrape/{task}"), None, None);
        assert_eq!(answer.status, 200, "{}", answer.body);
        if ["completed", "failed"].contains(&answer.body["status"].as_str().unwrap()) {
            return answer.body;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{task} does not end: {}", server.log());
}

#[track_caller]
fn scrape(server: &TestServer, body: &Value) -> Value {
    let answer = start(server, body);
    assert_eq!((answer.status, &answer.body["status"]), (202, &json!("pending")), "{}", answer.body);
    finished(server, answer.body["task_id"].as_str().unwrap())
}

// covers: TWEET-03, TWEET-18, TWEET-24, TWEET-62, TWEET-66, TWEET-70, TWEET-72, TWEET-92, TWEET-100, TWEET-102
// covers: TWEET-103, TWEET-105, TWEET-136, TWEET-REQ-1, TWEET-REQ-3, TWEET-REQ-7, TWEET-REQ-8, TWEET-TEST-5
// covers: TWEET-TEST-6, TWEET-TEST-7
on_both!(requested_users_are_scraped_and_tweets_stored_once);
async fn requested_users_are_scraped_and_tweets_stored_once(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |server| {
        let done = scrape(server, &json!({ "usernames": "alice, @Bob", "limit": 30 }));
        assert_eq!(done["status"], "completed", "{done}");
        let result = &done["result"];
        assert_eq!(
            (&result["total_users"], &result["successful_users"], &result["failed_users"]),
            (&json!(2), &json!(2), &json!(0))
        );
        assert_eq!(
            (&result["total_tweets"], &result["new_tweets"], &result["skipped_tweets"]),
            (&json!(60), &json!(60), &json!(0))
        );
        assert_eq!(done["progress"], json!({ "current": 2, "total": 2, "percentage": 100.0 }));
        assert!(done["created_at"].is_string() && done["updated_at"].is_string() && done["error"].is_null());
        let alice = &result["users"][0];
        assert_eq!(
            (&alice["username"], &alice["limit"], &alice["fetched"], &alice["new"]),
            (&json!("alice"), &json!(30), &json!(30), &json!(30))
        );
        // A repeated scrape stores nothing new and nothing twice.
        let again = scrape(server, &json!({ "usernames": ["ALICE"], "limit": 30 }));
        assert_eq!((&again["result"]["new_tweets"], &again["result"]["skipped_tweets"]), (&json!(0), &json!(30)));
        let stored = server.call("GET", "/api/v1/tweets?author=alice&limit=10", None, None);
        let tweets = stored.body["data"]["items"].as_array().unwrap();
        assert_eq!(tweets.len(), 10);
        let times: Vec<_> = tweets.iter().map(|tweet| tweet["created_at"].as_str().unwrap()).collect();
        assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
        assert_eq!(server.place.sql("SELECT count(*) FROM tweets"), ["60"]);
        assert_eq!(server.place.sql("SELECT username, last_fetched_count, last_new_count, total_fetches, consecutive_empty_fetches FROM scraper_fetch_stats WHERE username = 'alice'"), ["alice|30|0|2|1"]);
        // Without a limit the calculator decides: all 30 are known, 0.7 × 1.0 × 30 × 1.2 = 25.2.
        let by_stats = scrape(server, &json!({ "usernames": "alice" }));
        assert_eq!(by_stats["result"]["users"][0]["limit"], 26);
        let list = server.call("GET", "/api/admin/scrape?status=completed", None, None);
        assert_eq!(list.body.as_array().map(Vec::len), Some(3), "{}", list.body);
        let unknown = server.call("GET", "/api/admin/scrape/00000000-0000-0000-0000-000000000000", None, None);
        assert_eq!((unknown.status, &unknown.body["error"]["code"]), (404, &json!("NOT_FOUND")));
    });
}

// covers: TWEET-20, TWEET-63, TWEET-104, TWEET-107, TWEET-110, TWEET-140, TWEET-141, TWEET-143, TWEET-GAP-06
on_both!(wrong_requests_are_refused_field_by_field);
async fn wrong_requests_are_refused_field_by_field(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |server| {
        let wrong = start(server, &json!({ "usernames": "al ice,b-b", "limit": 1001 }));
        assert_eq!((wrong.status, &wrong.body["error"]["code"]), (400, &json!("INVALID_INPUT")), "{}", wrong.body);
        let fields = wrong.body["error"]["details"]["fields"].as_array().unwrap();
        assert_eq!(fields.len(), 3, "{fields:?}");
        assert!(wrong.body["meta"]["request_id"].is_string() && wrong.body.get("status").is_none());
        for body in [
            json!({ "usernames": "" }),
            json!({ "usernames": [] }),
            json!({ "usernames": 7 }),
            json!({ "usernames": "a", "limit": 0 }),
            json!({}),
        ] {
            assert_eq!(start(server, &body).status, 400, "{body}");
        }
        assert_eq!(server.call_as(None, "POST", "/api/admin/scrape", None, Some("{}")).status, 401);
        let last = (0..20)
            .map(|_| start(server, &json!({ "usernames": "alice", "limit": 1 })))
            .find(|answer| answer.status == 429);
        assert!(last.unwrap().retry_after.is_some());
    });
}

// covers: TWEET-TEST-1, TWEET-21, TWEET-27, TWEET-28, TWEET-31, TWEET-65, TWEET-ERR-3, TWEET-ERR-4
// covers: TWEET-REQ-6, TWEET-06, TWEET-TEST-5, TWEET-95
on_both!(failure_of_one_user_does_not_affect_others);
async fn failure_of_one_user_does_not_affect_others(on: On) {
    let fault = TweetFault::new;
    let tweets = TweetProvider {
        faults: vec![fault("gone", TweetFaultKind::Status(404), 0), fault("shaky", TweetFaultKind::Status(503), 1)],
        ..TweetProvider::default()
    };
    everywhere(on, &tweets, &[], |server| {
        let done = scrape(server, &json!({ "usernames": "gone,shaky,fine", "limit": 20 }));
        assert_eq!(done["status"], "completed", "{done}");
        let users = done["result"]["users"].as_array().unwrap();
        let of = |name: &str| users.iter().find(|user| user["username"] == name).unwrap();
        assert_eq!((&of("gone")["success"], &of("gone")["error_code"]), (&json!(false), &json!("NOT_FOUND")));
        let failed = server.call("GET", "/api/v1/tasks?status=FAILED", None, None).body;
        assert_eq!(failed["data"]["items"][0]["error"]["code"], "NOT_FOUND", "{failed}");
        assert_eq!((&of("shaky")["new"], &of("fine")["new"]), (&json!(20), &json!(20)));
        assert_eq!((&done["result"]["failed_users"], &done["result"]["total_errors"]), (&json!(1), &json!(1)));
    });
}

// covers: TWEET-146, TWEET-149, TWEET-29, TWEET-ERR-1, TWEET-GAP-05, TWEET-160
on_both!(refused_key_stops_the_scrape_with_an_error);
async fn refused_key_stops_the_scrape_with_an_error(on: On) {
    everywhere(
        on,
        &TweetProvider { key: "another".into(), key_status: 401, ..TweetProvider::default() },
        &[],
        |server| {
            let done =
                scrape(server, &json!({ "usernames": "alice,bob,carol,dave,erin,frank,grace,heidi", "limit": 20 }));
            assert_eq!(
                (&done["status"], &done["error"]["code"]),
                (&json!("failed"), &json!("UPSTREAM_AUTH_FAILED")),
                "{done}"
            );
            assert_eq!((&done["result"]["successful_users"], &done["result"]["users"]), (&json!(0), &json!([])));
            server.wait("the alert", || server.log().contains("upstream_refused"));
            assert!(!server.log().contains(KEY), "the key is nobody's business");
            let failed = server.log().lines().any(|line| line.contains("WARN") && line.contains("not collected"));
            assert!(failed && server.log().contains("UPSTREAM_AUTH_FAILED"), "{}", server.log());
            for table in
                ["config", "ing_schedule_instance", "ing_task", "ing_task_run", "ing_task_run_batch", "ing_snapshot"]
            {
                let rows = server.place.sql(&format!("SELECT * FROM {table}"));
                assert!(!rows.iter().any(|row| row.contains(KEY)), "{table}");
            }
            let next = start(server, &json!({ "usernames": "alice", "limit": 20 }));
            assert_eq!((next.status, &next.body["error"]["code"]), (503, &json!("NOT_CONFIGURED")), "{}", next.body);
            // The hint of the error works.
            let message = next.body["error"]["message"].as_str().unwrap();
            let hold = message.split("resume hold ").nth(1).unwrap().trim_end_matches('`');
            let released = server.call("DELETE", &format!("/api/v1/holds/{hold}"), None, None);
            assert!(released.status < 300, "{message}: {}", released.body);
            assert_eq!(start(server, &json!({ "usernames": "alice", "limit": 20 })).status, 202);
        },
    );
}

// covers: TWEET-33
on_both!(used_up_balance_raises_an_alert_and_pauses_the_connector);
async fn used_up_balance_raises_an_alert_and_pauses_the_connector(on: On) {
    let provider = TweetProvider { key: "another".into(), key_status: 402, ..TweetProvider::default() };
    everywhere(on, &provider, &[], |server| {
        let done = scrape(server, &json!({ "usernames": "alice,bob", "limit": 20 }));
        assert_eq!((&done["status"], &done["error"]["code"]), (&json!("failed"), &json!("QUOTA_EXHAUSTED")), "{done}");
        server.wait("the alert", || {
            let log = server.log();
            log.lines().any(|line| line.contains("alert firing") && line.contains("upstream_refused"))
        });
        let next = start(server, &json!({ "usernames": "alice", "limit": 20 }));
        assert_eq!((next.status, &next.body["error"]["code"]), (503, &json!("NOT_CONFIGURED")), "{}", next.body);
    });
}

// covers: TWEET-47, TWEET-65
on_both!(response_without_a_list_fails_only_one_user);
async fn response_without_a_list_fails_only_one_user(on: On) {
    let faults = vec![TweetFault::new("odd", TweetFaultKind::NoList, 0)];
    everywhere(on, &TweetProvider { faults, ..TweetProvider::default() }, &[], |server| {
        let done = scrape(server, &json!({ "usernames": "odd,alice,bob,carol", "limit": 20 }));
        assert_eq!((&done["status"], &done["result"]["successful_users"]), (&json!("completed"), &json!(3)), "{done}");
        let users = done["result"]["users"].as_array().unwrap();
        let odd = users.iter().find(|user| user["username"] == "odd").unwrap();
        assert_eq!(odd["error_code"], "PARSE_ERROR");
        let again = scrape(server, &json!({ "usernames": "odd", "limit": 20 }));
        assert_eq!((&again["status"], &again["error"]["retryable"]), (&json!("failed"), &json!(false)), "{again}");
        // The same by the route for all jobs.
        let job = server.call("GET", &format!("/api/v1/jobs/{}", again["task_id"].as_str().unwrap()), None, None).body;
        assert_eq!(
            (&job["data"]["status"], &job["data"]["error"]["code"]),
            (&json!("failed"), &json!("PARSE_ERROR")),
            "{job}"
        );
    });
}

// covers: TWEET-95, MAP-S-06, TWEET-157
on_both!(cancelled_scrape_is_reported_as_failed);
async fn cancelled_scrape_is_reported_as_failed(on: On) {
    let faults = vec![TweetFault::new("slow", TweetFaultKind::Late(60_000), 0)];
    everywhere(on, &TweetProvider { faults, ..TweetProvider::default() }, &[], |server| {
        let begun = start(server, &json!({ "usernames": "fine,slow", "limit": 20 }));
        let task = begun.body["task_id"].as_str().unwrap().to_owned();
        let status = || server.call("GET", &format!("/api/admin/scrape/{task}"), None, None).body;
        server.wait("the first user", || status()["progress"]["current"] == 1);
        let cancelled = server.call("POST", &format!("/api/v1/jobs/{task}/cancel"), None, Some(&json!({})));
        assert!(cancelled.status < 300, "{}", cancelled.body);
        let done = finished(server, &task);
        assert_eq!((&done["status"], &done["error"]["code"]), (&json!("failed"), &json!("CANCELLED")), "{done}");
        assert_eq!((&done["progress"]["current"], &done["result"]["new_tweets"]), (&json!(1), &json!(20)), "{done}");
        let job = server.call("GET", &format!("/api/v1/jobs/{task}"), None, None).body;
        assert_eq!(job["data"]["status"], "cancelled", "{job}");
    });
}

// covers: POOL-66, POOL-85, POOL-89, POOL-14
on_both!(urls_of_a_scrape_are_captured_with_its_job);
async fn urls_of_a_scrape_are_captured_with_its_job(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |server| {
        let body = json!({ "project_key": "default", "job_types": ["tweet_scrape"] });
        let enabled = server.call("POST", "/api/v1/resource_pool/capture/enable", None, Some(&body)).body;
        assert_eq!(enabled["data"]["unknown_job_types"], json!([]), "{enabled}");
        let begun = start(server, &json!({ "usernames": "alice", "limit": 20 }));
        let task = begun.body["task_id"].as_str().unwrap().to_owned();
        finished(server, &task);
        let found = server.call("GET", "/api/v1/resource_pool/urls?project_key=default&source=task", None, None).body;
        assert_eq!(
            found["data"]["items"][0]["source_ref"],
            json!({ "task_id": task, "job_type": "tweet_scrape" }),
            "{found}"
        );
    });
}

// covers: TWEET-109, TWEET-142, TWEET-GAP-12
on_both!(the_same_user_is_not_scraped_twice_at_once);
async fn the_same_user_is_not_scraped_twice_at_once(on: On) {
    let slow = TweetFault::new("slow", TweetFaultKind::Late(60_000), 0);
    everywhere(on, &TweetProvider { faults: vec![slow], ..TweetProvider::default() }, &[], |server| {
        let first = start(server, &json!({ "usernames": "slow", "limit": 40 }));
        let task = first.body["task_id"].as_str().unwrap().to_owned();
        let second = start(server, &json!({ "usernames": "other,SLOW", "limit": 40 }));
        assert_eq!((second.status, &second.body["error"]["code"]), (409, &json!("TASK_CONFLICT")), "{}", second.body);
        assert_eq!(second.body["error"]["details"], json!({ "task_id": task, "usernames": ["slow"] }));
        assert_eq!(start(server, &json!({ "usernames": "other", "limit": 20 })).status, 202);
        server.mock_api.script().update(|script| script.tweets.faults.clear());
        assert_eq!(finished(server, &task)["status"], "completed");
    });
}

// covers: TWEET-04, TWEET-97, TWEET-112, TWEET-118, TWEET-REQ-4, TWEET-156, TWEET-158, COLL-US-5, COLL-GOAL-2
on_both!(followed_users_are_collected_on_schedule);
async fn followed_users_are_collected_on_schedule(on: On) {
    for place in on.places() {
        let mock_api = provider(TweetProvider::default());
        let run = |args: &[&str]| {
            let mut command = place.patra();
            command.envs(variables(&mock_api)).env("SCRAPER_USERNAMES", "alice, @bob,Alice");
            command.args(args).output().unwrap()
        };
        let collected = run(&["collect"]);
        assert!(collected.status.success(), "{}", String::from_utf8_lossy(&collected.stderr));
        let said = String::from_utf8_lossy(&collected.stdout).into_owned();
        assert!(said.starts_with("2 sources collected"), "{said}");
        assert!(run(&["collect"]).status.success(), "nothing is due");
        let tweets = place.list(&["items"]);
        assert_eq!(tweets.len(), 90);
        assert!(tweets.iter().all(|tweet| tweet["kind"] == "tweet"));
        let listed = run(&["source", "add", "twitter_list", "--config", "{\"list_id\": \"7\"}"]);
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    }
}

// covers: TWEET-115, TWEET-166
on_both!(without_a_key_no_request_is_sent_and_the_variable_is_named);
async fn without_a_key_no_request_is_sent_and_the_variable_is_named(on: On) {
    for place in on.places() {
        let server = TestServer::open(place, provider(TweetProvider::default()), &[(WITH_COLLECTOR, "1")]);
        let answer = start(&server, &json!({ "usernames": "alice" }));
        assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("NOT_CONFIGURED")), "{}", answer.body);
        assert!(answer.body["error"]["message"].as_str().unwrap().contains("TWITTER_API_KEY"));
        assert_eq!(
            server.call("GET", "/api/v1/jobs?job_type=tweet_scrape", None, None).body["data"]["items"],
            json!([])
        );
    }
}

// covers: TWEET-71, TWEET-159, TWEET-GAP-18
on_both!(new_tweets_are_delivered_to_the_webhook);
async fn new_tweets_are_delivered_to_the_webhook(on: On) {
    let (url, events) = webhook(Vec::new());
    everywhere(
        on,
        &TweetProvider::default(),
        &[("AUTO_SUMMARIZATION_ENABLED", "true"), ("SUMMARIZATION_WEBHOOK_URL", &url)],
        |server| {
            let done = scrape(server, &json!({ "usernames": "alice", "limit": 20 }));
            let event = events.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!((&event["event"], &event["project_key"]), (&json!("tweets.collected"), &json!("default")));
            assert_eq!((&event["data"]["username"], &event["data"]["job"]), (&json!("alice"), &done["task_id"]));
            assert_eq!(event["data"]["tweet_ids"].as_array().map(Vec::len), Some(20));
            // Without new tweets there is no event.
            scrape(server, &json!({ "usernames": "alice", "limit": 20 }));
            assert!(events.recv_timeout(Duration::from_secs(7)).is_err());
        },
    );
}

// covers: TWEET-168
on_both!(unknown_account_and_silent_account_have_different_results);
async fn unknown_account_and_silent_account_have_different_results(on: On) {
    let tweets =
        TweetProvider { unknown: vec!["ghost".into()], counts: vec![("quiet".into(), 0)], ..TweetProvider::default() };
    everywhere(on, &tweets, &[], |server| {
        let done = scrape(server, &json!({ "usernames": "ghost,quiet", "limit": 20 }));
        let users = done["result"]["users"].as_array().unwrap();
        let of = |name: &str| users.iter().find(|user| user["username"] == name).unwrap();
        assert_eq!(
            (&of("ghost")["success"], &of("ghost")["error_code"]),
            (&json!(false), &json!("NOT_FOUND")),
            "{done}"
        );
        assert_eq!((&of("quiet")["success"], &of("quiet")["fetched"]), (&json!(true), &json!(0)), "{done}");
        let questions = || server.mock_api.log().iter().filter(|entry| entry.target.contains("/user/info")).count();
        assert_eq!(questions(), 2);
        scrape(server, &json!({ "usernames": "quiet", "limit": 20 }));
        assert_eq!(questions(), 2, "a user known to exist is not requested again");
    });
}

// covers: TWEET-GAP-05
on_both!(refused_key_is_replaced_by_another);
async fn refused_key_is_replaced_by_another(on: On) {
    everywhere(on, &TweetProvider { key: "second-key".into(), ..TweetProvider::default() }, &[], |server| {
        let other = json!({
            "alias": "twitter_spare", "provenance": "twitterapi_io", "type": "api_key", "secret": "second-key",
        });
        let added = server.call("POST", "/api/v1/credentials", None, Some(&other));
        assert!(added.status < 300, "{}", added.body);
        // The provider returns 403 for a wrong key and for a protected user.
        let done = scrape(server, &json!({ "usernames": "alice,bob", "limit": 20 }));
        assert_eq!((&done["status"], &done["result"]["new_tweets"]), (&json!("completed"), &json!(40)), "{done}");
    });
}

// covers: TWEET-30, TWEET-ERR-2
on_both!(repeated_rate_limits_of_the_provider_are_reported);
async fn repeated_rate_limits_of_the_provider_are_reported(on: On) {
    let busy = TweetFault::new("busy", TweetFaultKind::Status(429), 0);
    everywhere(on, &TweetProvider { faults: vec![busy], ..TweetProvider::default() }, &[], |server| {
        let done = scrape(server, &json!({ "usernames": "busy", "limit": 20 }));
        assert_eq!((&done["status"], &done["error"]["code"]), (&json!("failed"), &json!("RATE_LIMITED")), "{done}");
        server.wait("the alert", || server.log().contains("upstream_throttles"));
        let asked = server.mock_api.log().iter().filter(|entry| entry.status == 429).count();
        assert_eq!(asked, 4, "once, and three times again");
    });
}

// covers: TWEET-61, TWEET-122, TWEET-138, TWEET-134, TWEET-58, TWEET-81, TWEET-163, TWEET-74
on_both!(stored_tweet_is_never_changed);
async fn stored_tweet_is_never_changed(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |server| {
        scrape(server, &json!({ "usernames": "Alice", "limit": 20 }));
        let first = server.place.sql("SELECT tweet_id FROM tweets ORDER BY tweet_id LIMIT 1")[0].clone();
        let known = |statement: &str| server.place.sql(&statement.replace("ID", &first));
        let as_it_was = known("SELECT text, created_at FROM tweets WHERE tweet_id = 'ID'");
        // A stored tweet was changed: a scrape leaves it unchanged.
        let marked = match server.place.database_url() {
            Some(_) => "UPDATE item SET fields = (fields::jsonb || '{\"text\": \"kept\"}')::text::json",
            None => "UPDATE item SET fields = json_set(fields, '$.text', 'kept')",
        };
        known(&format!("{marked} WHERE dedup_key = 'ID'"));
        scrape(server, &json!({ "usernames": "alice", "limit": 40 }));
        let now = known("SELECT text, created_at FROM tweets WHERE tweet_id = 'ID'");
        assert_eq!(now[0].split_once('|').unwrap().0, "kept");
        assert_eq!(now[0].rsplit_once('|').unwrap().1, as_it_was[0].rsplit_once('|').unwrap().1);
        assert_eq!(server.place.sql("SELECT count(*), count(DISTINCT tweet_id) FROM tweets"), ["40|40"]);
        known("DELETE FROM item WHERE dedup_key = 'ID'");
        assert_eq!(server.place.sql("SELECT count(*) FROM tweets"), ["39"]);
        let stats = server.place.sql("SELECT username, updated_at >= created_at FROM scraper_fetch_stats");
        assert!(stats == ["alice|1"] || stats == ["alice|t"], "{stats:?}");
    });
}

// covers: TWEET-59, TWEET-REQ-10, TWEET-TEST-8, TWEET-39, TWEET-69, TWEET-14, TWEET-119, TWEET-147
on_both!(scrape_of_many_users_shares_one_client_and_keeps_the_server_responsive);
async fn scrape_of_many_users_shares_one_client_and_keeps_the_server_responsive(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |server| {
        let users: Vec<_> = (0..60).map(|n| format!("user{n}")).collect();
        let begun = start(server, &json!({ "usernames": users, "limit": 45 }));
        let health = server.call("GET", "/health", None, None);
        assert_eq!((health.status, &health.body["checks"]["database"]), (200, &json!("ok")), "{}", health.body);
        let done = finished(server, begun.body["task_id"].as_str().unwrap());
        assert_eq!((&done["result"]["successful_users"], &done["result"]["new_tweets"]), (&json!(60), &json!(2_700)));
        // A page is one transaction, which is never long.
        let batches = server.place.sql("SELECT count(*), max(page_size) <= 20 FROM ing_task_run_batch");
        assert!(["180|1", "180|t"].contains(&batches[0].as_str()), "{batches:?}");
        let stats = server.mock_api.stats();
        assert!(stats.data_requests >= 180 && stats.connections <= 10, "5 at once, over kept connections: {stats:?}");
    });
}

// covers: TWEET-144, TWEET-ERR-6, TWEET-146
on_both!(damaged_database_is_reported_and_left_unchanged);
async fn damaged_database_is_reported_and_left_unchanged(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |server| {
        scrape(server, &json!({ "usernames": "alice", "limit": 20 }));
        server.place.sql("ALTER TABLE item RENAME TO elsewhere");
        let answer = server.call("GET", "/api/v1/tweets", None, None);
        assert_eq!((answer.status, &answer.body["error"]["code"]), (500, &json!("INTERNAL_ERROR")), "{}", answer.body);
        assert!(!answer.text.contains("elsewhere") && !answer.text.contains("item"), "{}", answer.text);
        assert!(server.log().lines().any(|line| line.contains("WARN") && line.contains("a query failed")));
        let failed = scrape(server, &json!({ "usernames": "bob", "limit": 20 }));
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("failed"), &json!("INTERNAL_ERROR")),
            "{failed}"
        );
        server.place.sql("ALTER TABLE elsewhere RENAME TO item");
        let done = scrape(server, &json!({ "usernames": "bob", "limit": 20 }));
        assert_eq!(done["result"]["new_tweets"], 20, "{done}");
        assert_eq!(server.place.sql("SELECT count(*) FROM tweets"), ["40"]);
    });
}

// covers: TWEET-152
on_both!(hundred_users_of_a_slow_provider_are_scraped_concurrently);
async fn hundred_users_of_a_slow_provider_are_scraped_concurrently(on: On) {
    for place in on.places() {
        let mock_api = mock_api(Script { latency_ms: 700, ..Script::default() });
        let mut variables = variables(&mock_api);
        variables.push(("COLLECTOR_CONCURRENCY".to_owned(), "25".to_owned()));
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let server = TestServer::open(place, mock_api, &variables);
        let users: Vec<_> = (0..100).map(|n| format!("user{n}")).collect();
        let done = scrape(&server, &json!({ "usernames": users, "limit": 20 }));
        assert_eq!(done["result"]["new_tweets"], 2_000, "{done}");
    }
}

//! Tweets: scraped now by HTTP and by command, followed by the collector, from a scripted TwitterAPI.io.

#![expect(clippy::disallowed_methods, reason = "a test that waits for another process")]

mod key;
mod schedule;

use std::time::Duration;

use patra_upstream::{MockApi, Script, TweetFault, TweetFaultKind, TweetProvider};
use serde_json::{Value, json};

use crate::crawler::desk::{Answer, Desk, WITH_COLLECTOR, far};
use crate::emit::webhook;
use crate::support::On;

const KEY: &str = "tweets-key";
/// Sealed with this; the same for every process on PostgreSQL.
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn provider(tweets: TweetProvider) -> MockApi {
    far(Script { tweets, ..Script::default() })
}

/// What tells the program where the provider is, at any rate.
fn variables(far: &MockApi) -> Vec<(String, String)> {
    [
        ("PATRA_MASTER_KEY", MASTER_KEY),
        ("TWITTER_API_KEY", KEY),
        ("TWITTER_BASE_URL", far.base_url()),
        ("TWITTER_RATE_PER_SEC", "1000"),
        (WITH_COLLECTOR, "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn everywhere(on: On, tweets: &TweetProvider, more: &[(&str, &str)], test: impl Fn(&Desk)) {
    for place in on.places() {
        let far = provider(tweets.clone());
        let mut variables = variables(&far);
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        test(&Desk::open(place, far, &variables));
    }
}

fn start(desk: &Desk, body: &Value) -> Answer {
    desk.call("POST", "/api/admin/scrape", None, Some(body))
}

#[track_caller]
fn finished(desk: &Desk, task: &str) -> Value {
    for _ in 0..600 {
        let answer = desk.call("GET", &format!("/api/admin/scrape/{task}"), None, None);
        assert_eq!(answer.status, 200, "{}", answer.body);
        if ["completed", "failed"].contains(&answer.body["status"].as_str().unwrap()) {
            return answer.body;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{task} does not end: {}", desk.log());
}

#[track_caller]
fn scrape(desk: &Desk, body: &Value) -> Value {
    let answer = start(desk, body);
    assert_eq!((answer.status, &answer.body["status"]), (202, &json!("pending")), "{}", answer.body);
    finished(desk, answer.body["task_id"].as_str().unwrap())
}

// covers: TWEET-03, TWEET-18, TWEET-24, TWEET-62, TWEET-66, TWEET-70, TWEET-72, TWEET-92, TWEET-100, TWEET-102
// covers: TWEET-103, TWEET-105, TWEET-136, TWEET-REQ-1, TWEET-REQ-3, TWEET-REQ-7, TWEET-REQ-8, TWEET-TEST-5
// covers: TWEET-TEST-6, TWEET-TEST-7
on_both!(users_are_scraped_now_and_their_tweets_are_there_once);
async fn users_are_scraped_now_and_their_tweets_are_there_once(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |desk| {
        let done = scrape(desk, &json!({ "usernames": "alice, @Bob", "limit": 30 }));
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
        // Again: nothing new, nothing twice.
        let again = scrape(desk, &json!({ "usernames": ["ALICE"], "limit": 30 }));
        assert_eq!((&again["result"]["new_tweets"], &again["result"]["skipped_tweets"]), (&json!(0), &json!(30)));
        let stored = desk.call("GET", "/api/v1/tweets?author=alice&limit=10", None, None);
        let tweets = stored.body["data"]["items"].as_array().unwrap();
        assert_eq!(tweets.len(), 10);
        let times: Vec<_> = tweets.iter().map(|tweet| tweet["created_at"].as_str().unwrap()).collect();
        assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
        assert_eq!(desk.place.sql("SELECT count(*) FROM tweets"), ["60"]);
        assert_eq!(desk.place.sql("SELECT username, last_fetched_count, last_new_count, total_fetches, consecutive_empty_fetches FROM scraper_fetch_stats WHERE username = 'alice'"), ["alice|30|0|2|1"]);
        // Without a limit the calculator decides: of 30 all are known, 0.7 × 1.0 × 30 × 1.2 = 25.2.
        let by_stats = scrape(desk, &json!({ "usernames": "alice" }));
        assert_eq!(by_stats["result"]["users"][0]["limit"], 26);
        let list = desk.call("GET", "/api/admin/scrape?status=completed", None, None);
        assert_eq!(list.body.as_array().map(Vec::len), Some(3), "{}", list.body);
        let unknown = desk.call("GET", "/api/admin/scrape/00000000-0000-0000-0000-000000000000", None, None);
        assert_eq!((unknown.status, &unknown.body["error"]["code"]), (404, &json!("NOT_FOUND")));
    });
}

// covers: TWEET-20, TWEET-63, TWEET-104, TWEET-107, TWEET-110, TWEET-140, TWEET-141, TWEET-143, TWEET-GAP-06
on_both!(wrong_requests_are_told_field_by_field);
async fn wrong_requests_are_told_field_by_field(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |desk| {
        let wrong = start(desk, &json!({ "usernames": "al ice,b-b", "limit": 1001 }));
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
            assert_eq!(start(desk, &body).status, 400, "{body}");
        }
        assert_eq!(desk.call_as(None, "POST", "/api/admin/scrape", None, Some("{}")).status, 401);
        let last = (0..20)
            .map(|_| start(desk, &json!({ "usernames": "alice", "limit": 1 })))
            .find(|answer| answer.status == 429);
        assert!(last.unwrap().retry_after.is_some());
    });
}

// covers: TWEET-TEST-1, TWEET-21, TWEET-27, TWEET-28, TWEET-31, TWEET-33, TWEET-65, TWEET-ERR-3, TWEET-ERR-4
// covers: TWEET-REQ-6, TWEET-06, TWEET-TEST-5, TWEET-95
on_both!(one_users_failure_is_not_the_others);
async fn one_users_failure_is_not_the_others(on: On) {
    let fault = TweetFault::new;
    let tweets = TweetProvider {
        faults: vec![fault("gone", TweetFaultKind::Status(404), 0), fault("shaky", TweetFaultKind::Status(503), 1)],
        ..TweetProvider::default()
    };
    everywhere(on, &tweets, &[], |desk| {
        let done = scrape(desk, &json!({ "usernames": "gone,shaky,fine", "limit": 20 }));
        assert_eq!(done["status"], "completed", "{done}");
        let users = done["result"]["users"].as_array().unwrap();
        let of = |name: &str| users.iter().find(|user| user["username"] == name).unwrap();
        assert_eq!((&of("gone")["success"], &of("gone")["error_code"]), (&json!(false), &json!("NOT_FOUND")));
        let failed = desk.call("GET", "/api/v1/tasks?status=FAILED", None, None).body;
        assert_eq!(failed["data"]["items"][0]["error"]["code"], "NOT_FOUND", "{failed}");
        assert_eq!((&of("shaky")["new"], &of("fine")["new"]), (&json!(20), &json!(20)));
        assert_eq!((&done["result"]["failed_users"], &done["result"]["total_errors"]), (&json!(1), &json!(1)));
    });
}

// covers: TWEET-146, TWEET-149, TWEET-29, TWEET-ERR-1, TWEET-GAP-05, TWEET-160
on_both!(a_refused_key_stops_the_scrape_and_is_told);
async fn a_refused_key_stops_the_scrape_and_is_told(on: On) {
    everywhere(
        on,
        &TweetProvider { key: "another".into(), key_status: 401, ..TweetProvider::default() },
        &[],
        |desk| {
            let done =
                scrape(desk, &json!({ "usernames": "alice,bob,carol,dave,erin,frank,grace,heidi", "limit": 20 }));
            assert_eq!(
                (&done["status"], &done["error"]["code"]),
                (&json!("failed"), &json!("UPSTREAM_AUTH_FAILED")),
                "{done}"
            );
            assert_eq!((&done["result"]["successful_users"], &done["result"]["users"]), (&json!(0), &json!([])));
            desk.wait("the alert", || desk.log().contains("upstream_refused"));
            assert!(!desk.log().contains(KEY), "the key is nobody's business");
            let failed = desk.log().lines().any(|line| line.contains("WARN") && line.contains("not collected"));
            assert!(failed && desk.log().contains("UPSTREAM_AUTH_FAILED"), "{}", desk.log());
            for table in
                ["config", "ing_schedule_instance", "ing_task", "ing_task_run", "ing_task_run_batch", "ing_snapshot"]
            {
                let rows = desk.place.sql(&format!("SELECT * FROM {table}"));
                assert!(!rows.iter().any(|row| row.contains(KEY)), "{table}");
            }
            let next = start(desk, &json!({ "usernames": "alice", "limit": 20 }));
            assert_eq!((next.status, &next.body["error"]["code"]), (503, &json!("NOT_CONFIGURED")), "{}", next.body);
            // The way out that it names is one.
            let message = next.body["error"]["message"].as_str().unwrap();
            let hold = message.split("resume hold ").nth(1).unwrap().trim_end_matches('`');
            let released = desk.call("DELETE", &format!("/api/v1/holds/{hold}"), None, None);
            assert!(released.status < 300, "{message}: {}", released.body);
            assert_eq!(start(desk, &json!({ "usernames": "alice", "limit": 20 })).status, 202);
        },
    );
}

// covers: TWEET-47, TWEET-65
on_both!(an_answer_without_a_list_is_one_users_trouble);
async fn an_answer_without_a_list_is_one_users_trouble(on: On) {
    let faults = vec![TweetFault::new("odd", TweetFaultKind::NoList, 0)];
    everywhere(on, &TweetProvider { faults, ..TweetProvider::default() }, &[], |desk| {
        let done = scrape(desk, &json!({ "usernames": "odd,alice,bob,carol", "limit": 20 }));
        assert_eq!((&done["status"], &done["result"]["successful_users"]), (&json!("completed"), &json!(3)), "{done}");
        let users = done["result"]["users"].as_array().unwrap();
        let odd = users.iter().find(|user| user["username"] == "odd").unwrap();
        assert_eq!(odd["error_code"], "PARSE_ERROR");
        let again = scrape(desk, &json!({ "usernames": "odd", "limit": 20 }));
        assert_eq!((&again["status"], &again["error"]["retryable"]), (&json!("failed"), &json!(false)), "{again}");
        // The same by the route of all jobs.
        let job = desk.call("GET", &format!("/api/v1/jobs/{}", again["task_id"].as_str().unwrap()), None, None).body;
        assert_eq!(
            (&job["data"]["status"], &job["data"]["error"]["code"]),
            (&json!("failed"), &json!("PARSE_ERROR")),
            "{job}"
        );
    });
}

// covers: TWEET-95, MAP-S-06, TWEET-157
on_both!(a_scrape_that_is_cancelled_has_failed_and_says_so);
async fn a_scrape_that_is_cancelled_has_failed_and_says_so(on: On) {
    let faults = vec![TweetFault::new("slow", TweetFaultKind::Late(60_000), 0)];
    everywhere(on, &TweetProvider { faults, ..TweetProvider::default() }, &[], |desk| {
        let begun = start(desk, &json!({ "usernames": "fine,slow", "limit": 20 }));
        let task = begun.body["task_id"].as_str().unwrap().to_owned();
        let status = || desk.call("GET", &format!("/api/admin/scrape/{task}"), None, None).body;
        desk.wait("the first user", || status()["progress"]["current"] == 1);
        let cancelled = desk.call("POST", &format!("/api/v1/jobs/{task}/cancel"), None, Some(&json!({})));
        assert!(cancelled.status < 300, "{}", cancelled.body);
        let done = finished(desk, &task);
        assert_eq!((&done["status"], &done["error"]["code"]), (&json!("failed"), &json!("CANCELLED")), "{done}");
        assert_eq!((&done["progress"]["current"], &done["result"]["new_tweets"]), (&json!(1), &json!(20)), "{done}");
        let job = desk.call("GET", &format!("/api/v1/jobs/{task}"), None, None).body;
        assert_eq!(job["data"]["status"], "cancelled", "{job}");
    });
}

// covers: POOL-66, POOL-85, POOL-89, POOL-14
on_both!(urls_of_a_scrape_are_captured_as_the_scrapes);
async fn urls_of_a_scrape_are_captured_as_the_scrapes(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |desk| {
        let body = json!({ "project_key": "default", "job_types": ["tweet_scrape"] });
        let enabled = desk.call("POST", "/api/v1/resource_pool/capture/enable", None, Some(&body)).body;
        assert_eq!(enabled["data"]["unknown_job_types"], json!([]), "{enabled}");
        let begun = start(desk, &json!({ "usernames": "alice", "limit": 20 }));
        let task = begun.body["task_id"].as_str().unwrap().to_owned();
        finished(desk, &task);
        let found = desk.call("GET", "/api/v1/resource_pool/urls?project_key=default&source=task", None, None).body;
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
    everywhere(on, &TweetProvider { faults: vec![slow], ..TweetProvider::default() }, &[], |desk| {
        let first = start(desk, &json!({ "usernames": "slow", "limit": 40 }));
        let task = first.body["task_id"].as_str().unwrap().to_owned();
        let second = start(desk, &json!({ "usernames": "other,SLOW", "limit": 40 }));
        assert_eq!((second.status, &second.body["error"]["code"]), (409, &json!("TASK_CONFLICT")), "{}", second.body);
        assert_eq!(second.body["error"]["details"], json!({ "task_id": task, "usernames": ["slow"] }));
        assert_eq!(start(desk, &json!({ "usernames": "other", "limit": 20 })).status, 202);
        desk.far.script().update(|script| script.tweets.faults.clear());
        assert_eq!(finished(desk, &task)["status"], "completed");
    });
}

// covers: TWEET-04, TWEET-97, TWEET-112, TWEET-118, TWEET-REQ-4, TWEET-156, TWEET-158, COLL-US-5, COLL-GOAL-2
on_both!(followed_users_are_collected_by_themselves);
async fn followed_users_are_collected_by_themselves(on: On) {
    for place in on.places() {
        let far = provider(TweetProvider::default());
        let run = |args: &[&str]| {
            let mut command = place.patra();
            command.envs(variables(&far)).env("SCRAPER_USERNAMES", "alice, @bob,Alice");
            command.args(args).output().unwrap()
        };
        let collected = run(&["collect"]);
        assert!(collected.status.success(), "{}", String::from_utf8_lossy(&collected.stderr));
        let said = String::from_utf8_lossy(&collected.stdout).into_owned();
        assert!(said.starts_with("2 source(s) collected"), "{said}");
        assert!(run(&["collect"]).status.success(), "nothing is due");
        let tweets = place.list(&["items"]);
        assert_eq!(tweets.len(), 90);
        assert!(tweets.iter().all(|tweet| tweet["kind"] == "tweet"));
        let listed = run(&["source", "add", "twitter_list", "--config", "{\"list_id\": \"7\"}"]);
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    }
}

// covers: TWEET-115, TWEET-166
on_both!(without_a_key_nothing_is_asked_and_the_variable_is_named);
async fn without_a_key_nothing_is_asked_and_the_variable_is_named(on: On) {
    for place in on.places() {
        let desk = Desk::open(place, provider(TweetProvider::default()), &[(WITH_COLLECTOR, "1")]);
        let answer = start(&desk, &json!({ "usernames": "alice" }));
        assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("NOT_CONFIGURED")), "{}", answer.body);
        assert!(answer.body["error"]["message"].as_str().unwrap().contains("TWITTER_API_KEY"));
        assert_eq!(desk.call("GET", "/api/v1/jobs?job_type=tweet_scrape", None, None).body["data"]["items"], json!([]));
    }
}

// covers: TWEET-71, TWEET-159, TWEET-GAP-18
on_both!(new_tweets_are_told_to_a_webhook_that_wants_to_know);
async fn new_tweets_are_told_to_a_webhook_that_wants_to_know(on: On) {
    let (url, told) = webhook(Vec::new());
    everywhere(
        on,
        &TweetProvider::default(),
        &[("AUTO_SUMMARIZATION_ENABLED", "true"), ("SUMMARIZATION_WEBHOOK_URL", &url)],
        |desk| {
            let done = scrape(desk, &json!({ "usernames": "alice", "limit": 20 }));
            let event = told.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!((&event["event"], &event["project_key"]), (&json!("tweets.collected"), &json!("default")));
            assert_eq!((&event["data"]["username"], &event["data"]["job"]), (&json!("alice"), &done["task_id"]));
            assert_eq!(event["data"]["tweet_ids"].as_array().map(Vec::len), Some(20));
            // Nothing new, nothing to tell.
            scrape(desk, &json!({ "usernames": "alice", "limit": 20 }));
            assert!(told.recv_timeout(Duration::from_secs(7)).is_err());
        },
    );
}

// covers: TWEET-168
on_both!(who_does_not_exist_is_told_from_who_is_silent);
async fn who_does_not_exist_is_told_from_who_is_silent(on: On) {
    let tweets =
        TweetProvider { unknown: vec!["ghost".into()], counts: vec![("quiet".into(), 0)], ..TweetProvider::default() };
    everywhere(on, &tweets, &[], |desk| {
        let done = scrape(desk, &json!({ "usernames": "ghost,quiet", "limit": 20 }));
        let users = done["result"]["users"].as_array().unwrap();
        let of = |name: &str| users.iter().find(|user| user["username"] == name).unwrap();
        assert_eq!(
            (&of("ghost")["success"], &of("ghost")["error_code"]),
            (&json!(false), &json!("NOT_FOUND")),
            "{done}"
        );
        assert_eq!((&of("quiet")["success"], &of("quiet")["fetched"]), (&json!(true), &json!(0)), "{done}");
        let questions = || desk.far.log().iter().filter(|entry| entry.target.contains("/user/info")).count();
        assert_eq!(questions(), 2);
        scrape(desk, &json!({ "usernames": "quiet", "limit": 20 }));
        assert_eq!(questions(), 2, "who is known to exist is not asked for again");
    });
}

// covers: TWEET-GAP-05
on_both!(a_key_that_is_refused_gives_way_to_another);
async fn a_key_that_is_refused_gives_way_to_another(on: On) {
    everywhere(on, &TweetProvider { key: "second-key".into(), ..TweetProvider::default() }, &[], |desk| {
        let other = json!({
            "alias": "twitter_spare", "provenance": "twitterapi_io", "type": "api_key", "secret": "second-key",
        });
        let added = desk.call("POST", "/api/v1/credentials", None, Some(&other));
        assert!(added.status < 300, "{}", added.body);
        // The provider says 403 of a wrong key, as of a user whom nobody may see.
        let done = scrape(desk, &json!({ "usernames": "alice,bob", "limit": 20 }));
        assert_eq!((&done["status"], &done["result"]["new_tweets"]), (&json!("completed"), &json!(40)), "{done}");
    });
}

// covers: TWEET-30, TWEET-ERR-2
on_both!(a_provider_that_asks_for_silence_too_often_is_told_of);
async fn a_provider_that_asks_for_silence_too_often_is_told_of(on: On) {
    let busy = TweetFault::new("busy", TweetFaultKind::Status(429), 0);
    everywhere(on, &TweetProvider { faults: vec![busy], ..TweetProvider::default() }, &[], |desk| {
        let done = scrape(desk, &json!({ "usernames": "busy", "limit": 20 }));
        assert_eq!((&done["status"], &done["error"]["code"]), (&json!("failed"), &json!("RATE_LIMITED")), "{done}");
        desk.wait("the alert", || desk.log().contains("upstream_throttles"));
        let asked = desk.far.log().iter().filter(|entry| entry.status == 429).count();
        assert_eq!(asked, 4, "once, and three times again");
    });
}

// covers: TWEET-61, TWEET-122, TWEET-138, TWEET-134, TWEET-58, TWEET-81, TWEET-163, TWEET-74
on_both!(a_stored_tweet_stays_as_it_is);
async fn a_stored_tweet_stays_as_it_is(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |desk| {
        scrape(desk, &json!({ "usernames": "Alice", "limit": 20 }));
        let first = desk.place.sql("SELECT tweet_id FROM tweets ORDER BY tweet_id LIMIT 1")[0].clone();
        let known = |statement: &str| desk.place.sql(&statement.replace("ID", &first));
        let as_it_was = known("SELECT text, created_at FROM tweets WHERE tweet_id = 'ID'");
        // Somebody has changed what is stored: a scrape leaves it so.
        let marked = match desk.place.database_url() {
            Some(_) => "UPDATE item SET fields = (fields::jsonb || '{\"text\": \"kept\"}')::text::json",
            None => "UPDATE item SET fields = json_set(fields, '$.text', 'kept')",
        };
        known(&format!("{marked} WHERE dedup_key = 'ID'"));
        scrape(desk, &json!({ "usernames": "alice", "limit": 40 }));
        let now = known("SELECT text, created_at FROM tweets WHERE tweet_id = 'ID'");
        assert_eq!(now[0].split_once('|').unwrap().0, "kept");
        assert_eq!(now[0].rsplit_once('|').unwrap().1, as_it_was[0].rsplit_once('|').unwrap().1);
        assert_eq!(desk.place.sql("SELECT count(*), count(DISTINCT tweet_id) FROM tweets"), ["40|40"]);
        known("DELETE FROM item WHERE dedup_key = 'ID'");
        assert_eq!(desk.place.sql("SELECT count(*) FROM tweets"), ["39"]);
        let stats = desk.place.sql("SELECT username, updated_at >= created_at FROM scraper_fetch_stats");
        assert!(stats == ["alice|1"] || stats == ["alice|t"], "{stats:?}");
    });
}

// covers: TWEET-59, TWEET-REQ-10, TWEET-TEST-8, TWEET-39, TWEET-69, TWEET-14, TWEET-119, TWEET-147
on_both!(many_users_share_one_client_and_the_server_answers_meanwhile);
async fn many_users_share_one_client_and_the_server_answers_meanwhile(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |desk| {
        let users: Vec<_> = (0..60).map(|n| format!("user{n}")).collect();
        let begun = start(desk, &json!({ "usernames": users, "limit": 45 }));
        let health = desk.call("GET", "/health", None, None);
        assert_eq!((health.status, &health.body["checks"]["database"]), (200, &json!("ok")), "{}", health.body);
        let done = finished(desk, begun.body["task_id"].as_str().unwrap());
        assert_eq!((&done["result"]["successful_users"], &done["result"]["new_tweets"]), (&json!(60), &json!(2_700)));
        // A page is a transaction: it is never long.
        let batches = desk.place.sql("SELECT count(*), max(page_size) <= 20 FROM ing_task_run_batch");
        assert!(["180|1", "180|t"].contains(&batches[0].as_str()), "{batches:?}");
        let stats = desk.far.stats();
        assert!(stats.data_requests >= 180 && stats.connections <= 10, "5 at once, over kept connections: {stats:?}");
    });
}

// covers: TWEET-144, TWEET-ERR-6, TWEET-146
on_both!(a_damaged_database_is_told_of_and_keeps_what_it_has);
async fn a_damaged_database_is_told_of_and_keeps_what_it_has(on: On) {
    everywhere(on, &TweetProvider::default(), &[], |desk| {
        scrape(desk, &json!({ "usernames": "alice", "limit": 20 }));
        desk.place.sql("ALTER TABLE item RENAME TO elsewhere");
        let answer = desk.call("GET", "/api/v1/tweets", None, None);
        assert_eq!((answer.status, &answer.body["error"]["code"]), (500, &json!("INTERNAL_ERROR")), "{}", answer.body);
        assert!(!answer.text.contains("elsewhere") && !answer.text.contains("item"), "{}", answer.text);
        assert!(desk.log().lines().any(|line| line.contains("WARN") && line.contains("a query failed")));
        let failed = scrape(desk, &json!({ "usernames": "bob", "limit": 20 }));
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("failed"), &json!("INTERNAL_ERROR")),
            "{failed}"
        );
        desk.place.sql("ALTER TABLE elsewhere RENAME TO item");
        let done = scrape(desk, &json!({ "usernames": "bob", "limit": 20 }));
        assert_eq!(done["result"]["new_tweets"], 20, "{done}");
        assert_eq!(desk.place.sql("SELECT count(*) FROM tweets"), ["40"]);
    });
}

// covers: TWEET-152
on_both!(a_hundred_users_of_a_slow_provider_take_far_less_than_five_minutes);
async fn a_hundred_users_of_a_slow_provider_take_far_less_than_five_minutes(on: On) {
    for place in on.places() {
        let far = far(Script { latency_ms: 700, ..Script::default() });
        let mut variables = variables(&far);
        variables.push(("COLLECTOR_CONCURRENCY".to_owned(), "25".to_owned()));
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let desk = Desk::open(place, far, &variables);
        let users: Vec<_> = (0..100).map(|n| format!("user{n}")).collect();
        let done = scrape(&desk, &json!({ "usernames": users, "limit": 20 }));
        assert_eq!(done["result"]["new_tweets"], 2_000, "{done}");
    }
}

//! Scheduled scraping: by cron, by an interval, and across the death of the process.

use patra_upstream::{RetryAfter, TweetFault, TweetFaultKind, TweetProvider};
use serde_json::{Value, json};

use super::{everywhere, finished, provider, start, variables};
use crate::crawler::server::TestServer;
use crate::support::{On, Workspace};

/// Makes the schedule due now: its last run lies far back.
fn ring(server: &TestServer, seen_to: &str) {
    server.wait("it has looked at the clock", || {
        !server.place.sql("SELECT 1 FROM config WHERE config_key = 'scraper.cron_seen_to'").is_empty()
    });
    server
        .place
        .sql(&format!("UPDATE config SET config_value = '{seen_to}' WHERE config_key = 'scraper.cron_seen_to'"));
}

fn scrapes(server: &TestServer) -> Vec<Value> {
    let jobs = server.call("GET", "/api/v1/jobs?job_type=tweet_scrape", None, None).body;
    jobs["data"]["items"].as_array().unwrap().clone()
}

// covers: TWEET-16, TWEET-17, TWEET-67, TWEET-68, TWEET-113, TWEET-116, TWEET-161, TWEET-07
on_both!(schedule_scrapes_all_users_as_one_job_and_never_overlaps);
async fn schedule_scrapes_all_users_as_one_job_and_never_overlaps(on: On) {
    let slow = |user| TweetFault::new(user, TweetFaultKind::Late(60_000), 0);
    let tweets = TweetProvider { faults: vec![slow("alice"), slow("bob")], ..TweetProvider::default() };
    let settings = [("SCRAPER_CRON", "0 * * * *"), ("SCRAPER_USERNAMES", "alice,bob"), ("COLLECTOR_TICK", "1")];
    everywhere(on, &tweets, &settings, |server| {
        ring(server, "2026-01-01T00:00:00Z");
        server.wait("a job", || !scrapes(server).is_empty());
        let task = scrapes(server)[0]["public_id"].as_str().unwrap().to_owned();
        assert_eq!(scrapes(server)[0]["trigger_type_code"], "SCHEDULE");
        let running = || server.call("GET", "/api/admin/scrape?status=running", None, None).body;
        server.wait("it runs", || running()[0]["task_id"] == json!(task));
        // The schedule is due again while the job runs.
        ring(server, "2026-01-02T00:00:00Z");
        server.wait("a warning that names it", || {
            server.log().lines().any(|line| line.contains("is still running") && line.contains(&task))
        });
        assert_eq!(running()[0]["task_id"], json!(task), "{}", running());
        server.mock_api.script().update(|script| script.tweets.faults.clear());
        let done = finished(server, &task);
        assert_eq!(done["result"]["successful_users"], 2, "{done}");
        assert_eq!(scrapes(server).len(), 1, "the second one was skipped");
        server.wait("the report", || server.log().contains("a scrape has ended"));
        let log = server.log();
        let lines = |what: &str| log.lines().filter(|line| line.contains(what)).map(str::to_owned).collect::<Vec<_>>();
        let users = lines("\"collected\"").len() + lines(" collected ").len();
        assert_eq!(users, 2, "a line for each user: {log}");
        for line in log.lines().filter(|line| line.contains("@alice") && line.contains("fetched=")) {
            assert!(["task_id=", "inserted=", "skipped=", "errors="].iter().all(|part| line.contains(part)), "{line}");
        }
        let report = lines("a scrape has ended");
        assert_eq!(report.len(), 1, "{report:?}");
        assert!(report[0].contains(&task) && report[0].contains("users=2"), "{report:?}");
    });
}

// covers: TWEET-26, TWEET-73, TWEET-117
on_both!(scheduled_run_reads_only_tweets_above_the_newest_complete_one);
async fn scheduled_run_reads_only_tweets_above_the_newest_complete_one(on: On) {
    let counted = |count: usize| vec![("alice".to_owned(), count)];
    for place in on.places() {
        let mock_api = provider(TweetProvider { counts: counted(45), ..TweetProvider::default() });
        let mut settings = variables(&mock_api);
        for (name, value) in [("SCRAPER_CRON", "0 * * * *"), ("SCRAPER_USERNAMES", "alice"), ("COLLECTOR_TICK", "1")] {
            settings.push((name.to_owned(), value.to_owned()));
        }
        let settings: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut server = TestServer::open(place, mock_api, &settings);
        let mut runs = 0;
        let mut run = |server: &TestServer| {
            let before = server.mock_api.stats().data_requests;
            ring(server, &format!("2026-01-{:02}T00:00:00Z", runs + 1));
            runs += 1;
            let scheduled = || {
                let mut jobs = scrapes(server);
                jobs.retain(|job| job["trigger_type_code"] == "SCHEDULE");
                jobs
            };
            server.wait("a job", || scheduled().len() == runs);
            let done = finished(server, scheduled()[0]["public_id"].as_str().unwrap());
            let user = &done["result"]["users"][0];
            let numbers = ["fetched", "new"].map(|name| user[name].as_u64().unwrap_or_default());
            (numbers, server.mock_api.stats().data_requests - before)
        };
        let set = |server: &TestServer, count: usize, faults: Vec<TweetFault>| {
            server.mock_api.script().update(|script| {
                script.tweets.counts = counted(count);
                script.tweets.faults = faults;
            });
        };
        assert_eq!(run(&server), ([45, 45], 3), "the first run reads all pages");
        assert_eq!(run(&server), ([0, 0], 1), "nothing is new: one page, whatever the statistics say");
        server.restart();
        set(&server, 47, Vec::new());
        assert_eq!(run(&server), ([2, 2], 1), "the id survives the process");
        // A failed run moves nothing.
        set(&server, 90, vec![TweetFault::new("alice", TweetFaultKind::Status(404), 0)]);
        assert_eq!(run(&server).0, [0, 0]);
        set(&server, 90, Vec::new());
        assert_eq!(run(&server), ([43, 43], 3), "nothing is skipped");
        // A scrape on request reads known tweets too, and a small one moves nothing.
        set(&server, 100, Vec::new());
        let manual = start(&server, &json!({ "usernames": "alice", "limit": 5 })).body["task_id"].clone();
        let manual = finished(&server, manual.as_str().unwrap());
        assert_eq!(manual["result"]["users"][0]["new"], 5, "{manual}");
        assert_eq!(run(&server).0, [10, 5], "five known ones of the scrape, and five that it left out");
        assert_eq!(server.place.sql("SELECT count(*), count(DISTINCT tweet_id) FROM tweets"), ["100|100"]);
    }
}

// covers: TWEET-16, TWEET-109, TWEET-117
on_both!(scheduled_run_leaves_out_only_users_who_are_busy);
async fn scheduled_run_leaves_out_only_users_who_are_busy(on: On) {
    // `stuck` waits for the 400 seconds of its `Retry-After`, in a scrape on request.
    let tweets = TweetProvider {
        faults: vec![TweetFault::new("stuck", TweetFaultKind::Status(429), 0)],
        ..TweetProvider::default()
    };
    let settings = [("SCRAPER_CRON", "0 * * * *"), ("SCRAPER_USERNAMES", "alice,bob,stuck"), ("COLLECTOR_TICK", "1")];
    everywhere(on, &tweets, &settings, |server| {
        server.mock_api.script().update(|script| script.retry_after = RetryAfter::Seconds(400));
        let manual = start(server, &json!({ "usernames": "stuck", "limit": 20 })).body["task_id"].clone();
        let manual = manual.as_str().unwrap();
        let status = |task: &str| server.call("GET", &format!("/api/admin/scrape/{task}"), None, None).body;
        server.wait("the pause", || server.mock_api.log().iter().any(|entry| entry.status == 429));
        let scheduled = || {
            let mut jobs = scrapes(server);
            jobs.retain(|job| job["trigger_type_code"] == "SCHEDULE");
            jobs
        };
        ring(server, "2026-01-01T00:00:00Z");
        server.wait("a job of the others", || scheduled().len() == 1);
        let task = scheduled()[0]["public_id"].as_str().unwrap().to_owned();
        assert_eq!(status(&task)["progress"]["total"], 2, "{}", status(&task));
        let lines = |what: &str| {
            let log = server.log();
            log.lines().filter(|line| line.contains(what)).map(str::to_owned).collect::<Vec<_>>()
        };
        server.wait("the warning", || !lines("leaves out users").is_empty());
        let left_out = lines("leaves out users").remove(0);
        assert!(left_out.contains("stuck") && !left_out.contains("alice") && left_out.contains(&task), "{left_out}");
        // The provider silenced the key, so they wait too: the next run is skipped, and names what it waits for.
        ring(server, "2026-01-02T00:00:00Z");
        server.wait("a warning that names the task", || !lines("is still running").is_empty());
        assert!(lines("is still running")[0].contains(&task), "{:?}", lines("is still running"));
        assert!(!task.contains(manual) && scheduled().len() == 1);
        assert!(["pending", "running"].contains(&status(manual)["status"].as_str().unwrap()), "{}", status(manual));
    });
}

// covers: TWEET-109
on_both!(user_who_waits_in_a_scheduled_run_is_scraped_on_request);
async fn user_who_waits_in_a_scheduled_run_is_scraped_on_request(on: On) {
    let tweets = TweetProvider {
        faults: vec![TweetFault::new("alice", TweetFaultKind::Late(60_000), 0)],
        ..TweetProvider::default()
    };
    let settings = [
        ("SCRAPER_CRON", "0 * * * *"),
        ("SCRAPER_USERNAMES", "alice,bob"),
        ("COLLECTOR_TICK", "1"),
        ("COLLECTOR_CONCURRENCY", "1"),
    ];
    everywhere(on, &tweets, &settings, |server| {
        ring(server, "2026-01-01T00:00:00Z");
        server.wait("a request for alice", || server.mock_api.stats().data_requests > 0);
        let conflict = start(server, &json!({ "usernames": "alice", "limit": 20 }));
        assert_eq!(conflict.status, 409, "she is being fetched: {}", conflict.body);
        let begun = start(server, &json!({ "usernames": "bob", "limit": 20 }));
        assert_eq!(begun.status, 202, "he only waits: {}", begun.body);
        server.mock_api.script().update(|script| script.tweets.faults.clear());
        let done = finished(server, begun.body["task_id"].as_str().unwrap());
        assert_eq!((&done["status"], &done["result"]["new_tweets"]), (&json!("completed"), &json!(20)), "{done}");
        assert_eq!(server.place.sql("SELECT count(*), count(DISTINCT tweet_id) FROM tweets")[0].split('|').count(), 2);
    });
}

// covers: TWEET-146
#[test]
fn log_level_of_the_environment_is_heeded() {
    let place = Workspace::sqlite();
    let warns = |variables: &[(&str, &str)]| {
        let output = place.patra().arg("collect").env("TWITTER_API_KEY", "k").envs(variables.iter().copied()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).contains("scheduled scraping of tweets is off")
    };
    assert!(warns(&[("LOG_LEVEL", "WARNING")]) && !warns(&[("LOG_LEVEL", "error")]));
    assert!(warns(&[("LOG_LEVEL", "error"), ("RUST_LOG", "warn")]), "RUST_LOG is more exact, and wins");
    let wrong = place.patra().arg("collect").env("LOG_LEVEL", "loud").output().unwrap();
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("LOG_LEVEL is \"loud\""));
}

// covers: TWEET-113, TWEET-114
#[test]
fn invalid_schedule_is_refused() {
    let place = Workspace::sqlite();
    for (settings, reason) in [
        (vec![("SCRAPER_INTERVAL", "59")], "SCRAPER_INTERVAL is \"59\": expected a number from 60"),
        (vec![("SCRAPER_CRON", "often")], "expected 5 fields"),
        (vec![("SCRAPER_CRON", "CRON_TZ=Mars/Base 0 6 * * *")], "there is no zone \"Mars/Base\""),
        (vec![("SCRAPER_CRON", "0 6 * * *"), ("SCRAPER_INTERVAL", "3600")], "both set"),
        (vec![("SCRAPER_ENABLED", "maybe")], "SCRAPER_ENABLED is \"maybe\": expected true"),
        (vec![("TWITTER_API", "myspace")], "TWITTER_API is \"myspace\": expected twitterapi_io or x"),
        (vec![("TWITTER_BASE_URL", "notaurl")], "TWITTER_BASE_URL is \"notaurl\": expected an address"),
    ] {
        let output = place.patra().args(["collect"]).envs(settings).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(78) && said.contains(reason), "{said}");
    }
}

// covers: TWEET-115
#[test]
fn disabled_scraping_is_explained_at_the_start() {
    for (settings, reason) in [
        (vec![("SCRAPER_USERNAMES", "alice")], Some("no API key for TwitterAPI.io is configured")),
        (vec![("TWITTER_API_KEY", "k"), ("SCRAPER_ENABLED", "no")], Some("switched off by SCRAPER_ENABLED")),
        (vec![("TWITTER_API_KEY", "k")], Some("nobody is followed")),
        // By cron, so that nothing is due now.
        (vec![("TWITTER_API_KEY", "k"), ("SCRAPER_USERNAMES", "alice"), ("SCRAPER_CRON", "0 0 1 1 *")], None),
        (vec![], None),
    ] {
        let place = Workspace::sqlite();
        let output = place.patra().arg("collect").env("RUST_LOG", "warn").envs(settings.clone()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let warning = said.lines().find(|line| line.contains("scheduled scraping of tweets is off"));
        assert_eq!(warning.is_some(), reason.is_some(), "{settings:?}: {said}");
        assert!(reason.is_none_or(|reason| warning.unwrap().contains(reason)), "{settings:?}: {said}");
    }
}

// covers: TWEET-73, TWEET-117, TWEET-96, TWEET-157
on_both!(scrape_of_a_dead_process_is_ended_by_the_next);
async fn scrape_of_a_dead_process_is_ended_by_the_next(on: On) {
    let slow = |user| TweetFault::new(user, TweetFaultKind::Late(1_000), 0);
    let tweets = TweetProvider { faults: vec![slow("carol"), slow("dave")], ..TweetProvider::default() };
    for place in on.places() {
        let mock_api = provider(tweets.clone());
        let mut settings = variables(&mock_api);
        settings.push(("PATRA_LEASE_SECS".to_owned(), "3".to_owned()));
        let settings: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut server = TestServer::open(place, mock_api, &settings);
        let task = start(&server, &json!({ "usernames": "carol,dave,erin", "limit": 40 })).body["task_id"].clone();
        let task = task.as_str().unwrap();
        server.wait("requests", || server.mock_api.stats().data_requests > 1);
        server.restart();
        let done = finished(&server, task);
        assert_eq!((&done["status"], &done["result"]["new_tweets"]), (&json!("completed"), &json!(120)), "{done}");
        assert_eq!(server.place.sql("SELECT count(*), count(DISTINCT tweet_id) FROM tweets"), ["120|120"]);
    }
}

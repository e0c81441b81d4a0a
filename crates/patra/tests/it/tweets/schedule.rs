//! Scheduled scraping: by cron, by an interval, and across the death of the process.

use patra_upstream::{TweetFault, TweetFaultKind, TweetProvider};
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

//! Users who are followed: by the clock, by an interval, and over the death of the process.

use patra_upstream::{TweetFault, TweetFaultKind, TweetProvider};
use serde_json::{Value, json};

use super::{everywhere, finished, provider, start, variables};
use crate::crawler::desk::Desk;
use crate::support::{On, Place};

/// Makes the clock ask now: what it has seen to lies far back.
fn ring(desk: &Desk, seen_to: &str) {
    desk.wait("it has looked at the clock", || {
        !desk.place.sql("SELECT 1 FROM config WHERE config_key = 'scraper.cron_seen_to'").is_empty()
    });
    desk.place.sql(&format!("UPDATE config SET config_value = '{seen_to}' WHERE config_key = 'scraper.cron_seen_to'"));
}

fn scrapes(desk: &Desk) -> Vec<Value> {
    let jobs = desk.call("GET", "/api/v1/jobs?job_type=tweet_scrape", None, None).body;
    jobs["data"]["items"].as_array().unwrap().clone()
}

// covers: TWEET-16, TWEET-17, TWEET-67, TWEET-68, TWEET-113, TWEET-116, TWEET-161, TWEET-07
on_both!(all_are_scraped_by_the_clock_as_one_job_and_never_twice_at_once);
async fn all_are_scraped_by_the_clock_as_one_job_and_never_twice_at_once(on: On) {
    let slow = |user| TweetFault::new(user, TweetFaultKind::Late(60_000), 0);
    let tweets = TweetProvider { faults: vec![slow("alice"), slow("bob")], ..TweetProvider::default() };
    let settings = [("SCRAPER_CRON", "0 * * * *"), ("SCRAPER_USERNAMES", "alice,bob"), ("COLLECTOR_TICK", "1")];
    everywhere(on, &tweets, &settings, |desk| {
        ring(desk, "2026-01-01T00:00:00Z");
        desk.wait("a job", || !scrapes(desk).is_empty());
        let task = scrapes(desk)[0]["public_id"].as_str().unwrap().to_owned();
        assert_eq!(scrapes(desk)[0]["trigger_type_code"], "SCHEDULE");
        // The clock asks again while it runs.
        ring(desk, "2026-01-02T00:00:00Z");
        desk.wait("a warning that names it", || {
            desk.log().lines().any(|line| line.contains("is still running") && line.contains(&task))
        });
        let running = desk.call("GET", "/api/admin/scrape?status=running", None, None).body;
        assert_eq!(running[0]["task_id"], json!(task), "{running}");
        desk.far.script().update(|script| script.tweets.faults.clear());
        let done = finished(desk, &task);
        assert_eq!(done["result"]["successful_users"], 2, "{done}");
        assert_eq!(scrapes(desk).len(), 1, "the second one was skipped");
        desk.wait("the report", || desk.log().contains("a scrape has ended"));
        let log = desk.log();
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
fn a_schedule_that_makes_no_sense_is_refused() {
    let place = Place::sqlite();
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
fn why_nobody_is_collected_is_said_at_the_start() {
    for (settings, reason) in [
        (vec![("SCRAPER_USERNAMES", "alice")], Some("no API key for TwitterAPI.io is configured")),
        (vec![("TWITTER_API_KEY", "k"), ("SCRAPER_ENABLED", "no")], Some("switched off by SCRAPER_ENABLED")),
        (vec![("TWITTER_API_KEY", "k")], Some("nobody is followed")),
        // By the clock, so that nobody is asked for now.
        (vec![("TWITTER_API_KEY", "k"), ("SCRAPER_USERNAMES", "alice"), ("SCRAPER_CRON", "0 0 1 1 *")], None),
        (vec![], None),
    ] {
        let place = Place::sqlite();
        let output = place.patra().arg("collect").env("RUST_LOG", "warn").envs(settings.clone()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = said.lines().find(|line| line.contains("scheduled scraping of tweets is off"));
        assert_eq!(told.is_some(), reason.is_some(), "{settings:?}: {said}");
        assert!(reason.is_none_or(|reason| told.unwrap().contains(reason)), "{settings:?}: {said}");
    }
}

// covers: TWEET-73, TWEET-117, TWEET-96, TWEET-157
on_both!(a_scrape_whose_process_dies_is_ended_by_the_next);
async fn a_scrape_whose_process_dies_is_ended_by_the_next(on: On) {
    let slow = |user| TweetFault::new(user, TweetFaultKind::Late(1_000), 0);
    let tweets = TweetProvider { faults: vec![slow("carol"), slow("dave")], ..TweetProvider::default() };
    for place in on.places() {
        let far = provider(tweets.clone());
        let mut settings = variables(&far);
        settings.push(("PATRA_LEASE_SECS".to_owned(), "3".to_owned()));
        let settings: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut desk = Desk::open(place, far, &settings);
        let task = start(&desk, &json!({ "usernames": "carol,dave,erin", "limit": 40 })).body["task_id"].clone();
        let task = task.as_str().unwrap();
        desk.wait("requests", || desk.far.stats().data_requests > 1);
        desk.restart();
        let done = finished(&desk, task);
        assert_eq!((&done["status"], &done["result"]["new_tweets"]), (&json!("completed"), &json!(120)), "{done}");
        assert_eq!(desk.place.sql("SELECT count(*), count(DISTINCT tweet_id) FROM tweets"), ["120|120"]);
    }
}

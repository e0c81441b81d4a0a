//! The collector, through the program itself: its acceptance criteria and its faults.

#![expect(clippy::disallowed_methods, reason = "threads of their own, alongside the real program")]

mod alerts;
mod commands;
mod content;
mod faults;
mod feed_cases;
mod feed_server;
mod heavy;
mod killed;
mod networks;
mod robots;
mod rules;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{On, Workspace, http, psql};
use feed_server::FeedServer;

/// Both stores, each with an upstream of its own.
fn everywhere(on: On, test: impl Fn(&Workspace, &FeedServer)) {
    for place in on.places() {
        test(&place, &FeedServer::start());
    }
}

fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn add(place: &Workspace, r#type: &str, url: &str) -> i64 {
    let added: Value = serde_json::from_str(&ok(&place.run(&["source", "add", r#type, url, "-o", "ndjson"]))).unwrap();
    added["id"].as_i64().unwrap()
}

/// Sources imported from another program: type, address, hours since the last fetch.
fn import(place: &Workspace, sources: &[(&str, &str, f64)]) {
    let now = crate::support::now_micros() as i64;
    let lines = sources.iter().map(|(kind, url, hours)| {
        let at = patra_core::Ts::from_micros(now - (hours * 3_600e6) as i64);
        json!({ "type": kind, "config": { "url": url }, "last_fetched_at": at }).to_string()
    });
    let file = place.file("sources.ndjson", &lines.collect::<Vec<_>>().join("\n"));
    ok(&place.run(&["source", "import", &file]));
}

fn list(place: &Workspace) -> Vec<Value> {
    let text = ok(&place.run(&["source", "list", "-o", "ndjson"]));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn one(place: &Workspace, id: i64) -> (Option<i32>, Value) {
    let output = place.run(&["collect", "--source", &id.to_string()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), serde_json::from_str(text.trim()).unwrap_or_default())
}

/// The built-in manifest with its fixed addresses replaced by the upstream.
fn point_to(place: &Workspace, feeds: &FeedServer) {
    let manifest = include_str!("../../../../sources/collector.yaml");
    let there = manifest
        .replace("https://hn.algolia.com/api/v1", &feeds.url(50, "/hits"))
        .replace("path: \"/${ params.search }\"", "path: \"\"");
    place.apply(&there);
}

pub(crate) struct Running {
    child: Child,
    log: std::path::PathBuf,
}

impl Running {
    pub(crate) fn start(place: &Workspace, args: &[&str], variables: &[(&str, &str)]) -> Running {
        let log = place.folder.path().join(format!("log-{}", crate::support::now_micros()));
        let mut command = place.patra();
        command.args(args).envs(variables.iter().copied()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(&log).unwrap());
        Running { child: command.spawn().unwrap(), log }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn wait_for(&self, text: &str) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let log = self.log();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < end, "no {text:?} in {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    fn end(mut self) -> (Option<i32>, String) {
        (self.child.wait().unwrap().code(), self.log())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// covers: COLL-AC-01, COLL-AC-12, COLL-24, COLL-36, COLL-41, COLL-42, COLL-57, COLL-59, COLL-FR-5, COLL-US-4
on_both!(fn loop_collects_new_sources_at_once_and_stops_on_a_signal);
fn loop_collects_new_sources_at_once_and_stops_on_a_signal(on: On) {
    everywhere(on, |place, feeds| {
        add(place, "rss", &feeds.url(1, "/slow/1/700"));
        let running = Running::start(place, &["collector", "--loop"], &[]);
        feeds.wait_for(1);
        // The fetch is in progress: the signal lets it finish.
        running.terminate();
        let (code, log) = running.end();
        assert_eq!(code, Some(0), "{log}");
        for text in
            ["tick_seconds=60", "\"rss\": 240", "1 source(s) due", "SIGTERM received", "collected", "inserted=2"]
        {
            assert!(log.contains(text), "{text} in {log}");
        }
        assert_eq!(list(place)[0]["status"], "ok");
    });
}

// covers: COLL-AC-02, COLL-AC-03, COLL-AC-04, COLL-AC-05, COLL-25, COLL-46, COLL-88, COLL-FR-2, COLL-FR-3, COLL-62, COLL-GOAL-1, COLL-US-1
on_both!(fn each_type_is_due_after_its_own_interval);
fn each_type_is_due_after_its_own_interval(on: On) {
    everywhere(on, |place, feeds| {
        point_to(place, feeds);
        import(place, &[("rss", &feeds.url(1, "/feed/3h"), 3.0), ("rss", &feeds.url(2, "/feed/5h"), 5.0)]);
        let now = crate::support::now_micros() as i64;
        let at = |minutes: i64| patra_core::Ts::from_micros(now - minutes * 60_000_000);
        let rows = [
            json!({ "type": "hackernews", "config": { "filter": "ask" }, "last_fetched_at": at(50) }),
            json!({ "type": "hackernews", "config": { "filter": "show" }, "last_fetched_at": at(70) }),
        ];
        let file = place.file("more.json", &json!(rows).to_string());
        ok(&place.run(&["source", "import", &file]));
        ok(&place.run(&["collect"]));
        let mut paths = feeds.paths();
        paths.sort();
        assert_eq!(paths.len(), 2, "{paths:?}");
        assert_eq!(paths[0], "/feed/5h");
        assert!(paths[1].starts_with("/hits/?") && paths[1].contains("tags=show_hn"), "{paths:?}");
        // Nothing is due any more.
        assert!(ok(&place.run(&["collect"])).contains("no source is due"));
        assert_eq!(feeds.hits().len(), 2);
    });
}

// covers: COLL-AC-06, COLL-19, COLL-20, COLL-21, COLL-FR-1
on_both!(fn the_environment_the_table_and_the_source_change_the_interval);
fn the_environment_the_table_and_the_source_change_the_interval(on: On) {
    everywhere(on, |place, feeds| {
        import(place, &[("rss", &feeds.url(1, "/feed/a"), 1.5)]);
        let minutes = || (list(place)[0]["interval_minutes"].clone(), list(place)[0]["interval_from"].clone());
        ok(&place.run(&["collect"]));
        assert_eq!(feeds.hits().len(), 0);
        ok(&place.patra().env("FETCH_INTERVAL_RSS", "60").arg("collect").output().unwrap());
        assert_eq!(feeds.hits().len(), 1);
        assert_eq!(minutes(), (json!(60), json!("environment")));
        ok(&place.run(&["source", "interval", "rss", "30"]));
        ok(&place.patra().env("FETCH_INTERVAL_RSS", "60").arg("collect").output().unwrap());
        assert_eq!(minutes(), (json!(30), json!("config")));
        ok(&place.run(&["source", "add", "rss", &feeds.url(2, "/feed/own"), "--interval", "7"]));
        assert_eq!(list(place)[1]["interval_minutes"], 7);
        assert_eq!(list(place)[1]["interval_from"], "source");
    });
}

// covers: COLL-AC-07, COLL-AC-13, COLL-AC-14, COLL-AC-15, COLL-53, COLL-64, COLL-70, COLL-FR-4, COLL-US-2, COLL-US-3
on_both!(fn a_source_that_is_created_over_http_is_collected_and_shown);
fn a_source_that_is_created_over_http_is_collected_and_shown(on: On) {
    everywhere(on, |place, feeds| {
        let running = Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &[]);
        let log = running.wait_for("the API listens");
        let log = if log.contains("patra_") { log } else { running.wait_for("patra_") };
        let key = log.split_whitespace().find(|word| word.starts_with("patra_")).unwrap().to_owned();
        let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        let url = |path: &str| format!("http://{address}{path}");
        let get = |path: &str| http(&url(path), Some(&key), None);
        let (status, refused) = http(&url("/api/collector/status"), None, None);
        assert_eq!(status, 401);
        assert_eq!(refused["error"]["code"], "UNAUTHORIZED");
        assert!(refused["meta"]["request_id"].is_string() && refused.get("status").is_none(), "{refused}");

        let body = json!({ "name": "Example blog", "type": "rss", "config": { "url": feeds.url(1, "/feed/a") } });
        let (status, source) = http(&url("/api/sources"), Some(&key), Some(&body.to_string()));
        assert_eq!(status, 201, "{source}");
        let id = source["id"].as_i64().unwrap();
        assert_eq!((&source["is_active"], &source["next_fetch_at"]), (&json!(true), &Value::Null));
        let (status, again) = http(&url("/api/sources"), Some(&key), Some(&body.to_string()));
        assert_eq!((status, &again["error"]["details"]["source_id"]), (409, &json!(id)));
        running.wait_for("fetched=2");

        let (status, shown) = get("/api/collector/status");
        assert_eq!(status, 200);
        let of = &shown["sources"][0];
        assert_eq!((&of["status"], &of["fetch_count"], &of["last_error"]), (&json!("ok"), &json!(1), &Value::Null));
        let time = |value: &Value| value.as_str().unwrap().parse::<patra_core::Ts>().unwrap();
        assert_eq!(time(&of["next_fetch_at"]).since(time(&of["last_fetched_at"])), Duration::from_secs(240 * 60));
        assert!(of["last_fetched_at"].as_str().unwrap().len() == "2026-02-25T10:30:00.000Z".len());
        let stats = &shown["stats"];
        for (name, value) in [("total_sources", 1), ("active_sources", 1), ("paused_sources", 0), ("errors_24h", 0)] {
            assert_eq!(stats[name], value, "{name}");
        }
        assert_eq!(
            (&stats["fetches_24h"], &stats["items_24h"], &stats["raw_items_24h"]),
            (&json!(1), &json!(2), &json!(2))
        );
        assert_eq!((&stats["success_rate_24h"], &shown["collector"]["alive"]), (&json!(1.0), &json!(true)));

        let (_, items) = get(&format!("/api/raw-items?source_id={id}&limit=1"));
        assert_eq!(items.as_array().unwrap().len(), 1);
        let (_, items) = get("/api/raw-items/for-digest");
        let item = items.as_array().unwrap().iter().find(|item| item["title"] == "Entry 1 of /feed/a").unwrap();
        assert_eq!(item["author"], "A. Writer");
        assert_eq!(item["content"], "<p>Text 1</p>", "scripts are gone");
        assert_eq!(item["published_at"], "2026-11-16T01:00:00.000Z");
        assert_eq!(item["dedup_key"], format!("{id}:/feed/a-1"));
        assert_eq!((&item["source_name"], &item["source_type"]), (&json!("Example blog"), &json!("rss")));
        let (_, stats) = get("/api/raw-items/stats");
        assert_eq!((&stats[0]["total_items"], &stats[0]["items_24h"]), (&json!(2), &json!(2)));

        let (status, asked) = http(&url(&format!("/api/sources/{id}/collect")), Some(&key), Some("{}"));
        assert_eq!(status, 202, "{asked}");
        assert!(asked["task_id"].is_i64());
        feeds.wait_for(2);
        assert_eq!(feeds.hits()[1].headers.get("if-none-match").map(String::as_str), Some("\"v1\""));
        let (_, paused) = http(&url(&format!("/api/sources/{id}/pause")), Some(&key), Some("{}"));
        assert_eq!((&paused["is_active"], &paused["paused_reason"]), (&json!(false), &json!("user")));
        assert_eq!(get("/api/collector/status").1["stats"]["paused_by_error"], 0);
        let (_, resumed) = http(&url(&format!("/api/sources/{id}/resume")), Some(&key), Some("{}"));
        assert_eq!(resumed["is_active"], true);
        for (path, wanted) in [("/api/sources/99", 404), ("/api/sources/x", 400), ("/api/raw-items?limit=x", 400)] {
            let (status, answer) = get(path);
            assert_eq!(status, wanted, "{path} {answer}");
            assert!(answer["error"]["message"].is_string());
        }
        running.terminate();
        assert_eq!(running.end().0, Some(0));
    });
}

// covers: COLL-AC-08, COLL-29, COLL-30, COLL-31, COLL-93, COLL-RISK-1
on_both!(fn type_without_a_fetcher_is_skipped);
fn type_without_a_fetcher_is_skipped(on: On) {
    everywhere(on, |place, feeds| {
        let bookmarks = {
            let added = ok(&place.run(&["source", "add", "twitter_bookmarks", "-o", "ndjson"]));
            serde_json::from_str::<Value>(&added).unwrap()["id"].as_i64().unwrap()
        };
        ok(&place.run(&["source", "add", "twitter_feed", "--config", "{\"username\": \"x\"}"]));
        add(place, "rss", &feeds.url(1, "/feed/a"));
        let (code, result) = one(place, bookmarks);
        assert_eq!((code, &result["status"]), (Some(0), &json!("skipped")));
        assert!(result["reason"].as_str().unwrap().contains("TWITTER_API_KEY"), "{result}");
        assert!(ok(&place.run(&["collect"])).starts_with("1 source collected"));
        let rows = list(place);
        assert_eq!((&rows[0]["status"], &rows[0]["fetch_error_count"]), (&json!("unsupported"), &json!(0)));
        assert_eq!(rows[2]["status"], "ok");
    });
}

// covers: COLL-AC-09, COLL-39, COLL-RISK-3
on_both!(fn concurrency_limit_of_the_collector_is_respected);
fn concurrency_limit_of_the_collector_is_respected(on: On) {
    everywhere(on, |place, feeds| {
        for host in 1..=10 {
            add(place, "rss", &feeds.url(host, "/slow/x/1500"));
        }
        ok(&place.patra().env("COLLECTOR_CONCURRENCY", "3").arg("collect").output().unwrap());
        assert_eq!(feeds.hits().len(), 10);
        assert_eq!(feeds.most().0, 3);
    });
}

// covers: COLL-AC-10, COLL-AC-11, COLL-112, COLL-113, COLL-50, COLL-51, COLL-111, COLL-AC-17, COLL-45
on_both!(fn failures_are_shown_with_the_source_and_the_fifth_pauses_it);
fn failures_are_shown_with_the_source_and_the_fifth_pauses_it(on: On) {
    everywhere(on, |place, feeds| {
        let (bad, good) = (add(place, "rss", &feeds.url(1, "/error/a")), add(place, "rss", &feeds.url(2, "/feed/b")));
        let output = place.run(&["collect"]);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(list(place)[1]["status"], "ok", "the other is not affected");
        for count in 2..=5 {
            let (code, result) = one(place, bad);
            assert_eq!(code, Some(1));
            assert_eq!((&result["status"], &result["fetch_error_count"]), (&json!("error"), &json!(count)));
            assert_eq!(result["paused"], count == 5);
            assert_eq!(result["error"]["level"], "L1");
        }
        let row = &list(place)[0];
        assert_eq!((&row["is_active"], &row["paused_reason"]), (&json!(false), &json!("error")));
        assert!(row["next_attempt_at"].is_string(), "it is probed again by itself");
        assert_eq!(one(place, good).1["status"], "ok");
        assert_eq!(one(place, 99).0, Some(2));
        ok(&place.run(&["source", "resume", &bad.to_string()]));
        assert_eq!((&list(place)[0]["is_active"], &list(place)[0]["fetch_error_count"]), (&json!(true), &json!(0)));
    });
}

// covers: COLL-60, COLL-61, COLL-GOAL-4
on_both!(fn slow_fetch_is_cancelled_and_due_again);
fn slow_fetch_is_cancelled_and_due_again(on: On) {
    everywhere(on, |place, feeds| {
        add(place, "rss", &feeds.url(1, "/slow/1/6000"));
        let running = Running::start(place, &["collect", "--loop"], &[("SHUTDOWN_TIMEOUT_SECONDS", "1")]);
        feeds.wait_for(1);
        running.terminate();
        let (code, log) = running.end();
        assert_eq!(code, Some(1), "{log}");
        assert_eq!(list(place)[0]["fetch_error_count"], 0);
        feeds.forget();
        // On PostgreSQL the lease of the killed process must expire first; there only the row is checked.
        if place.database_url().is_none() {
            ok(&place.run(&["collect", "--source", "1"]));
            assert_eq!(list(place)[0]["status"], "ok");
        }
    });
}

// covers: COLL-119, COLL-121, COLL-123, COLL-49, COLL-56
on_both!(fn unchanged_moved_and_gone_feeds_are_recorded);
fn unchanged_moved_and_gone_feeds_are_recorded(on: On) {
    everywhere(on, |place, feeds| {
        let bare = add(place, "rss", &feeds.url(1, "/bare/a"));
        assert_eq!(one(place, bare).1["inserted"], 2);
        let (_, again) = one(place, bare);
        assert_eq!((&again["status"], &again["fetched"], &again["inserted"]), (&json!("ok"), &json!(0), &json!(0)));
        let (moved, found) = (add(place, "rss", &feeds.url(2, "/moved")), add(place, "rss", &feeds.url(3, "/found")));
        assert_eq!((one(place, moved).0, one(place, found).0), (Some(0), Some(0)));
        let rows = list(place);
        assert_eq!(rows[1]["config"]["url"], feeds.url(2, "/feed/moved"));
        assert_eq!(rows[2]["config"]["url"], feeds.url(3, "/found"), "for now is not for good");
        let gone = add(place, "rss", &feeds.url(4, "/gone"));
        assert_eq!(one(place, gone).1["paused"], true);
        assert_eq!(list(place)[3]["paused_reason"], "gone");
    });
}

// covers: COLL-120
on_both!(fn requests_to_a_host_are_spaced_and_respect_retry_after);
fn requests_to_a_host_are_spaced_and_respect_retry_after(on: On) {
    everywhere(on, |place, feeds| {
        for feed in ["a", "b", "c"] {
            add(place, "rss", &feeds.url(1, &format!("/feed/{feed}")));
        }
        ok(&place.run(&["collect"]));
        let hits = feeds.hits();
        assert!(hits.iter().all(|hit| hit.host == hits[0].host));
        for pair in hits.windows(2) {
            // The upstream sees a request a moment after it was sent.
            assert!(pair[1].at - pair[0].at > Duration::from_millis(800), "{hits:?}");
        }
        assert!(feeds.most().1 <= 2);
        let busy = add(place, "rss", &feeds.url(2, "/busy"));
        let running = Running::start(place, &["collect", "--loop"], &[]);
        running.wait_for("put off");
        drop(running);
        let row = &list(place)[3];
        assert_eq!((&row["id"], &row["fetch_error_count"]), (&json!(busy), &json!(0)));
        assert_eq!(feeds.paths().iter().filter(|path| *path == "/busy").count(), 1);
    });
}

// covers: COLL-92, COLL-86, COLL-118
on_both!(fn pages_listings_and_own_mappings_are_collected_too);
fn pages_listings_and_own_mappings_are_collected_too(on: On) {
    everywhere(on, |place, feeds| {
        point_to(place, feeds);
        let site = add(place, "website", &feeds.url(1, "/page"));
        assert_eq!(one(place, site).1["inserted"], 2, "the feed that the page names");
        one(place, site);
        assert_eq!(feeds.paths(), ["/page", "/feed/site", "/feed/site"], "later polls begin there");
        let plain = add(place, "website", &feeds.url(2, "/plain"));
        assert_eq!(one(place, plain).1["inserted"], 1, "the page itself");
        ok(&place.run(&["source", "add", "hackernews", "--config", "{\"min_score\": 5}"]));
        let (_, stories) = one(place, 3);
        assert_eq!((&stories["status"], &stories["inserted"]), (&json!("ok"), &json!(1)), "{stories}");
        let own = json!({
            "url": feeds.url(3, "/json"), "items_path": "$.data", "id_path": "$.n", "updated_at_path": "$.at",
            "fields": { "title": "$.t" },
        });
        ok(&place.run(&["source", "add", "custom_api", "--config", &own.to_string()]));
        assert_eq!(one(place, 4).1["inserted"], 2);
        let wrong = place.run(&["source", "add", "custom_api", "--config", "{\"url\": \"https://x.test\"}"]);
        assert_eq!(wrong.status.code(), Some(64));
        assert!(String::from_utf8_lossy(&wrong.stderr).contains("items_path"));
    });
}

// covers: COLL-48, COLL-94, COLL-125, COLL-127
on_both!(fn bad_responses_affect_only_their_own_source);
fn bad_responses_affect_only_their_own_source(on: On) {
    everywhere(on, |place, feeds| {
        let bad = [
            ("website", "/divs", "nested deeper"),
            ("rss", "/entities", "entities"),
            ("rss", "/deep", "JSON"),
            ("rss", "/endless", "larger than"),
            ("rss", "/gzip", "grows to more than"),
            ("rss", "/loop", "redirects"),
            ("rss", "/private", "public addresses"),
            ("rss", "/page", "HTML page, not a feed"),
            ("rss", "/json", "no JSON Feed"),
            ("rss", "/nothing", "404"),
        ];
        // Made before anybody waits for it.
        assert!(!feed_server::GZIP_BOMB.is_empty());
        let mut hosts = 1..;
        for (kind, path, _) in bad {
            add(place, kind, &feeds.url(hosts.next().unwrap(), path));
        }
        add(place, "rss", "http://192.168.255.254/feed");
        let good = add(place, "rss", &feeds.url(hosts.next().unwrap(), "/feed/good"));
        let output = place.patra().env("COLLECTOR_CONCURRENCY", "16").arg("collect").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let rows = list(place);
        for (row, (_, path, why)) in rows.iter().zip(bad) {
            assert_eq!(row["status"], "error", "{path}");
            let error = row["last_error"].as_str().unwrap();
            assert!(error.contains(why), "{path}: {error}");
        }
        assert!(rows[bad.len()]["last_error"].as_str().unwrap().contains("public addresses"));
        assert_eq!((&rows[bad.len() + 1]["id"], &rows[bad.len() + 1]["status"]), (&json!(good), &json!("ok")));
    });
}

// covers: COLL-126, COLL-108, COLL-114
on_both!(fn feed_lists_are_imported_and_exported);
fn feed_lists_are_imported_and_exported(on: On) {
    everywhere(on, |place, feeds| {
        let opml = format!(
            "<opml version=\"1.0\"><body><outline text=\"News\"><outline text=\"A &amp; B\" xmlUrl=\"{}\"/>\
             <outline text=\"bad\" xmlUrl=\"ftp://x\"/></outline></body></opml>",
            feeds.url(1, "/feed/a")
        );
        let file = place.file("list.opml", &opml);
        let output = place.run(&["source", "import", &file]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 source added, 0 existed already, 1 unusable"));
        assert!(String::from_utf8_lossy(&output.stderr).contains("entry 2"));
        let text = ok(&place.run(&["source", "export", "--format", "opml"]));
        assert!(text.contains("A &amp; B") && text.contains(&feeds.url(1, "/feed/a")), "{text}");
        let rows = ok(&place.run(&["source", "export"]));
        let file = place.file("rows.ndjson", &rows);
        assert!(ok(&place.run(&["source", "import", &file])).contains("0 sources added, 1 existed already"));
        ok(&place.run(&["source", "remove", "1"]));
        assert_eq!(list(place).len(), 0);
        assert!(ok(&place.run(&["source", "import", &file])).contains("1 source added"));
    });
}

// covers: COLL-38, COLL-40, COLL-GOAL-4
on_both!(fn slow_source_blocks_no_other_and_an_idle_tick_logs_nothing);
fn slow_source_blocks_no_other_and_an_idle_tick_logs_nothing(on: On) {
    everywhere(on, |place, feeds| {
        import(place, &[("rss", &feeds.url(1, "/feed/later"), 1.0)]);
        let running = Running::start(place, &["collect", "--loop"], &[("COLLECTOR_TICK", "1")]);
        running.wait_for("the collector has started");
        std::thread::sleep(Duration::from_millis(2_500));
        assert!(!running.log().contains("source(s) due"), "{}", running.log());
        running.terminate();
        running.end();
        add(place, "rss", &feeds.url(2, "/held/x"));
        for host in 3..6 {
            add(place, "rss", &feeds.url(host, "/feed/quick"));
        }
        let running = Running::start(place, &["collect", "--loop"], &[("COLLECTOR_CONCURRENCY", "2")]);
        let log = running.wait_for("name=\"http://127.0.0.5");
        assert!(!log.contains("/held/x\" type"), "{log}");
        feeds.release();
        running.wait_for("/held/x\" type");
        running.terminate();
        assert_eq!(running.end().0, Some(0));
    });
}

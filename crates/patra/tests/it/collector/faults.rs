//! Errors of users and upstreams: refused with a reason or shown with the source, and blocking nobody else.

use super::*;

fn refused(place: &Workspace, args: &[&str], why: &str) {
    let output = place.run(args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{args:?}: {text}");
    assert!(text.contains(why), "{args:?}: {text}");
}

// covers: COLL-85, COLL-86, COLL-45
on_both!(fn source_that_can_never_be_polled_is_refused);
fn source_that_can_never_be_polled_is_refused(on: On) {
    everywhere(on, |place, feeds| {
        for (kind, config, why) in [
            ("reddit", r#"{"subreddit": "a b"}"#, "subreddit"),
            ("reddit", r#"{"subreddit": "rust", "sort": "luck"}"#, "sort"),
            ("hackernews", r#"{"min_score": -5}"#, "min_score"),
            ("github_trending", r#"{"since": "yearly"}"#, "since"),
            ("custom_api", r#"{"provenance": "nobody", "endpoint": "x"}"#, "no manifest is applied for `nobody`"),
        ] {
            refused(place, &["source", "add", kind, "--config", config], why);
        }
        refused(place, &["source", "interval", "r s s", "5"], "`type`");
        refused(place, &["source", "interval", "foo", "5"], "Known types: rss, digest_feed");
        refused(place, &["source", "add", "foo", "https://x.test/"], "there is no source type `foo`");
        refused(place, &["source", "add", "rss"], "add it: `patra source add rss URL`");
        refused(place, &["source", "interval", "", "5"], "`type`");
        assert_eq!(list(place).len(), 0);
        // One source, in any spelling of its address.
        let id = add(place, "rss", &feeds.url(1, "/feed/a"));
        let again = place.run(&["source", "add", "RSS", &format!("{}#part", feeds.url(1, "/feed/a")), "-o", "ndjson"]);
        assert_eq!(again.status.code(), Some(1));
        assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap()["id"], id);
        let unknown = place.run(&["source", "fetch", "99"]);
        assert_eq!(unknown.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&unknown.stderr).contains("NOT_FOUND"));
    });
}

// covers: COLL-50, COLL-51
on_both!(fn source_that_can_no_longer_be_polled_fails_with_a_reason);
fn source_that_can_no_longer_be_polled_fails_with_a_reason(on: On) {
    everywhere(on, |place, feeds| {
        let manifest = |name: &str| {
            format!(
                "provenance: shop\nallow_http: true\nendpoints:\n  {name}:\n    polled: true\n    kind: article\n    \
                 http: {{ base_url: \"{}\" }}\n    response: {{ items_path: $.data, id_path: $.n, updated_at_path: $.at }}\n",
                feeds.url(1, "/json")
            )
        };
        place.apply(&manifest("news"));
        let config = json!({ "provenance": "shop", "endpoint": "news" }).to_string();
        ok(&place.run(&["source", "add", "custom_api", "--config", &config]));
        add(place, "rss", &feeds.url(2, "/feed/a"));
        place.apply(&manifest("olds"));
        let output = place.run(&["collect", "-o", "json"]);
        assert_eq!(output.status.code(), Some(1));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["failed"], &report["inserted"]), (&json!(1), &json!(2)), "{report}");
        assert!(report["sources"][0]["error"]["message"].as_str().unwrap().contains("news"), "{report}");
        let row = &list(place)[0];
        assert_eq!((&row["status"], &row["fetch_error_count"]), (&json!("error"), &json!(1)));
        assert!(row["last_error"].as_str().unwrap().contains("news"), "{row}");
        // It waits like other failed sources.
        assert!(ok(&place.run(&["collect"])).contains("no source is due"));
        for _ in 2..=5 {
            let now = if place.database_url().is_some() { "now()" } else { "1" };
            place.sql(&format!("UPDATE source SET next_due_at = {now} WHERE id = 1"));
            place.run(&["collect"]);
        }
        assert_eq!(list(place)[0]["paused_reason"], "error");
        // When the endpoint exists again, a person resumes the source.
        place.apply(&manifest("news"));
        ok(&place.run(&["source", "resume", "1"]));
        ok(&place.run(&["collect"]));
        assert_eq!(list(place)[0]["status"], "ok");
    });
}

// covers: COLL-120, COLL-111
on_both!(fn retry_after_of_one_source_does_not_block_the_collector);
fn retry_after_of_one_source_does_not_block_the_collector(on: On) {
    everywhere(on, |place, feeds| {
        let busy = add(place, "rss", &feeds.url(1, "/busy"));
        add(place, "rss", &feeds.url(2, "/feed/a"));
        assert!(ok(&place.run(&["collect"])).contains("1 source collected: 2 new items, 0 failed, 1 put off"));
        let row = &list(place)[0];
        assert_eq!(
            (&row["id"], &row["status"], &row["fetch_error_count"]),
            (&json!(busy), &json!("pending"), &json!(0))
        );
        assert!(row["next_attempt_at"].is_string());
        assert!(ok(&place.run(&["collect"])).contains("0 sources collected: 0 new items, 0 failed, 1 put off"));
        assert_eq!(feeds.paths().iter().filter(|path| *path == "/busy").count(), 1);
        // Four 429 responses without a Retry-After are a failure, and the source waits.
        let hurried = add(place, "rss", &feeds.url(3, "/hurried"));
        let (code, result) = one(place, hurried);
        assert_eq!((code, &result["fetch_error_count"]), (Some(1), &json!(1)), "{result}");
        assert_eq!(feeds.paths().iter().filter(|path| *path == "/hurried").count(), 4);
    });
}

// covers: COLL-105
on_both!(fn status_is_available_while_all_slots_are_busy);
fn status_is_available_while_all_slots_are_busy(on: On) {
    everywhere(on, |place, feeds| {
        for host in 1..=9 {
            add(place, "rss", &feeds.url(host, "/held/x"));
        }
        let running = Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &[]);
        let log = running.wait_for("the API listens");
        let log = if log.contains("patra_") { log } else { running.wait_for("patra_") };
        let key = log.split_whitespace().find(|word| word.starts_with("patra_")).unwrap().to_owned();
        let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        feeds.wait_for(5);
        // The fetches cannot end before this response.
        let (code, status) = http(&format!("http://{address}/api/collector/status"), Some(&key), None);
        assert_eq!(code, 200);
        assert_eq!((&status["collector"]["running"], &status["collector"]["concurrency"]), (&json!(5), &json!(5)));
        assert_eq!(status["sources"].as_array().unwrap().len(), 9);
        assert_eq!(feeds.hits().len(), 5, "no more than may run at once");
        feeds.release();
        running.terminate();
        assert_eq!(running.end().0, Some(0));
    });
}

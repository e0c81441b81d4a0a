//! What people and upstreams do wrong: it is refused with a reason, or told with the source, and holds nobody up.

use super::*;

fn refused(place: &Place, args: &[&str], why: &str) {
    let output = place.run(args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{args:?}: {text}");
    assert!(text.contains(why), "{args:?}: {text}");
}

// covers: COLL-85, COLL-86, COLL-45
on_both!(fn what_could_never_be_polled_is_not_added);
fn what_could_never_be_polled_is_not_added(on: On) {
    everywhere(on, |place, far| {
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
        refused(place, &["source", "interval", "", "5"], "`type`");
        assert_eq!(list(place).len(), 0);
        // One source, however it is written.
        let id = add(place, "rss", &far.url(1, "/feed/a"));
        let again = place.run(&["source", "add", "RSS", &format!("{}#part", far.url(1, "/feed/a")), "-o", "ndjson"]);
        assert_eq!(again.status.code(), Some(1));
        assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap()["id"], id);
        let unknown = place.run(&["source", "fetch", "99"]);
        assert_eq!(unknown.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&unknown.stderr).contains("NOT_FOUND"));
    });
}

// covers: COLL-50, COLL-51
on_both!(fn what_can_be_polled_no_more_fails_and_says_why);
fn what_can_be_polled_no_more_fails_and_says_why(on: On) {
    everywhere(on, |place, far| {
        let manifest = |name: &str| {
            format!(
                "provenance: shop\nallow_http: true\nendpoints:\n  {name}:\n    polled: true\n    kind: article\n    \
                 http: {{ base_url: \"{}\" }}\n    response: {{ items_path: $.data, id_path: $.n, updated_at_path: $.at }}\n",
                far.url(1, "/json")
            )
        };
        place.apply(&manifest("news"));
        let config = json!({ "provenance": "shop", "endpoint": "news" }).to_string();
        ok(&place.run(&["source", "add", "custom_api", "--config", &config]));
        add(place, "rss", &far.url(2, "/feed/a"));
        place.apply(&manifest("olds"));
        let output = place.run(&["collect", "-o", "json"]);
        assert_eq!(output.status.code(), Some(1));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&told["failed"], &told["inserted"]), (&json!(1), &json!(2)), "{told}");
        assert!(told["sources"][0]["error"]["message"].as_str().unwrap().contains("news"), "{told}");
        let row = &list(place)[0];
        assert_eq!((&row["status"], &row["fetch_error_count"]), (&json!("error"), &json!(1)));
        assert!(row["last_error"].as_str().unwrap().contains("news"), "{row}");
        // It waits as others do that failed.
        assert!(ok(&place.run(&["collect"])).contains("no source is due"));
        for _ in 2..=5 {
            let now = if place.database_url().is_some() { "now()" } else { "1" };
            place.sql(&format!("UPDATE source SET next_due_at = {now} WHERE id = 1"));
            place.run(&["collect"]);
        }
        assert_eq!(list(place)[0]["paused_reason"], "error");
        // When it is there again, a person lets it go on.
        place.apply(&manifest("news"));
        ok(&place.run(&["source", "resume", "1"]));
        ok(&place.run(&["collect"]));
        assert_eq!(list(place)[0]["status"], "ok");
    });
}

// covers: COLL-120, COLL-111
on_both!(fn who_is_asked_to_come_later_does_not_wait_for_it);
fn who_is_asked_to_come_later_does_not_wait_for_it(on: On) {
    everywhere(on, |place, far| {
        let busy = add(place, "rss", &far.url(1, "/busy"));
        add(place, "rss", &far.url(2, "/feed/a"));
        assert!(ok(&place.run(&["collect"])).contains("1 source(s) collected: 2 new item(s), 0 failed, 1 put off"));
        let row = &list(place)[0];
        assert_eq!(
            (&row["id"], &row["status"], &row["fetch_error_count"]),
            (&json!(busy), &json!("pending"), &json!(0))
        );
        assert!(row["next_attempt_at"].is_string());
        assert!(ok(&place.run(&["collect"])).contains("0 source(s) collected: 0 new item(s), 0 failed, 1 put off"));
        assert_eq!(far.paths().iter().filter(|path| *path == "/busy").count(), 1);
        // Told to slow down without a time, four times: that is a failure, and the source waits.
        let hurried = add(place, "rss", &far.url(3, "/hurried"));
        let (code, result) = one(place, hurried);
        assert_eq!((code, &result["fetch_error_count"]), (Some(1), &json!(1)), "{result}");
        assert_eq!(far.paths().iter().filter(|path| *path == "/hurried").count(), 4);
    });
}

// covers: COLL-105
on_both!(fn the_status_is_told_while_all_that_may_run_is_running);
fn the_status_is_told_while_all_that_may_run_is_running(on: On) {
    everywhere(on, |place, far| {
        for host in 1..=9 {
            add(place, "rss", &far.url(host, "/held/x"));
        }
        let running = Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &[]);
        let log = running.wait_for("the API listens");
        let log = if log.contains("patra_") { log } else { running.wait_for("patra_") };
        let key = log.split_whitespace().find(|word| word.starts_with("patra_")).unwrap().to_owned();
        let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        far.wait_for(5);
        // None of them can end before this is answered.
        let (code, status) = http(&format!("http://{address}/api/collector/status"), Some(&key), None);
        assert_eq!(code, 200);
        assert_eq!((&status["collector"]["running"], &status["collector"]["concurrency"]), (&json!(5), &json!(5)));
        assert_eq!(status["sources"].as_array().unwrap().len(), 9);
        assert_eq!(far.hits().len(), 5, "no more than may run at once");
        far.release();
        running.terminate();
        assert_eq!(running.end().0, Some(0));
    });
}

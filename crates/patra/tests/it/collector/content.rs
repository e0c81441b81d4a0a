//! What a poll stores: complete entries, corrected ones, their times and addresses; and what the publisher learns of us.

use super::*;

// covers: COLL-125, COLL-123, COLL-56
on_both!(fn truncated_and_corrected_feeds_are_stored_once_and_whole);
fn truncated_and_corrected_feeds_are_stored_once_and_whole(on: On) {
    everywhere(on, |place, feeds| {
        let id = add(place, "rss", &feeds.url(1, "/story"));
        let collect = || {
            let now = if place.database_url().is_some() { "now()" } else { "1" };
            place.sql(&format!("UPDATE source SET next_due_at = {now} WHERE id = {id}"));
            ok(&place.patra().env("COLLECTOR_CONTACT", "ops@example.com").arg("collect").output().unwrap())
        };
        let fields = || -> Vec<Value> {
            let mut items: Vec<_> = place.list(&["items"]).into_iter().map(|item| item["fields"].clone()).collect();
            items.sort_by_key(|fields| fields["title"].to_string());
            items
        };
        collect();
        let first = fields();
        assert_eq!(first.len(), 1, "the entry that was cut is not stored: {first:?}");
        assert_eq!(first[0]["content"], "first text");
        let source = &list(place)[0];
        assert!(source["last_error"].as_str().unwrap().contains("ends inside the feed"), "{source}");
        assert_eq!(source["fetch_error_count"], 0, "{source}");
        assert_eq!(place.list(&["tasks"])[0]["status_code"], "PARTIAL");
        collect();
        let second = fields();
        assert_eq!(second.len(), 2, "{second:?}");
        assert_eq!(second[0]["content"], "corrected text", "the same guid, the same time");
        assert_eq!(second[0]["url"], feeds.url(1, "/elsewhere/a"), "relative to the Content-Location");
        assert_eq!(second[0]["published_at"], "2026-01-02T03:04:05Z", "the only time counts for both");
        assert_eq!(second[0]["updated_at"], second[0]["published_at"]);
        assert_eq!(second[1]["url"], Value::Null, "not an address to follow");
        assert_eq!(list(place)[0]["status"], "ok");
        for hit in feeds.hits() {
            assert!(!hit.headers.contains_key("x-ingest-correlation-id"), "{hit:?}");
            assert!(hit.headers["user-agent"].ends_with("; ops@example.com)"), "{hit:?}");
        }
    });
}

// covers: COLL-125, COLL-123
on_both!(fn rss_1_1_is_read_and_a_guid_that_is_repeated_at_times_keeps_its_key);
fn rss_1_1_is_read_and_a_guid_that_is_repeated_at_times_keeps_its_key(on: On) {
    everywhere(on, |place, feeds| {
        let rss = add(place, "rss", &feeds.url(1, "/rss11"));
        assert_eq!(one(place, rss).1["inserted"], 1);
        assert_eq!(place.list(&["items"])[0]["fields"]["url"], "http://x.test/1");
        let twins = add(place, "rss", &feeds.url(2, "/twins"));
        assert_eq!(one(place, twins).1["inserted"], 2);
        assert_eq!(one(place, twins).1["inserted"], 0, "{:?}", place.list(&["items"]));
        assert_eq!(place.list(&["items"]).len(), 3);
    });
}

// covers: COLL-120
on_both!(fn retry_after_of_days_is_obeyed_for_seven_days_at_most);
fn retry_after_of_days_is_obeyed_for_seven_days_at_most(on: On) {
    everywhere(on, |place, feeds| {
        for (host, seconds) in [(1, 259_200), (2, 2_592_000)] {
            add(place, "rss", &feeds.url(host, &format!("/busy/{seconds}")));
        }
        place.run(&["collect"]);
        let now = crate::support::now_micros() as i64 / 1_000_000;
        let days: Vec<_> = list(place)
            .iter()
            .map(|row| row["next_attempt_at"].as_str().unwrap().parse::<patra_core::Ts>().unwrap())
            .map(|at| (at.micros() / 1_000_000 - now + 3_600) / 86_400)
            .collect();
        assert_eq!(days, [3, 7]);
    });
}

// covers: COLL-45, COLL-24
on_both!(fn new_source_goes_before_the_backlog_of_its_host);
fn new_source_goes_before_the_backlog_of_its_host(on: On) {
    everywhere(on, |place, feeds| {
        let urls: Vec<_> = (0..60).map(|number| feeds.url(1, &format!("/feed/{number}"))).collect();
        import(place, &urls.iter().map(|url| ("rss", url.as_str(), 300.0)).collect::<Vec<_>>());
        let running = Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &[]);
        let log = running.wait_for("the API listens");
        let log = if log.contains("patra_") { log } else { running.wait_for("patra_") };
        let key = log.split_whitespace().find(|word| word.starts_with("patra_")).unwrap().to_owned();
        let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        feeds.wait_for(2);
        let before = feeds.hits().len();
        let body = json!({ "type": "rss", "config": { "url": feeds.url(1, "/feed/new") } }).to_string();
        let (code, added) = http(&format!("http://{address}/api/sources"), Some(&key), Some(&body));
        assert_eq!(code, 201, "{added}");
        let end = Instant::now() + Duration::from_secs(60);
        while !feeds.paths().iter().any(|path| path == "/feed/new") {
            assert!(Instant::now() < end, "the new source is not polled");
            std::thread::sleep(Duration::from_millis(50));
        }
        let place_in_line = feeds.paths().iter().position(|path| path == "/feed/new").unwrap() - before;
        assert!(place_in_line < 10, "{place_in_line} polls of the host went first");
        running.terminate();
        running.end();
    });
}

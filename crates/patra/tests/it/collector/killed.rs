//! kill -9 in the middle of collecting: every item is stored once, and every source is in its normal state.

use super::*;

const FEEDS: u8 = 6;

/// Every lease owner is dead. On SQLite the program knows that by itself.
fn let_leases_run_out(place: &Workspace) {
    if place.database_url().is_some() {
        place.sql("UPDATE ing_task SET leased_until = now() - interval '1 second' WHERE leased_until IS NOT NULL");
    }
}

/// Kills the program repeatedly when the upstream has received so many requests, and then lets it finish.
fn through_kills(on: On, args: &[&str]) {
    everywhere(on, |place, feeds| {
        for host in 1..=FEEDS {
            add(place, "rss", &feeds.url(host, &format!("/slow/{host}/400")));
        }
        for requests in [1, 2, 3] {
            feeds.forget();
            let running = Running::start(place, args, &[("COLLECTOR_CONCURRENCY", "2")]);
            feeds.wait_for(requests);
            // Dropping the process kills it.
            drop(running);
            let_leases_run_out(place);
        }
        ok(&place.run(&["collect"]));
        let rows = list(place);
        assert_eq!(rows.len(), usize::from(FEEDS));
        for row in &rows {
            assert_eq!((&row["status"], &row["fetch_count"]), (&json!("ok"), &json!(1)), "{row}");
            assert_eq!((&row["fetch_error_count"], &row["last_error"]), (&json!(0), &Value::Null), "{row}");
        }
        let items = place.list(&["items"]);
        let mut keys: Vec<_> = items.iter().map(|item| item["dedup_key"].to_string()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!((items.len(), keys.len()), (2 * usize::from(FEEDS), 2 * usize::from(FEEDS)));
        let tasks = place.list(&["tasks"]);
        assert!(tasks.iter().all(|task| task["status_code"] == "SUCCEEDED"), "{tasks:?}");
        assert_eq!(tasks.len(), usize::from(FEEDS), "a poll that was cut off goes on; there is no second one");
        place.check_integrity();
    });
}

// covers: COLL-62, COLL-GOAL-4, COLL-56
on_both!(fn one_round_survives_kill_9);
fn one_round_survives_kill_9(on: On) {
    through_kills(on, &["collect"]);
}

// covers: COLL-62, COLL-GOAL-4, COLL-107
on_both!(fn the_loop_survives_kill_9);
fn the_loop_survives_kill_9(on: On) {
    through_kills(on, &["collect", "--loop"]);
}

// covers: COLL-37, COLL-58, COLL-62
on_both!(fn after_a_signal_no_poll_starts_and_the_next_process_collects_the_rest);
fn after_a_signal_no_poll_starts_and_the_next_process_collects_the_rest(on: On) {
    everywhere(on, |place, feeds| {
        add(place, "rss", &feeds.url(1, "/held/a"));
        for host in 2..5 {
            add(place, "rss", &feeds.url(host, "/feed/waits"));
        }
        let settings = [("COLLECTOR_CONCURRENCY", "1"), ("COLLECTOR_TICK", "1")];
        let running = Running::start(place, &["collect", "--loop"], &settings);
        feeds.wait_for(1);
        running.terminate();
        running.wait_for("SIGTERM received");
        // Another source becomes due meanwhile; the running program owns the SQLite file.
        let late = place.database_url().map(|_| add(place, "rss", &feeds.url(6, "/feed/late")));
        // For longer than two ticks.
        std::thread::sleep(Duration::from_millis(2_500));
        if let Some(late) = late {
            let row = list(place).into_iter().find(|row| row["id"] == late).unwrap();
            assert_eq!(
                (&row["status"], &row["next_attempt_at"]),
                (&json!("pending"), &Value::Null),
                "no poll is queued"
            );
        }
        feeds.release();
        let (code, log) = running.end();
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(log.matches("source(s) due").count(), 1, "{log}");
        assert_eq!(feeds.paths(), ["/held/a"], "one was in progress, and no other was started");
        // A source that was due and not polled does not wait for its next interval.
        ok(&place.run(&["collect"]));
        assert!(list(place).iter().all(|row| row["status"] == "ok"), "{:?}", list(place));
        assert_eq!(feeds.hits().len(), 4 + late.iter().count());
    });
}

// covers: COLL-33, COLL-107
#[test]
fn two_collectors_on_one_database_share_the_work() {
    let feeds = FeedServer::start();
    let Some(place) = Workspace::postgres() else { return };
    for host in 1..=8 {
        add(&place, "rss", &feeds.url(host, &format!("/held/{host}")));
    }
    let settings = [("COLLECTOR_CONCURRENCY", "2"), ("COLLECTOR_TICK", "1")];
    let both = [0, 1].map(|_| Running::start(&place, &["collect", "--loop"], &settings));
    // No host may have four requests in progress.
    feeds.wait_for(4);
    let tasks = place.list(&["tasks"]);
    let owners: std::collections::BTreeSet<_> =
        tasks.iter().filter_map(|task| task["lease_owner"].as_str().map(str::to_owned)).collect();
    assert_eq!(owners.len(), 2, "{tasks:?}");
    feeds.release();
    feeds.wait_for(8);
    for running in both {
        running.terminate();
        assert_eq!(running.end().0, Some(0));
    }
    ok(&place.run(&["collect"]));
    let mut paths = feeds.paths();
    paths.sort();
    assert_eq!(paths, (1..=8).map(|host| format!("/held/{host}")).collect::<Vec<_>>(), "each once");
    assert!(list(&place).iter().all(|row| row["fetch_count"] == 1));
}

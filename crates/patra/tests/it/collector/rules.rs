//! Order of the collected sources, retention of items, and identity of items.

use super::*;

/// Items in HTTP lists are those that are not emptied.
fn titles(place: &Workspace) -> Vec<String> {
    let items = place.list(&["items"]);
    let mut titles: Vec<_> =
        items.iter().filter_map(|item| item["fields"]["title"].as_str().map(str::to_owned)).collect();
    titles.sort();
    titles
}

/// Makes all items so many days older.
fn age(place: &Workspace, days: u32) {
    let day = if place.database_url().is_some() { "interval '1 day'" } else { "86400000000" };
    place.sql(&format!("UPDATE item_source SET fetched_at = fetched_at - {days} * {day}"));
}

// covers: COLL-23, COLL-26, COLL-87, COLL-114
on_both!(fn active_sources_are_collected_new_ones_first_then_the_oldest);
fn active_sources_are_collected_new_ones_first_then_the_oldest(on: On) {
    everywhere(on, |place, feeds| {
        import(
            place,
            &[
                ("rss", &feeds.url(1, "/feed/5-hours"), 5.0),
                ("rss", &feeds.url(2, "/feed/9-days"), 216.0),
                ("rss", &feeds.url(3, "/feed/paused"), 300.0),
                ("rss", &feeds.url(4, "/feed/removed"), 300.0),
                ("rss", &feeds.url(5, "/feed/6-hours"), 6.0),
            ],
        );
        add(place, "rss", &feeds.url(6, "/feed/never"));
        add(place, "rss", &feeds.url(7, "/feed/never-and-paused"));
        for (command, id) in [("pause", "3"), ("remove", "4"), ("pause", "7")] {
            ok(&place.run(&["source", command, id]));
        }
        ok(&place.patra().env("COLLECTOR_CONCURRENCY", "1").arg("collect").output().unwrap());
        assert_eq!(feeds.paths(), ["/feed/never", "/feed/9-days", "/feed/6-hours", "/feed/5-hours"]);
    });
}

// covers: COLL-27, COLL-28, COLL-90
on_both!(fn user_input_is_never_sql_and_an_empty_interval_table_is_valid);
fn user_input_is_never_sql_and_an_empty_interval_table_is_valid(on: On) {
    everywhere(on, |place, feeds| {
        let evil = "'); DROP TABLE source; --";
        let name = format!("FETCH_INTERVAL_X{evil}");
        ok(&place.run(&["source", "add", "rss", &feeds.url(1, "/feed/a"), "--name", evil]));
        let collect = || place.patra().env(&name, "5").arg("collect").output().unwrap();
        ok(&collect());
        assert_eq!(list(place)[0]["name"], evil);
        // There are no types before a collector has registered them.
        add(place, "rss", &feeds.url(2, "/feed/b"));
        place.sql("DELETE FROM source_type");
        ok(&place.run(&["source", "list"]));
        ok(&collect());
        assert_eq!(feeds.paths(), ["/feed/a", "/feed/b"]);
        let index = match place.database_url() {
            Some(url) => psql(&url, "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_sources_active'"),
            None => rusqlite::Connection::open(place.folder.path().join("data/patra.db"))
                .unwrap()
                .query_row("SELECT sql FROM sqlite_master WHERE name = 'idx_sources_active'", [], |row| row.get(0))
                .unwrap(),
        };
        assert!(index.contains("(is_active)"), "{index}");
    });
}

// covers: COLL-43, COLL-44, COLL-109, COLL-110, COLL-123
on_both!(fn old_articles_are_emptied_hourly_and_never_stored_again);
fn old_articles_are_emptied_hourly_and_never_stored_again(on: On) {
    everywhere(on, |place, feeds| {
        let feed = add(place, "rss", &feeds.url(1, "/bare/a"));
        ok(&place.run(&["collect"]));
        // A kind that is kept forever.
        place.apply(&format!(
            "provenance: shop\nallow_http: true\nendpoints:\n  works:\n    polled: true\n    kind: work\n    \
             http: {{ base_url: \"{}\" }}\n    response: {{ items_path: $.data, id_path: $.n, updated_at_path: $.at }}\n    \
             record: {{ dedup_scope: source }}\n    fields: {{ title: $.t }}\n",
            feeds.url(2, "/json")
        ));
        let config = json!({ "provenance": "shop", "endpoint": "works" }).to_string();
        ok(&place.run(&["source", "add", "custom_api", "--config", &config]));
        ok(&place.run(&["collect"]));
        let all = ["Entry 1 of /bare/a", "Entry 2 of /bare/a", "One", "Two"];
        assert_eq!(titles(place), all);
        age(place, 40);
        ok(&place.run(&["collect"]));
        assert_eq!(titles(place), all, "it was cleaned within the hour");
        place.sql("UPDATE config SET config_value = '2026-01-01T00:00:00Z' WHERE config_key = 'collector.cleaned_at'");
        ok(&place.patra().env("RAW_ITEMS_TTL_DAYS", "0").arg("collect").output().unwrap());
        assert_eq!(titles(place), all, "they are kept for ever");
        place.sql("DELETE FROM config WHERE config_key = 'collector.cleaned_at'");
        let output = place.patra().env("RUST_LOG", "info").arg("collect").output().unwrap();
        ok(&output);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(log.contains("items=2"), "{log}");
        assert_eq!(titles(place), all[2..], "works are no articles");
        // The feed still has them, and they are not new.
        place.sql("UPDATE source SET validators = NULL");
        let (_, again) = one(place, feed);
        assert_eq!((&again["fetched"], &again["inserted"]), (&json!(2), &json!(0)));
        assert_eq!(titles(place), all[2..]);
        assert_eq!(place.list(&["items"]).len(), 4, "their keys stay");
    });
}

// covers: COLL-123
on_both!(fn source_can_define_the_identity_of_its_entries);
fn source_can_define_the_identity_of_its_entries(on: On) {
    everywhere(on, |place, feeds| {
        let config = |identity: &str| json!({ "url": feeds.url(1, "/guids/a"), "identity": identity }).to_string();
        ok(&place.run(&["source", "add", "rss", "--config", &config("link")]));
        assert_eq!(one(place, 1).1["inserted"], 2);
        let (_, again) = one(place, 1);
        assert_eq!(
            (&again["fetched"], &again["inserted"]),
            (&json!(2), &json!(0)),
            "the ids are others, the links are not"
        );
        ok(&place.run(&["source", "add", "digest_feed", "--config", &config("guid")]));
        assert_eq!((&one(place, 2).1["inserted"], &one(place, 2).1["inserted"]), (&json!(2), &json!(2)));
        let site = json!({ "url": feeds.url(2, "/page"), "identity": "content" }).to_string();
        ok(&place.run(&["source", "add", "website", "--config", &site]));
        assert_eq!(one(place, 3).1["inserted"], 2);
        let wrong = place.run(&["source", "add", "rss", "--config", &config("luck")]);
        assert_eq!(wrong.status.code(), Some(64));
    });
}

// covers: COLL-124
on_both!(fn reddit_uses_its_feed_or_with_a_credential_its_api);
fn reddit_uses_its_feed_or_with_a_credential_its_api(on: On) {
    everywhere(on, |place, feeds| {
        let manifest = include_str!("../../../../../sources/collector.yaml")
            .replace("https://www.reddit.com/api/v1/access_token", &feeds.url(1, "/token"))
            .replace("https://oauth.reddit.com", &feeds.url(2, "/oauth"))
            .replace("https://www.reddit.com", &feeds.url(3, "/public"));
        place.apply(&manifest);
        let patra = || {
            let mut patra = place.patra();
            patra.env("PATRA_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
            patra
        };
        let fetch = || -> Value {
            serde_json::from_str(&ok(&patra().args(["source", "fetch", "1"]).output().unwrap())).unwrap()
        };
        ok(&place.run(&["source", "add", "reddit", "--config", "{\"subreddit\": \"r/rust\", \"sort\": \"new\"}"]));
        assert_eq!(fetch()["inserted"], 1);
        assert_eq!(feeds.paths(), ["/public/r/rust/new/.rss?limit=25"]);
        assert_eq!(titles(place), ["A post"]);
        let secret = place.file("secret.json", "{\"clientId\": \"me\", \"clientSecret\": \"s3cret\"}");
        let mut adding = patra();
        adding.args(["credential", "add", "reddit", "--type", "oauth2", "--provenance", "collector"]);
        ok(&adding.stdin(std::fs::File::open(secret).unwrap()).output().unwrap());
        feeds.forget();
        assert_eq!(fetch()["inserted"], 1);
        let hits = feeds.hits();
        assert_eq!(feeds.paths(), ["/token", "/oauth/r/rust/new?limit=25&raw_json=1"]);
        // me:s3cret
        assert_eq!(hits[0].headers["authorization"], "Basic bWU6czNjcmV0");
        let items = place.list(&["items"]);
        let post = items.iter().find(|item| item["endpoint_name"] == "reddit_posts").unwrap();
        assert_eq!((&post["fields"]["score"], &post["fields"]["comments"]), (&json!(42), &json!(7)));
        assert_eq!((&post["dedup_key"], &post["fields"]["content"]), (&json!("t3_a"), &json!("Text")));
        // The token is used again.
        fetch();
        assert_eq!(feeds.paths().iter().filter(|path| *path == "/token").count(), 1);
    });
}

// covers: COLL-99, COLL-106
#[test]
fn example_settings_and_units_are_shipped() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let settings = read(".env.example");
    for (name, minutes) in patra_core::source::TYPES {
        let line = format!("FETCH_INTERVAL_{}={minutes}", name.to_uppercase());
        assert!(settings.contains(&line), "{line}");
    }
    assert!(settings.contains("COLLECTOR_TICK=60"));
    assert!(read("packaging/patra.service").contains("TimeoutStopSec=35"));
    assert!(read("packaging/Containerfile").contains("STOPSIGNAL SIGTERM"));
    assert!(read("docs/collector.md").contains("kill_timeout"));
}

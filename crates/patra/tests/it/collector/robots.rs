//! robots.txt decides about pages, and not about feeds: RFC 9309, against a scripted server.

use super::*;

const NO_PLAIN: &str = "User-agent: *\nDisallow: /plain\nAllow: /plain/open\n";

fn add_with(place: &Workspace, r#type: &str, config: &Value) -> i64 {
    let added = place.run(&["source", "add", r#type, "--config", &config.to_string(), "-o", "ndjson"]);
    let added: Value = serde_json::from_str(&ok(&added)).unwrap();
    added["id"].as_i64().unwrap()
}

fn error_of(place: &Workspace, id: i64) -> String {
    let row = list(place).into_iter().find(|row| row["id"] == id).unwrap();
    row["last_error"].as_str().unwrap_or_default().to_owned()
}

on_both!(fn disallowed_page_is_not_requested_and_the_error_says_what_to_do);
fn disallowed_page_is_not_requested_and_the_error_says_what_to_do(on: On) {
    everywhere(on, |place, feeds| {
        feeds.robots(1, "200 OK", "", NO_PLAIN);
        let closed = add(place, "website", &feeds.url(1, "/plain/closed"));
        assert_eq!(one(place, closed).0, Some(1));
        let error = error_of(place, closed);
        for word in ["/robots.txt", "`Patra`", "`Disallow: /plain`", "robots: ignore"] {
            assert!(error.contains(word), "{word}: {error}");
        }
        assert_eq!(feeds.paths(), Vec::<String>::new(), "the page is not requested");
        let tasks = place.list(&["tasks"]);
        assert!(tasks[0]["error"].to_string().contains("ROBOTS_DISALLOWED"), "{tasks:?}");
        // The longest rule wins.
        let open = add(place, "website", &feeds.url(1, "/plain/open"));
        assert_eq!(one(place, open).1["inserted"], 1);
        // The group of this program replaces the one of all others.
        feeds.robots(2, "200 OK", "", "User-agent: *\nDisallow: /\n\nUser-agent: PATRA\nDisallow: /feed\n");
        let named = add(place, "website", &feeds.url(2, "/plain"));
        assert_eq!(one(place, named).1["inserted"], 1);
        // A page that leads to a disallowed address is not used.
        let found = add(place, "website", &feeds.url(2, "/found"));
        assert_eq!(one(place, found).0, Some(1));
        assert!(error_of(place, found).contains("Disallow: /feed"), "{}", error_of(place, found));
        // A long file is cut, and its beginning applies.
        feeds.robots(3, "200 OK", "", &(NO_PLAIN.to_owned() + &"# a comment\n".repeat(100_000)));
        let long = add(place, "website", &feeds.url(3, "/plain"));
        assert_eq!(one(place, long).0, Some(1));
        assert!(error_of(place, long).contains("Disallow: /plain"), "{}", error_of(place, long));
    });
}

on_both!(fn feeds_are_read_without_robots_txt_unless_the_source_says_so);
fn feeds_are_read_without_robots_txt_unless_the_source_says_so(on: On) {
    everywhere(on, |place, feeds| {
        for host in [1, 2, 3] {
            feeds.robots(host, "200 OK", "", "User-agent: *\nDisallow: /\n");
        }
        let feed = add(place, "rss", &feeds.url(1, "/feed/a"));
        assert_eq!(one(place, feed).1["inserted"], 2);
        let ignored = add_with(place, "website", &json!({ "url": feeds.url(2, "/plain"), "robots": "ignore" }));
        assert_eq!(one(place, ignored).1["inserted"], 1);
        assert_eq!((feeds.robots_hits(1), feeds.robots_hits(2)), (0, 0));
        let asked = add_with(place, "rss", &json!({ "url": feeds.url(3, "/feed/b"), "robots": "respect" }));
        assert_eq!(one(place, asked).0, Some(1));
        assert!(error_of(place, asked).contains("robots.txt"), "{}", error_of(place, asked));
        assert_eq!(feeds.paths(), ["/feed/a", "/plain"]);
        let wrong = json!({ "url": feeds.url(4, "/feed/c"), "robots": "maybe" }).to_string();
        let refused = place.run(&["source", "add", "rss", "--config", &wrong]);
        assert_eq!(refused.status.code(), Some(64));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("respect or ignore"));
    });
}

on_both!(fn missing_robots_txt_allows_and_a_failing_host_is_left_alone);
fn missing_robots_txt_allows_and_a_failing_host_is_left_alone(on: On) {
    everywhere(on, |place, feeds| {
        // Redirects are followed, also to another host; a file that only redirects does not exist.
        feeds.robots(1, "301 Moved Permanently", &format!("Location: {}\r\n", feeds.url(2, "/rules")), "");
        let moved = add(place, "website", &feeds.url(1, "/plain"));
        assert_eq!(one(place, moved).0, Some(1));
        assert!(error_of(place, moved).contains("Disallow: /plain"), "{}", error_of(place, moved));
        feeds.robots(3, "302 Found", "Location: /robots.txt\r\n", "");
        let circle = add(place, "website", &feeds.url(3, "/plain"));
        assert_eq!(one(place, circle).1["inserted"], 1);
        assert_eq!(feeds.robots_hits(3), 6, "five redirects");
        for (host, status) in [(4, "404 Not Found"), (5, "403 Forbidden")] {
            feeds.robots(host, status, "", "User-agent: *\nDisallow: /\n");
            let id = add(place, "website", &feeds.url(host, "/plain"));
            assert_eq!(one(place, id).1["inserted"], 1, "{status}");
        }
        feeds.forget();
        feeds.robots(6, "503 Service Unavailable", "", "");
        let failing = add(place, "website", &feeds.url(6, "/plain"));
        assert_eq!(one(place, failing).0, Some(1));
        let error = error_of(place, failing);
        assert!(error.contains("503") && error.contains("robots.txt"), "{error}");
        assert_eq!(feeds.paths(), Vec::<String>::new());
        assert_eq!(feeds.robots_hits(6), 1, "also when the poll is tried again");
        feeds.robots(6, "404 Not Found", "", "");
        assert_eq!(one(place, failing).1["inserted"], 1, "the host has recovered");
    });
}

on_both!(fn robots_txt_is_read_once_per_host_and_its_crawl_delay_is_kept);
fn robots_txt_is_read_once_per_host_and_its_crawl_delay_is_kept(on: On) {
    everywhere(on, |place, feeds| {
        feeds.robots(1, "200 OK", "", "User-agent: *\nCrawl-delay: 2\n");
        let pages = ["/plain/a", "/plain/b", "/plain/c"].map(|path| add(place, "website", &feeds.url(1, path)));
        assert_eq!(pages.len(), 3);
        let other = add(place, "website", &feeds.url(2, "/plain"));
        let output = place.run(&["collect"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(list(place).iter().all(|row| row["status"] == "ok"), "{:?}", list(place));
        assert_eq!((feeds.robots_hits(1), feeds.robots_hits(2)), (1, 1));
        assert_eq!(feeds.hits().len(), 4, "{other}");
        // Declared is one request per second; the host asks for half of that.
        let declared = |host: u8| {
            let (gates, host) = (place.list(&["gates"]), format!("127.0.0.{host}:"));
            gates.into_iter().find(|gate| gate["rateKey"].to_string().contains(&host)).unwrap()
        };
        assert_eq!(declared(1)["declared"], json!({ "per_sec": 0.5, "burst": 1.0 }));
        assert_eq!(declared(2)["declared"]["per_sec"], 1.0);
    });
}

#[test]
fn try_and_validate_know_robots_txt() {
    let (place, feeds) = (Workspace::sqlite(), FeedServer::start());
    feeds.robots(1, "200 OK", "", NO_PLAIN);
    let manifest = |http: &str| {
        format!(
            "provenance: pages\nallow_http: true\nendpoints:\n  list:\n    polled: true\n    http: {{ base_url: \"{}\", path: /plain{http} }}\n    \
             response: {{ format: html, items_path: $, id_path: $.title, html: {{ rows: article, fields: {{ title: h1 }} }} }}\n",
            feeds.url(1, "")
        )
    };
    let file = place.file("pages.yaml", &manifest(""));
    let refused = place.run(&["try", &file]);
    let text = String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("ROBOTS_DISALLOWED"), "{text}");
    assert!(text.contains("robots: ignore") && feeds.paths().is_empty(), "{text}");
    let file = place.file("pages.yaml", &manifest(", robots: ignore"));
    let read = place.run(&["try", &file]);
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    assert_eq!(feeds.paths(), ["/plain"]);
    let file = place.file("pages.yaml", &manifest(", robots: maybe"));
    let wrong = place.run(&["validate", &file]);
    let text = String::from_utf8_lossy(&wrong.stdout).into_owned() + &String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success() && text.contains("http.robots"), "{text}");
}

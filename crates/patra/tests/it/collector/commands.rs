//! The collector's commands, and the server that runs it as well.

use std::net::TcpStream;

use super::*;

/// A server on this machine, its address, and its first key.
fn serve(place: &Workspace, args: &[&str]) -> (Running, String, String) {
    let running = Running::start(place, &[&["serve", "--listen", "127.0.0.1:0"], args].concat(), &[]);
    let log = running.wait_for("address=");
    let log = if log.contains("patra_") { log } else { running.wait_for("patra_") };
    let key = log.split_whitespace().find(|word| word.starts_with("patra_")).unwrap().to_owned();
    let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    (running, address, key)
}

// covers: COLL-47
#[test]
fn collector_runs_once_or_in_a_loop_and_serve_can_omit_it() {
    let (place, feeds) = (Workspace::sqlite(), FeedServer::start());
    let first = add(&place, "rss", &feeds.url(1, "/feed/a")).to_string();
    add(&place, "rss", &feeds.url(2, "/feed/b"));
    ok(&place.run(&["collector", "--source", &first]));
    assert_eq!(feeds.paths(), ["/feed/a"], "that one alone");
    ok(&place.run(&["collector"]));
    assert_eq!(feeds.paths(), ["/feed/a", "/feed/b"], "only due sources");
    add(&place, "rss", &feeds.url(3, "/feed/c"));
    let looping = Running::start(&place, &["collector", "--loop"], &[]);
    feeds.wait_for(3);
    looping.terminate();
    assert_eq!(looping.end().0, Some(0));

    add(&place, "rss", &feeds.url(4, "/feed/d"));
    let (without, address, key) = serve(&place, &["--no-collector"]);
    std::thread::sleep(Duration::from_millis(1_500));
    let (status, shown) = http(&format!("http://{address}/api/collector/status"), Some(&key), None);
    assert_eq!((status, &shown["collector"]["alive"]), (200, &json!(false)), "{shown}");
    assert_eq!(feeds.hits().len(), 3, "the API alone collects nothing");
    without.terminate();
    assert_eq!(without.end().0, Some(0));
    let with = Running::start(&place, &["serve", "--listen", "127.0.0.1:0"], &[]);
    feeds.wait_for(4);
    with.terminate();
    assert_eq!(with.end().0, Some(0));
}

// covers: COLL-63
#[test]
fn api_stops_accepting_at_shutdown_while_polls_finish() {
    let (place, feeds) = (Workspace::sqlite(), FeedServer::start());
    add(&place, "rss", &feeds.url(1, "/held/x"));
    let (mut running, address, _) = serve(&place, &[]);
    feeds.wait_for(1);
    running.terminate();
    let end = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(&address).is_ok() {
        assert!(Instant::now() < end, "it still accepts: {}", running.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(running.child.try_wait().unwrap().is_none(), "it waits for the poll");
    feeds.release();
    assert_eq!(running.end().0, Some(0));
    assert_eq!(list(&place)[0]["status"], "ok");
}

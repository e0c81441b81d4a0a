//! The collector's commands, and the server that runs it as well.

use std::net::TcpStream;

use super::*;

/// A server on this machine, where it listens, and its first key.
fn serve(place: &Place, args: &[&str]) -> (Running, String, String) {
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
    let (place, far) = (Place::sqlite(), Far::start());
    let first = add(&place, "rss", &far.url(1, "/feed/a")).to_string();
    add(&place, "rss", &far.url(2, "/feed/b"));
    ok(&place.run(&["collector", "--source", &first]));
    assert_eq!(far.paths(), ["/feed/a"], "that one alone");
    ok(&place.run(&["collector"]));
    assert_eq!(far.paths(), ["/feed/a", "/feed/b"], "what is due");
    add(&place, "rss", &far.url(3, "/feed/c"));
    let looping = Running::start(&place, &["collector", "--loop"], &[]);
    far.wait_for(3);
    looping.terminate();
    assert_eq!(looping.end().0, Some(0));

    add(&place, "rss", &far.url(4, "/feed/d"));
    let (without, address, key) = serve(&place, &["--no-collector"]);
    std::thread::sleep(Duration::from_millis(1_500));
    let (status, shown) = http(&format!("http://{address}/api/collector/status"), Some(&key), None);
    assert_eq!((status, &shown["collector"]["alive"]), (200, &json!(false)), "{shown}");
    assert_eq!(far.hits().len(), 3, "the API alone collects nothing");
    without.terminate();
    assert_eq!(without.end().0, Some(0));
    let with = Running::start(&place, &["serve", "--listen", "127.0.0.1:0"], &[]);
    far.wait_for(4);
    with.terminate();
    assert_eq!(with.end().0, Some(0));
}

// covers: COLL-63
#[test]
fn api_stops_accepting_at_shutdown_while_polls_finish() {
    let (place, far) = (Place::sqlite(), Far::start());
    add(&place, "rss", &far.url(1, "/held/x"));
    let (mut running, address, _) = serve(&place, &[]);
    far.wait_for(1);
    running.terminate();
    let end = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(&address).is_ok() {
        assert!(Instant::now() < end, "it still accepts: {}", running.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(running.child.try_wait().unwrap().is_none(), "it waits for the poll");
    far.release();
    assert_eq!(running.end().0, Some(0));
    assert_eq!(list(&place)[0]["status"], "ok");
}

//! A server whose database is not there yet: it waits, says so, and is ready only when the database is there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::packaging::terminate;
use crate::support::{Workspace, free_port, http};

/// Host and port in a database URL.
fn host(url: &str) -> &str {
    url.split_once('@').unwrap().1.split_once('/').unwrap().0
}

/// Forwards connections of this port to the database. The first ones are cut: the first after no byte, the second
/// after one, and so on in steps that grow.
fn forward(port: u16, to: &str, cut: usize) -> Arc<AtomicUsize> {
    let (listener, to) = (TcpListener::bind(("127.0.0.1", port)).unwrap(), to.to_owned());
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for from in listener.incoming().map_while(Result::ok) {
            let at = count.fetch_add(1, Ordering::Relaxed);
            let allowed = if at < cut { at * at * 40 } else { usize::MAX };
            let Ok(server) = TcpStream::connect(&to) else { continue };
            let (up, down) = (from.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || copy(up, server, usize::MAX));
            std::thread::spawn(move || copy(down, from, allowed));
        }
    });
    accepted
}

/// Copies at most so many bytes, then closes both sides.
fn copy(mut from: TcpStream, mut to: TcpStream, mut allowed: usize) {
    let mut bytes = [0; 4_096];
    while allowed > 0
        && let Ok(length @ 1..) = from.read(&mut bytes)
    {
        let length = length.min(allowed);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
        allowed = allowed.saturating_sub(length);
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// A child that does not outlive its test, even if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Service {
    child: Running,
    lines: BufReader<ChildStderr>,
    base: String,
}

impl Service {
    /// A server that reaches its database by way of this port.
    fn start(place: &Workspace, url: &str) -> Service {
        let port = free_port();
        let mut command = place.patra();
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]).env("PATRA_DATABASE_URL", url);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Service { child: Running(child), lines, base: format!("http://127.0.0.1:{port}") }
    }

    /// Reads log lines up to one with this text, and returns all of them.
    fn read_to(&mut self, text: &str) -> String {
        let mut read = String::new();
        while self.lines.read_line(&mut read).unwrap() > 0 {
            if read.lines().last().unwrap().contains(text) {
                return read;
            }
        }
        panic!("the server ended without `{text}`: {read}");
    }

    fn status(&self, path: &str) -> u16 {
        http(&format!("{}{path}", self.base), None, None).0
    }

    fn stop(self) {
        let Service { mut child, mut lines, .. } = self;
        // Somebody must read what it logs.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        terminate(&mut child.0);
    }
}

/// The URL of a place's database, by way of another port.
fn by_way_of(place: &Workspace, port: u16) -> (String, String) {
    let url = place.database_url().unwrap();
    let host = host(&url).to_owned();
    (url.replace(&host, &format!("127.0.0.1:{port}")), host)
}

#[test]
fn server_waits_for_its_database_and_is_ready_when_it_is_there() {
    let Some(place) = Workspace::empty_postgres() else { return };
    let port = free_port();
    let (url, host) = by_way_of(&place, port);
    let mut service = Service::start(&place, &url);
    let log = service.read_to("waiting for the database");
    assert!(log.contains("no PostgreSQL server responds at 127.0.0.1") && log.contains("refused"), "{log}");
    // The port is served from the first attempt on.
    while TcpStream::connect(service.base.strip_prefix("http://").unwrap()).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(
        [service.status("/healthz"), service.status("/readyz"), service.status("/api/v1/jobs")],
        [200, 503, 503]
    );
    assert!(service.child.0.try_wait().unwrap().is_none(), "it waits");
    forward(port, &host, 0);
    let log = service.read_to("the API listens");
    assert!(log.contains("the database is there") && log.contains("administrator key"), "{log}");
    while service.status("/readyz") != 200 {
        std::thread::yield_now();
    }
    assert_eq!(service.status("/api/v1/jobs"), 401);
    service.stop();
}

#[test]
fn connections_cut_while_starting_are_tried_again() {
    let Some(place) = Workspace::empty_postgres() else { return };
    let port = free_port();
    let (url, host) = by_way_of(&place, port);
    let accepted = forward(port, &host, 12);
    let mut service = Service::start(&place, &url);
    let log = service.read_to("the API listens");
    assert!(log.contains("waiting for the database"), "{log}");
    assert_eq!(log.matches("administrator key").count(), 1, "{log}");
    assert!(accepted.load(Ordering::Relaxed) > 12);
    assert_eq!(service.status("/readyz"), 200);
    service.stop();
}

#[test]
fn server_that_waits_for_its_database_stops_at_once_when_asked() {
    let place = Workspace::sqlite();
    let mut service = Service::start(&place, &format!("postgres://patra@127.0.0.1:{}/patra", free_port()));
    service.read_to("waiting for the database");
    terminate(&mut service.child.0);
}

#[test]
fn wrong_database_settings_end_the_start_at_once() {
    let Some(place) = Workspace::postgres() else { return };
    let url = place.database_url().unwrap();
    let host = host(&url).to_owned();
    let run = |url: &str| {
        let mut command = place.patra();
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("PATRA_DATABASE_URL", url);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (url, reason) in [
        (format!("postgres://patra@{host}/no_such_database"), "there is no database"),
        (format!("postgres://no_such_user:wrong@{host}/patra"), "refused to authenticate"),
        (format!("mysql://patra@{host}/patra"), "invalid"),
    ] {
        let (code, log) = run(&url);
        assert_eq!(code, Some(78), "{log}");
        assert!(log.contains(reason) && !log.contains("waiting for the database"), "{log}");
    }
    place.sql("INSERT INTO patra_migration VALUES (7, 'later', 'x', now())");
    let (code, log) = run(&url);
    assert_eq!(code, Some(78), "{log}");
    assert!(log.contains("schema version 7") && !log.contains("waiting for the database"), "{log}");
}

/// The time limit of a supervisor is extended while the server waits.
#[test]
fn supervisor_gives_a_waiting_server_more_time() {
    let place = Workspace::sqlite();
    let path = place.folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = place.patra();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &path);
    command.env("PATRA_DATABASE_URL", format!("postgres://patra@127.0.0.1:{}/patra", free_port()));
    let mut child = Running(command.stderr(Stdio::null()).spawn().unwrap());
    let mut bytes = [0; 256];
    let length = socket.recv(&mut bytes).unwrap();
    let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
    assert!(message.starts_with("STATUS=waiting for the database\nEXTEND_TIMEOUT_USEC="), "{message}");
    terminate(&mut child.0);
}

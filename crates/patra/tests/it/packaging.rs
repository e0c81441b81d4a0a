//! What an installed Patra is: files in their places, and a service that systemd can look after.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{On, Place, root};

/// What the service says next, as a supervisor hears it.
fn heard(socket: &UnixDatagram) -> String {
    let mut said = [0; 1024];
    let length = socket.recv(&mut said).expect("the service says something within a minute");
    String::from_utf8(said[..length].to_vec()).unwrap()
}

on_both!(fn a_service_says_that_it_is_ready_then_that_it_lives_and_at_the_end_that_it_stops);
fn a_service_says_that_it_is_ready_then_that_it_lives_and_at_the_end_that_it_stops(on: On) {
    for place in on.places() {
        let path = place.folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut service = place
            .patra()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "900000")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!(heard(&socket), "READY=1\nSTATUS=serving as [api, planner, executor, collector]");
        assert_eq!([heard(&socket), heard(&socket)], ["WATCHDOG=1", "WATCHDOG=1"]);
        terminate(&mut service);
        let last = std::iter::repeat_with(|| heard(&socket)).find(|said| said != "WATCHDOG=1");
        assert_eq!(last.unwrap(), "STOPPING=1\nSTATUS=finishing what is in flight");
    }
}

#[test]
fn a_watchdog_of_another_process_is_not_ours_to_feed() {
    let place = Place::sqlite();
    let path = place.folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut service = place
        .patra()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .envs([("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "1")])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(heard(&socket).starts_with("READY=1"));
    terminate(&mut service);
    assert!(heard(&socket).starts_with("STOPPING=1"), "it was asked for no sign of life");
}

#[test]
fn a_supervisor_that_cannot_be_reached_is_told_of_and_stops_nobody() {
    let place = Place::sqlite();
    let mut command = place.patra();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", "/nowhere/notify").stderr(Stdio::piped());
    let mut service = command.spawn().unwrap();
    let mut lines = BufReader::new(service.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("NOTIFY_SOCKET cannot be reached")));
    terminate(&mut service);
}

/// Asks it to stop, and sees that it ends well.
fn terminate(service: &mut Child) {
    let asked = Command::new("kill").args(["-TERM", &service.id().to_string()]).status().unwrap();
    assert!(asked.success() && service.wait().unwrap().success());
}

#[test]
fn the_unit_is_one_that_systemd_understands_and_that_has_little_to_lose() {
    let unit = root().join("packaging/patra.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    for line in
        ["Type=notify", "WatchdogSec=30", "ProtectSystem=strict", "NoNewPrivileges=yes", "CapabilityBoundingSet="]
    {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    let analyze = |args: &[&str]| Command::new("systemd-analyze").args(args).arg(&unit).output();
    // Above 3.0 of 10 is more than such a service needs; 1.2 is what it has.
    let Ok(security) = analyze(&["security", "--offline=true", "--threshold=30"]) else {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    };
    assert!(security.status.success(), "{}", String::from_utf8_lossy(&security.stdout));
}

#[test]
fn everything_is_installed_where_it_belongs() {
    let folder = tempfile::tempdir().unwrap();
    let there = |path: &str| folder.path().join(path);
    let install = |program: &str| {
        let script = root().join("packaging/install");
        let mut command = Command::new(script);
        command.arg(program).env("DESTDIR", folder.path()).env("PREFIX", "/opt/patra").output().unwrap()
    };
    let missing = install("/nowhere/patra");
    assert_eq!(missing.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("hint: build it with"));
    let done = install(env!("CARGO_BIN_EXE_patra"));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let version = Command::new(there("opt/patra/bin/patra")).arg("--version").output().unwrap();
    assert!(version.status.success());
    let unit = std::fs::read_to_string(there("etc/systemd/system/patra.service")).unwrap();
    assert!(unit.contains("ExecStart=/opt/patra/bin/patra serve"));
    for (path, holds) in [
        ("opt/patra/share/man/man1/patra.1", "Collect any API"),
        ("opt/patra/share/man/man1/patra-serve.1", "PATRA_LISTEN"),
        ("opt/patra/share/man/man1/patra-db-restore.1", "restore"),
        ("opt/patra/share/bash-completion/completions/patra", "_patra()"),
        ("opt/patra/share/zsh/site-functions/_patra", "#compdef patra"),
        ("opt/patra/share/fish/vendor_completions.d/patra.fish", "complete -c patra"),
    ] {
        let text = std::fs::read_to_string(there(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(text.contains(holds), "{path} has no {holds}");
    }
}

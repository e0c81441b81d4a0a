//! The installation: files in their places, and a service for systemd.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{On, Workspace, root};

/// The next message of the service to its supervisor.
fn heard(socket: &UnixDatagram) -> String {
    let mut said = [0; 1024];
    let length = socket.recv(&mut said).expect("the service says something within a minute");
    String::from_utf8(said[..length].to_vec()).unwrap()
}

on_both!(fn service_notifies_ready_watchdog_and_stopping);
fn service_notifies_ready_watchdog_and_stopping(on: On) {
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
fn watchdog_of_another_process_is_ignored() {
    let place = Workspace::sqlite();
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
fn unreachable_supervisor_is_logged_and_stops_nothing() {
    let place = Workspace::sqlite();
    let mut command = place.patra();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", "/nowhere/notify").stderr(Stdio::piped());
    let mut service = command.spawn().unwrap();
    let mut lines = BufReader::new(service.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("NOTIFY_SOCKET cannot be reached")));
    terminate(&mut service);
}

/// Stops the service and checks that it exits cleanly.
pub(crate) fn terminate(service: &mut Child) {
    let asked = Command::new("kill").args(["-TERM", &service.id().to_string()]).status().unwrap();
    assert!(asked.success() && service.wait().unwrap().success());
}

#[test]
fn systemd_accepts_the_unit_and_rates_it_safe() {
    let unit = root().join("packaging/patra.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    for line in [
        "Type=notify",
        "WatchdogSec=30",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "StartLimitIntervalSec=0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    let analyze = |args: &[&str]| Command::new("systemd-analyze").args(args).arg(&unit).output();
    // The limit is 3.0 of 10; the service has 1.2.
    let Ok(security) = analyze(&["security", "--offline=true", "--threshold=30"]) else {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    };
    assert!(security.status.success(), "{}", String::from_utf8_lossy(&security.stdout));
}

#[test]
fn install_puts_all_files_in_their_places() {
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
        ("opt/patra/share/man/man1/patra.1", "Collect APIs"),
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

//! The PostgreSQL server itself, where it is a private one that may be killed.

use std::process::Command;
use std::time::Duration;

use super::fleet::signal;
use super::sql;
use crate::support::Place;

/// A server that the script started: where its process id is, and the command that starts it again.
pub(super) struct PrivateServer {
    pid_file: String,
    restart: String,
}

impl PrivateServer {
    /// `None` where the server is not ours to kill.
    pub(super) fn of_script() -> Option<PrivateServer> {
        let variable = |name: &str| std::env::var(name).ok();
        Some(PrivateServer {
            pid_file: variable("PATRA_TORTURE_POSTGRES_PID_FILE")?,
            restart: variable("PATRA_TORTURE_POSTGRES_RESTART")?,
        })
    }

    /// kill -9 on the postmaster; its children end by themselves when they notice.
    pub(super) fn kill(&self) {
        let pid = std::fs::read_to_string(&self.pid_file).unwrap();
        signal("KILL", pid.lines().next().unwrap());
    }

    /// Starts it again. That takes some tries until the last child of the dead one is gone.
    pub(super) async fn restart(&self) {
        let mut said = String::new();
        for _ in 0..100 {
            let output = Command::new("/bin/sh").args(["-c", &self.restart]).output().unwrap();
            if output.status.success() {
                return;
            }
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("PostgreSQL does not start again: {said}");
    }
}

/// kill -9 on one server process that works for us. The postmaster then ends all the others and recovers.
pub(super) fn kill_backend(place: &Place) {
    let statement = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        ORDER BY (state = 'idle'), query_start DESC LIMIT 1";
    if let Some(row) = sql::rows(place, statement).first() {
        signal("KILL", &row[0]);
    }
}

/// Ends all connections of the place's database, as an administrator or a failover does.
pub(super) fn cut_connections(place: &Place) {
    sql::rows(
        place,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
}

/// Waits until the server takes questions.
pub(super) async fn answers(place: &Place) {
    for _ in 0..600 {
        if sql::answers(place) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("PostgreSQL does not come back");
}

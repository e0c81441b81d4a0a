//! A private PostgreSQL server, which may be killed.

use std::process::Command;
use std::time::Duration;

use super::fleet::signal;
use super::sql;
use crate::support::Workspace;

/// A server started by the script: the file with its process id, and the command that starts it again.
pub(super) struct PrivateServer {
    pid_file: String,
    restart: String,
}

impl PrivateServer {
    /// `None` if the server is not private.
    pub(super) fn of_script() -> Option<PrivateServer> {
        let variable = |name: &str| std::env::var(name).ok();
        Some(PrivateServer {
            pid_file: variable("PATRA_TORTURE_POSTGRES_PID_FILE")?,
            restart: variable("PATRA_TORTURE_POSTGRES_RESTART")?,
        })
    }

    /// Kills the postmaster with kill -9; its children exit when they notice.
    pub(super) fn kill(&self) {
        let pid = std::fs::read_to_string(&self.pid_file).unwrap();
        signal("KILL", pid.lines().next().unwrap());
    }

    /// Starts it again, retrying until the last child of the dead one is gone.
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

/// Kills one backend of this database with kill -9. The postmaster then ends all the others and recovers.
pub(super) fn kill_backend(place: &Workspace) {
    let statement = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        ORDER BY (state = 'idle'), query_start DESC LIMIT 1";
    if let Some(row) = sql::rows(place, statement).first() {
        signal("KILL", &row[0]);
    }
}

/// Ends all connections of the place's database, as an administrator or a failover does.
pub(super) fn cut_connections(place: &Workspace) {
    sql::rows(
        place,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
}

/// Waits until the server accepts queries.
pub(super) async fn answers(place: &Workspace) {
    for _ in 0..600 {
        if sql::answers(place) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("PostgreSQL does not come back");
}

//! Notifies systemd, if it started the process as `Type=notify`: ready, alive, stopping.
//!
//! The protocol is a datagram of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names (sd_notify(3)).

use std::convert::Infallible;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::settings::Environment;

#[derive(Debug)]
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    /// Longest time between two signs of life.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// Reads the variables that systemd sets. A socket that cannot be reached is logged, and the process runs without
    /// it.
    pub(crate) fn find(environment: &Environment) -> Supervisor {
        let socket = environment.get("NOTIFY_SOCKET").and_then(|name| match connect(name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(error = %error, socket = name, "NOTIFY_SOCKET cannot be reached");
                None
            }
        });
        let is_own = environment.get("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = environment.get("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        let watchdog = micros.filter(|_| is_own && socket.is_some()).map(Duration::from_micros);
        Supervisor { socket, watchdog }
    }

    /// Reports that every part has started.
    pub(crate) fn ready(&self, status: &str) {
        self.notify(&format!("READY=1\nSTATUS={status}"));
    }

    /// Reports that the start takes longer, because the database is not there, and asks for this much more time.
    pub(crate) fn waiting(&self, more: Duration) {
        self.notify(&format!("STATUS=waiting for the database\nEXTEND_TIMEOUT_USEC={}", more.as_micros()));
    }

    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1\nSTATUS=finishing what is in flight");
    }

    /// Sends signs of life as long as the runtime works. They do not depend on the database: a restart does not bring
    /// it back.
    pub(crate) async fn beat(&self) -> Infallible {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        let mut every = tokio::time::interval((watchdog / 3).max(Duration::from_millis(1)));
        loop {
            every.tick().await;
            self.notify("WATCHDOG=1");
        }
    }

    fn notify(&self, lines: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(lines.as_bytes())) {
            tracing::debug!(error = %error, "the supervisor could not be notified");
        }
    }
}

/// Connects to a path or, after `@`, to an abstract name.
fn connect(name: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match name.strip_prefix('@') {
        Some(name) => connect_abstract(&socket, name)?,
        None => socket.connect(name)?,
    }
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn connect_abstract(socket: &UnixDatagram, name: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt as _;
    socket.connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract(_: &UnixDatagram, _: &str) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

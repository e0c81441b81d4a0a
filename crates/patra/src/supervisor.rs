//! What systemd is told where it started us as `Type=notify`: that we are ready, alive, stopping. Nobody else is told anything.
//!
//! The protocol is a datagram of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names (sd_notify(3)).

use std::convert::Infallible;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::settings::Environment;

#[derive(Debug)]
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    /// Within which time it wants to hear from us.
    patience: Option<Duration>,
}

impl Supervisor {
    /// Whoever started us. A socket that cannot be reached is said to the log: we work without, until the start is given up.
    pub(crate) fn find(environment: &Environment) -> Supervisor {
        let socket = environment.get("NOTIFY_SOCKET").and_then(|name| match connect(name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(error = %error, socket = name, "NOTIFY_SOCKET cannot be reached");
                None
            }
        });
        let is_ours = environment.get("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = environment.get("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        let patience = micros.filter(|_| is_ours && socket.is_some()).map(Duration::from_micros);
        Supervisor { socket, patience }
    }

    /// Everything is up.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=finishing what is in flight");
    }

    /// Says that we are alive, for as long as the runtime turns. A database that is away is no reason to be
    /// started again: that is waited for.
    pub(crate) async fn beat(&self) -> Infallible {
        let Some(patience) = self.patience else { return std::future::pending().await };
        let mut every = tokio::time::interval((patience / 3).max(Duration::from_millis(1)));
        loop {
            every.tick().await;
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, lines: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(lines.as_bytes())) {
            tracing::debug!(error = %error, "the supervisor could not be told");
        }
    }
}

/// A path, or with `@` in front a name without a file.
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

//! Serves the dataset and the script on a socket. The server lives as long as its handle: dropping it closes the
//! listener and every connection.

mod access;
mod auth_routes;
mod connection;
mod control;
mod data;
mod head;
mod limiter;
mod log;
mod reply;
mod state;
mod target;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time;

pub use self::log::LogEntry;
use self::state::ServerState;
use crate::dataset::Dataset;
use crate::script::Script;
use crate::stats::MockApiStats;

const MAX_CONNECTIONS: usize = 4096;

#[derive(Debug)]
pub struct MockApi {
    addr: SocketAddr,
    state: Arc<ServerState>,
    task: JoinHandle<()>,
}

impl MockApi {
    /// Listens and serves on the current tokio runtime; port 0 picks one. Returns an error outside of a runtime.
    pub fn start(listen: SocketAddr, dataset: Dataset, script: Script) -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        let state = Arc::new(ServerState::new(dataset, script, format!("http://{addr}")));
        let task = runtime.spawn(accept(listener, state.clone()));
        Ok(Self { addr, state, task })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Base URL such as `http://127.0.0.1:18080`, without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.state.base_url
    }

    pub fn dataset(&self) -> &Dataset {
        &self.state.dataset
    }

    /// Reads and changes the script while serving.
    pub fn script(&self) -> ScriptHandle {
        ScriptHandle { state: self.state.clone() }
    }

    pub fn stats(&self) -> MockApiStats {
        self.state.stats()
    }

    /// The latest data requests, ordered by number, up to the script's `log_limit`.
    pub fn log(&self) -> Vec<LogEntry> {
        self.state.log.entries()
    }

    /// Requests to the tweet provider by user name in lower case; lists as `list:ID`, and `bookmarks`.
    pub fn requests_by_user(&self) -> BTreeMap<String, u64> {
        self.state.by_user()
    }

    /// Revokes all access tokens; refresh tokens stay valid.
    pub fn revoke_tokens(&self) {
        state::lock(&self.state.tokens).revoke_tokens();
    }

    /// Revokes all sessions.
    pub fn revoke_sessions(&self) {
        state::lock(&self.state.tokens).revoke_sessions();
    }

    /// Resets all counters, and so the faults; the script stays.
    pub fn reset(&self) {
        self.state.reset();
    }

    /// Stops the server and returns when the port is free again.
    pub async fn stop(mut self) {
        self.task.abort();
        // The task was aborted, so its result is always an error.
        let _ = (&mut self.task).await;
    }
}

impl Drop for MockApi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The script of a running server; cheap to clone.
#[derive(Debug, Clone)]
pub struct ScriptHandle {
    state: Arc<ServerState>,
}

impl ScriptHandle {
    pub fn get(&self) -> Script {
        Script::clone(&self.state.script())
    }

    pub fn set(&self, script: Script) {
        self.update(|current| *current = script);
    }

    /// Changes part of the script: `server.script().update(|s| s.visible = Some(200))`.
    pub fn update(&self, change: impl FnOnce(&mut Script)) {
        self.state
            .change_script(|script| {
                change(script);
                Ok::<(), std::convert::Infallible>(())
            })
            .unwrap_or_else(|never| match never {});
    }
}

/// Accepts connections. It owns them, so that they end with it.
async fn accept(listener: TcpListener, state: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    state.counters.connections.fetch_add(1, Relaxed);
                    connections.spawn(connection::serve(stream, state.clone()));
                }
                // Probably out of file descriptors: an immediate retry would only waste CPU.
                Err(_) => time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

//! The dataset and the script on a socket. A server lives as long as its handle: dropping it closes the listener and
//! every connection.

mod access;
mod connection;
mod control;
mod data;
mod doors;
mod gate;
mod head;
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
use self::state::State;
use crate::dataset::Dataset;
use crate::script::Script;
use crate::stats::Stats;

const MAX_CONNECTIONS: usize = 4096;

#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens and serves on the current tokio runtime; port 0 picks one. An error outside of a runtime.
    pub fn start(listen: SocketAddr, dataset: Dataset, script: Script) -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        let state = Arc::new(State::new(dataset, script, format!("http://{addr}")));
        let task = runtime.spawn(accept(listener, state.clone()));
        Ok(Self { addr, state, task })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:18080`, without a slash at the end.
    pub fn base_url(&self) -> &str {
        &self.state.base_url
    }

    pub fn dataset(&self) -> &Dataset {
        &self.state.dataset
    }

    /// To read and change the script while serving.
    pub fn script(&self) -> ScriptHandle {
        ScriptHandle { state: self.state.clone() }
    }

    pub fn stats(&self) -> Stats {
        self.state.stats()
    }

    /// The latest data requests in the order of their numbers, up to the script's `log_limit`.
    pub fn log(&self) -> Vec<LogEntry> {
        self.state.log.entries()
    }

    /// Requests to the provider of tweets, by the user that they were about, in lower case; of lists as `list:ID`, and `bookmarks`.
    pub fn requests_by_user(&self) -> BTreeMap<String, u64> {
        self.state.by_user()
    }

    /// Every access token is void from now on; refresh tokens stay.
    pub fn revoke_tokens(&self) {
        state::lock(&self.state.vault).revoke_tokens();
    }

    /// Every session is over from now on.
    pub fn revoke_sessions(&self) {
        state::lock(&self.state.vault).revoke_sessions();
    }

    /// Starts all counts, and with them the faults, from the beginning; the script stays.
    pub fn reset(&self) {
        self.state.reset();
    }

    /// Stops, and returns when the port is free again.
    pub async fn stop(mut self) {
        self.task.abort();
        // The only end of an aborted task is its abortion, which is no news.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The script of a running server; cheap to clone.
#[derive(Debug, Clone)]
pub struct ScriptHandle {
    state: Arc<State>,
}

impl ScriptHandle {
    pub fn get(&self) -> Script {
        Script::clone(&self.state.script())
    }

    pub fn set(&self, script: Script) {
        self.update(|current| *current = script);
    }

    /// Changes some of it: `server.script().update(|s| s.visible = Some(200))`.
    pub fn update(&self, change: impl FnOnce(&mut Script)) {
        self.state
            .change_script(|script| {
                change(script);
                Ok::<(), std::convert::Infallible>(())
            })
            .unwrap_or_else(|never| match never {});
    }
}

/// Owns the connections, so that they end with it.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    state.counters.connections.fetch_add(1, Relaxed);
                    connections.spawn(connection::serve(stream, state.clone()));
                }
                // Out of file descriptors, most likely: trying again at once would only burn the core.
                Err(_) => time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

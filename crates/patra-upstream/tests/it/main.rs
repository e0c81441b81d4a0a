//! The server as a client sees it: over a socket, with a client small enough to show every byte.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod access;
mod ceiling;
mod client;
mod control;
mod details;
mod doors;
mod family;
mod faults;
mod limits;
mod shapes;
mod tweets;
mod walks;
mod wire;

use patra_upstream::{Dataset, Script, Server};

use self::client::Client;

/// A server with 50 records, and a connection to it.
async fn start(script: Script) -> (Server, Client) {
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(listen, Dataset::new(1, 50), script).unwrap();
    let client = Client::connect(server.addr()).await;
    (server, client)
}

//! The server over a socket, with a raw client that shows every byte.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod access;
mod api_styles;
mod auth_routes;
mod ceiling;
mod client;
mod control;
mod details;
mod faults;
mod full_reads;
mod limits;
mod tweets;
mod users;
mod wire;

use patra_upstream::{Dataset, MockApi, Script};

use self::client::TestClient;

/// A server with 50 records, and a connection to it.
async fn start(script: Script) -> (MockApi, TestClient) {
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = MockApi::start(listen, Dataset::new(1, 50), script).unwrap();
    let client = TestClient::connect(server.addr()).await;
    (server, client)
}

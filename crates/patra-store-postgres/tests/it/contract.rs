//! The contract that every store keeps.

use std::sync::{Arc, Mutex};

use patra_testkit::contract::{Subject, Time, run_all};

use crate::support::{Schema, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_the_contract() {
    if server().is_none() {
        return;
    }
    let schemas = Mutex::new(Vec::new());
    run_all(async || {
        let schema = Schema::new().expect("a server");
        let store = Arc::new(schema.open().await);
        schemas.lock().unwrap().push(schema);
        Subject { store, time: Time::Real }
    })
    .await;
}

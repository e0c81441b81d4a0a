//! The contract that every store keeps, and random sequences beside the model of it.

use std::sync::{Arc, Mutex};

use patra_testkit::contract::{Subject, Time, differential, run_all};

use crate::support::{Schema, server};

/// Makes subjects, each in a schema of its own. The schemas go when this does.
#[derive(Default)]
struct Subjects(Mutex<Vec<Schema>>);

impl Subjects {
    async fn make(&self) -> Subject {
        let schema = Schema::new().expect("a server");
        let store = Arc::new(schema.open().await);
        self.0.lock().expect("the list").push(schema);
        Subject { store, time: Time::Real }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_the_contract() {
    if server().is_none() {
        return;
    }
    let subjects = Subjects::default();
    run_all(async || subjects.make().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_end_like_the_model() {
    if server().is_none() {
        return;
    }
    let seeds = std::env::var("PATRA_TEST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let subjects = Subjects::default();
    differential(async || subjects.make().await, 0..seeds).await;
}

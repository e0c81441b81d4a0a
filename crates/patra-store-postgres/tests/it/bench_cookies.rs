//! Picks of cookies from a large pool. Not a test: it prints figures. See [`patra_testkit::cookie_load`].

use std::sync::Arc;

use crate::support::Schema;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn cookie_load() {
    let Some(schema) = Schema::new() else { return };
    patra_testkit::cookie_load::measure(Arc::new(schema.open().await)).await;
}

//! Transactions are short: none is open while the program waits for a response.

use std::process::Stdio;
use std::time::Duration;

use patra_upstream::{Dataset, MockApi, Script};

use crate::support::{On, Workspace, manifest, psql};

const IDLE: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                    AND state LIKE 'idle in transaction%' AND now() - state_change > interval '500 milliseconds'";

/// Panics if a transaction is open for longer than a write takes.
fn look(place: &Workspace) {
    if let Some(url) = place.database_url() {
        assert_eq!(psql(&url, IDLE).trim(), "0");
        return;
    }
    let db = rusqlite::Connection::open(place.folder.path().join("data/patra.db")).unwrap();
    db.busy_timeout(Duration::from_millis(800)).unwrap();
    db.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
}

// covers: ING-13.1-06
on_both!(no_transaction_is_open_while_a_response_is_awaited);
async fn no_transaction_is_open_while_a_response_is_awaited(on: On) {
    let script = Script { latency_ms: 1_500, ..Script::default() };
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(5, 300), script).unwrap();
    for place in on.places() {
        place.apply(&manifest(server.base_url()));
        let mut run = place.patra();
        run.args(["run", "far", "records", "--to", "2024-01-01T12:00:00Z"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = run.spawn().unwrap();
        let mut looks = 0;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            look(&place);
            looks += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert!(status.success());
        assert!(looks > 5, "it waited for nothing: {looks}");
    }
}

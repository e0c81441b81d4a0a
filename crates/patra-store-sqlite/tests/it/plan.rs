//! Tasks of a plan that must not be executed any more.

use std::sync::Arc;

use patra_core::port::query::View;
use patra_core::tx::{LeaseRef, RunStarted, StartRun};
use patra_store_sqlite::{Options, SqliteStore};
use patra_testkit::ManualClock;
use patra_testkit::contract::{Fixture, Subject, make};

/// No operation fails a plan that has tasks, so this writes into the file, past the store.
// covers: ING-5.5-04
#[tokio::test]
async fn a_task_is_executed_only_while_its_plan_is_ready_or_partial() {
    for (status, goes) in [("READY", true), ("PARTIAL", true), ("FAILED", false), ("CANCELLED", false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, clock) = (folder.path().join("patra.db"), Arc::new(ManualClock::default()));
        let store = SqliteStore::open(&Options::new(path.clone(), clock.clone())).expect("a store");
        let fx = Fixture::new(Subject { store: Arc::new(store), time: clock });
        fx.plan("a", &make::windows(0, 1)).await;
        let lease = fx.next().await;
        let client = rusqlite::Connection::open(&path).expect("the file");
        client.execute("UPDATE ing_plan SET status_code = ?1", [status]).expect("a status");
        let started = fx.ok(StartRun { lease: LeaseRef::from(&lease) }).await;
        assert_eq!(matches!(started, RunStarted::Go { .. }), goes, "{status}: {started:?}");
        assert_eq!(fx.task_status(&lease).await, if goes { "EXECUTING" } else { "CANCELLED" });
        assert_eq!(fx.rows(View::Runs).await.is_empty(), !goes);
    }
}

//! The store through its public interface: the shared contract, and SQLite's own behaviour on opening and closing.

mod load;
mod open;
mod plan;
#[expect(clippy::unwrap_used, reason = "these are tests: a failure is meant to be loud")]
mod schema;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use patra_store_sqlite::{Options, SqliteStore};
use patra_testkit::ManualClock;
use patra_testkit::contract::{Subject, differential, run_case, seeds};
use tempfile::TempDir;

/// Creates subjects, each with a file of its own. The files are deleted on drop.
struct Subjects {
    folder: TempDir,
    count: AtomicUsize,
}

impl Subjects {
    fn new() -> Subjects {
        Subjects { folder: tempfile::tempdir().expect("a folder"), count: AtomicUsize::new(0) }
    }

    fn make(&self) -> Subject {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let clock = Arc::new(ManualClock::default());
        let path = self.folder.path().join(format!("{number}/patra.db"));
        let store = SqliteStore::open(&Options::new(path, clock.clone())).expect("a store");
        Subject { store: Arc::new(store), time: clock }
    }
}

// Each case of the suite names the requirements that it proves.
fn keeps(case: &str) {
    let subjects = Subjects::new();
    run_case(case, async || subjects.make());
}

/// One test per contract case.
mod contract {
    patra_testkit::contract_tests!(crate::keeps);
}

// covers: ING-DOD-12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_end_like_the_model() {
    for seed in seeds("PATRA_TEST_SEEDS", 60) {
        // Deleted before the next is made: a long run has many.
        let subjects = Subjects::new();
        differential(async || subjects.make(), [seed]).await;
    }
}

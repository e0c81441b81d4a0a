//! The store as others see it: the shared contract, and what is SQLite's own about opening and closing.

mod load;
mod open;
mod plan;
#[expect(clippy::unwrap_used, reason = "these are tests: a failure is meant to be loud")]
mod schema;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use patra_store_sqlite::{Options, SqliteStore};
use patra_testkit::ManualClock;
use patra_testkit::contract::{Subject, Time, differential, run_all};
use tempfile::TempDir;

/// Makes subjects, each with a file of its own. The files go when this does.
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
        let store = SqliteStore::open(Options::new(path, clock.clone())).expect("a store");
        Subject { store: Arc::new(store), time: Time::Manual(clock) }
    }
}

// Each case of the suite names what it proves; together:
// covers: ING-0.1-03, ING-4.4-02, ING-4.4-25, ING-7.3-03, ING-7.6-02, ING-7.7-04, ING-7.8-02, ING-7.8-03
// covers: ING-7.10-01, ING-7.10-03, ING-7.10-05, ING-9.1-01, ING-9.1-02, ING-9.1-03, ING-9.2-01, ING-9.2-02
// covers: ING-9.2-03, ING-9.2-05, ING-9.2-06, ING-9.3-04, ING-9.3-05, ING-9.3-06, ING-9.3-08, ING-9.4-03
// covers: ING-9.4-04, ING-9.4-05, ING-9.4-07, ING-9.5-01, ING-9.6-01, ING-9.6-02, ING-9.6-03, ING-9.7-01
// covers: ING-10.1-04, ING-10.2-01, ING-10.3-01, ING-10.3-03, ING-10.4-03, ING-10.5-02, ING-10.5-03, ING-10.6-01
// covers: ING-10.6-03, ING-11.1-01, ING-11.1-02, ING-11.1-03, ING-11.1-04, ING-11.2-01, ING-11.2-02, ING-11.3-02
// covers: ING-4.10-02, ING-4.10-07, ING-4.10-11, ING-4.10-12, ING-4.10-17, ING-4.10-22, ING-4.10-24, ING-4.10-42
// covers: ING-5.6-01, ING-5.6-03, ING-9.7-02
// covers: ING-15-08, ING-3.3-01, ING-3.10-03, ING-5.2-04
// covers: ING-5.2-06, ING-5.3-01, ING-5.3-02, ING-5.3-04, ING-5.3-10, ING-5.3-11, ING-5.3-13, ING-5.3-15, ING-5.3-17
// covers: ING-5.4-01, ING-5.4-04, ING-5.4-07, ING-5.4-09, ING-5.4-11, ING-5.4-15, ING-5.9-02, ING-6.1-10, ING-6.2-06
// covers: ING-6.3-07, ING-9.1-04, ING-9.3-01, ING-9.3-03, ING-9.4-01, ING-9.8-01, ING-9.8-02, ING-10.0-01, ING-10.1-01
// covers: ING-10.1-02, ING-10.1-03, ING-10.3-02, ING-10.4-02, ING-10.6-02, ING-DOD-16
// covers: ING-11.4-02, ING-11.5-03, ING-11.5-04, ING-11.8-02, ING-11.9-01, ING-11.9-02, ING-11.9-03, ING-13.2-03
// covers: ING-4.4-05, ING-4.4-06, ING-4.4-20, ING-4.4-23, ING-4.4-24, ING-4.5-03, ING-4.6-05, ING-4.9-01, ING-4.9-02
// covers: ING-4.9-04, ING-4.11-04, ING-4.13-03, ING-4.15-03, ING-8.4-02, ING-8.4-03, ING-8.5-01, ING-8.5-03
// covers: ING-3.2-04, ING-11.6-02, ING-15-02, ING-15-06, ING-5.4-08, ING-6.1-08, ING-0.2-09, ING-0.2-10, ING-2.4-06
// covers: ING-7.1-01, ING-7.3-01, ING-7.4-01, ING-7.5-01, ING-7.6-01, ING-7.6-03, ING-7.8-01, ING-7.9-03, ING-7.9-07
// covers: ING-7.10-02, ING-8.3-02, ING-11.5-02, ING-11.6-03, ING-11.7-02, ING-12.5-01, ING-12.5-02, ING-13.2-01
// covers: ING-13.3-02, ING-13.3-03, ING-13.3-04, ING-13.3-05, ING-13.3-09, ING-13.5-01, ING-13.5-03, ING-13.8-02
// covers: CRAWL-RULE-2, CRAWL-RULE-3, CRAWL-RULE-4, CRAWL-01, CRAWL-04, CRAWL-05, CRAWL-06, CRAWL-07, CRAWL-08, CRAWL-09
// covers: CRAWL-10, CRAWL-11, CRAWL-12, CRAWL-13, CRAWL-14, CRAWL-15, CRAWL-16, CRAWL-17, CRAWL-18, CRAWL-19, CRAWL-20
// covers: CRAWL-22, CRAWL-25, CRAWL-26, CRAWL-27, CRAWL-28, CRAWL-29, CRAWL-30, CRAWL-31, CRAWL-32, CRAWL-33, CRAWL-34
// covers: CRAWL-35, CRAWL-36, CRAWL-37, CRAWL-38, CRAWL-39, CRAWL-40, CRAWL-41, CRAWL-42, CRAWL-44, CRAWL-46, CRAWL-47
// covers: CRAWL-48, CRAWL-49, CRAWL-50, CRAWL-51, CRAWL-52, CRAWL-53, CRAWL-54, CRAWL-55, CRAWL-56, CRAWL-57, CRAWL-111
// covers: CRAWL-112, CRAWL-113, CRAWL-115, CRAWL-118, CRAWL-119, CRAWL-120, CRAWL-122, CRAWL-124, CRAWL-125, CRAWL-126
// covers: CRAWL-127, CRAWL-130, CRAWL-131, CRAWL-190, CRAWL-191, CRAWL-192, CRAWL-193, CRAWL-194, CRAWL-GAP-04
// covers: CRAWL-GAP-05, CRAWL-GAP-07, CRAWL-GAP-09, CRAWL-GAP-19
// covers: POOL-02, POOL-04, POOL-08, POOL-09, POOL-30, POOL-31, POOL-32, POOL-39, POOL-56, POOL-58, POOL-59, POOL-67
// covers: POOL-73, POOL-74, POOL-75, POOL-79, POOL-86, POOL-88, POOL-89, POOL-98, POOL-107, POOL-108, POOL-109, POOL-117
// covers: POOL-119, POOL-AC-03, POOL-AC-04, POOL-AC-14, MAP-C-05, MAP-C-19, MAP-C-20, MAP-C-22
// covers: TWEET-75, TWEET-76, TWEET-77, TWEET-78, TWEET-79, TWEET-80, TWEET-91, TWEET-92, TWEET-98, TWEET-99
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_the_contract() {
    let subjects = Subjects::new();
    run_all(async || subjects.make()).await;
}

// covers: ING-DOD-12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_end_like_the_model() {
    let seeds = std::env::var("PATRA_TEST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let subjects = Subjects::new();
    differential(async || subjects.make(), 0..seeds).await;
}

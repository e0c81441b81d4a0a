//! The store contract: the same cases run on every store. A store's crate makes a test of each by [`contract_tests`],
//! which calls [`run_case`].
//!
//! [`contract_tests`]: crate::contract_tests
//!
//! Where a doc comment of `patra_core::tx` leaves room, the suite settles it:
//!
//! * A lease is valid while `now < until`; from `until` on it is expired. Expiry alone fences nobody: a write is
//!   `Fenced` when the fence is not the row's, or the lease was given back, taken back or taken over.
//! * `record_remarks` of a settled trigger is `{"remark": …}` or `{"error": …}`.
//! * A cursor is found by `uk_cursor_ns`, without the endpoint. HARVEST and UPDATE cursors are FORWARD. Cursor values
//!   in text are `Ts`'s `Display`. An event's `prev_instant` is the cursor's value at that moment.
//! * Continuing a plan that is not a PARTIAL one of this trigger is a `Conflict`.
//! * `resumedFrom` is `{"runId": …, "batchNo": …}`; without a batch to resume from, `checkpoint` is null.
//! * The task's `error` is the one of its latest end: set by Partial, Failed, Requeue and Sweep, null after Succeeded.
//!   A swept run's error is a `Fault` with code LOCK_LOST, level L1 and message `lease_expired`.
//! * A page whose `before_token` or `idempotent_key` another batch holds is `Refused`. A `Failure` row never stands in
//!   the way of ending a run: its `before_token` stays null, and it is left out when its `batch_no` is taken, as after
//!   a commit whose result was lost.
//! * Ending a run that is closed returns the task's present status, whoever closed it, as long as the run is of this
//!   fence.
//! * A list shows empty `fields`, and the payload of an item that was emptied, as null. JSON may come back in another
//!   spelling, but never a payload or fields.
//! * A start that finds its plan or slice cancelled, though its task is not, cancels the task and closes its run.
//! * A stored response exists while `now < expires_at`. Repeating a page or an end keeps the first response.
//! * A refused operation changes nothing, including an end with an invalid pause.
//! * Cursor values in text are a time, or the last id. Two steps of an ID cursor may end at the same id.
//! * A note is an item of run 0, which does not exist.
//! * A key whose prefix exists is not made again (`created: false`); a revoked or unknown one is `revoked: false`.

mod alert;
mod background_job;
mod board;
mod cancel;
mod candidate;
mod capture;
mod cases;
mod clock;
mod commit;
mod concurrent;
mod control;
mod cookie;
mod coverage;
mod crawl;
mod credential;
mod cursor;
mod document;
mod end;
mod fair;
mod fan;
pub mod fixture;
mod gate;
mod items;
mod load;
mod lock;
pub mod make;
mod missing;
mod next_due;
mod note;
mod outbox;
mod plan;
mod poll;
mod pool;
mod project;
mod query;
mod queue;
pub mod random;
mod redrive;
mod refresh;
mod registry;
mod retention;
mod rows;
mod run;
mod schedule;
mod scrape;
mod segment;
mod source;
mod sweep;
mod table;
mod trigger;
mod urls;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use patra_core::Ts;
use patra_core::port::{BoxFuture, Clock, Store};

use crate::clock::ManualClock;

pub use fixture::Fixture;
pub use random::{differential, seeds};
pub use table::CASES;

/// A fresh, empty store and the way to let its time pass.
#[derive(Clone, Debug)]
pub struct Subject {
    pub store: Arc<dyn Store>,
    pub time: Arc<dyn TestTime>,
}

/// The clock that a store under test reads. It stands still until a test lets time pass.
pub trait TestTime: Clock {
    fn pass(&self, span: Duration) -> BoxFuture<'_, ()>;

    /// Sets the wall clock forward, or back if this is negative, while no time passes.
    fn step(&self, micros: i64) -> BoxFuture<'_, ()>;
}

impl TestTime for ManualClock {
    fn step(&self, micros: i64) -> BoxFuture<'_, ()> {
        ManualClock::step(self, micros);
        Box::pin(std::future::ready(()))
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.advance(span);
        Box::pin(std::future::ready(()))
    }
}

/// The time of tests that do not depend on it.
#[derive(Debug)]
struct Untimed;

impl Clock for Untimed {
    fn now(&self) -> Ts {
        panic!("this store's time cannot be set by the test")
    }
}

impl TestTime for Untimed {
    fn pass(&self, _: Duration) -> BoxFuture<'_, ()> {
        panic!("this store's time cannot be set by the test")
    }

    fn step(&self, _: i64) -> BoxFuture<'_, ()> {
        panic!("this store's time cannot be set by the test")
    }
}

impl Subject {
    /// A store whose time the test leaves alone.
    pub fn untimed(store: Arc<dyn Store>) -> Subject {
        Subject { store, time: Arc::new(Untimed) }
    }
}

/// A case. It panics if the store breaks the contract.
pub type Case = fn(Fixture) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the case of this name on the subject that `make` makes.
///
/// # Panics
///
/// When the store breaks the contract, or the case does not end.
pub fn run_case(name: &str, make: impl AsyncFnOnce() -> Subject) {
    let (_, case) = CASES.iter().find(|(known, _)| *known == name).expect("a case of this name");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let fixture = Fixture::new(make().await);
        // Runs on a worker thread, as in the program.
        let outcome = tokio::spawn(tokio::time::timeout(LONGEST_CASE, case(fixture))).await;
        match outcome.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(ended) => assert!(ended.is_ok(), "not finished within {LONGEST_CASE:?}"),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(error)) => panic!("{error}"),
        }
    });
}

const LONGEST_CASE: Duration = Duration::from_secs(120);

/// One `#[test]` per case, in a module per subject. Each calls the function whose path is given with the name of its
/// case.
#[macro_export]
macro_rules! contract_tests {
    ($run:path) => {
        $crate::contract_cases!($crate::contract_tests_of, $run);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! contract_tests_of {
    ($run:path; $($module:ident { $($name:ident),* $(,)? })*) => {$(
        mod $module {$(
            #[test]
            fn $name() {
                $run(concat!(stringify!($module), "::", stringify!($name)));
            }
        )*}
    )*};
}

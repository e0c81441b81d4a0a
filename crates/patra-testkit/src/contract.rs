//! The store contract: the same cases run on every store. A store's crate calls [`run_all`] from one test.
//!
//! Where a doc comment of `patra_core::tx` leaves room, the suite settles it:
//!
//! * A lease holds while `now < until`; from `until` on it is expired. Expiry alone fences nobody: a write is `Fenced`
//!   when the fence is not the row's, or the lease was given back, taken back or taken over.
//! * `record_remarks` of a settled trigger is `{"remark": …}` or `{"error": …}`.
//! * A cursor is found by `uk_cursor_ns`, without the endpoint. HARVEST and UPDATE cursors are FORWARD. Cursor values in
//!   text are `Ts`'s `Display`. An event's `prev_instant` is the cursor's value at that moment.
//! * Continuing a plan that is not a PARTIAL one of this trigger is a `Conflict`.
//! * `resumedFrom` is `{"runId": …, "batchNo": …}`; without a batch to resume from, `checkpoint` is null.
//! * The task's `error` is the one of its latest end: set by Partial, Failed, Requeue and Sweep, null after Succeeded.
//!   A swept run's error is a `Fault` with code LOCK_LOST, level L1 and message `lease_expired`.
//! * A page whose `before_token` or `idempotent_key` another batch holds is `Refused`. A `Failure` row never stands in
//!   the way of ending a run: its `before_token` stays null, and it is left out when its `batch_no` is taken, as after
//!   a commit whose answer was lost.
//! * Ending a run that is closed answers the task's present status, whoever closed it, as long as the run is of this
//!   fence.
//! * A list shows empty `fields`, and the payload of an item that was emptied, as null. JSON may come back in another spelling, but never a payload or fields.
//! * A start that finds its plan or slice cancelled, though its task is not, cancels the task and closes its run.
//! * A kept answer is there while `now < expires_at`. Repeating a page or an end keeps the answer of the first time.
//! * Whatever is refused leaves nothing behind, an end with a flawed hold included.
//! * Cursor values in text are a time, or the last id. Two steps of an ID cursor may end at the same id.
//! * A note is an item of run 0: whoever reads items bears with a run that never was.
//! * A key whose prefix exists is not made again (`created: false`); a revoked or unknown one is `revoked: false`.

mod ahead;
mod alert;
mod board;
mod cancel;
mod candidate;
mod capture;
mod cases;
mod chore;
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
mod found;
mod gate;
mod load;
mod lock;
pub mod make;
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
mod trigger;
mod urls;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use patra_core::port::Store;

use crate::clock::ManualClock;

pub use cases::CASES;
pub use fixture::Fixture;
pub use random::differential;

/// A fresh, empty store and the way to let its time pass.
#[derive(Clone, Debug)]
pub struct Subject {
    pub store: Arc<dyn Store>,
    pub time: Time,
}

/// Whose clock the store reads.
#[derive(Clone, Debug)]
pub enum Time {
    Manual(Arc<ManualClock>),
    /// The database's own; letting time pass means sleeping.
    Real,
}

impl Subject {
    pub async fn pass(&self, span: Duration) {
        match &self.time {
            Time::Manual(clock) => clock.advance(span),
            Time::Real => tokio::time::sleep(span).await,
        }
    }

    pub fn is_real(&self) -> bool {
        matches!(self.time, Time::Real)
    }
}

/// One case: panics when the store breaks the contract.
pub type Case = fn(Fixture) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs every case, each on a fresh subject, and panics at the end with the list of those that failed.
pub async fn run_all(make: impl AsyncFn() -> Subject) {
    let mut failures = Vec::new();
    for (name, case) in CASES {
        // A task of its own: a case's panic ends the case, not the suite.
        let outcome = tokio::spawn(tokio::time::timeout(LONGEST_CASE, case(Fixture::new(make().await)))).await;
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(_)) => failures.push(format!("{name}: not finished within {LONGEST_CASE:?}")),
            Err(error) => failures.push(format!("{name}: {}", reason(error))),
        }
    }
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), CASES.len(), failures.join("\n"));
}

const LONGEST_CASE: Duration = Duration::from_secs(120);

fn reason(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "cancelled".to_owned() };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or("panicked", |text| *text).to_owned(),
    }
}

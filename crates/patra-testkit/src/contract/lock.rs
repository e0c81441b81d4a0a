//! Workflow locks: one owner at a time, as long as it sends heartbeats.

use std::time::Duration;

use patra_core::crawl::Execution;
use patra_core::port::crawl::{CrawlFilter, MAX_ROWS};
use patra_core::state::ExecutionStatus;
use patra_core::tx::{
    AcquireExecution, EndExecution, ExecutionAcquired, ExecutionKept, KeepExecution, Recover, Recovered, TxError,
};

use super::concurrent::at_once;
use super::{Fixture, make};

pub(super) const PROJECT: &str = "default";
/// A timeout that never expires, and one that has always expired.
pub(super) const ALIVE: Duration = make::LONG;
pub(super) const DEAD: Duration = Duration::ZERO;

pub(super) fn acquire(workflow: &str, id: &str) -> AcquireExecution {
    AcquireExecution {
        project_key: PROJECT.into(),
        workflow_name: workflow.into(),
        execution_id: id.into(),
        timeout: ALIVE,
    }
}

pub(super) fn keep(id: &str) -> KeepExecution {
    KeepExecution {
        project_key: None,
        execution_id: id.into(),
        items_processed: None,
        items_failed: None,
        timeout: ALIVE,
    }
}

pub(super) fn end(id: &str, status: ExecutionStatus) -> EndExecution {
    EndExecution {
        project_key: None,
        execution_id: id.into(),
        status,
        items_processed: None,
        items_failed: None,
        timeout: ALIVE,
    }
}

fn wanted() -> CrawlFilter {
    CrawlFilter { project_key: PROJECT.into(), ..CrawlFilter::default() }
}

impl Fixture {
    /// Acquires a free lock.
    pub(super) async fn locked(&self, workflow: &str, id: &str) -> Execution {
        match self.ok(acquire(workflow, id)).await {
            ExecutionAcquired::Granted(execution) => execution,
            ExecutionAcquired::Held(execution) => panic!("{workflow} is held: {execution:?}"),
        }
    }

    async fn executions(&self, wanted: CrawlFilter) -> Vec<(i64, Execution)> {
        self.subject.store.executions(wanted).await.expect("executions")
    }

    pub(super) async fn execution(&self, id: &str) -> Execution {
        let all = self.executions(wanted()).await.into_iter().map(|(_, execution)| execution);
        all.into_iter().find(|execution| execution.execution_id == id).expect("the execution")
    }
}

// covers: CRAWL-44, CRAWL-45, CRAWL-46, CRAWL-47, CRAWL-48, CRAWL-110, CRAWL-111, CRAWL-190, CRAWL-191, CRAWL-192
pub(super) async fn workflow_lock_has_one_owner(fx: Fixture) {
    let granted = fx.locked("main", "one").await;
    let expected = Execution {
        execution_id: "one".into(),
        workflow_name: "main".into(),
        status: ExecutionStatus::Running,
        started_at: granted.started_at,
        heartbeat_at: granted.started_at,
        completed_at: None,
        items_processed: 0,
        items_failed: 0,
    };
    assert_eq!(granted, expected);
    fx.pass(Duration::from_millis(5)).await;
    assert_eq!(fx.ok(acquire("main", "two")).await, ExecutionAcquired::Held(expected.clone()));
    assert_eq!(fx.ok(acquire("main", "one")).await, ExecutionAcquired::Granted(expected.clone()), "repeated");
    assert_eq!(fx.execution("one").await, expected);
    fx.locked("other", "three").await;
    let elsewhere = AcquireExecution { project_key: "other".into(), ..acquire("main", "four") };
    assert!(matches!(fx.ok(elsewhere).await, ExecutionAcquired::Granted(_)));
    for used in [acquire("third", "one"), AcquireExecution { project_key: "other".into(), ..acquire("x", "one") }] {
        let answer = fx.run(used).await;
        assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}");
    }
    assert_eq!(fx.executions(wanted()).await.len(), 2);
}

// covers: CRAWL-50, CRAWL-51, CRAWL-112
pub(super) async fn lock_is_lost_without_heartbeats(fx: Fixture) {
    fx.locked("main", "one").await;
    fx.locked("other", "bystander").await;
    fx.pass(Duration::from_millis(5)).await;
    let taken = AcquireExecution { timeout: DEAD, ..acquire("main", "two") };
    let ExecutionAcquired::Granted(two) = fx.ok(taken).await else { panic!("the lock is nobody's") };
    let one = fx.execution("one").await;
    assert_eq!((one.status, one.completed_at), (ExecutionStatus::Timeout, Some(two.started_at)));
    assert!(one.heartbeat_at < two.started_at);
    assert_eq!(fx.execution("bystander").await.status, ExecutionStatus::Running, "another workflow");
    assert_eq!(fx.ok(keep("one")).await, ExecutionKept::Lost(one.clone()));
    assert_eq!(fx.ok(end("one", ExecutionStatus::Completed)).await, ExecutionKept::Lost(one.clone()));
    assert_eq!(fx.execution("one").await, one);
    // An ended execution cannot be acquired again, and the attempt changes nothing.
    let again = AcquireExecution { timeout: DEAD, ..acquire("main", "one") };
    assert!(matches!(fx.run(again).await, Err(TxError::Refused(_))));
    assert_eq!(fx.execution("two").await, two);
}

// covers: CRAWL-48, CRAWL-114, CRAWL-116, CRAWL-192
pub(super) async fn heartbeat_renews_a_lock(fx: Fixture) {
    let granted = fx.locked("main", "one").await;
    fx.pass(Duration::from_millis(5)).await;
    let counted = KeepExecution { items_processed: Some(7), items_failed: Some(2), ..keep("one") };
    let ExecutionKept::Kept(kept) = fx.ok(counted).await else { panic!("it lives") };
    assert!(kept.heartbeat_at > granted.heartbeat_at);
    let expected = Execution { heartbeat_at: kept.heartbeat_at, items_processed: 7, items_failed: 2, ..granted };
    assert_eq!((&kept, fx.execution("one").await), (&expected, kept.clone()));
    let ExecutionKept::Kept(kept) = fx.ok(KeepExecution { items_failed: Some(3), ..keep("one") }).await else {
        panic!("it lives")
    };
    assert_eq!((kept.items_processed, kept.items_failed), (7, 3), "counts that are not given stay");
    assert_eq!(fx.ok(keep("none")).await, ExecutionKept::Unknown);
    // An execution of another project is not found, and does not change.
    let foreign = KeepExecution { project_key: Some("other".into()), timeout: DEAD, ..keep("one") };
    assert_eq!(fx.ok(foreign).await, ExecutionKept::Unknown);
    let foreign = EndExecution { project_key: Some("other".into()), ..end("one", ExecutionStatus::Failed) };
    assert_eq!(fx.ok(foreign).await, ExecutionKept::Unknown);
    assert_eq!(fx.execution("one").await.status, ExecutionStatus::Running);
    let own = KeepExecution { project_key: Some(PROJECT.into()), ..keep("one") };
    assert!(matches!(fx.ok(own).await, ExecutionKept::Kept(_)));
    let ExecutionKept::Lost(lost) =
        fx.ok(KeepExecution { timeout: DEAD, items_processed: Some(99), ..keep("one") }).await
    else {
        panic!("it was silent for too long")
    };
    assert_eq!((lost.status, lost.items_processed), (ExecutionStatus::Timeout, 7));
    assert!(lost.completed_at.is_some());
    assert_eq!(fx.execution("one").await, lost);
    fx.locked("main", "two").await;
}

// covers: CRAWL-46, CRAWL-116, CRAWL-191
pub(super) async fn lock_is_released_once(fx: Fixture) {
    fx.locked("main", "one").await;
    for wrong in [ExecutionStatus::Running, ExecutionStatus::Timeout] {
        let answer = fx.run(end("one", wrong)).await;
        assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}");
    }
    fx.ok(KeepExecution { items_failed: Some(1), ..keep("one") }).await;
    fx.pass(Duration::from_millis(5)).await;
    let op = EndExecution { items_processed: Some(20), ..end("one", ExecutionStatus::Completed) };
    let ExecutionKept::Kept(ended) = fx.ok(op).await else { panic!("it was ours") };
    assert_eq!((ended.status, ended.items_processed, ended.items_failed), (ExecutionStatus::Completed, 20, 1));
    assert!(ended.completed_at.is_some_and(|at| at > ended.started_at));
    // A repetition returns the same and writes nothing.
    let again = EndExecution { items_processed: Some(21), timeout: DEAD, ..end("one", ExecutionStatus::Completed) };
    assert_eq!(fx.ok(again).await, ExecutionKept::Kept(ended.clone()));
    assert_eq!(fx.ok(end("one", ExecutionStatus::Failed)).await, ExecutionKept::Lost(ended.clone()));
    assert_eq!(fx.ok(keep("one")).await, ExecutionKept::Lost(ended.clone()));
    assert_eq!(fx.execution("one").await, ended);
    assert_eq!(fx.ok(end("none", ExecutionStatus::Failed)).await, ExecutionKept::Unknown);

    fx.locked("main", "two").await;
    let late = EndExecution { timeout: DEAD, items_failed: Some(5), ..end("two", ExecutionStatus::Failed) };
    let ExecutionKept::Lost(lost) = fx.ok(late).await else { panic!("it was silent for too long") };
    assert_eq!((lost.status, lost.items_failed), (ExecutionStatus::Timeout, 0));
    fx.locked("main", "three").await;
    assert!(matches!(fx.ok(end("three", ExecutionStatus::Failed)).await, ExecutionKept::Kept(_)));
}

// covers: CRAWL-97
pub(super) async fn executions_are_listed_oldest_first(fx: Fixture) {
    for at in 0..3 {
        fx.locked(&format!("w{at}"), &format!("e{at}")).await;
    }
    fx.ok(end("e0", ExecutionStatus::Failed)).await;
    fx.locked("w0", "e3").await;
    fx.ok(AcquireExecution { project_key: "other".into(), ..acquire("w0", "far") }).await;
    let ids = async |wanted: CrawlFilter| {
        let found = fx.executions(wanted).await;
        assert!(found.is_sorted_by_key(|(id, _)| *id));
        found.into_iter().map(|(_, execution)| execution.execution_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(wanted()).await, ["e0", "e1", "e2", "e3"]);
    assert_eq!(ids(CrawlFilter { workflow_name: Some("w0".into()), ..wanted() }).await, ["e0", "e3"]);
    assert_eq!(ids(CrawlFilter { execution: Some(ExecutionStatus::Running), ..wanted() }).await, ["e1", "e2", "e3"]);
    let both = CrawlFilter { workflow_name: Some("w0".into()), execution: Some(ExecutionStatus::Failed), ..wanted() };
    assert_eq!(ids(both).await, ["e0"]);
    let first = fx.executions(CrawlFilter { limit: 2, ..wanted() }).await;
    assert_eq!(first.len(), 2);
    assert_eq!(ids(CrawlFilter { after: first[1].0, limit: MAX_ROWS * 9, ..wanted() }).await, ["e2", "e3"]);
    assert_eq!(ids(CrawlFilter { limit: 0, ..wanted() }).await, [""; 0]);
    assert_eq!(ids(CrawlFilter { project_key: "other".into(), ..wanted() }).await, ["far"]);
}

// covers: CRAWL-RULE-3, CRAWL-49, CRAWL-113
pub(super) async fn fifty_concurrent_requests_for_a_lock_give_it_to_one(fx: Fixture) {
    let rounds = std::env::var("PATRA_TEST_LOCK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for round in 0..rounds {
        for callers in [2, 5, 50] {
            let id = |caller| format!("{round}.{callers}.{caller}");
            // The previous owner is dead or has released its lock.
            let timeout = if round % 2 == 0 { ALIVE } else { DEAD };
            let asked: Vec<_> = (0..callers).map(|caller| acquire("main", &id(caller))).collect();
            let mut holders = std::collections::BTreeSet::new();
            let mut granted = Vec::new();
            for answer in at_once(&fx, asked).await {
                match answer.expect("an answer") {
                    ExecutionAcquired::Granted(execution) => granted.push(execution),
                    ExecutionAcquired::Held(execution) => _ = holders.insert(execution.execution_id),
                }
            }
            assert_eq!(granted.len(), 1, "round {round} of {callers}: {granted:?}");
            assert_eq!(holders.into_iter().collect::<Vec<_>>(), [granted[0].execution_id.clone()]);
            let running = CrawlFilter { execution: Some(ExecutionStatus::Running), ..wanted() };
            assert_eq!(fx.executions(running).await.len(), 1);
            let given = EndExecution { timeout, ..end(&granted[0].execution_id, ExecutionStatus::Completed) };
            fx.ok(given).await;
        }
    }
}

// covers: CRAWL-112, CRAWL-113
pub(super) async fn concurrent_requests_for_an_expired_lock_give_it_to_one(fx: Fixture) {
    fx.locked("main", "dead").await;
    // Later callers find an owner that has just begun, which is alive unless the timeout is zero.
    fx.pass(Duration::from_secs(3_600)).await;
    let timeout = Duration::from_secs(1_800);
    let keepers = (0..20).map(|at| AcquireExecution { timeout, ..acquire("main", &format!("e{at}")) });
    let answers = at_once(&fx, keepers.collect()).await;
    let granted = answers.iter().filter(|answer| matches!(answer, Ok(ExecutionAcquired::Granted(_)))).count();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(granted, 1, "{answers:?}");
    assert_eq!(fx.execution("dead").await.status, ExecutionStatus::Timeout);
    let running = CrawlFilter { execution: Some(ExecutionStatus::Running), ..wanted() };
    assert_eq!(fx.executions(running).await.len(), 1);
}

// covers: CRAWL-130, CRAWL-132
pub(super) async fn expired_locks_are_recovered_once(fx: Fixture) {
    for at in 0..5 {
        fx.locked(&format!("w{at}"), &format!("e{at}")).await;
    }
    fx.ok(end("e0", ExecutionStatus::Completed)).await;
    assert_eq!(fx.ok(Recover { timeout: ALIVE }).await, Recovered::default());
    let mut timed_out = 0;
    for answer in at_once(&fx, vec![Recover { timeout: DEAD }; 2]).await {
        timed_out += answer.expect("an answer").executions_timed_out;
    }
    assert_eq!(timed_out, 4);
    assert_eq!(fx.ok(Recover { timeout: DEAD }).await, Recovered::default());
    assert_eq!(fx.execution("e0").await.status, ExecutionStatus::Completed);
    let over = fx.execution("e4").await;
    assert_eq!((over.status, over.completed_at.is_some()), (ExecutionStatus::Timeout, true));
    fx.locked("w1", "next").await;
}
